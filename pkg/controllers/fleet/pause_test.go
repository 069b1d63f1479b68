// Copyright Contributors to the Open Cluster Management project

package fleet

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// annotate sets an annotation; the empty value removes the annotation.
func annotate(key, value string) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) {
		annotations := mergeMaps(o.GetAnnotations())
		annotations[key] = value
		if value == "" {
			delete(annotations, key)
		}
		o.SetAnnotations(annotations)
	}
}

// paused lists the children with the annotation that pauses.
func (h *fakeHub) paused() string {
	h.t.Helper()
	var out []string
	for _, child := range h.children(api.Serving) {
		if child.GetAnnotations()[api.PausedAnnotation] == "true" {
			out = append(out, child.GetName())
		}
	}
	return strings.Join(out, " ")
}

// TestPause holds that a pause reaches all children at once, keeps the templates, the hand-made changes and the deselected children of the
// clusters, also across a restart of the manager, and that the rollout continues afterwards.
func TestPause(t *testing.T) {
	h := runningFleet(t, oneByOne)
	h.setSpec(`{"serving": {"spec": {"version": "1.23"}}}`)
	h.pass()
	h.becomeReady()
	h.changeFleet(annotate(api.PausedAnnotation, "true"))
	h.settle()
	h.restart()
	h.settle()
	if got := h.paused(); got != "c1 c2 c3" {
		t.Errorf("%q are paused, want every child", got)
	}
	if got, want := h.versions(), "c1=1.23 c2=1.22 c3=1.22"; got != want {
		t.Errorf("the children have %s, want %s", got, want)
	}
	h.shows("Ready=False/Paused", "RolledOut=False/Paused")
	h.change("c1", func(c *unstructured.Unstructured) {
		_ = unstructured.SetNestedField(c.Object, "1.21", "spec", "version")
	})
	h.setSpec(`{"selector": {"matchLabels": {"env": "none"}}}`)
	if writes := h.pass(); slices.ContainsFunc(writes, func(w string) bool { return !strings.HasPrefix(w, "patch knativefleets/status") }) {
		t.Errorf("during the pause the writes are %q", writes)
	}
	h.shows("RemovalHeld=True/Paused")
	if held := h.status().Rollout.Held; held != 3 {
		t.Errorf("the removal of %d clusters is held, want 3", held)
	}
	h.setSpec(`{"selector": {}}`)
	h.changeFleet(annotate(api.PausedAnnotation, ""))
	for range 8 {
		h.pass()
		h.becomeReady()
	}
	h.settle()
	if got, want := h.versions(), "c1=1.23 c2=1.23 c3=1.23"; got != want || h.paused() != "" {
		t.Errorf("after the pause the children have %s, want %s; %q are paused", got, want, h.paused())
	}
	h.shows("Ready=True/Ready")
}

// TestPauseOfAUser holds that the end of the pause of a KnativeFleet does not end the pause that a user gave a child.
func TestPauseOfAUser(t *testing.T) {
	h := runningFleet(t, allClusters)
	h.change("c2", annotate(api.PausedAnnotation, "true"))
	h.changeFleet(annotate(api.PausedAnnotation, "true"))
	h.settle()
	h.shows("Ready=True/Ready") // every cluster has the revision
	h.changeFleet(annotate(api.PausedAnnotation, ""))
	h.settle()
	if got := h.paused(); got != "c2" {
		t.Errorf("%q are paused, want c2", got)
	}
}

// TestPauseWithAProblem holds that a template which cannot be read does not keep a pause from the children.
func TestPauseWithAProblem(t *testing.T) {
	h := runningFleet(t, allClusters)
	h.setSpec(`{"serving": {"spec": {"clusterProfileRef": {"name": "c1"}}}}`)
	h.changeFleet(annotate(api.PausedAnnotation, "true"))
	h.settle()
	if got := h.paused(); got != "c1 c2 c3" {
		t.Errorf("%q are paused, want every child", got)
	}
	h.shows("RolledOut=False/InvalidSpec")
}
