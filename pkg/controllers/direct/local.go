// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/direct"
	"open-cluster-management.io/knative-addon/pkg/target"
	"open-cluster-management.io/knative-addon/pkg/values"
)

// Local is the hub as a cluster to install on.
type Local struct {
	Cluster *direct.Cluster
	Hub     *Hub
	// Enabled says that resources without a reference are installed on the hub if they are in the namespace that they
	// install into. The others only configure add-ons, as ever.
	Enabled bool
	// Conflict tells that the Knative Operator runs on the hub and does the same.
	Conflict func() bool
}

var _ Clusters = (*Local)(nil)

// Serves implements Clusters.
func (l *Local) Serves(config *unstructured.Unstructured) bool {
	_, refers := target.ReferenceOf(config)
	return l.Enabled && !refers && config.GetNamespace() == installNamespace(componentOf(config), config) && !l.Conflict()
}

func componentOf(config *unstructured.Unstructured) api.Component {
	for _, c := range api.Components() {
		if c.Kind() == config.GetKind() {
			return c
		}
	}
	return ""
}

// Name implements Clusters.
func (l *Local) Name(*unstructured.Unstructured) string { return "the hub" }

// Of implements Clusters.
func (l *Local) Of(ctx context.Context, _ *unstructured.Unstructured) (*Target, error) {
	hub, err := l.Hub.UID(ctx)
	if err != nil {
		return nil, err
	}
	return &Target{Cluster: l.Cluster, Hub: hub, Values: values.None("the hub itself has no values")}, nil
}

// Forget implements Clusters.
func (l *Local) Forget(api.Component, types.NamespacedName) {}
