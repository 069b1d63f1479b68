// Copyright Contributors to the Open Cluster Management project

package managedclusteraddon

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/hub"
	"open-cluster-management.io/knative-addon/pkg/message"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/revision"
)

// The agent of a cluster may write ManifestWorks in the namespace of the cluster, and the status of ManagedClusterAddOns. Records
// that affect more than that cluster are therefore kept in the metadata of the ManagedClusterAddOn and in ControllerRevisions.
// docs/design/0011-records-of-the-hub.md has the reasons.

// ensureRecord records on the add-on which ManagedCluster the add-on is on and which configurations the hub gave to the add-on.
func (r *Reconciler) ensureRecord(ctx context.Context, s *scope) (written bool, err error) {
	annotations := map[string]string{}
	grants, err := r.Granter.Grants(s.addon)
	if err != nil {
		return false, err
	}
	if text := strings.Join(grants, ","); text != s.addon.Annotations[api.GrantedConfigsAnnotation] {
		annotations[api.GrantedConfigsAnnotation] = text
	}
	if s.cluster != nil && string(s.cluster.UID) != s.addon.Annotations[api.ClusterUIDAnnotation] {
		annotations[api.ClusterUIDAnnotation] = string(s.cluster.UID)
	}
	if len(annotations) == 0 {
		return false, nil
	}
	if s.isClusterReplaced() {
		if err := r.resetVersionRecords(ctx, s); err != nil {
			return false, err
		}
	}
	return true, r.patchAddOn(ctx, s, func(a *addonv1beta1.ManagedClusterAddOn) { a.Annotations = labels.Merge(a.Annotations, annotations) })
}

// isClusterReplaced reports whether another ManagedCluster has the name since the add-on recorded the UID of the ManagedCluster.
func (s *scope) isClusterReplaced() bool {
	recorded := s.addon.Annotations[api.ClusterUIDAnnotation]
	return s.cluster != nil && recorded != "" && recorded != string(s.cluster.UID)
}

// resetVersionRecords removes the finished Jobs and the running version of the former cluster from the foundation: the Jobs of an
// installation run again.
func (r *Reconciler) resetVersionRecords(ctx context.Context, s *scope) error {
	r.Events.Eventf(s.addon, nil, corev1.EventTypeWarning, "ClusterReplaced", "Record",
		"ManagedCluster %q was registered again (UID %s, before %s): the records of the former cluster no longer apply",
		s.cluster.Name, s.cluster.UID, s.addon.Annotations[api.ClusterUIDAnnotation])
	if s.annotationOfFoundation(api.FinishedJobsAnnotation) == "" && s.annotationOfFoundation(api.RunningVersionAnnotation) == "" {
		return nil
	}
	return r.patchWork(ctx, s.foundation, func(w *workv1.ManifestWork) {
		delete(w.Annotations, api.FinishedJobsAnnotation)
		delete(w.Annotations, api.RunningVersionAnnotation)
	})
}

// patchAddOn changes the add-on, and fails when the add-on has changed since the last read or write of the pass.
func (r *Reconciler) patchAddOn(ctx context.Context, s *scope, change func(*addonv1beta1.ManagedClusterAddOn)) error {
	written, err := hub.Patch(ctx, r.AddOnClient.AddonV1beta1().ManagedClusterAddOns(s.addon.Namespace), s.addon, change)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	s.addon = written
	return nil
}

// noteRefusedConfig emits one Event for a configuration that the hub did not give to the add-on. text is the message of the
// condition that reports the configuration.
func (r *Reconciler) noteRefusedConfig(s *scope, text string) {
	c := apimeta.FindStatusCondition(s.addon.Status.Conditions, api.TargetClusterResolved)
	if c == nil || c.Reason != api.ReasonConfigNotGranted || c.Message != text {
		r.Events.Eventf(s.addon, nil, corev1.EventTypeWarning, api.ReasonConfigNotGranted, "Refuse", "%s", message.OneLine(text, message.MaxNote))
	}
}

// inheritsConfigs reports whether the add-on has no spec.configs and replaces an add-on with spec.configs: OCM creates add-ons without
// spec.configs.
func (s *scope) inheritsConfigs() bool {
	if s.handover == nil || s.foundation == nil || len(s.addon.Spec.Configs) > 0 {
		return false
	}
	configs, err := revision.HandedOverConfigs(s.handover)
	return err != nil || len(configs) > 0
}

// inheritConfigs copies spec.configs of the replaced add-on.
func (r *Reconciler) inheritConfigs(ctx context.Context, s *scope) error {
	configs, err := revision.HandedOverConfigs(s.handover)
	if err != nil {
		return err
	}
	return r.patchAddOn(ctx, s, func(a *addonv1beta1.ManagedClusterAddOn) { a.Spec.Configs = configs })
}

