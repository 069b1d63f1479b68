// Copyright Contributors to the Open Cluster Management project

package controllers

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/reference"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"
)

// TestEventsCanReferTo holds that what informers hand out, which has no kind, can be the object of an Event.
func TestEventsCanReferTo(t *testing.T) {
	scheme, err := NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []runtime.Object{&addonv1beta1.ClusterManagementAddOn{}, &addonv1beta1.ManagedClusterAddOn{}, &workv1.ManifestWork{}} {
		if _, err := reference.GetReference(scheme, o); err != nil {
			t.Errorf("%T: %v", o, err)
		}
	}
}
