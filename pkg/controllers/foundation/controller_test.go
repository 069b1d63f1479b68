// Copyright Contributors to the Open Cluster Management project

package foundation

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	addonfake "open-cluster-management.io/api/client/addon/clientset/versioned/fake"
	addonlisters "open-cluster-management.io/api/client/addon/listers/addon/v1beta1"
	clusterlisters "open-cluster-management.io/api/client/cluster/listers/cluster/v1"
	workfake "open-cluster-management.io/api/client/work/clientset/versioned/fake"
	worklisters "open-cluster-management.io/api/client/work/listers/work/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/work"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/resolve"
)

// The happy paths run on a real hub in test/e2e. These tests hold what must not happen on the way.

type bundlesFunc func() (*render.Bundle, error)

func (f bundlesFunc) Bundle(context.Context, *addonv1beta1.ManagedClusterAddOn) (*render.Bundle, error) {
	return f()
}

// targetOf is what is known of an add-on's cluster.
type targetOf resolve.Result

func (t targetOf) OfAddOn(*addonv1beta1.ManagedClusterAddOn) (resolve.Result, error) {
	return resolve.Result(t), nil
}

// adopted tells that somebody else's installation is to be taken over.
type adopted bool

func (a adopted) Adopts(*addonv1beta1.ManagedClusterAddOn) bool { return bool(a) }

// pausedBy is what pauses an add-on.
type pausedBy string

func (p pausedBy) PausedBy(*addonv1beta1.ManagedClusterAddOn) string { return string(p) }

func fine() (*render.Bundle, error) {
	return &render.Bundle{
		Component: api.Serving, Version: "1.23.0", Digest: "d1", FoundationDigest: "f1",
		Workloads: []render.Workload{{Kind: "Deployment", Namespace: "knative-serving", Name: "activator"}},
	}, nil
}

// hub is what a reconcile finds, and what it did.
type hub struct {
	cluster *clusterv1.ManagedCluster
	addOn   *addonv1beta1.ManagedClusterAddOn
	works   []*workv1.ManifestWork
	noAddOn bool
	bundles bundlesFunc
	target  targetOf
	paused  pausedBy
	adopted adopted

	failCreate error
	actions    []string
	updated    []*workv1.ManifestWork
	triggered  bool
}

const clusterName = "cluster1"

func newHub() *hub {
	return &hub{
		cluster: &clusterv1.ManagedCluster{
			ObjectMeta: metav1.ObjectMeta{Name: clusterName},
			Status: clusterv1.ManagedClusterStatus{Conditions: []metav1.Condition{
				{Type: clusterv1.ManagedClusterConditionAvailable, Status: metav1.ConditionTrue},
			}},
		},
		addOn: &addonv1beta1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{
			Namespace: clusterName, Name: api.Serving.AddOnName(), UID: "u1",
		}},
		bundles: fine,
		target:  targetOf{Target: &resolve.Target{Mode: resolve.ManifestWork, ManagedCluster: clusterName}},
	}
}

func (h *hub) deleting() *hub {
	now := metav1.Now()
	h.addOn.DeletionTimestamp, h.addOn.Finalizers = &now, []string{api.FoundationFinalizer}
	return h
}

func (h *hub) allowed() *hub {
	h = h.deleting()
	h.addOn.Annotations = map[string]string{api.RemovalAllowedAnnotation: "1"}
	return h
}

func (h *hub) annotated(name, value string) *hub {
	if h.addOn.Annotations == nil {
		h.addOn.Annotations = map[string]string{}
	}
	h.addOn.Annotations[name] = value
	return h
}

func (h *hub) isPaused() *hub {
	h.paused = "somebody"
	return h
}

func (h *hub) adopting() *hub {
	h.adopted = true
	return h
}

func (h *hub) unreachable() *hub {
	h.cluster.Status.Conditions[0].Status = metav1.ConditionUnknown
	return h
}

func (h *hub) leaving() *hub {
	now := metav1.Now()
	h.cluster.DeletionTimestamp = &now
	return h
}

