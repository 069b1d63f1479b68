// Copyright Contributors to the Open Cluster Management project

package repair

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	"open-cluster-management.io/knative-addon/pkg/render"
)

type bundlesFunc func() (*render.Bundle, error)

func (f bundlesFunc) Bundle(context.Context, *addonv1beta1.ManagedClusterAddOn) (*render.Bundle, error) {
	return f()
}

func serving() (*render.Bundle, error) {
	return &render.Bundle{Workloads: []render.Workload{{Kind: "Deployment", Namespace: "knative-serving", Name: "autoscaler", Replicas: new(int32(1))}}}, nil
}

// cluster is a cluster whose autoscaler is always gone, as if somebody deleted it again and again.
type cluster struct {
	payload *workv1.ManifestWork
	indexer cache.Indexer
	works   *workfake.Clientset
	events  *events.FakeRecorder
	clock   *testclock.FakePassiveClock
	r       *Reconciler
}

func newCluster(t *testing.T, bundles bundlesFunc, deleting bool) *cluster {
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
	c := &cluster{
		payload: w, indexer: works, works: workfake.NewSimpleClientset(w), events: events.NewFakeRecorder(100),
		clock: testclock.NewFakePassiveClock(time.Unix(1000, 0)),
	}
	c.r = &Reconciler{
		AddOns: addonlisters.NewManagedClusterAddOnLister(addOns), Payloads: worklisters.NewManifestWorkLister(works),
		WorkClient: c.works, Bundles: bundles, Events: c.events, Clock: c.clock, Pauses: NewPauses(),
	}
	return c
}

// reconcile runs one reconcile on what the hub has and returns when the next is due.
func (c *cluster) reconcile(t *testing.T) time.Duration {
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

func (c *cluster) asked(t *testing.T) string {
	t.Helper()
	w, err := c.works.WorkV1().ManifestWorks("cluster1").Get(t.Context(), "payload", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return w.Labels[api.RepairLabel]
}

func TestRepairsSlowDown(t *testing.T) {
	c := newCluster(t, serving, false)
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
func TestSlowsDownWithoutLabel(t *testing.T) {
	c := newCluster(t, serving, false)
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

func TestLeavesAlone(t *testing.T) {
	bad := func() (*render.Bundle, error) {
		return nil, &render.Error{Reason: render.ReasonInvalidSpec, Message: "bad"}
	}
	for name, c := range map[string]*cluster{
		"an add-on that is being removed":        newCluster(t, serving, true),
		"a configuration that says nothing":      newCluster(t, bad, false),
		"a workload that the bundle has no more": newCluster(t, func() (*render.Bundle, error) { return &render.Bundle{}, nil }, false),
	} {
		t.Run(name, func(t *testing.T) {
			if pause := c.reconcile(t); pause != 0 || c.asked(t) != "" {
				t.Errorf("the agent was asked (%q), next in %s", c.asked(t), pause)
			}
		})
	}
}
