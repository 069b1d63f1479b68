// Copyright Contributors to the Open Cluster Management project

package fleet

import (
	"context"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/hub"
	"open-cluster-management.io/knative-addon/pkg/revision"
)

// applyPause passes the pause of the KnativeFleet on to all children at once, in no wave, and ends the pause of the children that
// applyPause has paused before. A child that a user has paused stays paused. done reports that no child is left to write.
func (p *pass) applyPause(ctx context.Context) (done bool, err error) {
	p.report.paused = revision.Paused(p.fleet.Annotations)
	writes := 0
	for _, component := range api.Components() {
		for _, name := range slices.Sorted(maps.Keys(p.children[component])) {
			child := p.children[component][name]
			if !metav1.IsControlledBy(child, p.fleet) || !p.changesPause(child) {
				continue
			}
			if writes++; writes > maxWrites {
				p.requeueWithin(moreWrites)
				return false, nil
			}
			stored, err := hub.Patch(ctx, p.childClient(component), child, p.setPause)
			if client.IgnoreNotFound(err) != nil {
				return false, err
			}
			if err == nil {
				p.children[component][name] = stored
			}
		}
	}
	return writes == 0, nil
}

// changesPause reports whether a child has to be paused, or to go on.
func (p *pass) changesPause(child *unstructured.Unstructured) bool {
	annotations := child.GetAnnotations()
	if p.report.paused {
		return !revision.Paused(annotations)
	}
	_, paused := annotations[api.FleetPausedAnnotation]
	return paused
}

// setPause pauses a child, or ends the pause.
func (p *pass) setPause(child *unstructured.Unstructured) {
	annotations := mergeMaps(child.GetAnnotations())
	if p.report.paused {
		annotations[api.PausedAnnotation], annotations[api.FleetPausedAnnotation] = "true", "true"
	} else {
		delete(annotations, api.PausedAnnotation)
		delete(annotations, api.FleetPausedAnnotation)
	}
	child.SetAnnotations(annotations)
}
