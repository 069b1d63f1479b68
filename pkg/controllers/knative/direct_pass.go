// Copyright Contributors to the Open Cluster Management project

package knative

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"open-cluster-management.io/knative-addon/pkg/addon"
	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/clustercache"
	"open-cluster-management.io/knative-addon/pkg/delivery"
	"open-cluster-management.io/knative-addon/pkg/delivery/direct"
	"open-cluster-management.io/knative-addon/pkg/message"
	"open-cluster-management.io/knative-addon/pkg/reconciler"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/revision"
	"open-cluster-management.io/knative-addon/pkg/rollout"
	"open-cluster-management.io/knative-addon/pkg/status"
	"open-cluster-management.io/knative-addon/pkg/values"
)

// directPass is one pass of Direct over a cluster that answered a moment ago.
type directPass struct {
	*Direct
	resource     *Resource
	cluster      *ReachableCluster
	installation *installation
	// revision is the hash of the spec of the resource.
	revision string
	// observed is the observation of the pass.
	observed *status.Installation
	// report is the report about the rendering of the cluster, and waiting the message about a cluster that waits for its turn. synced
	// reports that the pass has compared the cluster with the rendering.
	report  rollout.Report
	waiting string
	synced  bool
	// failed reports that the cluster ended the pass with an error that is no refusal: the pass knows nothing about the rendering.
	failed bool
}

// runPass applies the bundle of the resource and describes the result, or the reason for a pass that ended early.
func (p *directPass) runPass(ctx context.Context) (Outcome, error) {
	config, cluster := p.resource.Config, p.Clusters.DisplayName(p.resource.Config)
	if hash, err := revision.Hash(config); err == nil {
		p.revision = hash
		reconciler.Describe(ctx, reconciler.Subject{Revision: hash})
	}
	passCtx, stop := p.cluster.watchLiveness(ctx)
	defer stop()
	retry, err := p.applyBundle(passCtx)
	if finding, refused := ownershipRefusal(err, cluster, p.Component); refused {
		p.observed = &status.Installation{Target: finding}
		retry, err = refusalRetry, nil
	}
	if unreachable, ok := p.cluster.unreachableError(passCtx, err); ok {
		return p.observeUnreachable(ctx, config, unreachable)
	}
	switch blocked := (*clustercache.BlockedError)(nil); {
	case err != nil && isSlow(passCtx):
		retry = p.installation.passPause.beginPause(p.Clock.Now())
		err = p.describeUnfinished(ctx, delivery.Observation{Waiting: describeSlowCluster(cluster, "delivery")})
	case errors.As(err, &blocked), p.installation.reportsFailure(err):
		retry, p.failed = refusalRetry, blocked == nil
		err = p.describeUnfinished(ctx, delivery.Observation{Waiting: "see " + api.InstallSucceeded, Blocked: err.Error()})
	}
	if err == nil {
		err = p.describeRendering()
	}
	if err == nil {
		err = p.removeFormerTurn(ctx)
	}
	if err == nil {
		retry = p.recordCompletion(ctx, retry)
	}
	if err != nil {
		if !render.IsPending(err) {
			p.Renderings.recordFailure(client.ObjectKeyFromObject(config), p.Clock.Now())
		}
		return Outcome{}, err
	}
	if p.failed {
		p.Renderings.recordFailure(client.ObjectKeyFromObject(config), p.Clock.Now())
	} else {
		p.Renderings.recordReport(client.ObjectKeyFromObject(config), p.report)
	}
	p.describeWatchProblem(cluster)
	return Outcome{Installation: p.observed, RequeueAfter: retry}, nil
}

// recordCompletion records that the cluster runs the spec of the resource, and returns the time until the next pass. The record is what a
// rollback to the last known good spec looks for, and tells a KnativeFleet which of the clusters that stop answering had the change before. A
// cluster that waits for another rendering runs the spec too. The status does not wait for a hub that refuses the record.
func (p *directPass) recordCompletion(ctx context.Context, retry time.Duration) time.Duration {
	if p.Completions == nil || !p.synced || p.observed.Observation.Paused || !runsBundle(p.observed) || !isVerified(p.observed) {
		return retry
	}
	marked, err := p.Completions.MarkCompleted(ctx, p.resource.Config, p.Clusters.DisplayName(p.resource.Config))
	if err != nil {
		log.FromContext(ctx).Error(err, "the completed spec has no record; a rollback to the last known good spec does not find the spec")
	}
	if marked {
		return retry
	}
	return reconciler.Soonest(retry, completionRetry)
}

