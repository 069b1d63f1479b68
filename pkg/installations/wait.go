// Copyright Contributors to the Open Cluster Management project

package installations

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// Goal is the state that a wait is for.
type Goal string

const (
	// GoalReady is reached when every selected installation is ready and runs the latest revision. No change of the resource is pending
	// then, such as a revision of a KnativeFleet.
	GoalReady Goal = "ready"
	// GoalRemoved is reached when no installation is selected any more.
	GoalRemoved Goal = "removed"
)

// ParseGoal returns the goal that a user names.
func ParseGoal(text string) (Goal, error) {
	if goal := Goal(text); goal == GoalReady || goal == GoalRemoved {
		return goal, nil
	}
	return "", fmt.Errorf("cannot use --for=%q: use %s or %s", text, GoalReady, GoalRemoved)
}

// Progress is how far installations are from a goal.
type Progress struct {
	// Waiting describes the installations, and the names without an installation, that have not reached the goal.
	Waiting []string
	// Failed describes the installations that do not reach the goal unless a user changes the resource, the cluster or the hub.
	Failed []string
	// Reached describes the installations that have reached the goal.
	Reached []string
}

// Done reports whether the goal is reached.
func (p *Progress) Done() bool { return len(p.Waiting)+len(p.Failed) == 0 }

// Assess compares the installations that a filter selects with a goal.
func Assess(all []Installation, f *Filter, goal Goal) Progress {
	selected, unknown := f.Select(all)
	var out Progress
	for _, i := range selected {
		text := fmt.Sprintf("%s %s (%s)", i.Cluster, i.Component, i.describeOwner())
		switch {
		case goal == GoalReady && i.Ready == metav1.ConditionTrue && i.IsCurrent():
			out.Reached = append(out.Reached, text)
		case isFinal(&i, goal):
			out.Failed = append(out.Failed, text+": "+i.describeProblem())
		case goal == GoalRemoved && !i.Deleting:
			out.Waiting = append(out.Waiting, text+": the object is not being deleted")
		default:
			out.Waiting = append(out.Waiting, text+": "+i.describeProblem())
		}
	}
	if goal == GoalRemoved {
		return out
	}
	for _, name := range unknown {
		out.Waiting = append(out.Waiting, fmt.Sprintf("%s: no installation has this cluster, ClusterProfile or resource", cleanText(name)))
	}
	if len(selected)+len(unknown) == 0 {
		out.Waiting = append(out.Waiting, "no installation: the hub has neither a ManagedClusterAddOn of Knative nor a resource with spec.clusterProfileRef")
	}
	return out
}

// isFinal reports whether the reason of an installation, or of a pending change, lasts until a user acts. A pending change may end the
// reason of an installation.
func isFinal(i *Installation, goal Goal) bool {
	switch {
	case goal == GoalReady && i.PendingChange != "":
		return i.isChangeRefused
	case i.Ready == metav1.ConditionTrue:
		return false
	}
	return slices.Contains(FinalReasons(), i.Reason) || goal == GoalRemoved && i.Deleting && slices.Contains(FinalRemovalReasons(), i.Reason)
}

// FinalReasons returns the reasons that last until a user changes the resource or the configuration of the hub. No other event, such
// as the return of a cluster, ends such a reason.
func FinalReasons() []string {
	return append(api.SpecFaultReasons(),
		api.ReasonReleasesMissing, api.ReasonConflict, api.ReasonPlacementManaged, api.ReasonMulticlusterDisabled, api.ReasonLocalInstallsDisabled,
		api.ReasonClusterReplaced, api.ReasonClusterNotRecorded,
	)
}

// FinalRemovalReasons returns the reasons of a removal that waits for a decision of a user.
func FinalRemovalReasons() []string {
	return []string{api.ReasonMassRemoval, api.ReasonUserResourcesUnknown, api.ReasonPaused}
}

// failedPeriod is how long a reason of FinalReasons has to last before a wait fails: the reason may belong to a spec that a user has
// just corrected.
const failedPeriod = 5 * time.Second

// progressPeriod is the shortest time between two reports of a wait's progress.
const progressPeriod = 10 * time.Second

// listedInstallations is the number of installations that the error of a wait names.
const listedInstallations = 20

// listFirst returns the first lines, and the number of the others.
func listFirst(lines []string) string {
	out := strings.Join(lines[:min(len(lines), listedInstallations)], "\n  ")
	if more := len(lines) - listedInstallations; more > 0 {
		out += fmt.Sprintf("\n  and %d more: `knative-addon status` lists all installations", more)
	}
	return out
}

// FailedError is the end of a wait whose goal cannot be reached.
type FailedError struct{ Progress Progress }

func (e *FailedError) Error() string {
	return "failed, and does not continue without a change:\n  " + listFirst(e.Progress.Failed)
}

