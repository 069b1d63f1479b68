// Copyright Contributors to the Open Cluster Management project

package metrics

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// addFleet adds a KnativeFleet with a status and a condition Ready, "Status Reason".
func (f fleet) addFleet(t testing.TB, name string, rollout map[string]any, ready string) {
	t.Helper()
	status, reason, _ := strings.Cut(ready, " ")
	u := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{
		"rollout": rollout, "conditions": []any{map[string]any{"type": "Ready", "status": status, "reason": reason}},
	}}}
	u.SetNamespace("team")
	u.SetName(name)
	if err := f.Fleets.Add(u); err != nil {
		t.Fatal(err)
	}
}

// gatherFleets returns the series of KnativeFleets.
func gatherFleets(t *testing.T, m *Metrics) map[string]float64 {
	t.Helper()
	out := gatherAll(t, m)
	maps.DeleteFunc(out, func(series string, _ float64) bool { return !strings.Contains(series, "knativefleet") })
	return out
}

// TestFleets compares the metrics of KnativeFleets with their statuses, and holds that the series of a deleted KnativeFleet end.
func TestFleets(t *testing.T) {
	f := newFleet()
	f.addFleet(t, "web", map[string]any{
		"total": int64(1000), "updated": int64(600), "ready": int64(550), "failed": int64(3), "unresolved": int64(40), "held": int64(2),
	}, "False ChildRefused")
	f.addFleet(t, "shop", map[string]any{"total": int64(2), "updated": int64(2), "ready": int64(2)}, "True Ready")
	m := New(f.Sources)
	shop := map[string]float64{
		"knativefleet_clusters knativefleet=team/shop state=Selected":   2,
		"knativefleet_clusters knativefleet=team/shop state=Updated":    2,
		"knativefleet_clusters knativefleet=team/shop state=Ready":      2,
		"knativefleet_clusters knativefleet=team/shop state=Failed":     0,
		"knativefleet_clusters knativefleet=team/shop state=Unresolved": 0,
		"knativefleet_clusters knativefleet=team/shop state=Held":       0,
		"knativefleet_ready knativefleet=team/shop reason=Ready":        1,
		"omitted_knativefleets ":                                        0,
	}
	want := map[string]float64{
		"knativefleet_clusters knativefleet=team/web state=Selected":   1000,
		"knativefleet_clusters knativefleet=team/web state=Updated":    600,
		"knativefleet_clusters knativefleet=team/web state=Ready":      550,
		"knativefleet_clusters knativefleet=team/web state=Failed":     3,
		"knativefleet_clusters knativefleet=team/web state=Unresolved": 40,
		"knativefleet_clusters knativefleet=team/web state=Held":       2,
		"knativefleet_ready knativefleet=team/web reason=ChildRefused": 0,
	}
	maps.Copy(want, shop)
	if diff := cmp.Diff(want, gatherFleets(t, m)); diff != "" {
		t.Errorf("series of two KnativeFleets (-want +got):\n%s", diff)
	}
	web, _, err := f.Fleets.GetByKey("team/web")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Fleets.Delete(web); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(shop, gatherFleets(t, m)); diff != "" {
		t.Errorf("series after the deletion of a KnativeFleet (-want +got):\n%s", diff)
	}
}

// TestReasonsOfFleets holds that only the reasons of condition Ready of a KnativeFleet become a label.
func TestReasonsOfFleets(t *testing.T) {
	for ready, want := range map[string]string{"False MaxFailuresExceeded": "MaxFailuresExceeded", "False SomethingElse": ReasonOther, "": ReasonNotReported} {
		f := newFleet()
		f.addFleet(t, "web", nil, ready)
		got := gatherFleets(t, New(f.Sources))
		if _, found := got["knativefleet_ready knativefleet=team/web reason="+want]; !found {
			t.Errorf("condition %q gives the series %v", ready, got)
		}
	}
}

// TestFleetsAreBounded holds that no more than MaxFleets KnativeFleets have series.
func TestFleetsAreBounded(t *testing.T) {
	f := newFleet()
	for i := range MaxFleets + 2 {
		f.addFleet(t, fmt.Sprintf("f-%04d", i), nil, "True Ready")
	}
	got := gatherFleets(t, New(f.Sources))
	maps.DeleteFunc(got, func(_ string, value float64) bool { return value == 0 })
	last := fmt.Sprintf("knativefleet_ready knativefleet=team/f-%04d reason=Ready", MaxFleets-1)
	if got["omitted_knativefleets "] != 2 || got[last] != 1 || len(got) != MaxFleets+1 {
		t.Errorf("%d series, %v omitted KnativeFleets, and %v for the last one", len(got), got["omitted_knativefleets "], got[last])
	}
}
