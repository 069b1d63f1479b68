// Copyright Contributors to the Open Cluster Management project

package rendering

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	addonlisters "open-cluster-management.io/api/client/addon/listers/addon/v1beta1"
	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/rollout"
)

// TestRetry holds that a cluster which cannot get the turn, such as an absent or paused cluster, does not keep the controller busy.
func TestRetry(t *testing.T) {
	strategy := clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.Progressive, Progressive: &clusterv1alpha1.RolloutProgressive{
		MaxConcurrency: intstr.FromInt32(1), RolloutConfig: clusterv1alpha1.RolloutConfig{ProgressDeadline: "10m"},
	}}
	absent := rollout.Report{}
	for name, tc := range map[string]struct {
		change func(*testing.T, *directHub)
		want   time.Duration
	}{
		"a cluster waits": {func(*testing.T, *directHub) {}, waitingRetry},
		"an absent cluster waits": {func(_ *testing.T, h *directHub) {
			h.reports["c1"], h.reports["c2"] = absent, absent
		}, skippedRetry},
		"an absent cluster waits, and another cluster has failed": {func(t *testing.T, h *directHub) {
			t.Helper()
			h.delivers(t, metav1.ConditionUnknown, time.Now().Add(-time.Hour))
			h.reports["c2"] = absent
		}, skippedRetry},
		"an absent cluster waits, and another cluster reaches its deadline": {func(t *testing.T, h *directHub) {
			t.Helper()
			h.delivers(t, metav1.ConditionUnknown, time.Now().Add(-10*time.Minute+30*time.Second))
			h.reports["c2"] = absent
		}, 30 * time.Second},
		"a cluster waits, and another cluster has no report": {func(t *testing.T, h *directHub) {
			t.Helper()
			h.add(t, "fleet", "c2", "", conditions{api.TargetClusterResolved: metav1.ConditionTrue})
			delete(h.reports, "c2")
		}, pendingRetry},
	} {
		t.Run(name, func(t *testing.T) {
			h := newDirectHub(t, strategy, "c1", "c2")
			tc.change(t, h)
			got, err := h.pass(t)
			if off := tc.want - got.RequeueAfter; err != nil || off < 0 || off > 2*time.Second {
				t.Errorf("the next pass comes after %s (error %v), want %s", got.RequeueAfter, err, tc.want)
			}
		})
	}
}

// TestStartsPass holds that a cluster which may get its turn now starts a pass, and that other changes start no pass.
func TestStartsPass(t *testing.T) {
	paused := map[string]string{api.PausedAnnotation: "true"}
	with := func(annotations map[string]string, current, resolved metav1.ConditionStatus) client.Object {
		a := &addonv1beta1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}}
		a.Status.Conditions = []metav1.Condition{{Type: api.TargetClusterResolved, Status: resolved}}
		if current != "" {
			a.Status.Conditions = append(a.Status.Conditions, metav1.Condition{Type: api.RenderingCurrent, Status: current})
		}
		return a
	}
	const yes, no = metav1.ConditionTrue, metav1.ConditionFalse
	for name, tc := range map[string]struct {
		before, after client.Object
		want          bool
	}{
		"a new object that waits":                       {nil, with(nil, no, yes), true},
		"a new object that never waited":                {nil, with(nil, "", yes), false},
		"nothing changes":                               {with(nil, no, yes), with(nil, no, yes), false},
		"a cluster begins to wait":                      {with(nil, "", yes), with(nil, no, yes), true},
		"a cluster runs the rendering":                  {with(nil, metav1.ConditionUnknown, yes), with(nil, yes, yes), true},
		"a cluster that waits returns":                  {with(nil, no, no), with(nil, no, yes), true},
		"a cluster that waits is lost":                  {with(nil, no, yes), with(nil, no, no), false},
		"a cluster that does not wait returns":          {with(nil, yes, no), with(nil, yes, yes), false},
		"the pause of a cluster ends":                   {with(paused, no, yes), with(nil, no, yes), true},
		"the pause of a cluster begins":                 {with(nil, no, yes), with(paused, no, yes), false},
		"the pause of a resource of many clusters ends": {testConfig("", paused), testConfig("", nil), true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := startsPass(tc.before, tc.after); got != tc.want {
				t.Errorf("a pass starts: %t, want %t", got, tc.want)
			}
		})
	}
}

// failingBundles implements addon.Bundles for an add-on whose bundle cannot be determined.
type failingBundles struct{}

func (failingBundles) Bundle(context.Context, *addonv1beta1.ManagedClusterAddOn) (*render.Bundle, error) {
	return nil, errors.New("cannot read the values of the cluster")
}

// TestUnreadableAddOn holds that an add-on whose state cannot be read does not keep the turn from other clusters.
func TestUnreadableAddOn(t *testing.T) {
	h := newDirectHub(t, clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.All}, "c1")
	h.Bundles, h.Targets, h.Pauses = failingBundles{}, pendingBundles{}, pendingBundles{}
	addOns := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	addTo(t, addOns, testAddOn("unreadable"))
	h.AddOns = addonlisters.NewManagedClusterAddOnLister(addOns)
	if turns, _ := h.turns(t); !slices.Equal(turns, []string{"c1"}) {
		t.Errorf("%q have the turn, want c1", turns)
	}
}
