// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"context"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/direct"
	"open-cluster-management.io/knative-addon/pkg/target"
)

// Local is the hub as a cluster to install on.
type Local struct {
	Cluster *direct.Cluster
	Kube    kubernetes.Interface
	// Enabled says that resources without a reference are installed on the hub if they are in the namespace that they
	// install into. The others only configure add-ons, as ever.
	Enabled bool
	// Conflict tells that the Knative Operator runs on the hub and does the same.
	Conflict func() bool

	mu  sync.Mutex
	hub types.UID
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

// Of implements Clusters.
func (l *Local) Of(ctx context.Context, _ *unstructured.Unstructured) (*Target, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hub == "" {
		ns, err := l.Kube.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("cannot tell which hub this is: %w", err)
		}
		l.hub = ns.UID
	}
	return &Target{Cluster: l.Cluster, Name: "the hub", Hub: l.hub}, nil
}
