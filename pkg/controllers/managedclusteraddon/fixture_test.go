// Copyright Contributors to the Open Cluster Management project

package managedclusteraddon

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	addonfake "open-cluster-management.io/api/client/addon/clientset/versioned/fake"
	addonlisters "open-cluster-management.io/api/client/addon/listers/addon/v1beta1"
	clusterlisters "open-cluster-management.io/api/client/cluster/listers/cluster/v1"
	workfake "open-cluster-management.io/api/client/work/clientset/versioned/fake"
	worklisters "open-cluster-management.io/api/client/work/listers/work/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/manifests"
	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/reconciler"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/resolve"
	"open-cluster-management.io/knative-addon/pkg/workload"
)

// The happy paths run on a real hub in test/e2e. These tests hold the order of the writes, and which writes must not happen.

type bundlesFunc func() (*render.Bundle, error)

func (f bundlesFunc) Bundle(context.Context, *addonv1beta1.ManagedClusterAddOn) (*render.Bundle, error) {
	return f()
}

// targetOf is the resolved target of an add-on.
type targetOf resolve.Result

func (t targetOf) OfAddOn(*addonv1beta1.ManagedClusterAddOn) (resolve.Result, error) {
	return resolve.Result(t), nil
}

// permits is an administrator who permits every annotation of the add-on, unless refused; adopts takes over the installation
// of another installer.
type permits struct{ adopts, refuses bool }

func (p permits) Adopts(*addonv1beta1.ManagedClusterAddOn) bool { return p.adopts }

func (p permits) EntersNamespaces(*addonv1beta1.ManagedClusterAddOn) bool { return !p.refuses }

func (p permits) Removal(a *addonv1beta1.ManagedClusterAddOn, name string) string {
	if p.refuses {
		return ""
	}
	return a.Annotations[name]
}

// pausedBy names the annotation that pauses an add-on.
type pausedBy string

func (p pausedBy) PausedBy(*addonv1beta1.ManagedClusterAddOn) string { return string(p) }

func servingBundle() (*render.Bundle, error) {
	return &render.Bundle{
		Component: api.Serving, Version: "1.23.0", Namespace: "knative-serving", Digest: "d1", FoundationDigest: "f1",
		Workloads: []workload.Expected{{Kind: "Deployment", Namespace: "knative-serving", Name: "activator"}},
	}, nil
}

// fakeHub holds the objects that a reconcile reads, and records its writes.
type fakeHub struct {
	cluster *clusterv1.ManagedCluster
	addOn   *addonv1beta1.ManagedClusterAddOn
	works   []*workv1.ManifestWork
	noAddOn bool
	bundles bundlesFunc
	// bundlesOf, if set, replaces bundles.
	bundlesOf bundlesByHash
	target    targetOf
	paused    pausedBy
	permits   permits
	// definition and decisions say which configurations the hub gives, revisions and configs what it has.
	definition *addonv1beta1.ClusterManagementAddOn
	decisions  []*clusterv1beta1.PlacementDecision
	revisions  []*appsv1.ControllerRevision
	configs    []*unstructured.Unstructured
	// executor is the configured one.
	executor *workv1.ManifestWorkExecutor

	// differsSince is the time of the first pass that found other metadata of the payloads; zero without such a pass.
	differsSince time.Time
	// silentSince is the time of the first pass that waited for the agent of a cluster that is being detached; zero without such a pass.
	silentSince time.Time

	failCreate error
	failUpdate error // of works
	failPatch  error // of works
	actions    []string
	created    []*workv1.ManifestWork
	updated    []*workv1.ManifestWork
	triggered  bool
	result     reconcile.Result
	events     *events.FakeRecorder
	logged     string // the last line
	// storedWorks are the works after the pass.
	storedWorks clienttesting.ObjectTracker
	// stored is the add-on after the pass.
	stored *addonv1beta1.ManagedClusterAddOn
	// serveVersions makes the hub give each patched add-on another resource version, and refuse patches with an older one, which
	// refusedVersions lists.
	serveVersions   bool
	refusedVersions []string
}

