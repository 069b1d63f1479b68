// Copyright Contributors to the Open Cluster Management project

package manifestwork

import (
	"encoding/json"
	"maps"
	"slices"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// OCM counts a cluster as complete when all works with the add-on's label have the desired configuration and are Applied
// and Available, whatever the state of the pods. Therefore each add-on has another work, the gate. A closed gate has the label, and
// refers to a ConfigMap that nobody creates, so that the gate is not Available: OCM waits. An open gate has no label, and refers to a
// ConfigMap that every namespace has, so that the gate is Available. docs/design/0006-waves.md has the reasons.

// rootCertificates is the ConfigMap that kube-controller-manager writes into every namespace, and restores.
const rootCertificates = "kube-root-ca.crt"

// GateName returns the name of the component's gate in the cluster's namespace, and of the ConfigMap that never exists.
func GateName(c api.Component) string { return c.AddOnName() + "-gate" }

// Gate returns a closed gate for the configurations. The add-on owns the gate. The agent creates no object for the gate.
func Gate(b *render.Bundle, addon *addonv1beta1.ManagedClusterAddOn, configs map[string]string) *workv1.ManifestWork {
	return &workv1.ManifestWork{
		ObjectMeta: metav1.ObjectMeta{
			Name: GateName(b.Component), Namespace: addon.Namespace,
			Labels:          map[string]string{api.FoundationLabel: string(b.Component), addonv1beta1.AddonLabelKey: b.Component.AddOnName()},
			Annotations:     map[string]string{workv1.ManifestConfigSpecHashAnnotationKey: ConfigsText(configs)},
			OwnerReferences: ownedBy(addon),
		},
		Spec: referenceSpec(b.Namespace, GateName(b.Component)),
	}
}

// CloseGate makes OCM wait for the gate. A closed gate names no configuration before the agent has reported that the ConfigMap does
// not exist ([IsReported]): the agent may report the ConfigMap of the open gate under the generation of the closed gate. A closed gate
// loses the record of the last verification.
func CloseGate(gate *workv1.ManifestWork, b *render.Bundle) {
	metav1.SetMetaDataLabel(&gate.ObjectMeta, addonv1beta1.AddonLabelKey, b.Component.AddOnName())
	delete(gate.Annotations, workv1.ManifestConfigSpecHashAnnotationKey)
	delete(gate.Annotations, api.VerifiedRenderingAnnotation)
	refer(gate, b.Namespace, GateName(b.Component))
}

// OpenGate makes OCM go by the payloads alone, and the gate Available.
func OpenGate(gate *workv1.ManifestWork, b *render.Bundle) {
	delete(gate.Labels, addonv1beta1.AddonLabelKey)
	refer(gate, b.Namespace, rootCertificates)
}

// IsClosed reports whether OCM waits for the gate.
func IsClosed(gate *workv1.ManifestWork) bool { return gate.Labels[addonv1beta1.AddonLabelKey] != "" }

// IsOpenFor reports whether the gate is open for a spec of a resource: the cluster has the spec.
func IsOpenFor(gate *workv1.ManifestWork, c api.Component, resource types.NamespacedName, specHash string) bool {
	return !IsClosed(gate) && ConfigsOf(gate)[ConfigKey(c, resource)] == specHash
}

// HasGateReference reports whether a closed gate refers to the ConfigMap that never exists, and an open gate to the ConfigMap that
// always exists, in the install namespace. Open gates of earlier managers refer to the former.
func HasGateReference(gate *workv1.ManifestWork, b *render.Bundle) bool {
	namespace, name := reference(gate)
	if IsClosed(gate) {
		return namespace == b.Namespace && name == gate.Name
	}
	return namespace == b.Namespace && name == rootCertificates
}

// IsReported reports whether the agent has looked for the ConfigMap of the gate, and has reported on the present generation.
func IsReported(gate *workv1.ManifestWork) bool {
	for _, condition := range []string{workv1.WorkApplied, workv1.WorkAvailable} {
		if c := apimeta.FindStatusCondition(gate.Status.Conditions, condition); c == nil || c.ObservedGeneration != gate.Generation {
			return false
		}
	}
	namespace, name := reference(gate)
	return slices.ContainsFunc(gate.Status.ResourceStatus.Manifests, func(m workv1.ManifestCondition) bool {
		return m.ResourceMeta.Namespace == namespace && m.ResourceMeta.Name == name && apimeta.FindStatusCondition(m.Conditions, workv1.ManifestAvailable) != nil
	})
}

// refer changes the ConfigMap that the gate refers to.
func refer(gate *workv1.ManifestWork, namespace, name string) {
	spec := referenceSpec(namespace, name)
	gate.Spec.Workload, gate.Spec.ManifestConfigs = spec.Workload, spec.ManifestConfigs
}

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

// ConfigsOf returns the configurations of a payload or a gate with their hashes: addon-framework writes the configurations
// into payloads, and OCM compares them. The result is nil when the annotation is missing or unreadable.
func ConfigsOf(w *workv1.ManifestWork) map[string]string {
	var out map[string]string
	if json.Unmarshal([]byte(w.Annotations[workv1.ManifestConfigSpecHashAnnotationKey]), &out) != nil {
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
