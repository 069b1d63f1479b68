// Copyright Contributors to the Open Cluster Management project

package fleet

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"open-cluster-management.io/knative-addon/pkg/api"
	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
)

// TestStatusIsDecodedOnce holds that the state of a cluster costs one decoding of the status of its child: a pass reads the states of thousands of
// clusters.
func TestStatusIsDecodedOnce(t *testing.T) {
	fleet := &fleetv1alpha1.KnativeFleet{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: fleetName, UID: "uid-web"}}
	fleet.Spec.Serving = &fleetv1alpha1.Template{Spec: runtime.RawExtension{Raw: []byte(`{"version": "1.22"}`)}}
	templates, no := readTemplates(&fleet.Spec)
	if no != nil {
		t.Fatal(no.message)
	}
	now := time.Unix(1_000_000, 0)
	child := newChild(fleet, templates, api.Serving, "c1", now)
	conditions := []string{"Ready=True/Ready"}
	for i := range 200 { // the decoding allocates more objects than all other steps
		conditions = append(conditions, fmt.Sprintf("Other%d=True/Other", i))
	}
	setConditions(child, now, conditions...)
	r := &stateReader{
		fleet: fleet, templates: templates, now: now,
		children: map[api.Component]map[string]*unstructured.Unstructured{api.Serving: {"c1": child}},
	}
	c := cluster{name: "c1", profile: newProfile("c1")}
	if got := r.readCluster(c); got.phase != phaseSucceeded {
		t.Fatalf("the cluster is in phase %v with reason %s", got.phase, got.reason)
	}
	decoding := testing.AllocsPerRun(100, func() { decodeStatus(child) })
	reading := testing.AllocsPerRun(100, func() { r.readCluster(c) })
	if reading >= 2*decoding {
		t.Errorf("the state of a cluster allocates %v objects, and the decoding of the status of its child %v", reading, decoding)
	}
}
