// Copyright Contributors to the Open Cluster Management project

package knative

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/clustercache"
	"open-cluster-management.io/knative-addon/pkg/target"
	"open-cluster-management.io/knative-addon/pkg/values"
)

// IsLocal reports whether a hub that installs on itself installs the resource: a resource without spec.clusterProfileRef in
// the usual namespace of its component. An author in any other namespace decides nothing about the hub, whatever the
// annotations of the resource say.
func IsLocal(config *unstructured.Unstructured) bool {
	_, refers := target.ReferenceOf(config)
	c := componentOf(config)
	return !refers && c != "" && config.GetNamespace() == c.InstallNamespace()
}

// componentOf returns the component of a resource; empty for a resource of another kind.
func componentOf(config *unstructured.Unstructured) api.Component {
	for _, c := range api.Components() {
		if c.Kind() == config.GetKind() {
			return c
		}
	}
	return ""
}

// requestedNamespace returns the install namespace that a resource requests.
func requestedNamespace(c api.Component, config *unstructured.Unstructured) string {
	if ns := config.GetAnnotations()[api.InstallNamespaceAnnotation]; ns != "" {
		return ns
	}
	return c.InstallNamespace()
}

const hubDisplayName = "the hub"

// Local is the hub as a cluster to install on.
type Local struct {
	Hub *HubIdentity
	// Finder reports whether the Knative Operator runs on the hub and reconciles the same resources.
	Finder Finder
	// Requests get the resources after a change of an object of the component on the hub.
	Requests RequestSources

	cluster *clustercache.Cluster
	users   clusterUsers
}

var _ Clusters = (*Local)(nil)

// Connect connects to the hub. Connect sets Changed of the options.
func (l *Local) Connect(config *rest.Config, httpClient *http.Client, options clustercache.Options) error {
	options.Changed = func(component api.Component) {
		for _, id := range l.users.usersOf(types.NamespacedName{}, component) {
			l.Requests.enqueue(id)
		}
	}
	var err error
	l.cluster, err = clustercache.Connect(config, httpClient, options)
	return err
}

// Close ends the watches of the hub.
func (l *Local) Close() { l.cluster.Close() }

// InstallsDirectly implements Clusters.
func (l *Local) InstallsDirectly(config *unstructured.Unstructured) bool {
	_, conflict := l.Finder.Conflict()
	return IsLocal(config) && !conflict
}

// DisplayName implements Clusters.
func (l *Local) DisplayName(*unstructured.Unstructured) string { return hubDisplayName }

// InstallNamespace implements Clusters. The annotation of a resource does not choose the namespace on the hub.
func (l *Local) InstallNamespace(config *unstructured.Unstructured) string {
	return componentOf(config).InstallNamespace()
}

// FindCluster implements Clusters.
func (l *Local) FindCluster(ctx context.Context, config *unstructured.Unstructured) (*ReachableCluster, error) {
	hub, err := l.Hub.UID(ctx)
	if err != nil {
		return nil, err
	}
	l.users.addUser(resourceIDOf(config), types.NamespacedName{})
	t := &ReachableCluster{Cluster: l.cluster, UID: hub, HubUID: hub, Values: values.None("the hub itself has no values")}
	if requested, namespace := requestedNamespace(componentOf(config), config), l.InstallNamespace(config); requested != namespace {
		t.Note = fmt.Sprintf("annotation %s is ignored: %s has %s in namespace %q only; remove the annotation",
			api.InstallNamespaceAnnotation, hubDisplayName, componentOf(config), namespace)
	}
	return t, nil
}

// Forget implements Clusters.
func (l *Local) Forget(c api.Component, name types.NamespacedName) {
	l.users.removeUser(resourceID{c, name})
}

// HubIdentity reads the identity of the hub once.
type HubIdentity struct {
	Kube kubernetes.Interface

	mu  sync.Mutex
	uid types.UID
}

// UID returns the UID of the hub's namespace kube-system, which no other cluster has.
func (h *HubIdentity) UID(ctx context.Context) (types.UID, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.uid == "" {
		ns, err := h.Kube.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
		if err != nil {
			return "", fmt.Errorf("cannot determine the identity of the hub: %w", err)
		}
		h.uid = ns.UID
	}
	return h.uid, nil
}
