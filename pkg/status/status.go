// Copyright Contributors to the Open Cluster Management project

package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery"
	"open-cluster-management.io/knative-addon/pkg/message"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// Installation holds every fact about one installation on one cluster.
type Installation struct {
	// Target is whether the cluster is known, may be used and was seen: TargetClusterResolved.
	Target Finding
	// Owned reports whether the installation on the cluster belongs to this resource, so that observations count, also while
	// the cluster is unavailable.
	Owned bool
	// Removing names the objects that the removal waits for; empty unless the resource is being deleted.
	Removing string
	// Fault is the reason why no bundle exists; nil with a bundle.
	Fault *render.Error
	// Bundle is the desired content of the cluster; nil with a Fault or without a target.
	Bundle *render.Bundle
	// Observation is the observed state of Bundle.
	Observation delivery.Observation
	// Kept is the observed state of the installation that the cluster keeps with a Fault; nil when nothing is installed, or when
	// the cluster was not observed.
	Kept *delivery.Kept
	// Annotations explains why annotations of the resource do not count; nil when every annotation counts.
	Annotations *Finding
	// Verification holds the facts about the requested verification; nil without a request.
	Verification *delivery.Verification
	// Rendering says whether the cluster runs what this manager renders; nil when the cluster never waited for a rendering.
	Rendering *Finding
}

// Finding is the status, reason and message of one condition.
type Finding struct {
	Status          metav1.ConditionStatus
	Reason, Message string
}

// Conditions returns all conditions of the installation, in the order of api.ConditionTypes. last are the current
// conditions of the resource, which an unavailable cluster keeps.
func Conditions(in *Installation, last []metav1.Condition) []metav1.Condition {
	findings := map[string]Finding{
		api.TargetClusterResolved:    in.Target,
		api.VersionMigrationEligible: migrationFinding(in),
		api.DependenciesInstalled:    dependenciesFinding(in),
		api.InstallSucceeded:         installFinding(in),
		api.DeploymentsAvailable:     workloadsFinding(in),
	}
	if in.Verification != nil && in.Owned && in.Removing == "" {
		var f Finding
		f.Status, f.Reason, f.Message = in.Verification.Describe()
		findings[api.Verified] = f
	}
	if in.Owned && in.Removing == "" && in.Target.Status != metav1.ConditionTrue {
		keepLastVerified(findings, last)
		keepLastObserved(findings, last)
	}
	var warnings []string
	if in.Bundle != nil && in.Owned && in.Removing == "" {
		warnings = in.Bundle.Warnings
	}
	return appendOptional(Summarize(findings), in, warnings)
}

// appendOptional appends condition AnnotationsPermitted when annotations do not count, condition RenderingCurrent when the cluster waited
// for a rendering, and condition SettingsEffective when the renderer has warnings.
func appendOptional(conditions []metav1.Condition, in *Installation, warnings []string) []metav1.Condition {
	if in.Annotations != nil {
		conditions = append(conditions, newCondition(api.AnnotationsPermitted, *in.Annotations))
	}
	if in.Rendering != nil {
		conditions = append(conditions, newCondition(api.RenderingCurrent, *in.Rendering))
	}
	if len(warnings) == 0 {
		return conditions
	}
	clauses := make([]string, len(warnings))
	for i, w := range warnings {
		clauses[i] = shortenCause(w)
	}
	slices.Sort(clauses)
	return append(conditions, newCondition(api.SettingsEffective, Finding{metav1.ConditionFalse, api.ReasonCheckSettings, message.ListClauses(clauses, maxListed)}))
}

// keepLastObserved replaces Unknown findings by the last observation of the cluster. Findings about the hub, such as a
// fault of the spec and the end of that fault, are always current.
func keepLastObserved(findings map[string]Finding, last []metav1.Condition) {
	for condition, f := range findings {
		c := apimeta.FindStatusCondition(last, condition)
		if c != nil && f.Status == metav1.ConditionUnknown && slices.Contains(observedReasons(), c.Reason) {
			findings[condition] = Finding{Status: c.Status, Reason: c.Reason, Message: c.Message}
		}
	}
}

