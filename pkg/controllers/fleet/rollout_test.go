// Copyright Contributors to the Open Cluster Management project

package fleet

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"

	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"
	sdkv1beta1 "open-cluster-management.io/sdk-go/pkg/apis/cluster/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// inPhase returns a cluster in a phase since a time before now.
func inPhase(name string, of phase, ago time.Duration, group ...int32) clusterState {
	out := clusterState{cluster: cluster{name: name}, phase: of, since: time.Now().Add(-ago), updated: of != phaseWaiting}
	if len(group) > 0 {
		out.group = sdkv1beta1.GroupKey{GroupIndex: group[0]}
	}
	return out
}

func progressive(concurrency int, change ...func(*clusterv1alpha1.RolloutProgressive)) clusterv1alpha1.RolloutStrategy {
	p := &clusterv1alpha1.RolloutProgressive{MaxConcurrency: intstr.FromInt(concurrency)}
	for _, c := range change {
		c(p)
	}
	return clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.Progressive, Progressive: p}
}

func TestPlanRollout(t *testing.T) {
	const waiting, progressing, succeeded, failed, skipped = phaseWaiting, phaseProgressing, phaseSucceeded, phaseFailed, phaseSkipped
	minute := time.Minute
	deadline := func(p *clusterv1alpha1.RolloutProgressive) { p.ProgressDeadline = "10m" }
	oneFailure := func(p *clusterv1alpha1.RolloutProgressive) { p.MaxFailures = intstr.FromInt(1) }
	soak := func(p *clusterv1alpha1.RolloutProgressive) { p.MinSuccessTime = metav1.Duration{Duration: 10 * minute} }
	perGroup := clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.ProgressivePerGroup}

	for name, tc := range map[string]struct {
		strategy clusterv1alpha1.RolloutStrategy
		clusters []clusterState
		update   []string
		stopped  bool
		timedOut []string
		recheck  bool
		problem  bool
	}{
		"without a strategy all clusters get the revision at once": {
			clusters: []clusterState{inPhase("a", waiting, 0), inPhase("b", progressing, minute), inPhase("c", waiting, 0)}, update: []string{"a", "c"},
		},
		"a failure does not stop strategy All": {
			strategy: clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.All},
			clusters: []clusterState{inPhase("a", failed, 0), inPhase("b", waiting, 0), inPhase("c", waiting, 0)}, update: []string{"b", "c"},
		},
		"maxConcurrency bounds the first wave": {
			strategy: progressive(2), clusters: []clusterState{inPhase("a", waiting, 0), inPhase("b", waiting, 0), inPhase("c", waiting, 0)}, update: []string{"a", "b"},
		},
		"a progressing cluster holds its place": {
			strategy: progressive(1), clusters: []clusterState{inPhase("a", progressing, minute), inPhase("b", waiting, 0)},
		},
		"a cluster that has succeeded gives its place": {
			strategy: progressive(1), clusters: []clusterState{inPhase("a", succeeded, minute), inPhase("b", waiting, 0)}, update: []string{"b"},
		},
		"minSuccessTime holds the place of a cluster that has succeeded": {
			strategy: progressive(1, soak), clusters: []clusterState{inPhase("a", succeeded, minute), inPhase("b", waiting, 0)}, recheck: true,
		},
		"a skipped cluster holds no place": {
			strategy: progressive(1), clusters: []clusterState{inPhase("a", skipped, minute), inPhase("b", waiting, 0)}, update: []string{"b"},
		},
		"a failed cluster stops the rollout": {
			strategy: progressive(1), clusters: []clusterState{inPhase("a", failed, minute), inPhase("b", waiting, 0)}, stopped: true,
		},
		"a permitted failure holds no place": {
			strategy: progressive(1, oneFailure), clusters: []clusterState{inPhase("a", failed, minute), inPhase("b", waiting, 0)}, update: []string{"b"},
		},
		"progressDeadline makes a cluster a failure": {
			strategy: progressive(1, deadline), clusters: []clusterState{inPhase("a", progressing, time.Hour), inPhase("b", waiting, 0)}, timedOut: []string{"a"},
			stopped: true,
		},
		"within progressDeadline the plan is made again at the deadline": {
			strategy: progressive(1, deadline), clusters: []clusterState{inPhase("a", progressing, minute), inPhase("b", waiting, 0)}, recheck: true,
		},
		"a group waits for the group before": {
			strategy: perGroup, clusters: []clusterState{inPhase("a", progressing, minute, 0), inPhase("b", waiting, 0, 0), inPhase("c", waiting, 0, 1)}, update: []string{"b"},
		},
		"the next group follows a complete group": {
			strategy: perGroup, clusters: []clusterState{inPhase("a", succeeded, minute, 0), inPhase("b", skipped, 0, 0), inPhase("c", waiting, 0, 1)}, update: []string{"c"},
		},
		"a failed cluster stops the next group": {
			strategy: perGroup, clusters: []clusterState{inPhase("a", failed, minute, 0), inPhase("b", waiting, 0, 1)}, stopped: true,
		},
		"a strategy that OCM does not know is a problem": {
			strategy: clusterv1alpha1.RolloutStrategy{Type: "Someday"}, clusters: []clusterState{inPhase("a", waiting, 0)}, problem: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			plan, no := planRollout(tc.strategy, tc.clusters)
			if (no != nil) != tc.problem {
				t.Fatalf("the problem is %v", no)
			}
			if diff := cmp.Diff(tc.update, nilIfEmpty(sets.List(plan.update))); diff != "" {
				t.Errorf("updated clusters (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.timedOut, namesIn(tc.clusters, phaseTimedOut)); diff != "" {
				t.Errorf("clusters beyond the deadline (-want +got):\n%s", diff)
			}
			if plan.stopped != tc.stopped || (plan.recheck > 0) != tc.recheck {
				t.Errorf("the plan is %+v", plan)
			}
		})
	}
}

