// Copyright Contributors to the Open Cluster Management project

package managedclusteraddon

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	addonlisters "open-cluster-management.io/api/client/addon/listers/addon/v1beta1"
	clusterlistersv1beta1 "open-cluster-management.io/api/client/cluster/listers/cluster/v1beta1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/revision"
)

func (h *fakeHub) recorder() events.EventRecorder {
	h.events = events.NewFakeRecorder(10)
	return h.events
}

// record gives the Reconciler the records of the hub.
func (h *fakeHub) record(t *testing.T, r *Reconciler, note clienttesting.ReactionFunc) {
	t.Helper()
	var revisions []runtime.Object
	for _, o := range h.revisions {
		revisions = append(revisions, o)
	}
	client := kubefake.NewClientset(revisions...)
	client.PrependReactor("*", "*", note)
	definitions := indexerOf[*addonv1beta1.ClusterManagementAddOn](t)
	if h.definition != nil {
		definitions = indexerOf(t, h.definition)
	}
	r.RevisionClient, r.Revisions = client, indexerOf(t, h.revisions...)
	if err := r.Revisions.AddIndexers(revision.Indexers()); err != nil {
		t.Fatal(err)
	}
	r.Configs = map[api.Component]cache.Indexer{api.Serving: indexerOf(t, h.configs...)}
	r.Granter = &revision.Granter{
		Definitions: addonlisters.NewClusterManagementAddOnLister(definitions),
		Decisions:   clusterlistersv1beta1.NewPlacementDecisionLister(indexerOf(t, h.decisions...)),
	}
}

// handedOver records configurations for the next add-on of the ManagedCluster with the UID.
func (h *fakeHub) handedOver(uid types.UID, configs ...addonv1beta1.AddOnConfig) {
	a := h.addOn.DeepCopy()
	a.Spec.Configs = configs
	record, err := revision.NewHandover(a, &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: clusterName, UID: uid}})
	if err != nil {
		panic(err)
	}
	h.revisions = append(h.revisions, record)
	h.cluster.UID = uid
	if h.addOn.Annotations == nil {
		h.addOn.Annotations = map[string]string{}
	}
	h.addOn.Annotations[api.ClusterUIDAnnotation] = string(uid)
}

// named has the status of the add-on name a KnativeServing.
func (h *fakeHub) named(namespace, name string) *fakeHub {
	h.addOn.Status.ConfigReferences = []addonv1beta1.ConfigReference{{
		ConfigGroupResource: addonv1beta1.ConfigGroupResource{Group: api.Group, Resource: "knativeservings"},
		DesiredConfig:       &addonv1beta1.ConfigSpecHash{ConfigReferent: addonv1beta1.ConfigReferent{Namespace: namespace, Name: name}, SpecHash: "h1"},
	}}
	return h
}

func defaults(namespace, name string) *addonv1beta1.ClusterManagementAddOn {
	return &addonv1beta1.ClusterManagementAddOn{
		ObjectMeta: metav1.ObjectMeta{Name: api.Serving.AddOnName()},
		Spec: addonv1beta1.ClusterManagementAddOnSpec{DefaultConfigs: []addonv1beta1.AddOnConfig{{
			ConfigGroupResource: addonv1beta1.ConfigGroupResource{Group: api.Group, Resource: "knativeservings"},
			ConfigReferent:      addonv1beta1.ConfigReferent{Namespace: namespace, Name: name},
		}}},
	}
}

