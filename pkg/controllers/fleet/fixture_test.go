// Copyright Contributors to the Open Cluster Management project

package fleet

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

	clusterlisters "open-cluster-management.io/api/client/cluster/listers/cluster/v1"
	clusterlistersv1beta1 "open-cluster-management.io/api/client/cluster/listers/cluster/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
	"open-cluster-management.io/knative-addon/pkg/controllers/removalguard"
	"open-cluster-management.io/knative-addon/pkg/reconciler"
)

const (
	team      = "team"
	fleetName = "web"
)

// newProfile returns a healthy ClusterProfile of the namespace, with labels as "key=value".
func newProfile(name string, labels ...string) *clusterinventoryv1alpha1.ClusterProfile {
	p := &clusterinventoryv1alpha1.ClusterProfile{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: name, Labels: map[string]string{}}}
	p.Spec.ClusterManager.Name = api.ClusterManagerOCM
	for _, label := range labels {
		key, value, _ := strings.Cut(label, "=")
		p.Labels[key] = value
	}
	setHealth(p, metav1.ConditionTrue)
	return p
}

func setHealth(p *clusterinventoryv1alpha1.ClusterProfile, status metav1.ConditionStatus) {
	p.Status.Conditions = []metav1.Condition{{
		Type: clusterinventoryv1alpha1.ClusterConditionControlPlaneHealthy, Status: status, LastTransitionTime: metav1.Unix(1000, 0),
	}}
}

// fakeHub is a hub with one KnativeFleet team/web and its ClusterProfiles.
type fakeHub struct {
	t        *testing.T
	client   *dynamicfake.FakeDynamicClient
	profiles []*clusterinventoryv1alpha1.ClusterProfile
	// profilesErr and decisionsErr are the errors of reading ClusterProfiles and PlacementDecisions of SIG Multicluster.
	profilesErr, decisionsErr error
	decisions                 []*clusterinventoryv1alpha1.PlacementDecision
	placements, ocmDecisions  cache.Indexer
	clusters                  cache.Indexer
	configs                   map[api.Component]cache.Indexer
	clock                     *testclock.FakePassiveClock
	events                    *events.FakeRecorder
	r                         *Reconciler
	// refuse is the error of the API server for every new child.
	refuse  error
	version int
}

func newHub(t *testing.T, spec string, profiles ...*clusterinventoryv1alpha1.ClusterProfile) *fakeHub {
	t.Helper()
	listKinds := map[schema.GroupVersionResource]string{fleetv1alpha1.Resource(): "KnativeFleetList"}
	h := &fakeHub{
		t: t, profiles: profiles, configs: map[api.Component]cache.Indexer{},
		clock:  testclock.NewFakePassiveClock(time.Now().Add(-24 * time.Hour).Truncate(time.Second)), // OCM's engine has the real clock
		events: events.NewFakeRecorder(1000),
	}
	for _, c := range api.Components() {
		listKinds[c.Resource()] = c.Kind() + "List"
		h.configs[c] = newIndexer()
	}
	h.placements, h.ocmDecisions, h.clusters = newIndexer(), newIndexer(), newIndexer()
	h.client = dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), listKinds)
	h.client.PrependReactor("create", "*", h.create)
	h.client.PrependReactor("patch", "*", h.patch)
	fleet := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": fleetv1alpha1.Group + "/" + fleetv1alpha1.Version, "kind": fleetv1alpha1.Kind,
		"metadata": map[string]any{"namespace": team, "name": fleetName, "uid": "uid-web"}, "spec": decode(t, spec),
	}}
	if _, err := h.client.Resource(fleetv1alpha1.Resource()).Namespace(team).Create(t.Context(), fleet, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	h.restart()
	return h
}

// restart makes a Reconciler that remembers nothing.
func (h *fakeHub) restart() {
	h.r = &Reconciler{
		Fleets: h, Profiles: profileLister{h}, KeyDecisions: decisionLister{h},
		Placements: clusterlistersv1beta1.NewPlacementLister(h.placements), Decisions: clusterlistersv1beta1.NewPlacementDecisionLister(h.ocmDecisions),
		Clusters: clusterlisters.NewManagedClusterLister(h.clusters), MaySelect: removalguard.MaySelect,
		Configs: map[api.Component]cache.GenericLister{}, Client: h.client, RemovalLimit: removalguard.Limit, Events: h.events, Clock: h.clock,
	}
	for c, indexer := range h.configs {
		h.r.Configs[c] = cache.NewGenericLister(indexer, c.Resource().GroupResource())
	}
}

func newIndexer() cache.Indexer {
	return cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
}

