// Copyright Contributors to the Open Cluster Management project

package status

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render"
)

func TestFleetConditions(t *testing.T) {
	bad := &render.Error{Reason: render.ReasonInvalidSpec, Message: "spec.config is wrong"}
	names := func(n int) (out []string) {
		for i := range n {
			out = append(out, fmt.Sprintf("c%02d", n-i))
		}
		return out
	}
	const configures, rendered = "True FleetConfiguration", "True Rendered"
	for name, tc := range map[string]struct {
		reason   string
		in       Fleet
		want     [6]string
		messages map[string]string
	}{
		"nobody uses it": {
			reason:   "A configuration that can be used is as it should be.",
			want:     [6]string{"True Unused", configures, isEligible, hasAll, rendered, runs},
			messages: map[string]string{api.TargetClusterResolved: "used by 0 add-ons, 0 ready", api.Ready: unusedMessage},
		},
		"all are ready": {
			reason:   "It is counted, not listed.",
			in:       Fleet{Clusters: names(2)},
			want:     [6]string{"True Ready", configures, isEligible, hasAll, rendered, runs},
			messages: map[string]string{api.TargetClusterResolved: "used by 2 add-ons, 2 ready", api.DeploymentsAvailable: ""},
		},
		"some are not ready": {
			reason: "They are named in order.",
			in:     Fleet{Clusters: names(3), NotReady: []string{"c03", "c01"}},
			want:   [6]string{"False WorkloadsNotReady", configures, isEligible, hasAll, rendered, "False WorkloadsNotReady"},
			messages: map[string]string{
				api.TargetClusterResolved: "used by 3 add-ons, 1 ready", api.DeploymentsAvailable: "not ready on: c01, c03",
				api.Ready: "DeploymentsAvailable: not ready on: c01, c03",
			},
		},
		"some run an older spec": {
			reason: "Their old workloads are Ready, and do not count.",
			in:     Fleet{Clusters: names(3), NotReady: []string{"c03"}, Outdated: []string{"c02"}},
			want:   [6]string{"False WorkloadsNotReady", configures, isEligible, hasAll, "Unknown Delivering", "False WorkloadsNotReady"},
			messages: map[string]string{
				api.TargetClusterResolved: "used by 3 add-ons, 1 ready",
				api.InstallSucceeded:      "the present spec does not run yet on: c02; see the conditions of the ManagedClusterAddOns",
			},
		},
		"some run an older spec during a pause": {
			reason: "The rollout does not go on by itself.",
			in:     Fleet{Clusters: names(2), Outdated: []string{"c02"}, Paused: true},
			want:   [6]string{"Unknown Paused", configures, isEligible, hasAll, "Unknown Paused", runs},
		},
		"ten are not ready": {
			reason:   "So many are named.",
			in:       Fleet{Clusters: names(10), NotReady: names(10)},
			want:     [6]string{"False WorkloadsNotReady", configures, isEligible, hasAll, rendered, "False WorkloadsNotReady"},
			messages: map[string]string{api.DeploymentsAvailable: "not ready on: c01, c02, c03, c04, c05, c06, c07, c08, c09, c10"},
		},
		"many are not ready": {
			reason:   "A fleet may be of thousands, a message not.",
			in:       Fleet{Clusters: names(13), NotReady: names(13)},
			want:     [6]string{"False WorkloadsNotReady", configures, isEligible, hasAll, rendered, "False WorkloadsNotReady"},
			messages: map[string]string{api.DeploymentsAvailable: "not ready on: c01, c02, c03, c04, c05, c06, c07, c08, c09, c10 and 3 more"},
		},
		"removals are held": {
			reason:   "Somebody has to answer.",
			in:       Fleet{Clusters: names(3), Held: names(2)},
			want:     [6]string{"True Ready", configures, isEligible, hasAll, rendered, runs},
			messages: map[string]string{api.TargetClusterResolved: "used by 3 add-ons, 3 ready; the removal of 2 is held: see condition RemovalHeld of the ManagedClusterAddOns"},
		},
		"clusters lack values": {
			reason: "They are named; the others get what the spec asks for.",
			in:     Fleet{Clusters: names(3), Incomplete: []string{"c03", "c01"}},
			want:   [6]string{"False ValueMissing", configures, isEligible, hasAll, "False ValueMissing", runs},
			messages: map[string]string{
				api.InstallSucceeded: "values that this resource uses are missing on: c01, c03; condition ValuesResolved of their ManagedClusterAddOns names them",
			},
		},
		"a fault": {
			reason: "The clusters keep what they have.",
			in:     Fleet{Clusters: names(2), Fault: bad},
			want:   [6]string{"False InvalidSpec", configures, isEligible, hasAll, "False InvalidSpec", runs},
			messages: map[string]string{
				api.TargetClusterResolved: "used by 2 add-ons, 2 ready", api.InstallSucceeded: bad.Message,
			},
		},
		"a fault, and a cluster is not ready": {
			reason: "The clusters are observed.",
			in:     Fleet{Clusters: names(2), NotReady: names(1), Fault: bad},
			want:   [6]string{"False InvalidSpec", configures, isEligible, hasAll, "False InvalidSpec", "False WorkloadsNotReady"},
			messages: map[string]string{
				api.TargetClusterResolved: "used by 2 add-ons, 1 ready", api.DeploymentsAvailable: "not ready on: c01",
			},
		},
		"a fault without clusters": {
			reason:   "Nothing is installed.",
			in:       Fleet{Fault: bad},
			want:     [6]string{"False InvalidSpec", configures, isEligible, hasAll, "False InvalidSpec", notRendered},
			messages: map[string]string{api.DeploymentsAvailable: "see InstallSucceeded"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := FleetConditions(tc.in)
			var want []string
			for i, condition := range api.ConditionTypes() {
				want = append(want, strings.TrimSpace(condition+" "+tc.want[i]))
			}
			if diff := cmp.Diff(want, brokenDown(got)); diff != "" {
				t.Fatalf("%s (-want +got):\n%s", tc.reason, diff)
			}
			for condition, want := range tc.messages {
				if text := messageOf(t, got, condition); text != want {
					t.Errorf("%s %s says %q, want %q", tc.reason, condition, text, want)
				}
			}
		})
	}
}
