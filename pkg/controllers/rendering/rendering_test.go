// Copyright Contributors to the Open Cluster Management project

package rendering

import (
	"context"
	"strings"
	"testing"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"
	sdkv1beta1 "open-cluster-management.io/sdk-go/pkg/apis/cluster/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/resolve"
	"open-cluster-management.io/knative-addon/pkg/rollout"
)

func TestParseStrategy(t *testing.T) {
	for name, tc := range map[string]struct {
		text    string
		refused bool
	}{
		"a strategy of OCM":  {text: `{"type":"Progressive","progressive":{"maxConcurrency":"25%","progressDeadline":"10m"}}`},
		"all at once":        {text: `{"type":"All"}`},
		"an unknown field":   {text: `{"type":"All","waves":3}`, refused: true},
		"an unknown type":    {text: `{"type":"Slow"}`, refused: true},
		"a bad deadline":     {text: `{"type":"Progressive","progressive":{"progressDeadline":"soon"}}`, refused: true},
		"a bad concurrency":  {text: `{"type":"Progressive","progressive":{"maxConcurrency":"many"}}`, refused: true},
		"not even an object": {text: `25%`, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := ParseStrategy(tc.text); (err != nil) != tc.refused {
				t.Errorf("the error is %v, want an error: %t", err, tc.refused)
			}
		})
	}
}

// TestEarlierFailures holds that a cluster which the rollout has not changed does not stop the rollout, and that a cluster which failed after its
// turn does.
func TestEarlierFailures(t *testing.T) {
	at := func(second int64) metav1.Time { return metav1.NewTime(time.Unix(second, 0)) }
	failing := func(ranAt int64) *member {
		m := &member{}
		m.Phase, m.Since = m.phaseOf([]metav1.Condition{
			{Type: api.RenderingCurrent, Status: metav1.ConditionTrue, LastTransitionTime: at(ranAt)},
			{Type: addonv1beta1.ManagedClusterAddOnConditionAvailable, Status: metav1.ConditionFalse, LastTransitionTime: at(500)},
		}, addonv1beta1.ManagedClusterAddOnConditionAvailable, "", time.Unix(2000, 0))
		return m
	}
	waiting := func(since int64) *member {
		m := &member{}
		m.wait([]metav1.Condition{{Type: api.RenderingCurrent, Status: metav1.ConditionFalse, LastTransitionTime: at(since)}})
		return m
	}
	for name, tc := range map[string]struct {
		members []*member
		began   time.Time
		want    rollout.Phase
	}{
		"a failure before the rollout":           {[]*member{failing(10), waiting(1000), waiting(900)}, time.Time{}, rollout.Skipped},
		"a failure after the turn":               {[]*member{failing(950), waiting(1000), waiting(900)}, time.Time{}, rollout.Progressing},
		"a failure after the turn, and a resume": {[]*member{failing(950), waiting(1000)}, time.Unix(900, 0), rollout.Progressing},
		"a failure when no cluster waits yet":    {[]*member{failing(10), {}}, time.Time{}, rollout.Progressing},
	} {
		t.Run(name, func(t *testing.T) {
			skipEarlierFailures(tc.members, tc.began)
			if got := tc.members[0].Phase; got != tc.want {
				t.Errorf("the phase is %d, want %d", got, tc.want)
			}
		})
	}
}

