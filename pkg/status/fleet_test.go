// Copyright Contributors to the Open Cluster Management project

package status

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render"
)

func TestFleetConditions(t *testing.T) {
	bad := &render.Error{Reason: api.ReasonInvalidSpec, Message: "spec.config is wrong"}
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
		"clusters are unresolved": {
			reason: "The counts stay in the message.",
			in:     Fleet{Clusters: names(3), Unresolved: []string{"c03", "c01"}},
			want:   [6]string{"False ClustersUnresolved", "False ClustersUnresolved", isEligible, hasAll, rendered, runs},
			messages: map[string]string{
				api.TargetClusterResolved: "condition TargetClusterResolved of the ManagedClusterAddOns is False on: c01, c03; used by 3 add-ons, 3 ready",
			},
		},
		"a cluster cannot go to the version": {
			reason:   "The conditions of one cluster show in the aggregate.",
			in:       Fleet{Clusters: names(3), Ineligible: []string{"c02"}},
			want:     [6]string{"False VersionMigrationNotEligible", configures, "False VersionMigrationNotEligible", hasAll, rendered, runs},
			messages: map[string]string{api.VersionMigrationEligible: "condition VersionMigrationEligible of the ManagedClusterAddOns is False on: c02"},
		},
		"many clusters lack kinds": {
			reason: "Ten are named.",
			in:     Fleet{Clusters: names(13), Lacking: names(13)},
			want:   [6]string{"False KindMissing", configures, isEligible, "False KindMissing", rendered, runs},
			messages: map[string]string{
				api.DependenciesInstalled: "condition DependenciesInstalled of the ManagedClusterAddOns is False on: c01, c02, c03, c04, c05, c06, c07, c08, c09, c10 and 3 more",
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
			got := slices.DeleteFunc(FleetConditions(tc.in), func(c metav1.Condition) bool { return c.Type == api.RolledOut })
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

func TestFleetRolledOut(t *testing.T) {
	fault := &render.Error{Reason: api.ReasonInvalidSpec, Message: "spec.config is wrong"}
	all := []string{"c1", "c2", "c3"}
	for name, tc := range map[string]struct {
		in Fleet
		// want is empty without the condition.
		want string
	}{
		"without clusters":                           {in: Fleet{}},
		"every cluster has run the spec":             {in: Fleet{Clusters: all, NotReady: []string{"c1"}}, want: "True RolledOut"},
		"one cluster of three has run the spec":      {in: Fleet{Clusters: all, Waiting: all[1:]}, want: "False Progressing 1 of 3 clusters have run the present spec"},
		"a failure, and a cluster that waits":        {in: Fleet{Clusters: all, Waiting: all[1:], Failed: all[2:]}, want: "False Progressing 1 of 3 clusters have run the present spec"},
		"a failure, and nothing is on its way":       {in: Fleet{Clusters: all, Waiting: all[2:], Failed: all[2:]}, want: "False ClustersFailed 2 of 3 clusters have run the present spec; failed are: c3"},
		"an unresolved cluster has not run the spec": {in: Fleet{Clusters: all, Waiting: all[2:], Unresolved: all[2:]}, want: "False Progressing 2 of 3 clusters have run the present spec"},
		"a pause": {in: Fleet{Clusters: all, Waiting: all, Paused: true}, want: "False Paused 0 of 3 clusters have run the present spec"},
		"a fault": {in: Fleet{Clusters: all, Fault: fault}, want: "False NotRendered see InstallSucceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if c := apimeta.FindStatusCondition(FleetConditions(tc.in), api.RolledOut); c != nil {
				got = strings.TrimSpace(fmt.Sprintf("%s %s %s", c.Status, c.Reason, c.Message))
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
