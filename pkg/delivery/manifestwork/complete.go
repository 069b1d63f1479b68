// Copyright Contributors to the Open Cluster Management project

package manifestwork

import (
	"slices"

	apimeta "k8s.io/apimachinery/pkg/api/meta"

	workv1 "open-cluster-management.io/api/work/v1"
)

// The work agent never applies a work again whose condition Complete is True, and the agent aggregates Complete from the
// objects that exist. Older managers wrote payloads with rules for Complete, so that such a payload may be Complete although
// the agent could not create most of its objects. The agent drops the condition after the rules have left the payload, but
// then applies the payload only after the next change of the spec or of a label.

// SkippedApply reports whether the agent has observed the latest generation of the work without applying the work. The
// agent also observes shortly before every apply.
func SkippedApply(w *workv1.ManifestWork) bool {
	return w.DeletionTimestamp == nil && observedBy(w, workv1.WorkAvailable) && !observedBy(w, workv1.WorkApplied) &&
		!apimeta.IsStatusConditionTrue(w.Status.Conditions, workv1.WorkComplete)
}

// hasCompleteRules reports whether an older manager wrote the work with rules for Complete.
func hasCompleteRules(w *workv1.ManifestWork) bool {
	return slices.ContainsFunc(w.Spec.ManifestConfigs, func(c workv1.ManifestConfigOption) bool {
		return slices.ContainsFunc(c.ConditionRules, isCompleteRule)
	})
}

// dropCompleteRules removes the rules for Complete from the work, which the caller owns.
func dropCompleteRules(w *workv1.ManifestWork) {
	for i, c := range w.Spec.ManifestConfigs {
		w.Spec.ManifestConfigs[i].ConditionRules = slices.DeleteFunc(c.ConditionRules, isCompleteRule)
	}
}

func isCompleteRule(r workv1.ConditionRule) bool { return r.Condition == workv1.ManifestComplete }

// hasFinished reports whether the Job of the manifest has finished. Payloads of older managers report Complete instead.
func hasFinished(job workv1.ManifestCondition) bool {
	return apimeta.IsStatusConditionTrue(job.Conditions, jobFinishedCondition) || apimeta.IsStatusConditionTrue(job.Conditions, workv1.ManifestComplete)
}