// TestPhaseOf holds which clusters count for a rollout after their turn.
func TestPhaseOf(t *testing.T) {
	now := time.Unix(2000, 0)
	condition := func(kind string, status metav1.ConditionStatus, at int64) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, LastTransitionTime: metav1.NewTime(time.Unix(at, 0))}
	}
	for name, tc := range map[string]struct {
		conditions []metav1.Condition
		// running names the rendering in the message of condition RenderingCurrent, and turn the rendering that the cluster may get.
		running, turn string
		want          rollout.Phase
		since         time.Time
	}{
		"the turn came before the first report of the cluster": {turn: "r2", want: rollout.Progressing, since: now},
		"the turn came while the condition names the rendering before": {
			conditions: []metav1.Condition{condition(api.RenderingCurrent, metav1.ConditionTrue, 10)}, running: "r1", turn: "r2", want: rollout.Progressing, since: now,
		},
		"the cluster runs the rendering of its turn": {
			conditions: []metav1.Condition{condition(api.RenderingCurrent, metav1.ConditionTrue, 10)}, running: "r2", turn: "r2",
			want: rollout.Succeeded, since: time.Unix(10, 0),
		},
		"an edit after the turn": {
			conditions: []metav1.Condition{condition(api.RenderingCurrent, metav1.ConditionTrue, 10)}, running: "r1", turn: "r1",
			want: rollout.Succeeded, since: time.Unix(10, 0),
		},
		"a cluster that never waited": {
			conditions: []metav1.Condition{condition(addonv1beta1.ManagedClusterAddOnConditionAvailable, metav1.ConditionFalse, 10)}, want: rollout.Skipped,
		},
		"the turn was given a moment ago": {
			conditions: []metav1.Condition{condition(api.RenderingCurrent, metav1.ConditionFalse, 10)}, want: rollout.Progressing, since: now,
		},
		"the rendering is being delivered": {
			conditions: []metav1.Condition{condition(api.RenderingCurrent, metav1.ConditionUnknown, 10)}, want: rollout.Progressing, since: time.Unix(10, 0),
		},
		"the cluster runs the rendering": {
			conditions: []metav1.Condition{condition(api.RenderingCurrent, metav1.ConditionTrue, 10)}, want: rollout.Succeeded, since: time.Unix(10, 0),
		},
		"the cluster fails after the rendering ran": {
			conditions: []metav1.Condition{
				condition(api.RenderingCurrent, metav1.ConditionTrue, 10), condition(addonv1beta1.ManagedClusterAddOnConditionAvailable, metav1.ConditionFalse, 20),
			}, want: rollout.Progressing, since: time.Unix(20, 0),
		},
		"the cluster failed before the rendering ran": {
			conditions: []metav1.Condition{
				condition(api.RenderingCurrent, metav1.ConditionTrue, 10), condition(addonv1beta1.ManagedClusterAddOnConditionAvailable, metav1.ConditionFalse, 5),
			}, want: rollout.Progressing, since: time.Unix(10, 0),
		},
	} {
		t.Run(name, func(t *testing.T) {
			if c := apimeta.FindStatusCondition(tc.conditions, api.RenderingCurrent); c != nil && tc.running != "" {
				c.Message = rollout.RunningMessage(tc.running)
			}
			m := &member{rendering: "r2"}
			got, since := m.phaseOf(tc.conditions, addonv1beta1.ManagedClusterAddOnConditionAvailable, tc.turn, now)
			if got != tc.want || !since.Equal(tc.since) {
				t.Errorf("the phase is %d since %s, want %d since %s", got, since, tc.want, tc.since)
			}
		})
	}
}

// pendingBundles implements addon.Bundles for a cluster whose bundle is being rendered, addon.Targets and addon.Pauses.
type pendingBundles struct{}

func (pendingBundles) Bundle(context.Context, *addonv1beta1.ManagedClusterAddOn) (*render.Bundle, error) {
	return nil, &render.Error{Reason: api.FaultRenderPending, Message: "the bundle is being rendered"}
}

func (pendingBundles) OfAddOn(*addonv1beta1.ManagedClusterAddOn) (resolve.Result, error) {
	return resolve.Result{Target: &resolve.Target{}}, nil
}

func (pendingBundles) PausedBy(*addonv1beta1.ManagedClusterAddOn) string { return "" }

