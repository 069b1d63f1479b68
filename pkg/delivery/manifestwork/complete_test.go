// Copyright Contributors to the Open Cluster Management project

package manifestwork

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1 "open-cluster-management.io/api/work/v1"
)

func TestSkippedApply(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		change func(w *workv1.ManifestWork)
		want   bool
	}{
		"observed and not applied": {
			reason: "The agent has returned before the apply.", change: func(*workv1.ManifestWork) {}, want: true,
		},
		"applied": {
			reason: "The agent has applied the generation, with or without success.",
			change: func(w *workv1.ManifestWork) { w.Status.Conditions[0].ObservedGeneration = 2 },
		},
		"not observed": {
			reason: "The agent may be away.", change: func(w *workv1.ManifestWork) { older(w, workv1.WorkAvailable) },
		},
		"complete": {
			reason: "The agent applies nothing, whatever label changes.",
			change: func(w *workv1.ManifestWork) {
				w.Status.Conditions = append(w.Status.Conditions, metav1.Condition{Type: workv1.WorkComplete, Status: metav1.ConditionTrue})
			},
		},
		"being deleted": {
			reason: "The agent removes the objects.", change: func(w *workv1.ManifestWork) { w.DeletionTimestamp = new(metav1.Now()) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Generation: 2}}
			report(w)
			older(w, workv1.WorkApplied)
			tc.change(w)
			if got := SkippedApply(w); got != tc.want {
				t.Errorf("%s SkippedApply is %t", tc.reason, got)
			}
		})
	}
}

// TestNoWriteKeepsCompleteRules holds that no payload may become Complete, and that each write to a payload of an older manager
// removes the rules for Complete, at every step of a removal.
func TestNoWriteKeepsCompleteRules(t *testing.T) {
	if hasCompleteRules(&workv1.ManifestWork{Spec: workv1.ManifestWorkSpec{ManifestConfigs: PayloadConfigs()}}) {
		t.Error("a payload has a rule for Complete")
	}
	withRule := func(w *workv1.ManifestWork) *workv1.ManifestWork {
		out := w.DeepCopy()
		out.Spec.ManifestConfigs = append(out.Spec.ManifestConfigs, workv1.ManifestConfigOption{
			ResourceIdentifier: resourceIdentifier("batch", "jobs", "*"),
			ConditionRules:     []workv1.ConditionRule{{Condition: workv1.ManifestComplete}, jobFailed()},
		})
		return out
	}
	fresh := payloadWork(t, webhookManifests())
	stopped := next(t, fresh).Payload
	report(stopped, stoppedStatus("webhook"), stoppedStatus("controller"))
	reclaimed := next(t, stopped).Payload
	for name, tc := range map[string]struct {
		work *workv1.ManifestWork
		want RemovalStep
	}{
		"before the removal": {fresh, StopWorkloads}, "with stopped webhooks": {stopped, StopWorkloads}, "after the reclaim": {reclaimed, Reclaim},
	} {
		t.Run(name, func(t *testing.T) {
			w := withRule(tc.work)
			r := next(t, w)
			if r.Step != tc.want || r.Payload == nil || hasCompleteRules(r.Payload) {
				t.Errorf("step is %s, want %s without rules for Complete", r.Step, tc.want)
			}
			if hasCompleteRules(Orphaned(w)) {
				t.Error("an orphaned payload has rules for Complete")
			}
			if !hasCompleteRules(w) {
				t.Error("the cached payload was changed")
			}
		})
	}
}
