// Copyright Contributors to the Open Cluster Management project

package knative

import (
	"context"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	clusterinventoryv1alpha1 "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"open-cluster-management.io/addon-framework/pkg/index"
	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	addonfake "open-cluster-management.io/api/client/addon/clientset/versioned/fake"
	addonlisters "open-cluster-management.io/api/client/addon/listers/addon/v1beta1"
	clusterlisters "open-cluster-management.io/api/client/cluster/listers/cluster/v1"
	clusterlistersv1beta1 "open-cluster-management.io/api/client/cluster/listers/cluster/v1beta1"
	clusterlistersv1beta2 "open-cluster-management.io/api/client/cluster/listers/cluster/v1beta2"
	worklisters "open-cluster-management.io/api/client/work/listers/work/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta2 "open-cluster-management.io/api/cluster/v1beta2"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/reconciler"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/revision"
	"open-cluster-management.io/knative-addon/pkg/target"
	"open-cluster-management.io/knative-addon/pkg/trust"
)

const (
	clusterName = "c1"
	team        = "team"
)

// fakeHub is a hub with one cluster, and a Reconciler that reads from caches of it.
type fakeHub struct {
	*apiServer

	configs *dynamicfake.FakeDynamicClient
	addOns  *addonfake.Clientset
	events  *events.FakeRecorder
	clock   *testclock.FakePassiveClock

	definition *addonv1beta1.ClusterManagementAddOn
	profiles   map[types.NamespacedName]*clusterinventoryv1alpha1.ClusterProfile
	cluster    *clusterv1.ManagedCluster
	bindings   []*clusterv1beta2.ManagedClusterSetBinding
	works      []*workv1.ManifestWork
	bundle     *render.Bundle
	bundleErr  error
	// current is what configurations ask for when that is not bundle, and pausedBy what keeps the cluster as it is.
	current    *render.Bundle
	currentErr error
	pausedBy   string

	// behind keeps the cache of add-ons as it is.
	behind bool
	// trusted are the namespaces whose annotations count.
	trusted []string
	// handedOver tells that the hub has recorded what the next add-on gets.
	handedOver bool
	cached     struct{ configs, addOns, definitions, clusters, bindings, sets, foundations, payloads, revisions, decisions cache.Indexer }
	r          *Reconciler
	m          *ManifestWork
}