// TestPendingBundle holds that a cluster whose bundle is being rendered takes a place in the rollout, and stops no other cluster.
func TestPendingBundle(t *testing.T) {
	r := &Reconciler{
		Bundles: pendingBundles{}, Targets: pendingBundles{}, Pauses: pendingBundles{}, Clock: clock.RealClock{},
	}
	m := r.readMember(t.Context(), testAddOn("cluster1"))
	if !m.pending {
		t.Fatalf("the member is %+v", m)
	}
	for concurrency, want := range map[int]int{1: 0, 2: 1} {
		strategy := clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.Progressive, Progressive: &clusterv1alpha1.RolloutProgressive{
			MaxConcurrency: intstr.FromInt(concurrency), RolloutConfig: clusterv1alpha1.RolloutConfig{ProgressDeadline: "1h"},
		}}
		plan, err := rollout.Determine(strategy, []rollout.Cluster{
			m.Cluster, {Name: "cluster2", Phase: rollout.Waiting}, {Name: "cluster3", Phase: rollout.Waiting},
		})
		if err != nil || plan.Update.Len() != want {
			t.Errorf("with maxConcurrency %d the plan is %+v, the error %v, want %d turns", concurrency, plan, err, want)
		}
	}
}

// TestToleratedFailureIsNoStop holds that no Event reports a stop while the strategy permits the failed clusters, although no cluster gets
// the turn at the moment.
func TestToleratedFailureIsNoStop(t *testing.T) {
	recorder := events.NewFakeRecorder(10)
	r := &Reconciler{Events: recorder}
	o := &clusterRollout{key: "default", definition: &addonv1beta1.ClusterManagementAddOn{ObjectMeta: metav1.ObjectMeta{Name: "knative-serving"}}}
	strategy := clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.Progressive, Progressive: &clusterv1alpha1.RolloutProgressive{
		MaxConcurrency: intstr.FromInt32(1), RolloutConfig: clusterv1alpha1.RolloutConfig{ProgressDeadline: "10m", MaxFailures: intstr.FromInt32(1)},
	}}
	plan, err := rollout.Determine(strategy, []rollout.Cluster{
		{Name: "cluster1", Phase: rollout.Progressing, Since: time.Unix(0, 0)},
		{Name: "cluster2", Phase: rollout.Progressing, Since: time.Now()},
		{Name: "cluster3", Phase: rollout.Waiting},
	})
	if err != nil || plan.Stopped || plan.Update.Len() > 0 || !plan.TimedOut.Has("cluster1") {
		t.Fatalf("the plan is %+v, the error %v", plan, err)
	}
	r.reportStops(api.Serving, map[string]*clusterRollout{o.key: o}, map[string]rollout.Plan{o.key: plan})
	if n := len(recorder.Events); n > 0 {
		t.Errorf("the Event is %q, and the rollout continues", <-recorder.Events)
	}
}

// testConfig returns KnativeServing fleet/default.
func testConfig(owner string, annotations map[string]string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(api.Serving.Resource().GroupVersion().WithKind(api.Serving.Kind()))
	u.SetNamespace("fleet")
	u.SetName("default")
	u.SetAnnotations(annotations)
	if owner != "" {
		u.SetOwnerReferences([]metav1.OwnerReference{{
			APIVersion: fleetv1alpha1.Group + "/" + fleetv1alpha1.Version, Kind: fleetv1alpha1.Kind, Name: owner, UID: "f", Controller: new(true),
		}})
	}
	return u
}

// testBoundConfig returns KnativeServing fleet/default with a reference to a ClusterProfile.
func testBoundConfig() *unstructured.Unstructured {
	u := testConfig("", nil)
	u.Object["spec"] = map[string]any{"clusterProfileRef": map[string]any{"name": "cluster1"}}
	return u
}

func listerOf(t *testing.T, o runtime.Object) cache.GenericLister {
	t.Helper()
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	if err := indexer.Add(o); err != nil {
		t.Fatal(err)
	}
	return cache.NewGenericLister(indexer, schema.GroupResource{Resource: "knativeservings"})
}

