// Copyright Contributors to the Open Cluster Management project

package removalguard

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// stuck has the first of three clusters between two add-ons, of which the second cannot be made, and the next one deleted.
func stuck(fault error) *fakeHub {
	h := newHub(3).deleted(2).unselected().freed()
	h.addOns, h.conflict, h.fault = h.addOns[1:], "create", fault
	return h
}

// TestRefusedConfirmation holds that a confirmation which the hub refuses for one add-on begins no mass removal, and keeps no other removal from a
// decision.
func TestRefusedConfirmation(t *testing.T) {
	h := newHub(5).deleted(5).unselected().held(2, massRemovalDecision(api.Serving)).confirmed(api.RemovalConfirm)
	h.addOns[4].Status.Conditions = h.addOns[0].Status.Conditions
	h.clusters[4].DeletionTimestamp, h.clusters[4].Finalizers = &metav1.Time{Time: now}, []string{"hold"}
	h.addOns[1].Annotations[api.RemovalAnnotation] = api.RemovalConfirm
	h.addOns[2].Annotations[api.RemovalAnnotation], h.addOns[4].Annotations[api.RemovalAnnotation] = api.RemovalConfirm, api.RemovalConfirm
	h.conflict, h.fault = "patch managedclusteraddons c0/", errors.New("admission webhook denied the request")
	h.reconcile(t)
	want := []string{
		`patch managedclusteraddons c0/knative-serving {"annotations":{"removal":"Confirm"}}`,
		`patch managedclusteraddons c2/knative-serving {"annotations":{"removal-allowed":"1000000"}}`,
		"patch managedclusteraddons/status c3/knative-serving conditions",
		`patch managedclusteraddons c4/knative-serving {"annotations":{"removal-allowed":"1000000"}}`,
	}
	if diff := cmp.Diff(want, h.actions); diff != "" || h.wait != batchDelay {
		t.Errorf("the next pass follows in %s (-want +got):\n%s", h.wait, diff)
	}
}

// TestRefusedRecord holds that a refused record of the removals stops only the removals that the record lacks.
func TestRefusedRecord(t *testing.T) {
	h := newHub(5).deleted(2).unselected()
	h.clusters[1].DeletionTimestamp, h.clusters[1].Finalizers = &metav1.Time{Time: now}, []string{"hold"}
	h.conflict, h.fault = "patch clustermanagementaddons", errors.New("admission webhook denied the request")
	h.reconcile(t)
	want := []string{
		`patch clustermanagementaddons knative-serving {"annotations":{"removals":"16666:uid00000"}}`,
		`patch managedclusteraddons c1/knative-serving {"annotations":{"removal-allowed":"1000000"}}`,
	}
	if diff := cmp.Diff(want, h.actions); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestFaultyHandover holds that an add-on that cannot be made keeps nobody from a decision, and is told of.
func TestFaultyHandover(t *testing.T) {
	denied := errors.New("admission webhook denied the request")
	noNamespace := apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "c0")
	create := "create managedclusteraddons c0/knative-serving [foundation] map[]"
	let := []string{
		create, `patch clustermanagementaddons knative-serving {"annotations":{"removals":"16666:uid00001"}}`,
		`patch managedclusteraddons c1/knative-serving {"annotations":{"removal-allowed":"1000000"}}`,
	}
	young := stuck(denied)
	young.addOns[0].DeletionTimestamp = &metav1.Time{Time: now.Add(-4 * time.Second)}
	slow := stuck(denied).manual()
	slow.addOns[0].Annotations[api.RemovalAnnotation] = api.RemovalConfirm
	malformed := stuck(denied)
	malformed.revisions[0].Data.Raw = []byte("{")
	for name, tc := range map[string]struct {
		reason string
		hub    *fakeHub
		want   []string
		wait   time.Duration
		fails  bool
	}{
		"a webhook denies it":              {reason: "Others may go.", hub: stuck(denied), want: let, fails: true},
		"no Namespace is there":            {reason: "That is no old cache: it would be tried each second.", hub: stuck(noNamespace), want: let, fails: true},
		"its configuration cannot be read": {reason: "Nobody repairs it.", hub: malformed, want: let[1:], fails: true},
		"a confirmed removal":              {reason: "The other decisions are carried out too.", hub: slow, want: []string{create, let[2]}, fails: true},
		"a batch arrives": {
			reason: "The budget decides when the batch is there, not when the fault is tried again.", hub: young,
			want: []string{create, "patch managedclusteraddons/status c1/knative-serving conditions"}, wait: 6 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.hub.reconcile(t)
			if diff := cmp.Diff(tc.want, tc.hub.actions); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
			if tc.hub.wait != tc.wait || (tc.hub.err != nil) != tc.fails {
				t.Errorf("%s It waits %s with error %v", tc.reason, tc.hub.wait, tc.hub.err)
			}
			if got := strings.Join(tc.hub.events, "\n"); !strings.HasPrefix(got, "Warning HandoverFailed cannot ") {
				t.Errorf("events are %q", got)
			}
		})
	}
}