func (h *hub) with(works ...*workv1.ManifestWork) *hub {
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
		Namespace: clusterName, Name: work.FoundationName(api.Serving), Labels: map[string]string{api.FoundationLabel: string(api.Serving)},
		Annotations: map[string]string{api.DigestAnnotation: "d0"},
	}}
}

// hubUID is whose the add-ons are.
const hubUID = "h1"

// probeWork is a probe that the agent has answered with these values of its role and of the Deployment, which is there.
func probeWork(t *testing.T, hub string, values map[string]string) *workv1.ManifestWork {
	t.Helper()
	b, err := fine()
	if err != nil {
		t.Fatal(err)
	}
	probe, err := work.Probe(b, newHub().addOn)
	if err != nil {
		t.Fatal(err)
	}
	probe.Status.Conditions = []metav1.Condition{
		{Type: workv1.WorkApplied, Status: metav1.ConditionTrue}, {Type: workv1.WorkAvailable, Status: metav1.ConditionTrue},
	}
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
	return probe
}

func indexerOf[T runtime.Object](t *testing.T, objects ...T) cache.Indexer {
	t.Helper()
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	for _, o := range objects {
		if err := indexer.Add(o); err != nil {
			t.Fatal(err)
		}
	}
	return indexer
}

// reconcile runs one reconcile and records what it asked of the hub, as "verb resource/name".
func (h *hub) reconcile(t *testing.T) error {
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
		}
		if u, ok := a.(clienttesting.UpdateAction); ok && a.GetVerb() == "update" {
			name = u.GetObject().(metav1.Object).GetName() //nolint:forcetypeassert // it is one
			if w, ok := u.GetObject().(*workv1.ManifestWork); ok {
				h.updated = append(h.updated, w)
			}
		}
		resource := a.GetResource().Resource
		if a.GetSubresource() != "" {
			resource += "/" + a.GetSubresource()
		}
		h.actions = append(h.actions, a.GetVerb()+" "+resource+"/"+name+ofGate(t, name, a))
		return false, nil, nil
	}
	works.PrependReactor("*", "*", note)
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
		Adoptions: h.adopted, Hub: func(context.Context) (types.UID, error) { return hubUID, nil }, Events: events.NewFakeRecorder(10),
		Trigger: func(string, string) { h.triggered = true }, Clock: testclock.NewFakePassiveClock(time.Unix(1000, 0)),
	}
	_, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: cache.MetaObjectToName(h.addOn).AsNamespacedName()})
	return err
}