// applyBundle applies the bundle of the resource to the cluster and fills in the observation. The result is the time until the
// next pass; 0 waits for an event.
func (p *directPass) applyBundle(ctx context.Context) (retry time.Duration, err error) {
	config, in := p.resource.Config, p.observed
	namespace := p.Clusters.InstallNamespace(config)
	installed, err := p.installation.Installed(ctx, namespace)
	if err != nil {
		return 0, err
	}
	place := addon.Place{Namespace: namespace, Installed: installed, Values: p.cluster.Values}
	in.Bundle, err = p.Bundles.OfConfigFrom(ctx, p.Component, client.ObjectKeyFromObject(config), place)
	if render.IsPending(err) {
		return 0, err
	}
	if errors.As(err, &in.Fault) {
		in.Bundle = nil
		retry, err := p.keepInstallation(ctx, place)
		return reconciler.Soonest(retry, in.Fault.RetryAfter()), err
	}
	if err != nil {
		return 0, err
	}
	if installed.Delivered == "" {
		if err := p.cluster.confirmMissing(ctx); err != nil {
			return 0, err
		}
	}
	if revision.PausedByResource(p.Component, config) == "" {
		p.report.Rendering = in.Bundle.RenderingName()
	}
	out, err := p.syncBundle(ctx, in.Bundle, p.revision)
	if err != nil {
		return 0, err
	}
	p.synced, in.Verification = true, out.Verification
	if p.report.Waits = out.Held != nil; p.report.Waits {
		return p.observeHeld(out)
	}
	in.Observation = out.Observation
	if out.Pending {
		in.Observation.Waiting, in.Observation.Paused = pausedMessage(revision.PausedByResource(p.Component, config), p.Clusters.DisplayName(config)), true
	}
	return reconciler.Soonest(out.Retry, in.Observation.Settle(p.Clock.Now())), nil
}

// syncBundle applies the bundle of the spec with the hash, unless the resource is paused.
func (p *directPass) syncBundle(ctx context.Context, bundle *render.Bundle, hash string) (direct.Outcome, error) {
	config := p.resource.Config
	out, err := p.installation.Sync(ctx, bundle, direct.SyncOptions{
		Adopt: p.resource.Annotations.Permitted[api.AdoptAnnotation] == "true", Paused: revision.PausedByResource(p.Component, config) != "",
		NewNamespace: bundle.Namespace != p.Component.InstallNamespace() && !p.Trust.Trusts(config.GetNamespace()),
		Revision:     hash, InTurn: p.Renderings != nil, Turn: turnOf(config),
	})
	if err != nil {
		return direct.Outcome{}, err
	}
	p.installation.passPause.endPause()
	p.installation.failedPasses = 0
	p.emitRepairEvent(out)
	return out, nil
}

// keepInstallation repairs and observes the installation that the cluster keeps although the spec yields no bundle. The hub has a
// record of the delivered spec. If that spec yields no bundle either, as when the archive lacks its version now, the pass observes
// what the anchor records, and repairs nothing.
func (p *directPass) keepInstallation(ctx context.Context, place addon.Place) (retry time.Duration, err error) {
	if place.Installed.Delivered == "" {
		return 0, nil // the cluster has no installation to keep
	}
	bundle, retry, err := p.renderDelivered(ctx, place)
	if err != nil {
		return 0, err
	}
	if bundle == nil {
		p.observed.Kept, err = p.installation.ObserveInventory(ctx, place.Namespace)
		return retry, err
	}
	out, err := p.syncBundle(ctx, bundle, place.Installed.Revision)
	if err != nil {
		return 0, err
	}
	p.observed.Kept = &delivery.Kept{Workloads: bundle.Workloads, Jobs: bundle.Jobs, Observation: out.Observation}
	if out.Held != nil { // this manager renders the delivered spec differently too
		p.observed.Kept = out.Held.Kept
	}
	return reconciler.Soonest(out.Retry, p.observed.Kept.Observation.Settle(p.Clock.Now())), nil
}

