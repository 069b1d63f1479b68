// Copyright Contributors to the Open Cluster Management project

package fleet

import (
	"errors"
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
	clusterinventoryv1alpha1 "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"

	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
	"open-cluster-management.io/knative-addon/pkg/hub"
)

const (
	allClusters = `{"selector": {}, "serving": {"spec": {"version": "1.22"}}}`
	oneByOne    = `{"selector": {}, "serving": {"spec": {"version": "1.22"}}, "maxRemoval": 1,
		"rolloutStrategy": {"type": "Progressive", "progressive": {"maxConcurrency": 1}}}`
)

func threeProfiles() []*clusterinventoryv1alpha1.ClusterProfile {
	return []*clusterinventoryv1alpha1.ClusterProfile{newProfile("c1", "env=a"), newProfile("c2", "env=a"), newProfile("c3", "env=b")}
}

// runningFleet is a KnativeFleet whose children are all Ready.
func runningFleet(t *testing.T, spec string) *fakeHub {
	t.Helper()
	h := newHub(t, spec, threeProfiles()...)
	for range 8 {
		h.pass()
		h.becomeReady()
	}
	h.settle()
	h.shows("Ready=True/Ready", "RolledOut=True/RolledOut", "TargetClusterResolved=True/TargetsResolved")
	return h
}

func TestChildren(t *testing.T) {
	h := newHub(t, `{"selector": {}, "serving": {"spec": {"version": "1.22"}, "metadata": {"labels": {"a": "b"}}}, "eventing": {}}`, threeProfiles()...)
	h.pass()
	if got := len(h.children(api.Eventing)); got != 3 {
		t.Errorf("%d KnativeEventings, want 3", got)
	}
	child := h.children(api.Serving)[0]
	want := map[string]any{"version": "1.22", "clusterProfileRef": map[string]any{"namespace": team, "name": "c1"}}
	if diff := cmp.Diff(want, child.Object["spec"]); diff != "" {
		t.Errorf("spec of a child (-want +got):\n%s", diff)
	}
	owner := metav1.GetControllerOf(child)
	if owner == nil || owner.Kind != fleetv1alpha1.Kind || owner.Name != fleetName || owner.UID != "uid-web" {
		t.Errorf("the owner of a child is %v", owner)
	}
	if got := child.GetLabels(); got["a"] != "b" || got[api.FleetLabel] != fleetName {
		t.Errorf("the labels of a child are %v", got)
	}
}

func TestNothingIsWrittenAtRest(t *testing.T) {
	h := runningFleet(t, allClusters)
	h.restart()
	if writes := h.pass(); len(writes) > 0 {
		t.Errorf("a restarted manager writes %q", writes)
	}
	if got := h.status().Rollout; got.Total != 3 || got.Updated != 3 || got.Ready != 3 || len(got.Clusters) > 0 {
		t.Errorf("the status counts %+v", got)
	}
}

// TestWaves holds that an edit reaches one cluster after the other, each after the last one is Ready again, also when the manager is
// restarted in between.
func TestWaves(t *testing.T) {
	h := runningFleet(t, oneByOne)
	h.setSpec(`{"serving": {"spec": {"version": "1.23"}}}`)
	for _, want := range []string{"c1=1.23 c2=1.22 c3=1.22", "c1=1.23 c2=1.23 c3=1.22", "c1=1.23 c2=1.23 c3=1.23"} {
		for range 3 {
			h.restart()
			h.pass()
			if got := h.versions(); got != want {
				t.Fatalf("the children have %s, want %s", got, want)
			}
		}
		h.shows("Ready=False/" + map[bool]string{true: "ClustersNotReady", false: "Progressing"}[want == "c1=1.23 c2=1.23 c3=1.23"])
		h.becomeReady()
	}
	h.settle()
	h.shows("Ready=True/Ready")
}

