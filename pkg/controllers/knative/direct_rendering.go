// Copyright Contributors to the Open Cluster Management project

package knative

import (
	"context"
	"fmt"
	"sync"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery"
	"open-cluster-management.io/knative-addon/pkg/delivery/direct"
	"open-cluster-management.io/knative-addon/pkg/hub"
	"open-cluster-management.io/knative-addon/pkg/message"
	"open-cluster-management.io/knative-addon/pkg/reconciler"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/rollout"
	"open-cluster-management.io/knative-addon/pkg/status"
)

// maxRecorded is the length up to which the hub repeats a version or a rendering that a cluster has recorded, in bytes.
const maxRecorded = 64

// Renderings remembers the reports of the passes of this process. A condition on the hub may be of a manager that rendered otherwise.
type Renderings struct {
	mu      sync.Mutex
	reports map[types.NamespacedName]rollout.Report
	// failures has the time of the first pass since which every pass has failed.
	failures map[types.NamespacedName]time.Time
}

// Report returns the report of the last pass over a resource that did not fail; ok is false before such a pass. FailingSince has a value
// from the first failed pass on.
func (r *Renderings) Report(name types.NamespacedName) (report rollout.Report, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	report, ok = r.reports[name]
	report.FailingSince = r.failures[name]
	return report, ok
}

// recordFailure notes a failed pass. The report of the last pass that did not fail stays.
func (r *Renderings) recordFailure(name types.NamespacedName, now time.Time) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failures == nil {
		r.failures = map[types.NamespacedName]time.Time{}
	}
	if _, failing := r.failures[name]; !failing {
		r.failures[name] = now
	}
}

func (r *Renderings) recordReport(name types.NamespacedName, report rollout.Report) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reports == nil {
		r.reports = map[types.NamespacedName]rollout.Report{}
	}
	r.reports[name] = report
	delete(r.failures, name)
}

func (r *Renderings) forgetReport(name types.NamespacedName) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.reports, name)
	delete(r.failures, name)
}

// turnOf names the rendering that the cluster of a resource may get.
func turnOf(config *unstructured.Unstructured) string {
	return config.GetAnnotations()[api.RenderingTurnAnnotation]
}

// observeHeld fills in the observation of a cluster that keeps its rendering until its turn, and returns the time until the next pass.
func (p *directPass) observeHeld(out direct.Outcome) (time.Duration, error) {
	in, held, last := p.observed, out.Held, out.Held.Installed
	record, err := readStatus(p.resource.Config)
	if err != nil {
		return 0, err
	}
	p.waiting = describeWait(held, p.report.Rendering)
	in.Bundle = &render.Bundle{
		Component: p.Component, Version: message.OneLine(last.Delivered, maxRecorded), Namespace: in.Bundle.Namespace, Warnings: in.Bundle.Warnings,
		Workloads: held.Kept.Workloads, Jobs: held.Kept.Jobs,
	}
	in.Observation = out.Observation
	complete := record.Annotations[api.DeliveredRenderingAnnotation]
	if last.Rendering != "" && complete != "" && complete != last.Rendering && in.Observation.Waiting == "" {
		in.Observation.Waiting = fmt.Sprintf("rendering %s is delivered in part, and the rest comes with the turn of the cluster", last.Rendering)
	}
	return reconciler.Soonest(out.Retry, in.Observation.Settle(p.Clock.Now())), nil
}

// describeWait returns the message of condition RenderingCurrent of a cluster that waits for a rendering.
func describeWait(held *direct.Held, rendering string) string {
	delivered := "another rendering"
	if name := held.Installed.Rendering; name != "" {
		delivered = "rendering " + message.OneLine(name, maxRecorded)
	}
	out := fmt.Sprintf("%s runs, and rendering %s waits for the turn of the cluster", delivered, rendering)
	if len(held.Unrepaired) > 0 {
		out += "; the turn restores what the manager cannot restore before: " + delivery.Listed(held.Unrepaired)
	}
	return out
}

// renderingState is the knowledge of a pass about the rendering of a resource.
type renderingState struct {
	// rendering names the rendering of this manager that the cluster has or gets; empty when the pass does not know.
	rendering string
	// waiting is the message about a cluster that waits for its turn; empty for any other cluster.
	waiting string
	// runs reports that the cluster has the rendering, and that every workload runs.
	runs bool
	// turn names the rendering that the cluster may get.
	turn string
}

