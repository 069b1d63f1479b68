// Copyright Contributors to the Open Cluster Management project

package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	addonfake "open-cluster-management.io/api/client/addon/clientset/versioned/fake"
	workfake "open-cluster-management.io/api/client/work/clientset/versioned/fake"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
	"open-cluster-management.io/knative-addon/pkg/hub"
	"open-cluster-management.io/knative-addon/pkg/uninstall"
)

// releasedHub plays a hub with Serving on clusters c0 and so on, and with a Lease.
type releasedHub struct {
	hub.Clients

	kube   *kubefake.Clientset
	works  *workfake.Clientset
	addOns *addonfake.Clientset
}

func newReleasedHub(clusters int, lease *coordinationv1.Lease) *releasedHub {
	var works, addOns []runtime.Object
	for n := range clusters {
		meta := metav1.ObjectMeta{Namespace: fmt.Sprintf("c%d", n), Name: api.Serving.AddOnName(), ResourceVersion: "1"}
		work := &workv1.ManifestWork{ObjectMeta: meta}
		work.Labels = map[string]string{addonv1beta1.AddonLabelKey: api.Serving.AddOnName()}
		addOn := &addonv1beta1.ManagedClusterAddOn{ObjectMeta: meta}
		addOn.Finalizers = []string{api.FoundationFinalizer}
		works, addOns = append(works, work), append(addOns, addOn)
	}
	out := &releasedHub{kube: kubefake.NewClientset(), works: workfake.NewSimpleClientset(works...), addOns: addonfake.NewSimpleClientset(addOns...)}
	if lease != nil {
		out.kube = kubefake.NewClientset(lease)
	}
	out.Clients = hub.Clients{
		Kube: out.kube, Works: out.works, AddOns: out.addOns,
		Configs: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
			api.Serving.Resource(): "KnativeServingList", api.Eventing.Resource(): "KnativeEventingList", fleetv1alpha1.Resource(): "KnativeFleetList",
		}),
	}
	return out
}

// denyWorks makes a webhook deny the updates of works; an empty cluster stands for every cluster.
func (h *releasedHub) denyWorks(cluster string) {
	h.works.PrependReactor("update", "manifestworks", func(a clienttesting.Action) (bool, runtime.Object, error) {
		denied := cluster == "" || a.GetNamespace() == cluster
		return denied, nil, apierrors.NewForbidden(a.GetResource().GroupResource(), "knative-serving", errors.New("denied by a webhook"))
	})
}

// listHeld returns the clusters whose add-on has a finalizer.
func (h *releasedHub) listHeld(t *testing.T) []string {
	t.Helper()
	list, err := h.addOns.AddonV1beta1().ManagedClusterAddOns("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for i := range list.Items {
		if len(list.Items[i].Finalizers) > 0 {
			out = append(out, list.Items[i].Namespace)
		}
	}
	return out
}

// managerLease returns a Lease whose holder renewed the Lease at a time.
func managerLease(renewed time.Time) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "platform", Name: uninstall.ManagerLease},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new("pod"), RenewTime: new(metav1.NewMicroTime(renewed)), LeaseDurationSeconds: new(int32(15)),
		},
	}
}

// TestReleaseContinues holds that a work that the hub refuses keeps the finalizer of its own add-on alone, and that the error lists the steps that are
// left.
func TestReleaseContinues(t *testing.T) {
	h := newReleasedHub(3, nil)
	h.denyWorks("c1")
	var out strings.Builder
	err := (&releaseFlags{confirmed: true, clock: clock.RealClock{}}).runRelease(t.Context(), &out, h.Clients)
	if err == nil || exitCodeOf(newReleaseCommand(), err) != 1 {
		t.Fatalf("error is %v", err)
	}
	for _, text := range []string{"ManifestWork c1/knative-serving", "denied by a webhook", "skipped: remove the finalizer of ManagedClusterAddOn c1/knative-serving"} {
		if !strings.Contains(err.Error(), text) || !strings.Contains(out.String(), text) {
			t.Errorf("%q is not in error %v, or not in the output:\n%s", text, err, out.String())
		}
	}
	if diff := cmp.Diff([]string{"c1"}, h.listHeld(t)); diff != "" {
		t.Errorf("add-ons with a finalizer (-want +got):\n%s", diff)
	}

	all := newReleasedHub(listedBlockers, nil)
	all.denyWorks("")
	err = (&releaseFlags{confirmed: true, clock: clock.RealClock{}}).runRelease(t.Context(), &out, all.Clients)
	if lines := strings.Split(fmt.Sprint(err), "\n"); len(lines) != listedBlockers+2 || !strings.HasPrefix(lines[len(lines)-1], "and 20 more") {
		t.Errorf("the error has %d lines: %v", len(lines), err)
	}
}

