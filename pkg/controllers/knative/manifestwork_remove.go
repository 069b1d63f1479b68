// Copyright Contributors to the Open Cluster Management project

package knative

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/hub"
	"open-cluster-management.io/knative-addon/pkg/message"
	"open-cluster-management.io/knative-addon/pkg/status"
)

// handoverRetry is the time until the next pass while an add-on passes from one owner to the next.
const handoverRetry = 2 * time.Second

// Remove implements Delivery. The pass disables the add-on of the resource, waits until the add-on is gone, and drops the
// finalizer. The add-on is found by name, wherever the reference leads now.
func (m *ManifestWork) Remove(ctx context.Context, resource *Resource) (Outcome, error) {
	s, err := m.gatherScope(resource)
	if err != nil {
		return Outcome{}, err
	}
	switch {
	case s.awaitsHandover():
		return Outcome{RequeueAfter: handoverRetry}, nil // the next add-on belongs to the resource again
	case !s.ownsAddOn():
		return m.removeUnowned(ctx, s)
	case s.isPlacementManaged() && s.addOn.DeletionTimestamp == nil:
		// A Placement decides whether the cluster has the add-on. The add-on only loses this configuration.
		return Outcome{}, m.patchAddOn(ctx, s, func(changed *addonv1beta1.ManagedClusterAddOn) {
			delete(changed.Annotations, api.InstalledForAnnotation)
			changed.Spec.Configs = m.otherAddOnConfigs(changed.Spec.Configs)
		})
	}
	if err := m.copyRemovalAnnotations(ctx, s); err != nil {
		return Outcome{}, err
	}
	if s.addOn.DeletionTimestamp == nil {
		if err := m.deleteAddOn(ctx, s); err != nil {
			return Outcome{}, err
		}
	}
	if err := m.resolveReference(s); err != nil {
		return Outcome{}, err
	}
	return Outcome{Installation: &status.Installation{Target: findingOfResolution(s.resolution), Owned: true, Removing: describeRemoval(s, m.Clock.Now())}}, nil
}

// removeUnowned drops the finalizer of a resource that owns no add-on, according to the hub itself. The cache may be behind after
// a creation or a takeover, and an add-on whose resource is gone would stay for ever.
func (m *ManifestWork) removeUnowned(ctx context.Context, s *scope) (Outcome, error) {
	owned, err := m.ownsLiveAddOn(ctx, s)
	if err != nil {
		return Outcome{}, err
	}
	if owned {
		return Outcome{RequeueAfter: staleRetry}, nil
	}
	return Outcome{}, m.releaseFinalizer(ctx, s)
}

// ownsLiveAddOn asks the hub whether the resource owns the add-on.
func (m *ManifestWork) ownsLiveAddOn(ctx context.Context, s *scope) (bool, error) {
	if !s.refers {
		return false, nil
	}
	addOn, err := m.AddOnClient.AddonV1beta1().ManagedClusterAddOns(s.ref.Name).Get(ctx, m.Component.AddOnName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("cannot get ManagedClusterAddOn \"%s/%s\": %w", s.ref.Name, m.Component, err)
	}
	return s.isConfigOf(addOn), nil
}

// deleteAddOn deletes the add-on and emits an Event about annotations that do not count for the removal.
func (m *ManifestWork) deleteAddOn(ctx context.Context, s *scope) error {
	err := m.AddOnClient.AddonV1beta1().ManagedClusterAddOns(s.addOn.Namespace).Delete(ctx, s.addOn.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &s.addOn.UID},
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("cannot delete ManagedClusterAddOn \"%s/%s\": %w", s.addOn.Namespace, s.addOn.Name, err)
	}
	if s.Annotations.Reason != "" {
		m.Events.Eventf(s.Config, nil, corev1.EventTypeWarning, s.Annotations.Reason, "Remove", "%s",
			message.Shorten(fmt.Sprintf("Cluster %q: annotations without effect: %s", s.ref.Name, s.Annotations.Message), message.MaxNote))
	}
	return nil
}

