// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
)

// TestGuard is about removals that nobody meant, and those that somebody did.
func TestGuard(t *testing.T) {
	startRestStory(t)
	f := ownFleet(t, lab.Options{ManagedClusters: 3, StatusSyncInterval: statusSync})
	m := newTeam(t, f, "platform")
	m.createPlacement(t)
	available(t, f, []api.Component{api.Serving}, f.Managed...)

	t.Run("an unreachable cluster keeps the installation", func(t *testing.T) { unreachable(t, m, f.Managed[0]) })
	t.Run("the removal from a cluster that returns waits for the Placement", func(t *testing.T) { returnWithoutDecision(t, m, f.Managed[0]) })
	t.Run("an empty Placement removes nothing", func(t *testing.T) { emptied(t, m) })
	t.Run("a deleted Placement removes nothing until the confirmation", func(t *testing.T) { deletePlacement(t, m) })
	m.setInstallStrategy(t, api.Serving, `{"type":"Manual","placements":null}`)
	t.Run("an add-on that is deleted with force-orphan leaves the installation", func(t *testing.T) { removeWithForceOrphan(t, m, f.Managed[0]) })
	t.Run("a deletion policy deletes CRDs", func(t *testing.T) { removeWithDeletionPolicies(t, m, f.Managed[1]) })
}

const placementName = "knative"

