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
// applyPause has paused before. A child that a user has paused stays paused. done reports that the pass has written no child, so that the pass may
// continue; children that the API server refuses do not hold the others up.
func (p *pass) applyPause(ctx context.Context) (done bool, err error) {
	p.report.paused = revision.Paused(p.fleet.Annotations)
	maps.DeleteFunc(p.times.refusals, func(w childWrite, _ refusal) bool {
		return w.kind == pausing && !p.changesPause(p.children[w.component][w.name])
	})
	writes := 0
	for _, component := range api.Components() {
		for _, name := range slices.Sorted(maps.Keys(p.children[component])) {
			child := p.children[component][name]
			w := childWrite{kind: pausing, component: component, name: name}
			if !p.changesPause(child) || !p.times.refusals.permits(w, p.now) {
				continue
			}
			if writes == maxWrites {
				p.requeueWithin(moreWrites)
				return false, nil
			}
			isRefused, err := p.tryPause(ctx, w, child)
			if err != nil {
				return false, err
			}
			if !isRefused {
				writes++
			}
		}
	}
	return writes == 0, nil
}

// tryPause pauses a child, or ends the pause, and reports whether the API server refuses the change. A refused child does not keep the other
// children from the change.
func (p *pass) tryPause(ctx context.Context, w childWrite, child *unstructured.Unstructured) (isRefused bool, err error) {
	stored, err := hub.Patch(ctx, p.childClient(w.component), child, p.setPause)
	if p.times.refusals.record(w, err, p.now) {
		return true, nil
	}
	if err == nil {
		p.children[w.component][w.name] = stored
	}
	return false, client.IgnoreNotFound(err)
}

// changesPause reports whether a child of the KnativeFleet has to be paused, or to go on. The child may be nil.
func (p *pass) changesPause(child *unstructured.Unstructured) bool {
	if child == nil || !metav1.IsControlledBy(child, p.fleet) {
		return false
	}
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