// TestRecords holds that the hub records grants and clusters before a delivery, and that only the records count.
func TestRecords(t *testing.T) {
	const patchAddOn = "patch managedclusteraddons/knative-serving"
	given := newHub().named("fleet", "default")
	given.definition = defaults("fleet", "default")
	registered := newHub()
	registered.cluster.UID = "c1"
	again := newHub().annotated(api.ClusterUIDAnnotation, "c0").with(foundationWork())
	again.cluster.UID, again.works[0].Annotations[api.FinishedJobsAnnotation] = "c1", "knative-serving/migrate"
	forgedWork := foundationWork()
	forgedWork.Annotations[api.HandoverAnnotation] = `[{"group":"operator.knative.dev","resource":"knativeservings","namespace":"team-b","name":"private"}]`
	forgedWork.OwnerReferences = []metav1.OwnerReference{{UID: "u1"}}
	forged := newHub().with(forgedWork)
	stale := newHub().with(foundationWork())
	stale.handedOver("c0", addonv1beta1.AddOnConfig{ConfigReferent: addonv1beta1.ConfigReferent{Namespace: "team-b", Name: "private"}})
	stale.cluster.UID = "c1"
	stale.addOn.Annotations[api.ClusterUIDAnnotation] = "c1"
	owned := foundationWork()
	owned.OwnerReferences = []metav1.OwnerReference{{UID: "u1"}}
	done := newHub().isPaused().with(owned)
	done.handedOver("c1")
	for name, tc := range map[string]struct {
		reason string
		hub    *fakeHub
		first  string // action
		event  string
	}{
		"a configuration that the hub gives": {
			reason: "It is recorded before it is read.", hub: given, first: patchAddOn,
		},
		"a cluster": {
			reason: "A name is no identity.", hub: registered, first: patchAddOn,
		},
		"a recreated ManagedCluster": {
			reason: "What the one before had done is forgotten.", hub: again,
			first: "patch manifestworks/knative-serving-foundation", event: "Warning ClusterReplaced ManagedCluster \"cluster1\" was registered again (UID c1, before c0)",
		},
		"a hand-over that the cluster wrote": {
			reason: "The annotation of the work goes, and spec.configs stays.", hub: forged,
			first: "patch managedclusteraddons/status/knative-serving",
		},
		"a hand-over of the cluster that had the name": {
			reason: "Its configuration was not for this one.", hub: stale, first: "patch managedclusteraddons/status/knative-serving",
		},
		"a hand-over that has ended": {
			reason: "The works belong to the add-on.", hub: done, first: "patch managedclusteraddons/status/knative-serving",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := tc.hub.reconcile(t); err != nil {
				t.Fatal(err)
			}
			if len(tc.hub.actions) == 0 || tc.hub.actions[0] != tc.first {
				t.Errorf("%s The first of %q is not %q", tc.reason, tc.hub.actions, tc.first)
			}
			got := ""
			select {
			case got = <-tc.hub.events.Events:
			default:
			}
			if !strings.HasPrefix(got, tc.event) || tc.event == "" && got != "" {
				t.Errorf("the Event is %q, want %q", got, tc.event)
			}
		})
	}
	if last := done.actions[len(done.actions)-1]; last != "delete controllerrevisions/knative-serving-handover" {
		t.Errorf("the hand-over stays after %q", done.actions)
	}
	for _, w := range forged.updated {
		if _, there := w.Annotations[api.HandoverAnnotation]; there {
			t.Error("the annotation of an older manager stays")
		}
	}
}

// TestConfigNotGranted holds that a configuration which the status names alone is refused, with a reason on the add-on.
func TestConfigNotGranted(t *testing.T) {
	h := newHub().named("team-b", "private")
	h.definition = defaults("fleet", "default")
	h.bundles = func() (*render.Bundle, error) {
		return nil, revision.NotGranted(h.addOn, "KnativeServing", h.addOn.Status.ConfigReferences[0].DesiredConfig)
	}
	if err := h.reconcile(t); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"patch managedclusteraddons/status/knative-serving"}, h.actions); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	got := <-h.events.Events
	for _, want := range []string{"Warning ConfigNotGranted", `"team-b/private"`, "spec.configs", "keeps its installation"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in Event %q", want, got)
		}
	}
	apimeta.SetStatusCondition(&h.addOn.Status.Conditions, metav1.Condition{
		Type: api.TargetClusterResolved, Status: metav1.ConditionFalse, Reason: api.ReasonConfigNotGranted,
		Message: revision.NotGranted(h.addOn, "KnativeServing", h.addOn.Status.ConfigReferences[0].DesiredConfig).Message,
	})
	if err := h.reconcile(t); err != nil {
		t.Fatal(err)
	}
	if len(h.events.Events) > 0 {
		t.Error("the same refusal has a second Event")
	}
}

