// Copyright Contributors to the Open Cluster Management project

package work

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"

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

// FoundationName is the name of the component's foundation in the cluster's namespace.
func FoundationName(c api.Component) string { return c.AddOnName() + "-foundation" }

// Foundation is the work that comes before the payload of the bundle and goes after it: the work agent's permissions,
// the Namespace and the CRDs. It belongs to the add-on, and the permissions name the hub, so that the cluster tells whose
// the installation is.
func Foundation(b *render.Bundle, addon *addonv1beta1.ManagedClusterAddOn, hub types.UID) (*workv1.ManifestWork, error) {
	role, err := manifests.WorkAgentRole(b.Component, hub)
	if err != nil {
		return nil, err
	}
	work := &workv1.ManifestWork{
		ObjectMeta: foundationMeta(b.Component, addon),
		Spec: workv1.ManifestWorkSpec{
			Workload:        workv1.ManifestsTemplate{Manifests: []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: role}}}},
			DeleteOption:    orphan(b.Foundation),
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

func foundationMeta(c api.Component, addon *addonv1beta1.ManagedClusterAddOn) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: FoundationName(c), Namespace: addon.Namespace, Labels: map[string]string{api.FoundationLabel: string(c)},
		OwnerReferences: ownedBy(addon),
	}
}

// Objects are the JSON of all objects of both works, in order: what a cluster gets, from whichever hub.
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

// orphan keeps objects on the cluster when the work goes: deleting a CRD deletes every user's Services.
func orphan(objects []render.Object) *workv1.DeleteOption {
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

// SameManifests tells whether two works carry the same objects in the same order.
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

// Applied tells whether the work agent has applied the work as it is now, and if not, what it says of it.
func Applied(work *workv1.ManifestWork) (applied bool, why string) {
	c := apimeta.FindStatusCondition(work.Status.Conditions, workv1.WorkApplied)
	if c == nil || c.ObservedGeneration != work.Generation {
		return false, "the work agent has not applied it yet"
	}
	if c.Status == metav1.ConditionTrue {
		return true, ""
	}
	for _, m := range work.Status.ResourceStatus.Manifests {
		a := apimeta.FindStatusCondition(m.Conditions, workv1.ManifestApplied)
		if a != nil && a.Status == metav1.ConditionFalse {
			return false, fmt.Sprintf("%s %q: %s", m.ResourceMeta.Kind, m.ResourceMeta.Name, a.Message)
		}
	}
	return false, c.Message
}
