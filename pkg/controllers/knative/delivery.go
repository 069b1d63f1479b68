// Copyright Contributors to the Open Cluster Management project

package knative

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"open-cluster-management.io/knative-addon/pkg/status"
	"open-cluster-management.io/knative-addon/pkg/target"
)

// Delivery installs resources on their clusters in one way, and removes the installations. Implementations are ManifestWork and
// Direct.
//
// Ensure and Remove return the observation of the pass: a direct delivery observes the cluster with the requests that also
// apply the objects, so that a separate method would repeat every request.
type Delivery interface {
	// Delivers reports whether this delivery installs the resource. A Reconciler uses the first delivery that does.
	Delivers(config *unstructured.Unstructured) bool
	// Finalizer is the finalizer of the resources that have an installation by this delivery.
	Finalizer() string
	// Ensure brings the cluster of the resource one step closer to the spec. The finalizer precedes every other write.
	Ensure(ctx context.Context, resource *Resource) (Outcome, error)
	// Remove takes the installation of a deleted resource one step closer to its end, and drops the finalizer at the end.
	Remove(ctx context.Context, resource *Resource) (Outcome, error)
	// Forget drops everything that the delivery remembers about a resource that is gone.
	Forget(name types.NamespacedName)
}

// Resource is a KnativeServing or KnativeEventing during one pass.
type Resource struct {
	// Config is the resource as the pass last read or wrote the resource. The object may belong to a cache.
	Config *unstructured.Unstructured
	// Annotations are the annotations of Config that ask for more than an installation.
	Annotations target.Annotations
}

// Outcome is the result of one pass.
type Outcome struct {
	// Installation is the observed installation. Nil keeps the status of the resource.
	Installation *status.Installation
	// RequeueAfter is the time until the next pass; 0 waits for an event.
	RequeueAfter time.Duration
}

// hasFinalizer reports whether the resource has the finalizer of the delivery.
func hasFinalizer(d Delivery, config *unstructured.Unstructured) bool {
	return slices.Contains(config.GetFinalizers(), d.Finalizer())
}
