// Copyright Contributors to the Open Cluster Management project

package rendering

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	addonlisters "open-cluster-management.io/api/client/addon/listers/addon/v1beta1"
	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"
	sdkv1beta1 "open-cluster-management.io/sdk-go/pkg/apis/cluster/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/rollout"
)

// reports implements Reports by the names of resources.
type reports map[string]rollout.Report

func (r reports) Report(name types.NamespacedName) (rollout.Report, bool) {
	report, ok := r[name.Name]
	return report, ok
}

// conditions are the conditions of a resource, by type.
type conditions map[string]metav1.ConditionStatus

// testDirect returns KnativeServing fleet/NAME of KnativeFleet fleet/web, installed without a work agent. A condition with status True
// names the rendering of the turn.
func testDirect(name, turn string, has conditions, at time.Time) *unstructured.Unstructured {
	u := testConfig("web", nil)
	u.SetName(name)
	u.SetResourceVersion("1")
	u.SetFinalizers([]string{api.DirectFinalizer})
	u.Object["spec"] = map[string]any{"clusterProfileRef": map[string]any{"namespace": "fleet", "name": name}}
	if turn != "" {
		u.SetAnnotations(map[string]string{api.RenderingTurnAnnotation: turn})
	}
	var list []any
	for kind, status := range has {
		message := ""
		if status == metav1.ConditionTrue {
			message = rollout.RunningMessage(turn)
		}
		list = append(list, map[string]any{
			"type": kind, "status": string(status), "reason": "r", "message": message, "lastTransitionTime": at.UTC().Format(time.RFC3339),
		})
	}
	u.Object["status"] = map[string]any{"conditions": list}
	return u
}

// TestReadDirectMember holds the phase of a cluster without a work agent.
func TestReadDirectMember(t *testing.T) {
	at, now := time.Unix(1000, 0), time.Unix(2000, 0)
	const waits, delivers, runs = metav1.ConditionFalse, metav1.ConditionUnknown, metav1.ConditionTrue
	waiting, has := &rollout.Report{Rendering: "r2", Waits: true}, &rollout.Report{Rendering: "r2"}
	failing := &rollout.Report{Rendering: "r2", Waits: true, FailingSince: at}
	for name, tc := range map[string]struct {
		report     *rollout.Report
		turn       string
		conditions conditions
		want       rollout.Phase
		since      time.Time
		pending    bool
	}{
		"before the first pass of this process": {
			conditions: conditions{api.RenderingCurrent: runs, api.TargetClusterResolved: metav1.ConditionTrue}, want: rollout.Progressing, since: now, pending: true,
		},
		"before the first pass, an unreachable cluster": {conditions: conditions{api.TargetClusterResolved: metav1.ConditionFalse}, want: rollout.Skipped},
		"before the first pass, an unreachable cluster that had a turn": {
			turn: "r1", conditions: conditions{api.TargetClusterResolved: metav1.ConditionFalse}, want: rollout.Progressing, since: now, pending: true,
		},
		"before the first pass, a new resource":      {want: rollout.Skipped},
		"a pause, a fault or an unreachable cluster": {report: &rollout.Report{}, conditions: conditions{api.RenderingCurrent: waits}, want: rollout.Skipped},
		"a cluster that waits":                       {report: waiting, conditions: conditions{api.RenderingCurrent: runs}, want: rollout.Waiting},
		"a cluster that waits after an earlier turn": {report: waiting, turn: "r1", conditions: conditions{api.RenderingCurrent: runs}, want: rollout.Waiting},
		"the turn was given a moment ago":            {report: waiting, turn: "r2", conditions: conditions{api.RenderingCurrent: waits}, want: rollout.Progressing, since: now},
		"every pass since the turn fails":            {report: failing, turn: "r2", conditions: conditions{api.RenderingCurrent: waits}, want: rollout.Progressing, since: at},
		"the rendering is being delivered":           {report: has, turn: "r2", conditions: conditions{api.RenderingCurrent: delivers}, want: rollout.Progressing, since: at},
		"the cluster runs the rendering": {
			report: has, turn: "r2", conditions: conditions{api.RenderingCurrent: runs, api.Ready: metav1.ConditionTrue}, want: rollout.Succeeded, since: at,
		},
		"the cluster fails after the rendering ran": {
			report: has, turn: "r2", conditions: conditions{api.RenderingCurrent: runs, api.Ready: metav1.ConditionFalse}, want: rollout.Progressing, since: at,
		},
		"a cluster that became unreachable after the rendering ran": {
			report: has, turn: "r2", conditions: conditions{api.RenderingCurrent: runs, api.Ready: metav1.ConditionFalse, api.TargetClusterResolved: metav1.ConditionFalse},
			want: rollout.Skipped,
		},
		"a cluster that became unreachable before the rendering ran": {
			report: has, turn: "r2", conditions: conditions{api.RenderingCurrent: delivers, api.TargetClusterResolved: metav1.ConditionFalse}, want: rollout.Progressing, since: at,
		},
		"a cluster that got the rendering without a turn, and fails": {
			report: has, turn: "r1", conditions: conditions{api.RenderingCurrent: runs, api.Ready: metav1.ConditionFalse}, want: rollout.Skipped,
		},
	} {
		t.Run(name, func(t *testing.T) {
			known := reports{}
			if tc.report != nil {
				known["c1"] = *tc.report
			}
			r := &Reconciler{Direct: map[api.Component]Reports{api.Serving: known}, Clock: testclock.NewFakePassiveClock(now)}
			m, err := r.readDirectMember(api.Serving, testDirect("c1", tc.turn, tc.conditions, at))
			if err != nil || m.Phase != tc.want || !m.Since.Equal(tc.since) || m.pending != tc.pending {
				t.Errorf("the member is %+v, the error %v", m, err)
			}
		})
	}
}

