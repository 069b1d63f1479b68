// Copyright Contributors to the Open Cluster Management project

package configuration

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"open-cluster-management.io/addon-framework/pkg/index"
	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	addonlisters "open-cluster-management.io/api/client/addon/listers/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
	"open-cluster-management.io/knative-addon/pkg/reconciler"
	"open-cluster-management.io/knative-addon/pkg/revision"
)

// recordHub has one KnativeServing, fleet/default, and a Reconciler with caches of it.
type recordHub struct {
	t       *testing.T
	kube    *kubefake.Clientset
	configs cache.Indexer
	addOns  cache.Indexer
	cached  cache.Indexer // of revisions
	r       *Reconciler
	queue   workqueue.TypedRateLimitingInterface[reconcile.Request]

	generation int64
	uid        types.UID
	last       *unstructured.Unstructured
	// behind keeps the cache of revisions as it is.
	behind bool
}

func newRecordHub(t *testing.T) *recordHub {
	t.Helper()
	h := &recordHub{
		t: t, kube: kubefake.NewClientset(), uid: "u1",
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]()),
	}
	t.Cleanup(h.queue.ShutDown)
	h.restart()
	return h
}

// restart makes a Reconciler that remembers nothing, and shows it what there is.
func (h *recordHub) restart() {
	h.t.Helper()
	namespaced := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	h.configs, h.cached = cache.NewIndexer(cache.MetaNamespaceKeyFunc, namespaced), cache.NewIndexer(cache.MetaNamespaceKeyFunc, revision.Indexers())
	if h.addOns == nil {
		h.addOns = cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{index.AddonByConfig: index.IndexAddonByConfig})
	}
	h.r = &Reconciler{
		Recorder: Recorder{
			Kind: api.Serving, Configs: cache.NewGenericLister(h.configs, api.Serving.Resource().GroupResource()), Revisions: h.cached, RevisionClient: h.kube,
			References: &revision.References{
				AddOns: h.addOns, Definitions: addonlisters.NewClusterManagementAddOnLister(cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})),
			},
		},
		Component: api.Serving, ConfigClient: newConfigClient(), Versions: newest{}, Operator: func() string { return "" },
	}
	if h.last != nil {
		h.put(h.last)
		h.r.configHandler().Create(h.t.Context(), event.CreateEvent{Object: h.last}, h.queue)
	}
}

func (h *recordHub) put(config *unstructured.Unstructured) {
	h.t.Helper()
	if err := h.configs.Add(config); err != nil {
		h.t.Fatal(err)
	}
	h.last = config
}

func (h *recordHub) config(version string, annotations map[string]string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": api.Group + "/v1beta1", "kind": "KnativeServing",
		"metadata": map[string]any{"namespace": "fleet", "name": "default", "uid": string(h.uid), "resourceVersion": "1", "generation": h.generation},
		"spec":     map[string]any{"version": version},
	}}
	u.SetAnnotations(annotations)
	return u
}

// apply changes the resource, of which the Reconciler gets an event.
func (h *recordHub) apply(version string, annotations map[string]string) {
	h.t.Helper()
	if h.last == nil || h.last.Object["spec"].(map[string]any)["version"] != version { //nolint:forcetypeassert // it is one
		h.generation++
	}
	config, before := h.config(version, annotations), h.last
	h.put(config)
	if before == nil {
		h.r.configHandler().Create(h.t.Context(), event.CreateEvent{Object: config}, h.queue)
		return
	}
	h.r.configHandler().Update(h.t.Context(), event.UpdateEvent{ObjectOld: before, ObjectNew: config}, h.queue)
}

// reconcile runs one reconcile with a cache of revisions that is up to date, and returns what was asked of the hub.
func (h *recordHub) reconcile() ([]string, error) {
	h.t.Helper()
	h.sync()
	h.kube.ClearActions()
	_, err := reconciler.Wrap(h.r, reconciler.OfComponent(api.Serving)).Reconcile(h.t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "fleet", Name: "default"}})
	var out []string
	for _, a := range h.kube.Actions() {
		out = append(out, a.GetVerb())
	}
	return out, err
}

