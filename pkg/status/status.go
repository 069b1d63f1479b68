// Copyright Contributors to the Open Cluster Management project

package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// Installation is what is known of one installation on one cluster.
type Installation struct {
	// Target is whether the cluster is known, may be used and was seen: TargetClusterResolved.
	Target Finding
	// Held tells that the installation on the cluster is this resource's, so that what was seen of it counts, also when
	// the cluster is out of sight.
	Held bool
	// Removing says what the removal waits for; empty when the resource is not being deleted.
	Removing string
	// Fault is why there is nothing to deliver; nil when there is.
	Fault *render.Error
	// Bundle is what should be on the cluster; nil when there is a Fault or no target.
	Bundle *render.Bundle
	// Observation is what was seen of Bundle there.
	Observation delivery.Observation
}

// Finding is the outcome of one condition.
type Finding struct {
	Status          metav1.ConditionStatus
	Reason, Message string
}

// Conditions are all conditions of the installation, in the order of api.ConditionTypes. last are those of before: a
// cluster that is out of sight keeps them.
func Conditions(in *Installation, last []metav1.Condition) []metav1.Condition {
	findings := map[string]Finding{
		api.TargetClusterResolved:    in.Target,
		api.VersionMigrationEligible: eligible(in),
		api.DependenciesInstalled:    dependencies(in),
		api.InstallSucceeded:         installed(in),
		api.DeploymentsAvailable:     available(in),
	}
	if in.Held && in.Removing == "" && in.Target.Status != metav1.ConditionTrue {
		keep(findings, last)
	}
	return Summarize(findings)
}

// keep puts what was last seen on the cluster in the place of what cannot be seen now. What is seen on the hub, such as a
// fault of the spec and that it is mended, is told as it is now.
func keep(findings map[string]Finding, last []metav1.Condition) {
	for condition, f := range findings {
		c := apimeta.FindStatusCondition(last, condition)
		if c != nil && f.Status == metav1.ConditionUnknown && slices.Contains(seen(), c.Reason) {
			findings[condition] = Finding{Status: c.Status, Reason: c.Reason, Message: c.Message}
		}
	}
}

// seen are the reasons that tell of what was seen on the cluster.
func seen() []string {
	return []string{
		api.ReasonEligible,
		api.ReasonNothingMissing, api.ReasonKindMissing,
		api.ReasonApplied, api.ReasonApplyFailed,
		api.ReasonWorkloadsAvailable, api.ReasonWorkloadsNotReady,
	}
}

// Summarize lists the conditions, with Ready for all of them, in the order of api.ConditionTypes. A condition without a
// finding is not listed.
func Summarize(findings map[string]Finding) []metav1.Condition {
	ready := Finding{metav1.ConditionTrue, api.ReasonReady, ""}
	var out []metav1.Condition
	for _, t := range api.ConditionTypes() {
		f, ok := findings[t]
		if !ok {
			continue
		}
		out = append(out, condition(t, f))
		if worse(f.Status, ready.Status) {
			ready = Finding{f.Status, f.Reason, strings.TrimSuffix(t+": "+f.Message, ": ")}
		}
	}
	return append([]metav1.Condition{condition(api.Ready, ready)}, out...)
}

func condition(t string, f Finding) metav1.Condition {
	return metav1.Condition{Type: t, Status: f.Status, Reason: f.Reason, Message: f.Message}
}