// newHub has the configurations and a cluster of OCM that is there, with its profile, and the right to it.
func newHub(t *testing.T, configs ...*unstructured.Unstructured) *fakeHub {
	t.Helper()
	h := &fakeHub{
		apiServer: &apiServer{t: t, version: 100}, addOns: addonfake.NewSimpleClientset(), events: events.NewFakeRecorder(1000),
		configs: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
			map[schema.GroupVersionResource]string{api.Serving.Resource(): "KnativeServingList"}),
		clock: testclock.NewFakePassiveClock(time.Unix(10000, 0)),
		definition: &addonv1beta1.ClusterManagementAddOn{
			ObjectMeta: metav1.ObjectMeta{Name: api.Serving.AddOnName()},
			Spec: addonv1beta1.ClusterManagementAddOnSpec{
				InstallStrategy: addonv1beta1.InstallStrategy{Type: addonv1beta1.AddonInstallStrategyManual},
			},
		},
		profiles: map[types.NamespacedName]*clusterinventoryv1alpha1.ClusterProfile{{Namespace: team, Name: clusterName}: {
			ObjectMeta: metav1.ObjectMeta{
				Namespace: team, Name: clusterName, Annotations: map[string]string{}, Labels: map[string]string{clusterv1.ClusterNameLabelKey: clusterName},
			},
			Spec: clusterinventoryv1alpha1.ClusterProfileSpec{ClusterManager: clusterinventoryv1alpha1.ClusterManager{Name: api.ClusterManagerOCM}},
			Status: clusterinventoryv1alpha1.ClusterProfileStatus{Conditions: []metav1.Condition{
				{Type: clusterinventoryv1alpha1.ClusterConditionControlPlaneHealthy, Status: metav1.ConditionTrue},
			}},
		}},
		cluster: &clusterv1.ManagedCluster{
			ObjectMeta: metav1.ObjectMeta{Name: clusterName, Labels: map[string]string{clusterv1beta2.ClusterSetLabel: "dev"}},
			Spec:       clusterv1.ManagedClusterSpec{HubAcceptsClient: true},
			Status: clusterv1.ManagedClusterStatus{Conditions: []metav1.Condition{
				{Type: clusterv1.ManagedClusterConditionJoined, Status: metav1.ConditionTrue},
				{Type: clusterv1.ManagedClusterConditionAvailable, Status: metav1.ConditionTrue},
			}},
		},
		bindings: []*clusterv1beta2.ManagedClusterSetBinding{{
			ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "dev"}, Spec: clusterv1beta2.ManagedClusterSetBindingSpec{ClusterSet: "dev"},
			Status: clusterv1beta2.ManagedClusterSetBindingStatus{
				Conditions: []metav1.Condition{{Type: clusterv1beta2.ClusterSetBindingBoundType, Status: metav1.ConditionTrue}},
			},
		}},
		bundle:  &render.Bundle{Component: api.Serving, Version: "1.23.0", Digest: "d1", FoundationDigest: "f1"},
		trusted: []string{team},
	}
	for _, c := range configs {
		c.SetResourceVersion(h.next())
		if err := h.configs.Tracker().Create(api.Serving.Resource(), c, c.GetNamespace()); err != nil {
			t.Fatal(err)
		}
	}
	h.serve(&h.configs.Fake, h.configs.Tracker(), func() runtime.Object { return &unstructured.Unstructured{} })
	h.serve(&h.addOns.Fake, h.addOns.Tracker(), func() runtime.Object { return &addonv1beta1.ManagedClusterAddOn{} })
	h.start()
	return h
}

// start makes a Reconciler that remembers nothing.
func (h *fakeHub) start() {
	indexer := func(more cache.Indexers) cache.Indexer {
		i := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
		if err := i.AddIndexers(more); err != nil {
			h.t.Fatal(err)
		}
		return i
	}
	c := &h.cached
	c.configs, c.addOns = indexer(target.Indexers()), indexer(cache.Indexers{index.AddonByConfig: index.IndexAddonByConfig})
	for _, other := range []*cache.Indexer{&c.definitions, &c.clusters, &c.bindings, &c.sets, &c.foundations, &c.payloads, &c.revisions, &c.decisions} {
		*other = indexer(nil)
	}
	h.m = &ManifestWork{
		Component: api.Serving,
		Finder: &target.Finder{
			Configs: map[api.Component]cache.Indexer{api.Serving: c.configs}, Profiles: h,
			Clusters: clusterlisters.NewManagedClusterLister(c.clusters),
			Bindings: clusterlistersv1beta2.NewManagedClusterSetBindingLister(c.bindings),
			Sets:     clusterlistersv1beta2.NewManagedClusterSetLister(c.sets),
			Trust:    trust.Policy{Namespaces: h.trusted},
		},
		Bundles: h, Pauses: h,
		AddOns: addonlisters.NewManagedClusterAddOnLister(c.addOns), Definitions: addonlisters.NewClusterManagementAddOnLister(c.definitions),
		Foundations: worklisters.NewManifestWorkLister(c.foundations), Payloads: worklisters.NewManifestWorkLister(c.payloads), Revisions: c.revisions,
		ConfigClient: h.configs, AddOnClient: h.addOns, Events: h.events, Clock: h.clock,
	}
	h.r = &Reconciler{
		Component: api.Serving, Configs: cache.NewGenericLister(c.configs, api.Serving.Resource().GroupResource()),
		Finder: h.m.Finder, Deliveries: []Delivery{h.m},
		Fleet: &FleetStatus{
			Component: api.Serving, AddOnsByConfig: c.addOns, Versions: h, Clock: h.clock, Foundations: h.m.Foundations, Payloads: h.m.Payloads,
			Granter: &revision.Granter{Definitions: h.m.Definitions, Decisions: clusterlistersv1beta1.NewPlacementDecisionLister(c.decisions)},
		},
		Status: &StatusWriter{Component: api.Serving, Client: h.configs, Events: h.events, Clock: h.clock},
	}
	h.sync()
}

