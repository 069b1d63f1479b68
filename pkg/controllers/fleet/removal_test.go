// Copyright Contributors to the Open Cluster Management project

package fleet

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	clienttesting "k8s.io/client-go/testing"

	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
	"open-cluster-management.io/knative-addon/pkg/controllers/removalguard"
)

func TestPlanRemovals(t *testing.T) {
	now := time.Unix(100_000, 0)
	// deselect returns candidates that have been deselected for a minute.
	deselect := func(healthy ...bool) []removalCandidate {
		var out []removalCandidate
		for i, h := range healthy {
			child := &unstructured.Unstructured{}
			child.SetName(string(rune('a' + i)))
			c := removalCandidate{component: api.Serving, child: child, deselected: now.Add(-time.Minute), profile: newProfile(child.GetName())}
			if !h {
				setHealth(c.profile, metav1.ConditionUnknown)
			}
			out = append(out, c)
		}
		return out
	}
	fresh := deselect(true, true)
	fresh[1].deselected = now.Add(-time.Second)
	counted := deselect(true, true)
	counted[0].counted = true
	hour := []fleetv1alpha1.Removals{{Count: 1, Minute: metav1.NewTime(now.Add(-time.Minute))}}
	undecided := deselect(false, true)
	undecided[1].undecided = true
	returned := deselect(true)
	returned[0].profile.Status.Conditions[0].LastTransitionTime = metav1.NewTime(now.Add(-20 * time.Second))

	for name, tc := range map[string]struct {
		in     removalInput
		remove int
		held   string
		wait   time.Duration
	}{
		"nothing is deselected": {in: removalInput{owned: 10, selected: 10}},
		"within the limit":      {in: removalInput{candidates: deselect(true), owned: 10, selected: 9}, remove: 1},
		"beyond the limit":      {in: removalInput{candidates: deselect(true, true), owned: 10, selected: 8}, held: fleetv1alpha1.ReasonMassRemoval},
		"confirmed":             {in: removalInput{candidates: deselect(true, true), owned: 10, selected: 8, confirmed: true}, remove: 2},
		"with the removals of the last hour": {
			in:   removalInput{candidates: deselect(true), owned: 10, selected: 9, removed: hour},
			held: fleetv1alpha1.ReasonMassRemoval, wait: removalWindow - time.Minute,
		},
		"counted by an earlier pass": {in: removalInput{candidates: counted[:1], owned: 10, selected: 9, removed: hour}, remove: 1},
		"counted, and another one beyond the limit": {
			in:     removalInput{candidates: counted, owned: 10, selected: 8, removed: hour},
			remove: 1, held: fleetv1alpha1.ReasonMassRemoval, wait: removalWindow - time.Minute,
		},
		"counted, and then nothing is selected": {in: removalInput{candidates: counted[:1], owned: 10, removed: hour}, held: fleetv1alpha1.ReasonSelectionEmpty},
		"removals of the last hour count as children": {
			in: removalInput{candidates: deselect(true), owned: 19, selected: 18, removed: hour}, remove: 1,
		},
		"an empty selection":             {in: removalInput{candidates: deselect(true), owned: 1}, held: fleetv1alpha1.ReasonSelectionEmpty},
		"a confirmed empty selection":    {in: removalInput{candidates: deselect(true), owned: 1, confirmed: true}, remove: 1},
		"an unavailable cluster":         {in: removalInput{candidates: deselect(false), owned: 10, selected: 9}, held: fleetv1alpha1.ReasonClusterUnavailable},
		"an unavailable and another one": {in: removalInput{candidates: deselect(true, false), owned: 20, selected: 18}, remove: 1, held: fleetv1alpha1.ReasonClusterUnavailable},
		"a confirmation does not reach an unavailable cluster": {
			in: removalInput{candidates: deselect(false), owned: 1, confirmed: true}, held: fleetv1alpha1.ReasonClusterUnavailable,
		},
		"a cluster that was deselected a second ago holds the others": {
			in: removalInput{candidates: fresh, owned: 20, selected: 18}, held: fleetv1alpha1.ReasonSettling, wait: settleTime - time.Second,
		},
		"an undecided cluster beside an unavailable one": {
			in: removalInput{candidates: undecided, owned: 20, selected: 18}, held: fleetv1alpha1.ReasonClusterUnavailable, wait: healthyTime,
		},
		"a cluster that returned a moment ago": {
			in: removalInput{candidates: returned, owned: 10, selected: 9}, held: fleetv1alpha1.ReasonSettling, wait: 10 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.in.now, tc.in.maxRemoval, tc.in.limit = now, intstr.FromString("10%"), removalguard.Limit
			plan := planRemovals(&tc.in)
			held := ""
			if plan.held != nil {
				held = plan.held.reason
			}
			if len(plan.remove) != tc.remove || held != tc.held || plan.wait != tc.wait {
				t.Errorf("%d removals, held %q, wait %s; want %d, %q, %s", len(plan.remove), held, plan.wait, tc.remove, tc.held, tc.wait)
			}
		})
	}
}