func TestAnEditedOrDeletedChildIsRestored(t *testing.T) {
	h := runningFleet(t, oneByOne)
	h.change("c2", func(c *unstructured.Unstructured) { c.Object["spec"].(map[string]any)["version"] = "1.20" })
	h.pass()
	if got := h.versions(); got != "c1=1.22 c2=1.22 c3=1.22" {
		t.Errorf("after an edit the children have %s", got)
	}
	h.becomeReady()
	h.delete("c3")
	h.pass()
	if got := h.versions(); got != "c1=1.22 c2=1.22 c3=1.22" {
		t.Errorf("after a deletion the children have %s", got)
	}
	h.change("c1", func(c *unstructured.Unstructured) { c.SetLabels(nil) })
	h.pass()
	if got := h.children(api.Serving)[0].GetLabels(); got[api.FleetLabel] != fleetName {
		t.Errorf("the labels are %v", got)
	}
}

// TestABadEditStops holds that an edit that fails on the first cluster reaches no other, and that the earlier spec heals the first.
func TestABadEditStops(t *testing.T) {
	h := runningFleet(t, oneByOne)
	h.setSpec(`{"serving": {"spec": {"version": "9.99"}}}`)
	h.pass()
	h.report("c1", "Ready=False/UnknownVersion", "InstallSucceeded=False/UnknownVersion")
	for range 3 {
		h.pass()
	}
	if got := h.versions(); got != "c1=9.99 c2=1.22 c3=1.22" {
		t.Errorf("the children have %s", got)
	}
	h.shows("Ready=False/MaxFailuresExceeded", "RolledOut=False/MaxFailuresExceeded")
	if got := h.status().Rollout; got.Failed != 1 || got.Updated != 1 || got.Clusters[0].Name != "c1" || got.Clusters[0].Reason != "UnknownVersion" {
		t.Errorf("the status counts %+v", got)
	}
	h.setSpec(`{"serving": {"spec": {"version": "1.22"}}}`)
	h.pass()
	if got := h.versions(); got != "c1=1.22 c2=1.22 c3=1.22" {
		t.Errorf("after the correction the children have %s", got)
	}
	h.becomeReady()
	h.settle()
	h.shows("Ready=True/Ready")
}

// TestKeysOfTemplate holds that labels and annotations which leave the template leave the children, and that the keys of others stay.
func TestKeysOfTemplate(t *testing.T) {
	h := runningFleet(t, `{"selector": {}, "serving": {"metadata": {"labels": {"a": "1", "b": "2"}, "annotations": {"c": "3"}}}}`)
	h.change("c1", func(c *unstructured.Unstructured) {
		c.SetLabels(mergeMaps(c.GetLabels(), map[string]string{"mine": "x"}))
		c.SetAnnotations(mergeMaps(c.GetAnnotations(), map[string]string{"mine": "y"}))
	})
	h.setSpec(`{"serving": {"metadata": {"labels": {"b": "4"}}}}`)
	for range 3 {
		h.pass()
		h.becomeReady()
	}
	h.settle()
	child := h.children(api.Serving)[0]
	if diff := cmp.Diff(map[string]string{"b": "4", "mine": "x", api.FleetLabel: fleetName}, child.GetLabels()); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	annotations := child.GetAnnotations()
	if annotations["c"] != "" || annotations["mine"] != "y" || annotations[api.FleetLabelsAnnotation] != "b" || annotations[api.FleetAnnotationsAnnotation] != "" {
		t.Errorf("annotations are %v", annotations)
	}
}

// TestChildWithoutTarget holds that a child that another owner keeps from its cluster does not hide the other child of the cluster: a bad edit
// stops at the first cluster.
func TestChildWithoutTarget(t *testing.T) {
	h := newHub(t, `{"selector": {}, "serving": {"spec": {"version": "1.22"}}, "eventing": {}, "maxRemoval": 1,
		"rolloutStrategy": {"type": "Progressive", "progressive": {"maxConcurrency": 1}}}`, threeProfiles()...)
	refuse := func() {
		for _, c := range h.children(api.Eventing) {
			h.changeObject(api.Eventing.Resource(), c.GetName(), func(c *unstructured.Unstructured) {
				setConditions(c, h.clock.Now(), "Ready=False/TargetConflict", "TargetClusterResolved=False/TargetConflict")
			})
		}
	}
	for range 8 {
		h.pass()
		h.becomeReady()
		refuse()
	}
	h.setSpec(`{"serving": {"spec": {"version": "1.23"}}}`)
	for range 4 {
		h.pass()
		refuse()
	}
	if got := h.versions(); got != "c1=1.23 c2=1.22 c3=1.22" {
		t.Errorf("before the first cluster is Ready the children have %s", got)
	}
	for range 8 {
		h.becomeReady()
		refuse()
		h.pass()
	}
	if got := h.versions(); got != "c1=1.23 c2=1.23 c3=1.23" {
		t.Errorf("after all clusters are Ready the children have %s", got)
	}
}

