// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/lab"
)

// maintenance is the key of the taint of a cluster that is to be emptied.
const maintenance = "example.com/maintenance"

// TestMigration runs what OCM's documentation does with Placements, with the add-on in the place of the workload.
func TestMigration(t *testing.T) {
	startNightlyStory(t)
	f := ownFleet(t, lab.Options{ManagedClusters: 3, StatusSyncInterval: statusSync}, "--max-removal=100%")
	m := newTeam(t, f, "migration")
	m.selectBy(t, placementName, clusterv1beta1.PlacementSpec{
		NumberOfClusters: new(int32(1)),
		Tolerations: []clusterv1beta1.Toleration{
			{Key: clusterv1.ManagedClusterTaintUnreachable, Operator: clusterv1beta1.TolerationOpExists},
			{Key: clusterv1.ManagedClusterTaintUnavailable, Operator: clusterv1beta1.TolerationOpExists},
		},
	})
	m.setInstallStrategy(t, api.Serving, fmt.Sprintf(`{"type":"Placements","placements":[{"namespace":%q,"name":%q}]}`, m.namespace, placementName))
	m.number(t, 2)
	t.Run("numberOfClusters changes from two to one and back", func(t *testing.T) { changeNumberOfClusters(t, m) })
	t.Run("a cluster that becomes unreachable and returns gets no write", func(t *testing.T) { stopAndStartCluster(t, m) })
	t.Run("a tainted cluster loses the add-on after another cluster is Ready", func(t *testing.T) { taintSelectedCluster(t, m) })
	t.Run("a cluster keeps the add-on for tolerationSeconds", func(t *testing.T) { tolerateTaint(t, m) })
}

// number has the Placement select as many clusters.
func (m team) number(t *testing.T, n int) {
	t.Helper()
	m.patchPlacement(t, fmt.Sprintf(`{"spec":{"numberOfClusters":%d}}`, n))
}

