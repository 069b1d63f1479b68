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

// gated adds a gate that speaks of the spec with the hash.
func (h *fakeHub) gated(t *testing.T, hash string, closed bool) *fakeHub {
	t.Helper()
	b, err := rolling()
	if err != nil {
		t.Fatal(err)
	}
	gate := manifestwork.Gate(b, h.addOn, configs(hash))
	if !closed {
		manifestwork.OpenGate(gate, b)
	}
	return h.with(reportedGate(gate))
}

// reportedGate adds the agent's report on the ConfigMap of the gate.
func reportedGate(gate *workv1.ManifestWork) *workv1.ManifestWork {
	available := metav1.Condition{Type: workv1.ManifestAvailable, Status: metav1.ConditionTrue, ObservedGeneration: gate.Generation}
	if manifestwork.IsClosed(gate) {
		available.Status = metav1.ConditionFalse
	}
	gate.Status.Conditions = []metav1.Condition{{Type: workv1.WorkApplied, Status: metav1.ConditionTrue, ObservedGeneration: gate.Generation}, available}
	referred := gate.Spec.ManifestConfigs[0].ResourceIdentifier
	gate.Status.ResourceStatus.Manifests = []workv1.ManifestCondition{{
		ResourceMeta: workv1.ManifestResourceMeta{Kind: "ConfigMap", Namespace: referred.Namespace, Name: referred.Name},
		Conditions:   []metav1.Condition{available},
	}}
	return gate
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

// ofGate describes a patch of a gate: the value of the label, the configuration, and the ConfigMap.
func ofGate(t *testing.T, name string, a clienttesting.Action) string {
	t.Helper()
	p, ok := a.(clienttesting.PatchAction)
	if !ok || name != manifestwork.GateName(api.Serving) {
		return ""
	}
	var patch struct {
		Metadata struct {
			Labels      map[string]*string
			Annotations map[string]string
		}
		Spec workv1.ManifestWorkSpec
	}
	if err := json.Unmarshal(p.GetPatch(), &patch); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	label, labelled := patch.Metadata.Labels[addonv1beta1.AddonLabelKey]
	switch {
	case labelled && label == nil:
		out.WriteString(" labels: null")
	case labelled:
		out.WriteString(" labels: " + *label)
	}
	for _, hash := range manifestwork.ConfigsOf(&workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Annotations: patch.Metadata.Annotations}}) {
		out.WriteString(" annotations: " + hash)
	}
	for _, c := range patch.Spec.ManifestConfigs {
		out.WriteString(" refers: " + c.ResourceIdentifier.Name)
	}
	return out.String()
}