// answerPatch answers a patch of the add-on as an API server does, as far as resource versions go.
func (h *fakeHub) answerPatch(a clienttesting.Action) (bool, runtime.Object, error) {
	p, ok := a.(clienttesting.PatchAction)
	if !ok || !h.serveVersions {
		return false, nil, nil
	}
	var patch metav1.PartialObjectMetadata
	if err := json.Unmarshal(p.GetPatch(), &patch); err != nil {
		return true, nil, err
	}
	if h.stored == nil {
		h.stored = h.addOn.DeepCopy()
	}
	if patch.ResourceVersion != h.stored.ResourceVersion {
		h.refusedVersions = append(h.refusedVersions, patch.ResourceVersion)
		return true, nil, apierrors.NewConflict(addonv1beta1.Resource("managedclusteraddons"), p.GetName(), errors.New("changed"))
	}
	h.stored = h.stored.DeepCopy()
	h.stored.ResourceVersion += "1"
	return true, h.stored, nil
}

const clusterName = "cluster1"

func newHub() *fakeHub {
	return &fakeHub{
		cluster: &clusterv1.ManagedCluster{
			ObjectMeta: metav1.ObjectMeta{Name: clusterName},
			Status: clusterv1.ManagedClusterStatus{Conditions: []metav1.Condition{
				{Type: clusterv1.ManagedClusterConditionAvailable, Status: metav1.ConditionTrue},
			}},
		},
		addOn: &addonv1beta1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{
			Namespace: clusterName, Name: api.Serving.AddOnName(), UID: "u1",
		}},
		bundles: servingBundle,
		target:  targetOf{Target: &resolve.Target{Mode: api.ModeManifestWork, ManagedCluster: clusterName}},
	}
}

func (h *fakeHub) deleting() *fakeHub {
	now := metav1.Now()
	h.addOn.DeletionTimestamp, h.addOn.Finalizers = &now, []string{api.FoundationFinalizer}
	return h
}

func (h *fakeHub) allowed() *fakeHub {
	h = h.deleting()
	h.addOn.Annotations = map[string]string{api.RemovalAllowedAnnotation: "1"}
	return h
}

func (h *fakeHub) annotated(name, value string) *fakeHub {
	if h.addOn.Annotations == nil {
		h.addOn.Annotations = map[string]string{}
	}
	h.addOn.Annotations[name] = value
	return h
}

func (h *fakeHub) isPaused() *fakeHub {
	h.paused = "somebody"
	return h
}

func (h *fakeHub) adopting() *fakeHub {
	h.permits.adopts = true
	return h
}

func (h *fakeHub) unreachable() *fakeHub {
	h.cluster.Status.Conditions[0].Status = metav1.ConditionUnknown
	return h
}

func (h *fakeHub) detaching() *fakeHub {
	now := metav1.Now()
	h.cluster.DeletionTimestamp = &now
	return h
}

func (h *fakeHub) with(works ...*workv1.ManifestWork) *fakeHub {
	h.works = append(h.works, works...)
	return h
}

func payload() *workv1.ManifestWork {
	return &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{
		Namespace: clusterName, Name: "addon-knative-serving-deploy-0", Labels: map[string]string{addonv1beta1.AddonLabelKey: api.Serving.AddOnName()},
	}}
}

func foundationWork() *workv1.ManifestWork {
	return &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{
		Namespace: clusterName, Name: manifestwork.FoundationName(api.Serving), Labels: map[string]string{api.FoundationLabel: string(api.Serving)},
		Annotations: map[string]string{api.DigestAnnotation: "d0"},
	}}
}

// olderProbe returns a probe as an older manager has written the probe: with the name of the foundation.
func olderProbe(probe *workv1.ManifestWork) *workv1.ManifestWork {
	probe.Name = manifestwork.FoundationName(api.Serving)
	return probe
}

// hubUID is whose the add-ons are.
const hubUID = "h1"

// appliedProbe is a probe of the bundle that the agent has applied, without the report of any object.
func appliedProbe(t *testing.T, bundle bundlesFunc) *workv1.ManifestWork {
	t.Helper()
	b, err := bundle()
	if err != nil {
		t.Fatal(err)
	}
	probe, err := manifestwork.Probe(b, newHub().addOn)
	if err != nil {
		t.Fatal(err)
	}
	probe.Status.Conditions = []metav1.Condition{
		{Type: workv1.WorkApplied, Status: metav1.ConditionTrue}, {Type: workv1.WorkAvailable, Status: metav1.ConditionTrue},
	}
	return probe
}

