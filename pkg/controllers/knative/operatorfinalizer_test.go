// Copyright Contributors to the Open Cluster Management project

package knative

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/resolve"
)

// TestOperatorFinalizer holds that a deleted resource names the finalizer of the Knative Operator, unless the Knative Operator runs,
// and that other finalizers are the business of others.
func TestOperatorFinalizer(t *testing.T) {
	const finalizer = "knativeservings.operator.knative.dev"
	held := func(name string) func(*unstructured.Unstructured) {
		return func(c *unstructured.Unstructured) { c.SetFinalizers([]string{name}) }
	}
	for name, tc := range map[string]struct {
		config   *unstructured.Unstructured
		conflict resolve.Result
		reported bool
	}{
		"deleted": {config: localServing(held(finalizer), beingDeleted), reported: true},
		"deleted, and the operator runs": {
			config: localServing(held(finalizer), beingDeleted), conflict: resolve.Result{Reason: api.ReasonConflict},
		},
		"deleted, with another finalizer": {config: localServing(held("others/x"), beingDeleted)},
	} {
		t.Run(name, func(t *testing.T) {
			w := newDirectFixture(t, tc.config)
			w.conflict = tc.conflict
			for range 2 { // the second pass writes nothing
				if _, err := w.reconcile(); err != nil {
					t.Fatal(err)
				}
			}
			want := []string{directPatchStatus}
			if !tc.reported {
				want = nil
			}
			if got := w.written(); !slices.Equal(got, want) {
				t.Errorf("written is %q", got)
			}
			ready := w.condition(api.Ready)
			if says := ready.Status == metav1.ConditionUnknown && ready.Reason == api.ReasonRemoving && strings.Contains(ready.Message, finalizer); says != tc.reported {
				t.Errorf("it says %+v", ready)
			}
		})
	}
}