// TestReleaseInParallel holds that the release of one cluster does not wait for the release of another cluster, and that the add-on of a cluster
// keeps its finalizer until the work of the cluster is released.
func TestReleaseInParallel(t *testing.T) {
	h := newReleasedHub(1, nil)
	other := &addonv1beta1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: "c1", Name: api.Serving.AddOnName(), ResourceVersion: "1"}}
	other.Finalizers = []string{api.FoundationFinalizer}
	if err := h.addOns.Tracker().Add(other); err != nil {
		t.Fatal(err)
	}
	released := make(chan struct{})
	h.addOns.PrependReactor("patch", "managedclusteraddons", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if a.GetNamespace() == "c1" {
			close(released)
		}
		return false, nil, nil
	})
	h.works.PrependReactor("update", "manifestworks", func(clienttesting.Action) (bool, runtime.Object, error) {
		select {
		case <-released:
		case <-time.After(10 * time.Second):
			t.Error("cluster c1 waits for the work of cluster c0")
		}
		if held := h.listHeld(t); !slices.Contains(held, "c0") {
			t.Error("the add-on of c0 is released before its work")
		}
		return false, nil, nil
	})
	if err := (&releaseFlags{confirmed: true, clock: clock.RealClock{}}).runRelease(t.Context(), &strings.Builder{}, h.Clients); err != nil {
		t.Error(err)
	}
	if held := h.listHeld(t); len(held) > 0 {
		t.Errorf("add-ons with a finalizer are %q", held)
	}
}

// stepBeyondWait ends the wait of a release. The fake clock does not tell when the wait has begun, so that stepBeyondWait asks the clock again and
// again; a step before the wait would be lost.
func stepBeyondWait(t *testing.T, c *clocktesting.FakeClock, duration time.Duration) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !c.HasWaiters(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the release does not wait")
		}
	}
	c.Step(duration)
}

// TestReleaseJudgesLeases holds that a release waits for the duration of the Lease, and that a renewal in this time counts, whatever the clocks of
// the manager and of this machine say.
func TestReleaseJudgesLeases(t *testing.T) {
	longAgo := time.Unix(1000, 0)
	for name, tc := range map[string]struct {
		renewed, held int
		fault         string
	}{
		"a manager whose clock is behind": {renewed: 2, held: 1, fault: `manager "platform/pod" runs`},
		"a manager that has crashed":      {renewed: 0, held: 0, fault: "<nil>"},
	} {
		t.Run(name, func(t *testing.T) {
			h, c := newReleasedHub(1, managerLease(longAgo)), clocktesting.NewFakeClock(longAgo.Add(time.Hour))
			var out strings.Builder
			ended := make(chan error)
			go func() { ended <- (&releaseFlags{confirmed: true, clock: c}).runRelease(t.Context(), &out, h.Clients) }()
			stepBeyondWait(t, c, 14*time.Second)
			if held := h.listHeld(t); len(held) != 1 {
				t.Errorf("during the wait the add-ons with a finalizer are %q", held)
			}
			renewed := managerLease(longAgo.Add(time.Duration(tc.renewed) * time.Second))
			if _, err := h.kube.CoordinationV1().Leases("platform").Update(t.Context(), renewed, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			stepBeyondWait(t, c, time.Second)
			if err := <-ended; !strings.Contains(fmt.Sprint(err), tc.fault) || len(h.listHeld(t)) != tc.held {
				t.Errorf("error is %v, add-ons with a finalizer are %q", err, h.listHeld(t))
			}
			if !strings.Contains(out.String(), "waiting for 15s") {
				t.Errorf("the output is %q", out.String())
			}
		})
	}
}

// TestReleaseEndsWithManager holds that a manager that starts during a release ends the release.
func TestReleaseEndsWithManager(t *testing.T) {
	h := newReleasedHub(leaderCheckSteps, nil)
	h.works.PrependReactor("update", "manifestworks", func(clienttesting.Action) (bool, runtime.Object, error) {
		_ = h.kube.Tracker().Add(managerLease(time.Unix(1000, 0)))
		return false, nil, nil
	})
	err := (&releaseFlags{confirmed: true, clock: clock.RealClock{}}).runRelease(t.Context(), &strings.Builder{}, h.Clients)
	if err == nil || !strings.Contains(err.Error(), `manager "platform/pod" runs`) || !strings.Contains(err.Error(), "100 steps were not begun") {
		t.Errorf("error is %v", err)
	}
	if held := h.listHeld(t); len(held) != leaderCheckSteps {
		t.Errorf("%d add-ons have a finalizer", len(held))
	}
}
