// Copyright Contributors to the Open Cluster Management project

package knative

import (
	"errors"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render"
)

var errDenied = apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "", errors.New("the credential may not"))

// TestBlocked holds what a resource says whose cluster refuses what has to come before all else, and that it is tried again.
func TestBlocked(t *testing.T) {
	for name, tc := range map[string]struct {
		reason, denied, says string
		err                  error // of Bundles
		installed, available string
	}{
		"the anchor": {
			"It may not be read.", "/api/v1/namespaces/knative-serving/configmaps/knativeserving-self-root-owner", "cannot get ConfigMap", nil,
			api.ReasonApplyFailed, api.ReasonDelivering,
		},
		"other anchors": {
			"They may not be listed.", "/api/v1/configmaps", "cannot list ConfigMaps", nil, api.ReasonApplyFailed, api.ReasonDelivering,
		},
		"a spec that is wrong as well": {
			"What can be fixed on the hub comes first.", "/api/v1/namespaces/knative-serving/configmaps/knativeserving-self-root-owner", "spec.config is odd",
			&render.Error{Reason: api.ReasonInvalidSpec, Message: "spec.config is odd"}, api.ReasonInvalidSpec, api.ReasonNotRendered,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newDirectFixture(t, localServing(directFinalized))
			w.bundleError = tc.err
			w.setAnswer(tc.denied, errDenied)
			if result, err := w.reconcile(); err != nil || result.RequeueAfter != refusalRetry { // there is no event when it is allowed
				t.Fatalf("%s %v, %v", tc.reason, result, err)
			}
			if got := w.condition(api.InstallSucceeded); got.Status != metav1.ConditionFalse || got.Reason != tc.installed || !strings.Contains(got.Message, tc.says) {
				t.Errorf("%s It says %+v", tc.reason, got)
			}
			if got := w.condition(api.TargetClusterResolved); got.Status != metav1.ConditionTrue {
				t.Errorf("%s The cluster has answered, and is said to be %+v", tc.reason, got)
			}
			if got := w.condition(api.DeploymentsAvailable); got.Status != metav1.ConditionUnknown || got.Reason != tc.available {
				t.Errorf("%s Nothing is known of workloads, and they are said to be %+v", tc.reason, got)
			}
			if written := w.written(); !slices.Equal(written, []string{directPatchStatus}) {
				t.Errorf("%s Written is %q", tc.reason, written)
			}
		})
	}
}

// TestRemovalBlocked holds that a resource waits whose cluster refuses what has to come before its removal, and says so.
func TestRemovalBlocked(t *testing.T) {
	w := newDirectFixture(t, localServing(directFinalized, beingDeleted, withAnnotation(api.DeletionPolicyAnnotation, api.DeletionPolicyDelete)))
	w.records()
	w.setAnswer("/apis/x.dev/v1/images", errDenied)
	if result, err := w.reconcile(); err != nil || result.RequeueAfter != refusalRetry {
		t.Fatalf("%v, %v", result, err)
	}
	got := w.condition(api.InstallSucceeded)
	if got.Reason != api.ReasonRemoving || !strings.Contains(got.Message, "from the hub: the cluster refuses the removal: cannot list images.x.dev") {
		t.Errorf("it says %+v", got)
	}
	if written := w.written(); !slices.Equal(written, []string{directPatchStatus}) || len(w.config().GetFinalizers()) != 2 {
		t.Errorf("written is %q", written)
	}
}

// TestRepeatedFailures holds that the status names an error of the cluster that ends several passes in a row, and that earlier passes are
// repeated soon.
func TestRepeatedFailures(t *testing.T) {
	broken := apierrors.NewInternalError(errors.New("failed calling webhook \"policy.example.com\""))
	for name, tc := range map[string]struct {
		config *unstructured.Unstructured
		path   string
		want   string
	}{
		"installation": {localServing(directFinalized), "/api/v1/namespaces/knative-serving/configmaps/knativeserving-self-root-owner", api.ReasonApplyFailed},
		"removal":      {localServing(directFinalized, beingDeleted), "/api/v1/namespaces/knative-serving/configmaps/knativeserving-self-root-owner", api.ReasonRemoving},
	} {
		t.Run(name, func(t *testing.T) {
			w := newDirectFixture(t, tc.config)
			w.setAnswer(tc.path, broken)
			for range reportedFailures - 1 {
				if _, err := w.reconcile(); err == nil || len(w.written()) > 0 {
					t.Fatalf("the pass ends with error %v, and writes %q", err, w.written())
				}
			}
			if result, err := w.reconcile(); err != nil || result.RequeueAfter != refusalRetry {
				t.Fatalf("the pass ends with %v, %v", result, err)
			}
			if got := w.condition(api.InstallSucceeded); got.Reason != tc.want || !strings.Contains(got.Message, "policy.example.com") {
				t.Errorf("InstallSucceeded is %+v", got)
			}
		})
	}
}
