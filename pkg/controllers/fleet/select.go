// Copyright Contributors to the Open Cluster Management project

package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusterinventoryv1alpha1 "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"

	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
	sdkv1beta1 "open-cluster-management.io/sdk-go/pkg/apis/cluster/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
	"open-cluster-management.io/knative-addon/pkg/rollout"
)

// problem is the reason why a KnativeFleet cannot be followed. The children stay as they are.
type problem struct{ reason, message string }

// cluster is a selected cluster. The name is the name of its ClusterProfile and of its children.
type cluster struct {
	name  string
	group sdkv1beta1.GroupKey
	// profile is nil when the namespace has no such ClusterProfile, or when the decision names another namespace.
	profile *clusterinventoryv1alpha1.ClusterProfile
	// unresolved is the reason why the cluster gets no child; empty without a reason.
	unresolved string
}

// selectionInput holds the objects of the KnativeFleet's namespace that decide on the selection.
type selectionInput struct {
	spec     *fleetv1alpha1.KnativeFleetSpec
	profiles []*clusterinventoryv1alpha1.ClusterProfile
	// placement is the Placement of placementRef, nil when the Placement does not exist or is being deleted.
	placement *clusterv1beta1.Placement
	// placementDecisions are OCM's decisions of the Placement, keyDecisions the PlacementDecisions with the decisionKey.
	placementDecisions []*clusterv1beta1.PlacementDecision
	keyDecisions       []*clusterinventoryv1alpha1.PlacementDecision
}

// strategy returns the rollout strategy for the clusters of the selection.
func (in *selectionInput) strategy() clusterv1alpha1.RolloutStrategy {
	if in.placement == nil {
		return in.spec.RolloutStrategy
	}
	return rollout.WithPlacement(in.spec.RolloutStrategy, in.placement)
}

// selectClusters returns the selected clusters, each once and sorted by name.
func selectClusters(in *selectionInput) ([]cluster, *problem) {
	profiles := map[string]*clusterinventoryv1alpha1.ClusterProfile{}
	for _, p := range in.profiles {
		if p.DeletionTimestamp == nil {
			profiles[p.Name] = p
		}
	}
	var out []cluster
	var no *problem
	switch {
	case in.spec.PlacementRef != nil:
		out, no = selectByPlacement(in, profiles)
	case in.spec.DecisionKey != "":
		out = selectByDecisionKey(in, profiles)
	default:
		out, no = selectByLabels(in, profiles)
	}
	if no != nil {
		return nil, no
	}
	out = compactClusters(out)
	if in.spec.GroupByLabel != "" {
		groupByLabel(out, in.spec.GroupByLabel)
	}
	return out, nil
}

func selectByPlacement(in *selectionInput, profiles map[string]*clusterinventoryv1alpha1.ClusterProfile) ([]cluster, *problem) {
	if in.placement == nil {
		return nil, &problem{fleetv1alpha1.ReasonPlacementNotFound, fmt.Sprintf(
			"Placement %q does not exist in the namespace of the KnativeFleet, so that nothing changes; create the Placement, or correct spec.placementRef",
			in.spec.PlacementRef.Name)}
	}
	var out []cluster
	for _, d := range in.placementDecisions {
		index, _ := strconv.ParseInt(d.Labels[clusterv1beta1.DecisionGroupIndexLabel], 10, 32) // OCM writes the label
		group := sdkv1beta1.GroupKey{GroupName: d.Labels[clusterv1beta1.DecisionGroupNameLabel], GroupIndex: int32(index)}
		for _, decision := range d.Status.Decisions {
			c := newCluster(decision.ClusterName, profiles[decision.ClusterName], group)
			if c.profile != nil && c.profile.Spec.ClusterManager.Name != api.ClusterManagerOCM {
				c.profile, c.unresolved = nil, fleetv1alpha1.ReasonClusterProfileNotFound // the ClusterProfile is of another cluster
			}
			out = append(out, c)
		}
	}
	return out, nil
}

