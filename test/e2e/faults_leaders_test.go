// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/message"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
)

// TestTwoLeaders has two managers lead at the same time from an installation to a removal, in both modes. No object returns to an
// earlier content or is created twice, nothing is written at rest, and a single manager finds nothing to change.
func TestTwoLeaders(t *testing.T) {
	startNightlyStory(t)
	p := newPush(t, lab.Options{ManagedClusters: 1, Spokes: 1, StatusSyncInterval: statusSync}, harness.Options{})
	const second = harness.Manager + "-2"
	if err := p.RunManager(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	p.awaitLeading(t, harness.Manager, second)
	pulled, direct := way{push: p, spoke: connect(t, p.Managed[0])}, way{push: p, spoke: connect(t, p.Spokes[0])}
	p.bind(t)
	p.token(t, direct.Name, direct.Cluster, direct.Credential.Token)
	histories := p.followWrites(t, pulled, direct)
	t.Cleanup(func() { histories.logViolations(t) })
	ways := []way{pulled, direct}

	for _, w := range ways {
		w.apply(t, api.Serving, w.Name, kourier())
	}
	for _, w := range ways {
		w.shows(t, verdicts{})
	}
	settled(t, p.Fleet, api.Serving, pulled.Cluster)
	histories.checkWrites(t, "installation")

	for _, w := range ways {
		w.spec(t, config("deployment", "progress-deadline", marker))
	}
	for _, w := range ways {
		eventually(t, "the edit is on "+w.Name, 3*time.Minute, w.checkDeadline(true))
		w.shows(t, verdicts{})
	}
	settled(t, p.Fleet, api.Serving, pulled.Cluster)
	p.checkRest(t)
	histories.checkWrites(t, "edit")
	p.checkSingleManager(t, ways, second)

	if err := p.RunManager(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	p.awaitLeading(t, harness.Manager, second)
	histories.checkPhase(t, "restart")
	for _, w := range ways {
		w.delete(t)
	}
	for _, w := range ways {
		w.gone(t, api.Serving, w.Name)
		w.emptied(t)
	}
	histories.checkPhase(t, "removal")
	p.checkRest(t)
}

// awaitLeading waits until each manager runs controllers: a manager that waits to lead has no queues.
func (p push) awaitLeading(t *testing.T, managers ...string) {
	t.Helper()
	s := storyOf(t, p.Lab)
	eventually(t, "all managers lead", time.Minute, func(ctx context.Context) error {
		leading := 0
		for _, program := range s.listPrograms() {
			if !slices.Contains(managers, program.Name) {
				continue
			}
			leading++
			m, err := s.readMetrics(ctx, program)
			if err == nil && len(m["workqueue_depth"]) == 0 {
				err = fmt.Errorf("%s has no queues", program.Name)
			}
			if err != nil {
				return err
			}
		}
		if leading != len(managers) {
			return fmt.Errorf("%d of %q run", leading, managers)
		}
		return nil
	})
}

// checkRest holds that the fleet comes to rest.
func (p push) checkRest(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*convergence)
	defer cancel()
	found, _ := storyOf(t, p.Lab).restingViolations(ctx)
	for _, v := range found {
		t.Errorf("two managers are not at rest: %s", v)
	}
}

// checkSingleManager replaces both managers by one manager, which finds nothing to change: a single manager has the same final state.
func (p push) checkSingleManager(t *testing.T, ways []way, second string) {
	t.Helper()
	before := p.finalState(t, ways)
	for _, manager := range []string{harness.Manager, second} {
		if err := p.Stop(manager); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Start(harness.Manager); err != nil {
		t.Fatal(err)
	}
	p.awaitLeading(t, harness.Manager)
	p.checkRest(t)
	if diff := cmp.Diff(before, p.finalState(t, ways)); diff != "" {
		t.Errorf("a single manager has changed the state of two managers (-two +one):\n%s", diff)
	}
}

// finalState has the resource versions of what the managers write: the objects of the clusters, the works, the add-ons and the
// resources.
func (p push) finalState(t *testing.T, ways []way) map[string]string {
	t.Helper()
	out := specsOf(t, ways)
	for _, gvr := range append(hubWrites(), api.Serving.Resource()) {
		items, err := p.hub.listed(t.Context(), gvr)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range items {
			out["hub "+gvr.Resource+" "+o.GetNamespace()+"/"+o.GetName()] = fmt.Sprint(o.GetGeneration(), o.GetAnnotations(), o.GetLabels())
		}
	}
	return out
}

// hubWrites are the resources of the hub that a manager writes for a cluster with a work agent.
func hubWrites() []schema.GroupVersionResource {
	return []schema.GroupVersionResource{
		workResource,
		addOnResource,
		{Group: "apps", Version: "v1", Resource: "controllerrevisions"},
	}
}

// contentHistories are the contents of the objects of one watched resource in a phase of the story, by the name of the object.
type contentHistories struct {
	watchedViolations

	resource string
	// contents begin with the last content of the phase before.
	contents map[string][]string
	// created counts the creations of each object in all phases.
	created map[string]int
	// changes is the number of contents that the phase has added.
	changes int
}

// maxViolation bounds the text of a violation, which holds an object.
const maxViolation = 2000

// writeHistories are the contents of all watched resources.
type writeHistories []*contentHistories

// followWrites watches the objects that both managers write: on the hub, and on a cluster without a work agent.
func (p push) followWrites(t *testing.T, pulled, direct way) writeHistories {
	t.Helper()
	follow := func(s spoke, namespace string, gvr schema.GroupVersionResource) *contentHistories {
		h := &contentHistories{resource: gvr.Resource, contents: map[string][]string{}, created: map[string]int{}}
		var objects dynamic.ResourceInterface = s.dynamic.Resource(gvr)
		if namespace != "" {
			objects = s.dynamic.Resource(gvr).Namespace(namespace)
		}
		h.followWatch(t, func(ctx context.Context) (watch.Interface, error) { return objects.Watch(ctx, metav1.ListOptions{}) },
			func(_ context.Context, e watch.Event) {
				if o, isObject := e.Object.(*unstructured.Unstructured); isObject {
					h.see(s.Name, e.Type, o)
				}
			})
		return h
	}
	var out writeHistories
	for _, gvr := range hubWrites() {
		out = append(out, follow(p.hub, pulled.Name, gvr))
	}
	out = append(out, follow(p.hub, p.namespace, api.Serving.Resource()))
	for _, resource := range []string{"configmaps", "services", "serviceaccounts"} {
		out = append(out, follow(direct.spoke, api.Serving.InstallNamespace(), schema.GroupVersionResource{Version: "v1", Resource: resource}))
	}
	out = append(out, follow(direct.spoke, api.Serving.InstallNamespace(), schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}))
	return append(out, follow(direct.spoke, "", schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}))
}

