// Copyright Contributors to the Open Cluster Management project

package removalguard

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	addonfake "open-cluster-management.io/api/client/addon/clientset/versioned/fake"
	addonlisters "open-cluster-management.io/api/client/addon/listers/addon/v1beta1"
	clusterlisters "open-cluster-management.io/api/client/cluster/listers/cluster/v1"
	clusterlistersv1beta1 "open-cluster-management.io/api/client/cluster/listers/cluster/v1beta1"
	workfake "open-cluster-management.io/api/client/work/clientset/versioned/fake"
	worklisters "open-cluster-management.io/api/client/work/listers/work/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/revision"
)

// The happy paths run on a real hub in test/e2e. These tests hold the order of the writes, and what a manager that is
// killed between two of them finds.

var now = time.Unix(1000000, 0)

const pool = "pool"

// fakeHub is what a reconcile finds, and what it did.
type fakeHub struct {
	definition  *addonv1beta1.ClusterManagementAddOn
	placement   *clusterv1beta1.Placement
	decisions   *clusterv1beta1.PlacementDecision
	clusters    []*clusterv1.ManagedCluster
	addOns      []*addonv1beta1.ManagedClusterAddOn
	foundations []*workv1.ManifestWork
	payloads    []*workv1.ManifestWork
	revisions   []*appsv1.ControllerRevision
	configs     []*unstructured.Unstructured

	conflict string // the action that fails
	fault    error  // with what, unless with a conflict
	actions  []string
	events   []string
	wait     time.Duration
	err      error
}

// newHub has n clusters, c0 and so on, all with the add-on, which is selected by a Placement.
func newHub(n int) *fakeHub {
	h := &fakeHub{
		definition: &addonv1beta1.ClusterManagementAddOn{
			ObjectMeta: metav1.ObjectMeta{Name: api.Serving.AddOnName(), UID: "cma", Annotations: map[string]string{}},
			Spec: addonv1beta1.ClusterManagementAddOnSpec{InstallStrategy: addonv1beta1.InstallStrategy{
				Type:       addonv1beta1.AddonInstallStrategyPlacements,
				Placements: []addonv1beta1.PlacementStrategy{{PlacementRef: addonv1beta1.PlacementRef{Namespace: pool, Name: pool}}},
			}},
		},
		placement: &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: pool, Name: pool}},
		decisions: &clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{
			Namespace: pool, Name: pool + "-1", Labels: map[string]string{clusterv1beta1.PlacementLabel: pool},
		}},
	}
	for i := range n {
		name := fmt.Sprintf("c%d", i)
		h.clusters = append(h.clusters, &clusterv1.ManagedCluster{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("cluster-" + name)},
			Status: clusterv1.ManagedClusterStatus{Conditions: []metav1.Condition{{
				Type: clusterv1.ManagedClusterConditionAvailable, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-time.Hour)),
			}}},
		})
		a := &addonv1beta1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{
			Namespace: name, Name: api.Serving.AddOnName(), UID: types.UID(fmt.Sprintf("uid%05d-long", i)),
			Finalizers: []string{"somebody/else", api.FoundationFinalizer}, Annotations: map[string]string{},
		}}
		h.addOns = append(h.addOns, a)
		owners := []metav1.OwnerReference{{Kind: "ManagedClusterAddOn", Name: a.Name, UID: a.UID}}
		h.foundations = append(h.foundations, &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{
			Namespace: name, Name: manifestwork.FoundationName(api.Serving), OwnerReferences: owners, Labels: map[string]string{api.FoundationLabel: string(api.Serving)},
		}})
		h.payloads = append(h.payloads, &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{
			Namespace: name, Name: "payload", OwnerReferences: owners, Labels: map[string]string{addonv1beta1.AddonLabelKey: api.Serving.AddOnName()},
		}})
		h.selects(name)
	}
	return h
}

func (h *fakeHub) selects(name string) {
	h.decisions.Status.Decisions = append(h.decisions.Status.Decisions, clusterv1beta1.ClusterDecision{ClusterName: name})
}

// deleted has the first n add-ons deleted a minute ago.
func (h *fakeHub) deleted(n int) *fakeHub {
	for _, a := range h.addOns[:n] {
		a.DeletionTimestamp = &metav1.Time{Time: now.Add(-time.Minute)}
	}
	return h
}

