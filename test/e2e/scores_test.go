// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/lab"
)

// TestScores is about workloads that are placed where Knative is.
func TestScores(t *testing.T) {
	startRestStory(t)
	f := ownFleet(t, lab.Options{ManagedClusters: 3, StatusSyncInterval: statusSync})
	m := newTeam(t, f, "scheduling")
	with := f.Managed[:2] // cluster3 stays without Knative
	enabled(t, f, []api.Component{api.Serving}, with...)

	m.selectBy(t, "by-claim", clusterv1beta1.PlacementSpec{Predicates: []clusterv1beta1.ClusterPredicate{{
		RequiredClusterSelector: clusterv1beta1.ClusterSelector{ClaimSelector: clusterv1beta1.ClusterClaimSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: api.ServingVersionClaim, Operator: metav1.LabelSelectorOpIn, Values: []string{"1.23.0"}},
				{Key: api.IngressClaim, Operator: metav1.LabelSelectorOpIn, Values: []string{"kourier"}},
			},
		}},
	}}})
	m.selectBy(t, "by-label", clusterv1beta1.PlacementSpec{Predicates: []clusterv1beta1.ClusterPredicate{{
		RequiredClusterSelector: clusterv1beta1.ClusterSelector{LabelSelector: metav1.LabelSelector{
			MatchLabels: map[string]string{"feature.open-cluster-management.io/addon-knative-serving": "available"},
		}},
	}}})
	m.selectBy(t, "by-score", clusterv1beta1.PlacementSpec{
		NumberOfClusters: new(int32(1)),
		PrioritizerPolicy: clusterv1beta1.PrioritizerPolicy{Mode: clusterv1beta1.PrioritizerPolicyModeExact, Configurations: []clusterv1beta1.PrioritizerConfig{{
			Weight: 1, ScoreCoordinate: &clusterv1beta1.ScoreCoordinate{
				Type: clusterv1beta1.ScoreCoordinateTypeAddOn, AddOn: &clusterv1beta1.AddOnScore{ResourceName: api.ScoresName, ScoreName: "serving-ready"},
			},
		}}},
	})

	t.Run("a cluster claims its versions of Knative", func(t *testing.T) { m.checkClaims(t, with[0]) })
	t.Run("an available Knative has full scores", func(t *testing.T) { m.awaitFullScores(t, with...) })
	m.awaitPlacement(t, "by-claim", with...)
	m.awaitPlacement(t, "by-label", with...)
	t.Run("Placements avoid a cluster with a failed Knative", func(t *testing.T) { m.breakKnative(t, with) })
	t.Run("a disabled add-on is not claimed", func(t *testing.T) {
		if err := m.Disable(t.Context(), []string{api.Serving.AddOnName()}, []string{with[0].Name}); err != nil {
			t.Fatal(err)
		}
		m.awaitPlacement(t, "by-claim", with[1])
		m.awaitPlacement(t, "by-label", with[1])
		m.awaitPlacement(t, "by-score", with[1])
		eventually(t, "the scores are gone", 2*time.Minute, func(ctx context.Context) error {
			_, err := m.Clusters.ClusterV1alpha1().AddOnPlacementScores(with[0].Name).Get(ctx, api.ScoresName, metav1.GetOptions{})
			if !apierrors.IsNotFound(err) {
				return fmt.Errorf("they are still there, error %w", err)
			}
			return nil
		})
	})
}

