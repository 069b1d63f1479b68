// Copyright Contributors to the Open Cluster Management project

package work

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

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

// OCM takes a cluster for complete when its payload was Applied and Available once, whatever its pods do. So the payload
// refers to a ConfigMap that it does not bring, the evidence, which is named after the bundle: without it the payload is not
// Available. A work of our own, the proof, brings it when the bundle is seen to run. docs/design/0006-waves.md has the reasons.

// ProofName is the name of the component's proof in the cluster's namespace.
func ProofName(c api.Component) string { return c.AddOnName() + "-proof" }

// Proof is the work that says on the cluster that the bundle runs there. It belongs to the add-on, and has our label, not
// OCM's, so that no rollout waits for it.
func Proof(b *render.Bundle, foundation *workv1.ManifestWork, addon *addonv1beta1.ManagedClusterAddOn) *workv1.ManifestWork {
	return &workv1.ManifestWork{
		ObjectMeta: metav1.ObjectMeta{
			Name:            ProofName(b.Component),
			Namespace:       addon.Namespace,
			Labels:          map[string]string{api.FoundationLabel: string(b.Component)},
			OwnerReferences: ownedBy(addon),
		},
		Spec: workv1.ManifestWorkSpec{
			Workload: workv1.ManifestsTemplate{Manifests: []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: evidenceJSON(b, foundation)}}}},
		},
	}
}

// Proves tells that a proof is that of the bundle in the installation of the foundation, and stays.
func Proves(proof *workv1.ManifestWork, b *render.Bundle, foundation *workv1.ManifestWork) bool {
	brought := proof.Spec.Workload.Manifests
	return foundation != nil && proof.DeletionTimestamp == nil && len(brought) == 1 && sameJSON(brought[0].Raw, evidenceJSON(b, foundation))
}

// evidenceNames match the names of the ConfigMaps that proofs bring.
const evidenceNames = "knative-*-runs-*"

// evidence is the ConfigMap that a proof brings and the payload refers to.
func evidence(b *render.Bundle, foundation *workv1.ManifestWork) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"namespace": b.Namespace, "name": evidenceName(b, foundation)},
		"data":     map[string]any{"digest": b.Digest, "version": b.Version},
	}}
}

func evidenceJSON(b *render.Bundle, foundation *workv1.ManifestWork) []byte {
	raw, err := json.Marshal(evidence(b, foundation).Object)
	if err != nil {
		return nil // it is made of texts
	}
	return raw
}

// evidenceName has the start of the foundation's UID: what was left on the cluster of another installation, or is there for
// another hub, proves nothing. The foundation keeps its UID when it is handed over.
func evidenceName(b *render.Bundle, foundation *workv1.ManifestWork) string {
	return fmt.Sprintf("%s%.12s-%.8s", evidencePrefix(b.Component), b.Digest, foundation.UID)
}

func evidencePrefix(c api.Component) string { return c.AddOnName() + "-runs-" }

// Runs tells that the cluster runs what the bundle says, as far as the agent has reported.
func Runs(b *render.Bundle, foundation *workv1.ManifestWork, payloads []*workv1.ManifestWork) bool {
	o := Observe(b, foundation, payloads)
	return o.Waiting == "" && len(o.Failed) == 0 && len(o.NotReady(b.Workloads, b.Jobs)) == 0
}

// HasArrived tells that the agent has applied a proof and found it on the cluster.
func HasArrived(proof *workv1.ManifestWork) bool {
	applied, _ := Applied(proof)
	return applied && apimeta.IsStatusConditionTrue(proof.Status.Conditions, workv1.WorkAvailable) && observedBy(proof, workv1.WorkAvailable)
}

// LostSince tells that the agent misses a proof which it has applied, because somebody has removed it from the cluster, and
// since when.
func LostSince(proof *workv1.ManifestWork) (since time.Time, lost bool) {
	applied, _ := Applied(proof)
	i := slices.IndexFunc(proof.Status.ResourceStatus.Manifests, missing)
	if !applied || i < 0 {
		return since, false
	}
	return apimeta.FindStatusCondition(proof.Status.ResourceStatus.Manifests[i].Conditions, workv1.ManifestAvailable).LastTransitionTime.Time, true
}

// MissesProof tells that the agent has looked for the proof of the bundle that the payload refers to, and not found it.
func MissesProof(payload *workv1.ManifestWork, b *render.Bundle, foundation *workv1.ManifestWork) bool {
	m := evidenceIn(payload, b, foundation)
	return m != nil && missing(*m)
}

// lookedAfterApply tells that the agent has looked at the objects since it has applied the payloads of the bundle. It also
// looks before, and then reports on the objects as they were under the new generation; but it looks for what it applied last,
// so that a word on the evidence of this bundle comes after.
func lookedAfterApply(payloads []*workv1.ManifestWork, b *render.Bundle, foundation *workv1.ManifestWork) bool {
	return slices.ContainsFunc(payloads, func(p *workv1.ManifestWork) bool {
		m := evidenceIn(p, b, foundation)
		return m != nil && apimeta.FindStatusCondition(m.Conditions, workv1.ManifestAvailable) != nil
	})
}

// evidenceIn is what the agent says of the evidence of the bundle; nil when it says nothing.
func evidenceIn(payload *workv1.ManifestWork, b *render.Bundle, foundation *workv1.ManifestWork) *workv1.ManifestCondition {
	return findManifest(payload, evidence(b, foundation))
}

// Health says what keeps an add-on with these works from being Available, sorted; empty when nothing does. ok is false when
// the agent has not reported on any workload.
func Health(b *render.Bundle, payloads []*workv1.ManifestWork) (wrong []string, ok bool) {
	var seen []delivery.WorkloadState
	for _, p := range payloads {
		o := delivery.Observation{}
		for _, m := range p.Status.ResourceStatus.Manifests {
			observeManifest(&o, m)
			if isAbsent(m, b) {
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
func isAbsent(m workv1.ManifestCondition, b *render.Bundle) bool {
	switch m.ResourceMeta.Kind {
	case "Deployment", "StatefulSet", "Job":
		return false
	}
	return missing(m) && !strings.HasPrefix(m.ResourceMeta.Name, evidencePrefix(b.Component))
}
