// Copyright Contributors to the Open Cluster Management project

package uninstall

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	addonfake "open-cluster-management.io/api/client/addon/clientset/versioned/fake"
	workfake "open-cluster-management.io/api/client/work/clientset/versioned/fake"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/hub"
)

const other = "example.com/other"

// newHub returns a hub with an installation by the work agent and a resource without a work agent, and with objects of others.
func newHub() hub.Clients {
	addOn := func(name string, finalizers ...string) *addonv1beta1.ManagedClusterAddOn {
		return &addonv1beta1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{
			Namespace: "cluster1", Name: name, ResourceVersion: "1", Finalizers: finalizers,
		}}
	}
	work := func(name string, labels map[string]string) *workv1.ManifestWork {
		return &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{
			Namespace: "cluster1", Name: name, ResourceVersion: "1", Labels: labels, Finalizers: []string{workv1.ManifestWorkFinalizer},
			OwnerReferences: []metav1.OwnerReference{{Kind: "ManagedClusterAddOn", Name: "knative-serving"}},
		}}
	}
	config := func(c api.Component, name string, finalizers ...string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(schema.GroupVersionKind{Group: api.Group, Version: c.Resource().Version, Kind: c.Kind()})
		u.SetNamespace("team")
		u.SetName(name)
		u.SetResourceVersion("1")
		u.SetFinalizers(finalizers)
		return u
	}
	fleet := config(api.Serving, "web", api.FleetFinalizer, other)
	fleet.SetGroupVersionKind(schema.GroupVersionKind{Group: fleetv1alpha1.Group, Version: fleetv1alpha1.Version, Kind: fleetv1alpha1.Kind})
	fleet.SetUID("web-1")
	fleet.Object["spec"] = map[string]any{"deletionPolicy": "Orphan"}
	child := config(api.Eventing, "child")
	child.SetOwnerReferences([]metav1.OwnerReference{{Kind: "Other", UID: "x"}, *metav1.NewControllerRef(fleet, fleet.GroupVersionKind())})
	return hub.Clients{
		AddOns: addonfake.NewSimpleClientset(addOn("knative-serving", other, api.FoundationFinalizer), addOn("knative-eventing"), addOn("other", other)),
		Works: workfake.NewSimpleClientset(
			work("addon-knative-serving-deploy-0", map[string]string{addonv1beta1.AddonLabelKey: "knative-serving"}),
			work(manifestwork.FoundationName(api.Serving), map[string]string{api.FoundationLabel: string(api.Serving)}),
			work(manifestwork.GateName(api.Serving), map[string]string{addonv1beta1.AddonLabelKey: "knative-serving", api.FoundationLabel: string(api.Serving)}),
			work(manifestwork.VerificationName(api.Serving), map[string]string{api.FoundationLabel: string(api.Serving)}),
			work("other", nil)),
		Configs: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
			api.Serving.Resource(): "KnativeServingList", api.Eventing.Resource(): "KnativeEventingList", fleetv1alpha1.Resource(): "KnativeFleetList",
		}, fleet, child, config(api.Serving, "edge", api.DirectFinalizer, other), config(api.Serving, "default", other), config(api.Eventing, "pull", api.InstallFinalizer)),
	}
}

// TestListBlockers holds that an uninstall waits for every add-on of ours and every resource with a finalizer of ours.
func TestListBlockers(t *testing.T) {
	clients := newHub()
	got, err := ListBlockers(t.Context(), clients.AddOns, clients.Configs)
	want := []string{
		"ManagedClusterAddOn cluster1/knative-serving", "ManagedClusterAddOn cluster1/knative-eventing",
		"KnativeServing team/edge", "KnativeEventing team/pull", "KnativeFleet team/web",
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("error is %v, blockers differ (-want +got):\n%s", err, diff)
	}
}

