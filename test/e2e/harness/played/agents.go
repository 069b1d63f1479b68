// Copyright Contributors to the Open Cluster Management project

package played

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	workclient "open-cluster-management.io/api/client/work/clientset/versioned"
	workinformers "open-cluster-management.io/api/client/work/informers/externalversions"
	worklisters "open-cluster-management.io/api/client/work/listers/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"
)

// applyTime is the time that a real agent needs to apply some dozen objects, observeTime the time that a real agent needs to read the
// objects.
const (
	applyTime   = time.Second
	observeTime = 200 * time.Millisecond
)

// agentWorkers is the number of agents that write at the same time. A real agent has its own client, which does not reach the limit
// of the client.
const agentWorkers = 20

// Agents play the work agents of all clusters: the agents set a finalizer on each work, report each generation as applied, report
// which objects are available, and write nothing else. Like a real agent, a played agent reads a work again when the work changes,
// not when an object appears.
type Agents struct {
	client workclient.Interface
	works  worklisters.ManifestWorkLister
	queue  workqueue.TypedDelayingInterface[cache.ObjectName]

	// Watchers see every work that changes.
	Watchers[*workv1.ManifestWork]

	// suspended has the names of the clusters whose agents take no step for any work.
	suspended sync.Map

	mu sync.Mutex
	// failed has the error of each work whose last step has failed; conflicts do not count.
	failed map[cache.ObjectName]error
}

// StartAgents runs agents until the context ends.
func StartAgents(ctx context.Context, client workclient.Interface) (*Agents, error) {
	factory := workinformers.NewSharedInformerFactory(client, 0)
	informer := factory.Work().V1().ManifestWorks()
	a := &Agents{
		client: client, works: informer.Lister(), queue: workqueue.NewTypedDelayingQueue[cache.ObjectName](),
		failed: map[cache.ObjectName]error{},
	}
	onChange := func(o any) {
		if w, isWork := o.(*workv1.ManifestWork); isWork {
			a.NotifyWatchers(w)
			a.enqueueStep(w)
		}
	}
	if _, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: onChange, UpdateFunc: func(_, o any) { onChange(o) },
	}); err != nil {
		return nil, fmt.Errorf("cannot watch ManifestWorks: %w", err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	for range agentWorkers {
		go a.runWorker(ctx)
	}
	context.AfterFunc(ctx, a.queue.ShutDown)
	return a, nil
}

// SuspendAgent stops the agent of a cluster; ResumeAgent continues the agent.
func (a *Agents) SuspendAgent(cluster string) { a.suspended.Store(cluster, true) }

// ResumeAgent makes the agent of a cluster continue with the works as the hub has them now.
func (a *Agents) ResumeAgent(cluster string) error {
	a.suspended.Delete(cluster)
	works, err := a.works.ManifestWorks(cluster).List(labels.Everything())
	for _, w := range works {
		a.enqueueStep(w)
	}
	return err
}

func (a *Agents) isSuspended(cluster string) bool {
	_, suspended := a.suspended.Load(cluster)
	return suspended
}

// enqueueStep lets an agent do the next step with a work, after the duration of the step.
func (a *Agents) enqueueStep(w *workv1.ManifestWork) {
	if _, duration := nextStep(w); duration >= 0 {
		a.queue.AddAfter(cache.MetaObjectToName(w), duration)
	}
}

// Err returns the errors of the works whose last step has failed; conflicts do not count.
func (a *Agents) Err() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	var errs []error
	for _, name := range slices.SortedFunc(maps.Keys(a.failed), func(x, y cache.ObjectName) int { return strings.Compare(x.String(), y.String()) }) {
		errs = append(errs, fmt.Errorf("the work agent failed with ManifestWork %s: %w", name, a.failed[name]))
	}
	return errors.Join(errs...)
}

// record keeps the error of a step, or removes the error of a former step with the work.
func (a *Agents) record(name cache.ObjectName, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil {
		delete(a.failed, name)
	} else if !apierrors.IsConflict(err) {
		a.failed[name] = err
	}
}