func (h *recordHub) sync() {
	h.t.Helper()
	if h.behind {
		return
	}
	var objects []any
	for i := range h.list() {
		objects = append(objects, &h.list()[i])
	}
	before := h.cached.List()
	if err := h.cached.Replace(objects, ""); err != nil {
		h.t.Fatal(err)
	}
	h.announce(before)
}

// announce gives the Reconciler an event for each revision that came, changed or went.
func (h *recordHub) announce(before []any) {
	h.t.Helper()
	after := h.cached.List()
	for _, lists := range [][2][]any{{before, after}, {after, before}} {
		for _, o := range lists[0] {
			if !slices.ContainsFunc(lists[1], func(other any) bool { return equality.Semantic.DeepEqual(other, o) }) {
				h.r.observeRevision(h.t.Context(), o.(*appsv1.ControllerRevision)) //nolint:forcetypeassert // it is one
			}
		}
	}
}

func (h *recordHub) list() []appsv1.ControllerRevision {
	h.t.Helper()
	list, err := h.kube.Tracker().List(appsv1.SchemeGroupVersion.WithResource("controllerrevisions"), appsv1.SchemeGroupVersion.WithKind("ControllerRevision"), "fleet")
	if err != nil {
		h.t.Fatal(err)
	}
	return list.(*appsv1.ControllerRevisionList).Items //nolint:forcetypeassert // it is one
}

// settle reconciles until nothing is asked any more.
func (h *recordHub) settle() {
	h.t.Helper()
	for range 5 {
		asked, err := h.reconcile()
		if err != nil {
			h.t.Fatal(err)
		}
		if len(asked) == 0 {
			return
		}
	}
	h.t.Fatal("it does not come to rest")
}

// history is what is recorded, as "number version pin owner", the newest first.
func (h *recordHub) history() []string {
	h.t.Helper()
	var all []*appsv1.ControllerRevision
	for i := range h.list() {
		all = append(all, &h.list()[i])
	}
	revision.SortNewestFirst(all)
	var out []string
	for _, r := range all {
		u, err := revision.Restore(r)
		if err != nil {
			h.t.Fatal(err)
		}
		version, _, _ := unstructured.NestedString(u.Object, "spec", "version")
		out = append(out, fmt.Sprintf("%d %s %s %s", r.Revision, version, u.GetAnnotations()[api.PinnedVersionAnnotation], r.OwnerReferences[0].UID))
	}
	return out
}

func (h *recordHub) want(reason string, want ...string) {
	h.t.Helper()
	if diff := cmp.Diff(want, h.history()); diff != "" {
		h.t.Errorf("%s (-want +got):\n%s", reason, diff)
	}
}

func TestRecord(t *testing.T) {
	h := newRecordHub(t)
	h.apply("1.21", nil)
	asked, err := h.reconcile()
	if diff := cmp.Diff([]string{"list", "create"}, asked); err != nil || diff != "" {
		t.Errorf("error %v (-want +got):\n%s", err, diff)
	}
	h.settle()
	h.want("The first spec is the first revision.", "1 1.21  u1")

	h.apply("1.22", nil)
	h.apply("1.23", nil)
	h.settle()
	h.want("A spec that was there for a moment may be one that OCM refers to.", "3 1.23  u1", "2 1.22  u1", "1 1.21  u1")

	h.restart()
	if asked, err := h.reconcile(); err != nil || len(asked) > 0 {
		t.Errorf("what is recorded is asked for again: %v, %v", asked, err)
	}

	h.apply("1.21", nil)
	h.settle()
	h.want("A spec that comes back is the newest again, and one revision.", "4 1.21  u1", "3 1.23  u1", "2 1.22  u1")
}

