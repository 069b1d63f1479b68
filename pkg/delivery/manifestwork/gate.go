// Copyright Contributors to the Open Cluster Management project

package manifestwork

import (
	"encoding/json"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// OCM counts a cluster as complete when all works with the add-on's label name the configurations that OCM wants, and are Applied and
// Available, whatever the state of the pods. Therefore each add-on has another work with the label, the gate, which names the configurations
// that the cluster runs: OCM waits while OCM wants other configurations. The gate refers to a ConfigMap that every namespace has, so that the
// gate is always Available. docs/design/0006-waves.md has the reasons.

// rootCertificates is the ConfigMap that kube-controller-manager writes into every namespace, and restores.
const rootCertificates = "kube-root-ca.crt"

// GateName returns the name of the component's gate in the cluster's namespace.
func GateName(c api.Component) string { return c.AddOnName() + "-gate" }

// Gate returns a closed gate. The add-on owns the gate. The agent creates no object for the gate.
func Gate(b *render.Bundle, addon *addonv1beta1.ManagedClusterAddOn) *workv1.ManifestWork {
	return &workv1.ManifestWork{
		ObjectMeta: metav1.ObjectMeta{
			Name: GateName(b.Component), Namespace: addon.Namespace,
			Labels:          map[string]string{api.FoundationLabel: string(b.Component), addonv1beta1.AddonLabelKey: b.Component.AddOnName()},
			OwnerReferences: ownedBy(addon),
		},
		Spec: referenceSpec(b.Namespace, rootCertificates),
	}
}

// OpenGate records that the cluster runs the configurations: OCM completes a cluster that should have these.
func OpenGate(gate *workv1.ManifestWork, configs map[string]string) {
	text := ConfigsText(configs)
	metav1.SetMetaDataAnnotation(&gate.ObjectMeta, workv1.ManifestConfigSpecHashAnnotationKey, text)
	metav1.SetMetaDataAnnotation(&gate.ObjectMeta, api.RunningConfigsAnnotation, text)
}

// HoldGate makes OCM wait, and keeps the record of the configurations that the cluster runs.
func HoldGate(gate *workv1.ManifestWork) {
	delete(gate.Annotations, workv1.ManifestConfigSpecHashAnnotationKey)
}

// CloseGate makes OCM wait, and removes the records of the running configurations and of the last verification.
func CloseGate(gate *workv1.ManifestWork) {
	HoldGate(gate)
	delete(gate.Annotations, api.RunningConfigsAnnotation)
	delete(gate.Annotations, api.VerifiedRenderingAnnotation)
}

// RestoreGate gives the gate OCM's label and the reference to the ConfigMap, and translates the gate of an earlier manager: without the
// label, the cluster runs the configurations that the gate names for OCM; with the label, and with a reference to the ConfigMap of the
// gate's name, which no namespace has, the gate is closed.
func RestoreGate(gate *workv1.ManifestWork, b *render.Bundle) {
	namespace, name := reference(gate)
	switch configs := ConfigsOf(gate); {
	case hasAddOnLabel(gate) && name == gate.Name:
		CloseGate(gate)
	case !hasAddOnLabel(gate) && configs != nil:
		OpenGate(gate, configs)
	}
	metav1.SetMetaDataLabel(&gate.ObjectMeta, addonv1beta1.AddonLabelKey, b.Component.AddOnName())
	if namespace != b.Namespace || name != rootCertificates {
		spec := referenceSpec(b.Namespace, rootCertificates)
		gate.Spec.Workload, gate.Spec.ManifestConfigs = spec.Workload, spec.ManifestConfigs
	}
}

// RunningConfigs returns the configurations that the cluster runs, by the record of the gate; nil without a record. The gates of
// earlier managers, which have no label while these are open, name the configurations in OCM's annotation.
func RunningConfigs(gate *workv1.ManifestWork) map[string]string {
	if !hasAddOnLabel(gate) {
		return ConfigsOf(gate)
	}
	return decodeConfigs(gate.Annotations[api.RunningConfigsAnnotation])
}

// RunsSpec reports whether the cluster runs a spec of a resource: the gate records the spec, and no payload, if there are any, is of another
// spec. Between the delivery of another spec and the return to the recorded spec, the payloads alone tell the difference.
func RunsSpec(gate *workv1.ManifestWork, payloads []*workv1.ManifestWork, c api.Component, resource types.NamespacedName, specHash string) bool {
	key := ConfigKey(c, resource)
	isOther := func(p *workv1.ManifestWork) bool { return ConfigsOf(p)[key] != specHash }
	return RunningConfigs(gate)[key] == specHash && !slices.ContainsFunc(payloads, isOther)
}

func hasAddOnLabel(w *workv1.ManifestWork) bool { return w.Labels[addonv1beta1.AddonLabelKey] != "" }

// referenceSpec returns a work that the agent only reads: a ConfigMap that the agent neither writes nor deletes.
func referenceSpec(namespace, name string) workv1.ManifestWorkSpec {
	return workv1.ManifestWorkSpec{
		Workload: workv1.ManifestsTemplate{Manifests: []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: encodeJSON(configMap(namespace, name, nil))}}}},
		ManifestConfigs: []workv1.ManifestConfigOption{{
			ResourceIdentifier: workv1.ResourceIdentifier{Resource: "configmaps", Namespace: namespace, Name: name},
			UpdateStrategy:     &workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeReadOnly}, FeedbackScrapeType: workv1.FeedbackPollType,
		}},
	}
}

