// Copyright Contributors to the Open Cluster Management project

package hub

import (
	kubeinformers "k8s.io/client-go/informers"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	"k8s.io/client-go/tools/cache"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/revision"
)

// Configuration holds the caches and the clients for the KnativeServings, or for the KnativeEventings. Hub and LocalHub both
// provide a Configuration of each component, so that the controllers of configurations serve both.
type Configuration struct {
	Component api.Component
	Clients   Clients
	// Configs is the cache of the KnativeServings or KnativeEventings.
	Configs kubeinformers.GenericInformer
	// Revisions is the cache of the ControllerRevisions that hold specs of Configs; other ControllerRevisions with
	// api.RevisionLabel may be in the cache too.
	Revisions appsinformers.ControllerRevisionInformer
	// References reads which revisions ManagedClusterAddOns and ClusterManagementAddOns refer to.
	References *revision.References
	// Operator finds the Knative Operator, which serves all Configs where the operator runs.
	Operator *KnativeOperator
}

// NewSource returns a reader of the Configs together with their revisions.
func (c Configuration) NewSource() *revision.Source {
	return revision.NewSource(map[api.Component]cache.GenericLister{c.Component: c.Configs.Lister()}, c.Revisions.Informer().GetIndexer())
}