// TestRolloutOfDirect holds which strategy applies to a cluster without a work agent.
func TestRolloutOfDirect(t *testing.T) {
	fleet := &rollout.Selection{Groups: map[string]sdkv1beta1.GroupKey{"c1": {GroupName: "north"}}}
	single := testDirect("c1", "", nil, time.Time{})
	single.SetOwnerReferences(nil)
	immediate := single.DeepCopy()
	immediate.SetAnnotations(map[string]string{api.RenderingAnnotation: api.RenderingImmediate})
	for name, tc := range map[string]struct {
		config           *unstructured.Unstructured
		key, name, group string
		immediate        bool
	}{
		"a child of a KnativeFleet":      {config: testDirect("c1", "", nil, time.Time{}), key: "KnativeFleet fleet/web", name: "c1", group: "north"},
		"a resource without an owner":    {config: single, key: "namespace fleet", name: "fleet/c1"},
		"a resource with the annotation": {config: immediate, key: "namespace fleet", name: "fleet/c1", immediate: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Reconciler{
				Direct: map[api.Component]Reports{api.Serving: reports{"c1": {}}}, Clock: testclock.NewFakePassiveClock(time.Unix(1, 0)),
				Selection: func(types.NamespacedName) (*rollout.Selection, error) { return fleet, nil },
			}
			m, err := r.readDirectMember(api.Serving, tc.config)
			if err != nil {
				t.Fatal(err)
			}
			g := &gatherer{
				Reconciler: r, component: api.Serving, fleets: map[types.NamespacedName]*rollout.Selection{},
				placements: []placement{{key: "Placement fleet/all", groups: map[string]sdkv1beta1.GroupKey{"c1": {}, "fleet/c1": {}}}},
			}
			of, err := g.rolloutOf(m)
			if err != nil || of.key != tc.key || m.Name != tc.name || m.Group.GroupName != tc.group || m.immediate != tc.immediate {
				t.Errorf("the rollout is %+v, the member %+v, the error %v", of, m, err)
			}
		})
	}
}

// directHub is a hub with KnativeFleet fleet/web of clusters without a work agent.
type directHub struct {
	*Reconciler
	client  *dynamicfake.FakeDynamicClient
	reports reports
}