// TestRecordCompletion holds of which revisions it is noted that a cluster completed them: for the fleet goes back to these.
func TestRecordCompletion(t *testing.T) {
	const note = "patch controllerrevisions/"
	spec := func(version string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": api.Group + "/v1beta1", "kind": "KnativeServing",
			"metadata": map[string]any{"namespace": "fleet", "name": "default", "uid": "k"}, "spec": map[string]any{"version": version},
		}}
	}
	record := func(u *unstructured.Unstructured, number int64) *appsv1.ControllerRevision {
		r, err := revision.New(api.Serving, u, number)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	live, failed := spec("1.23"), spec("1.22")
	for name, tc := range map[string]struct {
		reason string
		hash   *unstructured.Unstructured // that the status names
		change func(h *fakeHub)
		want   bool
	}{
		"what is rolled out, and runs": {reason: "The fleet can go back to it.", hash: live, want: true},
		"an older one": {
			reason: "A cluster may ask for it in the status, and nobody rolls it out.", hash: failed,
		},
		"what runs in another rendering": {
			reason: "The turn of the cluster may never come, and OCM takes the cluster for complete.", hash: live, want: true,
			change: func(h *fakeHub) {
				h.bundles = func() (*render.Bundle, error) {
					b, err := rolling()
					b.Digest, b.FoundationDigest = "d2", "f2"
					return b, err
				}
			},
		},
		"what does not run": {reason: "The agent says so.", hash: live, change: func(h *fakeHub) {
			h.works[1].Status.ResourceStatus.Manifests = nil
		}},
		"what is not delivered": {reason: "The payload is of another hash.", hash: live, change: func(h *fakeHub) {
			h.works[1].Annotations[workv1.ManifestConfigSpecHashAnnotationKey] = manifestwork.ConfigsText(configs("other"))
		}},
		"what is noted already": {reason: "One write is enough for a fleet.", hash: live, change: func(h *fakeHub) {
			h.revisions[0].Annotations[api.CompletedAnnotation] = "c0"
		}},
		"what is not verified": {reason: "A Service has to answer first.", hash: live, change: func(h *fakeHub) { h.verifying(false) }},
		"what is not recorded": {reason: "Nothing can be noted.", hash: live, change: func(h *fakeHub) { h.revisions = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			h := delivered(t, 1)
			h.configs = []*unstructured.Unstructured{live}
			h.revisions = []*appsv1.ControllerRevision{record(live, 2), record(failed, 1)}
			hash, err := revision.Hash(tc.hash)
			if err != nil {
				t.Fatal(err)
			}
			h.wants(hash).works[1].Annotations[workv1.ManifestConfigSpecHashAnnotationKey] = manifestwork.ConfigsText(configs(hash))
			if tc.change != nil {
				tc.change(h)
			}
			if err := h.reconcile(t); err != nil {
				t.Fatal(err)
			}
			got := false
			for _, action := range h.actions {
				got = got || strings.HasPrefix(action, note)
			}
			if got != tc.want {
				t.Errorf("%s It is noted: %t, by %q", tc.reason, got, h.actions)
			}
		})
	}
}

// TestHandoverData holds that a record is read as it was written.
func TestHandoverData(t *testing.T) {
	h := newHub()
	want := []addonv1beta1.AddOnConfig{{
		ConfigGroupResource: addonv1beta1.ConfigGroupResource{Group: api.Group, Resource: "knativeservings"},
		ConfigReferent:      addonv1beta1.ConfigReferent{Namespace: "blue", Name: "a"},
	}}
	h.handedOver("c1", want...)
	got, err := revision.HandedOverConfigs(h.revisions[0])
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("error %v, configs (-want +got):\n%s", err, diff)
	}
	if !json.Valid(h.revisions[0].Data.Raw) {
		t.Errorf("the data is %s", h.revisions[0].Data.Raw)
	}
}
