// Copyright Contributors to the Open Cluster Management project

package knative

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/status"
)

// TestFlappingCluster holds that a cluster which is reachable and unreachable every other second costs the first report,
// transitionBurst transitions at once, and then one transition in each transitionInterval, and that the last state is written.
func TestFlappingCluster(t *testing.T) {
	w := newDirectFixture(t, localServing(directFinalized))
	clock := testclock.NewFakePassiveClock(time.Unix(10000, 0))
	w.d.Clock, w.r.Status.Clock = clock, clock
	w.bundleError = &render.Error{Reason: api.ReasonInvalidSpec, Message: "nothing is applied"}
	unreachable := &UnreachableError{Finding: status.Finding{Status: metav1.ConditionFalse, Reason: api.ReasonRemoteClusterStale}, Retry: time.Minute}
	const turns = 60
	for second := range turns {
		w.clusterError = unreachable
		if second%2 == 0 {
			w.clusterError = nil
		}
		clock.SetTime(time.Unix(int64(10000+second), 0))
		if _, err := w.reconcile(); err != nil {
			t.Fatal(err)
		}
	}
	w.clusterError = unreachable
	written := slices.DeleteFunc(w.written(), func(request string) bool { return request != "hub: patch knativeservings/status" })
	const elapsed = (turns - 1) * time.Second
	if permitted := 1 + transitionBurst + int(elapsed/transitionInterval); len(written) > permitted {
		t.Errorf("%d turns in %s cost %d writes, want at most %d", turns, elapsed, len(written), permitted)
	}
	clock.SetTime(clock.Now().Add(transitionInterval))
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	if got := w.condition(api.TargetClusterResolved); got.Status != metav1.ConditionFalse {
		t.Errorf("at the end the status is %+v", got)
	}
}
