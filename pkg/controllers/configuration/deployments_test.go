// Copyright Contributors to the Open Cluster Management project

package configuration

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"open-cluster-management.io/addon-framework/pkg/index"
	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	addonlisters "open-cluster-management.io/api/client/addon/listers/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/revision"
)

// deploymentHub has AddOnDeploymentConfig fleet/infra, and a recorder with caches of the hub.
type deploymentHub struct {
	t       *testing.T
	kube    *kubefake.Clientset
	configs cache.Indexer
	cached  cache.Indexer // of revisions
	addOns  cache.Indexer
	classes cache.Indexer // of ClusterManagementAddOns
	d       *DeploymentConfigs
	queue   queue

	generation int64
}

var infra = types.NamespacedName{Namespace: "fleet", Name: "infra"}

func newDeploymentHub(t *testing.T) *deploymentHub {
	t.Helper()
	h := &deploymentHub{
		t: t, kube: kubefake.NewClientset(),
		configs: newIndexer(t, nil), cached: newIndexer(t, revision.Indexers()),
		addOns: newIndexer(t, revision.AddOnIndexers()), classes: newIndexer(t, nil),
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]()),
	}
	if err := h.addOns.AddIndexers(cache.Indexers{index.AddonByConfig: index.IndexAddonByConfig}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.queue.ShutDown)
	h.restart()
	return h
}

// restart replaces the recorder by a recorder that remembers nothing.
func (h *deploymentHub) restart() {
	h.d = &DeploymentConfigs{Recorder{
		Kind: revision.DeploymentConfig{}, Configs: cache.NewGenericLister(h.configs, revision.DeploymentConfig{}.Resource().GroupResource()),
		Revisions: h.cached, RevisionClient: h.kube,
		References: &revision.References{AddOns: h.addOns, Definitions: addonlisters.NewClusterManagementAddOnLister(h.classes)},
	}}
	h.d.Excludes = h.d.isUnused
	for _, o := range h.configs.List() {
		h.d.configHandler().Create(h.t.Context(), event.CreateEvent{Object: o.(client.Object)}, h.queue) //nolint:forcetypeassert // a resource
	}
}

// edit writes the AddOnDeploymentConfig with a value of variable tier and returns the hash of the spec.
func (h *deploymentHub) edit(tier string) string {
	h.t.Helper()
	h.generation++
	config := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "addon.open-cluster-management.io/v1beta1", "kind": "AddOnDeploymentConfig",
		"metadata": map[string]any{"namespace": infra.Namespace, "name": infra.Name, "uid": "u1", "generation": h.generation},
		"spec":     map[string]any{"customizedVariables": []any{map[string]any{"name": "tier", "value": tier}}},
	}}
	hash, err := revision.Hash(config)
	before, exists, getErr := h.configs.GetByKey(infra.String())
	if err := errors.Join(err, getErr, h.configs.Add(config)); err != nil {
		h.t.Fatal(err)
	}
	if !exists {
		h.d.configHandler().Create(h.t.Context(), event.CreateEvent{Object: config}, h.queue)
		return hash
	}
	h.d.configHandler().Update(h.t.Context(), event.UpdateEvent{ObjectOld: before.(client.Object), ObjectNew: config}, h.queue) //nolint:forcetypeassert // a resource
	return hash
}

// nameIn makes an add-on on a cluster name the AddOnDeploymentConfig in the status with the hash.
func (h *deploymentHub) nameIn(cluster, addOn, granted, hash string) {
	h.t.Helper()
	resource := revision.DeploymentConfig{}.Resource()
	a := &addonv1beta1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{
		Namespace: cluster, Name: addOn, Annotations: map[string]string{api.GrantedConfigsAnnotation: granted},
	}}
	a.Status.ConfigReferences = []addonv1beta1.ConfigReference{{
		ConfigGroupResource: addonv1beta1.ConfigGroupResource{Group: resource.Group, Resource: resource.Resource},
		DesiredConfig: &addonv1beta1.ConfigSpecHash{
			ConfigReferent: addonv1beta1.ConfigReferent{Namespace: infra.Namespace, Name: infra.Name}, SpecHash: hash,
		},
	}}
	before, exists, err := h.addOns.GetByKey(cluster + "/" + addOn)
	if err := errors.Join(err, h.addOns.Add(a)); err != nil {
		h.t.Fatal(err)
	}
	if !exists {
		h.d.addOnHandler().Create(h.t.Context(), event.CreateEvent{Object: a}, h.queue)
		return
	}
	h.d.addOnHandler().Update(h.t.Context(), event.UpdateEvent{ObjectOld: before.(client.Object), ObjectNew: a}, h.queue) //nolint:forcetypeassert // an add-on
}

