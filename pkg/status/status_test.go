// Copyright Contributors to the Open Cluster Management project

package status

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery"
)

// conditionsCase is an installation and what is told of it: Ready, target, version, dependencies, installed, available.
type conditionsCase struct {
	reason  string
	changes []change
	want    [6]string
	// mentions are texts that the message of Ready has.
	mentions []string
}

const (
	isResolved = "True TargetResolved"
	isEligible = "True Eligible"
	hasAll     = "True NothingMissing"
	isApplied  = "True Applied"
	runs       = "True WorkloadsAvailable"

	unresolved  = "Unknown TargetNotResolved"
	notRendered = "Unknown NotRendered"
	onTheWay    = "Unknown Delivering"
	goes        = "Unknown Removing"
)

func seenCases() map[string]conditionsCase {
	return map[string]conditionsCase{
		"everything was seen": {
			reason: "True is only what was seen.",
			want:   [6]string{"True Ready", isResolved, isEligible, hasAll, isApplied, runs},
		},
		"the cluster has not reported yet": {
			reason:  "What was reported of an earlier state says nothing of this one.",
			changes: []change{waiting, scaledDown},
			want:    [6]string{onTheWay, isResolved, isEligible, onTheWay, onTheWay, onTheWay}, mentions: []string{"DependenciesInstalled: waiting for the work agent"},
		},
		"an object is refused": {
			reason:   "The rest may run all the same.",
			changes:  []change{failed(forbidden("b"), forbidden("a"))},
			want:     [6]string{"False ApplyFailed", isResolved, isEligible, hasAll, "False ApplyFailed", runs},
			mentions: []string{"InstallSucceeded: not applied: ConfigMap " + ns + "/a: forbidden; ConfigMap " + ns + "/b: forbidden"},
		},
		"an object is refused while the rest is on its way": {
			reason:  "A failure is the cause of the waiting, and is told at once.",
			changes: []change{waiting, failed(forbidden("a"))},
			want:    [6]string{"False ApplyFailed", isResolved, isEligible, onTheWay, "False ApplyFailed", onTheWay},
		},
		"the cluster lets nothing be done": {
			reason:   "Who may not look knows nothing, and what is refused is why.",
			changes:  []change{blocked("cannot list jobs.batch:\nforbidden")},
			want:     [6]string{"False ApplyFailed", isResolved, isEligible, onTheWay, "False ApplyFailed", onTheWay},
			mentions: []string{"InstallSucceeded: nothing can be done on the cluster: cannot list jobs.batch: forbidden; fix the cause on the cluster", "knative-addon rbac"},
		},
		"a kind is missing": {
			reason:   "The dependency is the cause, that the object is not applied the effect.",
			changes:  []change{failed(unknownKind("z"), forbidden("a"), unknownKind("b"))},
			want:     [6]string{"False KindMissing", isResolved, isEligible, "False KindMissing", "False ApplyFailed", runs},
			mentions: []string{"DependenciesInstalled: ", "Gateway " + ns + "/b; Gateway " + ns + "/z; install the product that brings the kind"},
		},
		"a kind is missing while the rest is on its way": {
			reason:  "It will not come by waiting.",
			changes: []change{waiting, failed(unknownKind("z"))},
			want:    [6]string{"False KindMissing", isResolved, isEligible, "False KindMissing", "False ApplyFailed", onTheWay},
		},
		"a workload does not run": {
			reason:   "Applied is not ready.",
			changes:  []change{scaledDown},
			want:     [6]string{"False WorkloadsNotReady", isResolved, isEligible, hasAll, isApplied, "False WorkloadsNotReady"},
			mentions: []string{"DeploymentsAvailable: Deployment " + ns + "/activator: 0 of 1 pods are available"},
		},
		"a Job has failed": {
			reason: "A migration that failed is no installation.",
			changes: []change{func(in *Installation) {
				in.Observation.Jobs[0] = delivery.JobState{JobRef: bundle().Jobs[0], Failed: true}
			}},
			want:     [6]string{"False WorkloadsNotReady", isResolved, isEligible, hasAll, isApplied, "False WorkloadsNotReady"},
			mentions: []string{"Job " + ns + "/cleanup: the Job has failed"},
		},
		"unavailable": {
			reason:   "The cluster is not ready when nobody knows whether it is.",
			changes:  []change{target(outOfSight)},
			want:     [6]string{"False ManagedClusterUnavailable", "False ManagedClusterUnavailable", isEligible, hasAll, isApplied, runs},
			mentions: []string{"TargetClusterResolved: " + outOfSight.Message},
		},
	}
}