// sync brings the caches up to what the hub has.
func (h *fakeHub) sync() {
	h.t.Helper()
	c := &h.cached
	fill(h.t, c.configs, h.list(h.configs.Tracker(), api.Serving.Resource(), api.Serving.Kind())...)
	if !h.behind {
		fill(h.t, c.addOns, h.list(h.addOns.Tracker(), addOnResource, "ManagedClusterAddOn")...)
	}
	fill(h.t, c.bindings, objects(h.bindings)...)
	fill(h.t, c.sets, runtime.Object(&clusterv1beta2.ManagedClusterSet{
		ObjectMeta: metav1.ObjectMeta{Name: "dev"},
		Spec: clusterv1beta2.ManagedClusterSetSpec{
			ClusterSelector: clusterv1beta2.ManagedClusterSelector{SelectorType: clusterv1beta2.ExclusiveClusterSetLabel},
		},
	}))
	fill(h.t, c.definitions)
	fill(h.t, c.clusters)
	if h.definition != nil {
		fill(h.t, c.definitions, runtime.Object(h.definition))
	}
	if h.cluster != nil {
		fill(h.t, c.clusters, runtime.Object(h.cluster))
	}
	var foundations, payloads []runtime.Object
	for _, w := range h.works {
		if w.Labels[api.FoundationLabel] != "" {
			foundations = append(foundations, w)
		} else {
			payloads = append(payloads, w)
		}
	}
	if h.handedOver {
		fill(h.t, c.revisions, runtime.Object(&appsv1.ControllerRevision{
			ObjectMeta: metav1.ObjectMeta{Namespace: clusterName, Name: revision.HandoverName(api.Serving)},
		}))
	}
	fill(h.t, c.foundations, foundations...)
	fill(h.t, c.payloads, payloads...)
}

// fill makes the objects all that a cache has.
func fill(t *testing.T, indexer cache.Indexer, objects ...runtime.Object) {
	t.Helper()
	all := make([]any, 0, len(objects))
	for _, o := range objects {
		all = append(all, o)
	}
	if err := indexer.Replace(all, ""); err != nil {
		t.Fatal(err)
	}
}

func objects[T runtime.Object](in []T) []runtime.Object {
	var out []runtime.Object
	for _, o := range in {
		out = append(out, o)
	}
	return out
}

func (h *fakeHub) list(tracker clienttesting.ObjectTracker, gvr schema.GroupVersionResource, kind string) []runtime.Object {
	h.t.Helper()
	list, err := tracker.List(gvr, gvr.GroupVersion().WithKind(kind), "")
	if err != nil {
		h.t.Fatal(err)
	}
	out, err := apimeta.ExtractList(list)
	if err != nil {
		h.t.Fatal(err)
	}
	return out
}

// Get implements target.Profiles.
func (h *fakeHub) Get(name types.NamespacedName) (*clusterinventoryv1alpha1.ClusterProfile, error) {
	return h.profiles[name], nil
}

func (h *fakeHub) profile() *clusterinventoryv1alpha1.ClusterProfile {
	return h.profiles[types.NamespacedName{Namespace: team, Name: clusterName}]
}

// Bundle implements Bundles.
func (h *fakeHub) Bundle(context.Context, *addonv1beta1.ManagedClusterAddOn) (*render.Bundle, error) {
	if h.bundleErr != nil {
		return nil, h.bundleErr
	}
	return h.bundle, nil
}