func decode(t *testing.T, text string) map[string]any {
	t.Helper()
	out := map[string]any{}
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

type profileLister struct{ *fakeHub }

// List implements Profiles.
func (l profileLister) List(string) ([]*clusterinventoryv1alpha1.ClusterProfile, error) {
	return l.profiles, l.profilesErr
}

type decisionLister struct{ *fakeHub }

// List implements KeyDecisions.
func (l decisionLister) List(string, string) ([]*clusterinventoryv1alpha1.PlacementDecision, error) {
	return l.decisions, l.decisionsErr
}

// Get implements Fleets.
func (h *fakeHub) Get(types.NamespacedName) (*unstructured.Unstructured, error) {
	fleet, err := h.client.Tracker().Get(fleetv1alpha1.Resource(), team, fleetName)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return fleet.(*unstructured.Unstructured), nil //nolint:forcetypeassert // the tracker has nothing else
}

// create stores an object as an API server does, with UID, generation and resource version.
func (h *fakeHub) create(action clienttesting.Action) (bool, runtime.Object, error) {
	o := action.(clienttesting.CreateAction).GetObject().(*unstructured.Unstructured).DeepCopy() //nolint:forcetypeassert // of a dynamic client
	if h.refuse != nil && o.GetKind() != fleetv1alpha1.Kind {
		return true, nil, h.refuse
	}
	o.SetGeneration(1)
	o.SetResourceVersion(h.nextVersion())
	if o.GetUID() == "" {
		o.SetUID(types.UID("uid-" + o.GetName() + o.GetResourceVersion()))
	}
	return true, o, h.client.Tracker().Create(action.GetResource(), o, o.GetNamespace())
}

// patch merges a patch as an API server does, and increases the generation for another spec.
func (h *fakeHub) patch(action clienttesting.Action) (bool, runtime.Object, error) {
	p := action.(clienttesting.PatchAction) //nolint:forcetypeassert // of a reactor on patches
	before, err := h.client.Tracker().Get(p.GetResource(), p.GetNamespace(), p.GetName())
	if err != nil {
		return true, nil, err
	}
	_, o, err := clienttesting.ObjectReaction(h.client.Tracker())(action)
	if err != nil {
		return true, nil, err
	}
	after := o.(*unstructured.Unstructured).DeepCopy() //nolint:forcetypeassert // of a dynamic client
	if !cmp.Equal(before.(*unstructured.Unstructured).Object["spec"], after.Object["spec"]) {
		after.SetGeneration(after.GetGeneration() + 1)
	}
	after.SetResourceVersion(h.nextVersion())
	return true, after, h.client.Tracker().Update(p.GetResource(), after, p.GetNamespace())
}

func (h *fakeHub) nextVersion() string {
	h.version++
	return fmt.Sprint(h.version)
}

// pass runs one pass with full caches, a minute after the last one, and returns the writes as "verb resource name".
func (h *fakeHub) pass() []string {
	h.t.Helper()
	writes, _ := h.passAfter(time.Minute)
	return writes
}

func (h *fakeHub) passAfter(wait time.Duration) ([]string, reconcile.Result) {
	h.t.Helper()
	h.clock.SetTime(h.clock.Now().Add(wait))
	for c, indexer := range h.configs {
		var all []any
		for _, child := range h.children(c) {
			all = append(all, child)
		}
		if err := indexer.Replace(all, ""); err != nil {
			h.t.Fatal(err)
		}
	}
	h.client.ClearActions()
	request := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: team, Name: fleetName}}
	result, err := reconciler.Wrap(h.r, reconciler.OfOther).Reconcile(h.t.Context(), request)
	if err != nil {
		h.t.Fatal(err)
	}
	return h.writes(), result
}

func (h *fakeHub) writes() []string {
	var out []string
	for _, a := range h.client.Actions() {
		resource := a.GetResource().Resource
		if a.GetSubresource() != "" {
			resource += "/" + a.GetSubresource()
		}
		switch named := a.(type) {
		case clienttesting.CreateAction:
			out = append(out, "create "+resource+" "+named.GetObject().(*unstructured.Unstructured).GetName()) //nolint:forcetypeassert // of a dynamic client
		case clienttesting.PatchAction:
			out = append(out, "patch "+resource+" "+named.GetName())
		case clienttesting.DeleteAction:
			out = append(out, "delete "+resource+" "+named.GetName())
		}
	}
	return out
}

// settle runs passes until the KnativeFleet is at rest.
func (h *fakeHub) settle() {
	h.t.Helper()
	for range 20 {
		if len(h.pass()) == 0 {
			return
		}
	}
	h.t.Fatal("the KnativeFleet does not come to rest")
}

// children lists the resources of a component by name.
func (h *fakeHub) children(c api.Component) []*unstructured.Unstructured {
	h.t.Helper()
	list, err := h.client.Tracker().List(c.Resource(), c.Resource().GroupVersion().WithKind(c.Kind()), team)
	if err != nil {
		h.t.Fatal(err)
	}
	objects, err := apimeta.ExtractList(list)
	if err != nil {
		h.t.Fatal(err)
	}
	var out []*unstructured.Unstructured
	for _, o := range objects {
		out = append(out, o.(*unstructured.Unstructured)) //nolint:forcetypeassert // of a dynamic client
	}
	slices.SortFunc(out, func(a, b *unstructured.Unstructured) int { return strings.Compare(a.GetName(), b.GetName()) })
	return out
}