// createPlacement has a Placement select all clusters by a label, and Serving installed on what it selects. The Placement tolerates
// no unreachable cluster. Its decisions are in the groups, in order.
func (m team) createPlacement(t *testing.T, groups ...clusterv1beta1.DecisionGroup) {
	t.Helper()
	for _, c := range m.Managed {
		_, err := m.Clusters.ClusterV1().ManagedClusters().Patch(t.Context(), c.Name, types.MergePatchType,
			[]byte(`{"metadata":{"labels":{"knative":"yes"}}}`), metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := m.Clusters.ClusterV1beta1().Placements(m.namespace).Create(t.Context(), &clusterv1beta1.Placement{
		ObjectMeta: metav1.ObjectMeta{Name: placementName},
		Spec: clusterv1beta1.PlacementSpec{
			Predicates: []clusterv1beta1.ClusterPredicate{{
				RequiredClusterSelector: clusterv1beta1.ClusterSelector{LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"knative": "yes"}}},
			}},
			DecisionStrategy: clusterv1beta1.DecisionStrategy{GroupStrategy: clusterv1beta1.GroupStrategy{DecisionGroups: groups}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	m.setInstallStrategy(t, api.Serving, fmt.Sprintf(`{"type":"Placements","placements":[{"namespace":%q,"name":%q}]}`, m.namespace, placementName))
}

// selectByLabel has the Placement select clusters with that value of label knative.
func (m team) selectByLabel(t *testing.T, value string) {
	t.Helper()
	patch := fmt.Sprintf(`[{"op":"replace","path":"/spec/predicates/0/requiredClusterSelector/labelSelector/matchLabels/knative","value":%q}]`, value)
	_, err := m.Clusters.ClusterV1beta1().Placements(m.namespace).Patch(t.Context(), placementName, types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// installationState is what must stay the same when nothing is removed: the works on the hub by UID and generation, and the
// objects on the cluster.
type installationState struct {
	AddOn   types.UID
	Works   map[string]string
	Objects map[string]string
}

func (m team) readInstallation(t *testing.T, c *lab.Cluster) installationState {
	t.Helper()
	return m.readInstallations(t, c)[c.Name]
}

// readInstallations returns the installations of clusters by the name of the cluster. All clusters come to rest at the same time.
func (m team) readInstallations(t *testing.T, clusters ...*lab.Cluster) map[string]installationState {
	t.Helper()
	settled(t, m.Fleet, api.Serving, clusters...)
	spokes := make([]spoke, 0, len(clusters))
	for _, c := range clusters {
		spokes = append(spokes, connect(t, c))
	}
	objects := restingSpecsOf(t, spokes...)
	out := map[string]installationState{}
	for _, c := range clusters {
		works, err := m.ComponentWorks(t.Context(), api.Serving, c.Name)
		if err != nil {
			t.Fatal(err)
		}
		state := installationState{Works: map[string]string{}, Objects: objects[c.Name]}
		for _, w := range works {
			state.Works[w.Name] = fmt.Sprintf("%s generation %d deleted %t", w.UID, w.Generation, w.DeletionTimestamp != nil)
		}
		if a := m.addOn(t.Context(), t, api.Serving, c.Name); a != nil {
			state.AddOn = a.UID
		}
		out[c.Name] = state
	}
	return out
}

// clustersOf returns the clusters of installations.
func (m team) clustersOf(t *testing.T, installations map[string]installationState) []*lab.Cluster {
	t.Helper()
	var out []*lab.Cluster
	for _, c := range m.Managed {
		if _, found := installations[c.Name]; found {
			out = append(out, c)
		}
	}
	if len(out) == 0 || len(out) != len(installations) {
		t.Fatalf("the lab has %d of the clusters of %d installations", len(out), len(installations))
	}
	return out
}

// current is Serving's add-on on the cluster, nil when there is none.
func (m team) current(ctx context.Context, c *lab.Cluster) (*addonv1beta1.ManagedClusterAddOn, error) {
	a, err := m.AddOns.AddonV1beta1().ManagedClusterAddOns(c.Name).Get(ctx, api.Serving.AddOnName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return a, err
}

// awaitHandover waits until the add-on is another one and Available, and holds that neither works nor cluster have changed.
func (m team) awaitHandover(t *testing.T, c *lab.Cluster, before installationState) {
	t.Helper()
	m.awaitHandovers(t, map[string]installationState{c.Name: before})
}

// awaitHandovers is awaitHandover for several clusters.
func (m team) awaitHandovers(t *testing.T, before map[string]installationState) {
	t.Helper()
	for _, c := range m.clustersOf(t, before) {
		eventually(t, "Serving on "+c.Name+" has a new add-on and its works have an owner", 4*time.Minute, m.checkHandover(c, before[c.Name].AddOn))
	}
	for name, now := range m.readInstallations(t, m.clustersOf(t, before)...) {
		expected := before[name]
		expected.AddOn = now.AddOn
		if diff := cmp.Diff(expected, now); diff != "" {
			t.Errorf("the installation on %s was written to (-before +after):\n%s", name, diff)
		}
	}
}

// checkHandover returns a check that the add-on of the cluster is another one than the former, and owns the works.
func (m team) checkHandover(c *lab.Cluster, former types.UID) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		a, err := m.current(ctx, c)
		if err != nil || a == nil || a.UID == former || a.DeletionTimestamp != nil {
			return fmt.Errorf("the add-on is %v, error %w", a, err)
		}
		works, err := m.ComponentWorks(ctx, api.Serving, c.Name)
		if err != nil {
			return err
		}
		for _, w := range works {
			if len(w.OwnerReferences) != 1 || w.OwnerReferences[0].UID != a.UID || w.Annotations[api.HandoverAnnotation] != "" {
				return fmt.Errorf("ManifestWork %s has owners %v and annotations %v", w.Name, w.OwnerReferences, w.Annotations)
			}
		}
		return nil
	}
}

// awaitRemovalHeld waits until the removal from the cluster is held for that reason.
func (m team) awaitRemovalHeld(t *testing.T, c *lab.Cluster, reason string) {
	t.Helper()
	eventually(t, "the removal from "+c.Name+" is held: "+reason, 4*time.Minute, func(ctx context.Context) error {
		a, err := m.current(ctx, c)
		if err != nil || a == nil || a.DeletionTimestamp == nil {
			return fmt.Errorf("the add-on is not being deleted, error %w", err)
		}
		held := apimeta.FindStatusCondition(a.Status.Conditions, api.RemovalHeld)
		if held == nil || held.Status != metav1.ConditionTrue || held.Reason != reason {
			return fmt.Errorf("the condition is %v", held)
		}
		return nil
	})
}

// untouched holds that the installation is what it was.
func (m team) untouched(t *testing.T, c *lab.Cluster, before installationState) {
	t.Helper()
	m.allUntouched(t, map[string]installationState{c.Name: before})
}

// allUntouched is untouched for several clusters.
func (m team) allUntouched(t *testing.T, before map[string]installationState) {
	t.Helper()
	if diff := cmp.Diff(before, m.readInstallations(t, m.clustersOf(t, before)...)); diff != "" {
		t.Errorf("the installations were touched (-before +after):\n%s", diff)
	}
}

// replaceManager kills the manager and starts another.
func (m team) replaceManager(t *testing.T) {
	t.Helper()
	if err := errors.Join(m.Kill(harness.Manager), m.Start(harness.Manager)); err != nil {
		t.Fatal(err)
	}
}

func unreachable(t *testing.T, m team, c *lab.Cluster) {
	before := m.readInstallation(t, c)
	shortLease(t, m, c.Name)
	m.away(t, c)
	m.awaitRemovalHeld(t, c, api.ReasonClusterUnavailable)
	m.replaceManager(t)
	m.awaitRemovalHeld(t, c, api.ReasonClusterUnavailable)
	m.untouched(t, c, before)
	m.back(t, c)
	m.awaitHandover(t, c, before)
	available(t, m.Fleet, []api.Component{api.Serving}, c)
	usualLease(t, m, c.Name)
}

// returnWithoutDecision stops OCM's placement controller while a cluster is away and returns.
func returnWithoutDecision(t *testing.T, m team, c *lab.Cluster) {
	const placementController = "ocm-placement"
	before := m.readInstallation(t, c)
	shortLease(t, m, c.Name)
	m.away(t, c)
	m.awaitRemovalHeld(t, c, api.ReasonClusterUnavailable)
	if err := m.Stop(placementController); err != nil {
		t.Fatal(err)
	}
	m.back(t, c)
	m.awaitRemovalHeld(t, c, api.ReasonPlacementUndecided)
	m.replaceManager(t)
	m.awaitRemovalHeld(t, c, api.ReasonPlacementUndecided)
	m.untouched(t, c, before)
	if err := m.Start(placementController); err != nil {
		t.Fatal(err)
	}
	m.awaitHandover(t, c, before)
	available(t, m.Fleet, []api.Component{api.Serving}, c)
	usualLease(t, m, c.Name)
}

// all runs something for every cluster.
func (m team) all(run func(c *lab.Cluster)) {
	for _, c := range m.Managed {
		run(c)
	}
}

func emptied(t *testing.T, m team) {
	before := m.readInstallations(t, m.Managed...)
	m.selectByLabel(t, "yse")
	m.all(func(c *lab.Cluster) { m.awaitRemovalHeld(t, c, api.ReasonMassRemoval) })
	event(t, m, "RemovalHeld")
	m.replaceManager(t)
	m.all(func(c *lab.Cluster) { m.awaitRemovalHeld(t, c, api.ReasonMassRemoval) })
	m.allUntouched(t, before)

	m.selectByLabel(t, "yes")
	eventually(t, "a hand-over has begun", 2*time.Minute, func(ctx context.Context) error {
		for _, c := range m.Managed {
			works, err := m.ComponentWorks(ctx, api.Serving, c.Name)
			if err != nil {
				return err
			}
			if len(works) > 0 && works[0].Annotations[api.HandoverAnnotation] != "" {
				return nil
			}
			if a, err := m.current(ctx, c); err == nil && a != nil && a.UID != before[c.Name].AddOn {
				return nil
			}
		}
		return errors.New("nothing has happened")
	})
	m.replaceManager(t)
	m.awaitHandovers(t, before)
	available(t, m.Fleet, []api.Component{api.Serving}, m.Managed...)
}

func deletePlacement(t *testing.T, m team) {
	before := m.readInstallations(t, m.Managed...)
	if err := m.Clusters.ClusterV1beta1().Placements(m.namespace).Delete(t.Context(), placementName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	m.all(func(c *lab.Cluster) { m.awaitRemovalHeld(t, c, api.ReasonMassRemoval) })
	m.allUntouched(t, before)
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, api.RemovalAnnotation, api.RemovalConfirm)
	_, err := m.AddOns.AddonV1beta1().ClusterManagementAddOns().Patch(t.Context(), api.Serving.AddOnName(), types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	m.all(func(c *lab.Cluster) { m.removed(t, c) })
	event(t, m, "RemovalConfirmed")
	definition, err := m.AddOns.AddonV1beta1().ClusterManagementAddOns().Get(t.Context(), api.Serving.AddOnName(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if answer, there := definition.Annotations[api.RemovalAnnotation]; there {
		t.Errorf("the answer %q is still there and would confirm the next removal too", answer)
	}
}

// removed waits until add-on and works are gone, and holds that nothing is left but CRDs and Namespaces.
func (m team) removed(t *testing.T, c *lab.Cluster) {
	t.Helper()
	m.worksGone(t, c)
	connect(t, c).emptied(t)
}

func (m team) worksGone(t *testing.T, c *lab.Cluster) {
	t.Helper()
	eventually(t, "add-on and works of "+c.Name+" are gone", 3*time.Minute, func(ctx context.Context) error {
		works, err := m.ComponentWorks(ctx, api.Serving, c.Name)
		if err != nil {
			return err
		}
		if a, err := m.current(ctx, c); err != nil || a != nil || len(works) > 0 {
			return fmt.Errorf("%d works, add-on %v, error %w", len(works), a, err)
		}
		return nil
	})
}

func (m team) annotate(t *testing.T, c *lab.Cluster, name, value string) {
	t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, name, value)
	_, err := m.AddOns.AddonV1beta1().ManagedClusterAddOns(c.Name).Patch(
		t.Context(), api.Serving.AddOnName(), types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// disable disables Serving on the cluster.
func (m team) disable(t *testing.T, c *lab.Cluster) {
	t.Helper()
	if err := m.Disable(t.Context(), []string{api.Serving.AddOnName()}, []string{c.Name}); err != nil {
		t.Fatal(err)
	}
}

func removeWithForceOrphan(t *testing.T, m team, c *lab.Cluster) {
	enabled(t, m.Fleet, []api.Component{api.Serving}, c)
	before := m.readInstallation(t, c)
	m.away(t, c)
	m.disable(t, c)
	m.awaitRemovalHeld(t, c, api.ReasonClusterUnavailable)
	m.untouched(t, c, before)

	m.annotate(t, c, api.RemovalAnnotation, api.RemovalCancel) // which needs no agent
	m.awaitHandover(t, c, before)

	m.disable(t, c)
	m.awaitRemovalHeld(t, c, api.ReasonClusterUnavailable)
	m.annotate(t, c, api.ForceOrphanAnnotation, "true")
	eventually(t, "the add-on is gone", time.Minute, func(ctx context.Context) error {
		if a, err := m.current(ctx, c); err != nil || a != nil {
			return fmt.Errorf("it is %v, error %w", a, err)
		}
		return nil
	})
	event(t, m, "Orphaned", c.Name, "objects", "CRDs", "Namespace knative-serving", "activator")
	m.back(t, c)
	m.worksGone(t, c)
	after := specs(t, connect(t, c))
	for _, name := range slices.Sorted(maps.Keys(before.Objects)) {
		if after[name] == "" {
			t.Errorf("%s is gone from the cluster", name)
		}
	}
	enabled(t, m.Fleet, []api.Component{api.Serving}, c) // what was left is taken over
	m.disable(t, c)
	m.removed(t, c)
}

func removeWithDeletionPolicies(t *testing.T, m team, c *lab.Cluster) {
	enabled(t, m.Fleet, []api.Component{api.Serving}, c)
	m.annotate(t, c, api.DeletionPolicyAnnotation, api.DeletionPolicyDelete)
	m.disable(t, c)
	m.awaitRemovalHeld(t, c, api.ReasonUserResourcesUnknown)
	m.annotate(t, c, api.DeletionPolicyAnnotation, "") // CRDs and Namespace stay
	m.removed(t, c)

	enabled(t, m.Fleet, []api.Component{api.Serving}, c)
	s := connect(t, c)
	services := s.dynamic.Resource(schema.GroupVersionResource{Group: "serving.knative.dev", Version: "v1", Resource: "services"}).Namespace("default")
	eventually(t, "a user's Service is there", time.Minute, func(ctx context.Context) error {
		_, err := services.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "serving.knative.dev/v1", "kind": "Service", "metadata": map[string]any{"name": "hello"},
			"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"image": "hello"}}}}},
		}}, metav1.CreateOptions{})
		return err
	})
	m.annotate(t, c, api.DeletionPolicyAnnotation, api.DeletionPolicyDelete)
	m.disable(t, c)
	m.awaitRemovalHeld(t, c, api.ReasonUserResourcesUnknown)
	if _, err := services.Get(t.Context(), "hello", metav1.GetOptions{}); err != nil {
		t.Errorf("the user's Service: %v", err)
	}
	d, err := s.kube.AppsV1().Deployments("knative-serving").Get(t.Context(), "controller", metav1.GetOptions{})
	if err != nil || d.Status.AvailableReplicas == 0 {
		t.Errorf("the controller of Knative, which removes finalizers, does not run before the decision: %v, error %v", d.Status, err)
	}
	requestRemoval(t, m.Lab, c)
	m.annotate(t, c, api.DeletionPolicyAnnotation, api.DeletionPolicyDeleteUserResources)
	m.worksGone(t, c)
	eventually(t, "CRDs and Namespaces are gone", 2*time.Minute, func(ctx context.Context) error {
		_, err := services.Get(ctx, "hello", metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("the user's Service: %w", err)
		}
		_, err = s.kube.CoreV1().Namespaces().Get(ctx, "knative-serving", metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("the Namespace: %w", err)
		}
		return nil
	})
	if left := foundationUIDs(t, s); len(left) > 0 {
		t.Errorf("left: %v", slices.Sorted(maps.Keys(left)))
	}
}