// copyRemovalAnnotations copies the annotations about the removal from the resource to the add-on, because other controllers
// remove the add-on. The add-on loses copies that the resource no longer has, or that are no longer permitted, and keeps
// annotations that an administrator set on the add-on, unless a permitted annotation of the resource has another value. An unknown value
// requests nothing.
func (m *ManifestWork) copyRemovalAnnotations(ctx context.Context, s *scope) error {
	annotations := maps.Clone(s.addOn.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	before := s.addOn.Annotations[api.PassedOnAnnotation]
	copied := slices.DeleteFunc(strings.Split(before, ","), func(name string) bool { return name == "" })
	for _, name := range []string{api.ForceOrphanAnnotation, api.DeletionPolicyAnnotation} {
		desired, requested := s.Annotations.Permitted[name]
		current, exists := s.addOn.Annotations[name]
		switch {
		case requested && (!exists || current != desired):
			annotations[name] = desired
			copied = append(copied, name)
		case !requested && slices.Contains(copied, name):
			delete(annotations, name)
			copied = slices.DeleteFunc(copied, func(n string) bool { return n == name })
		}
	}
	slices.Sort(copied)
	delete(annotations, api.PassedOnAnnotation)
	if len(copied) > 0 {
		annotations[api.PassedOnAnnotation] = strings.Join(slices.Compact(copied), ",")
	}
	return m.patchAddOn(ctx, s, func(changed *addonv1beta1.ManagedClusterAddOn) { changed.Annotations = annotations })
}

// describeRemoval returns the current step of the removal.
func describeRemoval(s *scope, now time.Time) string {
	where := fmt.Sprintf("removing the installation from cluster %q", s.ref.Name)
	if c := apimeta.FindStatusCondition(s.addOn.Status.Conditions, api.RemovalHeld); c != nil && c.Status == metav1.ConditionTrue {
		return where + ": " + c.Message
	}
	if s.crds != nil {
		if s.crds.DeletionTimestamp != nil {
			return where + ": " + manifestwork.DescribeDeletion(s.crds)
		}
		if applied, why := manifestwork.Applied(s.crds); !applied {
			return fmt.Sprintf("%s: the CRDs are removed first: ManifestWork %q: %s", where, s.crds.Name, why)
		}
		return where + ": the CRDs, and with the CRDs the resources of users, are removed first"
	}
	for _, p := range s.payloads {
		if removal, err := manifestwork.NextRemoval(p, now); err == nil {
			return where + ": " + removal.Why
		}
	}
	if s.foundation != nil && s.foundation.DeletionTimestamp != nil {
		return where + ": " + manifestwork.DescribeDeletion(s.foundation)
	}
	if s.foundation != nil {
		return where + ": the work agent's permissions are removed last"
	}
	return where
}

// releaseFinalizer drops the finalizer and emits an Event about the end of the removal. An add-on that exists belongs to another
// owner and stays.
func (m *ManifestWork) releaseFinalizer(ctx context.Context, s *scope) error {
	changed, err := hub.Patch(ctx, m.ConfigClient.Resource(m.Component.Resource()).Namespace(s.Config.GetNamespace()), s.Config, func(changed *unstructured.Unstructured) {
		controllerutil.RemoveFinalizer(changed, m.Finalizer())
	})
	switch {
	case err == nil:
		s.Config = changed
	case !apierrors.IsNotFound(err):
		return err
	}
	if s.addOn != nil {
		return nil
	}
	if s.Annotations.Permitted[api.ForceOrphanAnnotation] == "true" {
		m.Events.Eventf(s.Config, nil, corev1.EventTypeWarning, "Orphaned", "Release",
			"The objects of %s stay on cluster %q, as annotation %s requests: Event Orphaned of the ManagedClusterAddOn lists the objects", m.Component, s.ref.Name, api.ForceOrphanAnnotation)
		return nil
	}
	if s.foundation != nil && manifestwork.IsOrphaned(s.foundation) { // an administrator annotated the add-on, or detached the cluster
		m.Events.Eventf(s.Config, nil, corev1.EventTypeWarning, "Orphaned", "Release",
			"The objects of %s stay on cluster %q: Event Orphaned of the ManagedClusterAddOn has the cause, and lists the objects", m.Component, s.ref.Name)
		return nil
	}
	m.Events.Eventf(s.Config, nil, corev1.EventTypeNormal, "Removed", "Remove", "%s of this resource is removed from cluster %q", m.Component, s.ref.Name)
	return nil
}