func TestRemovalsOfAnHourCount(t *testing.T) {
	start := time.Unix(120_000, 0)
	removed := recordRemovals(nil, 2, start)
	removed = recordRemovals(removed, 3, start.Add(30*time.Second))
	removed = recordRemovals(removed, 1, start.Add(2*time.Minute))
	if len(removed) != 2 || removed[0].Count != 5 || removed[1].Count != 1 {
		t.Errorf("the removals are %v", removed)
	}
	if kept := dropOldRemovals(removed, start.Add(removalWindow)); len(kept) != 1 || kept[0].Count != 1 {
		t.Errorf("after an hour the removals are %v", kept)
	}
	back := start.Add(-2 * removalWindow)
	kept := dropOldRemovals(removed, back)
	if len(kept) != 1 || kept[0].Count != 6 || !kept[0].Minute.Time.Equal(back) {
		t.Errorf("by a clock that was set back the removals are %v, want 6 of now", kept)
	}
	if kept = dropOldRemovals(kept, back.Add(removalWindow)); len(kept) > 0 {
		t.Errorf("an hour later the removals are %v", kept)
	}
}

// TestFailedRemoval holds that the removal of a child counts once, however many attempts fail, and that the Event follows the deletion.
func TestFailedRemoval(t *testing.T) {
	h := runningFleet(t, oneByOne)
	h.setSpec(`{"selector": {"matchLabels": {"env": "a"}}}`)
	h.pass()
	fails := true
	h.client.PrependReactor("delete", "knativeservings", func(clienttesting.Action) (bool, runtime.Object, error) {
		return fails, nil, apierrors.NewConflict(schema.GroupResource{Resource: "knativeservings"}, "c3", errors.New("a webhook wrote the child"))
	})
	for len(h.events.Events) > 0 {
		<-h.events.Events
	}
	for range 3 {
		if writes := h.pass(); !slices.Contains(writes, "delete knativeservings c3") {
			t.Fatalf("the writes are %q", writes)
		}
	}
	for len(h.events.Events) > 0 {
		if event := <-h.events.Events; strings.Contains(event, "ChildrenRemoved") {
			t.Errorf("no child is deleted, and an Event is %q", event)
		}
	}
	fails = false
	h.settle()
	if got := h.versions(); got != "c1=1.22 c2=1.22" {
		t.Errorf("the children are %s", got)
	}
	if got := h.status().Removals; len(got) != 1 || got[0].Count != 1 {
		t.Errorf("the removals are %v", got)
	}
	if event := <-h.events.Events; !strings.Contains(event, "ChildrenRemoved") {
		t.Errorf("the Event is %q", event)
	}
}

// placementFleet is a KnativeFleet whose Placement selected clusters c1, c2 and c3, and no longer selects c3. OCM has tainted c3 as unreachable.
func placementFleet(t *testing.T, whenDeselected metav1.ConditionStatus, change func(*clusterv1beta1.Placement)) *fakeHub {
	t.Helper()
	h := newHub(t, `{"placementRef": {"name": "edge"}, "serving": {"spec": {"version": "1.22"}}, "maxRemoval": "100%"}`, threeProfiles()...)
	placement := &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "edge"}}
	change(placement)
	cluster := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "c3"}}
	cluster.Spec.Taints = []clusterv1.Taint{{Key: clusterv1.ManagedClusterTaintUnreachable, Effect: clusterv1.TaintEffectNoSelect}}
	if err := errors.Join(h.placements.Add(placement), h.clusters.Add(cluster)); err != nil {
		t.Fatal(err)
	}
	addDecision(t, h, "c1", "c2", "c3")
	for range 4 {
		h.pass()
		h.becomeReady()
	}
	h.settle()
	setHealth(h.profiles[2], whenDeselected)
	addDecision(t, h, "c1", "c2")
	h.passAfter(time.Second)
	return h
}

