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

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/workload"
)

// OCM counts a cluster as complete when all works with the add-on's label have the desired configuration and are Applied
// and Available, whatever the state of the pods. Therefore each add-on has another work, the gate, which never is
// Available. A gate with the label is closed: OCM waits. A gate without the label is open. docs/design/0006-waves.md has
// the reasons.

// GateName returns the name of the component's gate in the cluster's namespace.
func GateName(c api.Component) string { return c.AddOnName() + "-gate" }

// Gate returns a closed gate for the configurations. The add-on owns the gate. The agent creates no object for the gate:
// the agent only looks for a ConfigMap that never exists.
func Gate(b *render.Bundle, addon *addonv1beta1.ManagedClusterAddOn, configs map[string]string) *workv1.ManifestWork {
	never := configMap(b.Namespace, GateName(b.Component), map[string]any{"about": "Rollouts of Open Cluster Management wait as long as this ConfigMap does not exist."})
	return &workv1.ManifestWork{
		ObjectMeta: metav1.ObjectMeta{
			Name: GateName(b.Component), Namespace: addon.Namespace,
			Labels:          map[string]string{api.FoundationLabel: string(b.Component), addonv1beta1.AddonLabelKey: b.Component.AddOnName()},
			Annotations:     map[string]string{workv1.ManifestConfigSpecHashAnnotationKey: ConfigsText(configs)},
			OwnerReferences: ownedBy(addon),
		},
		Spec: workv1.ManifestWorkSpec{
			Workload: workv1.ManifestsTemplate{Manifests: []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: encodeJSON(never)}}}},
			ManifestConfigs: []workv1.ManifestConfigOption{{
				ResourceIdentifier: workv1.ResourceIdentifier{Resource: "configmaps", Namespace: b.Namespace, Name: GateName(b.Component)},
				UpdateStrategy:     &workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeReadOnly}, FeedbackScrapeType: workv1.FeedbackPollType,
			}},
		},
	}
}

// IsClosed reports whether OCM waits for the gate.
func IsClosed(gate *workv1.ManifestWork) bool { return gate.Labels[addonv1beta1.AddonLabelKey] != "" }

// ConfigsOf returns the configurations of a payload or a gate with their hashes: addon-framework writes the configurations
// into payloads, and OCM compares them. The result is nil when the annotation is missing or unreadable.
func ConfigsOf(w *workv1.ManifestWork) map[string]string {
	var out map[string]string
	if json.Unmarshal([]byte(w.Annotations[workv1.ManifestConfigSpecHashAnnotationKey]), &out) != nil {
		return nil
	}
	return out
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

// bundleMark returns a ConfigMap of the payload that is named after the bundle. The agent lists the ConfigMap, and reports
// whether it exists, only after applying the payload of this bundle.
func bundleMark(b *render.Bundle) *unstructured.Unstructured {
	return configMap(b.Namespace, markName(b), map[string]any{"digest": b.Digest, "version": b.Version})
}

func markName(b *render.Bundle) string {
	return markPrefix(b.Component) + RenderingName(b)
}

func markPrefix(c api.Component) string { return c.AddOnName() + "-bundle-" }

func configMap(namespace, name string, data map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": namespace, "name": name}, "data": data,
	}}
}

func encodeJSON(u *unstructured.Unstructured) []byte {
	raw, err := json.Marshal(u.Object)
	if err != nil {
		return nil // an object of texts always encodes
	}
	return raw
}

// Runs reports whether the cluster runs the bundle, according to the agent's reports.
func Runs(b *render.Bundle, foundation *workv1.ManifestWork, payloads []*workv1.ManifestWork) bool {
	o := Observe(b, foundation, payloads)
	return o.Waiting == "" && len(o.Failed) == 0 && len(o.NotReady(b.Workloads, b.Jobs)) == 0
}

// observedAfterApply reports whether the agent has observed the objects after applying the payloads of the bundle. The
// agent also observes before and then reports earlier objects under the new generation; but the agent observes the objects
// of the last application, so that a report on the mark of this bundle comes after.
func observedAfterApply(payloads []*workv1.ManifestWork, b *render.Bundle) bool {
	return slices.ContainsFunc(payloads, func(p *workv1.ManifestWork) bool {
		m := findManifest(p, bundleMark(b))
		return m != nil && apimeta.FindStatusCondition(m.Conditions, workv1.ManifestAvailable) != nil
	})
}

// Health lists the reasons why an add-on with these works is not Available, sorted; empty for a healthy add-on. ok is false
// when the agent has not reported on any workload. workloads are the expected workloads of the cluster. An object that the agent
// could not apply is not gone: the cluster has refused the object.
func Health(workloads []workload.Expected, payloads []*workv1.ManifestWork) (wrong []string, ok bool) {
	var seen []delivery.WorkloadState
	refused := map[string]bool{}
	for _, p := range payloads {
		o := delivery.Observation{}
		for _, m := range p.Status.ResourceStatus.Manifests {
			observeManifest(&o, m)
			refusal, isRefused := refusalOf(m)
			switch {
			case isMissing(m) && isRefused:
				wrong = append(wrong, refusal)
				refused[objectName(m.ResourceMeta)] = true
			case isAbsent(m):
				wrong = append(wrong, objectName(m.ResourceMeta)+": it is gone")
			}
		}
		seen = append(seen, o.Workloads...)
	}
	expected := slices.DeleteFunc(slices.Clone(workloads), func(w workload.Expected) bool {
		return refused[objectName(workv1.ManifestResourceMeta{Kind: w.Kind, Namespace: w.Namespace, Name: w.Name})]
	})
	wrong = append(wrong, delivery.NotRolledOut(expected, seen)...)
	slices.Sort(wrong)
	return wrong, len(seen) > 0 || len(expected) == 0
}

// isAbsent reports whether an object is missing on the cluster. Workloads have reports of their own, and finished Jobs may
// be removed.
func isAbsent(m workv1.ManifestCondition) bool {
	return render.KindNamed(m.ResourceMeta.Kind).Feedback == render.NoFeedback && isMissing(m)
}
