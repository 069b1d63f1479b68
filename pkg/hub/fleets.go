// Copyright Contributors to the Open Cluster Management project

package hub

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	clusterinventoryv1alpha1 "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"
	profileclient "sigs.k8s.io/cluster-inventory-api/client/clientset/versioned"
	profileinformers "sigs.k8s.io/cluster-inventory-api/client/informers/externalversions"
	profilelisters "sigs.k8s.io/cluster-inventory-api/client/listers/apis/v1alpha1"

	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
	"open-cluster-management.io/knative-addon/pkg/revision"
)

// KnativeFleets is the cache of the hub's KnativeFleets, as unstructured objects. Helm does not add a CustomResourceDefinition when a
// release is upgraded, so that a hub need not serve the kind.
type KnativeFleets struct {
	optionalKind
	lister cache.GenericLister
}

func newKnativeFleets(discovery discovery.DiscoveryInterface, client dynamic.Interface) *KnativeFleets {
	informer := dynamicinformer.NewFilteredDynamicInformer(client, fleetv1alpha1.Resource(), metav1.NamespaceAll, resync,
		cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}, nil)
	f := &KnativeFleets{lister: informer.Lister()}
	f.discovery, f.informer = discovery, informer.Informer()
	f.kind, f.resource = fleetv1alpha1.Resource().GroupVersion().WithKind(fleetv1alpha1.Kind), fleetv1alpha1.Resource().Resource
	f.recordErrors()
	if err := f.informer.SetTransform(stripManagedFields); err != nil {
		f.failure.Store(&err) // only a started informer refuses the transformation
	}
	return f
}

// Get returns a KnativeFleet, or nil without an error when the hub has no such KnativeFleet or does not serve the kind.
func (f *KnativeFleets) Get(name types.NamespacedName) (*unstructured.Unstructured, error) {
	return revision.Live(f.lister, revision.Fleet{}, name)
}

// InventoryDecisions is the cache of the hub's PlacementDecisions of SIG Multicluster, which most hubs do not serve.
type InventoryDecisions struct {
	optionalKind
	lister profilelisters.PlacementDecisionLister
}

func newInventoryDecisions(client profileclient.Interface) *InventoryDecisions {
	factory := profileinformers.NewSharedInformerFactoryWithOptions(client, resync, profileinformers.WithTransform(stripManagedFields))
	decisions := factory.Apis().V1alpha1().PlacementDecisions()
	d := &InventoryDecisions{lister: decisions.Lister()}
	d.discovery, d.informer = client.Discovery(), decisions.Informer()
	d.kind, d.resource = clusterinventoryv1alpha1.GroupVersion.WithKind("PlacementDecision"), "placementdecisions"
	d.recordErrors()
	return d
}

// List returns the PlacementDecisions of a namespace with a decision key. The error is an apimeta.NoKindMatchError until the hub serves
// the kind.
func (d *InventoryDecisions) List(namespace, decisionKey string) ([]*clusterinventoryv1alpha1.PlacementDecision, error) {
	if err := d.checkFilled(); err != nil {
		return nil, err
	}
	return d.lister.PlacementDecisions(namespace).List(labels.SelectorFromSet(labels.Set{clusterinventoryv1alpha1.DecisionKeyLabel: decisionKey}))
}
