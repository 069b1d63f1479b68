// Copyright Contributors to the Open Cluster Management project

package clustercache

import (
	"fmt"
	"maps"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// placesOf returns places in the namespaces.
func placesOf(namespaces ...string) []Place {
	var out []Place
	for _, namespace := range namespaces {
		out = append(out, Place{configMaps(), namespace})
	}
	return out
}

// connectEmpty connects to a cluster without objects whose watches last.
func connectEmpty(t *testing.T) *Cluster {
	t.Helper()
	h := &hostileServer{
		list: func(w http.ResponseWriter, _ *http.Request) { writeList(w, 0, 0, "") },
		watch: func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		},
	}
	c, _ := h.connect(t, Options{PollInterval: time.Hour})
	return c
}

// TestViewsEndWithTheirUsers holds that a view ends when no user needs its place any more, and that the end is no loss of the cluster.
func TestViewsEndWithTheirUsers(t *testing.T) {
	c := connectEmpty(t)
	for _, step := range []struct {
		user         string
		needs, watch []string
	}{
		{"a", []string{"x", "y"}, []string{"x", "y"}},
		{"b", []string{"y", "z"}, []string{"x", "y", "z"}},
		{"a", []string{"y"}, []string{"y", "z"}},
		{"b", nil, []string{"y"}},
		{"a", []string{"w"}, []string{"w"}},
	} {
		if step.needs == nil {
			c.ReleaseViews(step.user)
		} else if _, err := c.Views(t.Context(), step.user, placesOf(step.needs...)); err != nil {
			t.Fatal(err)
		}
		want := map[Place]bool{}
		for _, at := range placesOf(step.watch...) {
			want[at] = true
		}
		got := map[Place]bool{}
		for at := range maps.Keys(c.StartedViews()) {
			got[at] = true
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("after user %s needs %q, the views (-want +got):\n%s", step.user, step.needs, diff)
		}
		for deadline := time.Now().Add(time.Minute); !c.Watched(); time.Sleep(time.Millisecond) { // watches begin and end after the call
			if time.Now().After(deadline) {
				t.Fatalf("after user %s needs %q, the places are not watched", step.user, step.needs)
			}
		}
	}
	if lost := c.Lost(); !lost.IsZero() {
		t.Errorf("the cluster counts as lost at %s", lost)
	}
	c.ReleaseViews("a")
	if len(c.StartedViews()) > 0 || len(c.views.needed) > 0 || c.quota.reserved > 0 {
		t.Errorf("at the end there are views %v, needed %v", c.StartedViews(), c.views.needed)
	}
}

// TestTooManyPlacesAreNotKept holds that the places of the past do not count, and that a user who needs too many places is told until the user needs fewer.
func TestTooManyPlacesAreNotKept(t *testing.T) {
	c := connectEmpty(t)
	many := func(round, n int) []Place {
		var out []Place
		for i := range n {
			out = append(out, placesOf(fmt.Sprintf("n%d-%d", round, i))...)
		}
		return out
	}
	for round := range 3 {
		if _, err := c.Views(t.Context(), "a", many(round, 100)); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
	}
	if _, err := c.Views(t.Context(), "a", many(3, maxPlaces+1)); !IsBoundError(err) {
		t.Errorf("got %v", err)
	}
	if _, err := c.Views(t.Context(), "a", many(4, 1)); err != nil || len(c.StartedViews()) != 1 {
		t.Errorf("after the correction there are %d views, error %v", len(c.StartedViews()), err)
	}
}