// Latest implements Bundles.
func (h *fakeHub) Latest(ctx context.Context, _ types.NamespacedName, _ *addonv1beta1.ManagedClusterAddOn) (*render.Bundle, error) {
	if h.current != nil || h.currentErr != nil {
		return h.current, h.currentErr
	}
	return h.Bundle(ctx, nil)
}

// Version implements Bundles.
func (h *fakeHub) Version(ctx context.Context, _ api.Component, name types.NamespacedName) (version string, warnings []string, err error) {
	bundle, err := h.Latest(ctx, name, nil)
	if err != nil {
		return "", nil, err
	}
	return bundle.Version, bundle.Warnings, nil
}

// PausedBy implements addon.Pauses.
func (h *fakeHub) PausedBy(*addonv1beta1.ManagedClusterAddOn) string { return h.pausedBy }

// reconcile runs one reconcile of team/name with caches that are up to date.
func (h *fakeHub) reconcile(name string) (reconcile.Result, error) {
	h.t.Helper()
	h.sync()
	return reconciler.Wrap(h.r, reconciler.OfComponent(api.Serving)).Reconcile(h.t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: team, Name: name}})
}

// mustReconcile runs one reconcile and returns what was asked of the hub.
func (h *fakeHub) mustReconcile(name string) []string {
	h.t.Helper()
	if _, err := h.reconcile(name); err != nil {
		h.t.Fatal(err)
	}
	return h.asked()
}

// settle reconciles until nothing is asked any more.
func (h *fakeHub) settle(name string) {
	h.t.Helper()
	for range 10 {
		if len(h.mustReconcile(name)) == 0 {
			return
		}
	}
	h.t.Fatal("it does not come to rest")
}

// delivered puts the works of the bundle on the hub as the agent reports on them when all is well.
func (h *fakeHub) delivered() {
	h.t.Helper()
	foundation, err := manifestwork.Foundation(h.bundle, h.addOn(), "h1")
	if err != nil {
		h.t.Fatal(err)
	}
	payload := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{
		Namespace: clusterName, Name: "addon-knative-serving-deploy-0", Labels: map[string]string{addonv1beta1.AddonLabelKey: api.Serving.AddOnName()},
	}}
	h.works = []*workv1.ManifestWork{foundation, payload}
	for _, w := range h.works {
		w.Status.Conditions = []metav1.Condition{{Type: workv1.WorkApplied, Status: metav1.ConditionTrue}, {Type: workv1.WorkAvailable, Status: metav1.ConditionTrue}}
	}
	for _, o := range manifestwork.Payload(h.bundle, foundation) {
		u, ok := o.(*unstructured.Unstructured)
		if !ok {
			h.t.Fatalf("%T is in the payload", o)
		}
		raw, err := u.MarshalJSON()
		if err != nil {
			h.t.Fatal(err)
		}
		payload.Spec.Workload.Manifests = append(payload.Spec.Workload.Manifests, workv1.Manifest{RawExtension: runtime.RawExtension{Raw: raw}})
		payload.Status.ResourceStatus.Manifests = append(payload.Status.ResourceStatus.Manifests, workv1.ManifestCondition{
			ResourceMeta: workv1.ManifestResourceMeta{Kind: u.GetKind(), Namespace: u.GetNamespace(), Name: u.GetName()},
			Conditions:   []metav1.Condition{{Type: workv1.ManifestAvailable, Status: metav1.ConditionTrue}},
		})
	}
}

func (h *fakeHub) direct() { h.profile().Annotations[api.DeliveryAnnotation] = api.DeliveryDirect }

func (h *fakeHub) unavailable() { h.cluster.Status.Conditions[1].Status = metav1.ConditionUnknown }

func (h *fakeHub) placements() {
	h.definition.Spec.InstallStrategy.Type = addonv1beta1.AddonInstallStrategyPlacements
}

var (
	_ AddOnBundles = (*fakeHub)(nil)
	_ Versions     = (*fakeHub)(nil)
)