// TestRelease holds that works give up their objects before finalizers go, that finalizers and works of others stay, and that a
// later release deletes the works that agents have applied.
func TestRelease(t *testing.T) {
	clients := newHub()
	want := []string{
		"make the cluster keep the objects of ManifestWork cluster1/addon-knative-serving-deploy-0",
		"delete ManifestWork cluster1/knative-serving-gate",
		"make the cluster keep the objects of ManifestWork cluster1/knative-serving-foundation",
		"delete ManifestWork cluster1/knative-serving-verification",
		"remove the finalizer of ManagedClusterAddOn cluster1/knative-serving",
		"remove the finalizer of KnativeServing team/edge", "remove the finalizer of KnativeEventing team/pull",
		"remove the KnativeFleet from the owners of KnativeEventing team/child", "remove the finalizer of KnativeFleet team/web",
	}
	if diff := cmp.Diff(want, runRelease(t, clients)); diff != "" {
		t.Errorf("the steps differ (-want +got):\n%s", diff)
	}
	a, err := clients.AddOns.AddonV1beta1().ManagedClusterAddOns("cluster1").Get(t.Context(), "knative-serving", metav1.GetOptions{})
	if err != nil || !cmp.Equal(a.Finalizers, []string{other}) {
		t.Errorf("the add-on has the finalizers %v, error %v", a.Finalizers, err)
	}
	u, err := clients.Configs.Resource(api.Serving.Resource()).Namespace("team").Get(t.Context(), "edge", metav1.GetOptions{})
	if err != nil || !cmp.Equal(u.GetFinalizers(), []string{other}) {
		t.Errorf("the resource has the finalizers %v, error %v", u.GetFinalizers(), err)
	}
	fleet, err := clients.Configs.Resource(fleetv1alpha1.Resource()).Namespace("team").Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil || !cmp.Equal(fleet.GetFinalizers(), []string{other}) {
		t.Errorf("the KnativeFleet has the finalizers %v, error %v", fleet.GetFinalizers(), err)
	}
	child, err := clients.Configs.Resource(api.Eventing.Resource()).Namespace("team").Get(t.Context(), "child", metav1.GetOptions{})
	if err != nil || len(child.GetOwnerReferences()) != 1 || child.GetOwnerReferences()[0].UID != "x" {
		t.Errorf("the child has the owners %v, error %v", child.GetOwnerReferences(), err)
	}
	if steps := runRelease(t, clients); len(steps) != 0 {
		t.Errorf("before the agent has applied the works a further release does %q", steps)
	}

	works := clients.Works.WorkV1().ManifestWorks("cluster1")
	payload, err := works.Get(t.Context(), "addon-knative-serving-deploy-0", metav1.GetOptions{})
	if err != nil || !manifestwork.IsOrphaned(payload) || len(payload.OwnerReferences) != 0 {
		t.Fatalf("the payload is %+v, error %v", payload, err)
	}
	payload.Status.Conditions = []metav1.Condition{{Type: workv1.WorkApplied, Status: metav1.ConditionTrue, ObservedGeneration: payload.Generation}}
	if _, err := works.UpdateStatus(t.Context(), payload, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"delete ManifestWork cluster1/addon-knative-serving-deploy-0"}, runRelease(t, clients)); diff != "" {
		t.Errorf("the steps differ (-want +got):\n%s", diff)
	}
}

// TestReleaseWithoutOCM holds that the resources are released also on a hub that has lost the kinds of OCM.
func TestReleaseWithoutOCM(t *testing.T) {
	clients := newHub()
	notServed := func(a clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewNotFound(a.GetResource().GroupResource(), "")
	}
	clients.Works.(*workfake.Clientset).PrependReactor("list", "*", notServed)
	clients.AddOns.(*addonfake.Clientset).PrependReactor("list", "*", notServed)
	want := []string{
		"remove the finalizer of KnativeServing team/edge", "remove the finalizer of KnativeEventing team/pull",
		"remove the KnativeFleet from the owners of KnativeEventing team/child", "remove the finalizer of KnativeFleet team/web",
	}
	if diff := cmp.Diff(want, runRelease(t, clients)); diff != "" {
		t.Errorf("the steps differ (-want +got):\n%s", diff)
	}
}

func runRelease(t *testing.T, clients hub.Clients) []string {
	t.Helper()
	steps, err := PlanRelease(t.Context(), clients)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, step := range steps {
		out = append(out, step.Text)
		if err := step.Run(t.Context()); err != nil {
			t.Error(err)
		}
	}
	return out
}

