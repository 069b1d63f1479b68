// Copyright Contributors to the Open Cluster Management project

package configuration

import (
	"context"
	"errors"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/revision"
)

// VersionResolver resolves a spec.version to an exact version.
type VersionResolver interface {
	ResolveVersion(component api.Component, specVersion string) (string, error)
}

// Reconciler serves the KnativeServings or the KnativeEventings.
type Reconciler struct {
	Recorder

	Component    api.Component
	Versions     VersionResolver
	ConfigClient dynamic.Interface
	Events       events.EventRecorder
	// Operator names the workload that runs the Knative Operator on the hub, which then owns the resources. The name is empty when
	// the Knative Operator does not run.
	Operator func() string

	// refusals has the latest refusal of a rollback by resource, so that a refusal makes a single Event. A restart forgets the refusals, which
	// costs one more Event.
	refusals sync.Map
}

// Reconcile records the specs of a resource, pins the version and rolls the spec back when an annotation requests a rollback.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	config, err := revision.Live(r.Configs, r.Component, req.NamespacedName)
	if err != nil {
		return reconcile.Result{}, err
	}
	recordErr := r.recordSpecs(ctx, req.NamespacedName, config)
	if config == nil || !r.mayWrite(config) {
		r.refusals.Delete(req.NamespacedName)
		return reconcile.Result{}, recordErr
	}
	config, pinErr := r.pinVersion(ctx, config)
	return reconcile.Result{}, errors.Join(recordErr, pinErr, r.rollBack(ctx, config))
}

// mayWrite reports whether the manager may change the resource.
func (r *Reconciler) mayWrite(config *unstructured.Unstructured) bool {
	return config.GetDeletionTimestamp() == nil && r.Operator() == "" && !r.isExcluded(config)
}
