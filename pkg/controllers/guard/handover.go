// Copyright Contributors to the Open Cluster Management project

package guard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/work"
	"open-cluster-management.io/knative-addon/pkg/revision"
	"open-cluster-management.io/knative-addon/pkg/target"
)

// handOver takes the works from an add-on and lets it go, one step a reconcile: each begins when the one before is seen
// to be done. Works with an owner that is gone would be garbage.
func (r *Reconciler) handOver(ctx context.Context, s *scope, p *pending) error {
	if told, err := r.tell(ctx, p); told || err != nil {
		return err
	}
	foundation, others, err := r.works(s, p)
	if err != nil {
		return err
	}
	configs, err := encodeConfigs(p.ManagedClusterAddOn)
	if err != nil {
		return err
	}
	var errs []error
	freed := true
	if foundation != nil && (owned(foundation, p) || foundation.Annotations[api.HandoverAnnotation] != configs) {
		freed = false
		errs = append(errs, r.free(ctx, p, foundation, map[string]any{api.HandoverAnnotation: configs}))
	}
	for _, w := range others {
		if owned(w, p) {
			freed = false
			errs = append(errs, r.free(ctx, p, w, nil))
		}
	}
	if !freed {
		return errors.Join(errs...)
	}
	return r.patchAddOn(ctx, p, map[string]any{"finalizers": slices.DeleteFunc(slices.Clone(p.Finalizers), func(f string) bool {
		return f == api.FoundationFinalizer
	})})
}

// works are the foundation, nil if there is none, and the other works of an add-on: payloads, and the gate if there is one.
func (r *Reconciler) works(s *scope, p *pending) (foundation *workv1.ManifestWork, others []*workv1.ManifestWork, err error) {
	foundation, err = r.workNamed(p, work.FoundationName(s.component))
	if err != nil {
		return nil, nil, err
	}
	gate, err := r.workNamed(p, work.GateName(s.component))
	if err != nil {
		return nil, nil, err
	}
	others, err = r.Payloads.ManifestWorks(p.Namespace).List(labels.SelectorFromSet(labels.Set{addonv1beta1.AddonLabelKey: p.Name}))
	if err != nil {
		return nil, nil, fmt.Errorf("cannot list the works of cluster %q: %w", p.Namespace, err)
	}
	if gate != nil {
		others = append(others, gate)
	}
	return foundation, others, nil
}

// workNamed is nil when there is no such work of ours.
func (r *Reconciler) workNamed(p *pending, name string) (*workv1.ManifestWork, error) {
	o, exists, err := r.Foundations.GetByKey(p.Namespace + "/" + name)
	if err != nil {
		return nil, fmt.Errorf("cannot get ManifestWork \"%s/%s\": %w", p.Namespace, name, err)
	}
	if !exists {
		return nil, nil
	}
	w, _ := o.(*workv1.ManifestWork)
	return w, nil
}

func owned(w *workv1.ManifestWork, p *pending) bool {
	return slices.ContainsFunc(w.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == p.UID })
}

// free takes the add-on from the owners of a work. Neither spec nor labels change: the work agent does nothing.
func (r *Reconciler) free(ctx context.Context, p *pending, w *workv1.ManifestWork, annotations map[string]any) error {
	owners := slices.DeleteFunc(slices.Clone(w.OwnerReferences), func(o metav1.OwnerReference) bool { return o.UID == p.UID })
	metadata := map[string]any{"ownerReferences": owners, "resourceVersion": w.ResourceVersion, "uid": w.UID}
	if annotations != nil {
		metadata["annotations"] = annotations
	}
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return fmt.Errorf("cannot encode a patch of ManifestWork \"%s/%s\": %w", w.Namespace, w.Name, err)
	}
	_, err = r.WorkClient.WorkV1().ManifestWorks(w.Namespace).Patch(ctx, w.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("cannot hand ManifestWork \"%s/%s\" over: %w", w.Namespace, w.Name, err)
	}
	return nil
}

// recreate makes the add-on of works that have lost theirs. OCM or the install controller may be first; but works must
// not stay without one, whatever has changed in between: the add-on is what they are removed with. It is held from the
// start, since OCM may delete it at once.
func (r *Reconciler) recreate(ctx context.Context, s *scope) error {
	var errs []error
	for _, w := range s.handedOver {
		if w.DeletionTimestamp != nil || work.IsOrphaned(w) {
			continue
		}
		_, exists, err := r.AddOns.GetByKey(w.Namespace + "/" + s.component.AddOnName())
		if err != nil || exists {
			errs = append(errs, err)
			continue
		}
		cluster, err := r.Clusters.Get(w.Namespace)
		if apierrors.IsNotFound(err) || err == nil && cluster.DeletionTimestamp != nil {
			continue // OCM removes the works
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("cannot get ManagedCluster %q: %w", w.Namespace, err))
			continue
		}
		if err := r.create(ctx, s.component, w); err != nil {
			note := err.Error()
			r.Events.Eventf(w, nil, corev1.EventTypeWarning, "HandoverFailed", "Create", "%s", note[:min(len(note), noteLimit)])
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// noteLimit is how long the note of an Event may be.
const noteLimit = 1000

func (r *Reconciler) create(ctx context.Context, component api.Component, foundation *workv1.ManifestWork) error {
	a := &addonv1beta1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{
		Namespace: foundation.Namespace, Name: component.AddOnName(), Finalizers: []string{api.FoundationFinalizer},
	}}
	if err := json.Unmarshal([]byte(foundation.Annotations[api.HandoverAnnotation]), &a.Spec.Configs); err != nil {
		return fmt.Errorf("cannot read annotation %s of ManifestWork \"%s/%s\": %w", api.HandoverAnnotation, foundation.Namespace, foundation.Name, err)
	}
	if name, ok := target.ConfiguredBy(a); ok {
		config, err := revision.Live(r.Configs[component], component, name)
		if err != nil {
			return err
		}
		if config != nil && refersTo(config, a.Namespace) {
			a.Annotations = map[string]string{api.InstalledForAnnotation: name.String()}
		}
	}
	_, err := r.AddOnClient.AddonV1beta1().ManagedClusterAddOns(a.Namespace).Create(ctx, a, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("cannot create ManagedClusterAddOn \"%s/%s\": %w", a.Namespace, a.Name, err)
	}
	return nil
}