func TestADeselectedClusterIsRemoved(t *testing.T) {
	h := runningFleet(t, oneByOne)
	h.setSpec(`{"selector": {"matchLabels": {"env": "a"}}}`)
	h.pass()
	h.shows("RemovalHeld=True/Settling", "Ready=True/Ready")
	if got := h.versions(); got != "c1=1.22 c2=1.22 c3=1.22" {
		t.Errorf("at once the children are %s", got)
	}
	h.settle()
	if got := h.versions(); got != "c1=1.22 c2=1.22" {
		t.Errorf("the children are %s", got)
	}
	if got := h.status().Removals; len(got) != 1 || got[0].Count != 1 {
		t.Errorf("the removals are %v", got)
	}
	// The next removal of the same hour is beyond maxRemoval.
	h.setSpec(`{"selector": {"matchLabels": {"env": "a"}, "matchExpressions": [{"key": "x", "operator": "Exists"}]}}`)
	h.profiles[0].Labels["x"] = ""
	h.settle()
	h.shows("RemovalHeld=True/MassRemoval")
	if got := h.versions(); got != "c1=1.22 c2=1.22" {
		t.Errorf("beyond maxRemoval the children are %s", got)
	}
}

func TestAnEmptySelectionNeedsAConfirmation(t *testing.T) {
	h := runningFleet(t, `{"selector": {}, "serving": {}, "maxRemoval": "100%"}`)
	h.setSpec(`{"selector": {"matchLabels": {"env": "none"}}}`)
	h.settle()
	h.shows("RemovalHeld=True/SelectionEmpty", "Ready=False/NothingSelected")
	if got := len(h.children(api.Serving)); got != 3 {
		t.Errorf("%d children are left", got)
	}
	h.changeFleet(func(f *unstructured.Unstructured) {
		f.SetAnnotations(map[string]string{api.RemovalAnnotation: api.RemovalConfirm})
	})
	h.settle()
	if got := len(h.children(api.Serving)); got != 0 {
		t.Errorf("after the confirmation %d children are left", got)
	}
	fleet, err := h.Get(fleetKey())
	if err != nil || len(fleet.GetAnnotations()) > 0 {
		t.Errorf("the confirmation stays for the next removal: %v (error %v)", fleet.GetAnnotations(), err)
	}
}

func confirmRemovals(fleet *unstructured.Unstructured) {
	fleet.SetAnnotations(map[string]string{api.RemovalAnnotation: api.RemovalConfirm})
}

// TestAnUnavailableClusterKeepsItsChild holds that the child stays when its ClusterProfile is unhealthy or unknown.
func TestAnUnavailableClusterKeepsItsChild(t *testing.T) {
	for name, change := range map[string]func(h *fakeHub){
		"unhealthy": func(h *fakeHub) { setHealth(h.profiles[2], metav1.ConditionUnknown) },
		"unknown":   func(h *fakeHub) { h.profiles = h.profiles[:2] },
	} {
		t.Run(name, func(t *testing.T) {
			h := runningFleet(t, oneByOne)
			change(h)
			h.setSpec(`{"selector": {"matchLabels": {"env": "a"}}}`)
			h.settle()
			h.shows("RemovalHeld=True/ClusterUnavailable", "Ready=True/Ready")
			if got := h.versions(); got != "c1=1.22 c2=1.22 c3=1.22" {
				t.Errorf("the children are %s", got)
			}
		})
	}
}