// versions returns the versions in the specs of the KnativeServings, as "name=version".
func (h *fakeHub) versions() string {
	h.t.Helper()
	var out []string
	for _, child := range h.children(api.Serving) {
		version, _, _ := unstructured.NestedString(child.Object, "spec", "version")
		out = append(out, child.GetName()+"="+version)
	}
	return strings.Join(out, " ")
}

// change changes a stored KnativeServing.
func (h *fakeHub) change(name string, change func(*unstructured.Unstructured)) {
	h.t.Helper()
	h.changeObject(api.Serving.Resource(), name, change)
}

func (h *fakeHub) changeFleet(change func(*unstructured.Unstructured)) {
	h.t.Helper()
	h.changeObject(fleetv1alpha1.Resource(), fleetName, change)
}

func (h *fakeHub) changeObject(gvr schema.GroupVersionResource, name string, change func(*unstructured.Unstructured)) {
	h.t.Helper()
	o, err := h.client.Tracker().Get(gvr, team, name)
	if err != nil {
		h.t.Fatal(err)
	}
	changed := o.(*unstructured.Unstructured).DeepCopy() //nolint:forcetypeassert // of a dynamic client
	change(changed)
	if !cmp.Equal(o.(*unstructured.Unstructured).Object["spec"], changed.Object["spec"]) {
		changed.SetGeneration(changed.GetGeneration() + 1)
	}
	changed.SetResourceVersion(h.nextVersion())
	if err := h.client.Tracker().Update(gvr, changed, team); err != nil {
		h.t.Fatal(err)
	}
}

func (h *fakeHub) delete(name string) {
	h.t.Helper()
	if err := h.client.Tracker().Delete(api.Serving.Resource(), team, name); err != nil {
		h.t.Fatal(err)
	}
}

// setSpec sets fields of the spec of the KnativeFleet.
func (h *fakeHub) setSpec(fields string) {
	h.t.Helper()
	h.changeFleet(func(f *unstructured.Unstructured) {
		for key, value := range decode(h.t, fields) {
			if value == nil {
				unstructured.RemoveNestedField(f.Object, "spec", key)
				continue
			}
			if err := unstructured.SetNestedField(f.Object, value, "spec", key); err != nil {
				h.t.Fatal(err)
			}
		}
	})
}

// report sets the conditions of a KnativeServing for its present generation, as "Type=Status/Reason".
func (h *fakeHub) report(name string, conditions ...string) {
	h.t.Helper()
	h.change(name, func(c *unstructured.Unstructured) { setConditions(c, h.clock.Now(), conditions...) })
}

func setConditions(c *unstructured.Unstructured, at time.Time, conditions ...string) {
	var list []any
	for _, text := range conditions {
		kind, rest, _ := strings.Cut(text, "=")
		status, reason, _ := strings.Cut(rest, "/")
		list = append(list, map[string]any{
			"type": kind, "status": status, "reason": reason, "message": "", "lastTransitionTime": at.UTC().Format(time.RFC3339),
		})
	}
	status := map[string]any{"observedGeneration": c.GetGeneration(), "conditions": list}
	if revision, isChild := c.GetAnnotations()[api.FleetRevisionAnnotation]; isChild {
		status["annotations"] = map[string]any{api.FleetRevisionAnnotation: revision}
	}
	c.Object["status"] = status
}

// becomeReady lets every KnativeServing report Ready.
func (h *fakeHub) becomeReady() {
	h.t.Helper()
	for _, c := range h.children(api.Serving) {
		h.report(c.GetName(), "Ready=True/Ready")
	}
}

// status returns the status of the KnativeFleet.
func (h *fakeHub) status() fleetv1alpha1.KnativeFleetStatus {
	h.t.Helper()
	read, err := h.Get(types.NamespacedName{})
	if err != nil || read == nil {
		h.t.Fatalf("no KnativeFleet (error %v)", err)
	}
	var fleet fleetv1alpha1.KnativeFleet
	content := map[string]any{"status": read.Object["status"]} // the spec of a test may be invalid
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, &fleet); err != nil {
		h.t.Fatal(err)
	}
	return fleet.Status
}

// shows fails the test unless the KnativeFleet has the conditions, as "Type=Status/Reason".
func (h *fakeHub) shows(want ...string) {
	h.t.Helper()
	var got []string
	for _, c := range h.status().Conditions {
		got = append(got, fmt.Sprintf("%s=%s/%s", c.Type, c.Status, c.Reason))
	}
	for _, w := range want {
		if !slices.Contains(got, w) {
			h.t.Errorf("the conditions are %q, want %q", got, w)
		}
	}
}