// TestReturnedCluster holds that a cluster which was unhealthy when OCM dropped the cluster from the decisions keeps its child for any time after the
// return, also across a restart of the manager, while the Placement may select the cluster.
func TestReturnedCluster(t *testing.T) {
	const healthy, unhealthy = metav1.ConditionTrue, metav1.ConditionUnknown
	two := int32(2)
	unchanged := func(*clusterv1beta1.Placement) {}
	excluding := func(p *clusterv1beta1.Placement) {
		p.Spec.Predicates = []clusterv1beta1.ClusterPredicate{{RequiredClusterSelector: clusterv1beta1.ClusterSelector{
			LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"env": "a"}},
		}}}
	}
	for name, tc := range map[string]struct {
		deselected metav1.ConditionStatus
		placement  func(*clusterv1beta1.Placement)
		then       func(h *fakeHub)
		held       string
	}{
		"the Placement may select the cluster": {unhealthy, unchanged, func(*fakeHub) {}, "RemovalHeld=True/PlacementUndecided"},
		"after a restart of the manager":       {unhealthy, unchanged, func(h *fakeHub) { h.restart() }, "RemovalHeld=True/PlacementUndecided"},
		"the Placement excludes the cluster":   {unhealthy, excluding, func(*fakeHub) {}, ""},
		"the Placement has enough clusters":    {unhealthy, func(p *clusterv1beta1.Placement) { p.Spec.NumberOfClusters = &two }, func(*fakeHub) {}, ""},
		"the hub has no such cluster":          {unhealthy, unchanged, func(h *fakeHub) { _ = h.clusters.Replace(nil, "") }, ""},
		"the removal is confirmed":             {unhealthy, unchanged, func(h *fakeHub) { h.changeFleet(confirmRemovals) }, ""},
		"the cluster was healthy":              {healthy, unchanged, func(*fakeHub) {}, ""},
		"the cluster became unhealthy a moment later": {healthy, unchanged, func(h *fakeHub) {
			setHealth(h.profiles[2], unhealthy)
			h.passAfter(time.Second)
		}, "RemovalHeld=True/PlacementUndecided"},
	} {
		t.Run(name, func(t *testing.T) {
			h := placementFleet(t, tc.deselected, tc.placement)
			tc.then(h)
			setHealth(h.profiles[2], healthy)
			h.settle()
			if tc.held == "" {
				if got := h.versions(); got != "c1=1.22 c2=1.22" {
					t.Errorf("the children are %s", got)
				}
				return
			}
			h.shows(tc.held)
			addDecision(t, h, "c1", "c2", "c3")
			h.settle()
			if got := h.versions(); got != "c1=1.22 c2=1.22 c3=1.22" || len(h.status().Removals) > 0 {
				t.Errorf("the children are %s, the removals %v", got, h.status().Removals)
			}
			h.shows("Ready=True/Ready")
		})
	}
}

// TestComponentOfReturnedCluster holds that the child of a component that the KnativeFleet no longer names goes also while the Placement selects the
// cluster.
func TestComponentOfReturnedCluster(t *testing.T) {
	h := placementFleet(t, metav1.ConditionTrue, func(*clusterv1beta1.Placement) {})
	addDecision(t, h, "c1", "c2", "c3")
	h.setSpec(`{"serving": null, "eventing": {}}`)
	h.restart()
	for range 4 {
		h.pass()
	}
	if got := h.versions(); got != "" {
		t.Errorf("the KnativeServings are %s", got)
	}
}

// TestConfirmationInAPause holds that a confirmation during a pause stays until the end of the pause, and then permits the removals.
func TestConfirmationInAPause(t *testing.T) {
	h := runningFleet(t, allClusters)
	h.changeFleet(annotate(api.PausedAnnotation, "true"))
	h.setSpec(`{"selector": {"matchLabels": {"env": "none"}}}`)
	h.settle()
	h.changeFleet(annotate(api.RemovalAnnotation, api.RemovalConfirm))
	h.settle()
	if got := len(h.children(api.Serving)); got != 3 {
		t.Fatalf("during the pause %d children are left", got)
	}
	h.changeFleet(annotate(api.PausedAnnotation, ""))
	h.settle()
	if got := len(h.children(api.Serving)); got != 0 {
		t.Errorf("after the confirmation and the pause %d children are left", got)
	}
	fleet, err := h.Get(fleetKey())
	if err != nil || fleet.GetAnnotations()[api.RemovalAnnotation] != "" {
		t.Errorf("the confirmation stays for the next removal: %v (error %v)", fleet.GetAnnotations(), err)
	}
}