// TestOtherManager holds that nothing is recorded of a resource that another manager serves, also not later.
func TestOtherManager(t *testing.T) {
	h := newRecordHub(t)
	h.r.Excludes = func(*unstructured.Unstructured) bool { return true }
	h.apply("1.21", nil)
	if asked, err := h.reconcile(); err != nil || len(asked) > 0 {
		t.Errorf("asked for %v, error %v", asked, err)
	}
	if left := h.r.observations.listSpecs(keyOf(h.last)); len(left) > 0 {
		t.Errorf("%d specs wait to be recorded", len(left))
	}
}

// TestStatusIsNotRecorded holds that an event for another status enqueues the resource, for the pin and the rollback, and has nothing
// recorded.
func TestStatusIsNotRecorded(t *testing.T) {
	h := newRecordHub(t)
	h.apply("1.21", nil)
	h.settle()
	before := h.queue.Len()
	h.queue.Done(func() reconcile.Request { r, _ := h.queue.Get(); return r }())
	reported := h.last.DeepCopy()
	reported.Object["status"] = map[string]any{"version": "1.21.3"}
	reported.SetResourceVersion("2")
	reported.SetAnnotations(map[string]string{"other": "x"})
	h.r.configHandler().Update(t.Context(), event.UpdateEvent{ObjectOld: h.last, ObjectNew: reported}, h.queue)
	if before != 1 || h.queue.Len() != 1 {
		t.Errorf("the queue has %d requests after the first spec and %d after a status", before, h.queue.Len())
	}
	if left := h.r.observations.listSpecs(keyOf(h.last)); len(left) > 0 {
		t.Errorf("%d specs wait to be recorded", len(left))
	}
	h.behind = true // without the event of a revision
	if err := h.cached.Replace(nil, ""); err != nil {
		t.Fatal(err)
	}
	if asked, err := h.reconcile(); err != nil || len(asked) > 0 {
		t.Errorf("asked for %v, error %v", asked, err)
	}
}

// TestAnnotations holds that a revision has the annotations that its spec was last seen with, and never loses its pin.
func TestAnnotations(t *testing.T) {
	h := newRecordHub(t)
	h.apply("", nil)
	h.settle()
	h.apply("", map[string]string{api.PinnedVersionAnnotation: "1.22.1"})
	h.settle()
	h.want("The pin comes after the spec.", "1  1.22.1 u1")
	h.apply("1.23", map[string]string{api.PinnedVersionAnnotation: "1.22.1"})
	h.settle()
	h.apply("1.23", nil)
	h.settle()
	h.apply("", nil)
	h.settle()
	h.want("The pin is gone for a moment only.", "3  1.22.1 u1", "2 1.23 1.22.1 u1")
	h.apply("", map[string]string{api.PinnedVersionAnnotation: "1.23.0"})
	h.settle()
	h.want("Another pin takes its place.", "3  1.23.0 u1", "2 1.23 1.22.1 u1")

	h.apply("", map[string]string{api.PinnedVersionAnnotation: "1.23.0", api.InstallNamespaceAnnotation: "kn"})
	h.settle()
	placed := func(r appsv1.ControllerRevision) bool { return r.Annotations[api.InstallNamespaceAnnotation] == "kn" }
	if !slices.ContainsFunc(h.list(), placed) {
		t.Error("no revision has the install namespace of the resource")
	}
	h.apply("", map[string]string{api.PinnedVersionAnnotation: "1.23.0"})
	h.settle()
	for _, r := range h.list() {
		if r.Annotations[api.InstallNamespaceAnnotation] != "" {
			t.Error("an install namespace that was taken away is still there")
		}
	}
}

