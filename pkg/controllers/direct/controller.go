// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"open-cluster-management.io/knative-addon/pkg/addon"
	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/controllers/report"
	"open-cluster-management.io/knative-addon/pkg/delivery"
	"open-cluster-management.io/knative-addon/pkg/delivery/direct"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/revision"
	"open-cluster-management.io/knative-addon/pkg/status"
	"open-cluster-management.io/knative-addon/pkg/values"
)

// Reconciler serves the resources of one component, one at a time each.
type Reconciler struct {
	Component api.Component
	Configs   cache.GenericLister
	Bundles   Bundles
	Clusters  Clusters

	Client dynamic.Interface
	Events events.EventRecorder
	Clock  clock.PassiveClock

	mu            sync.Mutex
	installations map[types.NamespacedName]*installation
	// queue is where Wake adds to; nil before the controller runs.
	queue queue
}

// Bundles finds what is to be installed.
type Bundles interface {
	// OfConfigFrom is the bundle of a resource in a place. A version that it cannot reach in one step is an error.
	OfConfigFrom(ctx context.Context, component api.Component, name types.NamespacedName, place addon.Place) (*render.Bundle, error)
}

// installation is what is remembered of one.
type installation struct {
	*direct.Installation
	cluster *direct.Cluster
	// waiting is what its removal waits for, and pause after how long that is looked at again.
	waiting string
	pause   time.Duration
}

// again is after how long to look again what a removal waits for: ever later while that is the same.
func (i *installation) again(waiting string) time.Duration {
	if waiting != i.waiting {
		i.waiting, i.pause = waiting, 0
	}
	i.pause = min(max(2*i.pause, removalRetry), longestRemovalRetry)
	return i.pause
}

const (
	// staleRetry is after how long a reconcile that has read an old object is done again.
	staleRetry = time.Second
	// passTimeout is how long a pass over a cluster may take: it may be slow, and others wait for a worker.
	passTimeout = 2 * time.Minute
	// refusedRetry is after how long a cluster that has the component for somebody else, or lets nothing be done, is looked at
	// again: there is no event when that changes.
	refusedRetry = 30 * time.Second
	// removalRetry is after how long to look again whether what was deleted is gone, unless an event comes first, and
	// longestRemovalRetry after how long when that takes its time, as users may with their resources.
	removalRetry, longestRemovalRetry = time.Second, 30 * time.Second
)

// Reconcile brings one resource one step further and tells in its status how far it is.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	config, err := revision.Live(r.Configs, r.Component, req.NamespacedName)
	if err != nil {
		return reconcile.Result{}, err
	}
	if config == nil {
		r.forget(req.NamespacedName)
		return reconcile.Result{}, nil
	}
	result, err := r.reconcile(ctx, config)
	if errors.Is(err, ErrLooking) {
		return reconcile.Result{}, nil // there is an event when that is known
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return reconcile.Result{RequeueAfter: staleRetry}, nil // what was read is old; no fault
	}
	return result, err
}

func (r *Reconciler) reconcile(ctx context.Context, config *unstructured.Unstructured) (reconcile.Result, error) {
	leaving := config.GetDeletionTimestamp() != nil
	switch {
	case leaving && held(config):
		return r.remove(ctx, config)
	case leaving, !r.Clusters.Serves(config):
		return reconcile.Result{}, nil
	}
	return r.install(ctx, config)
}

// held tells that the resource waits for us when it is deleted: it may have something on its cluster.
func held(config *unstructured.Unstructured) bool {
	return slices.Contains(config.GetFinalizers(), api.DirectFinalizer)
}