const infraGrant = "addondeploymentconfigs.addon.open-cluster-management.io/fleet/infra"

// settle runs the queued passes with a current cache of revisions and returns the requests to the hub.
func (h *deploymentHub) settle() []string {
	h.t.Helper()
	var requests []string
	for h.queue.Len() > 0 {
		request, _ := h.queue.Get()
		h.kube.ClearActions()
		_, err := h.d.Reconcile(h.t.Context(), request)
		if err != nil {
			h.t.Fatal(err)
		}
		for _, a := range h.kube.Actions() {
			requests = append(requests, a.GetVerb())
		}
		h.queue.Done(request)
		h.updateCache()
	}
	return requests
}

// updateCache brings the cache of revisions up to date, with an event for each new revision.
func (h *deploymentHub) updateCache() {
	h.t.Helper()
	list, err := h.kube.AppsV1().ControllerRevisions(infra.Namespace).List(h.t.Context(), metav1.ListOptions{})
	if err != nil {
		h.t.Fatal(err)
	}
	var objects []any
	for i := range list.Items {
		objects = append(objects, &list.Items[i])
		if _, exists, _ := h.cached.GetByKey(infra.Namespace + "/" + list.Items[i].Name); !exists {
			for _, request := range h.d.observeRevision(h.t.Context(), &list.Items[i]) {
				h.queue.Add(request)
			}
		}
	}
	if err := h.cached.Replace(objects, ""); err != nil {
		h.t.Fatal(err)
	}
}

// tiers lists the recorded values of variable tier, the newest first.
func (h *deploymentHub) tiers() []string {
	h.t.Helper()
	history, err := revision.History(h.cached, revision.DeploymentConfig{}, infra)
	if err != nil {
		h.t.Fatal(err)
	}
	var out []string
	for _, recorded := range history {
		u, err := revision.Restore(recorded)
		if err != nil {
			h.t.Fatal(err)
		}
		variables, _, _ := unstructured.NestedSlice(u.Object, "spec", "customizedVariables")
		out = append(out, variables[0].(map[string]any)["value"].(string)) //nolint:forcetypeassert // texts
	}
	return out
}

func TestDeploymentConfigsAreRecorded(t *testing.T) {
	h := newDeploymentHub(t)
	first := h.edit("first")
	if requests := h.settle(); len(requests) > 0 {
		t.Errorf("an AddOnDeploymentConfig without an add-on costs %v", requests)
	}
	h.nameIn("c1", "knative-serving", infraGrant, first)
	if diff := cmp.Diff([]string{"list", "create"}, h.settle()); diff != "" {
		t.Errorf("requests for the first spec (-want +got):\n%s", diff)
	}
	h.edit("second")
	if diff := cmp.Diff([]string{"list", "create"}, h.settle()); diff != "" {
		t.Errorf("requests for the second spec (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"second", "first"}, h.tiers()); diff != "" {
		t.Errorf("recorded specs (-want +got):\n%s", diff)
	}
	h.restart()
	h.nameIn("c2", "knative-eventing", infraGrant, first)
	h.nameIn("c1", "knative-serving", infraGrant, first)
	if requests := h.settle(); len(requests) > 0 {
		t.Errorf("recorded specs cost %v after a restart", requests)
	}
	owner := h.cached.List()[0].(*appsv1.ControllerRevision).OwnerReferences //nolint:forcetypeassert // a revision
	if len(owner) != 1 || owner[0].Kind != "AddOnDeploymentConfig" || owner[0].UID != "u1" {
		t.Errorf("the owners of a revision are %v", owner)
	}
}

// TestUnusedDeploymentConfigs holds that an AddOnDeploymentConfig without an add-on of this manager gets no history. The agent of a
// cluster may write the name of any AddOnDeploymentConfig into the status of an add-on.
func TestUnusedDeploymentConfigs(t *testing.T) {
	for name, tc := range map[string]struct{ addOn, granted string }{
		"an add-on of another manager":              {"other", infraGrant},
		"a configuration that the hub did not give": {"knative-serving", ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := newDeploymentHub(t)
			hash := h.edit("first")
			h.nameIn("c1", tc.addOn, tc.granted, hash)
			if requests := h.settle(); len(requests) > 0 {
				t.Errorf("requests are %v", requests)
			}
		})
	}
}

