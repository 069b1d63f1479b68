// Copyright Contributors to the Open Cluster Management project

package status

import (
	"testing"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery"
)

// TestVerified holds that Ready depends on a requested verification, and when the condition exists.
func TestVerified(t *testing.T) {
	verifies := func(v delivery.Verification) change { return func(in *Installation) { in.Verification = &v } }
	before := []metav1.Condition{{Type: api.Verified, Status: metav1.ConditionFalse, Reason: api.ReasonVerificationFailed, Message: "before"}}
	for name, tc := range map[string]struct {
		in              *Installation
		ready, verified string // reasons
	}{
		"no request":                {in: installation(), ready: api.ReasonReady},
		"verified":                  {in: installation(verifies(delivery.Verification{Verified: true})), ready: api.ReasonReady, verified: api.ReasonVerificationSucceeded},
		"not verified":              {in: installation(verifies(delivery.Verification{Runs: true})), ready: api.ReasonVerifying, verified: api.ReasonVerifying},
		"workloads do not run":      {in: installation(scaledDown, verifies(delivery.Verification{})), ready: api.ReasonWorkloadsNotReady, verified: api.ReasonDelivering},
		"a removal":                 {in: installation(removing, verifies(delivery.Verification{Runs: true})), ready: api.ReasonRemoving},
		"an unreachable cluster":    {in: installation(target(outOfSight)), ready: api.ReasonManagedClusterUnavailable, verified: api.ReasonVerificationFailed},
		"another owner's component": {in: installation(target(revoked), unheld), ready: api.ReasonReferenceNotPermitted},
	} {
		t.Run(name, func(t *testing.T) {
			conditions := Conditions(tc.in, before)
			if got := apimeta.FindStatusCondition(conditions, api.Ready); got.Reason != tc.ready {
				t.Errorf("Ready is %+v, want reason %s", got, tc.ready)
			}
			got := apimeta.FindStatusCondition(conditions, api.Verified)
			if (got != nil) != (tc.verified != "") || got != nil && got.Reason != tc.verified {
				t.Errorf("Verified is %+v, want reason %q", got, tc.verified)
			}
		})
	}
}
