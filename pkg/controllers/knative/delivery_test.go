// Copyright Contributors to the Open Cluster Management project

package knative

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// recordingDelivery records the steps that a Reconciler takes.
type recordingDelivery struct {
	name, finalizer string
	delivers        bool
	steps           *[]string
}

func (d *recordingDelivery) Delivers(*unstructured.Unstructured) bool { return d.delivers }

func (d *recordingDelivery) Finalizer() string { return d.finalizer }

func (d *recordingDelivery) Ensure(context.Context, *Resource) (Outcome, error) {
	return d.record("ensure")
}

func (d *recordingDelivery) Remove(context.Context, *Resource) (Outcome, error) {
	return d.record("remove")
}

func (d *recordingDelivery) Forget(types.NamespacedName) { _, _ = d.record("forget") }

func (d *recordingDelivery) record(step string) (Outcome, error) {
	*d.steps = append(*d.steps, d.name+" "+step)
	return Outcome{}, nil
}

// TestOneDelivery holds that one delivery installs a resource, the preferred one, and that the finalizer decides which delivery
// removes an installation.
func TestOneDelivery(t *testing.T) {
	held := func(finalizer string) func(*unstructured.Unstructured) {
		return func(c *unstructured.Unstructured) { c.SetFinalizers([]string{finalizer}) }
	}
	for name, tc := range map[string]struct {
		config        *unstructured.Unstructured
		first, second bool
		want          []string
	}{
		"both deliver":                 {localServing(), true, true, []string{"first ensure"}},
		"the second delivers":          {localServing(), false, true, []string{"second ensure"}},
		"none delivers":                {localServing(), false, false, nil},
		"a removal of the second":      {localServing(beingDeleted, held("second")), true, true, []string{"second remove"}},
		"a removal of neither":         {localServing(beingDeleted, held("other")), true, true, nil},
		"a removal that none delivers": {localServing(beingDeleted, held("first")), false, false, []string{"first remove"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newDirectFixture(t, tc.config)
			var steps []string
			w.r.Deliveries = []Delivery{
				&recordingDelivery{"first", "first", tc.first, &steps}, &recordingDelivery{"second", "second", tc.second, &steps},
			}
			if _, err := w.reconcile(); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(steps, tc.want) {
				t.Errorf("the steps are %q, want %q", steps, tc.want)
			}
			steps = nil
			if err := w.configs.Tracker().Delete(api.Serving.Resource(), "knative-serving", "self"); err != nil {
				t.Fatal(err)
			}
			if _, err := w.reconcile(); err != nil || !slices.Equal(steps, []string{"first forget", "second forget"}) {
				t.Errorf("after the end the steps are %q, %v", steps, err)
			}
		})
	}
}

// TestFinalizers holds the finalizers of both deliveries: resources of older managers have them.
func TestFinalizers(t *testing.T) {
	if got := (&Direct{}).Finalizer(); got != api.DirectFinalizer {
		t.Errorf("the finalizer of Direct is %q", got)
	}
	if got := (&ManifestWork{}).Finalizer(); got != api.InstallFinalizer {
		t.Errorf("the finalizer of ManifestWork is %q", got)
	}
}

// TestDirectPassesAreBounded holds that slow clusters leave workers to the resources of work agents.
func TestDirectPassesAreBounded(t *testing.T) {
	w := newDirectFixture(t, localServing(directFinalized))
	for range maxDirectPasses {
		if _, begun := w.d.beginPass(types.NamespacedName{}); !begun {
			t.Fatal("a pass is refused too early")
		}
	}
	if result, err := w.reconcile(); err != nil || result.RequeueAfter != passRetry || len(w.requests) > 0 {
		t.Errorf("got %v, %v after requests %q", result, err, w.requests)
	}
	w.d.endPass()
	if _, err := w.reconcile(); len(w.written()) == 0 {
		t.Errorf("nothing is installed when a pass has ended: %v", err)
	}
	if w.d.passes != maxDirectPasses-1 || len(w.d.waitingForPass) > 0 {
		t.Errorf("%d passes are running, and %v wait", w.d.passes, w.d.waitingForPass)
	}
}