// TestRolloutOf holds which strategy applies to a cluster, and which annotations give the turn at once.
func TestRolloutOf(t *testing.T) {
	immediate := map[string]string{api.RenderingAnnotation: api.RenderingImmediate}
	group := sdkv1beta1.GroupKey{GroupName: "canaries"}
	selected := []placement{{key: "Placement fleet/all", groups: map[string]sdkv1beta1.GroupKey{"cluster1": group}}}
	web := &rollout.Selection{Groups: map[string]sdkv1beta1.GroupKey{"cluster1": {GroupName: "north"}}}
	for name, tc := range map[string]struct {
		config     *unstructured.Unstructured
		placements []placement
		definition map[string]string
		selection  *rollout.Selection
		key, group string
		immediate  bool
		// skipped means that the cluster takes no part now.
		skipped bool
	}{
		"no Placement selects the cluster":         {config: testConfig("", nil), key: "default"},
		"a Placement selects the cluster":          {config: testConfig("", nil), placements: selected, key: "Placement fleet/all", group: "canaries"},
		"a KnativeFleet owns the resource":         {config: testConfig("web", nil), placements: selected, selection: web, key: "KnativeFleet fleet/web", group: "north"},
		"a KnativeFleet that cannot be followed":   {config: testConfig("web", nil), placements: selected, key: "KnativeFleet fleet/web", skipped: true},
		"such a KnativeFleet, at once":             {config: testConfig("web", immediate), key: "KnativeFleet fleet/web", immediate: true},
		"a tenant's resource":                      {config: testBoundConfig(), key: "namespace fleet"},
		"a Placement selects a tenant's cluster":   {config: testBoundConfig(), placements: selected, key: "Placement fleet/all", group: "canaries"},
		"the resource has the annotation":          {config: testConfig("", immediate), key: "default", immediate: true},
		"the ClusterManagementAddOn has it":        {config: testConfig("", nil), definition: immediate, key: "default", immediate: true},
		"the KnativeFleet has the annotation":      {config: testConfig("web", nil), selection: &rollout.Selection{Annotations: immediate}, key: "KnativeFleet fleet/web", immediate: true},
		"another value of the annotation is no go": {config: testConfig("", map[string]string{api.RenderingAnnotation: "true"}), key: "default"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Reconciler{
				Configs:   map[api.Component]cache.GenericLister{api.Serving: listerOf(t, tc.config)},
				Selection: func(types.NamespacedName) (*rollout.Selection, error) { return tc.selection, nil },
			}
			g := &gatherer{
				Reconciler: r, component: api.Serving, placements: tc.placements, fleets: map[types.NamespacedName]*rollout.Selection{},
				definition: &addonv1beta1.ClusterManagementAddOn{ObjectMeta: metav1.ObjectMeta{Annotations: tc.definition}},
			}
			m := &member{addOn: testAddOn("cluster1"), Cluster: rollout.Cluster{Name: "cluster1"}}
			of, err := g.rolloutOf(m)
			if err != nil || of.key != tc.key || m.Group.GroupName != tc.group || m.immediate != tc.immediate || (m.Phase == rollout.Skipped) != tc.skipped {
				t.Errorf("the rollout is %+v, the member %+v, the error %v", of, m, err)
			}
		})
	}
}

func testAddOn(cluster string) *addonv1beta1.ManagedClusterAddOn {
	config := addonv1beta1.ConfigReferent{Namespace: "fleet", Name: "default"}
	resource := addonv1beta1.ConfigGroupResource{Group: api.Serving.Resource().Group, Resource: api.Serving.Resource().Resource}
	return &addonv1beta1.ManagedClusterAddOn{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: api.Serving.AddOnName()},
		Spec:       addonv1beta1.ManagedClusterAddOnSpec{Configs: []addonv1beta1.AddOnConfig{{ConfigGroupResource: resource, ConfigReferent: config}}},
		Status: addonv1beta1.ManagedClusterAddOnStatus{ConfigReferences: []addonv1beta1.ConfigReference{{
			ConfigGroupResource: resource, DesiredConfig: &addonv1beta1.ConfigSpecHash{ConfigReferent: config, SpecHash: "h1"},
		}}},
	}
}

