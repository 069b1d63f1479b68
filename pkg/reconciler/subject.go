// Copyright Contributors to the Open Cluster Management project

package reconciler

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// Subject names the cluster, the component and the revision that a pass serves. Empty fields are unknown.
type Subject struct {
	// Cluster is the name of a managed cluster, or of a ClusterProfile.
	Cluster   string
	Component api.Component
	// Revision is the hash of the spec that the pass delivers or records.
	Revision string
}

type subjectKey struct{}

// Describe sets the fields of the current pass's Subject that are not empty here. Outside of a wrapped pass, Describe does
// nothing. Describe must not be called after the pass has returned.
func Describe(ctx context.Context, known Subject) {
	subject, ok := ctx.Value(subjectKey{}).(*Subject)
	if !ok {
		return
	}
	if known.Cluster != "" {
		subject.Cluster = known.Cluster
	}
	if known.Component != "" {
		subject.Component = known.Component
	}
	if known.Revision != "" {
		subject.Revision = known.Revision
	}
}

// OfComponent describes requests that name a resource of the component.
func OfComponent(component api.Component) func(reconcile.Request) Subject {
	return func(reconcile.Request) Subject { return Subject{Component: component} }
}

// OfAddOn describes requests that name a ManagedClusterAddOn.
func OfAddOn(request reconcile.Request) Subject {
	return Subject{Cluster: request.Namespace, Component: api.Component(request.Name)}
}

// OfDefinition describes requests that name a ClusterManagementAddOn.
func OfDefinition(request reconcile.Request) Subject {
	return Subject{Component: api.Component(request.Name)}
}

// OfOther describes requests that name neither a cluster nor a component.
func OfOther(reconcile.Request) Subject { return Subject{} }

// OfCluster describes requests that name a ManagedCluster.
func OfCluster(request reconcile.Request) Subject { return Subject{Cluster: request.Name} }

// listKeysAndValues returns the known fields in the form of a logger's arguments.
func (s Subject) listKeysAndValues() []any {
	var out []any
	for _, field := range []struct{ key, value string }{
		{"cluster", s.Cluster}, {"component", string(s.Component)}, {"revision", s.Revision},
	} {
		if field.value != "" {
			out = append(out, field.key, field.value)
		}
	}
	return out
}