// TestDeploymentConfigOfDefinition holds that the spec is recorded when a ClusterManagementAddOn names the AddOnDeploymentConfig: OCM
// refers to the spec after that.
func TestDeploymentConfigOfDefinition(t *testing.T) {
	config := addonv1beta1.AddOnConfig{
		ConfigGroupResource: addonv1beta1.ConfigGroupResource{Group: "addon.open-cluster-management.io", Resource: "addondeploymentconfigs"},
		ConfigReferent:      addonv1beta1.ConfigReferent{Namespace: infra.Namespace, Name: infra.Name},
	}
	byDefault := &addonv1beta1.ClusterManagementAddOn{ObjectMeta: metav1.ObjectMeta{Name: "knative-serving"}}
	byDefault.Spec.DefaultConfigs = []addonv1beta1.AddOnConfig{config}
	placed := &addonv1beta1.ClusterManagementAddOn{ObjectMeta: metav1.ObjectMeta{Name: "knative-eventing"}}
	placed.Spec.InstallStrategy.Placements = []addonv1beta1.PlacementStrategy{{Configs: []addonv1beta1.AddOnConfig{config}}}
	for _, definition := range []*addonv1beta1.ClusterManagementAddOn{byDefault, placed} {
		t.Run(definition.Name, func(t *testing.T) {
			h := newDeploymentHub(t)
			h.edit("first")
			h.settle()
			if err := h.classes.Add(definition); err != nil {
				t.Fatal(err)
			}
			h.d.addOnHandler().Update(t.Context(), event.UpdateEvent{
				ObjectOld: &addonv1beta1.ClusterManagementAddOn{ObjectMeta: metav1.ObjectMeta{Name: definition.Name}}, ObjectNew: definition,
			}, h.queue)
			h.settle()
			if diff := cmp.Diff([]string{"first"}, h.tiers()); diff != "" {
				t.Errorf("recorded specs (-want +got):\n%s", diff)
			}
			h.d.addOnHandler().Update(t.Context(), event.UpdateEvent{ObjectOld: definition, ObjectNew: definition}, h.queue)
			if h.queue.Len() > 0 {
				t.Error("an update without a new name enqueues the AddOnDeploymentConfig")
			}
		})
	}
}

// TestDeploymentConfigHistoryIsBounded holds that the history keeps the last ten specs, and the specs that clusters desire.
func TestDeploymentConfigHistoryIsBounded(t *testing.T) {
	h := newDeploymentHub(t)
	h.nameIn("c1", "knative-serving", infraGrant, h.edit("v00"))
	want := []string{"v00"}
	for i := range historyLimit + 4 {
		h.settle()
		h.edit(fmt.Sprintf("v%02d", i+1))
	}
	h.settle()
	for i := 5; i < historyLimit+5; i++ {
		want = append([]string{fmt.Sprintf("v%02d", i)}, want...)
	}
	if diff := cmp.Diff(want, h.tiers()); diff != "" {
		t.Errorf("recorded specs (-want +got):\n%s", diff)
	}
}

// TestLargeSpecIsNotRecorded holds that a spec beyond the bound is refused, and does not hold up the next spec.
func TestLargeSpecIsNotRecorded(t *testing.T) {
	h := newDeploymentHub(t)
	h.nameIn("c1", "knative-serving", infraGrant, h.edit(strings.Repeat("x", 2*api.MaxSpecBytes)))
	h.edit("small")
	_, err := h.d.Reconcile(t.Context(), reconcile.Request{NamespacedName: infra})
	if !errors.Is(err, revision.ErrTooLarge) || !errors.Is(err, reconcile.TerminalError(nil)) {
		t.Errorf("error is %v", err)
	}
	h.updateCache()
	if diff := cmp.Diff([]string{"small"}, h.tiers()); diff != "" {
		t.Errorf("recorded specs (-want +got):\n%s", diff)
	}
	if left := h.d.observations.listSpecs(infra); len(left) > 0 {
		t.Errorf("%d specs wait to be recorded", len(left))
	}
}