// unselected empties the Placement.
func (h *fakeHub) unselected() *fakeHub {
	h.decisions.Status.Decisions = nil
	return h
}

// arriving has the Placement select only the last cluster, whose add-on was made then.
func (h *fakeHub) arriving(made time.Time) *fakeHub {
	last := h.addOns[len(h.addOns)-1]
	last.CreationTimestamp = metav1.NewTime(made)
	h.unselected().selects(last.Namespace)
	return h
}

func (h *fakeHub) manual() *fakeHub {
	h.definition.Spec.InstallStrategy = addonv1beta1.InstallStrategy{Type: addonv1beta1.AddonInstallStrategyManual}
	return h
}

func (h *fakeHub) held(n int, d decision) *fakeHub {
	for _, a := range h.addOns[:n] {
		a.Status.Conditions = []metav1.Condition{{Type: api.RemovalHeld, Status: metav1.ConditionTrue, Reason: d.reason, Message: d.message}}
	}
	return h
}

func (h *fakeHub) confirmed(value string) *fakeHub {
	h.definition.Annotations[api.RemovalAnnotation] = value
	return h
}

// recorded has the hand-over of the first cluster, with configurations.
func (h *fakeHub) recorded(configs ...addonv1beta1.AddOnConfig) *fakeHub {
	a := h.addOns[0].DeepCopy()
	a.Spec.Configs = configs
	record, err := revision.NewHandover(a, h.clusters[0])
	if err != nil {
		panic(err)
	}
	h.revisions = append(h.revisions, record)
	return h
}

// freed has the works of the first cluster without an owner.
func (h *fakeHub) freed() *fakeHub {
	h.foundations[0].OwnerReferences, h.payloads[0].OwnerReferences = nil, nil
	return h.recorded()
}

// gated gives the first cluster a gate.
func (h *fakeHub) gated() *fakeHub {
	h.foundations = append(h.foundations, manifestwork.Gate(&render.Bundle{Component: api.Serving}, h.addOns[0]))
	return h
}

// verifying gives the first cluster a verification.
func (h *fakeHub) verifying() *fakeHub {
	w := manifestwork.Gate(&render.Bundle{Component: api.Serving}, h.addOns[0])
	w.Name = manifestwork.VerificationName(api.Serving)
	h.foundations = append(h.foundations, w)
	return h
}

// indexerOf returns a cache of objects that were read from a hub: each object has a resource version.
func indexerOf[T client.Object](t *testing.T, indexers cache.Indexers, objects ...T) cache.Indexer {
	t.Helper()
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	if err := indexer.AddIndexers(indexers); err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		o.SetResourceVersion("1")
		if err := indexer.Add(o); err != nil {
			t.Fatal(err)
		}
	}
	return indexer
}

func optional[T any](o *T) []*T {
	if o == nil {
		return nil
	}
	return []*T{o}
}

// note records an action as "verb resource namespace/name what".
func (h *fakeHub) note(a clienttesting.Action) (bool, runtime.Object, error) {
	action := a.GetVerb() + " " + a.GetResource().Resource
	if a.GetSubresource() != "" {
		action += "/" + a.GetSubresource()
	}
	switch a := a.(type) {
	case clienttesting.PatchAction:
		action += " " + strings.TrimPrefix(a.GetNamespace()+"/"+a.GetName(), "/") + " " + changedBy(a.GetPatch())
	case clienttesting.DeleteAction:
		action += " " + a.GetNamespace() + "/" + a.GetName()
	case clienttesting.CreateAction:
		o := a.GetObject().(metav1.Object) //nolint:forcetypeassert // it is one
		action += fmt.Sprintf(" %s/%s %v %v", o.GetNamespace(), o.GetName(), o.GetFinalizers(), o.GetAnnotations())
		if record, ok := o.(*appsv1.ControllerRevision); ok {
			action += " " + string(record.Data.Raw)
		}
	}
	h.actions = append(h.actions, strings.ReplaceAll(action, api.Prefix, ""))
	if h.conflict != "" && strings.HasPrefix(action, h.conflict) {
		if h.fault != nil {
			return true, nil, h.fault
		}
		return true, nil, apierrors.NewConflict(schema.GroupResource{}, "x", errors.New("changed"))
	}
	return false, nil, nil
}