// determineRendering returns condition RenderingCurrent; nil for a resource that never waited for its turn. last are the conditions of
// the resource.
func determineRendering(last []metav1.Condition, s renderingState) *status.Finding {
	before := apimeta.FindStatusCondition(last, api.RenderingCurrent)
	switch {
	case s.waiting != "":
		return &status.Finding{Status: metav1.ConditionFalse, Reason: api.ReasonRenderingWaits, Message: s.waiting}
	case before == nil && !rollout.FollowsTurn(before, s.rendering, s.turn):
		return nil
	case before != nil && (s.rendering == "" || !rollout.FollowsTurn(before, s.rendering, s.turn)):
		return &status.Finding{Status: before.Status, Reason: before.Reason, Message: before.Message}
	case s.runs:
		return &status.Finding{Status: metav1.ConditionTrue, Reason: api.ReasonRenderingRuns, Message: rollout.RunningMessage(s.rendering)}
	}
	return &status.Finding{
		Status: metav1.ConditionUnknown, Reason: api.ReasonRenderingDelivering, Message: fmt.Sprintf("rendering %s is being delivered", s.rendering),
	}
}

// describeRendering fills in condition RenderingCurrent at the end of a pass. A pass that ended early knows nothing about a cluster
// without the turn.
func (p *directPass) describeRendering() error {
	record, err := readStatus(p.resource.Config)
	if err != nil {
		return err
	}
	s := renderingState{waiting: p.waiting, runs: runsBundle(p.observed) && isVerified(p.observed), turn: turnOf(p.resource.Config)}
	if p.synced || s.turn == p.report.Rendering {
		s.rendering = p.report.Rendering
	}
	p.observed.Rendering = determineRendering(record.Conditions, s)
	return nil
}

// describeUnreachableRendering fills in condition RenderingCurrent of a resource whose cluster cannot be used, and records the report. A
// cluster that had its turn takes part in the rollout, so that progressDeadline counts.
func (d *Direct) describeUnreachableRendering(config *unstructured.Unstructured, in *status.Installation) error {
	record, err := readStatus(config)
	if err != nil {
		return err
	}
	s := renderingState{turn: turnOf(config)}
	// The author of a resource may write the turn. Only a pass over the cluster writes the condition.
	hasWaited := apimeta.FindStatusCondition(record.Conditions, api.RenderingCurrent) != nil
	if hasWaited && in.Bundle != nil && s.turn == in.Bundle.RenderingName() {
		s.rendering = in.Bundle.RenderingName()
	}
	in.Rendering = determineRendering(record.Conditions, s)
	d.Renderings.recordReport(client.ObjectKeyFromObject(config), rollout.Report{Rendering: s.rendering})
	return nil
}

// removeFormerTurn removes the turn for another rendering than the cluster has: a manager that renders as an earlier manager did has to
// wait for a new turn. The author of the resource may have changed the spec, so that the cluster got its rendering without a turn.
func (p *directPass) removeFormerTurn(ctx context.Context) error {
	config := p.resource.Config
	turn := turnOf(config)
	if turn == "" || !p.synced || p.report.Waits || p.report.Rendering == "" || turn == p.report.Rendering {
		return nil
	}
	resources := p.ConfigClient.Resource(p.Component.Resource()).Namespace(config.GetNamespace())
	_, err := hub.Patch(ctx, resources, config, func(changed *unstructured.Unstructured) {
		annotations := changed.GetAnnotations()
		delete(annotations, api.RenderingTurnAnnotation)
		changed.SetAnnotations(annotations)
	})
	return err
}

// isVerified reports whether no verification is requested, or the verification has succeeded.
func isVerified(in *status.Installation) bool {
	return in.Verification == nil || in.Verification.Verified
}

// runsBundle reports whether the cluster has every object of the bundle, and every workload runs.
func runsBundle(in *status.Installation) bool {
	o := &in.Observation
	return in.Bundle != nil && in.Fault == nil && o.Waiting == "" && o.Blocked == "" && len(o.Failed) == 0 &&
		len(o.NotReady(in.Bundle.Workloads, in.Bundle.Jobs)) == 0
}