// keepLastVerified keeps condition Verified of a cluster that was not observed.
func keepLastVerified(findings map[string]Finding, last []metav1.Condition) {
	if c := apimeta.FindStatusCondition(last, api.Verified); c != nil {
		if _, found := findings[api.Verified]; !found {
			findings[api.Verified] = Finding{Status: c.Status, Reason: c.Reason, Message: c.Message}
		}
	}
}

// observedReasons returns the reasons that rest on an observation of the cluster.
func observedReasons() []string {
	return []string{
		api.ReasonEligible,
		api.ReasonNothingMissing, api.ReasonKindMissing,
		api.ReasonApplied, api.ReasonApplyFailed,
		api.ReasonWorkloadsAvailable, api.ReasonWorkloadsNotReady,
	}
}

// Summarize returns Ready, which summarizes the findings, and then a condition for each finding, in the order of
// api.ConditionTypes, and Verified.
func Summarize(findings map[string]Finding) []metav1.Condition {
	ready := Finding{metav1.ConditionTrue, api.ReasonReady, ""}
	var out []metav1.Condition
	for _, t := range append(api.ConditionTypes(), api.Verified) {
		f, ok := findings[t]
		if !ok {
			continue
		}
		out = append(out, newCondition(t, f))
		if isWorse(f.Status, ready.Status) {
			ready = Finding{f.Status, f.Reason, strings.TrimSuffix(t+": "+f.Message, ": ")}
		}
	}
	return append([]metav1.Condition{newCondition(api.Ready, ready)}, out...)
}

func newCondition(t string, f Finding) metav1.Condition {
	return metav1.Condition{Type: t, Status: f.Status, Reason: f.Reason, Message: message.OneLine(f.Message, maxMessage)}
}

// isWorse orders True, Unknown, False. Any other status counts as False.
func isWorse(a, b metav1.ConditionStatus) bool {
	rank := func(s metav1.ConditionStatus) int {
		switch s {
		case metav1.ConditionTrue:
			return 0
		case metav1.ConditionUnknown:
			return 1
		default:
			return 2
		}
	}
	return rank(a) > rank(b)
}

// unknownFinding returns the finding of conditions about which nothing is known yet; ok is false otherwise.
func unknownFinding(in *Installation) (f Finding, ok bool) {
	switch {
	case in.Removing != "":
		return Finding{metav1.ConditionUnknown, api.ReasonRemoving, message.OneLine(in.Removing, maxRemoving)}, true
	case in.Fault != nil && in.Fault.Reason == api.FaultConfigPending:
		return Finding{metav1.ConditionUnknown, api.ReasonDelivering, in.Fault.Message}, true
	case in.Fault != nil:
		return Finding{metav1.ConditionUnknown, api.ReasonNotRendered, "see " + api.InstallSucceeded}, true
	case in.Bundle == nil || !in.Owned:
		return Finding{metav1.ConditionUnknown, api.ReasonTargetNotResolved, "nothing is installed before the target is resolved"}, true
	}
	return Finding{}, false
}

func migrationFinding(in *Installation) Finding {
	if in.Removing == "" && in.Fault != nil && in.Fault.Reason == api.ReasonNotEligible {
		return Finding{metav1.ConditionFalse, api.ReasonNotEligible, in.Fault.Message}
	}
	if f, ok := unknownFinding(in); ok {
		return f
	}
	return Finding{metav1.ConditionTrue, api.ReasonEligible, fmt.Sprintf("version %s is installed or can be reached in one step", in.Bundle.Version)}
}