func TestAForeignResourceIsLeftAlone(t *testing.T) {
	h := newHub(t, allClusters, threeProfiles()...)
	foreign := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "operator.knative.dev/v1beta1", "kind": "KnativeServing", "metadata": map[string]any{"namespace": team, "name": "c2"},
		"spec": map[string]any{"version": "1.21", "clusterProfileRef": map[string]any{"namespace": team, "name": "c2"}},
	}}
	if _, err := h.client.Resource(api.Serving.Resource()).Namespace(team).Create(t.Context(), foreign, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	h.pass()
	h.becomeReady()
	h.settle()
	h.shows("Ready=False/ClustersUnresolved", "TargetClusterResolved=False/ClustersUnresolved")
	if got := h.versions(); got != "c1=1.22 c2=1.21 c3=1.22" {
		t.Errorf("the resources are %s", got)
	}
	if got := h.status().Rollout; got.Unresolved != 1 || got.Clusters[0].Reason != fleetv1alpha1.ReasonNotOwned {
		t.Errorf("the status counts %+v", got)
	}
	h.change("c2", func(c *unstructured.Unstructured) {
		c.SetAnnotations(map[string]string{api.FleetAdoptAnnotation: "another"})
	})
	h.settle()
	if got := h.versions(); got != "c1=1.22 c2=1.21 c3=1.22" {
		t.Errorf("with the name of another KnativeFleet the resources are %s", got)
	}
	h.change("c2", func(c *unstructured.Unstructured) {
		c.SetAnnotations(map[string]string{api.FleetAdoptAnnotation: fleetName})
	})
	h.pass()
	h.becomeReady()
	h.settle()
	h.shows("Ready=True/Ready")
	if got := h.versions(); got != "c1=1.22 c2=1.22 c3=1.22" {
		t.Errorf("after the adoption the resources are %s", got)
	}
}

func TestStatusIsWrittenSeldom(t *testing.T) {
	h := newHub(t, allClusters, threeProfiles()...)
	h.pass()
	h.becomeReady()
	writes, result := h.passAfter(time.Second)
	if len(writes) > 0 || result.RequeueAfter != statusInterval-time.Second {
		t.Errorf("a second after a status the writes are %q, the next pass is after %s", writes, result.RequeueAfter)
	}
	if writes, _ = h.passAfter(statusInterval); !slices.Equal(writes, []string{"patch knativefleets/status web"}) {
		t.Errorf("later the writes are %q", writes)
	}
}

// TestOrphan holds that the children of a deleted KnativeFleet with deletionPolicy Orphan have no owner: also a child that a user has taken
// the label from.
func TestOrphan(t *testing.T) {
	h := runningFleet(t, `{"selector": {}, "serving": {}, "deletionPolicy": "Orphan"}`)
	h.change("c2", func(c *unstructured.Unstructured) { c.SetLabels(nil) })
	h.changeFleet(func(f *unstructured.Unstructured) {
		if !slices.Contains(f.GetFinalizers(), api.FleetFinalizer) {
			t.Error("the KnativeFleet has no finalizer")
		}
		f.SetDeletionTimestamp(new(metav1.Unix(5000, 0)))
	})
	h.settle()
	children := h.children(api.Serving)
	if len(children) != 3 {
		t.Errorf("%d children are left", len(children))
	}
	for _, c := range children {
		if len(c.GetOwnerReferences()) > 0 || c.GetLabels()[api.FleetLabel] != "" {
			t.Errorf("%s has owners %v and labels %v", c.GetName(), c.GetOwnerReferences(), c.GetLabels())
		}
	}
	fleet, err := h.Get(fleetKey())
	if err != nil || len(fleet.GetFinalizers()) > 0 {
		t.Errorf("the finalizers are %v (error %v)", fleet.GetFinalizers(), err)
	}
}

func TestADeletedFleetWritesNoChild(t *testing.T) {
	h := runningFleet(t, allClusters)
	h.changeFleet(func(f *unstructured.Unstructured) { f.SetDeletionTimestamp(new(metav1.Unix(5000, 0))) })
	h.delete("c1")
	if writes := h.pass(); len(writes) > 0 {
		t.Errorf("the pass writes %q", writes)
	}
}

// TestUnreadableKinds holds that nothing is removed while the manager cannot read a kind that decides on the selection, and that the
// status names the cause.
func TestUnreadableKinds(t *testing.T) {
	h := runningFleet(t, allClusters)
	h.setSpec(`{"selector": null, "decisionKey": "edge"}`)
	h.decisionsErr = &apimeta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "PlacementDecision"}}
	h.settle()
	h.shows("Ready=False/KindNotServed")
	h.decisionsErr = apierrors.NewForbidden(schema.GroupResource{Resource: "placementdecisions"}, "", errors.New("no role"))
	h.settle()
	h.shows("Ready=False/KindUnavailable")
	if got := len(h.children(api.Serving)); got != 3 {
		t.Errorf("%d children are left", got)
	}
	if got := h.status().Rollout.Total; got != 3 {
		t.Errorf("the status counts %d clusters", got)
	}
}

