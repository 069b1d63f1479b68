// Copyright Contributors to the Open Cluster Management project

package rendering

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/cache"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	addonlisters "open-cluster-management.io/api/client/addon/listers/addon/v1beta1"
	clusterlistersv1beta1 "open-cluster-management.io/api/client/cluster/listers/cluster/v1beta1"
	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// placementHub is a hub with Placements all and prod of namespace fleet, which select cluster1. The decision groups of prod have a tenth of
// the clusters.
type placementHub struct {
	definition                        *addonv1beta1.ClusterManagementAddOn
	definitions, placements, decision cache.Indexer
}

func newPlacementHub(t *testing.T, progressive *clusterv1alpha1.RolloutProgressive) *placementHub {
	t.Helper()
	h := &placementHub{
		definitions: newIndexer(), placements: newIndexer(), decision: newIndexer(),
		definition: &addonv1beta1.ClusterManagementAddOn{ObjectMeta: metav1.ObjectMeta{Name: api.Serving.AddOnName()}},
	}
	h.definition.Spec.InstallStrategy = addonv1beta1.InstallStrategy{
		Type: addonv1beta1.AddonInstallStrategyPlacements,
		Placements: []addonv1beta1.PlacementStrategy{
			{
				PlacementRef:    addonv1beta1.PlacementRef{Namespace: "fleet", Name: "all"},
				RolloutStrategy: clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.All},
			},
			{
				PlacementRef:    addonv1beta1.PlacementRef{Namespace: "fleet", Name: "prod"},
				RolloutStrategy: clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.Progressive, Progressive: progressive},
			},
		},
	}
	addTo(t, h.definitions, h.definition)
	for _, name := range []string{"all", "prod"} {
		p := &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: name}}
		if name == "prod" {
			p.Spec.DecisionStrategy.GroupStrategy.ClustersPerDecisionGroup = intstr.FromString("10%")
		}
		addTo(t, h.placements, p)
		addTo(t, h.decision, &clusterv1beta1.PlacementDecision{
			ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: name + "-decision-1", Labels: map[string]string{
				clusterv1beta1.PlacementLabel: name, clusterv1beta1.DecisionGroupNameLabel: "of-" + name,
			}},
			Status: clusterv1beta1.PlacementDecisionStatus{Decisions: []clusterv1beta1.ClusterDecision{{ClusterName: "cluster1"}}},
		})
	}
	return h
}

func newIndexer() cache.Indexer {
	return cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
}

func addTo(t *testing.T, indexer cache.Indexer, o runtime.Object) {
	t.Helper()
	if err := indexer.Add(o); err != nil {
		t.Fatal(err)
	}
}

// rolloutOf returns the rollout and the decision group of cluster1.
func (h *placementHub) rolloutOf(t *testing.T) (of *clusterRollout, group string) {
	t.Helper()
	g := &gatherer{component: api.Serving, Reconciler: &Reconciler{
		Definitions: addonlisters.NewClusterManagementAddOnLister(h.definitions),
		Placements:  clusterlistersv1beta1.NewPlacementLister(h.placements), Decisions: clusterlistersv1beta1.NewPlacementDecisionLister(h.decision),
		Configs: map[api.Component]cache.GenericLister{api.Serving: listerOf(t, testConfig("", nil))},
	}}
	if err := g.readPlacements(); err != nil {
		t.Fatal(err)
	}
	m := &member{addOn: testAddOn("cluster1")}
	m.Name = "cluster1"
	of, err := g.rolloutOf(m)
	if err != nil {
		t.Fatal(err)
	}
	return of, m.Group.GroupName
}

// TestPlacementOfCluster holds that a cluster which several Placements select follows the last of the Placements, as in OCM, and that the
// Placements count for the install strategy Placements alone.
func TestPlacementOfCluster(t *testing.T) {
	for name, tc := range map[string]struct {
		change     func(*testing.T, *placementHub)
		key, group string
	}{
		"two Placements select the cluster": {func(*testing.T, *placementHub) {}, "Placement fleet/prod", "of-prod"},
		"the last Placement does not exist": {func(t *testing.T, h *placementHub) {
			t.Helper()
			if err := h.placements.Delete(&clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "prod"}}); err != nil {
				t.Fatal(err)
			}
		}, "Placement fleet/all", "of-all"},
		"the install strategy is Manual": {func(_ *testing.T, h *placementHub) {
			h.definition.Spec.InstallStrategy.Type = addonv1beta1.AddonInstallStrategyManual
		}, "default", ""},
		"the install strategy has no type": {func(_ *testing.T, h *placementHub) { h.definition.Spec.InstallStrategy.Type = "" }, "default", ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := newPlacementHub(t, nil)
			tc.change(t, h)
			if of, group := h.rolloutOf(t); of.key != tc.key || group != tc.group {
				t.Errorf("the rollout is %q with group %q, want %q with group %q", of.key, group, tc.key, tc.group)
			}
		})
	}
}

// TestConcurrencyOfPlacement holds that the decision groups of a Placement bound a Progressive strategy without maxConcurrency, as in OCM, and
// that the cached ClusterManagementAddOn stays unchanged.
func TestConcurrencyOfPlacement(t *testing.T) {
	config := clusterv1alpha1.RolloutConfig{ProgressDeadline: "10m"}
	for name, tc := range map[string]struct {
		progressive *clusterv1alpha1.RolloutProgressive
		want        clusterv1alpha1.RolloutProgressive
	}{
		"no field": {nil, clusterv1alpha1.RolloutProgressive{MaxConcurrency: intstr.FromString("10%")}},
		"no maxConcurrency": {
			&clusterv1alpha1.RolloutProgressive{RolloutConfig: config},
			clusterv1alpha1.RolloutProgressive{RolloutConfig: config, MaxConcurrency: intstr.FromString("10%")},
		},
		"a maxConcurrency": {
			&clusterv1alpha1.RolloutProgressive{MaxConcurrency: intstr.FromInt32(3)}, clusterv1alpha1.RolloutProgressive{MaxConcurrency: intstr.FromInt32(3)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newPlacementHub(t, tc.progressive)
			before := h.definition.DeepCopy()
			of, _ := h.rolloutOf(t)
			if diff := cmp.Diff(&tc.want, of.strategy.Progressive); diff != "" {
				t.Errorf("the strategy (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, h.definition); diff != "" {
				t.Errorf("the ClusterManagementAddOn (-before +after):\n%s", diff)
			}
		})
	}
}