// TestMadeAnew holds that the history of a resource outlives it when one of the same name follows: its clusters are still
// at its specs.
func TestMadeAnew(t *testing.T) {
	h := newRecordHub(t)
	h.apply("1.21", nil)
	h.apply("1.22", nil)
	h.settle()
	h.uid, h.generation, h.last = "u2", 0, nil
	h.apply("1.23", nil)
	h.settle()
	h.want("The revisions go with their owner.", "3 1.23  u2", "2 1.22  u2", "1 1.21  u2")
	h.uid, h.generation, h.last = "u3", 0, nil
	h.apply("1.23", nil)
	h.settle()
	h.want("Also when nothing has changed.", "3 1.23  u3", "2 1.22  u3", "1 1.21  u3")
}

func TestPrune(t *testing.T) {
	h := newRecordHub(t)
	hashes := map[string]string{}
	for i := range 15 {
		version := fmt.Sprintf("v%02d", i)
		h.apply(version, nil)
		hashes[version], _ = revision.Hash(h.last)
		if i == 0 { // two clusters stay behind
			h.refer("c1", hashes["v00"], "")
		}
		if i == 2 {
			h.refer("c2", "", hashes["v02"])
		}
		h.settle()
	}
	want := []string{}
	for i := 14; i >= 5; i-- {
		want = append(want, fmt.Sprintf("%d v%02d  u1", i+1, i))
	}
	h.want("The last ten are kept, and those that OCM refers to.", append(want, "3 v02  u1", "1 v00  u1")...)

	h.apply("v00", nil)
	h.refer("c1", hashes["v14"], "")
	h.refer("c2", hashes["v14"], "")
	h.settle()
	want = slices.Insert(want[:9:9], 0, "16 v00  u1")
	h.want("One that is the newest again stays; one that nobody refers to any more goes.", want...)
}

// TestPruneKeepsLastKnownGood holds that the newest spec that a cluster has completed stays, and that older completed specs go.
func TestPruneKeepsLastKnownGood(t *testing.T) {
	h := newRecordHub(t)
	for i := range 15 {
		h.apply(fmt.Sprintf("v%02d", i), nil)
		h.settle()
		if i == 1 || i == 2 {
			if marked, err := h.r.MarkCompleted(t.Context(), h.last, "c1"); err != nil || !marked {
				t.Fatalf("marked: %t, error %v", marked, err)
			}
			h.settle()
		}
	}
	want := []string{}
	for i := 14; i >= 5; i-- {
		want = append(want, fmt.Sprintf("%d v%02d  u1", i+1, i))
	}
	h.want("A rollback to the last known good spec finds the spec.", append(want, "3 v02  u1")...)
}

// TestLimitHistory holds that resources of a KnativeFleet, of which there may be thousands, keep fewer revisions.
func TestLimitHistory(t *testing.T) {
	h := newRecordHub(t)
	config := h.config("v00", nil)
	if got := limitHistory(config); got != historyLimit {
		t.Errorf("the limit is %d, want %d", got, historyLimit)
	}
	config.SetOwnerReferences([]metav1.OwnerReference{{Kind: fleetv1alpha1.Kind, Name: "web", UID: "1", Controller: new(true)}})
	if got := limitHistory(config); got != childHistoryLimit {
		t.Errorf("the limit of a resource of a KnativeFleet is %d, want %d", got, childHistoryLimit)
	}
}

// refer makes OCM refer to specs for a cluster.
func (h *recordHub) refer(cluster, desired, applied string) {
	h.t.Helper()
	here := func(hash string) *addonv1beta1.ConfigSpecHash {
		return &addonv1beta1.ConfigSpecHash{ConfigReferent: addonv1beta1.ConfigReferent{Namespace: "fleet", Name: "default"}, SpecHash: hash}
	}
	a := &addonv1beta1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: "knative-serving"}}
	a.Status.ConfigReferences = []addonv1beta1.ConfigReference{{
		ConfigGroupResource: addonv1beta1.ConfigGroupResource{Group: api.Group, Resource: "knativeservings"},
		DesiredConfig:       here(desired), LastAppliedConfig: here(applied),
	}}
	if err := h.addOns.Add(a); err != nil {
		h.t.Fatal(err)
	}
}