// see records the content of an object. The gate opens and closes in turns.
func (h *contentHistories) see(cluster string, event watch.EventType, o *unstructured.Unstructured) {
	if o.GetName() == manifestwork.GateName(api.Serving) {
		return
	}
	name := fmt.Sprintf("%s %s %s/%s", cluster, o.GetKind(), o.GetNamespace(), o.GetName())
	h.mu.Lock()
	defer h.mu.Unlock()
	switch event {
	case watch.Added:
		if h.created[name]++; h.created[name] > 1 {
			h.violations = append(h.violations, fmt.Sprintf("%s was created %d times", name, h.created[name]))
		}
	case watch.Modified:
	default:
		return
	}
	content, before := contentOf(o), h.contents[name]
	if n := len(before); n > 0 && before[n-1] == content {
		return
	}
	if slices.Contains(before, content) {
		h.violations = append(h.violations, fmt.Sprintf("%s returned to an earlier content: %s", name, content))
	}
	h.contents[name] = append(before, content)
	h.changes++
}

// contentOf is an object without its status and what an API server counts.
func contentOf(o *unstructured.Unstructured) string {
	o = o.DeepCopy()
	unstructured.RemoveNestedField(o.Object, "status")
	for _, field := range []string{"resourceVersion", "managedFields", "generation"} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	content, err := json.Marshal(o.Object)
	if err != nil {
		return err.Error()
	}
	return string(content)
}

// logViolations logs why a phase that has failed may not have come to its end.
func (w writeHistories) logViolations(t *testing.T) {
	t.Helper()
	for _, h := range w {
		h.mu.Lock()
		for _, v := range h.violations {
			t.Log(message.Shorten(v, maxViolation))
		}
		h.mu.Unlock()
	}
}

// checkWrites is checkPhase for a phase in which the managers write the ManifestWorks of the hub and the ConfigMaps of the cluster without a
// work agent: watches that have seen no such write prove nothing.
func (w writeHistories) checkWrites(t *testing.T, phase string) {
	t.Helper()
	for _, h := range w {
		h.mu.Lock()
		changes := h.changes
		h.mu.Unlock()
		if changes == 0 && slices.Contains([]string{"manifestworks", "configmaps"}, h.resource) {
			t.Errorf("%s: the watch of %s has seen no write", phase, h.resource)
		}
	}
	w.checkPhase(t, phase)
}

// checkPhase holds that the managers have undone no write since the last phase, and begins the next phase. The next phase keeps the last
// content of each object: a former leader may write that content.
func (w writeHistories) checkPhase(t *testing.T, phase string) {
	t.Helper()
	changes := 0
	for _, h := range w {
		h.mu.Lock()
		changes += h.changes
		for _, v := range h.violations {
			t.Errorf("%s: %s", phase, message.Shorten(v, maxViolation))
		}
		for name, contents := range h.contents {
			h.contents[name] = contents[len(contents)-1:]
		}
		h.violations, h.changes = nil, 0
		h.mu.Unlock()
		h.checkNoViolations(t)
	}
	t.Logf("%s: %d contents", phase, changes)
}