// TestStopIsReportedOnce holds that one Event reports a stop, with the failed clusters.
func TestStopIsReportedOnce(t *testing.T) {
	recorder := events.NewFakeRecorder(10)
	r := &Reconciler{Events: recorder}
	o := &clusterRollout{key: "default", definition: &addonv1beta1.ClusterManagementAddOn{ObjectMeta: metav1.ObjectMeta{Name: "knative-serving"}}}
	strategy := clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.Progressive, Progressive: &clusterv1alpha1.RolloutProgressive{
		RolloutConfig: clusterv1alpha1.RolloutConfig{ProgressDeadline: "10m"},
	}}
	failed := rollout.Cluster{Name: "cluster1", Phase: rollout.Progressing, Since: time.Unix(0, 0)}
	waiting := rollout.Cluster{Name: "cluster2", Phase: rollout.Waiting}
	plan, err := rollout.Determine(strategy, []rollout.Cluster{failed, waiting})
	if err != nil || plan.Update.Len() > 0 || !plan.Stopped || !plan.TimedOut.Has("cluster1") {
		t.Fatalf("the plan is %+v, the error %v", plan, err)
	}
	rollouts := map[string]*clusterRollout{o.key: o}
	for i, step := range []struct {
		plans map[string]rollout.Plan
		want  int // Events until then
	}{
		{plans: map[string]rollout.Plan{o.key: plan}, want: 1},
		{plans: map[string]rollout.Plan{o.key: plan}, want: 1},
		{plans: map[string]rollout.Plan{o.key: {}}, want: 1},
		{plans: map[string]rollout.Plan{o.key: plan}, want: 2},
		{want: 2}, // no cluster waits any more
		{plans: map[string]rollout.Plan{o.key: plan}, want: 3},
	} {
		r.reportStops(api.Serving, rollouts, step.plans)
		if n := len(recorder.Events); n != step.want {
			t.Errorf("there are %d Events after pass %d, want %d", n, i+1, step.want)
		}
		r.reportStops(api.Eventing, nil, nil) // changes nothing for Serving
	}
}

// TestStopsAreSeparateEvents holds that client-go does not fold the Events of two rollouts that stop at the same time.
func TestStopsAreSeparateEvents(t *testing.T) {
	client := kubefake.NewClientset()
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	if err := broadcaster.StartRecordingToSinkWithContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	if err := addonv1beta1.Install(scheme); err != nil {
		t.Fatal(err)
	}
	r := &Reconciler{Events: broadcaster.NewRecorder(scheme, "test")}
	definition := &addonv1beta1.ClusterManagementAddOn{ObjectMeta: metav1.ObjectMeta{Name: "knative-serving"}}
	rollouts, plans := map[string]*clusterRollout{}, map[string]rollout.Plan{}
	for _, name := range []string{"blue", "green"} {
		single := testDirect("c1", "", nil, time.Time{})
		single.SetOwnerReferences(nil)
		single.SetNamespace(name)
		g := &gatherer{Reconciler: r, component: api.Serving, definition: definition}
		of, err := g.rolloutOf(&member{config: single})
		if err != nil {
			t.Fatal(err)
		}
		of.definition = definition
		rollouts[of.key], plans[of.key] = of, rollout.Plan{Stopped: true, TimedOut: sets.New(name + "/c1")}
	}
	r.reportStops(api.Serving, rollouts, plans)
	deadline, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var notes []string
	err := wait.PollUntilContextCancel(deadline, 10*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		list, err := client.EventsV1().Events("default").List(ctx, metav1.ListOptions{})
		notes = nil
		for _, e := range list.Items {
			notes = append(notes, e.Note)
		}
		return len(notes) == 2, err
	})
	if err != nil || !strings.Contains(strings.Join(notes, " "), "blue/c1") || !strings.Contains(strings.Join(notes, " "), "green/c1") {
		t.Errorf("the Events are %q, the error %v", notes, err)
	}
}
