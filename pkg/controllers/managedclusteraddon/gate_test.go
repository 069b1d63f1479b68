// Copyright Contributors to the Open Cluster Management project

package managedclusteraddon

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/workload"
)

// rolling is a bundle with one workload.
func rolling() (*render.Bundle, error) {
	return &render.Bundle{
		Component: api.Serving, Version: "1.23.0", Digest: "d1", FoundationDigest: "f1", Namespace: "knative-serving",
		Workloads: []workload.Expected{{Kind: "Deployment", Namespace: "knative-serving", Name: "activator"}},
	}, nil
}

// manifestsOf returns the manifests of the payload of a bundle.
func manifestsOf(t *testing.T, b *render.Bundle) []workv1.Manifest {
	t.Helper()
	var out []workv1.Manifest
	for _, o := range manifestwork.Payload(b, &workv1.ManifestWork{}) {
		u, ok := o.(*unstructured.Unstructured)
		if !ok {
			t.Fatalf("%T is in the payload", o)
		}
		raw, err := u.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, workv1.Manifest{RawExtension: runtime.RawExtension{Raw: raw}})
	}
	return out
}

// delivered is a cluster that has the bundle, with so many pods of its workload available.
func delivered(t *testing.T, available int64) *fakeHub {
	t.Helper()
	h := newHub()
	h.bundles = rolling
	h.addOn.Finalizers = []string{api.FoundationFinalizer}
	h.addOn.Status.Conditions = []metav1.Condition{{Type: addonv1beta1.ManagedClusterAddOnManifestApplied, Status: metav1.ConditionTrue}}
	b, err := rolling()
	if err != nil {
		t.Fatal(err)
	}
	foundation, err := manifestwork.Foundation(b, h.addOn, hubUID)
	if err != nil {
		t.Fatal(err)
	}
	foundation.Annotations[api.RunningVersionAnnotation] = b.Version
	p := payload()
	p.Spec.Workload.Manifests = manifestsOf(t, b)
	p.Annotations = map[string]string{workv1.ManifestConfigSpecHashAnnotationKey: manifestwork.ConfigsText(configs("h1"))}
	p.Status.ResourceStatus.Manifests = []workv1.ManifestCondition{marked(b), reportedWorkload(available)}
	for _, w := range []*workv1.ManifestWork{foundation, p} {
		w.Status.Conditions = []metav1.Condition{
			{Type: workv1.WorkApplied, Status: metav1.ConditionTrue}, {Type: workv1.WorkAvailable, Status: metav1.ConditionTrue},
		}
	}
	h.addOn.Status.ConfigReferences = []addonv1beta1.ConfigReference{{
		ConfigGroupResource: addonv1beta1.ConfigGroupResource{Group: api.Group, Resource: "knativeservings"},
		DesiredConfig:       &addonv1beta1.ConfigSpecHash{ConfigReferent: addonv1beta1.ConfigReferent{Namespace: "fleet", Name: "default"}, SpecHash: "h1"},
	}}
	h.addOn.Annotations = map[string]string{api.GrantedConfigsAnnotation: "knativeservings." + api.Group + "/fleet/default"}
	return h.with(foundation, p)
}

// unapplied is a delivered hub with a work that the agent has not applied.
func unapplied(t *testing.T, work string) *fakeHub {
	t.Helper()
	h := delivered(t, 1)
	i := slices.IndexFunc(h.works, func(w *workv1.ManifestWork) bool { return w.Name == work })
	if i < 0 {
		t.Fatalf("no work %q is delivered", work)
	}
	h.works[i].Status.Conditions[0].Status = metav1.ConditionFalse
	return h
}

// configs are what a work is of.
func configs(hash string) map[string]string {
	return map[string]string{"knativeservings." + api.Group + "/fleet/default": hash}
}

// gated adds a gate that is open for the spec with the hash; an empty hash is a closed gate.
func (h *fakeHub) gated(t *testing.T, hash string) *fakeHub {
	t.Helper()
	b, err := rolling()
	if err != nil {
		t.Fatal(err)
	}
	gate := manifestwork.Gate(b, h.addOn)
	if hash != "" {
		manifestwork.OpenGate(gate, configs(hash))
	}
	return h.with(gate)
}

func (h *fakeHub) changed(change func(h *fakeHub)) *fakeHub {
	change(h)
	return h
}

// wants has OCM give the add-on the spec with the hash.
func (h *fakeHub) wants(hash string) *fakeHub {
	h.addOn.Status.ConfigReferences[0].DesiredConfig.SpecHash = hash
	return h
}

// wantsFormer has OCM give the add-on spec h0, whose bundle has other manifests than the payload of h1.
func (h *fakeHub) wantsFormer() *fakeHub {
	h.bundles = func() (*render.Bundle, error) {
		b, err := rolling()
		b.Digest = "d0"
		return b, err
	}
	return h.wants("h0")
}