// step is an action of an agent.
type step int

const (
	idle step = iota
	adopt
	releaseFinalizer
	apply
	observe
)

// nextStep returns the next step of an agent for a work and the duration of the step, which is negative without a step.
func nextStep(w *workv1.ManifestWork) (step, time.Duration) {
	adopted := slices.Contains(w.Finalizers, workv1.ManifestWorkFinalizer)
	switch {
	case w.DeletionTimestamp != nil && adopted:
		return releaseFinalizer, 0
	case w.DeletionTimestamp != nil:
		return idle, -1
	case !adopted:
		return adopt, 0
	case !isCurrent(w, workv1.WorkApplied):
		return apply, applyTime
	case !isCurrent(w, workv1.WorkAvailable):
		return observe, observeTime
	}
	return idle, -1
}

// isCurrent reports whether the condition is True for the present generation of the work.
func isCurrent(w *workv1.ManifestWork, condition string) bool {
	c := apimeta.FindStatusCondition(w.Status.Conditions, condition)
	return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == w.Generation
}

// runWorker does the steps of the queue until the queue ends.
func (a *Agents) runWorker(ctx context.Context) {
	for {
		name, shutdown := a.queue.Get()
		if shutdown {
			return
		}
		if err := a.doStep(ctx, name); ctx.Err() == nil {
			a.record(name, err)
			if err != nil {
				a.queue.AddAfter(name, observeTime)
			}
		}
		a.queue.Done(name)
	}
}

// doStep does the next step with a work.
func (a *Agents) doStep(ctx context.Context, name cache.ObjectName) error {
	if a.isSuspended(name.Namespace) {
		return nil
	}
	w, err := a.works.ManifestWorks(name.Namespace).Get(name.Name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	s, _ := nextStep(w)
	switch s {
	case adopt:
		err = a.patchWork(ctx, w, map[string]any{"metadata": map[string]any{
			"resourceVersion": w.ResourceVersion, "finalizers": append(slices.Clone(w.Finalizers), workv1.ManifestWorkFinalizer),
		}})
	case releaseFinalizer:
		others := slices.DeleteFunc(slices.Clone(w.Finalizers), func(f string) bool { return f == workv1.ManifestWorkFinalizer })
		err = a.patchWork(ctx, w, map[string]any{"metadata": map[string]any{"resourceVersion": w.ResourceVersion, "finalizers": others}})
	case apply:
		err = a.reportStatus(ctx, w, appliedStatus)
	case observe:
		err = a.reportStatus(ctx, w, observedStatus)
	case idle:
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// reportStatus writes the status that compute returns for a work.
func (a *Agents) reportStatus(ctx context.Context, w *workv1.ManifestWork, compute func(*workv1.ManifestWork) (workv1.ManifestWorkStatus, error)) error {
	status, err := compute(w)
	if err != nil {
		return fmt.Errorf("cannot compute the status of ManifestWork %s/%s: %w", w.Namespace, w.Name, err)
	}
	if equality.Semantic.DeepEqual(status, w.Status) {
		return nil // an object was missing, and still is
	}
	return a.patchWork(ctx, w, map[string]any{"metadata": map[string]any{"resourceVersion": w.ResourceVersion}, "status": status}, "status")
}

func (a *Agents) patchWork(ctx context.Context, w *workv1.ManifestWork, patch any, subresources ...string) error {
	body, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("cannot encode a patch: %w", err)
	}
	_, err = a.client.WorkV1().ManifestWorks(w.Namespace).Patch(ctx, w.Name, types.MergePatchType, body, metav1.PatchOptions{}, subresources...)
	return err
}

// HasApplied reports whether the agent has reported that the present spec of the work is applied.
func HasApplied(w *workv1.ManifestWork) bool {
	return isCurrent(w, workv1.WorkApplied)
}