// changedBy names what a patch of the object that was read changes: the metadata with the values, or conditions.
func changedBy(patch []byte) string {
	var o struct {
		Metadata map[string]any
		Status   any
	}
	if err := json.Unmarshal(patch, &o); err != nil {
		return err.Error()
	}
	if o.Metadata["resourceVersion"] != "1" {
		return "an object that may have changed"
	}
	delete(o.Metadata, "resourceVersion")
	if o.Status != nil {
		return "conditions"
	}
	data, err := json.Marshal(o.Metadata)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

func (h *fakeHub) reconcile(t *testing.T) {
	t.Helper()
	var objects, works []runtime.Object
	for _, a := range h.addOns {
		objects = append(objects, a)
	}
	if h.definition != nil {
		objects = append(objects, h.definition)
	}
	for _, w := range append(append([]*workv1.ManifestWork{}, h.foundations...), h.payloads...) {
		works = append(works, w)
	}
	var revisions []runtime.Object
	for _, r := range h.revisions {
		revisions = append(revisions, r)
	}
	revisionClient := kubefake.NewClientset(revisions...)
	revisionClient.PrependReactor("*", "*", h.note)
	addOnClient, workClient := addonfake.NewSimpleClientset(objects...), workfake.NewSimpleClientset(works...)
	addOnClient.PrependReactor("*", "*", h.note)
	workClient.PrependReactor("*", "*", h.note)
	gauge, err := NewGauge(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	recorder := events.NewFakeRecorder(10)
	r := &Reconciler{
		AddOns: indexerOf(t, addOnIndexers(), h.addOns...), Foundations: indexerOf(t, nil, h.foundations...),
		Revisions: indexerOf(t, revision.Indexers(), h.revisions...), RevisionClient: revisionClient,
		Definitions: addonlisters.NewClusterManagementAddOnLister(indexerOf(t, nil, optional(h.definition)...)),
		Clusters:    clusterlisters.NewManagedClusterLister(indexerOf(t, nil, h.clusters...)),
		Placements:  clusterlistersv1beta1.NewPlacementLister(indexerOf(t, nil, optional(h.placement)...)),
		Decisions:   clusterlistersv1beta1.NewPlacementDecisionLister(indexerOf(t, nil, h.decisions)),
		Configs: map[api.Component]cache.GenericLister{
			api.Serving: cache.NewGenericLister(indexerOf(t, nil, h.configs...), api.Serving.Resource().GroupResource()),
		},
		Payloads:    worklisters.NewManifestWorkLister(indexerOf(t, nil, h.payloads...)),
		AddOnClient: addOnClient, WorkClient: workClient, Events: recorder, Clock: testclock.NewFakePassiveClock(now),
		MaxRemoval: intstr.FromString("10%"), Held: gauge, Permissions: ownAnnotations{},
	}
	result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: api.Serving.AddOnName()}})
	if err != nil && h.fault == nil {
		t.Fatal(err)
	}
	h.wait, h.err = result.RequeueAfter, err
	close(recorder.Events)
	for e := range recorder.Events {
		h.events = append(h.events, e)
	}
}

// ownAnnotations lets every annotation count that no resource has passed on.
type ownAnnotations struct{}

func (ownAnnotations) Removal(addOn *addonv1beta1.ManagedClusterAddOn, annotation string) string {
	if addOn.Annotations[api.PassedOnAnnotation] != "" {
		return ""
	}
	return addOn.Annotations[annotation]
}

// TestForceOrphanOfFormerResource holds that an add-on whose resource has passed force-orphan on, and is gone, gets a decision of the guard: the
// controller of the add-on does not release the add-on either.
func TestForceOrphanOfFormerResource(t *testing.T) {
	h := newHub(1).deleted(1)
	h.clusters[0].Status.Conditions[0].Status = metav1.ConditionUnknown
	h.addOns[0].Annotations = map[string]string{api.ForceOrphanAnnotation: "true"}
	h.reconcile(t)
	if len(h.actions) > 0 {
		t.Errorf("for an annotation that counts, the guard does %q", h.actions)
	}
	h.actions, h.addOns[0].Annotations[api.PassedOnAnnotation] = nil, api.ForceOrphanAnnotation
	h.reconcile(t)
	if len(h.actions) == 0 {
		t.Error("for an annotation that does not count, the guard decides nothing")
	}
}