func (r *Reconciler) install(ctx context.Context, config *unstructured.Unstructured) (reconcile.Result, error) {
	t, err := r.Clusters.Of(ctx, config)
	if unreachable := (*UnreachableError)(nil); errors.As(err, &unreachable) {
		return r.outOfSight(ctx, config, unreachable)
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	if !held(config) { // the change of the resource brings it back here
		return reconcile.Result{}, r.setFinalizers(ctx, config, append(slices.Clone(config.GetFinalizers()), api.DirectFinalizer))
	}
	in := &status.Installation{Held: true, Target: status.Finding{Status: metav1.ConditionTrue, Reason: api.ReasonTargetResolved}}
	guarded, stop := t.guard(ctx)
	defer stop()
	result, err := r.sync(guarded, config, t, in)
	if finding, ok := refusal(err, r.Clusters.Name(config), r.Component); ok {
		in.Target, in.Held = finding, false
		in.Bundle, in.Fault = nil, nil
		result, err = reconcile.Result{RequeueAfter: refusedRetry}, nil
	}
	if unreachable, ok := t.explain(guarded, err); ok {
		return r.outOfSight(ctx, config, unreachable)
	}
	if blocked := (*direct.BlockedError)(nil); errors.As(err, &blocked) {
		result.RequeueAfter = refusedRetry
		err = r.unfinished(ctx, config, in, t.Values, delivery.Observation{Waiting: "see " + api.InstallSucceeded, Blocked: blocked.Error()})
	}
	if err != nil && errors.Is(guarded.Err(), context.DeadlineExceeded) {
		result.RequeueAfter = staleRetry
		err = r.unfinished(ctx, config, in, t.Values, delivery.Observation{Waiting: fmt.Sprintf(
			"%s is slow: %s were not enough, and the rest goes on; see whether a webhook there does not answer", r.Clusters.Name(config), passTimeout)})
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	result.RequeueAfter = soonest(result.RequeueAfter, t.LookAgain)
	return result, r.reporter().Installation(ctx, config, in)
}

// outOfSight tells that the cluster cannot be used, and keeps what was last seen of it.
func (r *Reconciler) outOfSight(ctx context.Context, config *unstructured.Unstructured, why *UnreachableError) (reconcile.Result, error) {
	in := &status.Installation{Held: held(config), Target: why.Finding}
	if in.Held {
		if err := r.expect(ctx, config, in, why.Values); err != nil {
			return reconcile.Result{}, err
		}
	}
	return reconcile.Result{RequeueAfter: why.Retry}, r.reporter().Installation(ctx, config, in)
}

// unfinished fills in what is known when a pass has ended early, and why it did.
func (r *Reconciler) unfinished(
	ctx context.Context, config *unstructured.Unstructured, in *status.Installation, of *values.Cluster, why delivery.Observation,
) error {
	if in.Bundle == nil {
		if err := r.expect(ctx, config, in, of); err != nil {
			return err
		}
	}
	in.Observation = why
	return nil
}

// expect fills in what is known without the cluster: whether it could have what the resource asks for, if it still has what
// it had.
func (r *Reconciler) expect(
	ctx context.Context, config *unstructured.Unstructured, in *status.Installation, of *values.Cluster,
) error {
	last, err := report.StatusOf(config)
	if err != nil {
		return err
	}
	if of == nil {
		of = values.None("nothing is known of it")
	}
	in.Bundle, err = r.Bundles.OfConfigFrom(ctx, r.Component, nameOf(config), addon.Place{Installed: last.Version, Values: of})
	if errors.As(err, &in.Fault) {
		in.Bundle = nil
		return nil
	}
	in.Observation.Waiting = fmt.Sprintf("waiting for %s to be in sight", r.Clusters.Name(config))
	return err
}

// sync brings the cluster to what the resource asks for and fills in what is known of it.
func (r *Reconciler) sync(
	ctx context.Context, config *unstructured.Unstructured, t *Target, in *status.Installation,
) (reconcile.Result, error) {
	i := r.installationOf(config, t)
	installed, err := i.Version(ctx, installNamespace(r.Component, config))
	if err != nil {
		return reconcile.Result{}, err
	}
	in.Bundle, err = r.Bundles.OfConfigFrom(ctx, r.Component, nameOf(config), addon.Place{Installed: installed, Values: t.Values})
	if errors.As(err, &in.Fault) {
		in.Bundle = nil
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	by := revision.PausedByResource(r.Component, config)
	out, err := i.Sync(ctx, in.Bundle, direct.SyncOptions{Adopt: isTrue(config, api.AdoptAnnotation), Paused: by != ""})
	if err != nil {
		return reconcile.Result{}, err
	}
	in.Observation = out.Observation
	if out.Pending {
		in.Observation.Waiting = fmt.Sprintf("paused by %s: %s keeps what it has instead of this spec; take it away to go on", by, r.Clusters.Name(config))
	}
	r.tellRepairs(config, out)
	return reconcile.Result{RequeueAfter: soonest(out.Retry, in.Observation.Settle(r.Clock.Now()))}, nil
}

func (r *Reconciler) tellRepairs(config *unstructured.Unstructured, out direct.Outcome) {
	switch text := strings.Join(out.Repaired, "; "); {
	case text == "":
	case out.Loop:
		r.Events.Eventf(config, nil, corev1.EventTypeWarning, "DriftLoop", "Repair", "%s",
			report.Note("Somebody keeps changing what this resource installs; repairs slow down: "+text))
	default:
		r.Events.Eventf(config, nil, corev1.EventTypeNormal, "DriftRepaired", "Repair", "%s", report.Note("Applied again: "+text))
	}
}

// refusal is the finding of a cluster that has the component for somebody else.
func refusal(err error, cluster string, c api.Component) (status.Finding, bool) {
	rival, foreign := (*direct.RivalError)(nil), (*direct.ForeignError)(nil)
	switch {
	case errors.As(err, &rival) && rival.WorkAgent:
		return status.Finding{Status: metav1.ConditionFalse, Reason: api.ReasonTargetConflict, Message: fmt.Sprintf(
			"%s has %s by the work agent of OCM, for this or another hub (%s): %s; remove one of the two, and this one goes on if it is left, or set annotation %s to \"true\" to have it taken over",
			cluster, c, rival.Owner, delivery.Listed(rival.Objects), api.AdoptAnnotation)}, true
	case errors.As(err, &rival) && rival.SameHub:
		return status.Finding{Status: metav1.ConditionFalse, Reason: api.ReasonTargetConflict, Message: fmt.Sprintf(
			"%s has %s for %s %q, which came first; delete one of the two: this one goes on once the other is gone", cluster, c, c.Kind(), rival.Owner)}, true
	case errors.As(err, &rival) && rival.Adoptable():
		return status.Finding{Status: metav1.ConditionFalse, Reason: api.ReasonTargetConflict, Message: fmt.Sprintf(
			"%s has %s for %s %q of another hub; delete one of the two, and this one goes on if it is left, or, if that hub is gone for ever, set annotation %s to \"true\" to have it taken over",
			cluster, c, c.Kind(), rival.Owner, api.AdoptAnnotation)}, true
	case errors.As(err, &rival):
		return status.Finding{Status: metav1.ConditionFalse, Reason: api.ReasonTargetConflict, Message: fmt.Sprintf(
			"%s has %s for %s %q of another hub; delete one of the two: this one goes on once the other is gone", cluster, c, c.Kind(), rival.Owner)}, true
	case errors.As(err, &foreign):
		return status.Finding{Status: metav1.ConditionFalse, Reason: api.ReasonExistingInstallation, Message: fmt.Sprintf(
			"%s has %s already, and it is not ours: %s; it is left alone: remove it, or set annotation %s to \"true\" to have it taken over",
			cluster, c, delivery.Listed(foreign.Objects), api.AdoptAnnotation)}, true
	}
	return status.Finding{}, false
}

// soonest is the shorter of two waits, of which 0 is none.
func soonest(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// installationOf is the memory of the resource's installation, as long as the connection is the same.
func (r *Reconciler) installationOf(config *unstructured.Unstructured, t *Target) *installation {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := nameOf(config)
	if i := r.installations[name]; i != nil && i.cluster == t.Cluster {
		return i
	}
	if r.installations == nil {
		r.installations = map[types.NamespacedName]*installation{}
	}
	i := &installation{cluster: t.Cluster, Installation: t.Cluster.Installation(direct.Owner{Component: r.Component, Hub: t.Hub, Name: name}, r.Clock)}
	r.installations[name] = i
	return i
}

func (r *Reconciler) forget(name types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.installations, name)
	r.Clusters.Forget(r.Component, name)
}

// Wake has everybody looked at who has, or wants, the component on the cluster.
func (r *Reconciler) Wake(cluster *direct.Cluster) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, i := range r.installations {
		if i.cluster == cluster && r.queue != nil {
			r.queue.Add(reconcile.Request{NamespacedName: name})
		}
	}
}

// Again has a resource looked at.
func (r *Reconciler) Again(name types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.queue != nil {
		r.queue.Add(reconcile.Request{NamespacedName: name})
	}
}

func (r *Reconciler) reporter() *report.Reporter {
	return &report.Reporter{Component: r.Component, Client: r.Client, Events: r.Events, Clock: r.Clock}
}

func nameOf(config *unstructured.Unstructured) types.NamespacedName {
	return types.NamespacedName{Namespace: config.GetNamespace(), Name: config.GetName()}
}

func isTrue(config *unstructured.Unstructured, annotation string) bool {
	return config.GetAnnotations()[annotation] == "true"
}

// installNamespace is where a resource is installed on its cluster.
func installNamespace(c api.Component, config *unstructured.Unstructured) string {
	if ns := config.GetAnnotations()[api.InstallNamespaceAnnotation]; ns != "" {
		return ns
	}
	return c.InstallNamespace()
}