func (m team) selectBy(t *testing.T, name string, spec clusterv1beta1.PlacementSpec) {
	t.Helper()
	_, err := m.Clusters.ClusterV1beta1().Placements(m.namespace).Create(t.Context(), &clusterv1beta1.Placement{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec,
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// placementDecisions are the clusters that a Placement selects, sorted.
func (m team) placementDecisions(ctx context.Context, placement string) ([]string, error) {
	list, err := m.Clusters.ClusterV1beta1().PlacementDecisions(m.namespace).List(ctx, metav1.ListOptions{
		LabelSelector: clusterv1beta1.PlacementLabel + "=" + placement,
	})
	if err != nil {
		return nil, err
	}
	var out []string
	for _, d := range list.Items {
		for _, c := range d.Status.Decisions {
			out = append(out, c.ClusterName)
		}
	}
	slices.Sort(out)
	return out, nil
}

// awaitPlacement waits until a Placement selects exactly these clusters.
func (m team) awaitPlacement(t *testing.T, placement string, clusters ...*lab.Cluster) {
	t.Helper()
	var want []string
	for _, c := range clusters {
		want = append(want, c.Name)
	}
	slices.Sort(want)
	eventually(t, fmt.Sprintf("Placement %s selects %v", placement, want), 4*time.Minute, func(ctx context.Context) error {
		got, err := m.placementDecisions(ctx, placement)
		if err == nil && !slices.Equal(got, want) {
			err = fmt.Errorf("it selects %v", got)
		}
		return err
	})
}

// checkClaims holds that ManagedCluster and ClusterProfile tell what the cluster claims.
func (m team) checkClaims(t *testing.T, c *lab.Cluster) {
	want := map[string]string{api.ServingVersionClaim: "1.23.0", api.IngressClaim: "kourier"}
	profiles := m.configs.Resource(schema.GroupVersionResource{Group: "multicluster.x-k8s.io", Version: "v1alpha1", Resource: "clusterprofiles"})
	eventually(t, "the claims are on the hub", 2*time.Minute, func(ctx context.Context) error {
		cluster, err := m.Clusters.ClusterV1().ManagedClusters().Get(ctx, c.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		claims := map[string]string{}
		for _, claim := range cluster.Status.ClusterClaims {
			claims[claim.Name] = claim.Value
		}
		profile, err := profiles.Namespace(m.namespace).Get(ctx, c.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		properties := map[string]string{}
		status, _ := profile.Object["status"].(map[string]any)
		list, _ := status["properties"].([]any)
		for _, p := range list {
			property, _ := p.(map[string]any)
			properties[fmt.Sprint(property["name"])] = fmt.Sprint(property["value"])
		}
		for name, value := range want {
			if claims[name] != value || properties[name] != value {
				return fmt.Errorf("%s: the ManagedCluster has %q, the ClusterProfile %q", name, claims[name], properties[name])
			}
		}
		return nil
	})
}

// readScores are what is written for a cluster, and in which version.
func (m team) readScores(ctx context.Context, c *lab.Cluster) (values map[string]int32, version string, err error) {
	s, err := m.Clusters.ClusterV1alpha1().AddOnPlacementScores(c.Name).Get(ctx, api.ScoresName, metav1.GetOptions{})
	if err != nil {
		return nil, "", err
	}
	if s.Status.ValidUntil == nil || time.Until(s.Status.ValidUntil.Time) < 12*time.Hour {
		return nil, "", fmt.Errorf("they are valid until %v", s.Status.ValidUntil)
	}
	values = map[string]int32{}
	for _, item := range s.Status.Scores {
		values[item.Name] = item.Value
	}
	return values, s.ResourceVersion, nil
}

// awaitFullScores waits until the clusters have full scores of Serving and none of Eventing.
func (m team) awaitFullScores(t *testing.T, clusters ...*lab.Cluster) {
	t.Helper()
	want := map[string]int32{
		"serving-ready": 100, "serving-version": 100, "serving-rollout": 100, "eventing-ready": 0, "eventing-version": 0, "eventing-rollout": 0,
	}
	for _, c := range clusters {
		eventually(t, "Serving on "+c.Name+" has full scores", 4*time.Minute, func(ctx context.Context) error {
			values, _, err := m.readScores(ctx, c)
			if diff := cmp.Diff(want, values); err == nil && diff != "" {
				err = errors.New("-want +got:\n" + diff)
			}
			return err
		})
	}
}

// breakKnative has Knative fail where a Placement has put its workload, and holds that it goes where Knative runs.
func (m team) breakKnative(t *testing.T, clusters []*lab.Cluster) {
	var chosen []string
	eventually(t, "a Placement prefers a cluster with Knative", 2*time.Minute, func(ctx context.Context) (err error) {
		chosen, err = m.placementDecisions(ctx, "by-score")
		if err == nil && (len(chosen) != 1 || chosen[0] == m.Managed[2].Name) {
			err = fmt.Errorf("it selects %v", chosen)
		}
		return err
	})
	failing, other := clusters[0], clusters[1]
	if failing.Name != chosen[0] {
		failing, other = other, failing
	}
	_, before, err := m.readScores(t.Context(), other)
	if err != nil {
		t.Fatal(err)
	}
	s := connect(t, failing)
	cordon(t, s, true)
	// No node takes the pods that follow.
	if err := s.kube.CoreV1().Pods("knative-serving").DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	m.awaitPlacement(t, "by-score", other)
	m.awaitPlacement(t, "by-label", other)
	m.awaitPlacement(t, "by-claim", clusters...) // it is still installed
	cordon(t, s, false)
	available(t, m.Fleet, []api.Component{api.Serving}, failing)
	m.awaitPlacement(t, "by-label", clusters...)
	m.awaitFullScores(t, failing)
	if _, after, err := m.readScores(t.Context(), other); err != nil || after != before {
		t.Errorf("the scores of %s, where nothing happened, were written: version %s before, %s after, error %v", other.Name, before, after, err)
	}
}

// cordon lets no new pod onto the nodes of a cluster, or lets them again.
func cordon(t *testing.T, s spoke, unschedulable bool) {
	t.Helper()
	nodes, err := s.kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes.Items {
		patch := fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, unschedulable)
		if _, err := s.kube.CoreV1().Nodes().Patch(t.Context(), n.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}