// selectByDecisionKey makes each PlacementDecision a decision group, in the order of the label decision-index.
func selectByDecisionKey(in *selectionInput, profiles map[string]*clusterinventoryv1alpha1.ClusterProfile) []cluster {
	slicesInOrder := slices.Clone(in.keyDecisions)
	slices.SortFunc(slicesInOrder, func(a, b *clusterinventoryv1alpha1.PlacementDecision) int {
		return cmp.Or(cmp.Compare(decisionIndex(a), decisionIndex(b)), strings.Compare(a.Name, b.Name))
	})
	var out []cluster
	for i, d := range slicesInOrder {
		group := sdkv1beta1.GroupKey{GroupIndex: int32(i)} //nolint:gosec // a namespace has fewer objects
		for _, decision := range d.Decisions {
			ref := decision.ClusterProfileRef
			if ref.Namespace != "" && ref.Namespace != d.Namespace {
				out = append(out, cluster{name: ref.Name, group: group, unresolved: fleetv1alpha1.ReasonOtherNamespace})
				continue
			}
			out = append(out, newCluster(ref.Name, profiles[ref.Name], group))
		}
	}
	return out
}

// decisionIndex returns the position of a PlacementDecision. A PlacementDecision without a readable index follows the others.
func decisionIndex(d *clusterinventoryv1alpha1.PlacementDecision) int64 {
	index, err := strconv.ParseInt(d.Labels[clusterinventoryv1alpha1.DecisionIndexLabel], 10, 32)
	if err != nil {
		return 1 << 32
	}
	return index
}

func selectByLabels(in *selectionInput, profiles map[string]*clusterinventoryv1alpha1.ClusterProfile) ([]cluster, *problem) {
	selector, err := metav1.LabelSelectorAsSelector(in.spec.Selector)
	if err != nil {
		return nil, &problem{fleetv1alpha1.ReasonInvalidSpec, "spec.selector cannot be used; correct the selector: " + err.Error()}
	}
	var out []cluster
	for name, p := range profiles {
		if selector.Matches(labels.Set(p.Labels)) {
			out = append(out, newCluster(name, p, sdkv1beta1.GroupKey{}))
		}
	}
	return out, nil
}

func newCluster(name string, profile *clusterinventoryv1alpha1.ClusterProfile, group sdkv1beta1.GroupKey) cluster {
	out := cluster{name: name, profile: profile, group: group}
	if profile == nil {
		out.unresolved = fleetv1alpha1.ReasonClusterProfileNotFound
	}
	return out
}

// compactClusters sorts the clusters by name and keeps the first of each name. The sort is stable: the first group counts. A decision on another
// namespace does not hide the cluster of this namespace.
func compactClusters(in []cluster) []cluster {
	isOther := func(c cluster) int {
		if c.unresolved == fleetv1alpha1.ReasonOtherNamespace {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(in, func(a, b cluster) int { return cmp.Or(strings.Compare(a.name, b.name), isOther(a)-isOther(b)) })
	return slices.CompactFunc(in, func(a, b cluster) bool { return a.name == b.name })
}

// groupByLabel makes the clusters with one value of the label a group. Clusters without the label are the first group.
func groupByLabel(clusters []cluster, key string) {
	var values []string
	for _, c := range clusters {
		values = append(values, labelOf(c, key))
	}
	values = slices.Compact(slices.Sorted(slices.Values(values)))
	for i := range clusters {
		value := labelOf(clusters[i], key)
		index, _ := slices.BinarySearch(values, value)
		clusters[i].group = sdkv1beta1.GroupKey{GroupName: value, GroupIndex: int32(index)} //nolint:gosec // at most the number of clusters
	}
}

func labelOf(c cluster, key string) string {
	if c.profile == nil {
		return ""
	}
	return c.profile.Labels[key]
}

// isHealthy reports whether the cluster manager of the ClusterProfile reports a healthy cluster.
func isHealthy(profile *clusterinventoryv1alpha1.ClusterProfile) bool {
	return profile != nil && apimeta.IsStatusConditionTrue(profile.Status.Conditions, clusterinventoryv1alpha1.ClusterConditionControlPlaneHealthy)
}
