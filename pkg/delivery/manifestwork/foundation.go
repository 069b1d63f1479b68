// Copyright Contributors to the Open Cluster Management project

package manifestwork

import (
	"bytes"
	_ "embed"
	"encoding/json"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/manifests"
	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// FoundationName returns the name of the component's foundation in the cluster's namespace.
func FoundationName(c api.Component) string { return c.AddOnName() + "-foundation" }

// Foundation returns the work that arrives before the payload of the bundle and leaves after the payload: the work agent's
// permissions, the Namespace and the CRDs. The add-on owns the work, and the permissions name the hub, so that the cluster
// records the owner of the installation.
func Foundation(b *render.Bundle, addon *addonv1beta1.ManagedClusterAddOn, hub types.UID) (*workv1.ManifestWork, error) {
	role, err := manifests.WorkAgentRole(b.Component, hub)
	if err != nil {
		return nil, err
	}
	work := &workv1.ManifestWork{
		ObjectMeta: foundationMeta(b.Component, addon),
		Spec: workv1.ManifestWorkSpec{
			Workload:        workv1.ManifestsTemplate{Manifests: []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: role}}}},
			DeleteOption:    orphanOption(b.Foundation),
			ManifestConfigs: foundationConfigs(),
		},
	}
	work.Annotations = map[string]string{api.DigestAnnotation: b.FoundationDigest, api.VersionAnnotation: b.Version}
	for _, o := range b.Foundation {
		work.Spec.Workload.Manifests = append(work.Spec.Workload.Manifests, workv1.Manifest{RawExtension: runtime.RawExtension{Raw: o.JSON}})
	}
	return work, nil
}

func ownedBy(addon *addonv1beta1.ManagedClusterAddOn) []metav1.OwnerReference {
	return []metav1.OwnerReference{{
		APIVersion: addonv1beta1.GroupVersion.String(), Kind: "ManagedClusterAddOn", Name: addon.Name, UID: addon.UID,
	}}
}

// OwnedBy returns the work with the add-on as its only owner.
func OwnedBy(w *workv1.ManifestWork, addon *addonv1beta1.ManagedClusterAddOn) *workv1.ManifestWork {
	out := w.DeepCopy()
	out.OwnerReferences = ownedBy(addon)
	return out
}

func foundationMeta(c api.Component, addon *addonv1beta1.ManagedClusterAddOn) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: FoundationName(c), Namespace: addon.Namespace, Labels: map[string]string{api.FoundationLabel: string(c)},
		OwnerReferences: ownedBy(addon),
	}
}

// HubOf returns the UID of the hub that the permissions of a foundation name; empty for a probe.
func HubOf(foundation *workv1.ManifestWork) types.UID {
	for _, m := range foundation.Spec.Workload.Manifests {
		if named, err := readManifestName(m.Raw); err == nil && named.Metadata.Annotations[api.HubAnnotation] != "" {
			return types.UID(named.Metadata.Annotations[api.HubAnnotation])
		}
	}
	return ""
}

// Objects returns the JSON of all objects of both works, in order and without the name of a hub.
func Objects(b *render.Bundle) ([][]byte, error) {
	role, err := manifests.WorkAgentRole(b.Component, "")
	if err != nil {
		return nil, err
	}
	out := [][]byte{role}
	for _, o := range b.Objects() {
		out = append(out, o.JSON)
	}
	return out, nil
}

// orphanOption keeps objects on the cluster after the removal of the work: deleting a CRD deletes every user's Services.
func orphanOption(objects []render.Object) *workv1.DeleteOption {
	var rules []workv1.OrphaningRule
	for _, o := range objects {
		if o.Orphan {
			rules = append(rules, workv1.OrphaningRule{
				Group: o.Resource.Group, Resource: o.Resource.Resource, Namespace: o.GetNamespace(), Name: o.GetName(),
			})
		}
	}
	return &workv1.DeleteOption{
		PropagationPolicy: workv1.DeletePropagationPolicyTypeSelectivelyOrphan,
		SelectivelyOrphan: &workv1.SelectivelyOrphan{OrphaningRules: rules},
	}
}

// SameManifests reports whether two works contain the same objects in the same order.
func SameManifests(a, b *workv1.ManifestWork) bool {
	x, y := a.Spec.Workload.Manifests, b.Spec.Workload.Manifests
	if len(x) != len(y) {
		return false
	}
	for i := range x {
		if !bytes.Equal(x[i].Raw, y[i].Raw) && !sameJSON(x[i].Raw, y[i].Raw) {
			return false
		}
	}
	return true
}

func sameJSON(a, b []byte) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	canonicalX, errX := json.Marshal(x)
	canonicalY, errY := json.Marshal(y)
	return errX == nil && errY == nil && bytes.Equal(canonicalX, canonicalY)
}

// Applied reports whether the work agent has applied the latest generation of the work, with the agent's reason if not.
func Applied(work *workv1.ManifestWork) (applied bool, why string) {
	c := apimeta.FindStatusCondition(work.Status.Conditions, workv1.WorkApplied)
	if c == nil || c.ObservedGeneration != work.Generation {
		return false, "the work agent has not applied the work yet"
	}
	if c.Status == metav1.ConditionTrue {
		return true, ""
	}
	for _, m := range work.Status.ResourceStatus.Manifests {
		a := apimeta.FindStatusCondition(m.Conditions, workv1.ManifestApplied)
		if a != nil && a.Status == metav1.ConditionFalse {
			return false, objectName(m.ResourceMeta) + ": " + a.Message
		}
	}
	return false, c.Message
}