func newDirectHub(t *testing.T, strategy clusterv1alpha1.RolloutStrategy, names ...string) *directHub {
	t.Helper()
	h := &directHub{reports: reports{}}
	groups := map[string]sdkv1beta1.GroupKey{}
	var objects []runtime.Object
	for _, name := range names {
		groups[name], h.reports[name] = sdkv1beta1.GroupKey{}, rollout.Report{Rendering: "r2", Waits: true}
		objects = append(objects, testDirect(name, "", conditions{api.RenderingCurrent: metav1.ConditionFalse}, time.Now()))
	}
	h.client = dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{api.Serving.Resource(): "KnativeServingList"}, objects...)
	h.Reconciler = &Reconciler{
		AddOns:      addonlisters.NewManagedClusterAddOnLister(cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})),
		Definitions: addonlisters.NewClusterManagementAddOnLister(cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})),
		Direct:      map[api.Component]Reports{api.Serving: h.reports}, ConfigClient: h.client, Clock: testclock.NewFakePassiveClock(time.Now()),
		Selection: func(types.NamespacedName) (*rollout.Selection, error) {
			return &rollout.Selection{Strategy: strategy, Groups: groups}, nil
		},
	}
	return h
}

// turns runs a pass, and returns the clusters that had their turn.
func (h *directHub) turns(t *testing.T) (turns []string, requeued bool) {
	t.Helper()
	result, err := h.pass(t)
	if err != nil {
		t.Fatal(err)
	}
	return h.listTurns(t), result.RequeueAfter > 0
}

// pass runs a pass with a cache that is up to date.
func (h *directHub) pass(t *testing.T) (reconcile.Result, error) {
	t.Helper()
	list, err := h.client.Resource(api.Serving.Resource()).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	for i := range list.Items {
		if err := indexer.Add(&list.Items[i]); err != nil {
			t.Fatal(err)
		}
	}
	h.Configs = map[api.Component]cache.GenericLister{api.Serving: cache.NewGenericLister(indexer, api.Serving.Resource().GroupResource())}
	return h.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: api.Serving.AddOnName()}})
}

// listTurns returns the names of the clusters that had their turn, sorted.
func (h *directHub) listTurns(t *testing.T) []string {
	t.Helper()
	list, err := h.client.Resource(api.Serving.Resource()).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for i := range list.Items {
		if list.Items[i].GetAnnotations()[api.RenderingTurnAnnotation] == "r2" {
			out = append(out, list.Items[i].GetName())
		}
	}
	slices.Sort(out)
	return out
}

// delivers sets the state of cluster c1 after its turn.
func (h *directHub) delivers(t *testing.T, current metav1.ConditionStatus, since time.Time) {
	t.Helper()
	h.reports["c1"] = rollout.Report{Rendering: "r2"}
	if err := h.client.Tracker().Update(api.Serving.Resource(), testDirect("c1", "r2", conditions{api.RenderingCurrent: current}, since), "fleet"); err != nil {
		t.Fatal(err)
	}
}

