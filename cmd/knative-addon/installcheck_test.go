// Copyright Contributors to the Open Cluster Management project

package main

import (
	"errors"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	addonfake "open-cluster-management.io/api/client/addon/clientset/versioned/fake"

	"open-cluster-management.io/knative-addon/pkg/hub"
)

// TestInstallCheck holds that the check passes only with both add-ons and a manager that renews its Lease.
func TestInstallCheck(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	lease := func(name string, age time.Duration) *coordinationv1.Lease {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "knative-addon", Name: name}, Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new("pod"), RenewTime: new(metav1.NewMicroTime(now.Add(-age))), LeaseDurationSeconds: ptr.To[int32](15),
		}}
	}
	addOn := func(name string) runtime.Object {
		return &addonv1beta1.ClusterManagementAddOn{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	both := []runtime.Object{addOn("knative-serving"), addOn("knative-eventing")}
	for name, tc := range map[string]struct {
		addOns []runtime.Object
		lease  *coordinationv1.Lease
		passes bool
	}{
		"a manager leads":                          {both, lease("knative-addon", time.Second), true},
		"a manager is gone":                        {both, lease("knative-addon", time.Minute), false},
		"only the program for the hub itself runs": {both, lease("knative-addon-local", time.Second), false},
		"another add-on only":                      {both[:1], lease("knative-addon", time.Second), false},
	} {
		t.Run(name, func(t *testing.T) {
			clients := hub.Clients{AddOns: addonfake.NewSimpleClientset(tc.addOns...), Kube: fake.NewClientset(tc.lease)}
			leader, err := checkInstallation(t.Context(), clients, "knative-addon", now)
			if (err == nil) != tc.passes || (leader == "pod") != tc.passes {
				t.Errorf("the leader is %q, the error %v", leader, err)
			}
		})
	}
	clients := hub.Clients{AddOns: addonfake.NewSimpleClientset(both[1]), Kube: fake.NewClientset()}
	if _, err := checkInstallation(t.Context(), clients, "knative-addon", now); err == nil || !apierrors.IsNotFound(errors.Unwrap(err)) {
		t.Errorf("without an add-on the error is %v", err)
	}
}