func (m team) patchPlacement(t *testing.T, patch string) {
	t.Helper()
	_, err := m.Clusters.ClusterV1beta1().Placements(m.namespace).Patch(t.Context(), placementName, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// awaitSelectedClusters waits until the Placement selects n clusters, and Serving is Available on these and gone from all others.
func (m team) awaitSelectedClusters(t *testing.T, n int) []*lab.Cluster {
	t.Helper()
	var out []*lab.Cluster
	eventually(t, fmt.Sprintf("Serving is on the %d clusters that are selected", n), 5*time.Minute, func(ctx context.Context) error {
		names, err := m.placementDecisions(ctx, placementName)
		if err != nil || len(names) != n {
			return fmt.Errorf("selected are %v, error %w", names, err)
		}
		out = nil
		for _, c := range m.Managed {
			a, err := m.current(ctx, c)
			if err != nil {
				return err
			}
			selected := slices.Contains(names, c.Name)
			if selected {
				out = append(out, c)
			}
			if ready := a != nil && isAvailable(a); selected && !ready || !selected && a != nil {
				return fmt.Errorf("%s is selected: %t, and has the add-on Available: %t", c.Name, selected, ready)
			}
		}
		return nil
	})
	return out
}

func isAvailable(a *addonv1beta1.ManagedClusterAddOn) bool {
	return a.DeletionTimestamp == nil && apimeta.IsStatusConditionTrue(a.Status.Conditions, addonv1beta1.ManagedClusterAddOnConditionAvailable)
}

func changeNumberOfClusters(t *testing.T, m team) {
	two := m.awaitSelectedClusters(t, 2)
	before := m.readInstallations(t, two...)
	m.number(t, 1)
	one := m.awaitSelectedClusters(t, 1)[0]
	m.untouched(t, one, before[one.Name])
	for _, c := range two {
		if c != one {
			m.removed(t, c)
		}
	}
	m.number(t, 2)
	m.awaitSelectedClusters(t, 2)
	m.untouched(t, one, before[one.Name])
}

func stopAndStartCluster(t *testing.T, m team) {
	c := m.awaitSelectedClusters(t, 2)[0]
	before := m.readInstallation(t, c)
	shortLease(t, m, c.Name)
	m.away(t, c)
	eventually(t, "the cluster is tainted", 2*time.Minute, func(ctx context.Context) error {
		cluster, err := m.Clusters.ClusterV1().ManagedClusters().Get(ctx, c.Name, metav1.GetOptions{})
		if err == nil && len(cluster.Spec.Taints) == 0 {
			err = errors.New("it has no taint")
		}
		return err
	})
	m.untouched(t, c, before)
	m.back(t, c)
	usualLease(t, m, c.Name) // the stages below keep the cluster reachable
	eventually(t, "the cluster has no taint", 2*time.Minute, func(ctx context.Context) error {
		cluster, err := m.Clusters.ClusterV1().ManagedClusters().Get(ctx, c.Name, metav1.GetOptions{})
		if err == nil && len(cluster.Spec.Taints) > 0 {
			err = fmt.Errorf("it has taints %v", cluster.Spec.Taints)
		}
		return err
	})
	m.awaitSelectedClusters(t, 2)
	m.untouched(t, c, before)
}

// taintCluster gives a cluster these taints and no others.
func (m team) taintCluster(t *testing.T, c *lab.Cluster, taints ...clusterv1.Taint) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"taints": taints}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Clusters.ClusterV1().ManagedClusters().Patch(t.Context(), c.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

func taintSelectedCluster(t *testing.T, m team) {
	chosen := m.awaitSelectedClusters(t, 2)
	c := chosen[0]
	before := m.readInstallation(t, c)
	i := slices.IndexFunc(m.Managed, func(other *lab.Cluster) bool { return !slices.Contains(chosen, other) })
	next := connect(t, m.Managed[i])
	cordon(t, next, true) // nothing becomes ready there
	m.taintCluster(t, c, clusterv1.Taint{Key: maintenance, Effect: clusterv1.TaintEffectNoSelect})
	eventually(t, "the removal waits for the replacement", 2*time.Minute, func(ctx context.Context) error {
		a, err := m.current(ctx, c)
		if err != nil || a == nil {
			return fmt.Errorf("the add-on is %v, error %w", a, err)
		}
		held := apimeta.FindStatusCondition(a.Status.Conditions, api.RemovalHeld)
		if held == nil || held.Status != metav1.ConditionTrue || held.Reason != api.ReasonAwaitingReplacement {
			return fmt.Errorf("%s is %+v", api.RemovalHeld, held)
		}
		return nil
	})
	eventually(t, "the workloads of the replacement wait for a node", 2*time.Minute, func(ctx context.Context) error {
		pods, err := next.kube.CoreV1().Pods("knative-serving").List(ctx, metav1.ListOptions{FieldSelector: "status.phase=Pending"})
		if err == nil && len(pods.Items) == 0 {
			err = errors.New("no pod is Pending")
		}
		return err
	})
	m.untouched(t, c, before)
	cordon(t, next, false)
	m.awaitReplacement(t, c, before)
	m.removed(t, c)
	m.taintCluster(t, c)
}

// awaitReplacement waits until the installation is gone from a cluster. As soon as anything of it is touched, the one that takes its place
// must be Available.
func (m team) awaitReplacement(t *testing.T, from *lab.Cluster, before installationState) {
	t.Helper()
	eventually(t, "Serving has left "+from.Name, 5*time.Minute, func(ctx context.Context) error {
		a, err := m.current(ctx, from)
		if err != nil {
			return err
		}
		touched, err := m.isChanged(ctx, from, before)
		if err != nil {
			return err
		}
		if !touched {
			return errors.New("it is still there")
		}
		for _, name := range m.selectedClusters(ctx, t) {
			if other, err := m.current(ctx, m.cluster(name)); err != nil || other == nil || !isAvailable(other) {
				t.Fatalf("%s is being emptied and %s is not ready: %v, error %v", from.Name, name, other, err)
			}
		}
		if a != nil {
			return errors.New("the add-on is still there")
		}
		return nil
	})
}

func (m team) selectedClusters(ctx context.Context, t *testing.T) []string {
	t.Helper()
	names, err := m.placementDecisions(ctx, placementName)
	if err != nil || len(names) != 2 {
		t.Fatalf("selected are %v, error %v", names, err)
	}
	return names
}

// isChanged tells that any work of the installation was changed or deleted.
func (m team) isChanged(ctx context.Context, c *lab.Cluster, before installationState) (bool, error) {
	works, err := m.ComponentWorks(ctx, api.Serving, c.Name)
	if err != nil {
		return false, err
	}
	if len(works) != len(before.Works) {
		return true, nil
	}
	for _, w := range works {
		if before.Works[w.Name] != fmt.Sprintf("%s generation %d deleted %t", w.UID, w.Generation, w.DeletionTimestamp != nil) {
			return true, nil
		}
	}
	return false, nil
}

func tolerateTaint(t *testing.T, m team) {
	c := m.awaitSelectedClusters(t, 2)[0]
	const seconds = 20
	m.patchPlacement(t, fmt.Sprintf(`{"spec":{"tolerations":[{"key":%q,"operator":"Exists","tolerationSeconds":%d}]}}`, maintenance, seconds))
	before := m.readInstallation(t, c)
	m.taintCluster(t, c, clusterv1.Taint{Key: maintenance, Effect: clusterv1.TaintEffectNoSelect})
	cluster, err := m.Clusters.ClusterV1().ManagedClusters().Get(t.Context(), c.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var deleted time.Time
	eventually(t, "the add-on is deleted", 2*time.Minute, func(ctx context.Context) error {
		a, err := m.current(ctx, c)
		if err == nil && (a == nil || a.DeletionTimestamp == nil) {
			return errors.New("it is not")
		}
		if err == nil {
			deleted = a.DeletionTimestamp.Time
		}
		return err
	})
	if tolerated := deleted.Sub(cluster.Spec.Taints[0].TimeAdded.Time); tolerated < (seconds-1)*time.Second {
		t.Errorf("the add-on was deleted %s after the taint, want %d s", tolerated, seconds)
	}
	m.awaitReplacement(t, c, before)
	m.removed(t, c)
}
