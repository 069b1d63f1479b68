// Copyright Contributors to the Open Cluster Management project

package scores

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	addonlisters "open-cluster-management.io/api/client/addon/listers/addon/v1beta1"
	clusterfake "open-cluster-management.io/api/client/cluster/clientset/versioned/fake"
	clusterlisters "open-cluster-management.io/api/client/cluster/listers/cluster/v1"
	scorelisters "open-cluster-management.io/api/client/cluster/listers/cluster/v1alpha1"
	worklisters "open-cluster-management.io/api/client/work/listers/work/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/reconciler"
)

var now = time.Unix(1000000, 0)

type bundled []string

func (b bundled) Versions(api.Component) []string { return b }

// fakeHub is what a reconcile finds.
type fakeHub struct {
	serving componentState
	cluster *clusterv1.ManagedCluster
	written *clusterv1alpha1.AddOnPlacementScore
}

// newHub has complete on an available cluster, with the scores of that state.
func newHub() *fakeHub {
	return &fakeHub{
		serving: complete(),
		cluster: &clusterv1.ManagedCluster{
			ObjectMeta: metav1.ObjectMeta{Name: "cluster1"},
			Status: clusterv1.ManagedClusterStatus{Conditions: []metav1.Condition{{
				Type: clusterv1.ManagedClusterConditionAvailable, Status: metav1.ConditionTrue,
			}}},
		},
		written: &clusterv1alpha1.AddOnPlacementScore{
			ObjectMeta: metav1.ObjectMeta{Namespace: "cluster1", Name: api.ScoresName, UID: "scores", ResourceVersion: "1"},
			Status: clusterv1alpha1.AddOnPlacementScoreStatus{
				ValidUntil: &metav1.Time{Time: now.Add(validity)}, Scores: append(items(75, 100, 100), none()...),
			},
		},
	}
}

// none are the scores of Eventing, which is not there.
func none() []clusterv1alpha1.AddOnPlacementScoreItem {
	return []clusterv1alpha1.AddOnPlacementScoreItem{{Name: "eventing-ready"}, {Name: "eventing-version"}, {Name: "eventing-rollout"}}
}

func indexerOf[T runtime.Object](t *testing.T, objects ...T) cache.Indexer {
	t.Helper()
	out := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	for _, o := range objects {
		if err := out.Add(o); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func optional[T any](o *T) []*T {
	if o == nil {
		return nil
	}
	return []*T{o}
}

// outcome is what a reconcile did.
type outcome struct {
	writes []string
	status []clusterv1alpha1.AddOnPlacementScoreItem
	wait   time.Duration
}

// reconcile runs one reconcile, in which every write fails when fail is set.
func (h *fakeHub) reconcile(t *testing.T, fail error) outcome {
	t.Helper()
	var out outcome
	client := clusterfake.NewSimpleClientset()
	client.PrependReactor("*", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		out.writes = append(out.writes, strings.TrimSpace(a.GetVerb()+" "+a.GetSubresource()))
		if u, ok := a.(clienttesting.UpdateAction); ok && a.GetSubresource() == "status" && fail == nil {
			status := u.GetObject().(*clusterv1alpha1.AddOnPlacementScore).Status
			if out.status = status.Scores; !status.ValidUntil.Time.Equal(now.Add(validity)) {
				t.Errorf("they are valid until %s", status.ValidUntil)
			}
		}
		return true, &clusterv1alpha1.AddOnPlacementScore{}, fail
	})
	r := &Reconciler{
		AddOns:      addonlisters.NewManagedClusterAddOnLister(indexerOf(t, optional(h.serving.addOn)...)),
		Clusters:    clusterlisters.NewManagedClusterLister(indexerOf(t, optional(h.cluster)...)),
		Foundations: worklisters.NewManifestWorkLister(indexerOf(t, optional(h.serving.foundation)...)),
		Payloads:    worklisters.NewManifestWorkLister(indexerOf(t, h.serving.payloads...)),
		Scores:      scorelisters.NewAddOnPlacementScoreLister(indexerOf(t, optional(h.written)...)),
		Client:      client, Versions: bundled(h.serving.versions), Clock: testclock.NewFakePassiveClock(now),
	}
	result, err := reconciler.Wrap(r, reconciler.OfCluster).Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "cluster1"}})
	if err != nil {
		t.Fatal(err)
	}
	out.wait = result.RequeueAfter
	return out
}