func TestGate(t *testing.T) {
	const (
		status = "patch managedclusteraddons/status/knative-serving"
		create = "create manifestworks/knative-serving-gate"
		update = "update manifestworks/knative-serving-gate"
		remove = "delete manifestworks/knative-serving-gate"
		// What is patched.
		closes = "patch manifestworks/knative-serving-gate labels: knative-serving refers: knative-serving-gate"
		refers = "patch manifestworks/knative-serving-gate refers: "
		opens  = "patch manifestworks/knative-serving-gate labels: null refers: kube-root-ca.crt"
		speaks = "patch manifestworks/knative-serving-gate annotations: h1"
	)
	for name, tc := range map[string]struct {
		reason string
		hub    *fakeHub
		want   []string
	}{
		"there is none": {
			reason: "The payload waits for it.", hub: delivered(t, 1), want: []string{status, create},
		},
		"it runs": { // also when something else was wanted meanwhile, and not delivered
			reason: "This is what OCM waits for.", hub: delivered(t, 1).gated(t, "h1", true), want: []string{status, opens},
		},
		"it does not run yet": {
			reason: "OCM would go on.", hub: delivered(t, 0).gated(t, "h1", true), want: []string{status},
		},
		"it ran once": {
			reason: "A rollout is about a change.", hub: delivered(t, 0).gated(t, "h1", false), want: []string{status},
		},
		"something else is wanted": {
			reason: "OCM would take it for complete as soon as it is applied.",
			hub:    delivered(t, 1).gated(t, "h1", false).wants("h2"), want: []string{status, closes},
		},
		"something else is wanted and not delivered yet": {
			reason: "Gate and payload are both of the old one: OCM says one thing of both.",
			hub:    delivered(t, 1).gated(t, "h1", true).wants("h2"), want: []string{status},
		},
		"something else was delivered": {
			reason: "OCM would say one thing of the gate and another one of the payload, in turns.",
			hub:    delivered(t, 0).gated(t, "h0", true), want: []string{status, speaks},
		},
		"something else was delivered before the agent has reported on the gate": {
			reason: "The agent may still report the ConfigMap of the open gate, and OCM would take the cluster for complete.",
			hub: delivered(t, 1).gated(t, "h0", true).changed(func(h *fakeHub) {
				h.works[2].Generation = 2
			}),
			want: []string{status},
		},
		"the agent has reported on the open gate under the generation of the closed gate": {
			reason: "The report is about another ConfigMap.",
			hub: delivered(t, 1).gated(t, "h1", false).changed(func(h *fakeHub) {
				b, _ := rolling()
				manifestwork.CloseGate(h.works[2], b)
			}),
			want: []string{status},
		},
		"closed, and the configuration is not named yet": {
			reason: "OCM compares the configuration.",
			hub: delivered(t, 0).gated(t, "h1", true).changed(func(h *fakeHub) {
				h.works[2].Annotations = nil
			}),
			want: []string{status, speaks},
		},
		"closed without the configuration, and it runs": {
			reason: "An open gate names what it was opened for.",
			hub: delivered(t, 1).gated(t, "h1", false).changed(func(h *fakeHub) {
				b, _ := rolling()
				manifestwork.CloseGate(h.works[2], b)
				reportedGate(h.works[2])
			}),
			want: []string{status, speaks},
		},
		"opened by an earlier manager": {
			reason: "A gate at rest is Available.",
			hub: delivered(t, 1).gated(t, "h1", true).changed(func(h *fakeHub) {
				delete(h.works[2].Labels, addonv1beta1.AddonLabelKey)
			}),
			want: []string{status, refers + "kube-root-ca.crt"},
		},
		"the spec of a closed gate was changed": {
			reason: "OCM would go by the payload alone.",
			hub: delivered(t, 0).gated(t, "h1", false).changed(func(h *fakeHub) {
				h.works[2].Labels[addonv1beta1.AddonLabelKey] = "knative-serving"
			}),
			want: []string{status, refers + "knative-serving-gate"},
		},
		"something else was delivered, and it runs": {
			reason: "It speaks of it first.", hub: delivered(t, 1).gated(t, "h0", true), want: []string{status, speaks},
		},
		"it is wanted again after something else was delivered": {
			reason: "It does not run any more.", hub: delivered(t, 1).gated(t, "h0", false), want: []string{status, closes},
		},
		"half of something else was delivered": {
			reason: "There is nothing to speak of yet.",
			hub: delivered(t, 1).gated(t, "h0", true).changed(func(h *fakeHub) {
				other := h.works[1].DeepCopy()
				other.Name, other.Annotations = "addon-knative-serving-deploy-1", map[string]string{workv1.ManifestConfigSpecHashAnnotationKey: manifestwork.ConfigsText(configs("h0"))}
				h.works = append(h.works, other)
			}),
			want: []string{status},
		},
		"it is on its way out": {
			reason: "The next one comes when it is gone.",
			hub: delivered(t, 1).gated(t, "h1", true).changed(func(h *fakeHub) {
				h.works[2].DeletionTimestamp = new(metav1.Unix(1, 0))
			}),
			want: []string{status},
		},
		"it was another add-on's": {
			reason: "It was handed over with the other works.",
			hub:    delivered(t, 1).gated(t, "h1", false).changed(func(h *fakeHub) { h.works[2].OwnerReferences = nil }),
			want:   []string{status, update},
		},
		"beside a probe": {
			reason: "Nothing is installed.",
			hub: newHub().with(probeWork(t, "h2", map[string]string{"AppliedBy": "abc"})).changed(func(h *fakeHub) {
				h.works = append(h.works, delivered(t, 1).gated(t, "h1", true).works[2])
			}),
			want: []string{status, remove},
		},
		"paused": {
			reason: "Nothing comes to the cluster.", hub: delivered(t, 1).gated(t, "h1", false).wants("h2").isPaused(), want: []string{status},
		},
		"paused when something was delivered": {
			reason: "The gate is the hub's.", hub: delivered(t, 1).gated(t, "h0", true).isPaused(), want: []string{status, speaks},
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
		return manifestwork.Gate(&render.Bundle{Component: api.Serving}, newHub().addOn, configs("h1"))
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