func TestPlacement(t *testing.T) {
	h := newHub(t, `{"placementRef": {"name": "edge"}, "serving": {}}`, threeProfiles()...)
	h.pass()
	h.shows("Ready=False/PlacementNotFound")
	if err := h.placements.Add(&clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "edge"}}); err != nil {
		t.Fatal(err)
	}
	addDecision(t, h, "c1", "c3")
	h.pass()
	if got := h.versions(); got != "c1= c3=" {
		t.Errorf("the children are %s", got)
	}
}

// TestStoredSpec holds that a child is at rest also when the API server drops a field of the template.
func TestStoredSpec(t *testing.T) {
	h := newHub(t, `{"selector": {}, "serving": {"spec": {"version": "1.22", "unknown": true}}}`, threeProfiles()[:1]...)
	h.client.PrependReactor("create", "knativeservings", dropUnknown(h))
	h.pass()
	h.becomeReady()
	h.settle()
	if got := h.children(api.Serving)[0].Object["spec"]; !cmp.Equal(slices.Sorted(maps.Keys(got.(map[string]any))), []string{"clusterProfileRef", "version"}) {
		t.Errorf("the spec is %v", got)
	}
	h.change("c1", func(c *unstructured.Unstructured) { c.Object["spec"].(map[string]any)["version"] = "1.20" })
	h.pass()
	if got := h.versions(); got != "c1=1.22" {
		t.Errorf("after an edit the child is %s", got)
	}
}

// TestAForeignResourceIsNeverRemoved holds that the owner reference decides which resources go with a deselected cluster, not the label.
func TestAForeignResourceIsNeverRemoved(t *testing.T) {
	h := runningFleet(t, `{"selector": {"matchLabels": {"env": "a"}}, "serving": {"spec": {"version": "1.22"}}, "maxRemoval": "100%"}`)
	foreign := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "operator.knative.dev/v1beta1", "kind": "KnativeServing",
		"metadata": map[string]any{"namespace": team, "name": "c3", "labels": map[string]any{api.FleetLabel: fleetName}},
		"spec":     map[string]any{"version": "1.21", "clusterProfileRef": map[string]any{"namespace": team, "name": "c3"}},
	}}
	if _, err := h.client.Resource(api.Serving.Resource()).Namespace(team).Create(t.Context(), foreign, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	h.settle()
	if got := h.versions(); got != "c1=1.22 c2=1.22 c3=1.21" {
		t.Errorf("the resources are %s", got)
	}
	h.shows("Ready=True/Ready")
}

// TestNewerStatus holds that the status keeps a field and a condition that only a newer manager knows, and that neither causes a write.
func TestNewerStatus(t *testing.T) {
	newer := map[string]any{
		"type": "OfANewerManager", "status": "True", "reason": "Newer", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z",
	}
	h := newHub(t, allClusters, newProfile("a"))
	h.settle()
	h.changeFleet(func(f *unstructured.Unstructured) {
		status, _ := f.Object["status"].(map[string]any)
		conditions, _ := status["conditions"].([]any)
		status["conditions"] = append(conditions, newer, map[string]any{"type": fleetv1alpha1.RemovalHeld, "status": "True"})
		status["ofANewerManager"] = "on"
	})
	h.settle()
	h.profiles = append(h.profiles, newProfile("b"))
	h.settle()
	fleet, err := h.Get(types.NamespacedName{})
	if err != nil {
		t.Fatal(err)
	}
	status, _ := fleet.Object["status"].(map[string]any)
	if diff := cmp.Diff([]any{newer}, hub.ConditionsOfOthers(status["conditions"], conditionTypes())); diff != "" {
		t.Errorf("conditions of a newer manager (-want +got):\n%s", diff)
	}
	if status["ofANewerManager"] != "on" {
		t.Errorf("the status has lost a field: %v", status)
	}
	if held := apimeta.FindStatusCondition(h.status().Conditions, fleetv1alpha1.RemovalHeld); held != nil {
		t.Errorf("a condition of this manager stays without a reason: %+v", held)
	}
}
