// Copyright Contributors to the Open Cluster Management project

package knative

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/workload"
)

// recordedCompletions records completions of specs.
type recordedCompletions struct {
	known   bool
	entries []string
}

func (c *recordedCompletions) MarkCompleted(_ context.Context, config *unstructured.Unstructured, cluster string) (bool, error) {
	c.entries = append(c.entries, fmt.Sprintf("%s/%s by %s", config.GetNamespace(), config.GetName(), cluster))
	return c.known, nil
}

// TestDirectCompletion holds that a cluster which runs the whole spec is recorded, and no other cluster.
func TestDirectCompletion(t *testing.T) {
	for name, tc := range map[string]struct {
		known   bool
		change  func(*directFixture)
		entries []string
		retry   time.Duration
	}{
		"every workload runs": {true, func(*directFixture) {}, []string{"knative-serving/self by the hub"}, 0},
		"the history has no revision yet": {
			false, func(*directFixture) {}, []string{"knative-serving/self by the hub"}, completionRetry,
		},
		"a workload does not run": {true, func(w *directFixture) {
			w.bundle.Workloads = []workload.Expected{{Kind: "Deployment", Namespace: "knative-serving", Name: "activator"}}
		}, nil, 0},
		"the spec is refused": {true, func(w *directFixture) { w.specError = &render.Error{} }, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newRenderingFixture(t)
			w.deliverRendering()
			tc.change(w)
			c := &recordedCompletions{known: tc.known}
			w.d.Completions = c
			result, err := w.reconcile()
			if err != nil || result.RequeueAfter != tc.retry || !slices.Equal(c.entries, tc.entries) {
				t.Errorf("got %q, %v, %v, want %q after %s", c.entries, result, err, tc.entries, tc.retry)
			}
		})
	}
}
