// Copyright Contributors to the Open Cluster Management project

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	workclient "open-cluster-management.io/api/client/work/clientset/versioned"
	workinformers "open-cluster-management.io/api/client/work/informers/externalversions"
	worklisters "open-cluster-management.io/api/client/work/listers/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"
)

// applyTime is how long a real agent needs to apply some dozen objects, lookTime how long a real agent needs to read the objects.
const (
	applyTime = time.Second
	lookTime  = 200 * time.Millisecond
)

// agentWorkers is how many of the agents write at the same time. A real agent has a client of its own, which is far from the
// limit of the client.
const agentWorkers = 20

// agents play the work agents of all clusters: the agents set a finalizer on each work, report each generation as applied, report
// which objects are available, and write nothing else. Like a real agent, a played agent reads a work again when the work changes,
// not when an object appears.
type agents struct {
	client workclient.Interface
	works  worklisters.ManifestWorkLister
	queue  workqueue.TypedDelayingInterface[cache.ObjectName]

	watchers[*workv1.ManifestWork]

	mu sync.Mutex
	// failed is the last error that is no conflict.
	failed error
}

// startAgents runs agents until the context ends.
func startAgents(ctx context.Context, client workclient.Interface) (*agents, error) {
	factory := workinformers.NewSharedInformerFactory(client, 0)
	informer := factory.Work().V1().ManifestWorks()
	a := &agents{
		client: client, works: informer.Lister(), queue: workqueue.NewTypedDelayingQueue[cache.ObjectName](),
	}
	changed := func(o any) {
		if w, ok := o.(*workv1.ManifestWork); ok {
			a.see(w)
		}
	}
	if _, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: changed, UpdateFunc: func(_, o any) { changed(o) },
	}); err != nil {
		return nil, fmt.Errorf("cannot watch ManifestWorks: %w", err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	for range agentWorkers {
		go a.run(ctx)
	}
	context.AfterFunc(ctx, a.queue.ShutDown)
	return a, nil
}

// see takes note of a work that has changed.
func (a *agents) see(w *workv1.ManifestWork) {
	a.tell(w)
	if _, after := next(w); after >= 0 {
		a.queue.AddAfter(cache.MetaObjectToName(w), after)
	}
}

// err is the last error of an agent.
func (a *agents) err() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.failed
}

// step is what an agent does next with a work.
type step int

const (
	idle step = iota
	adopt
	releaseFinalizer
	apply
	look
)

// next returns the next step of an agent for a work and the duration of the step, which is negative without a step.
func next(w *workv1.ManifestWork) (step, time.Duration) {
	adopted := slices.Contains(w.Finalizers, workv1.ManifestWorkFinalizer)
	switch {
	case w.DeletionTimestamp != nil && adopted:
		return releaseFinalizer, 0
	case w.DeletionTimestamp != nil:
		return idle, -1
	case !adopted:
		return adopt, 0
	case !current(w, workv1.WorkApplied):
		return apply, applyTime
	case !current(w, workv1.WorkAvailable):
		return look, lookTime
	}
	return idle, -1
}

// current tells that the condition is about the work as it is.
func current(w *workv1.ManifestWork, condition string) bool {
	c := apimeta.FindStatusCondition(w.Status.Conditions, condition)
	return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == w.Generation
}

func (a *agents) run(ctx context.Context) {
	for {
		name, shutdown := a.queue.Get()
		if shutdown {
			return
		}
		if err := a.work(ctx, name); err != nil && ctx.Err() == nil {
			if !apierrors.IsConflict(err) {
				a.mu.Lock()
				a.failed = err
				a.mu.Unlock()
			}
			a.queue.AddAfter(name, lookTime)
		}
		a.queue.Done(name)
	}
}

// work does the next step with a work.
func (a *agents) work(ctx context.Context, name cache.ObjectName) error {
	w, err := a.works.ManifestWorks(name.Namespace).Get(name.Name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	s, _ := next(w)
	switch s {
	case adopt:
		err = a.patch(ctx, w, map[string]any{"metadata": map[string]any{
			"resourceVersion": w.ResourceVersion, "finalizers": append(slices.Clone(w.Finalizers), workv1.ManifestWorkFinalizer),
		}})
	case releaseFinalizer:
		others := slices.DeleteFunc(slices.Clone(w.Finalizers), func(f string) bool { return f == workv1.ManifestWorkFinalizer })
		err = a.patch(ctx, w, map[string]any{"metadata": map[string]any{"resourceVersion": w.ResourceVersion, "finalizers": others}})
	case apply:
		err = a.report(ctx, w, appliedStatus)
	case look:
		err = a.report(ctx, w, seenStatus)
	case idle:
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func (a *agents) report(ctx context.Context, w *workv1.ManifestWork, of func(*workv1.ManifestWork) (workv1.ManifestWorkStatus, error)) error {
	status, err := of(w)
	if err != nil {
		return fmt.Errorf("cannot answer ManifestWork %s/%s: %w", w.Namespace, w.Name, err)
	}
	if equality.Semantic.DeepEqual(status, w.Status) {
		return nil // something was missing, and is
	}
	return a.patch(ctx, w, map[string]any{"metadata": map[string]any{"resourceVersion": w.ResourceVersion}, "status": status}, "status")
}

func (a *agents) patch(ctx context.Context, w *workv1.ManifestWork, patch any, subresources ...string) error {
	body, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("cannot encode a patch: %w", err)
	}
	_, err = a.client.WorkV1().ManifestWorks(w.Namespace).Patch(ctx, w.Name, types.MergePatchType, body, metav1.PatchOptions{}, subresources...)
	return err
}