func TestReconcile(t *testing.T) {
	scores := schema.GroupResource{Group: clusterv1alpha1.GroupName, Resource: "addonplacementscores"}
	worst := append(items(75, 100, 100), none()...)
	renew := renewalDelay("cluster1", now.Add(validity), now)
	for name, tc := range map[string]struct {
		reason string
		change func(*fakeHub)
		fail   error
		want   []string
		status []clusterv1alpha1.AddOnPlacementScoreItem
		wait   time.Duration
	}{
		"at rest": {reason: "Nothing is written until they are renewed.", wait: renew},
		"to be renewed": {
			reason: "They stay the same.",
			change: func(h *fakeHub) {
				h.written.Status.ValidUntil = &metav1.Time{Time: now.Add(renewalLead - renewalSpread)}
			},
			want: []string{"update status"}, status: worst,
		},
		"none yet": {
			reason: "A status cannot be created.",
			change: func(h *fakeHub) { h.written = nil }, want: []string{"create"},
		},
		"without status": {
			reason: "The first one is no news that has to last.",
			change: func(h *fakeHub) { h.written.Status = clusterv1alpha1.AddOnPlacementScoreStatus{} },
			want:   []string{"update status"}, status: worst,
		},
		"something changes": {
			reason: "It may be over in a moment.",
			change: func(h *fakeHub) { h.serving.payloads[0].Status.ResourceStatus.Manifests[0] = workload("activator", 0) }, wait: worseDelay,
		},
		"the cluster is unavailable": {
			reason: "Nothing is known, and nothing is renewed.",
			change: func(h *fakeHub) {
				h.cluster.Status.Conditions[0].Status = metav1.ConditionUnknown
				h.written.Status.ValidUntil = &metav1.Time{Time: now}
			},
		},
		"the last add-on is gone": {
			reason: "The scores go with it.",
			change: func(h *fakeHub) { h.serving.addOn, h.serving.foundation, h.serving.payloads = nil, nil, nil }, want: []string{"delete"},
		},
		"the add-on is handed over": {
			reason: "There is another one in a moment.",
			change: func(h *fakeHub) { h.serving.addOn = nil }, wait: renew,
		},
		"no add-on, no scores": {
			reason: "Clusters without Knative are not scored.",
			change: func(h *fakeHub) {
				h.serving.addOn, h.serving.foundation, h.serving.payloads = nil, nil, nil
				h.written = nil
			},
		},
		"the cluster leaves": {
			reason: "Its namespace takes no new objects.",
			change: func(h *fakeHub) { h.written, h.cluster.DeletionTimestamp = nil, &metav1.Time{Time: now} },
		},
		"the cache is behind": {
			reason: "That is no fault.", fail: apierrors.NewConflict(scores, api.ScoresName, nil),
			change: func(h *fakeHub) { h.written.Status.ValidUntil = nil }, want: []string{"update status"}, wait: staleRetry,
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub()
			if tc.change != nil {
				tc.change(h)
			}
			got := h.reconcile(t, tc.fail)
			if diff := cmp.Diff(tc.want, got.writes); diff != "" {
				t.Errorf("%s Writes (-want +got):\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(tc.status, got.status); diff != "" {
				t.Errorf("%s Scores (-want +got):\n%s", tc.reason, diff)
			}
			if got.wait != tc.wait {
				t.Errorf("%s Looks again after %s, want %s", tc.reason, got.wait, tc.wait)
			}
		})
	}
}