// marked is what the agent says of the bundle's mark.
func marked(b *render.Bundle) workv1.ManifestCondition {
	objects := manifestwork.Payload(b, &workv1.ManifestWork{})
	mark, _ := objects[len(objects)-1].(*unstructured.Unstructured)
	return workv1.ManifestCondition{
		ResourceMeta: workv1.ManifestResourceMeta{Kind: mark.GetKind(), Namespace: mark.GetNamespace(), Name: mark.GetName()},
		Conditions:   []metav1.Condition{{Type: workv1.ManifestAvailable, Status: metav1.ConditionTrue}},
	}
}

func reportedWorkload(available int64) workv1.ManifestCondition {
	m := workv1.ManifestCondition{
		ResourceMeta: workv1.ManifestResourceMeta{Kind: "Deployment", Resource: "deployments", Namespace: "knative-serving", Name: "activator"},
	}
	for name, n := range map[string]int64{
		"Generation": 1, "ObservedGeneration": 1, "SpecReplicas": 1, "Replicas": 1, "UpdatedReplicas": 1, "AvailableReplicas": available,
	} {
		m.StatusFeedbacks.Values = append(m.StatusFeedbacks.Values, workv1.FeedbackValue{
			Name: name, Value: workv1.FieldValue{Type: workv1.Integer, Integer: new(n)},
		})
	}
	return m
}

// ofGate describes a patch of a gate: the label, the configurations for OCM and for the record, and the ConfigMap.
func ofGate(t *testing.T, name string, a clienttesting.Action) string {
	t.Helper()
	p, ok := a.(clienttesting.PatchAction)
	if !ok || name != manifestwork.GateName(api.Serving) {
		return ""
	}
	var patch struct {
		Metadata struct {
			Labels      map[string]string
			Annotations map[string]*string
		}
		Spec workv1.ManifestWorkSpec
	}
	if err := json.Unmarshal(p.GetPatch(), &patch); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if label := patch.Metadata.Labels[addonv1beta1.AddonLabelKey]; label != "" {
		out.WriteString(" labels")
	}
	hash, opens := patch.Metadata.Annotations[workv1.ManifestConfigSpecHashAnnotationKey]
	record, records := patch.Metadata.Annotations[api.RunningConfigsAnnotation]
	switch {
	case opens && hash != nil:
		out.WriteString(" opens: " + hashIn(*hash))
	case records && record == nil, patch.Metadata.Annotations == nil && strings.Contains(string(p.GetPatch()), `"annotations":null`):
		out.WriteString(" closes")
	case opens:
		out.WriteString(" holds")
	}
	for _, c := range patch.Spec.ManifestConfigs {
		out.WriteString(" refers: " + c.ResourceIdentifier.Name)
	}
	return out.String()
}

// hashIn returns the hash of the spec in the text of an annotation.
func hashIn(text string) string {
	annotations := map[string]string{workv1.ManifestConfigSpecHashAnnotationKey: text}
	for _, hash := range manifestwork.ConfigsOf(&workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}}) {
		return hash
	}
	return ""
}