// reference returns namespace and name of the ConfigMap that the gate refers to; empty for another spec.
func reference(gate *workv1.ManifestWork) (namespace, name string) {
	if len(gate.Spec.ManifestConfigs) != 1 {
		return "", ""
	}
	of := gate.Spec.ManifestConfigs[0].ResourceIdentifier
	return of.Namespace, of.Name
}

// ConfigsOf returns the configurations with hashes that a payload or a gate names for OCM: addon-framework writes the configurations
// into payloads, and OCM compares both with the wanted configurations. The result is nil when the annotation is missing or unreadable.
func ConfigsOf(w *workv1.ManifestWork) map[string]string {
	return decodeConfigs(w.Annotations[workv1.ManifestConfigSpecHashAnnotationKey])
}

func decodeConfigs(text string) map[string]string {
	var out map[string]string
	if json.Unmarshal([]byte(text), &out) != nil {
		return nil
	}
	return out
}

// ConfigKey returns the key of a resource among the configurations of a payload or a gate.
func ConfigKey(c api.Component, resource types.NamespacedName) string {
	return c.Resource().GroupResource().String() + "/" + resource.String()
}

// ConfigsText encodes configurations for the annotation.
func ConfigsText(configs map[string]string) string {
	raw, err := json.Marshal(configs)
	if err != nil {
		return "" // a map of texts always encodes
	}
	return string(raw)
}

// Delivered returns the configurations of all payloads; nil without a payload, or when the payloads differ.
func Delivered(payloads []*workv1.ManifestWork) map[string]string {
	var out map[string]string
	for i, p := range payloads {
		configs := ConfigsOf(p)
		if i > 0 && !maps.Equal(configs, out) {
			return nil
		}
		out = configs
	}
	return out
}

// HasOtherConfigs reports whether the payloads, if there are any, have other configurations and other manifests than the bundle of the wanted
// configurations.
func HasOtherConfigs(payloads []*workv1.ManifestWork, wanted map[string]string, b *render.Bundle, foundation *workv1.ManifestWork) bool {
	return len(payloads) > 0 && !maps.Equal(Delivered(payloads), wanted) && !MatchBundle(payloads, b, foundation)
}

// configMap returns a ConfigMap; data may be nil.
func configMap(namespace, name string, data map[string]any) *unstructured.Unstructured {
	object := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": namespace, "name": name}}
	if data != nil {
		object["data"] = data
	}
	return &unstructured.Unstructured{Object: object}
}

func encodeJSON(u *unstructured.Unstructured) []byte {
	raw, err := json.Marshal(u.Object)
	if err != nil {
		return nil // an object of texts always encodes
	}
	return raw
}