func dependenciesFinding(in *Installation) Finding {
	if f, ok := unknownFinding(in); ok {
		return f
	}
	var missing []string
	for _, f := range in.Observation.Failed {
		if f.KindMissing {
			missing = append(missing, shortenCause(f.Object))
		}
	}
	slices.Sort(missing)
	if len(missing) > 0 {
		return Finding{metav1.ConditionFalse, api.ReasonKindMissing, "the cluster does not know the kind of: " +
			message.ListClauses(missing, maxListed) + "; install the product that brings the kind"}
	}
	if in.Observation.Waiting != "" {
		return deliveringFinding(&in.Observation)
	}
	return Finding{metav1.ConditionTrue, api.ReasonNothingMissing, ""}
}

func installFinding(in *Installation) Finding {
	if in.Removing == "" && in.Fault != nil && in.Fault.Reason != api.FaultConfigPending {
		return Finding{metav1.ConditionFalse, string(in.Fault.Reason), in.Fault.Message}
	}
	if f, ok := unknownFinding(in); ok {
		return f
	}
	if blocked := in.Observation.Blocked; blocked != "" {
		return Finding{metav1.ConditionFalse, api.ReasonApplyFailed, "nothing can be done on the cluster: " + message.OneLine(blocked, maxBlocked) +
			"; fix the cause on the cluster: `knative-addon rbac` prints the permissions that the credential needs"}
	}
	if failed := in.Observation.Failed; len(failed) > 0 {
		failed = slices.SortedFunc(slices.Values(failed), func(a, b delivery.Failure) int {
			return cmp.Or(cmp.Compare(a.Object, b.Object), cmp.Compare(a.Cause, b.Cause))
		})
		var causes []string
		for _, f := range failed {
			causes = append(causes, shortenCause(f.Object)+": "+shortenCause(f.Cause))
		}
		return Finding{metav1.ConditionFalse, api.ReasonApplyFailed, "not applied: " + message.ListClauses(causes, maxListed)}
	}
	if in.Observation.Waiting != "" {
		return deliveringFinding(&in.Observation)
	}
	return Finding{metav1.ConditionTrue, api.ReasonApplied, fmt.Sprintf("version %s is applied", in.Bundle.Version)}
}

func workloadsFinding(in *Installation) Finding {
	kept := in.Kept
	if in.Fault == nil || in.Removing != "" || !in.Owned {
		kept = nil
	}
	if kept == nil {
		if f, ok := unknownFinding(in); ok {
			return f
		}
		kept = &delivery.Kept{Workloads: in.Bundle.Workloads, Jobs: in.Bundle.Jobs, Observation: in.Observation}
	}
	if kept.Observation.Waiting != "" {
		return deliveringFinding(&kept.Observation)
	}
	if notReady := kept.NotReady(); len(notReady) > 0 {
		return Finding{metav1.ConditionFalse, api.ReasonWorkloadsNotReady, message.ListClauses(notReady, maxListed)}
	}
	return Finding{metav1.ConditionTrue, api.ReasonWorkloadsAvailable, ""}
}

// deliveringFinding returns the finding of a condition that waits for a report of the cluster, or for the end of a pause. Observation.Waiting may end
// with a text of the cluster.
func deliveringFinding(o *delivery.Observation) Finding {
	reason := api.ReasonDelivering
	if o.Paused {
		reason = api.ReasonPaused
	}
	return Finding{metav1.ConditionUnknown, reason, shortenCause(o.Waiting)}
}

const (
	// maxListed is the number of objects that a message names.
	maxListed = 5
	// maxCause is the number of bytes of a text of the cluster in a message.
	maxCause = 300
	// maxBlocked is the number of bytes of the refusal in a message about one refusal.
	maxBlocked = 600
	// maxMessage is the number of bytes of a message. Names in a message may be names of a cluster, which chooses names
	// freely.
	maxMessage = 4096
	// maxRemoving is the number of bytes about a removal in a message, with names of objects and the reason why the cluster
	// keeps the objects.
	maxRemoving = 2000
)

// shortenCause returns a text of the cluster on one line and with at most maxCause bytes.
func shortenCause(text string) string { return message.OneLine(text, maxCause) }