// TestDirectTurns holds that the clusters of a KnativeFleet have their turns by its strategy, and that nothing is decided at rest.
func TestDirectTurns(t *testing.T) {
	strategy := clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.Progressive, Progressive: &clusterv1alpha1.RolloutProgressive{
		MaxConcurrency: intstr.FromInt32(1), RolloutConfig: clusterv1alpha1.RolloutConfig{ProgressDeadline: "10m"},
	}}
	for name, tc := range map[string]struct {
		step func(*testing.T, *directHub)
		want int
	}{
		"the first cluster gets the rendering": {func(t *testing.T, h *directHub) { t.Helper(); h.delivers(t, metav1.ConditionUnknown, time.Now()) }, 1},
		"the first cluster runs the rendering": {func(t *testing.T, h *directHub) {
			t.Helper()
			h.delivers(t, metav1.ConditionTrue, time.Now().Add(-time.Minute))
		}, 2},
		"the first cluster fails": {func(t *testing.T, h *directHub) {
			t.Helper()
			h.delivers(t, metav1.ConditionUnknown, time.Now().Add(-time.Hour))
		}, 1},
		"the manager has not read c3 yet": {func(t *testing.T, h *directHub) {
			t.Helper()
			h.delivers(t, metav1.ConditionTrue, time.Now().Add(-time.Minute))
			c3 := testDirect("c3", "", conditions{api.TargetClusterResolved: metav1.ConditionTrue, api.RenderingCurrent: metav1.ConditionFalse}, time.Now())
			if err := h.client.Tracker().Update(api.Serving.Resource(), c3, "fleet"); err != nil {
				t.Fatal(err)
			}
			delete(h.reports, "c3")
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			h := newDirectHub(t, strategy, "c1", "c2", "c3")
			if turns, requeued := h.turns(t); len(turns) != 1 || turns[0] != "c1" || !requeued {
				t.Fatalf("the first pass gives turns to %q, requeued: %t", turns, requeued)
			}
			tc.step(t, h)
			if turns, _ := h.turns(t); len(turns) != tc.want {
				t.Errorf("the second pass has given turns to %q, want %d", turns, tc.want)
			}
		})
	}
	h := newDirectHub(t, strategy, "c1")
	h.delivers(t, metav1.ConditionTrue, time.Now())
	if _, requeued := h.turns(t); requeued {
		t.Error("the controller is not at rest")
	}
}

// TestFirstPassFails holds that a resource without a report, whose every pass fails, takes its place since the first of these passes.
func TestFirstPassFails(t *testing.T) {
	r := &Reconciler{Direct: map[api.Component]Reports{api.Serving: failingReports{time.Unix(500, 0)}}, Clock: testclock.NewFakePassiveClock(time.Unix(2000, 0))}
	m, err := r.readDirectMember(api.Serving, testDirect("c1", "", conditions{api.TargetClusterResolved: metav1.ConditionTrue}, time.Unix(1000, 0)))
	if err != nil || m.Phase != rollout.Progressing || !m.Since.Equal(time.Unix(500, 0)) {
		t.Errorf("the member is %+v, the error %v", m, err)
	}
}

// failingReports are the reports of a process whose every pass has failed since a time.
type failingReports struct{ since time.Time }

func (f failingReports) Report(types.NamespacedName) (rollout.Report, bool) {
	return rollout.Report{FailingSince: f.since}, false
}

// TestNamespacesAreSeparate holds that resources of one namespace neither widen nor stop the rollout of another namespace.
func TestNamespacesAreSeparate(t *testing.T) {
	strategy := clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.Progressive, Progressive: &clusterv1alpha1.RolloutProgressive{
		MaxConcurrency: intstr.FromString("25%"), RolloutConfig: clusterv1alpha1.RolloutConfig{ProgressDeadline: "10m"},
	}}
	names := []string{"c1", "c2", "c3", "c4"}
	h := newDirectHub(t, strategy, names...)
	h.Default = strategy
	for _, name := range names {
		h.add(t, "fleet", name, "", conditions{api.RenderingCurrent: metav1.ConditionFalse})
	}
	for n := range 12 {
		name := fmt.Sprintf("other%d", n)
		h.reports[name] = rollout.Report{}
		h.add(t, "others", name, "", conditions{api.TargetClusterResolved: metav1.ConditionFalse})
	}
	h.reports["broken"] = rollout.Report{Rendering: "r2"}
	h.add(t, "others", "broken", "r2", conditions{api.RenderingCurrent: metav1.ConditionUnknown})
	if turns, _ := h.turns(t); !slices.Equal(turns, []string{"broken", "c1"}) {
		t.Errorf("%q have the turn", turns)
	}
}

// TestUnreadableStatus holds that a resource whose status cannot be read does not keep the turn from the clusters of other namespaces.
func TestUnreadableStatus(t *testing.T) {
	h := newDirectHub(t, clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.All}, "c1")
	broken := testDirect("broken", "", conditions{api.RenderingCurrent: metav1.ConditionFalse}, time.Now())
	broken.SetNamespace("others")
	broken.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": api.RenderingCurrent, "status": "False", "lastTransitionTime": "never"}}}
	if err := h.client.Tracker().Add(broken); err != nil {
		t.Fatal(err)
	}
	if turns, _ := h.turns(t); !slices.Equal(turns, []string{"c1"}) {
		t.Errorf("%q have the turn, want c1", turns)
	}
}