// probeWork is a probe that the agent has answered with these values of its role and of the Deployment, which is there.
func probeWork(t *testing.T, hub string, values map[string]string) *workv1.ManifestWork {
	t.Helper()
	probe := appliedProbe(t, servingBundle)
	report := func(kind, namespace, name string, values map[string]string) {
		m := workv1.ManifestCondition{
			ResourceMeta: workv1.ManifestResourceMeta{Kind: kind, Namespace: namespace, Name: name},
			Conditions:   []metav1.Condition{{Type: workv1.ManifestAvailable, Status: metav1.ConditionTrue}},
		}
		if values == nil {
			m.Conditions[0].Status, m.Conditions[0].Reason = metav1.ConditionFalse, "ResourceNotAvailable"
		}
		for k, v := range values {
			m.StatusFeedbacks.Values = append(m.StatusFeedbacks.Values, workv1.FeedbackValue{Name: k, Value: workv1.FieldValue{String: &v}})
		}
		probe.Status.ResourceStatus.Manifests = append(probe.Status.ResourceStatus.Manifests, m)
	}
	var role map[string]string
	if hub != "" {
		role = map[string]string{"Hub": hub}
	}
	report("ClusterRole", "", "role", role)
	report("Deployment", "knative-serving", "activator", values)
	report("ClusterRole", "", manifests.ProbeRoleName(api.Serving), map[string]string{})
	return probe
}

// indexerOf returns a cache of objects that were read from a hub: each object has a resource version.
func indexerOf[T client.Object](t *testing.T, objects ...T) cache.Indexer {
	t.Helper()
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	for _, o := range objects {
		o.SetResourceVersion("1")
		if err := indexer.Add(o); err != nil {
			t.Fatal(err)
		}
	}
	return indexer
}

// Requests of a reconcile, as a fakeHub records the requests.
const (
	patchStatus      = "patch managedclusteraddons/status/knative-serving"
	patchAddOn       = "patch managedclusteraddons/knative-serving"
	createProbe      = "create manifestworks/knative-serving-probe"
	updateProbe      = "update manifestworks/knative-serving-probe"
	deleteProbe      = "delete manifestworks/knative-serving-probe"
	createFoundation = "create manifestworks/knative-serving-foundation"
	createGate       = "create manifestworks/knative-serving-gate"
	deleteFoundation = "delete manifestworks/knative-serving-foundation"
	updateFoundation = "update manifestworks/knative-serving-foundation"
	patchPayload     = "patch manifestworks/addon-knative-serving-deploy-0"
	updatePayload    = "update manifestworks/addon-knative-serving-deploy-0"
	deletePayload    = "delete manifestworks/addon-knative-serving-deploy-0"
)

// appendWork appends an object that is a ManifestWork.
func appendWork(works []*workv1.ManifestWork, o runtime.Object) []*workv1.ManifestWork {
	if w, ok := o.(*workv1.ManifestWork); ok {
		return append(works, w)
	}
	return works
}

// passTime is the time of each pass.
var passTime = time.Unix(1000, 0)

