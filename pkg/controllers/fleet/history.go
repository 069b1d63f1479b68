// Copyright Contributors to the Open Cluster Management project

package fleet

import (
	"context"
	"errors"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"open-cluster-management.io/knative-addon/pkg/api"
	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
	"open-cluster-management.io/knative-addon/pkg/hub"
	"open-cluster-management.io/knative-addon/pkg/message"
	"open-cluster-management.io/knative-addon/pkg/revision"
)

// maxValue is the number of bytes of a request that an Event repeats.
const maxValue = 80

// History keeps the templates of KnativeFleets as ControllerRevisions. A configuration.Recorder implements it.
type History interface {
	// Record makes the templates the newest of the history.
	Record(ctx context.Context, templates *unstructured.Unstructured) error
	// MarkCompleted records that a cluster has run the templates.
	MarkCompleted(ctx context.Context, templates *unstructured.Unstructured, cluster string) (marked bool, err error)
	// FindRevision returns the revision that a request names, or a refusal with the reason why there is none.
	FindRevision(templates *unstructured.Unstructured, value string) (target *appsv1.ControllerRevision, refusal string, err error)
}

// Completions reads which specs of resources their clusters have run. A configuration.Recorder implements it.
type Completions interface {
	// IsCompleted reports whether a cluster has run the spec of the resource.
	IsCompleted(config *unstructured.Unstructured) bool
}

// templateFields lists the fields of the spec that the history keeps: a rollback changes neither the selection nor the strategy.
func templateFields() []string { return []string{"serving", "eventing"} }

// templatesOf returns a KnativeFleet that has the templates only. The result shares the templates with the argument.
func templatesOf(read *unstructured.Unstructured) *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: map[string]any{}}
	out.SetGroupVersionKind(fleetv1alpha1.Resource().GroupVersion().WithKind(fleetv1alpha1.Kind))
	out.SetNamespace(read.GetNamespace())
	out.SetName(read.GetName())
	out.SetUID(read.GetUID())
	all, _ := read.Object["spec"].(map[string]any)
	spec := map[string]any{}
	for _, field := range templateFields() {
		if template, found := all[field]; found {
			spec[field] = template
		}
	}
	out.Object["spec"] = spec
	return out
}

// keepHistory records the templates, and that a cluster has run the templates. Each is done once for a revision by this process.
func (p *pass) keepHistory(ctx context.Context, t *templates) error {
	if p.History == nil {
		return nil
	}
	if p.times.recorded != t.revision {
		err := p.History.Record(ctx, templatesOf(p.read))
		if err != nil && !errors.Is(err, revision.ErrTooLarge) {
			return err
		}
		if err != nil { // only other templates help
			log.FromContext(ctx).Error(err, "the templates have no history")
		}
		p.times.recorded = t.revision
	}
	succeeded := namesIn(p.report.clusters, phaseSucceeded)
	if p.times.completed == t.revision || len(succeeded) == 0 {
		return nil
	}
	marked, err := p.History.MarkCompleted(ctx, templatesOf(p.read), succeeded[0])
	if marked {
		p.times.completed = t.revision
	}
	return err
}

// rollBack writes the templates of the revision that the annotation of the KnativeFleet requests, and reports whether the KnativeFleet has
// changed. The same write removes the annotation: a request counts once. The clusters follow by the rollout strategy of every change.
func (p *pass) rollBack(ctx context.Context) (changed bool, err error) {
	requested, ok := p.fleet.Annotations[api.RollbackAnnotation]
	if !ok || p.History == nil || p.fleet.DeletionTimestamp != nil {
		p.times.refusal = ""
		return false, nil
	}
	target, refusal, err := p.History.FindRevision(templatesOf(p.read), strings.TrimSpace(requested))
	if err != nil {
		return false, err
	}
	if refusal == "" {
		if err = p.writeTemplates(ctx, target); !isRefusal(err) {
			return err == nil, err
		}
		refusal = fmt.Sprintf("the hub refuses the templates of revision %d: %s", target.Revision, err)
	}
	text := fmt.Sprintf("Annotation %s asks for %q: %s", api.RollbackAnnotation, message.Shorten(requested, maxValue), refusal)
	if p.times.refusal != text { // one Event for each refusal
		p.times.refusal = text
		p.Events.Eventf(p.read, nil, corev1.EventTypeWarning, "RollbackRefused", "Rollback", "%s", message.Shorten(text, message.MaxNote))
	}
	return false, nil
}

// writeTemplates writes the templates of a revision into the KnativeFleet.
func (p *pass) writeTemplates(ctx context.Context, target *appsv1.ControllerRevision) error {
	recorded, err := revision.Restore(target)
	if err != nil {
		return err
	}
	templates, _, _ := unstructured.NestedMap(recorded.Object, "spec")
	stored, err := hub.Patch(ctx, p.fleetClient(), p.read, func(changed *unstructured.Unstructured) {
		spec, _ := changed.Object["spec"].(map[string]any)
		for _, field := range templateFields() {
			delete(spec, field)
			if template, found := templates[field]; found {
				spec[field] = template
			}
		}
		annotations := mergeMaps(changed.GetAnnotations())
		delete(annotations, api.RollbackAnnotation)
		changed.SetAnnotations(annotations)
	})
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	p.Events.Eventf(stored, target, corev1.EventTypeNormal, "RolledBack", "Rollback",
		"The templates are those of revision %d (hash %.12s) again, as annotation %s asked for %q; the templates reach the clusters as any change",
		target.Revision, revision.HashOf(target), api.RollbackAnnotation, message.Shorten(p.fleet.Annotations[api.RollbackAnnotation], maxValue))
	return nil
}
