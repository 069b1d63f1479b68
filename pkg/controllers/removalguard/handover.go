// Copyright Contributors to the Open Cluster Management project

package removalguard

import (
	"context"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/hub"
	"open-cluster-management.io/knative-addon/pkg/message"
	"open-cluster-management.io/knative-addon/pkg/revision"
	"open-cluster-management.io/knative-addon/pkg/target"
)

// handOverWorks removes the add-on from the owners of its works and then releases the add-on, one step in each pass: a step begins
// when the cache shows the result of the previous step. Kubernetes would collect works whose owner is gone.
func (r *Reconciler) handOverWorks(ctx context.Context, s *scope, p *pendingRemoval) error {
	if changed, err := r.setHeldCondition(ctx, p); changed || err != nil {
		return err
	}
	foundation, others, err := r.listWorks(s, p)
	if err != nil {
		return err
	}
	if ready, err := r.ensureHandover(ctx, s, p); !ready || err != nil {
		return err
	}
	var errs []error
	released := true
	if foundation != nil {
		others = append([]*workv1.ManifestWork{foundation}, others...)
	}
	for _, w := range others {
		if isOwnedBy(w, p) {
			released = false
			errs = append(errs, r.removeOwner(ctx, p, w))
		}
	}
	if !released {
		return errors.Join(errs...)
	}
	return r.patchAddOn(ctx, p, func(a *addonv1beta1.ManagedClusterAddOn) { controllerutil.RemoveFinalizer(a, api.FoundationFinalizer) })
}

// ensureHandover records spec.configs of the add-on for its successor, in an object that no managed cluster may write. Ready
// reports whether the cache shows the record. The data of a ControllerRevision cannot change, so that a record with other data is
// deleted first.
func (r *Reconciler) ensureHandover(ctx context.Context, s *scope, p *pendingRemoval) (ready bool, err error) {
	cluster, err := r.Clusters.Get(p.Namespace)
	if err != nil {
		return false, fmt.Errorf("cannot get ManagedCluster %q: %w", p.Namespace, err)
	}
	source := p.ManagedClusterAddOn
	if uid := p.Annotations[api.ClusterUIDAnnotation]; uid != "" && uid != string(cluster.UID) { // another ManagedCluster of the same name
		source = p.DeepCopy()
		source.Spec.Configs = nil
	}
	desired, err := revision.NewHandover(source, cluster)
	if err != nil {
		return false, err
	}
	current, stale, err := revision.HandoverOf(r.Revisions, s.component, p.Namespace, cluster)
	switch {
	case err != nil:
		return false, err
	case stale != nil:
		return false, r.deleteHandover(ctx, stale)
	case current == nil:
		if _, err := r.RevisionClient.AppsV1().ControllerRevisions(desired.Namespace).Create(ctx, desired, metav1.CreateOptions{}); err != nil {
			return false, fmt.Errorf("cannot create ControllerRevision \"%s/%s\": %w", desired.Namespace, desired.Name, err)
		}
		return false, nil
	}
	unchanged, err := hasConfigsOf(current, source)
	if err != nil || !unchanged {
		return false, errors.Join(err, r.deleteHandover(ctx, current))
	}
	return true, nil
}

func hasConfigsOf(record *appsv1.ControllerRevision, addOn *addonv1beta1.ManagedClusterAddOn) (bool, error) {
	configs, err := revision.HandedOverConfigs(record)
	return slices.Equal(configs, addOn.Spec.Configs), err
}

func (r *Reconciler) deleteHandover(ctx context.Context, record *appsv1.ControllerRevision) error {
	err := r.RevisionClient.AppsV1().ControllerRevisions(record.Namespace).Delete(ctx, record.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &record.UID},
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("cannot delete ControllerRevision \"%s/%s\": %w", record.Namespace, record.Name, err)
	}
	return nil
}

// listWorks returns the foundation, or nil, and the other works of an add-on: the payloads, and the gate and the verification if
// both exist.
func (r *Reconciler) listWorks(s *scope, p *pendingRemoval) (foundation *workv1.ManifestWork, others []*workv1.ManifestWork, err error) {
	foundation, err = r.findWork(p.Namespace, manifestwork.FoundationName(s.component))
	if err != nil {
		return nil, nil, err
	}
	others, err = r.Payloads.ManifestWorks(p.Namespace).List(labels.SelectorFromSet(labels.Set{addonv1beta1.AddonLabelKey: p.Name}))
	if err != nil {
		return nil, nil, fmt.Errorf("cannot list the works of cluster %q: %w", p.Namespace, err)
	}
	for _, name := range []string{manifestwork.GateName(s.component), manifestwork.VerificationName(s.component)} {
		w, err := r.findWork(p.Namespace, name)
		if err != nil {
			return nil, nil, err
		}
		if w != nil {
			others = append(others, w)
		}
	}
	return foundation, others, nil
}

