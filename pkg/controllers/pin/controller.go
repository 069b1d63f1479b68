// Copyright Contributors to the Open Cluster Management project

// Package pin keeps an empty spec.version at what it first resolved to.
//
// An empty version means the newest that the add-on has. Without a pin, upgrading the add-on would upgrade every cluster
// whose configuration says nothing, at once. The pin is an annotation, so that it changes neither the spec nor its hash; it
// is removed when the user names a version, and made anew when the user takes the name away: then it is what the same spec
// was pinned to before if a cluster is still to have that one, as in the middle of a rollout.
package pin

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/revision"
)

// Resolver knows which exact version a spec.version means.
type Resolver interface {
	ResolveVersion(component api.Component, specVersion string) (string, error)
}

// Recorder knows what a spec was pinned to before.
type Recorder interface {
	// Pin is empty when the spec has none that counts.
	Pin(config *unstructured.Unstructured) (string, error)
}

// Reconciler pins the KnativeServings or the KnativeEventings.
type Reconciler struct {
	Component api.Component
	Lister    cache.GenericLister
	Client    dynamic.Interface
	Versions  Resolver
	Revisions Recorder
	// Operator names what runs the Knative Operator on the hub, which then takes the resources for its own; empty when
	// nothing does.
	Operator func() string
}

// Reconcile sets or removes the pin of one object.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	u, err := revision.Live(r.Lister, r.Component, req.NamespacedName)
	if err != nil || u == nil {
		return reconcile.Result{}, err
	}
	have, pinned := u.GetAnnotations()[api.PinnedVersionAnnotation]
	want, err := r.pinOf(u, have)
	if err != nil {
		return reconcile.Result{}, err
	}
	if have == want && pinned == (want != "") || u.GetDeletionTimestamp() != nil || r.Operator() != "" {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, r.write(ctx, u, want)
}

// pinOf is the pin that the object should have; empty means none.
func (r *Reconciler) pinOf(u *unstructured.Unstructured, have string) (string, error) {
	version, _, err := unstructured.NestedString(u.Object, "spec", "version")
	manifests, _, _ := unstructured.NestedSlice(u.Object, "spec", "manifests")
	if err != nil || version != "" || len(manifests) > 0 {
		return "", nil //nolint:nilerr // a version that is no string is reported by who decodes the object
	}
	if have != "" {
		return have, nil
	}
	if recorded, err := r.Revisions.Pin(u); recorded != "" || err != nil {
		return recorded, err
	}
	return r.Versions.ResolveVersion(r.Component, "")
}

func (r *Reconciler) write(ctx context.Context, u *unstructured.Unstructured, pin string) error {
	var value any // null removes it
	if pin != "" {
		value = pin
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"annotations": map[string]any{api.PinnedVersionAnnotation: value}, "resourceVersion": u.GetResourceVersion(),
	}})
	if err != nil {
		return fmt.Errorf("cannot encode the pin of %s %q: %w", u.GetKind(), u.GetName(), err)
	}
	_, err = r.Client.Resource(r.Component.Resource()).Namespace(u.GetNamespace()).Patch(
		ctx, u.GetName(), types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) { // an event follows either
		return fmt.Errorf("cannot pin the version of %s \"%s/%s\": %w", u.GetKind(), u.GetNamespace(), u.GetName(), err)
	}
	return nil
}

// SetupWithManager makes the manager run the controller.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, informer cache.SharedIndexInformer) error {
	err := ctrl.NewControllerManagedBy(mgr).Named("pin-" + r.Component.Resource().Resource).
		WatchesRawSource(&source.Informer{Informer: informer, Handler: &handler.EnqueueRequestForObject{}}).Complete(r)
	if err != nil {
		return fmt.Errorf("cannot set up the version pins of %s: %w", r.Component.Kind(), err)
	}
	return nil
}