// endHandover deletes the hand-over as soon as the works belong to the add-on.
func (r *Reconciler) endHandover(ctx context.Context, s *scope) error {
	if s.handover == nil || s.foundation == nil || !slices.ContainsFunc(s.foundation.OwnerReferences,
		func(o metav1.OwnerReference) bool { return o.UID == s.addon.UID }) {
		return nil
	}
	err := r.RevisionClient.AppsV1().ControllerRevisions(s.namespace).Delete(ctx, s.handover.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &s.handover.UID},
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("cannot delete ControllerRevision \"%s/%s\": %w", s.namespace, s.handover.Name, err)
	}
	return nil
}

// recordCompletion notes on the revision of the configuration that the cluster runs the revision. The note counts for other clusters
// too (api.RollbackLastKnownGood). Only the present spec of the resource gets a note, while OCM rolls the spec out: no cluster
// completes a failed revision afterwards. The report that the workloads run comes from the cluster, which may run another rendering.
func (r *Reconciler) recordCompletion(ctx context.Context, s *scope, bundle *render.Bundle) error {
	desired := revision.Desired(s.addon)
	if desired == nil {
		return nil
	}
	o, exists, err := r.Revisions.GetByKey(desired.Namespace + "/" + revision.Name(s.component, desired.Name, desired.SpecHash))
	record, ok := o.(*appsv1.ControllerRevision)
	if err != nil || !exists || !ok || record.Annotations[api.CompletedAnnotation] != "" || !r.isLiveSpec(s.component, desired) {
		return err
	}
	resource := manifestwork.ConfigKey(s.component, types.NamespacedName{Namespace: desired.Namespace, Name: desired.Name})
	isDelivered := manifestwork.HasOtherRendering(bundle, s.payloads) || manifestwork.MatchBundle(s.payloads, bundle, s.foundation)
	if manifestwork.Delivered(s.payloads)[resource] != desired.SpecHash || !isDelivered || !s.runsPayload(bundle) || !s.isVerified(bundle) {
		return nil
	}
	_, err = hub.Patch(ctx, r.RevisionClient.AppsV1().ControllerRevisions(record.Namespace), record, func(changed *appsv1.ControllerRevision) {
		metav1.SetMetaDataAnnotation(&changed.ObjectMeta, api.CompletedAnnotation, s.namespace)
	})
	return client.IgnoreNotFound(err)
}

// isLiveSpec reports whether the present spec of the resource has the hash.
func (r *Reconciler) isLiveSpec(component api.Component, desired *addonv1beta1.ConfigSpecHash) bool {
	config := r.findConfig(component, types.NamespacedName{Namespace: desired.Namespace, Name: desired.Name})
	if config == nil {
		return false
	}
	hash, err := revision.Hash(config)
	return err == nil && hash == desired.SpecHash
}

// requestsNotGranted enqueues the add-ons whose status names a configuration that the hub has not given, and may give now.
func (r *Reconciler) requestsNotGranted(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.requestsMatching(ctx, func(a *addonv1beta1.ManagedClusterAddOn) bool {
		return slices.ContainsFunc(a.Status.ConfigReferences, func(ref addonv1beta1.ConfigReference) bool {
			return ref.DesiredConfig != nil && !revision.Granted(a, ref.ConfigGroupResource, ref.DesiredConfig.ConfigReferent)
		})
	})
}

// requestOfHandover enqueues the add-on that a hand-over is for.
func requestOfHandover(_ context.Context, o client.Object) []reconcile.Request {
	component := o.GetLabels()[api.RevisionLabel]
	if o.GetName() != revision.HandoverName(api.Component(component)) {
		return nil
	}
	return requestOf(o.GetNamespace(), component)
}

// ensureFinalizer sets the finalizer before the first object of the add-on is delivered. An add-on that is gone is an error: Kubernetes would delete
// the works that the pass writes for the add-on.
func (r *Reconciler) ensureFinalizer(ctx context.Context, s *scope) error {
	written, err := hub.Patch(ctx, r.AddOnClient.AddonV1beta1().ManagedClusterAddOns(s.addon.Namespace), s.addon,
		func(a *addonv1beta1.ManagedClusterAddOn) { controllerutil.AddFinalizer(a, api.FoundationFinalizer) })
	if err != nil {
		return err
	}
	s.addon = written
	return nil
}

func (r *Reconciler) releaseFinalizer(ctx context.Context, s *scope) error {
	return r.patchAddOn(ctx, s, func(a *addonv1beta1.ManagedClusterAddOn) { controllerutil.RemoveFinalizer(a, api.FoundationFinalizer) })
}
