// Copyright Contributors to the Open Cluster Management project

package managedclusteraddon

import (
	"testing"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	addonfake "open-cluster-management.io/api/client/addon/clientset/versioned/fake"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// TestDetailsAreLimited holds that a status, and the reason of a status that is not Unknown, is written at once, that details alone are written once in
// detailInterval after any write, and that the pass records the time until details can be written.
func TestDetailsAreLimited(t *testing.T) {
	h := newHub()
	h.addOn.ResourceVersion = "1"
	client, clock := addonfake.NewSimpleClientset(h.addOn), testclock.NewFakePassiveClock(time.Unix(1000, 0))
	r := &Reconciler{AddOnClient: client, Clock: clock}
	stored := h.addOn
	for n, step := range []struct {
		after           time.Duration
		status          metav1.ConditionStatus
		reason, message string
		want            string
		delay           time.Duration
	}{
		{0, metav1.ConditionFalse, "Unavailable", "1 of 3", "1 of 3", 0},
		{0, metav1.ConditionFalse, "Unavailable", "2 of 3", "1 of 3", detailInterval},
		{time.Second, metav1.ConditionFalse, "Unavailable", "3 of 3", "1 of 3", detailInterval - time.Second},
		{0, metav1.ConditionFalse, "Unavailable", "1 of 3", "1 of 3", 0}, // as stored
		{0, metav1.ConditionFalse, "Removing", "other", "other", 0},
		{0, metav1.ConditionTrue, "Removing", "runs", "runs", 0},
		{0, metav1.ConditionTrue, "Removing", "still", "runs", detailInterval - time.Second},
		{detailInterval, metav1.ConditionTrue, "Removing", "still", "still", 0},
		{time.Second, metav1.ConditionUnknown, "NotDelivered", "none", "none", 0},
		{time.Second, metav1.ConditionUnknown, "NotApplied", "one", "none", detailInterval - 2*time.Second},
		{detailInterval, metav1.ConditionUnknown, "NotApplied", "one", "one", 0},
	} {
		clock.SetTime(clock.Now().Add(step.after))
		s := &scope{component: api.Serving, addon: stored}
		err := r.setConditions(t.Context(), s, []metav1.Condition{{
			Type: addonv1beta1.ManagedClusterAddOnConditionAvailable, Status: step.status, Reason: step.reason, Message: step.message,
		}})
		if err != nil {
			t.Fatal(err)
		}
		if stored, err = client.AddonV1beta1().ManagedClusterAddOns(clusterName).Get(t.Context(), h.addOn.Name, metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
		c := apimeta.FindStatusCondition(stored.Status.Conditions, addonv1beta1.ManagedClusterAddOnConditionAvailable)
		if c.Message != step.want || s.detailDelay != step.delay {
			t.Errorf("step %d: message %q is stored, and the pass waits %s; want %q and %s", n, c.Message, s.detailDelay, step.want, step.delay)
		}
	}
}
