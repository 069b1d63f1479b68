// Copyright Contributors to the Open Cluster Management project

package knative

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/reconciler"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/resolve"
	"open-cluster-management.io/knative-addon/pkg/revision"
	"open-cluster-management.io/knative-addon/pkg/target"
)

// Reconciler reconciles the resources of one component.
type Reconciler struct {
	Component api.Component
	Configs   cache.GenericLister
	// Finder decides which installations the hub permits. A target.Finder implements the interface.
	Finder Finder
	// Deliveries are the ways to install a resource, the preferred one first.
	Deliveries []Delivery
	// Fleet reports on resources that no delivery installs and that refer to no cluster. Nil leaves these resources alone.
	Fleet *FleetStatus
	// Status writes the status of resources.
	Status *StatusWriter
	// OtherManager reports whether another manager reconciles the resource. Nil means that no other manager does.
	OtherManager func(*unstructured.Unstructured) bool

	conflicts conflictReports
}

// Finder decides which installations the hub permits.
type Finder interface {
	// Conflict returns the result for every resource while the Knative Operator of the hub reconciles the resources.
	Conflict() (result resolve.Result, conflict bool)
	// Annotations decides which annotations of a resource count.
	Annotations(config *unstructured.Unstructured) (target.Annotations, error)
}

const (
	// staleRetry is the time until the next pass when a pass has read an outdated object. An event starts the next pass earlier.
	staleRetry = time.Second
	// pendingRetry is the time until the next request for a bundle that is being rendered.
	pendingRetry = time.Second
)

// Reconcile takes the next step that the spec of a resource requires, and writes the status of the resource.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	config, err := revision.Live(r.Configs, r.Component, req.NamespacedName)
	if err != nil {
		return reconcile.Result{}, err
	}
	if config == nil {
		r.forget(req.NamespacedName)
		return reconcile.Result{}, nil
	}
	result, err := r.reconcile(ctx, config)
	if render.IsPending(err) {
		return reconcile.Result{RequeueAfter: pendingRetry}, nil // the last status stays true
	}
	return result, err
}

func (r *Reconciler) reconcile(ctx context.Context, config *unstructured.Unstructured) (reconcile.Result, error) {
	if r.OtherManager != nil && r.OtherManager(config) {
		return reconcile.Result{}, nil
	}
	ref, refers := target.ReferenceOf(config)
	reconciler.Describe(ctx, reconciler.Subject{Cluster: ref.Name})
	if config.GetDeletionTimestamp() != nil {
		return r.removeInstallation(ctx, config)
	}
	result, conflict := r.Finder.Conflict()
	if err := r.conflicts.reportConflict(ctx, r.Status, config, result); err != nil || conflict {
		return reconcile.Result{}, err
	}
	for _, d := range r.Deliveries {
		if d.Delivers(config) {
			return r.runDelivery(ctx, config, d.Ensure)
		}
	}
	if refers || r.Fleet == nil {
		return reconcile.Result{}, nil
	}
	annotations, err := r.Finder.Annotations(config)
	if err != nil {
		return reconcile.Result{}, err
	}
	return r.Fleet.reportFleet(ctx, r.Status, &Resource{Config: config, Annotations: annotations})
}

// removeInstallation lets the delivery whose finalizer the resource has remove the installation.
func (r *Reconciler) removeInstallation(ctx context.Context, config *unstructured.Unstructured) (reconcile.Result, error) {
	for _, d := range r.Deliveries {
		if hasFinalizer(d, config) {
			return r.runDelivery(ctx, config, d.Remove)
		}
	}
	return reconcile.Result{}, r.reportOperatorFinalizer(ctx, config)
}

// runDelivery runs one step of a delivery and writes the observed installation into the status.
func (r *Reconciler) runDelivery(
	ctx context.Context, config *unstructured.Unstructured, step func(context.Context, *Resource) (Outcome, error),
) (reconcile.Result, error) {
	annotations, err := r.Finder.Annotations(config)
	if err != nil {
		return reconcile.Result{}, err
	}
	resource := &Resource{Config: config, Annotations: annotations}
	outcome, err := step(ctx, resource)
	if err != nil {
		return reconcile.Result{}, err
	}
	var wait time.Duration
	if outcome.Installation != nil {
		outcome.Installation.Annotations = refusedAnnotations(annotations)
		wait, err = r.Status.writeInstallation(ctx, resource.Config, outcome.Installation)
	}
	return reconcile.Result{RequeueAfter: reconciler.Soonest(outcome.RequeueAfter, wait)}, err
}

func (r *Reconciler) forget(name types.NamespacedName) {
	r.Status.transitions.Forget(name)
	for _, d := range r.Deliveries {
		d.Forget(name)
	}
	r.conflicts.reported.Delete(name)
}
