// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
)

// heldTimeout is the value of an edit that clusters refuse.
const heldTimeout = "321"

// TestMixedFleet installs Serving with one KnativeFleet on two managed clusters and three clusters without a work agent. A cluster of each
// delivery holds a wave, a bad edit is rolled back, and a cluster joins, is lost, loses its ClusterProfile, and leaves. Each of the three
// selections is used.
func TestMixedFleet(t *testing.T) {
	startNightlyStory(t)
	l := ownLab(t, lab.Options{ManagedClusters: 2, Spokes: 3, StatusSyncInterval: statusSync, ResyncInterval: resync})
	serveDecisions(t, l)
	p := installDeliveryHub(t, l, harness.Options{})
	p.bind(t)
	f := knativeFleet{push: p}
	for _, c := range append(slices.Clone(p.Managed), p.Spokes...) {
		f.clusters = append(f.clusters, c.Name)
	}
	slices.Sort(f.clusters)
	for _, c := range p.Spokes[:2] {
		p.token(t, c.Name, c, c.Credential.Token)
	}
	web := f.web(kourier())
	if err := unstructured.SetNestedField(web.Object, "100%", "spec", "maxRemoval"); err != nil {
		t.Fatal(err)
	}
	if _, err := f.fleets().Create(t.Context(), web, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.becomesReady(t, 4)
	t.Run("a cluster joins", func(t *testing.T) { f.join(t) })
	t.Run("a cluster of each delivery holds a wave", func(t *testing.T) { f.holdWave(t) })
	t.Run("a bad edit stops, and the earlier template reaches one cluster", func(t *testing.T) { f.rollBack(t) })
	t.Run("a pause keeps every cluster as it is", func(t *testing.T) { f.pause(t) })
	t.Run("a lost cluster holds nothing up, and follows when it is back", func(t *testing.T) { f.loseCluster(t) })
	t.Run("a cluster without its ClusterProfile keeps its installation", func(t *testing.T) { f.loseProfile(t) })
	t.Run("a Placement selects the managed clusters, and the others leave", func(t *testing.T) { f.leave(t) })
	t.Run("a decision key selects every cluster again", func(t *testing.T) { f.returnByKey(t) })
	t.Run("the deletion removes every installation", func(t *testing.T) { f.deleteMixed(t) })
}

// last is the cluster that joins, is lost and leaves.
func (f knativeFleet) last() *lab.Cluster { return f.Spokes[len(f.Spokes)-1] }

func (f knativeFleet) join(t *testing.T) {
	c := f.last()
	f.token(t, c.Name, c, c.Credential.Token)
	f.becomesReady(t, 5)
	f.counts(t, func(s fleetv1alpha1.RolloutStatus) bool {
		return cmp.Equal(s.Versions, []fleetv1alpha1.VersionCount{{Component: api.Serving.AddOnName(), Version: runningVersion(t, f, c.Name), Clusters: 5}})
	})
}

// runningVersion returns the version that a child reports.
func runningVersion(t *testing.T, f knativeFleet, name string) string {
	t.Helper()
	child, err := f.resources(api.Serving).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	version, _, _ := unstructured.NestedString(child.Object, "status", "version")
	return version
}

// holdWave lets the first managed cluster and the first cluster without a work agent refuse an edit, one after the other in the wave.
func (f knativeFleet) holdWave(t *testing.T) {
	before, err := f.readFleet(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	holders := []*lab.Cluster{f.Managed[0], f.Spokes[0]}
	for _, c := range holders {
		f.refuseRendering(t, c, "!has(object.data) || !('revision-timeout-seconds' in object.data) || object.data['revision-timeout-seconds'] != '"+heldTimeout+"'",
			`{"data":{"revision-timeout-seconds":"`+heldTimeout+`"}}`)
	}
	end := f.watchChildren(t)
	f.setServing(t, map[string]any{"config": map[string]any{"defaults": map[string]any{"revision-timeout-seconds": heldTimeout}}})
	for _, c := range holders {
		updated := slices.Index(f.clusters, c.Name) + 1
		f.becomes(t, api.Serving, c.Name, conditionState{api.InstallSucceeded, metav1.ConditionFalse, api.ReasonApplyFailed})
		f.counts(t, func(s fleetv1alpha1.RolloutStatus) bool {
			return int(s.Updated) == updated && int(s.Ready) == updated-1
		})
		f.reports(t, conditionState{fleetv1alpha1.RolledOut, metav1.ConditionFalse, fleetv1alpha1.ReasonProgressing}, fmt.Sprintf("%d of 5 clusters", updated))
		f.acceptRendering(t, c)
	}
	f.becomesReady(t, 5)
	if order := orderOf(t, end(), before.Status.Rollout.Revision); !slices.Equal(order, f.clusters) {
		t.Errorf("the order of the clusters is %q, want %q", order, f.clusters)
	}
	f.haveTimeout(t, heldTimeout)
}

// counts waits until the counts of the KnativeFleet are as wanted.
func (f knativeFleet) counts(t *testing.T, isWanted func(fleetv1alpha1.RolloutStatus) bool) {
	t.Helper()
	eventually(t, "the counts of the KnativeFleet", 3*time.Minute, func(ctx context.Context) error {
		fleet, err := f.readFleet(ctx)
		if err == nil && (fleet.Status.ObservedGeneration != fleet.Generation || !isWanted(fleet.Status.Rollout)) {
			err = fmt.Errorf("the counts are %+v", fleet.Status.Rollout)
		}
		return err
	})
}

// rollBack sets a version that does not exist, and requests the earlier template: only the first cluster may be written to.
func (f knativeFleet) rollBack(t *testing.T) {
	generations := func() map[string]int64 {
		out := map[string]int64{}
		for _, name := range f.clusters[1:] {
			child, err := f.resources(api.Serving).Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			out[name] = child.GetGeneration()
		}
		return out
	}
	before := generations()
	f.setServing(t, map[string]any{"version": "9.99"})
	f.reports(t, conditionState{fleetv1alpha1.Ready, metav1.ConditionFalse, fleetv1alpha1.ReasonMaxFailuresExceeded}, f.clusters[0])
	f.counts(t, func(s fleetv1alpha1.RolloutStatus) bool { return s.Updated == 1 && s.Failed == 1 })
	f.annotateFleet(t, api.RollbackAnnotation, api.RollbackLastKnownGood)
	f.becomesReady(t, 5)
	if diff := cmp.Diff(before, generations()); diff != "" {
		t.Errorf("the generations of the other children (-before +after):\n%s", diff)
	}
}

// annotateFleet sets an annotation of the KnativeFleet; the empty value removes the annotation.
func (f knativeFleet) annotateFleet(t *testing.T, key, value string) {
	t.Helper()
	annotation := key + "=" + value
	if value == "" {
		annotation = key + "-"
	}
	if _, err := f.Command(t.Context(), "kubectl", "annotate", "knativefleet", "--namespace", f.namespace, "web", annotation); err != nil {
		t.Fatal(err)
	}
}

// pause pauses the KnativeFleet during an edit.
func (f knativeFleet) pause(t *testing.T) {
	f.annotateFleet(t, api.PausedAnnotation, "true")
	f.setServing(t, map[string]any{"config": map[string]any{"defaults": map[string]any{"revision-timeout-seconds": "323"}}})
	f.reports(t, conditionState{fleetv1alpha1.RolledOut, metav1.ConditionFalse, fleetv1alpha1.ReasonPaused}, "0 of 5 clusters")
	for _, name := range f.clusters {
		eventually(t, "the child of "+name+" is paused", time.Minute, func(ctx context.Context) error {
			child, err := f.resources(api.Serving).Get(ctx, name, metav1.GetOptions{})
			if err == nil && child.GetAnnotations()[api.PausedAnnotation] != "true" {
				err = fmt.Errorf("its annotations are %v", child.GetAnnotations())
			}
			return err
		})
	}
	f.haveTimeout(t, heldTimeout)
	f.annotateFleet(t, api.PausedAnnotation, "")
	f.becomesReady(t, 5)
	f.haveTimeout(t, "323")
}

// haveTimeout holds that every cluster has the timeout.
func (f knativeFleet) haveTimeout(t *testing.T, timeout string) {
	t.Helper()
	for _, c := range append(slices.Clone(f.Managed), f.Spokes...) {
		if err := hasTimeout(t.Context(), c, timeout); err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
	}
}

// loseCluster stops the API server of the last cluster during an edit.
func (f knativeFleet) loseCluster(t *testing.T) {
	c := f.last()
	if err := f.Kill(c.Name + "-apiserver"); err != nil {
		t.Fatal(err)
	}
	f.reports(t, conditionState{fleetv1alpha1.TargetClusterResolved, metav1.ConditionFalse, fleetv1alpha1.ReasonClustersUnresolved}, c.Name)
	f.setServing(t, map[string]any{"config": map[string]any{"defaults": map[string]any{"revision-timeout-seconds": "322"}}})
	f.counts(t, func(s fleetv1alpha1.RolloutStatus) bool {
		return s.Ready == 4 && s.Unresolved == 1 && len(s.UnresolvedReasons) == 1 && len(s.Clusters) == 1 && s.Clusters[0].Name == c.Name
	})
	if err := f.Start(c.Name + "-apiserver"); err != nil {
		t.Fatal(err)
	}
	f.becomesReady(t, 5)
	if err := hasTimeout(t.Context(), c, "322"); err != nil {
		t.Error(err)
	}
}

// loseProfile deletes the ClusterProfile of the last cluster, and creates the ClusterProfile again.
func (f knativeFleet) loseProfile(t *testing.T) {
	c := f.last()
	if err := f.configs.Resource(profileResource).Namespace(f.namespace).Delete(t.Context(), c.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.reports(t, conditionState{fleetv1alpha1.RemovalHeld, metav1.ConditionTrue, fleetv1alpha1.ReasonClusterUnavailable}, c.Name)
	f.counts(t, func(s fleetv1alpha1.RolloutStatus) bool { return s.Total == 4 && s.Ready == 4 && s.Held == 1 })
	if err := hasTimeout(t.Context(), c, "322"); err != nil {
		t.Errorf("the cluster lost its installation: %v", err)
	}
	f.token(t, c.Name, c, c.Credential.Token)
	f.becomesReady(t, 5)
	f.counts(t, func(s fleetv1alpha1.RolloutStatus) bool { return s.Held == 0 })
}

// leave selects the managed clusters by a Placement.
func (f knativeFleet) leave(t *testing.T) {
	placement := &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "managed"}}
	if _, err := f.Clusters.ClusterV1beta1().Placements(f.namespace).Create(t.Context(), placement, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the decision of the Placement", time.Minute, func(ctx context.Context) error {
		decisions, err := f.placementDecisions(ctx, "managed")
		if err == nil && len(decisions) != 2 {
			err = fmt.Errorf("the Placement selects %q", decisions)
		}
		return err
	})
	f.patchFleet(t, map[string]any{"selector": nil, "placementRef": map[string]any{"name": "managed"}})
	f.becomesReady(t, 2)
	for _, c := range f.Spokes {
		f.gone(t, api.Serving, c.Name)
	}
}

// returnByKey selects all clusters by two PlacementDecisions, in an order other than that of the names.
func (f knativeFleet) returnByKey(t *testing.T) {
	for i, clusters := range [][]*lab.Cluster{f.Spokes, f.Managed} {
		var decisions []any
		for _, c := range clusters {
			decisions = append(decisions, map[string]any{"clusterProfileRef": map[string]any{"name": c.Name}})
		}
		_, err := f.configs.Resource(decisionResource).Namespace(f.namespace).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "PlacementDecision",
			"metadata": map[string]any{"namespace": f.namespace, "name": fmt.Sprintf("all-%d", i), "labels": map[string]any{
				"multicluster.x-k8s.io/decision-key": "all", "multicluster.x-k8s.io/decision-index": fmt.Sprint(i),
			}},
			"decisions": decisions,
		}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	f.patchFleet(t, map[string]any{"placementRef": nil, "decisionKey": "all"})
	f.becomesReady(t, 5)
}

func (f knativeFleet) deleteMixed(t *testing.T) {
	if err := f.fleets().Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range f.clusters {
		f.gone(t, api.Serving, name)
	}
}
