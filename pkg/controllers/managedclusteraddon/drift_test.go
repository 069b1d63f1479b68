// Copyright Contributors to the Open Cluster Management project

package managedclusteraddon

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	addonlisters "open-cluster-management.io/api/client/addon/listers/addon/v1beta1"
	workfake "open-cluster-management.io/api/client/work/clientset/versioned/fake"
	worklisters "open-cluster-management.io/api/client/work/listers/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/workload"
)

func scaledBundle() (*render.Bundle, error) {
	return &render.Bundle{Workloads: []workload.Expected{{Kind: "Deployment", Namespace: "knative-serving", Name: "autoscaler", Replicas: new(int32(1))}}}, nil
}

// driftingCluster is a cluster whose autoscaler is always gone, as if somebody deleted it again and again.
type driftingCluster struct {
	payload *workv1.ManifestWork
	indexer cache.Indexer
	works   *workfake.Clientset
	events  *events.FakeRecorder
	clock   *testclock.FakePassiveClock
	r       *DriftReconciler
}

func newDriftingCluster(t *testing.T, bundles bundlesFunc, deleting bool) *driftingCluster {
	t.Helper()
	a := &addonv1beta1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: "cluster1", Name: "knative-serving"}}
	if deleting {
		a.DeletionTimestamp = new(metav1.Now())
	}
	w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{
		Namespace: "cluster1", Name: "payload", Labels: map[string]string{addonv1beta1.AddonLabelKey: "knative-serving"},
	}}
	w.Status.Conditions = []metav1.Condition{{Type: workv1.WorkApplied, Status: metav1.ConditionTrue}, {Type: workv1.WorkAvailable, Status: metav1.ConditionFalse}}
	w.Status.ResourceStatus.Manifests = []workv1.ManifestCondition{{
		ResourceMeta: workv1.ManifestResourceMeta{Kind: "Deployment", Resource: "deployments", Namespace: "knative-serving", Name: "autoscaler"},
		Conditions:   []metav1.Condition{{Type: workv1.ManifestAvailable, Status: metav1.ConditionFalse, Reason: "ResourceNotAvailable"}},
	}}
	namespaced := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	addOns, works := cache.NewIndexer(cache.MetaNamespaceKeyFunc, namespaced), cache.NewIndexer(cache.MetaNamespaceKeyFunc, namespaced)
	if err := addOns.Add(a); err != nil {
		t.Fatal(err)
	}
	c := &driftingCluster{
		payload: w, indexer: works, works: workfake.NewSimpleClientset(w), events: events.NewFakeRecorder(100),
		clock: testclock.NewFakePassiveClock(time.Unix(1000, 0)),
	}
	c.r = &DriftReconciler{
		AddOns: addonlisters.NewManagedClusterAddOnLister(addOns), Payloads: worklisters.NewManifestWorkLister(works),
		Foundations: worklisters.NewManifestWorkLister(cache.NewIndexer(cache.MetaNamespaceKeyFunc, namespaced)),
		WorkClient:  c.works, Bundles: bundles, Events: c.events, Clock: c.clock, Backoff: NewRepairBackoff(),
	}
	return c
}

// reconcile runs one reconcile on the works of the hub and returns the time until the next pass.
func (c *driftingCluster) reconcile(t *testing.T) time.Duration {
	t.Helper()
	w, err := c.works.WorkV1().ManifestWorks("cluster1").Get(t.Context(), "payload", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.indexer.Update(w); err != nil {
		t.Fatal(err)
	}
	result, err := c.r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "cluster1", Name: "knative-serving"}})
	if err != nil {
		t.Fatal(err)
	}
	return result.RequeueAfter
}