// TestFailuresLoseNothing holds that what was seen is recorded in the end, whatever the hub says in between.
func TestFailuresLoseNothing(t *testing.T) {
	h := newRecordHub(t)
	errDown := errors.New("the hub is down")
	failing := errDown
	h.kube.PrependReactor("create", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return failing != nil, nil, failing })
	h.apply("1.21", nil)
	h.apply("1.22", nil)
	if _, err := h.reconcile(); !errors.Is(err, errDown) {
		t.Errorf("error is %v", err)
	}
	h.apply("1.23", nil)
	failing = nil
	h.settle()
	h.want("All are recorded, in order.", "3 1.23  u1", "2 1.22  u1", "1 1.21  u1")
}

// TestRefusedRecords holds that the specs of a resource whose records the hub refuses take a bounded amount of memory, and that a deleted
// resource leaves no spec behind.
func TestRefusedRecords(t *testing.T) {
	h := newRecordHub(t)
	refusal := apierrors.NewForbidden(appsv1.Resource("controllerrevisions"), "a", errors.New("exceeded quota"))
	h.kube.PrependReactor("create", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, refusal })
	for n := range 3 * historyLimit {
		h.apply(fmt.Sprintf("1.%d", n), nil)
		if _, err := h.reconcile(); !apierrors.IsForbidden(err) {
			t.Fatalf("the error is %v, want the refusal", err)
		}
	}
	name := types.NamespacedName{Namespace: "fleet", Name: "default"}
	if specs := h.r.observations.listSpecs(name); len(specs) != historyLimit || specs[historyLimit-1] != h.last {
		t.Errorf("%d specs are kept, want the newest %d", len(specs), historyLimit)
	}
	if err := h.configs.Delete(h.last); err != nil {
		t.Fatal(err)
	}
	if _, err := h.reconcile(); err != nil || len(h.r.observations.listSpecs(name)) > 0 {
		t.Errorf("%d specs of the deleted resource are kept, the error is %v", len(h.r.observations.listSpecs(name)), err)
	}
}

// TestCacheBehind holds that numbers are given once, and that nothing is recorded twice, when the cache does not show yet
// what was just written.
func TestCacheBehind(t *testing.T) {
	h := newRecordHub(t)
	h.apply("1.21", nil)
	h.settle()
	h.behind = true
	h.apply("1.22", nil)
	h.apply("1.23", nil)
	h.apply("1.22", nil)
	for range 3 {
		if _, err := h.reconcile(); err != nil {
			t.Fatal(err)
		}
		h.r.observations.addSpec(h.last)
	}
	h.want("The hub is asked.", "4 1.22  u1", "3 1.23  u1", "1 1.21  u1")
}

// TestReturnOfCompletedSpec holds that a spec which returns counts as completed only when a cluster has run the spec again, and that the spec
// before keeps its record.
func TestReturnOfCompletedSpec(t *testing.T) {
	h := newRecordHub(t)
	completed := func() (out []string) {
		for i := range h.list() {
			if r := h.list()[i]; r.Annotations[api.CompletedAnnotation] != "" {
				out = append(out, fmt.Sprintf("%d by %s", r.Revision, r.Annotations[api.CompletedAnnotation]))
			}
		}
		slices.Sort(out)
		return out
	}
	for _, version := range []string{"1.21", "1.22"} {
		h.apply(version, nil)
		h.settle()
		if marked, err := h.r.MarkCompleted(t.Context(), h.last, "c1"); err != nil || !marked {
			t.Fatalf("marked: %t, error %v", marked, err)
		}
		h.settle()
	}
	if got := completed(); !slices.Equal(got, []string{"1 by c1", "2 by c1"}) || !h.r.IsCompleted(h.last) {
		t.Errorf("completed are %q", got)
	}
	h.apply("1.21", nil)
	h.settle()
	if got := completed(); !slices.Equal(got, []string{"2 by c1"}) || h.r.IsCompleted(h.last) {
		t.Errorf("after the return of the first spec, completed are %q", got)
	}
}