// add creates or replaces a resource without a KnativeFleet, whose conditions are an hour old.
func (h *directHub) add(t *testing.T, namespace, name, turn string, has conditions) {
	t.Helper()
	u := testDirect(name, turn, has, time.Now().Add(-time.Hour))
	u.SetOwnerReferences(nil)
	u.SetNamespace(namespace)
	resource := h.client.Tracker()
	if err := resource.Update(api.Serving.Resource(), u, namespace); err != nil {
		if err := resource.Add(u); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFailedTurn holds that a cluster whose turn cannot be recorded does not keep the turn from other clusters.
func TestFailedTurn(t *testing.T) {
	h := newDirectHub(t, clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.All}, "c1", "c2", "c3")
	h.client.PrependReactor("patch", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		patch, isPatch := action.(clienttesting.PatchAction)
		return isPatch && patch.GetName() == "c1", nil, errRefused
	})
	_, err := h.pass(t)
	if diff := cmp.Diff([]string{"c2", "c3"}, h.listTurns(t)); diff != "" || !errors.Is(err, errRefused) {
		t.Errorf("turns (-want +got):\n%s\nthe error is %v", diff, err)
	}
}

var errRefused = errors.New("refused by an admission webhook")

// TestMixedRollout holds that clusters of both deliveries share the places of one rollout.
func TestMixedRollout(t *testing.T) {
	h := newDirectHub(t, clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.Progressive, Progressive: &clusterv1alpha1.RolloutProgressive{
		MaxConcurrency: intstr.FromInt32(1), RolloutConfig: clusterv1alpha1.RolloutConfig{ProgressDeadline: "1h"},
	}}, "c2")
	a := testAddOn("cluster1")
	h.Bundles, h.Targets, h.Pauses = pendingBundles{}, pendingBundles{}, pendingBundles{} // cluster1 takes a place
	managed := testConfig("web", nil)
	managed.SetResourceVersion("1")
	if err := h.client.Tracker().Add(managed); err != nil {
		t.Fatal(err)
	}
	addOns := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	if err := addOns.Add(a); err != nil {
		t.Fatal(err)
	}
	h.AddOns = addonlisters.NewManagedClusterAddOnLister(addOns)
	if turns, _ := h.turns(t); len(turns) > 0 {
		t.Errorf("%q have the turn while cluster1 makes progress", turns)
	}
	if err := addOns.Delete(a); err != nil {
		t.Fatal(err)
	}
	if turns, _ := h.turns(t); len(turns) != 1 {
		t.Errorf("%q have the turn", turns)
	}
}

// TestDirectEvents holds that a condition of a resource without a work agent starts a pass, and that the copy of the condition of an
// add-on does not.
func TestDirectEvents(t *testing.T) {
	config := testDirect("c1", "", conditions{api.RenderingCurrent: metav1.ConditionFalse}, time.Now())
	if !startsPass(nil, config) {
		t.Error("the condition of a resource starts no pass")
	}
	config.SetFinalizers([]string{api.InstallFinalizer})
	if startsPass(nil, config) {
		t.Error("the condition of a resource with a work agent starts a pass")
	}
	if startsPass(nil, &addonv1beta1.ManagedClusterAddOn{}) {
		t.Error("an add-on without the condition starts a pass")
	}
}

// TestMayProgress holds that a resource of the Knative Operator on the hub takes no place: no pass ever reports on the resource.
func TestMayProgress(t *testing.T) {
	for reason, want := range map[string]bool{api.ReasonConflict: false, api.ReasonRemoteClusterStale: true} {
		resolved := metav1.Condition{Type: api.TargetClusterResolved, Status: metav1.ConditionFalse, Reason: reason}
		if got := mayProgress([]metav1.Condition{resolved}, "r1"); got != want {
			t.Errorf("with reason %s the cluster takes a place: %t, want %t", reason, got, want)
		}
	}
}
