// Copyright Contributors to the Open Cluster Management project

package resolve

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
)

func TestManagedCluster(t *testing.T) {
	enabled := &Target{Mode: api.ModeManifestWork, ManagedCluster: reference.Name}
	closed := &Target{Mode: api.ModeManifestWork, ManagedCluster: reference.Name, Closed: true}
	for name, tc := range map[string]struct {
		reason   string
		changes  []change
		want     Result
		mentions []string
	}{
		"a cluster that is there": {
			reason: "A user enabled the add-on; that is all the consent it needs.",
			want:   Result{Target: enabled},
		},
		"no cluster": {
			reason:   "There is nothing to write to.",
			changes:  []change{noCluster},
			want:     Result{Reason: api.ReasonManagedClusterNotFound},
			mentions: []string{`ManagedCluster "c1"`, "delete its add-on"},
		},
		"not accepted": {
			reason:   "The administrator's word comes before what the cluster says.",
			changes:  []change{func(in *Input) { in.Cluster.Spec.HubAcceptsClient = false }, clusterSays(clusterv1.ManagedClusterConditionAvailable, metav1.ConditionUnknown)},
			want:     Result{Target: closed, Reason: api.ReasonManagedClusterNotAccepted},
			mentions: []string{"clusteradm accept --clusters c1"},
		},
		"being deleted": {
			reason:   "A cluster on its way out gets nothing new.",
			changes:  []change{func(in *Input) { in.Cluster.DeletionTimestamp = &metav1.Time{} }},
			want:     Result{Target: closed, Reason: api.ReasonManagedClusterUnavailable},
			mentions: []string{"is being deleted"},
		},
		"not joined": {
			reason:   "The cluster has never been there.",
			changes:  []change{func(in *Input) { in.Cluster.Status.Conditions = nil }},
			want:     Result{Target: enabled, Reason: api.ReasonManagedClusterUnavailable},
			mentions: []string{"has not joined"},
		},
		"unavailable": {
			reason:   "An unavailable cluster keeps its installation.",
			changes:  []change{clusterSays(clusterv1.ManagedClusterConditionAvailable, metav1.ConditionUnknown)},
			want:     Result{Target: enabled, Reason: api.ReasonManagedClusterUnavailable},
			mentions: []string{"Unknown (Because)", "keeps its installation"},
		},
		"a profile that is not healthy": {
			reason:  "Nobody referred to one.",
			changes: []change{profileSays(metav1.ConditionFalse)},
			want:    Result{Target: enabled},
		},
		"no set that is bound": {
			reason:  "Consent is for references.",
			changes: []change{bound(metav1.ConditionFalse)},
			want:    Result{Target: enabled},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := ManagedCluster(reference.Name, input(pulled, tc.changes...).Cluster)
			message := got.Message
			got.Message = ""
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got), message %q:\n%s", tc.reason, message, diff)
			}
			if (message == "") != got.Resolved() {
				t.Errorf("reason %q has message %q", got.Reason, message)
			}
			for _, m := range tc.mentions {
				if !strings.Contains(message, m) {
					t.Errorf("%s The message %q does not mention %q", tc.reason, message, m)
				}
			}
			if strings.Contains(message, "canary") || strings.Contains(message, "12:00") {
				t.Errorf("the message %q repeats foreign text", message)
			}
		})
	}
}
