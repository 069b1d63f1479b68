// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
)

// olderRevision is a commit from before renderings in waves and verifications, whose manager keeps what only a newer manager knows.
const olderRevision = "ad208a7404e538c1d6a78f58a098007881f87b2e"

// TestOlderManager downgrades the chart and the manager to an older revision of this repository, which the test builds, and upgrades both
// again. The older manager keeps the records of the newer one, restarts no pod, and delivers an edit in both modes.
func TestOlderManager(t *testing.T) {
	startNightlyStory(t)
	older, err := harness.BuildRevision(t.Context(), olderRevision, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	n := newNewerManager(t)
	n.installBoth(t)

	t.Run("a downgrade keeps records and pods", func(t *testing.T) {
		n.keepAcross(t, func() error { return n.Downgrade(t.Context(), older) })
	})
	t.Run("the older manager delivers an edit", func(t *testing.T) {
		records := n.records(t)
		for _, w := range n.ways() {
			w.spec(t, map[string]any{"version": "1.23"})
		}
		for _, w := range n.ways() {
			eventually(t, w.Name+" runs the version", 3*time.Minute, w.spoke.runs("1.23."))
		}
		n.awaitReady(t, verdicts{})
		n.checkRecords(t, records)
	})
	t.Run("an upgrade keeps records and pods", func(t *testing.T) {
		n.keepAcross(t, func() error { return n.Upgrade(t.Context()) })
	})
	for _, w := range n.ways() {
		w.delete(t)
		w.gone(t, api.Serving, w.Name)
		w.emptied(t)
	}
}

// keepAcross replaces the manager, and holds that no object loses a record, that no pod restarts, and that both resources are Ready.
func (n newerManager) keepAcross(t *testing.T, replaceManager func() error) {
	t.Helper()
	records, pods := n.records(t), n.pods(t)
	if err := replaceManager(); err != nil {
		t.Fatal(err)
	}
	n.awaitReady(t, verdicts{})
	n.checkRecords(t, records)
	if diff := cmp.Diff(pods, n.pods(t)); diff != "" {
		t.Errorf("pods were restarted (-before +after):\n%s", diff)
	}
}

// checkRecords holds that no object has lost one of the records.
func (n newerManager) checkRecords(t *testing.T, records []string) {
	t.Helper()
	if len(records) == 0 {
		t.Fatal("no object has a record")
	}
	now := n.records(t)
	if lost := slices.DeleteFunc(records, func(record string) bool { return slices.Contains(now, record) }); len(lost) > 0 {
		t.Errorf("lost:\n%s", strings.Join(lost, "\n"))
	}
}

func (n newerManager) pods(t *testing.T) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for _, w := range n.ways() {
		out[w.Name] = runningPods(t, w.spoke)
	}
	return out
}

// records lists the keys of annotations and labels, the finalizers and the types of conditions of each object that the manager writes.
func (n newerManager) records(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, o := range n.objects(t) {
		u := o.read(t.Context(), t)
		for field, values := range map[string]map[string]string{"annotation": u.GetAnnotations(), "label": u.GetLabels()} {
			for key := range values {
				out = append(out, fmt.Sprintf("%s of %s: %s", field, o, key))
			}
		}
		for _, finalizer := range u.GetFinalizers() {
			out = append(out, fmt.Sprintf("finalizer of %s: %s", o, finalizer))
		}
		conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
		for _, c := range conditions {
			if condition, ok := c.(map[string]any); ok && o.hasConditions() {
				out = append(out, fmt.Sprintf("condition of %s: %s", o, condition["type"]))
			}
		}
	}
	return out
}
