// Copyright Contributors to the Open Cluster Management project

package configuration

import (
	"context"
	"fmt"
	"maps"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/message"
	"open-cluster-management.io/knative-addon/pkg/revision"
)

// rollBack writes the spec of the revision that the annotation of the resource requests. A rollback changes only the spec, so that the
// clusters follow by the rollout strategy of every change. The same write removes the annotation: a request counts once.
func (r *Reconciler) rollBack(ctx context.Context, config *unstructured.Unstructured) error {
	requested, ok := config.GetAnnotations()[api.RollbackAnnotation]
	if !ok {
		r.refusals.Delete(client.ObjectKeyFromObject(config))
		return nil
	}
	target, refusal, err := r.FindRevision(config, strings.TrimSpace(requested))
	if err != nil {
		return err
	}
	if refusal == "" {
		err = r.writeSpec(ctx, config, target)
		switch {
		case apierrors.IsInvalid(err), apierrors.IsForbidden(err): // a CRD, a webhook or an admission policy refuses the spec
			refusal = fmt.Sprintf("the hub refuses the spec of revision %d: %s", target.Revision, err)
		case err != nil && !apierrors.IsNotFound(err):
			return err
		default:
			r.refusals.Delete(client.ObjectKeyFromObject(config))
			return nil
		}
	}
	r.reportRefusal(config, refusal)
	return nil
}

// writeSpec writes the spec of the revision into the resource and removes the annotation.
func (r *Reconciler) writeSpec(ctx context.Context, config *unstructured.Unstructured, target *appsv1.ControllerRevision) error {
	changed, err := withSpecOf(config, target)
	if err != nil {
		return err
	}
	_, err = r.ConfigClient.Resource(r.Component.Resource()).Namespace(config.GetNamespace()).Update(ctx, changed, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("cannot write the spec of revision %d into %s \"%s/%s\": %w",
			target.Revision, r.Component.Kind(), config.GetNamespace(), config.GetName(), err)
	}
	r.Events.Eventf(config, target, corev1.EventTypeNormal, "RolledBack", "Rollback",
		"The spec is that of revision %d (hash %.12s%s) again, as annotation %s requested %q; the spec reaches the clusters as any change of the spec",
		target.Revision, revision.HashOf(target), describeCompletion(target), api.RollbackAnnotation, message.Shorten(config.GetAnnotations()[api.RollbackAnnotation], maxValue))
	return nil
}

// describeCompletion names the cluster that completed the revision first, for the note of an Event.
func describeCompletion(target *appsv1.ControllerRevision) string {
	if cluster := target.Annotations[api.CompletedAnnotation]; cluster != "" {
		return fmt.Sprintf(", first completed by cluster %q", cluster)
	}
	return ""
}

// withSpecOf returns a copy of the resource with the spec of the revision and the recorded annotations that affect rendering. The
// reference to a ClusterProfile stays: the reference names the cluster and cannot change. The request for a verification stays too: a
// rollback is a change that is verified like others.
func withSpecOf(config *unstructured.Unstructured, target *appsv1.ControllerRevision) (*unstructured.Unstructured, error) {
	recorded, err := revision.Restore(target)
	if err != nil {
		return nil, err
	}
	spec, _, _ := unstructured.NestedMap(recorded.Object, "spec")
	if spec == nil {
		spec = map[string]any{}
	}
	delete(spec, "clusterProfileRef")
	if ref, ok, _ := unstructured.NestedMap(config.Object, "spec", "clusterProfileRef"); ok {
		spec["clusterProfileRef"] = ref
	}
	changed := config.DeepCopy()
	changed.Object["spec"] = spec
	annotations := changed.GetAnnotations()
	verification, isRequested := annotations[api.VerificationAnnotation]
	delete(annotations, api.RollbackAnnotation)
	for name := range revision.Annotations(annotations) {
		delete(annotations, name)
	}
	maps.Copy(annotations, recorded.GetAnnotations())
	delete(annotations, api.VerificationAnnotation)
	if isRequested {
		annotations[api.VerificationAnnotation] = verification
	}
	changed.SetAnnotations(annotations)
	return changed, nil
}

// reportRefusal emits an Event with the reason why the spec stays, unless the previous Event of the resource was equal.
func (r *Reconciler) reportRefusal(config *unstructured.Unstructured, refusal string) {
	text := fmt.Sprintf("Annotation %s asks for %q: %s", api.RollbackAnnotation, message.Shorten(config.GetAnnotations()[api.RollbackAnnotation], maxValue), refusal)
	if last, _ := r.refusals.Swap(client.ObjectKeyFromObject(config), text); last == text {
		return
	}
	r.Events.Eventf(config, nil, corev1.EventTypeWarning, "RollbackRefused", "Rollback", "%s", message.Shorten(text, message.MaxNote))
}

// maxValue is the number of bytes of a user's text that a note repeats.
const maxValue = 80