func unseenCases() map[string]conditionsCase {
	cases := map[string]conditionsCase{
		"the target is not resolved": {
			reason:  "Nothing is known of a cluster that nobody knows.",
			changes: []change{target(revoked), unheld},
			want:    [6]string{"False ReferenceNotPermitted", "False ReferenceNotPermitted", unresolved, unresolved, unresolved, unresolved},
		},
		"a bad edit of an installation that runs": {
			reason:  "The edit reaches no cluster.",
			changes: []change{fault(api.ReasonInvalidSpec), keeps(1)},
			want:    [6]string{"False InvalidSpec", isResolved, notRendered, notRendered, "False InvalidSpec", runs},
		},
		"a bad edit, and pods are missing": {
			reason:  "The workloads are observed all the same.",
			changes: []change{fault(api.ReasonInvalidSpec), keeps(0)},
			want:    [6]string{"False InvalidSpec", isResolved, notRendered, notRendered, "False InvalidSpec", "False WorkloadsNotReady"},
		},
		"a bad first spec": {
			reason:  "Nothing is installed.",
			changes: []change{fault(api.ReasonInvalidSpec)},
			want:    [6]string{"False InvalidSpec", isResolved, notRendered, notRendered, "False InvalidSpec", notRendered},
		},
		"the cluster has the installation of somebody else": {
			reason:  "What is seen there is not this resource's.",
			changes: []change{func(in *Installation) { in.Owned = false }},
			want:    [6]string{unresolved, isResolved, unresolved, unresolved, unresolved, unresolved},
		},
		"being removed": {
			reason:   "What is going is not there for anybody to rely on.",
			changes:  []change{removing},
			want:     [6]string{goes, isResolved, goes, goes, goes, goes},
			mentions: []string{"VersionMigrationEligible: removing what is installed"},
		},
		"being removed while unavailable": {
			reason:  "The cluster holds the removal up.",
			changes: []change{removing, target(outOfSight)},
			want:    [6]string{"False ManagedClusterUnavailable", "False ManagedClusterUnavailable", goes, goes, goes, goes},
		},
		"being removed with a fault": {
			reason:  "A spec that is wrong does not matter any more.",
			changes: []change{fault(api.ReasonInvalidSpec), removing},
			want:    [6]string{goes, isResolved, goes, goes, goes, goes},
		},
		"being removed with a version out of reach": {
			reason:  "Nor does its version.",
			changes: []change{fault(api.ReasonNotEligible), removing},
			want:    [6]string{goes, isResolved, goes, goes, goes, goes},
		},
		"the configuration is not resolved": {
			reason:   "Somebody is still at it: that is no failure.",
			changes:  []change{fault(api.FaultConfigPending)},
			want:     [6]string{onTheWay, isResolved, onTheWay, onTheWay, onTheWay, onTheWay},
			mentions: []string{"VersionMigrationEligible: it is wrong"},
		},
		"the version is out of reach": {
			reason:   "It is told where users look for it, and nothing was written.",
			changes:  []change{fault(api.ReasonNotEligible)},
			want:     [6]string{"False VersionMigrationNotEligible", isResolved, "False VersionMigrationNotEligible", notRendered, "False VersionMigrationNotEligible", notRendered},
			mentions: []string{"VersionMigrationEligible: it is wrong"},
		},
		"a fault and no target": {
			reason:  "Both are told; the target comes first.",
			changes: []change{target(revoked), unheld, fault(api.ReasonAddOnMissing)},
			want:    [6]string{"False ReferenceNotPermitted", "False ReferenceNotPermitted", notRendered, notRendered, "False AddOnMissing", notRendered},
		},
		"nothing is known at all": {
			reason:  "What has no status is not True.",
			changes: []change{func(in *Installation) { *in = Installation{} }},
			want:    [6]string{" ", " ", unresolved, unresolved, unresolved, unresolved},
		},
	}
	for _, reason := range faults() {
		if reason == api.FaultConfigPending || reason == api.ReasonNotEligible {
			continue
		}
		cases["fault "+string(reason)] = conditionsCase{
			reason:   "What cannot be rendered fails the installation; nothing can be said of the cluster.",
			changes:  []change{fault(reason)},
			want:     [6]string{"False " + string(reason), isResolved, notRendered, notRendered, "False " + string(reason), notRendered},
			mentions: []string{"InstallSucceeded: it is wrong"},
		}
	}
	return cases
}

func TestConditions(t *testing.T) {
	cases := seenCases()
	maps.Copy(cases, unseenCases())
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := Conditions(installation(tc.changes...), nil)
			var want []string
			for i, condition := range api.ConditionTypes() {
				want = append(want, condition+" "+tc.want[i])
			}
			if diff := cmp.Diff(want, brokenDown(got)); diff != "" {
				t.Fatalf("%s (-want +got):\n%s", tc.reason, diff)
			}
			for _, m := range tc.mentions {
				if text := messageOf(t, got, api.Ready); !strings.Contains(text, m) {
					t.Errorf("%s The message of Ready does not have %q: %q", tc.reason, m, text)
				}
			}
		})
	}
}

