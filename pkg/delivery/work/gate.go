// Copyright Contributors to the Open Cluster Management project

package work

import (
	"encoding/json"
	"fmt"
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
)

// OCM takes a cluster for complete when all works with the add-on's label say that they are of the configuration that the
// cluster is to have, and are Applied and Available, whatever the pods do. So there is one such work more, the gate, which
// never is Available: with the label it is closed, and OCM waits; without it is open. docs/design/0006-waves.md has the reasons.

// GateName is the name of the component's gate in the cluster's namespace.
func GateName(c api.Component) string { return c.AddOnName() + "-gate" }

// Gate is a closed gate, which speaks of the configurations. It belongs to the add-on. The agent brings nothing with it: it
// looks for a ConfigMap that nobody creates.
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
			Workload: workv1.ManifestsTemplate{Manifests: []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: toJSON(never)}}}},
			ManifestConfigs: []workv1.ManifestConfigOption{{
				ResourceIdentifier: workv1.ResourceIdentifier{Resource: "configmaps", Namespace: b.Namespace, Name: GateName(b.Component)},
				UpdateStrategy:     &workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeReadOnly}, FeedbackScrapeType: workv1.FeedbackPollType,
			}},
		},
	}
}

// IsClosed tells that OCM waits for the gate.
func IsClosed(gate *workv1.ManifestWork) bool { return gate.Labels[addonv1beta1.AddonLabelKey] != "" }

// ConfigsOf are the configurations that a payload was made of, or that a gate speaks of, with their hashes: addon-framework
// writes them into payloads, and OCM compares. It is nil when the work says nothing that can be read.
func ConfigsOf(w *workv1.ManifestWork) map[string]string {
	var out map[string]string
	if json.Unmarshal([]byte(w.Annotations[workv1.ManifestConfigSpecHashAnnotationKey]), &out) != nil {
		return nil
	}
	return out
}

// ConfigsText is how configurations are written down.
func ConfigsText(configs map[string]string) string {
	raw, err := json.Marshal(configs)
	if err != nil {
		return "" // they are texts
	}
	return string(raw)
}

// Delivered are the configurations that all payloads were made of; nil when there is no payload, or they differ.
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

// mark is a ConfigMap of the payload with the name of the bundle. The agent lists it, and says whether it is there, only after
// it has applied the payload of this bundle.
func mark(b *render.Bundle) *unstructured.Unstructured {
	return configMap(b.Namespace, markName(b), map[string]any{"digest": b.Digest, "version": b.Version})
}

func markName(b *render.Bundle) string {
	return fmt.Sprintf("%s-bundle-%.12s", b.Component.AddOnName(), b.Digest)
}

func configMap(namespace, name string, data map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": namespace, "name": name}, "data": data,
	}}
}

func toJSON(u *unstructured.Unstructured) []byte {
	raw, err := json.Marshal(u.Object)
	if err != nil {
		return nil // it is made of texts
	}
	return raw
}

// Runs tells that the cluster runs what the bundle says, as far as the agent has reported.
func Runs(b *render.Bundle, foundation *workv1.ManifestWork, payloads []*workv1.ManifestWork) bool {
	o := Observe(b, foundation, payloads)
	return o.Waiting == "" && len(o.Failed) == 0 && len(o.NotReady(b.Workloads, b.Jobs)) == 0
}

// lookedAfterApply tells that the agent has looked at the objects since it has applied the payloads of the bundle. It also
// looks before, and then reports on the objects as they were under the new generation; but it looks for what it applied last,
// so that a word on the mark of this bundle comes after.
func lookedAfterApply(payloads []*workv1.ManifestWork, b *render.Bundle) bool {
	return slices.ContainsFunc(payloads, func(p *workv1.ManifestWork) bool {
		m := findManifest(p, mark(b))
		return m != nil && apimeta.FindStatusCondition(m.Conditions, workv1.ManifestAvailable) != nil
	})
}

// Health says what keeps an add-on with these works from being Available, sorted; empty when nothing does. ok is false when
// the agent has not reported on any workload.
func Health(b *render.Bundle, payloads []*workv1.ManifestWork) (wrong []string, ok bool) {
	var seen []delivery.WorkloadState
	for _, p := range payloads {
		o := delivery.Observation{}
		for _, m := range p.Status.ResourceStatus.Manifests {
			observeManifest(&o, m)
			if isAbsent(m) {
				wrong = append(wrong, fmt.Sprintf("%s %s: it is gone", m.ResourceMeta.Kind, jobName(m.ResourceMeta.Namespace, m.ResourceMeta.Name)))
			}
		}
		seen = append(seen, o.Workloads...)
	}
	wrong = append(wrong, delivery.NotRolledOut(b.Workloads, seen)...)
	slices.Sort(wrong)
	return wrong, len(seen) > 0 || len(b.Workloads) == 0
}

// isAbsent tells that the object should be on the cluster and is not. Workloads are told of elsewhere, and Jobs go when they
// have finished.
func isAbsent(m workv1.ManifestCondition) bool {
	switch m.ResourceMeta.Kind {
	case "Deployment", "StatefulSet", "Job":
		return false
	}
	return missing(m)
}