func TestReconcile(t *testing.T) {
	const (
		patchStatus      = "patch managedclusteraddons/status/knative-serving"
		patchAddOn       = "patch managedclusteraddons/knative-serving"
		createFoundation = "create manifestworks/knative-serving-foundation"
		createGate       = "create manifestworks/knative-serving-gate"
		deleteFoundation = "delete manifestworks/knative-serving-foundation"
		updateFoundation = "update manifestworks/knative-serving-foundation"
		updatePayload    = "update manifestworks/addon-knative-serving-deploy-0"
		deletePayload    = "delete manifestworks/addon-knative-serving-deploy-0"
	)
	bad := newHub()
	bad.bundles = func() (*render.Bundle, error) {
		return nil, &render.Error{Reason: render.ReasonUnknownVersion, Message: "no"}
	}
	far := newHub()
	far.bundles = func() (*render.Bundle, error) {
		return nil, &render.Error{Reason: render.ReasonVersionMigrationNotEligible, Message: "too far"}
	}
	revoked := newHub()
	revoked.target = targetOf{Reason: api.ReasonReferenceNotPermitted, Message: "no set is bound"}
	foreign := newHub().deleting().with(payload())
	foreign.addOn.Finalizers = []string{"somebody/else"}
	gone := newHub().deleting().with(payload(), foundationWork())
	gone.cluster = nil
	keeping, between := foundationWork(), foundationWork()
	owned := foundationWork()
	owned.Finalizers = []string{workv1.ManifestWorkFinalizer}
	kept, err := work.Keeping(owned)
	if err != nil {
		t.Fatal(err)
	}
	keptAndApplied := kept.DeepCopy()
	keptAndApplied.Status.Conditions = []metav1.Condition{{Type: workv1.WorkApplied, Status: metav1.ConditionTrue}}
	seen := work.Orphaned(payload())
	seen.Finalizers = []string{workv1.ManifestWorkFinalizer}
	keeping.Spec.DeleteOption = &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyTypeSelectivelyOrphan}
	unanswered := probeWork(t, "", nil)
	unanswered.Status = workv1.ManifestWorkStatus{}
	between.Annotations = map[string]string{api.DigestAnnotation: "d0", api.HandoverAnnotation: `[{"group":"operator.knative.dev","resource":"knativeservings","name":"a"}]`}
	for name, tc := range map[string]struct {
		reason string
		hub    *hub
		want   []string
	}{
		"new add-on": {
			reason: "It is looked what the cluster has before anything else; there is nothing to hold yet.",
			hub:    newHub(), want: []string{patchStatus, createFoundation},
		},
		"free cluster": {
			reason: "The finalizer is there before the first object is.",
			hub:    newHub().with(probeWork(t, "", nil)), want: []string{patchStatus, patchAddOn, updateFoundation, createGate},
		},
		"unknown cluster": {
			reason: "Nothing is written as long as the agent has not answered.",
			hub:    newHub().with(unanswered), want: []string{patchStatus},
		},
		"somebody else's cluster": {
			reason: "It is told, and nothing is written.",
			hub:    newHub().with(probeWork(t, "", map[string]string{})), want: []string{patchStatus},
		},
		"somebody else's cluster that is to be taken over": {
			reason: "Whoever asks for that need not wait.",
			hub:    newHub().adopting(), want: []string{patchStatus, patchAddOn, createFoundation, createGate},
		},
		"payload without foundation": {
			reason: "What is there is ours.",
			hub:    newHub().with(payload()), want: []string{patchStatus, patchAddOn, createFoundation, createGate},
		},
		"paused probe": {
			reason: "There is nothing to hold.",
			hub:    newHub().isPaused().with(probeWork(t, "", nil)), want: []string{patchStatus},
		},
		"removal of a probe": {
			reason: "Nothing was written on the cluster: nobody has to allow anything, and no agent is waited for.",
			hub:    newHub().deleting().unreachable().with(probeWork(t, "", nil)), want: []string{patchAddOn},
		},
		"version out of reach": {
			reason: "It is told, and nothing else is written.",
			hub:    far, want: []string{patchStatus},
		},
		"bad configuration": {
			reason: "What cannot be rendered changes nothing.",
			hub:    bad, want: []string{patchStatus},
		},
		"consent revoked": {
			reason: "It is told, and nothing new is written.",
			hub:    revoked, want: []string{patchStatus},
		},
		"cluster leaves": {
			reason: "Nothing new is delivered to a cluster that is being detached.",
			hub:    newHub().leaving(), want: []string{patchStatus},
		},
		"removal begins with the payload": {
			reason: "The CRDs and the agent's permissions outlive what needs them.",
			hub:    newHub().allowed().with(payload(), foundationWork()), want: []string{patchStatus, deletePayload},
		},
		"removal waits for a cluster out of reach": {
			reason: "The work is deleted, and its finalizer waits for the agent; the add-on is not released.",
			hub:    newHub().allowed().unreachable().with(payload(), foundationWork()), want: []string{patchStatus, deletePayload},
		},
		"removal of the foundation": {
			reason: "The foundation goes when no payload is left.",
			hub:    newHub().allowed().with(foundationWork()), want: []string{patchStatus, deleteFoundation},
		},
		"removal ends": {
			reason: "The add-on is released when nothing is left.",
			hub:    newHub().allowed(), want: []string{patchStatus, patchAddOn},
		},
		"removal that was not allowed": {
			reason: "Package guard decides whether anything is removed.",
			hub:    newHub().deleting().with(payload(), foundationWork()),
		},
		"removal by force": {
			reason: "The works are given up first: they may not be deleted before the agent has applied that.",
			hub:    newHub().deleting().annotated(api.ForceOrphanAnnotation, "true").with(payload(), foundationWork()),
			want:   []string{updatePayload, updateFoundation},
		},
		"end of a removal by force": {
			reason: "The add-on goes when its works have no owner; the works stay.",
			hub:    newHub().deleting().annotated(api.ForceOrphanAnnotation, "true").with(work.Orphaned(payload()), work.Orphaned(foundationWork())),
			want:   []string{patchAddOn},
		},
		"orphaned works that the agent has not applied": {
			reason: "The agent would remove everything.",
			hub:    (&hub{noAddOn: true, addOn: newHub().addOn}).with(seen, foundationWork()),
		},
		"orphaned works of an agent that never was": {
			reason: "Nothing goes with them. A work that was not orphaned is none of these.",
			hub:    (&hub{noAddOn: true, addOn: newHub().addOn}).with(work.Orphaned(payload()), foundationWork()),
			want:   []string{deletePayload},
		},
		"CRDs are to go when nobody uses them": {
			reason: "Nobody on the hub can tell.",
			hub:    newHub().allowed().annotated(api.DeletionPolicyAnnotation, api.DeletionPolicyDelete).with(foundationWork()),
			want:   []string{patchStatus},
		},
		"CRDs are to go with what users have": {
			reason: "The agent removes what it has applied as its own.",
			hub:    newHub().allowed().annotated(api.DeletionPolicyAnnotation, api.DeletionPolicyDeleteUserResources).with(keeping),
			want:   []string{patchStatus, updateFoundation},
		},
		"CRDs are to stay after all": {
			reason: "The agent owns them, and has to be told before the foundation goes.",
			hub:    newHub().allowed().with(owned), want: []string{patchStatus, updateFoundation},
		},
		"CRDs are to stay, and the agent has not applied that": {
			reason: "It would remove them.",
			hub:    newHub().allowed().with(kept), want: []string{patchStatus},
		},
		"CRDs stay": {
			reason: "The agent no longer owns them.",
			hub:    newHub().allowed().with(keptAndApplied), want: []string{patchStatus, deleteFoundation},
		},
		"unknown deletion policy": {
			reason: "What is not understood keeps CRDs.",
			hub:    newHub().allowed().annotated(api.DeletionPolicyAnnotation, "delete").with(keeping),
			want:   []string{patchStatus, deleteFoundation},
		},
		"paused": {
			reason: "It is told what is known; nothing is written.",
			hub:    newHub().isPaused(), want: []string{patchStatus},
		},
		"paused with works": {
			reason: "What is there is held, and stays.",
			hub:    newHub().isPaused().with(payload(), foundationWork()), want: []string{patchStatus, patchAddOn},
		},
		"removal while paused": {
			reason: "It waits, and says what for.",
			hub:    newHub().allowed().isPaused().with(payload(), foundationWork()), want: []string{patchStatus},
		},
		"removal by force while paused": {
			reason: "It changes nothing on the cluster.",
			hub:    newHub().deleting().isPaused().annotated(api.ForceOrphanAnnotation, "true").with(payload()),
			want:   []string{updatePayload},
		},
		"follows another add-on": {
			reason: "It gets the configuration of that one before anything else.",
			hub:    newHub().with(between), want: []string{patchAddOn},
		},
		"finalizer of somebody else": {
			reason: "An add-on that we do not hold is not ours to clean up.",
			hub:    foreign,
		},
		"cluster leaves out of reach": {
			reason: "Nobody can remove anything, and nothing may be stuck for ever.",
			hub:    newHub().deleting().unreachable().leaving().with(payload(), foundationWork()), want: []string{patchAddOn},
		},
		"cluster is gone": {
			reason: "Nobody can remove anything, and nothing may be stuck for ever.",
			hub:    gone, want: []string{patchAddOn},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := tc.hub.reconcile(t); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, tc.hub.actions); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestFailedFoundationTriggersNothing(t *testing.T) {
	h := newHub().adopting()
	h.failCreate = errors.New("quota")
	if err := h.reconcile(t); !errors.Is(err, h.failCreate) {
		t.Errorf("error is %v, want %v", err, h.failCreate)
	}
	if h.triggered {
		t.Error("the payload may not follow a foundation that is not there")
	}
	if slices.ContainsFunc(h.actions, func(a string) bool { return strings.Contains(a, "manifestworks") }) {
		t.Errorf("actions are %v", h.actions)
	}
}