// worse orders True, Unknown, False. What is none of these is not True either.
func worse(a, b metav1.ConditionStatus) bool {
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

// unknown is the finding of a condition that nothing can be said about; ok is false when something can.
func unknown(in *Installation) (f Finding, ok bool) {
	switch {
	case in.Removing != "":
		return Finding{metav1.ConditionUnknown, api.ReasonRemoving, shortened(in.Removing, maxRemoving)}, true
	case in.Fault != nil && in.Fault.Reason == api.FaultConfigPending:
		return Finding{metav1.ConditionUnknown, api.ReasonDelivering, in.Fault.Message}, true
	case in.Fault != nil:
		return Finding{metav1.ConditionUnknown, api.ReasonNotRendered, "see " + api.InstallSucceeded}, true
	case in.Bundle == nil || !in.Held:
		return Finding{metav1.ConditionUnknown, api.ReasonTargetNotResolved, "nothing is installed before the target is resolved"}, true
	}
	return Finding{}, false
}

func eligible(in *Installation) Finding {
	if in.Removing == "" && in.Fault != nil && in.Fault.Reason == render.ReasonVersionMigrationNotEligible {
		return Finding{metav1.ConditionFalse, api.ReasonNotEligible, in.Fault.Message}
	}
	if f, ok := unknown(in); ok {
		return f
	}
	return Finding{metav1.ConditionTrue, api.ReasonEligible, fmt.Sprintf("version %s is installed or can be reached in one step", in.Bundle.Version)}
}

func dependencies(in *Installation) Finding {
	if f, ok := unknown(in); ok {
		return f
	}
	var missing []string
	for _, f := range in.Observation.Failed {
		if f.KindMissing {
			missing = append(missing, brief(f.Object))
		}
	}
	slices.Sort(missing)
	if len(missing) > 0 {
		return Finding{metav1.ConditionFalse, api.ReasonKindMissing, "the cluster does not know the kind of: " +
			listed(len(missing), func(i int) string { return missing[i] }) + "; install what brings it"}
	}
	if in.Observation.Waiting != "" {
		return delivering(in)
	}
	return Finding{metav1.ConditionTrue, api.ReasonNothingMissing, ""}
}

func installed(in *Installation) Finding {
	if in.Removing == "" && in.Fault != nil && in.Fault.Reason != api.FaultConfigPending {
		return Finding{metav1.ConditionFalse, string(in.Fault.Reason), in.Fault.Message}
	}
	if f, ok := unknown(in); ok {
		return f
	}
	if blocked := in.Observation.Blocked; blocked != "" {
		return Finding{metav1.ConditionFalse, api.ReasonApplyFailed, "nothing can be done on the cluster: " + shortened(blocked, maxBlocked) +
			"; mend it there, `knative-addon rbac` prints the permissions that the credential needs"}
	}
	if failed := in.Observation.Failed; len(failed) > 0 {
		failed = slices.SortedFunc(slices.Values(failed), func(a, b delivery.Failure) int {
			return cmp.Or(cmp.Compare(a.Object, b.Object), cmp.Compare(a.Cause, b.Cause))
		})
		return Finding{metav1.ConditionFalse, api.ReasonApplyFailed, "not applied: " +
			listed(len(failed), func(i int) string { return brief(failed[i].Object) + ": " + brief(failed[i].Cause) })}
	}
	if in.Observation.Waiting != "" {
		return delivering(in)
	}
	return Finding{metav1.ConditionTrue, api.ReasonApplied, fmt.Sprintf("version %s is applied", in.Bundle.Version)}
}

func available(in *Installation) Finding {
	if f, ok := unknown(in); ok {
		return f
	}
	if in.Observation.Waiting != "" {
		return delivering(in)
	}
	if notReady := in.Observation.NotReady(in.Bundle.Workloads, in.Bundle.Jobs); len(notReady) > 0 {
		return Finding{metav1.ConditionFalse, api.ReasonWorkloadsNotReady, listed(len(notReady), func(i int) string { return notReady[i] })}
	}
	return Finding{metav1.ConditionTrue, api.ReasonWorkloadsAvailable, ""}
}

// delivering is the finding of a condition that waits for the cluster to report. What is waited for may end with what the
// cluster says.
func delivering(in *Installation) Finding {
	return Finding{metav1.ConditionUnknown, api.ReasonDelivering, brief(in.Observation.Waiting)}
}

const (
	// maxListed is how many objects a message names.
	maxListed = 5
	// maxCause is how many bytes of somebody else's text a message repeats.
	maxCause = 300
	// maxBlocked is how many bytes a message repeats of the one refusal that it is about.
	maxBlocked = 600
	// maxRemoving is how many bytes a message says of a removal: it names objects, and may say why the cluster keeps them.
	maxRemoving = 2000
)

// listed joins the first of n texts.
func listed(n int, text func(i int) string) string {
	var out []string
	for i := range min(n, maxListed) {
		out = append(out, text(i))
	}
	s := strings.Join(out, "; ")
	if n > maxListed {
		s += fmt.Sprintf("; and %d more", n-maxListed)
	}
	return s
}

// brief keeps the text of a cluster on one line and short: it is not ours.
func brief(text string) string { return shortened(text, maxCause) }

func shortened(text string, limit int) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) || unicode.IsSpace(r) {
			return r
		}
		return -1 // nothing that a terminal obeys
	}, strings.ToValidUTF8(text, ""))
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "") + "..."
	}
	return text
}
