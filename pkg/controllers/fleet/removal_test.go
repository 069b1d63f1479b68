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