func (c *driftingCluster) asked(t *testing.T) string {
	t.Helper()
	w, err := c.works.WorkV1().ManifestWorks("cluster1").Get(t.Context(), "payload", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return w.Labels[api.RepairLabel]
}

func TestRepairsSlowDown(t *testing.T) {
	c := newDriftingCluster(t, scaledBundle, false)
	var pauses []time.Duration
	for range 9 {
		before := c.asked(t)
		pause := c.reconcile(t)
		if c.asked(t) == before {
			t.Fatalf("after %v the agent was not asked", pauses)
		}
		if again := c.reconcile(t); again != pause {
			t.Errorf("right after a repair the next is due in %s, want %s", again, pause)
		}
		pauses = append(pauses, pause)
		c.clock.SetTime(c.clock.Now().Add(pause))
	}
	var seconds []float64
	for _, p := range pauses {
		seconds = append(seconds, p.Seconds())
	}
	if diff := cmp.Diff([]float64{3, 6, 12, 24, 48, 96, 192, 240, 240}, seconds); diff != "" {
		t.Errorf("pauses (-want +got):\n%s", diff)
	}
	close(c.events.Events)
	var reasons []string
	for e := range c.events.Events {
		fields := strings.Fields(e)
		reasons = append(reasons, fields[1])
		if !strings.Contains(e, "Deployment knative-serving/autoscaler is gone") {
			t.Errorf("the event does not say what has drifted: %s", e)
		}
	}
	if diff := cmp.Diff([]string{
		"DriftRepaired", "DriftRepaired", "DriftRepaired", "DriftRepaired", "DriftLoop", "DriftLoop", "DriftLoop", "DriftLoop", "DriftLoop",
	}, reasons); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// TestSlowsDownWithoutLabel takes the label away, as addon-framework does when it has something of its own to change.
// TestFirstRepairIsNotDelayed holds that a work whose repairs have slowed down does not delay the next repair of another work.
func TestFirstRepairIsNotDelayed(t *testing.T) {
	c := newDriftingCluster(t, scaledBundle, false)
	for range 6 {
		c.clock.SetTime(c.clock.Now().Add(c.reconcile(t)))
	}
	slow := c.reconcile(t)
	other := c.payload.DeepCopy()
	other.Name = "other"
	if err := c.works.Tracker().Add(other); err != nil {
		t.Fatal(err)
	}
	if err := c.indexer.Add(other); err != nil {
		t.Fatal(err)
	}
	if wait := c.reconcile(t); wait != delivery.FirstRepairInterval || slow <= wait {
		t.Errorf("the next pass follows after %s, and the slow work waits for %s", wait, slow)
	}
}

func TestSlowsDownWithoutLabel(t *testing.T) {
	c := newDriftingCluster(t, scaledBundle, false)
	pause := c.reconcile(t)
	w, err := c.works.WorkV1().ManifestWorks("cluster1").Get(t.Context(), "payload", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	delete(w.Labels, api.RepairLabel)
	if _, err := c.works.WorkV1().ManifestWorks("cluster1").Update(t.Context(), w, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if again := c.reconcile(t); again != pause || c.asked(t) != "" {
		t.Errorf("the agent was asked again (%q), next in %s, want %s", c.asked(t), again, pause)
	}
}

func TestDriftThatIsNotRepaired(t *testing.T) {
	bad := func() (*render.Bundle, error) {
		return nil, &render.Error{Reason: api.ReasonInvalidSpec, Message: "bad"}
	}
	for name, c := range map[string]*driftingCluster{
		"an add-on that is being removed":                                 newDriftingCluster(t, scaledBundle, true),
		"a bad configuration, and the payload does not have the workload": newDriftingCluster(t, bad, false),
		"a workload that the bundle has no more":                          newDriftingCluster(t, func() (*render.Bundle, error) { return &render.Bundle{}, nil }, false),
	} {
		t.Run(name, func(t *testing.T) {
			if pause := c.reconcile(t); pause != 0 || c.asked(t) != "" {
				t.Errorf("the agent was asked (%q), next in %s", c.asked(t), pause)
			}
		})
	}
}

// TestDriftWithBadConfiguration holds that the payload names the workloads to repair when the configuration yields no bundle, as after
// a bad edit.
func TestDriftWithBadConfiguration(t *testing.T) {
	c := newDriftingCluster(t, func() (*render.Bundle, error) {
		return nil, &render.Error{Reason: api.ReasonUnknownVersion, Message: "no version 9.9"}
	}, false)
	c.payload.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{
		Raw: []byte(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"autoscaler","namespace":"knative-serving"},"spec":{"replicas":1}}`),
	}}}
	if err := c.works.Tracker().Update(workv1.Resource("manifestworks").WithVersion("v1"), c.payload, c.payload.Namespace); err != nil {
		t.Fatal(err)
	}
	if pause := c.reconcile(t); pause == 0 || c.asked(t) == "" {
		t.Errorf("the agent was asked (%q), next in %s", c.asked(t), pause)
	}
}

// TestDriftWithPendingBundle holds that nothing is repaired as long as the bundle is being rendered, and that the work is checked again.
func TestDriftWithPendingBundle(t *testing.T) {
	c := newDriftingCluster(t, func() (*render.Bundle, error) {
		return nil, &render.Error{Reason: api.FaultRenderPending, Message: "wait"}
	}, false)
	if again := c.reconcile(t); again == 0 || c.asked(t) != "" {
		t.Errorf("the next pass is in %s, the label is %q", again, c.asked(t))
	}
}

// TestFoundationIsRepaired holds that the agent applies a foundation again whose Namespace is gone, and leaves a probe alone.
func TestFoundationIsRepaired(t *testing.T) {
	for name, tc := range map[string]struct {
		annotations map[string]string
		want        bool
	}{
		"a foundation": {map[string]string{api.DigestAnnotation: "d0"}, true},
		"a probe":      {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := newDriftingCluster(t, scaledBundle, false)
			foundation := c.payload.DeepCopy()
			foundation.Name, foundation.Annotations = manifestwork.FoundationName(api.Serving), tc.annotations
			foundation.Status.ResourceStatus.Manifests[0].ResourceMeta = workv1.ManifestResourceMeta{Kind: "Namespace", Name: "knative-serving"}
			if err := c.works.Tracker().Add(foundation); err != nil {
				t.Fatal(err)
			}
			foundations := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
			if err := foundations.Add(foundation); err != nil {
				t.Fatal(err)
			}
			c.r.Foundations = worklisters.NewManifestWorkLister(foundations)
			c.reconcile(t)
			got, err := c.works.WorkV1().ManifestWorks("cluster1").Get(t.Context(), foundation.Name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if asked := got.Labels[api.RepairLabel] != ""; asked != tc.want {
				t.Errorf("the agent was asked: %t", asked)
			}
		})
	}
}

// TestSkippedApply holds that the agent is asked to apply a payload that the agent has observed and not applied, also when the add-on is
// being deleted, and only after the agent had time to apply by itself. Requests that change nothing become rarer.
func TestSkippedApply(t *testing.T) {
	c := newDriftingCluster(t, scaledBundle, true)
	setGeneration := func(observed int64) {
		w, err := c.works.WorkV1().ManifestWorks("cluster1").Get(t.Context(), "payload", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		w.Generation, w.Status.Conditions[0].ObservedGeneration, w.Status.Conditions[1].ObservedGeneration = 2, observed, 2
		if _, err := c.works.WorkV1().ManifestWorks("cluster1").Update(t.Context(), w, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	setGeneration(1)
	if wait := c.reconcile(t); wait != firstSkippedApplyInterval || c.asked(t) != "" {
		t.Errorf("at first the agent was asked (%q), next in %s", c.asked(t), wait)
	}
	asked := ""
	for interval := firstSkippedApplyInterval; interval <= 2*delivery.LongestRepairInterval; interval *= 2 {
		c.clock.SetTime(c.clock.Now().Add(min(interval, delivery.LongestRepairInterval)))
		next := min(2*interval, delivery.LongestRepairInterval)
		if wait := c.reconcile(t); wait != next || c.asked(t) == asked {
			t.Errorf("after %s the agent was asked (%q), next in %s, want %s", interval, c.asked(t), wait, next)
		}
		asked = c.asked(t)
	}
	setGeneration(2)
	if wait := c.reconcile(t); wait != 0 {
		t.Errorf("the payload is applied, but the next pass is in %s", wait)
	}
}

// TestForgetRepairs holds that a payload without a repair for a long time takes no memory.
func TestForgetRepairs(t *testing.T) {
	now := time.Unix(100000, 0)
	r := &DriftReconciler{Backoff: NewRepairBackoff()}
	r.repairedAt.Store("old", now.Add(-3*delivery.LongestRepairInterval))
	r.repairedAt.Store("recent", now.Add(-delivery.LongestRepairInterval))
	r.forgetRepairs(now)
	if _, found := r.repairedAt.Load("old"); found {
		t.Error("a repair of long ago is remembered")
	}
	if _, found := r.repairedAt.Load("recent"); !found {
		t.Error("a recent repair is forgotten")
	}
}

// TestReclaimPause holds that requests become rarer while a removal lasts.
func TestReclaimPause(t *testing.T) {
	deleted := time.Unix(100000, 0)
	a := &addonv1beta1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: deleted}}}
	for after, want := range map[time.Duration]time.Duration{
		0: reclaimRetry, time.Second: reclaimRetry, time.Minute: time.Minute, time.Hour: longestReclaimRetry,
	} {
		if got := reclaimPause(a, deleted.Add(after)); got != want {
			t.Errorf("the pause after %s is %s, want %s", after, got, want)
		}
	}
	if got := reclaimPause(&addonv1beta1.ManagedClusterAddOn{}, deleted); got != reclaimRetry {
		t.Errorf("without a deletion the pause is %s", got)
	}
}

// TestReclaimAfterWrongClock holds that a request whose time is ahead, which a manager with another clock has written, delays no request.
func TestReclaimAfterWrongClock(t *testing.T) {
	now := time.Unix(100000, 0)
	w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "cluster1", Name: "payload", Labels: map[string]string{
		api.RepairLabel: strconv.FormatInt(now.Add(time.Hour).Unix(), 10),
	}}}
	works := workfake.NewSimpleClientset(w)
	r := &Reconciler{WorkClient: works, Clock: testclock.NewFakePassiveClock(now)}
	wait, err := r.retryReclaim(t.Context(), &addonv1beta1.ManagedClusterAddOn{}, w)
	if err != nil || wait != reclaimRetry || len(works.Actions()) != 1 {
		t.Errorf("the next request follows after %s with error %v, and the requests are %v", wait, err, works.Actions())
	}
}