// TimeoutError is the end of a wait whose goal was not reached in time.
type TimeoutError struct {
	Progress Progress
	// cause is the error of the context, joined with the errors in stale.
	cause error
	// stale has the errors of watches that have not recovered.
	stale []error
}

func (e *TimeoutError) Error() string {
	waiting := append(slices.Clone(e.Progress.Failed), e.Progress.Waiting...)
	if len(waiting) == 0 {
		return "timed out before the hub has sent all objects: " + e.cause.Error()
	}
	out := "timed out; not reached:\n  " + listFirst(waiting)
	if len(e.stale) > 0 {
		out += "\nthis state may be old: " + errors.Join(e.stale...).Error()
	}
	return out
}

func (e *TimeoutError) Unwrap() error { return e.cause }

// Await waits by watches until the installations that the filter selects reach the goal. Await calls report with the number of installations that
// have reached the goal, and the number of all, when a number changes, at most once in progressPeriod. The error is a *FailedError, or a
// *TimeoutError after the deadline of the context.
func (w *Watcher) Await(ctx context.Context, c clock.WithTicker, f *Filter, goal Goal, report func(reached, total int)) (Progress, error) {
	var last Progress
	judge, reporter := failureJudge{clock: c}, progressReporter{clock: c, goal: goal, report: report}
	ended := make(chan struct{})
	defer close(ended)
	err := w.Run(ctx, func(objects Objects) (bool, error) {
		all := Compose(objects)
		if err := w.checkFleets(all, f, goal); err != nil {
			return true, err
		}
		last = Assess(all, f, goal)
		if last.Done() {
			return true, nil
		}
		wait, failed := judge.judge(len(last.Failed) > 0)
		switch {
		case failed:
			return true, &FailedError{last}
		case wait > 0:
			w.noteChangeAfter(c.NewTimer(wait), ended)
		}
		if wait := reporter.note(&last); wait > 0 {
			w.noteChangeAfter(c.NewTimer(wait), ended)
		}
		return false, nil
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		return last, err
	}
	return last, &TimeoutError{Progress: last, cause: err, stale: w.Failures()}
}

// checkFleets returns an error when the goal depends on a KnativeFleet that the user cannot list: the resource of a cluster is Ready before
// the KnativeFleet gives its next revision to the resource.
func (w *Watcher) checkFleets(all []Installation, f *Filter, goal Goal) error {
	if w.fleetsError == nil || goal != GoalReady {
		return nil
	}
	selected, _ := f.Select(all)
	for _, i := range selected {
		if i.Fleet != "" {
			return fmt.Errorf("cannot find out whether %s has the latest revision of KnativeFleet %s: %w", i.Object, i.Fleet, w.fleetsError)
		}
	}
	return nil
}

// failureJudge decides when a failure has lasted long enough.
type failureJudge struct {
	clock clock.PassiveClock
	since time.Time
}

// judge returns whether the failure has lasted for failedPeriod, or else the time until then. The wait is 0 without a failure.
func (j *failureJudge) judge(hasFailed bool) (wait time.Duration, failed bool) {
	now := j.clock.Now()
	switch {
	case !hasFailed:
		j.since = time.Time{}
		return 0, false
	case j.since.IsZero():
		j.since = now
	}
	wait = failedPeriod - now.Sub(j.since)
	return wait, wait <= 0
}

// progressReporter reports how many installations have reached the goal.
type progressReporter struct {
	clock  clock.PassiveClock
	goal   Goal
	report func(reached, total int)
	// reportedAt is the time of the last report, and reached and total are its numbers.
	reportedAt     time.Time
	reached, total int
	// isScheduled is true while a changed number waits for the end of progressPeriod.
	isScheduled bool
}

// note reports a changed number, or returns the time until the report, once. The progress lacks the installations that were removed, and the total
// has these installations.
func (r *progressReporter) note(p *Progress) (wait time.Duration) {
	waiting := len(p.Waiting) + len(p.Failed)
	reached, total := len(p.Reached), len(p.Reached)+waiting
	if r.goal == GoalRemoved {
		total = max(r.total, waiting)
		reached = total - waiting
	}
	now := r.clock.Now()
	isFirst, rest := r.reportedAt.IsZero(), progressPeriod-now.Sub(r.reportedAt)
	switch {
	case !isFirst && reached == r.reached && total == r.total:
		return 0
	case isFirst || rest <= 0:
		r.reportedAt, r.reached, r.total, r.isScheduled = now, reached, total, false
		r.report(reached, total)
		return 0
	case r.isScheduled:
		return 0
	}
	r.isScheduled = true
	return rest
}

// noteChangeAfter has Run visit the objects again when the timer ends.
func (w *Watcher) noteChangeAfter(timer clock.Timer, ended <-chan struct{}) {
	go func() {
		defer timer.Stop()
		select {
		case <-ended:
		case <-timer.C():
			w.noteChange()
		}
	}()
}