// TestPassRetryGrows holds that many waiting resources do not try every second.
func TestPassRetryGrows(t *testing.T) {
	d := &Direct{passes: maxDirectPasses}
	for i, want := range map[int]time.Duration{1: passRetry, 60: 2 * passRetry, 10_000: longestPassRetry} {
		d.waitingForPass = map[types.NamespacedName]struct{}{}
		for n := range i - 1 {
			d.waitingForPass[types.NamespacedName{Name: fmt.Sprint(n)}] = struct{}{}
		}
		if retry, begun := d.beginPass(types.NamespacedName{Name: "last"}); begun || retry != want {
			t.Errorf("resource %d tries again after %s, want %s", i, retry, want)
		}
	}
}

// TestClusterUsers holds which resources are enqueued after a change on a cluster, and when a connection has no user any more.
func TestClusterUsers(t *testing.T) {
	sources := NewRequestSources()
	queues := map[api.Component]workqueue.TypedRateLimitingInterface[reconcile.Request]{}
	for c, s := range sources {
		queues[c] = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		t.Cleanup(queues[c].ShutDown)
		s.enqueue(types.NamespacedName{Namespace: "team", Name: "early"}) // the controller does not run yet
		if err := s.Start(t.Context(), queues[c]); err != nil {
			t.Fatal(err)
		}
	}
	profile := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: "fleet", Name: name} }
	id := func(c api.Component, name string) resourceID {
		return resourceID{c, types.NamespacedName{Namespace: "team", Name: name}}
	}
	r := &Remote{Requests: sources}
	r.users.addUser(id(api.Serving, "a"), profile("c1"))
	r.users.addUser(id(api.Eventing, "a"), profile("c1"))
	r.users.addUser(id(api.Serving, "b"), profile("c2"))
	taken := func(c api.Component) []string {
		var out []string
		for queues[c].Len() > 0 {
			request, _ := queues[c].Get()
			queues[c].Done(request)
			out = append(out, request.Name)
		}
		return out
	}
	r.enqueueUsers(profile("c1"), api.Serving)
	r.enqueueUsers(profile("c1"), api.Serving) // merged with the first
	if s, e := taken(api.Serving), taken(api.Eventing); !slices.Equal(s, []string{"a"}) || len(e) > 0 {
		t.Errorf("a change of Serving enqueues %q and %q", s, e)
	}
	r.enqueueUsers(profile("c1"), "")
	if s, e := taken(api.Serving), taken(api.Eventing); !slices.Equal(s, []string{"a"}) || !slices.Equal(e, []string{"a"}) {
		t.Errorf("a change of any component enqueues %q and %q", s, e)
	}
	for _, tc := range []struct {
		id   resourceID
		last bool
	}{{id(api.Serving, "a"), false}, {id(api.Serving, "a"), false}, {id(api.Eventing, "a"), true}, {id(api.Serving, "b"), true}} {
		if _, last := r.users.removeUser(tc.id); last != tc.last {
			t.Errorf("%v is the last user: %t", tc.id, last)
		}
	}
}

// TestStatusIsWrittenOnce holds that the Reconciler writes the observation of a delivery with the annotations that do not count.
func TestStatusIsWrittenOnce(t *testing.T) {
	w := newDirectFixture(t, localServing(directFinalized))
	w.refused = true
	w.clusterError = &UnreachableError{}
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	if got := w.written(); !slices.Equal(got, []string{directPatchStatus}) {
		t.Errorf("written is %q", got)
	}
	if c := w.condition(api.AnnotationsPermitted); c.Status != metav1.ConditionFalse {
		t.Errorf("the condition is %+v", c)
	}
	w.clusterError, w.probing = nil, true
	if result, err := w.reconcile(); err != nil || result != (reconcile.Result{}) {
		t.Errorf("during a probe got %v, %v", result, err)
	}
	if got := w.written(); !slices.Equal(got, []string{directPatchStatus}) {
		t.Errorf("after a pass during a probe, written is %q", got)
	}
}
