// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// childEvent is the state of a child at one event.
type childEvent struct {
	name, revision string
	ready          bool
}

// watchChildren collects the states of the children, in the order of the API server. The returned function waits until the watch has shown
// the present state of every child, and ends the watch.
func (f knativeFleet) watchChildren(t *testing.T) (end func() []childEvent) {
	t.Helper()
	list, err := f.resources(api.Serving).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := f.resources(api.Serving).Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var out []childEvent
	shown := map[string]bool{} // by resource version
	for i := range list.Items {
		shown[list.Items[i].GetResourceVersion()] = true
	}
	var collecting sync.WaitGroup
	collecting.Go(func() {
		for e := range w.ResultChan() {
			if child, ok := e.Object.(*unstructured.Unstructured); ok {
				mu.Lock()
				out = append(out, childEvent{child.GetName(), child.GetAnnotations()[api.FleetRevisionAnnotation], isReadyNow(child)})
				shown[child.GetResourceVersion()] = true
				mu.Unlock()
			}
		}
	})
	return func() []childEvent {
		t.Helper()
		eventually(t, "the watch shows every child", time.Minute, func(ctx context.Context) error {
			now, err := f.resources(api.Serving).List(ctx, metav1.ListOptions{})
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			for i := range now.Items {
				if child := &now.Items[i]; !shown[child.GetResourceVersion()] {
					return fmt.Errorf("the watch has not shown version %s of %s", child.GetResourceVersion(), child.GetName())
				}
			}
			return nil
		})
		w.Stop()
		collecting.Wait()
		return out
	}
}

// isReadyNow reports whether a child is Ready at its generation.
func isReadyNow(child *unstructured.Unstructured) bool {
	observed, _, _ := unstructured.NestedInt64(child.Object, "status", "observedGeneration")
	conditions, _, _ := unstructured.NestedSlice(child.Object, "status", "conditions")
	return observed == child.GetGeneration() && slices.ContainsFunc(conditions, func(o any) bool {
		c, _ := o.(map[string]any)
		return c["type"] == api.Ready && c["status"] == "True"
	})
}

// orderOf returns the children in the order in which the children got another revision than before. When a child gets the revision,
// the child before has to be Ready with the revision.
func orderOf(t *testing.T, collected []childEvent, before string) []string {
	t.Helper()
	var order []string
	ready := map[string]bool{}
	for _, e := range collected {
		if e.revision == before {
			continue
		}
		if !slices.Contains(order, e.name) {
			if len(order) > 0 && !ready[order[len(order)-1]] {
				t.Errorf("%s gets the revision before %s is Ready", e.name, order[len(order)-1])
			}
			order = append(order, e.name)
		}
		ready[e.name] = e.ready
	}
	return order
}
