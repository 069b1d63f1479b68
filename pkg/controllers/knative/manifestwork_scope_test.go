// Copyright Contributors to the Open Cluster Management project

package knative

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	addonlisters "open-cluster-management.io/api/client/addon/listers/addon/v1beta1"
	clusterlisters "open-cluster-management.io/api/client/cluster/listers/cluster/v1"
	clusterlistersv1beta2 "open-cluster-management.io/api/client/cluster/listers/cluster/v1beta2"
	worklisters "open-cluster-management.io/api/client/work/listers/work/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta2 "open-cluster-management.io/api/cluster/v1beta2"
	workv1 "open-cluster-management.io/api/work/v1"
)

// errBroken is what a cache fails with.
var errBroken = errors.New("broken")

type (
	brokenConfigs     struct{ cache.GenericLister }
	brokenDefinitions struct {
		addonlisters.ClusterManagementAddOnLister
	}
	brokenAddOns struct {
		addonlisters.ManagedClusterAddOnLister
		addonlisters.ManagedClusterAddOnNamespaceLister
	}
	brokenClusters struct {
		clusterlisters.ManagedClusterLister
	}
	brokenSets struct {
		clusterlistersv1beta2.ManagedClusterSetLister
	}
	brokenWorks struct {
		worklisters.ManifestWorkLister
		worklisters.ManifestWorkNamespaceLister
	}
)

func (b brokenConfigs) ByNamespace(string) cache.GenericNamespaceLister { return b }

func (brokenConfigs) Get(string) (runtime.Object, error) { return nil, errBroken }

func (brokenDefinitions) Get(string) (*addonv1beta1.ClusterManagementAddOn, error) {
	return nil, errBroken
}

func (b brokenAddOns) ManagedClusterAddOns(string) addonlisters.ManagedClusterAddOnNamespaceLister {
	return b
}

func (brokenAddOns) List(labels.Selector) ([]*addonv1beta1.ManagedClusterAddOn, error) {
	return nil, errBroken
}

func (brokenAddOns) Get(string) (*addonv1beta1.ManagedClusterAddOn, error) { return nil, errBroken }

func (brokenClusters) Get(string) (*clusterv1.ManagedCluster, error) { return nil, errBroken }

func (brokenSets) Get(string) (*clusterv1beta2.ManagedClusterSet, error) { return nil, errBroken }

func (b brokenWorks) ManifestWorks(string) worklisters.ManifestWorkNamespaceLister { return b }

func (brokenWorks) List(labels.Selector) ([]*workv1.ManifestWork, error) { return nil, errBroken }

func (brokenWorks) Get(string) (*workv1.ManifestWork, error) { return nil, errBroken }

// TestBrokenCaches holds that nothing is done when something cannot be read: it would be taken for something that is not
// there.
func TestBrokenCaches(t *testing.T) {
	for name, breaks := range map[string]func(*fakeHub){
		"configurations": func(h *fakeHub) { h.r.Configs = brokenConfigs{} },
		"definitions":    func(h *fakeHub) { h.m.Definitions = brokenDefinitions{} },
		"clusters":       func(h *fakeHub) { h.m.Finder.Clusters = brokenClusters{} },
		"add-ons":        func(h *fakeHub) { h.m.AddOns = brokenAddOns{} },
		"foundations":    func(h *fakeHub) { h.m.Foundations = brokenWorks{} },
		"payloads":       func(h *fakeHub) { h.m.Payloads = brokenWorks{} },
		"sets":           func(h *fakeHub) { h.m.Finder.Sets = brokenSets{} },
	} {
		for _, deleting := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				h := newHub(t, serving("self", 100, finalized))
				h.enabled(addOnOf("self"))
				if deleting {
					h.delete("self")
				}
				breaks(h)
				if _, err := h.reconcile("self"); !errors.Is(err, errBroken) {
					t.Errorf("error is %v, want %v", err, errBroken)
				}
				// What is deleted needs no target; only its status tells of one.
				needless := deleting && (name == "sets" || name == "clusters")
				if asked := h.asked(); len(asked) > 0 && !needless {
					t.Errorf("it asks for %q", asked)
				}
			})
		}
	}
}

// TestOddCaches holds the same of caches that are not what they should be.
func TestOddCaches(t *testing.T) {
	h := newHub(t, serving("self", 100), serving("other", 101, finalized))
	h.sync()
	odd := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	fill(t, odd, &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "self"}})
	h.r.Configs = cache.NewGenericLister(odd, addOnResource.GroupResource())
	if _, err := h.reconcile("self"); err == nil || len(h.asked()) > 0 {
		t.Error("what cannot be read is no resource")
	}
	h = newHub(t, serving("self", 100), serving("other", 101, finalized))
	h.m.Finder.Configs["knative-serving"] = h.cached.clusters
	if _, err := h.reconcile("self"); err == nil || len(h.asked()) > 0 {
		t.Error("whose the cluster is cannot be told, and it is taken")
	}
}