func nilIfEmpty(names []string) []string {
	if len(names) == 0 {
		return nil
	}
	return names
}

// TestRolloutInWaves drives a rollout over 40 clusters to its end: never more than the permitted clusters progress at a time, and every
// cluster gets the revision once.
func TestRolloutInWaves(t *testing.T) {
	const concurrency = 7
	clusters := manyClusters(40)
	for i := range clusters {
		clusters[i].phase = phaseWaiting
	}
	var updated []string
	for range 2 * len(clusters) {
		plan, no := planRollout(progressive(concurrency), clusters)
		if no != nil {
			t.Fatal(no.message)
		}
		running := 0
		for i := range clusters {
			c := &clusters[i]
			switch {
			case plan.update.Has(c.name):
				updated = append(updated, c.name)
				c.phase, c.since = phaseProgressing, time.Now().Add(-time.Minute)
				running++
			case c.phase == phaseProgressing:
				running++
				if i%2 == 0 || len(plan.update) == 0 { // clusters finish at different times
					c.phase = phaseSucceeded
				}
			}
		}
		if running > concurrency {
			t.Fatalf("%d clusters progress at a time", running)
		}
	}
	slices.Sort(updated)
	if got := len(slices.Compact(updated)); got != 40 || len(updated) != 40 {
		t.Errorf("%d clusters got the revision, %d times in all", got, len(updated))
	}
}

// completedTemplates is a History that counts the templates that a cluster has run.
type completedTemplates struct {
	History

	completed int
}

// Record implements History.
func (*completedTemplates) Record(context.Context, *unstructured.Unstructured) error { return nil }

// MarkCompleted implements History.
func (c *completedTemplates) MarkCompleted(context.Context, *unstructured.Unstructured, string) (bool, error) {
	c.completed++
	return true, nil
}

// ownedByShop lists the KnativeServings with annotation owner of the value shop.
func (h *fakeHub) ownedByShop() string {
	h.t.Helper()
	var out []string
	for _, child := range h.children(api.Serving) {
		if child.GetAnnotations()["owner"] == "shop" {
			out = append(out, child.GetName())
		}
	}
	return strings.Join(out, " ")
}

// TestMetadataChangeInWaves holds that a change of annotations alone, which keeps the generation of the children, waits for a status that describes
// the change, whatever the last status said.
func TestMetadataChangeInWaves(t *testing.T) {
	const change = `{"serving": {"spec": {"version": "1.22"}, "metadata": {"annotations": {"owner": "shop"}}}}`
	for name, conditions := range map[string][]string{
		"a Ready cluster":       {"Ready=True/Ready"},
		"an unresolved cluster": {"Ready=False/ExistingInstallation", "TargetClusterResolved=False/ExistingInstallation"},
		"an absent cluster":     {"Ready=False/RemoteClusterStale", "TargetClusterResolved=False/RemoteClusterStale"},
		"a refused spec":        {"Ready=False/UnknownVersion", "InstallSucceeded=False/UnknownVersion", "TargetClusterResolved=True/TargetResolved"},
	} {
		t.Run(name, func(t *testing.T) {
			h := runningFleet(t, oneByOne)
			history := &completedTemplates{}
			h.r.History = history
			h.setSpec(change)
			h.pass()
			h.change("c1", func(c *unstructured.Unstructured) { // the last status, of the generation and without the revision
				described := c.Object["status"].(map[string]any)["annotations"] //nolint:forcetypeassert // a status of setConditions
				setConditions(c, h.clock.Now(), conditions...)
				c.Object["status"].(map[string]any)["annotations"] = described //nolint:forcetypeassert // a status of setConditions
			})
			h.settle()
			if got := h.ownedByShop(); got != "c1" {
				t.Errorf("before a status describes the change %q have the change, want c1", got)
			}
			h.shows("RolledOut=False/Progressing")
			if history.completed != 0 {
				t.Errorf("the history says that a cluster has run the templates")
			}
			h.report("c1", "Ready=True/Ready")
			h.pass()
			if got := h.ownedByShop(); got != "c1 c2" {
				t.Errorf("after the first cluster %q have the change, want c1 and c2", got)
			}
		})
	}
}

// TestStatusOfEarlierVersion holds that children whose status has no revision, as an earlier version of the manager writes, count by their conditions
// until this process writes the child.
func TestStatusOfEarlierVersion(t *testing.T) {
	h := runningFleet(t, oneByOne)
	dropRevision := func(c *unstructured.Unstructured) { unstructured.RemoveNestedField(c.Object, "status", "annotations") }
	for _, child := range h.children(api.Serving) {
		h.change(child.GetName(), dropRevision)
	}
	h.restart()
	if writes := h.pass(); len(writes) > 0 {
		t.Errorf("after the upgrade the writes are %q", writes)
	}
	h.setSpec(`{"serving": {"spec": {"version": "1.22"}, "metadata": {"annotations": {"owner": "shop"}}}}`)
	h.settle()
	if got := h.ownedByShop(); got != "c1" {
		t.Errorf("before a status describes the change %q have the change, want c1", got)
	}
}
