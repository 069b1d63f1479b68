// Copyright Contributors to the Open Cluster Management project

package fleet

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"open-cluster-management.io/knative-addon/pkg/api"
)

func forbidden(name, cause string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: "knativeservings"}, name, errors.New(cause))
}

// refusePatches makes the API server refuse every patch of the named KnativeServings while refuses is true.
func (h *fakeHub) refusePatches(refuses *bool, names ...string) {
	h.client.PrependReactor("patch", "knativeservings", func(action clienttesting.Action) (bool, runtime.Object, error) {
		name := action.(clienttesting.PatchAction).GetName() //nolint:forcetypeassert // of a reactor on patches
		if *refuses && slices.Contains(names, name) {
			return true, nil, forbidden(name, "the policy refuses the child")
		}
		return false, nil, nil
	})
}

// ofChildren returns the writes of children.
func ofChildren(writes []string) []string {
	return slices.DeleteFunc(slices.Clone(writes), func(w string) bool { return !strings.Contains(w, " knativeservings ") })
}

// settleSoon runs passes every 100 milliseconds, and lets every KnativeServing report Ready between two passes, until three passes write nothing.
func (h *fakeHub) settleSoon() {
	h.t.Helper()
	idle := 0
	for range 80 {
		writes, _ := h.passAfter(moreWrites)
		h.becomeReady()
		if idle++; len(writes) > 0 {
			idle = 0
		}
		if idle == 3 {
			return
		}
	}
	h.t.Fatal("the passes do not come to rest")
}

// refusedFleet is a KnativeFleet with two places among maxConcurrency, whose templates change while the API server refuses the creation of
// new children and the updates of some children. The function ends the refusals.
func refusedFleet(t *testing.T, created int, patched ...string) (h *fakeHub, permit func()) {
	t.Helper()
	h = runningFleet(t, `{"selector": {}, "serving": {"spec": {"version": "1.22"}},
		"rolloutStrategy": {"type": "Progressive", "progressive": {"maxConcurrency": 2}}}`)
	refuses := true
	h.refusePatches(&refuses, patched...)
	h.refuse = forbidden("a", "exceeded quota")
	for n := range created {
		h.profiles = append(h.profiles, newProfile(fmt.Sprintf("a%02d", n)))
	}
	h.setSpec(`{"serving": {"spec": {"version": "1.23"}}}`)
	return h, func() { h.refuse, refuses = nil, false }
}

// TestRefusedChildrenHoldNoPlace holds that creations and updates which the API server refuses leave their places to the other clusters, that the
// status reports the refusal, and that the manager tries each refused write again after refusedRetry.
func TestRefusedChildrenHoldNoPlace(t *testing.T) {
	for name, tc := range map[string]struct {
		created int
		patched []string
		during  string
	}{
		"creations by a quota":                                  {created: 3, during: "c1=1.23 c2=1.23 c3=1.23"},
		"more creations than the manager tries within a minute": {created: maxRefused + 5, during: "c1=1.23 c2=1.23 c3=1.23"},
		"updates": {patched: []string{"c1", "c2"}, during: "c1=1.22 c2=1.22 c3=1.23"},
	} {
		t.Run(name, func(t *testing.T) {
			h, permit := refusedFleet(t, tc.created, tc.patched...)
			h.settleSoon()
			if got := h.versions(); got != tc.during {
				t.Errorf("the children have %s, want %s", got, tc.during)
			}
			h.shows("Ready=False/ChildRefused", "RolledOut=False/ChildRefused")
			if writes, _ := h.passAfter(refusedRetry / 4); len(ofChildren(writes)) > 0 {
				t.Errorf("within refusedRetry the manager writes %q", writes)
			}
			if writes := ofChildren(h.pass()); len(writes) != 2 {
				t.Errorf("the pass after refusedRetry tries %q, want the two writes of the first wave", writes)
			}
			h.shows("RolledOut=False/ChildRefused")
			permit()
			for range 4 {
				h.clock.SetTime(h.clock.Now().Add(refusedRetry))
				h.settleSoon()
			}
			h.settle()
			if got := h.versions(); strings.Count(got, "=1.23") != 3+tc.created {
				t.Errorf("after the end of the refusals the children have %s", got)
			}
			h.shows("Ready=True/Ready", "RolledOut=True/RolledOut")
		})
	}
}

// TestRefusalOfFormerTemplate holds that a refusal counts for the revision of the templates alone, and that no refusal is reported of a cluster that is
// no longer selected.
func TestRefusalOfFormerTemplate(t *testing.T) {
	h := runningFleet(t, oneByOne)
	refuses := true
	h.refusePatches(&refuses, "c1")
	h.setSpec(`{"serving": {"spec": {"version": "1.23"}}}`)
	h.pass()
	h.shows("RolledOut=False/ChildRefused")
	refuses = false
	h.setSpec(`{"serving": {"spec": {"version": "1.24"}}}`)
	if writes, _ := h.passAfter(moreWrites); !slices.Contains(writes, "patch knativeservings c1") {
		t.Errorf("with another template the manager writes %q", writes)
	}
	refuses = true
	h.setSpec(`{"serving": {"spec": {"version": "1.25"}}}`)
	h.pass()
	h.shows("RolledOut=False/ChildRefused")
	h.setSpec(`{"selector": {"matchLabels": {"env": "b"}}}`)
	h.pass()
	h.shows("RolledOut=False/Progressing")
}

// TestRefusedPause holds that a child whose pause the API server refuses keeps neither the other children from the pause nor the rollout from going on
// after the pause.
func TestRefusedPause(t *testing.T) {
	h := runningFleet(t, oneByOne)
	h.refuse = nil
	refuses := true
	h.refusePatches(&refuses, "c1")
	h.changeFleet(annotate(api.PausedAnnotation, "true"))
	h.settleSoon()
	if got := h.paused(); got != "c2 c3" {
		t.Errorf("%q are paused, want c2 and c3", got)
	}
	h.shows("RolledOut=False/ChildRefused")
	refuses = false
	h.settle()
	if got := h.paused(); got != "c1 c2 c3" {
		t.Errorf("after the refusal %q are paused, want every child", got)
	}
	refuses = true
	h.setSpec(`{"serving": {"spec": {"version": "1.23"}}}`)
	h.changeFleet(annotate(api.PausedAnnotation, ""))
	h.settleSoon()
	if got, want := h.versions(), "c1=1.22 c2=1.23 c3=1.23"; got != want || h.paused() != "c1" {
		t.Errorf("after the pause the children have %s, want %s; %q are paused", got, want, h.paused())
	}
	refuses = false
	for range 4 {
		h.settleSoon()
		h.clock.SetTime(h.clock.Now().Add(refusedRetry))
	}
	h.shows("Ready=True/Ready")
	if h.paused() != "" {
		t.Errorf("%q stay paused", h.paused())
	}
}