// renderDelivered returns the bundle of the spec that was last delivered. When the hub cannot render that spec, the bundle is nil, and retry is the
// time after which the hub may be able to; 0 if no time helps.
func (p *directPass) renderDelivered(ctx context.Context, place addon.Place) (bundle *render.Bundle, retry time.Duration, err error) {
	place.Revision = place.Installed.Revision
	if place.Revision == "" || place.Revision == p.revision {
		return nil, 0, nil
	}
	bundle, err = p.Bundles.OfConfigFrom(ctx, p.Component, client.ObjectKeyFromObject(p.resource.Config), place)
	if fault := (*render.Error)(nil); errors.As(err, &fault) && !render.IsPending(err) {
		return nil, fault.RetryAfter(), nil
	}
	return bundle, 0, err
}

// describeUnfinished fills in the observation of a pass that ended early, with the reason.
func (p *directPass) describeUnfinished(ctx context.Context, why delivery.Observation) error {
	if p.observed.Bundle == nil {
		if err := p.expectBundle(ctx, p.resource.Config, p.observed, p.cluster.Values); err != nil {
			return err
		}
	}
	p.observed.Observation = why
	return nil
}

// describeSlowCluster describes a cluster on which a delivery or removal took longer than passTimeout.
func describeSlowCluster(cluster, task string) string {
	return fmt.Sprintf("%s is slow: %s were not enough, and the %s continues; check whether a webhook of the cluster does not respond", cluster, passTimeout, task)
}

// describeWatchProblem adds the reason why the cluster is listed instead of watched.
func (p *directPass) describeWatchProblem(cluster string) {
	problem := p.cluster.Cluster.WatchProblem()
	if problem == "" || p.observed.Target.Reason != api.ReasonTargetResolved {
		return
	}
	p.observed.Target.Message = fmt.Sprintf("%s is polled instead of watched: %s; find the client of the cluster that changes objects with label %s",
		cluster, problem, api.ComponentLabel)
}

// emitRepairEvent emits an Event about the objects that the pass applied again.
func (p *directPass) emitRepairEvent(out direct.Outcome) {
	config := p.resource.Config
	switch text := strings.Join(out.Repaired, "; "); {
	case text == "":
	case out.Loop:
		p.Events.Eventf(config, nil, corev1.EventTypeWarning, "DriftLoop", "Repair", "%s",
			message.Shorten("A client of the cluster keeps changing objects of this resource, and repairs slow down: "+text, message.MaxNote))
	default:
		p.Events.Eventf(config, nil, corev1.EventTypeNormal, "DriftRepaired", "Repair", "%s", message.Shorten("Applied again: "+text, message.MaxNote))
	}
}

// expectBundle fills in the state that follows from the hub alone: the bundle that the cluster will get, or the fault of the
// spec, if the cluster still has the version in the status. clusterValues is nil when no value of the cluster is known.
func (d *Direct) expectBundle(
	ctx context.Context, config *unstructured.Unstructured, in *status.Installation, clusterValues *values.Cluster,
) error {
	last, err := readStatus(config)
	if err != nil {
		return err
	}
	if clusterValues == nil {
		clusterValues = values.None("the manager has no facts about the cluster")
	}
	in.Bundle, err = d.Bundles.OfConfigFrom(ctx, d.Component, client.ObjectKeyFromObject(config), addon.Place{
		Namespace: d.Clusters.InstallNamespace(config), Installed: render.Installed{Delivered: last.Version}, Values: clusterValues,
	})
	if render.IsPending(err) {
		return err
	}
	if errors.As(err, &in.Fault) {
		in.Bundle = nil
		return nil
	}
	in.Observation.Waiting = fmt.Sprintf("waiting until %s can be reached", d.Clusters.DisplayName(config))
	return err
}