// reconcile runs one reconcile and records the requests to the hub as "verb resource/name".
func (h *fakeHub) reconcile(t *testing.T) error {
	t.Helper()
	var objects []runtime.Object
	for _, w := range h.works {
		objects = append(objects, w)
	}
	works, addOns := workfake.NewSimpleClientset(objects...), addonfake.NewSimpleClientset(h.addOn)
	note := func(a clienttesting.Action) (bool, runtime.Object, error) {
		name := ""
		if n, ok := a.(interface{ GetName() string }); ok {
			name = n.GetName()
		}
		if c, ok := a.(clienttesting.CreateAction); ok && a.GetVerb() == "create" {
			name = c.GetObject().(metav1.Object).GetName() //nolint:forcetypeassert // it is one
			if h.failCreate != nil {
				return true, nil, h.failCreate
			}
			h.created = appendWork(h.created, c.GetObject())
		}
		if u, ok := a.(clienttesting.UpdateAction); ok && a.GetVerb() == "update" {
			name = u.GetObject().(metav1.Object).GetName() //nolint:forcetypeassert // it is one
			h.updated = appendWork(h.updated, u.GetObject())
		}
		resource := a.GetResource().Resource
		if a.GetSubresource() != "" {
			resource += "/" + a.GetSubresource()
		}
		h.actions = append(h.actions, a.GetVerb()+" "+resource+"/"+name+ofGate(t, name, a))
		return false, nil, nil
	}
	works.PrependReactor("update", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		return h.failUpdate != nil, nil, h.failUpdate
	})
	works.PrependReactor("patch", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		return h.failPatch != nil, nil, h.failPatch
	})
	works.PrependReactor("*", "*", note)
	addOns.PrependReactor("patch", "managedclusteraddons", h.answerPatch)
	addOns.PrependReactor("*", "*", note)
	clusters := indexerOf[*clusterv1.ManagedCluster](t)
	if h.cluster != nil {
		clusters = indexerOf(t, h.cluster)
	}
	addOnsIndexer := indexerOf(t, h.addOn)
	if h.noAddOn {
		addOnsIndexer = indexerOf[*addonv1beta1.ManagedClusterAddOn](t)
	}
	ours := slices.DeleteFunc(slices.Clone(h.works), func(w *workv1.ManifestWork) bool { return w.Labels[api.FoundationLabel] == "" })
	payloads := slices.DeleteFunc(slices.Clone(h.works), func(w *workv1.ManifestWork) bool { return w.Labels[api.FoundationLabel] != "" })
	r := &Reconciler{
		AddOns:   addonlisters.NewManagedClusterAddOnLister(addOnsIndexer),
		Clusters: clusterlisters.NewManagedClusterLister(clusters), Foundations: worklisters.NewManifestWorkLister(indexerOf(t, ours...)), Payloads: worklisters.NewManifestWorkLister(indexerOf(t, payloads...)),
		AddOnClient: addOns, WorkClient: works, Bundles: h.bundles, Targets: h.target, Pauses: h.paused,
		Permissions: h.permits, Executor: h.executor, Hub: func(context.Context) (types.UID, error) { return hubUID, nil }, Events: h.recorder(),
		Trigger: func(string, string) { h.triggered = true }, Clock: testclock.NewFakePassiveClock(passTime),
	}
	if h.bundlesOf != nil {
		r.Bundles = h.bundlesOf
	}
	if !h.differsSince.IsZero() {
		r.differences.Store(client.ObjectKeyFromObject(h.addOn), h.differsSince)
	}
	if !h.silentSince.IsZero() {
		r.silences.Store(client.ObjectKeyFromObject(h.addOn), h.silentSince)
	}
	h.record(t, r, note)
	logger := funcr.New(func(_, line string) { h.logged = line }, funcr.Options{Verbosity: 1})
	var err error
	h.result, err = reconciler.Wrap(r, reconciler.OfAddOn).Reconcile(log.IntoContext(t.Context(), logger), reconcile.Request{NamespacedName: cache.MetaObjectToName(h.addOn).AsNamespacedName()})
	h.rememberStored(addOns)
	h.storedWorks = works.Tracker()
	return err
}

// storedWork returns a work after the pass.
func (h *fakeHub) storedWork(t *testing.T, name string) *workv1.ManifestWork {
	t.Helper()
	stored, err := h.storedWorks.Get(workv1.Resource("manifestworks").WithVersion("v1"), clusterName, name)
	if err != nil {
		t.Fatal(err)
	}
	w, ok := stored.(*workv1.ManifestWork)
	if !ok {
		t.Fatalf("%s is a %T", name, stored)
	}
	return w
}

// rememberStored keeps the add-on that the pass has stored; a pass may have released the add-on.
func (h *fakeHub) rememberStored(addOns *addonfake.Clientset) {
	stored, err := addOns.Tracker().Get(addonv1beta1.Resource("managedclusteraddons").WithVersion("v1beta1"), h.addOn.Namespace, h.addOn.Name)
	if a, ok := stored.(*addonv1beta1.ManagedClusterAddOn); err == nil && ok && !h.serveVersions {
		h.stored = a
	}
}