// findWork returns the foundation or gate with the name, or nil.
func (r *Reconciler) findWork(namespace, name string) (*workv1.ManifestWork, error) {
	o, exists, err := r.Foundations.GetByKey(namespace + "/" + name)
	if err != nil {
		return nil, fmt.Errorf("cannot get ManifestWork \"%s/%s\": %w", namespace, name, err)
	}
	if !exists {
		return nil, nil
	}
	w, _ := o.(*workv1.ManifestWork)
	return w, nil
}

func isOwnedBy(w *workv1.ManifestWork, p *pendingRemoval) bool {
	return slices.ContainsFunc(w.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == p.UID })
}

// removeOwner removes the add-on from the owners of a work. Spec and labels stay: the work agent does nothing.
func (r *Reconciler) removeOwner(ctx context.Context, p *pendingRemoval, w *workv1.ManifestWork) error {
	_, err := hub.Patch(ctx, r.WorkClient.WorkV1().ManifestWorks(w.Namespace), w, func(changed *workv1.ManifestWork) {
		changed.OwnerReferences = slices.DeleteFunc(changed.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == p.UID })
	})
	return err
}

// recreateAddOns creates the add-on of works that lost theirs. OCM or the install controller may be first. But works must never
// stay without an add-on, whatever changed in between, since the add-on is the handle of their removal. The finalizer is there from
// the creation, since OCM may delete the add-on at once.
func (r *Reconciler) recreateAddOns(ctx context.Context, s *scope) error {
	var errs []error
	for _, record := range s.handovers {
		errs = append(errs, r.recreateAddOn(ctx, s.component, record))
	}
	return errors.Join(errs...)
}

func (r *Reconciler) recreateAddOn(ctx context.Context, component api.Component, record *appsv1.ControllerRevision) error {
	_, exists, err := r.AddOns.GetByKey(record.Namespace + "/" + component.AddOnName())
	if err != nil || exists {
		return err // package managedclusteraddon deletes the record when the add-on owns the works
	}
	cluster, err := r.Clusters.Get(record.Namespace)
	if apierrors.IsNotFound(err) || err == nil && cluster.DeletionTimestamp != nil {
		return nil // OCM removes the works, and Kubernetes removes the record with the ManagedCluster
	}
	if err != nil {
		return fmt.Errorf("cannot get ManagedCluster %q: %w", record.Namespace, err)
	}
	current, _, err := revision.HandoverOf(r.Revisions, component, record.Namespace, cluster)
	if err != nil {
		return err
	}
	foundation, err := r.findWork(record.Namespace, manifestwork.FoundationName(component))
	if err != nil {
		return err
	}
	switch {
	case current == nil, foundation == nil, manifestwork.IsOrphaned(foundation):
		return r.deleteHandover(ctx, record)
	case foundation.DeletionTimestamp != nil:
		return nil
	}
	if err := r.createAddOn(ctx, component, current); err != nil {
		r.Events.Eventf(foundation, nil, corev1.EventTypeWarning, "HandoverFailed", "Create", "%s", message.Shorten(err.Error(), message.MaxNote))
		return err
	}
	return nil
}

func (r *Reconciler) createAddOn(ctx context.Context, component api.Component, record *appsv1.ControllerRevision) error {
	a := &addonv1beta1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{
		Namespace: record.Namespace, Name: component.AddOnName(), Finalizers: []string{api.FoundationFinalizer},
	}}
	var err error
	if a.Spec.Configs, err = revision.HandedOverConfigs(record); err != nil {
		return err
	}
	if name, ok := target.ConfiguredBy(a); ok {
		config, err := revision.Live(r.Configs[component], component, name)
		if err != nil {
			return err
		}
		if config != nil && refersToCluster(config, a.Namespace) {
			a.Annotations = map[string]string{api.InstalledForAnnotation: name.String()}
		}
	}
	_, err = r.AddOnClient.AddonV1beta1().ManagedClusterAddOns(a.Namespace).Create(ctx, a, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("cannot create ManagedClusterAddOn \"%s/%s\": %w", a.Namespace, a.Name, err)
	}
	return nil
}
