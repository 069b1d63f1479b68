// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"open-cluster-management.io/knative-addon/pkg/clustercache"
	"open-cluster-management.io/knative-addon/pkg/delivery"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// TestRepairs holds the pauses between repairs, when a loop is reported, and when repairs are forgotten.
func TestRepairs(t *testing.T) {
	d := newPlanFixture(t)
	id, other := d.of("ConfigMap").ID(), render.ObjectID{Kind: "Secret", Name: "x"}
	if d.repairs.remainingInterval(id) > 0 {
		t.Error("the first repair waits")
	}
	for n, seconds := range []int{3, 6, 12, 24, 48, 96, 192, 240, 240} {
		want := time.Duration(seconds) * time.Second
		if loop := d.repairs.recordRepair(id); loop != (n >= 4) {
			t.Errorf("repair %d is one of a loop: %t", n+1, loop)
		}
		if wait := d.repairs.remainingInterval(id); wait != want {
			t.Errorf("after repair %d the wait is %s, want %s", n+1, wait, want)
		}
		d.clock.SetTime(d.clock.Now().Add(want - 1))
		if d.repairs.remainingInterval(id) <= 0 {
			t.Errorf("repair %d comes too early", n+2)
		}
		d.clock.SetTime(d.clock.Now().Add(1))
		if d.repairs.remainingInterval(id) > 0 {
			t.Errorf("repair %d waits too long", n+2)
		}
	}
	if d.repairs.remainingInterval(other) > 0 {
		t.Error("another object waits")
	}
	d.clock.SetTime(d.clock.Now().Add(2 * delivery.LongestRepairInterval))
	if loop := d.repairs.recordRepair(id); loop || d.repairs.remainingInterval(id) != delivery.FirstRepairInterval {
		t.Errorf("after a long rest the wait is %s", d.repairs.remainingInterval(id))
	}
}

// TestFailedRepairIsNoRepair holds that only an object that the cluster has accepted is recorded as repaired: not an object of a stage that the
// pass did not reach.
func TestFailedRepairIsNoRepair(t *testing.T) {
	d := newPlanFixture(t)
	d.lose("ConfigMap")
	d.change("Deployment", func(s *clustercache.Object) { s.FieldsDigest = "theirs" })
	p := d.planChanges(d.bundle, d.anchor, d.seen())
	p.applied[d.of("Deployment").ID()] = true
	texts, loop := d.recordRepairs(p)
	if diff := cmp.Diff([]string{"Deployment.apps knative-serving/activator was changed"}, texts); diff != "" || loop {
		t.Errorf("a loop: %t (-want +got):\n%s", loop, diff)
	}
	if d.repairs.remainingInterval(d.of("ConfigMap").ID()) > 0 {
		t.Error("an object that was not repaired waits")
	}
}