// TestStepOnDeletedObject holds that an object that is gone is no fault of a release, and that an interrupted step is a fault.
func TestStepOnDeletedObject(t *testing.T) {
	clients := newHub()
	steps, err := PlanRelease(t.Context(), clients)
	if err != nil {
		t.Fatal(err)
	}
	if err := clients.AddOns.AddonV1beta1().ManagedClusterAddOns("cluster1").Delete(t.Context(), "knative-serving", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, step := range steps {
		if err := step.Run(t.Context()); err != nil {
			t.Error(err)
		}
	}
	failing := newStep("patch", func(context.Context) error { return context.Canceled })
	if err := failing.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "cannot patch") {
		t.Errorf("error is %v", err)
	}
}

// TestGroups holds that a step belongs to the add-on whose works and finalizers it changes, or to its KnativeFleet.
func TestGroups(t *testing.T) {
	clients := newHub()
	edge, err := clients.Configs.Resource(api.Serving.Resource()).Namespace("team").Get(t.Context(), "edge", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	edge.Object["spec"] = map[string]any{"clusterProfileRef": map[string]any{"namespace": "team", "name": "cluster1"}}
	if _, err := clients.Configs.Resource(api.Serving.Resource()).Namespace("team").Update(t.Context(), edge, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	steps, err := PlanRelease(t.Context(), clients)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, step := range steps {
		got = append(got, step.Group)
	}
	addOn, fleet := "ManagedClusterAddOn cluster1/knative-serving", "KnativeFleet team/web"
	want := []string{addOn, addOn, addOn, addOn, addOn, addOn, "ManagedClusterAddOn /knative-eventing", fleet, fleet}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the groups differ (-want +got):\n%s", diff)
	}
}

// TestFindLeader compares the Leases of two reads. The manager has written no time that the clock of the command agrees with.
func TestFindLeader(t *testing.T) {
	longAgo := time.Unix(1000, 0)
	lease := func(holder string, renewed time.Time) *coordinationv1.Lease {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "platform", Name: "knative-addon"}, Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, RenewTime: new(metav1.NewMicroTime(renewed)), LeaseDurationSeconds: ptr.To[int32](15),
		}}
	}
	for name, tc := range map[string]struct {
		earlier, later *coordinationv1.Lease
		want           string
		wait           time.Duration
	}{
		"a manager renews its Lease":       {lease("pod", longAgo), lease("pod", longAgo.Add(2*time.Second)), "platform/pod", 15 * time.Second},
		"another manager takes the Lease":  {lease("pod", longAgo), lease("pod-2", longAgo), "platform/pod-2", 15 * time.Second},
		"a manager starts":                 {nil, lease("pod", longAgo), "platform/pod", 0},
		"a manager returns":                {lease("", longAgo), lease("pod", longAgo), "platform/pod", 0},
		"a manager has crashed":            {lease("pod", longAgo), lease("pod", longAgo), "", 15 * time.Second},
		"a manager gives its Lease up":     {lease("pod", longAgo), lease("", longAgo), "", 15 * time.Second},
		"a manager has given its Lease up": {lease("", longAgo), lease("", longAgo), "", 0},
		"no manager has ever run":          {nil, nil, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			read := func(lease *coordinationv1.Lease) Leases {
				kube := kubefake.NewClientset()
				if lease != nil {
					kube = kubefake.NewClientset(lease)
				}
				out, err := ListLeases(t.Context(), kube)
				if err != nil {
					t.Fatal(err)
				}
				return out
			}
			earlier := read(tc.earlier)
			if got := read(tc.later).FindLeader(earlier); got != tc.want || earlier.LongestDuration() != tc.wait {
				t.Errorf("leader is %q after a wait of %s, want %q after %s", got, earlier.LongestDuration(), tc.want, tc.wait)
			}
		})
	}
}

// TestFindHolder compares a Lease with the manager that runs.
func TestFindHolder(t *testing.T) {
	now := time.Unix(1000, 0)
	for renewed, want := range map[time.Time]string{now.Add(-2 * time.Second): "pod", now.Add(-time.Minute): ""} {
		kube := kubefake.NewClientset(&coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "platform", Name: ManagerLease},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: new("pod"), RenewTime: new(metav1.NewMicroTime(renewed)), LeaseDurationSeconds: ptr.To[int32](15),
			},
		})
		got, err := FindHolder(t.Context(), kube, types.NamespacedName{Namespace: "platform", Name: ManagerLease}, now)
		if err != nil || got != want {
			t.Errorf("the holder of a Lease of %s is %q, error %v, want %q", renewed, got, err, want)
		}
	}
}