func TestGate(t *testing.T) {
	const (
		status = "patch managedclusteraddons/status/knative-serving"
		create = "create manifestworks/knative-serving-gate"
		update = "update manifestworks/knative-serving-gate"
		remove = "delete manifestworks/knative-serving-gate"
		opens  = "patch manifestworks/knative-serving-gate opens: h1"
		holds  = "patch manifestworks/knative-serving-gate holds"
		closes = "patch manifestworks/knative-serving-gate closes"
	)
	// gate changes the gate of a hub.
	gate := func(change func(gate *workv1.ManifestWork)) func(h *fakeHub) {
		return func(h *fakeHub) { change(h.gate()) }
	}
	for name, tc := range map[string]struct {
		reason string
		hub    *fakeHub
		want   []string
	}{
		"no gate": {
			reason: "The payload waits for the gate.", hub: delivered(t, 1), want: []string{status, create},
		},
		"a closed gate, and the cluster runs the configuration": {
			reason: "OCM waits for this.", hub: delivered(t, 1).gated(t, ""), want: []string{status, opens},
		},
		"a closed gate, and the cluster does not run the configuration yet": {
			reason: "OCM would continue.", hub: delivered(t, 0).gated(t, ""), want: []string{status},
		},
		"an open gate, and the cluster runs the configuration": {
			reason: "There is nothing to write at rest.", hub: delivered(t, 1).gated(t, "h1"), want: []string{status},
		},
		"another configuration is delivered and does not run yet": {
			reason: "The gate names the former configuration, for which OCM waits.", hub: delivered(t, 0).gated(t, "h0"), want: []string{status},
		},
		"another configuration is delivered and runs": {
			reason: "One write completes a change.", hub: delivered(t, 1).gated(t, "h0"), want: []string{status, opens},
		},
		"another configuration is wanted and not delivered yet": {
			reason: "Gate and payload name the former configuration.", hub: delivered(t, 1).gated(t, "h1").wants("h2"), want: []string{status},
		},
		"the workloads of a complete cluster are not available": {
			reason: "OCM's minSuccessTime starts over.", hub: delivered(t, 0).gated(t, "h1"), want: []string{status, holds},
		},
		"the workloads of a complete cluster are available again": {
			reason: "The record tells what the cluster runs.",
			hub:    delivered(t, 1).gated(t, "h1").changed(gate(manifestwork.HoldGate)), want: []string{status, opens},
		},
		"the agent has not reported on the payload since the last change": {
			reason: "The report is about former objects.",
			hub:    delivered(t, 0).gated(t, "h1").changed(func(h *fakeHub) { h.works[1].Generation = 2 }), want: []string{status},
		},
		"the hub has no payload": {
			reason: "The payload is delivered again.",
			hub:    delivered(t, 1).gated(t, "h1").changed(func(h *fakeHub) { h.works = slices.Delete(h.works, 1, 2) }), want: []string{status},
		},
		"a former configuration is wanted after the delivery of another": {
			reason: "The cluster may have objects of the other configuration.", hub: delivered(t, 1).gated(t, "h0").wantsFormer(), want: []string{status, closes},
		},
		"a former configuration with the same manifests is wanted": {
			reason: "The cluster has every object.", hub: delivered(t, 1).gated(t, "h0").wants("h0"), want: []string{status},
		},
		"a former configuration is wanted after the delivery of a half of another": {
			reason: "The cluster may have objects of the other configuration.",
			hub: delivered(t, 1).gated(t, "h1").changed(func(h *fakeHub) {
				other := h.works[1].DeepCopy()
				other.Name, other.Annotations = "addon-knative-serving-deploy-1", map[string]string{workv1.ManifestConfigSpecHashAnnotationKey: manifestwork.ConfigsText(configs("h0"))}
				h.works = append(h.works, other)
			}),
			want: []string{status, closes},
		},
		"the agent forges the wanted configuration": {
			reason: "OCM would take the cluster for complete.",
			hub: delivered(t, 0).gated(t, "h0").changed(gate(func(gate *workv1.ManifestWork) {
				gate.Annotations[workv1.ManifestConfigSpecHashAnnotationKey] = manifestwork.ConfigsText(configs("h1"))
			})),
			want: []string{status, holds},
		},
		"open gate of an earlier manager": {
			reason: "OCM would go by the payload alone.",
			hub: delivered(t, 1).gated(t, "h1").changed(gate(func(gate *workv1.ManifestWork) {
				delete(gate.Labels, addonv1beta1.AddonLabelKey)
			})),
			want: []string{status, "patch manifestworks/knative-serving-gate labels"},
		},
		"closed gate of an earlier manager": {
			reason: "OCM waits until the cluster runs the configuration.",
			hub: delivered(t, 0).gated(t, "h1").changed(gate(func(gate *workv1.ManifestWork) {
				gate.Spec.ManifestConfigs[0].ResourceIdentifier.Name = gate.Name
			})),
			want: []string{status, closes + " refers: kube-root-ca.crt"},
		},
		"a gate that is being deleted": {
			reason: "The next gate follows the deletion.",
			hub: delivered(t, 1).gated(t, "").changed(gate(func(gate *workv1.ManifestWork) {
				gate.DeletionTimestamp = new(metav1.Unix(1, 0))
			})),
			want: []string{status},
		},
		"a gate of another add-on": {
			reason: "The gate was handed over with the other works.",
			hub:    delivered(t, 1).gated(t, "h1").changed(gate(func(gate *workv1.ManifestWork) { gate.OwnerReferences = nil })),
			want:   []string{status, update},
		},
		"beside a probe": {
			reason: "Nothing is installed.",
			hub: newHub().with(probeWork(t, "h2", map[string]string{"AppliedBy": "abc"})).changed(func(h *fakeHub) {
				h.works = append(h.works, delivered(t, 1).gated(t, "h1").works[2])
			}),
			want: []string{status, remove},
		},
		"paused": {
			reason: "A pause keeps everything.", hub: delivered(t, 1).gated(t, "h0").isPaused(), want: []string{status},
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

func TestGateGoesWithTheInstallation(t *testing.T) {
	const (
		deleteGate = "delete manifestworks/knative-serving-gate"
		status     = "patch managedclusteraddons/status/knative-serving"
		addOn      = "patch managedclusteraddons/knative-serving"
	)
	gate := func() *workv1.ManifestWork {
		return manifestwork.Gate(&render.Bundle{Component: api.Serving}, newHub().addOn)
	}
	going := gate()
	going.DeletionTimestamp = new(metav1.Unix(1, 0))
	for name, tc := range map[string]struct {
		reason string
		hub    *fakeHub
		want   []string
	}{
		"after the payload": {
			reason: "Nothing else waits for it.",
			hub:    newHub().allowed().with(foundationWork(), gate()),
			want:   []string{status, deleteGate, "delete manifestworks/knative-serving-foundation"},
		},
		"as the last": {
			reason: "The add-on is held until it is gone.", hub: newHub().allowed().with(going), want: []string{status},
		},
		"by force": {
			reason: "Nobody misses it.",
			hub:    newHub().deleting().annotated(api.ForceOrphanAnnotation, "true").with(manifestwork.Orphaned(payload()), gate()),
			want:   []string{deleteGate, addOn},
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