func TestOutOfSight(t *testing.T) {
	reported := last(scaledDown, failed(unknownKind("a")))
	for name, tc := range map[string]struct {
		reason string
		now    []change
		last   []metav1.Condition
		// want are the conditions that stay as they were last; the others are as they would be without last.
		want []string
	}{
		"on the way to something new": {
			reason: "What was last seen is still the best that is known.",
			now:    []change{target(outOfSight), waiting}, last: reported,
			want: []string{api.DependenciesInstalled, api.InstallSucceeded, api.DeploymentsAvailable},
		},
		"denied": {
			reason: "Consent that is taken away does not change the cluster.",
			now:    []change{target(revoked), waiting}, last: reported,
			want: []string{api.DependenciesInstalled, api.InstallSucceeded, api.DeploymentsAvailable},
		},
		"with a fault": {
			reason: "The fault is seen on the hub; the cluster is as it was.",
			now:    []change{target(outOfSight), fault(api.ReasonInvalidSpec)}, last: reported,
			want: []string{api.VersionMigrationEligible, api.DependenciesInstalled, api.DeploymentsAvailable},
		},
		"with a configuration that is not resolved": {
			reason: "Nothing has changed on the cluster.",
			now:    []change{target(outOfSight), fault(api.FaultConfigPending)}, last: reported,
			want: []string{api.VersionMigrationEligible, api.DependenciesInstalled, api.InstallSucceeded, api.DeploymentsAvailable},
		},
		"with a fault that is mended": {
			reason: "A fault is nothing that was seen on the cluster, so that it does not stay.",
			now:    []change{target(outOfSight), waiting}, last: last(fault(api.ReasonInvalidSpec)),
		},
		"after nothing was known": {
			reason: "That the target was not resolved is no fact about the cluster.",
			now:    []change{target(outOfSight), waiting}, last: last(target(revoked), unheld),
		},
		"after something was on its way": {
			reason: "What is waited for is seen on the hub, and may be something else by now.",
			now:    []change{target(outOfSight), func(in *Installation) { in.Observation.Waiting = "waiting for something else" }}, last: last(waiting),
		},
		"and still reported": {
			reason: "The hub has what the cluster has reported of exactly this.",
			now:    []change{target(outOfSight)}, last: reported,
		},
		"with the installation of somebody else": {
			reason: "What was seen before is not there any more, or is another's.",
			now:    []change{target(outOfSight), unheld}, last: reported,
		},
		"being removed": {
			reason: "What was there is going.",
			now:    []change{target(outOfSight), removing}, last: reported,
		},
		"not at all": {
			reason: "Of a cluster that is seen nothing old is told.",
			now:    []change{waiting}, last: reported,
		},
		"with conditions of others": {
			reason: "The Knative Operator wrote them of its own cluster.",
			now:    []change{target(outOfSight), waiting},
			last:   []metav1.Condition{{Type: api.InstallSucceeded, Status: metav1.ConditionTrue}, {Type: api.DeploymentsAvailable, Status: metav1.ConditionFalse, Reason: "NotReady"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			want := Conditions(installation(tc.now...), nil)
			for i := range want {
				if c := apimeta.FindStatusCondition(tc.last, want[i].Type); slices.Contains(tc.want, want[i].Type) {
					want[i].Status, want[i].Reason, want[i].Message = c.Status, c.Reason, c.Message
				}
			}
			got := Conditions(installation(tc.now...), tc.last)
			if diff := cmp.Diff(want[1:], got[1:]); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestReadyIsTheFirstOfTheWorst(t *testing.T) {
	finding := func(status metav1.ConditionStatus, reason string) Finding {
		return Finding{status, reason, "because of " + reason}
	}
	for name, tc := range map[string]struct {
		reason   string
		findings map[string]Finding
		want     Finding
	}{
		"nothing was found": {
			reason: "There is nothing against it.", want: Finding{metav1.ConditionTrue, api.ReasonReady, ""},
		},
		"False after Unknown": {
			reason: "What is wrong matters more than what is not known.",
			findings: map[string]Finding{
				api.VersionMigrationEligible: finding(metav1.ConditionUnknown, "A"),
				api.InstallSucceeded:         finding(metav1.ConditionFalse, "B"), api.DeploymentsAvailable: finding(metav1.ConditionFalse, "C"),
			},
			want: Finding{metav1.ConditionFalse, "B", "InstallSucceeded: because of B"},
		},
		"two Unknown": {
			reason: "The first is the cause.",
			findings: map[string]Finding{
				api.TargetClusterResolved: finding(metav1.ConditionTrue, "A"),
				api.InstallSucceeded:      finding(metav1.ConditionUnknown, "B"), api.DeploymentsAvailable: finding(metav1.ConditionUnknown, "C"),
			},
			want: Finding{metav1.ConditionUnknown, "B", "InstallSucceeded: because of B"},
		},
		"no message": {
			reason:   "A colon without anything after it says nothing.",
			findings: map[string]Finding{api.InstallSucceeded: {Status: metav1.ConditionUnknown, Reason: "B"}},
			want:     Finding{metav1.ConditionUnknown, "B", "InstallSucceeded"},
		},
		"a status that there is not": {
			reason:   "It is not True.",
			findings: map[string]Finding{api.InstallSucceeded: {Status: "Perhaps", Reason: "B"}},
			want:     Finding{"Perhaps", "B", "InstallSucceeded"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := Summarize(tc.findings)
			if len(got) != len(tc.findings)+1 || got[0].Type != api.Ready {
				t.Fatalf("conditions are %v, want Ready and those that were found", brokenDown(got))
			}
			if diff := cmp.Diff(tc.want, Finding{got[0].Status, got[0].Reason, got[0].Message}); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}
