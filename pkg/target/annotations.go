// Copyright Contributors to the Open Cluster Management project

package target

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/revision"
)

// Annotations are the annotations of a resource that ask for more than an installation: the permitted annotations count, the
// refused annotations do not.
type Annotations struct {
	// Permitted are the values of the annotations that count, by name.
	Permitted map[string]string
	// Refused lists the annotations that do not count as name=value, sorted. Reason and Message say why; both are empty when
	// every annotation counts.
	Refused         []string
	Reason, Message string
}

// Annotations decides which annotations of a resource count. All annotations count in a namespace that the administrator
// trusts, except that an adoption and a deletion need a reference that leads to a cluster: after an administrator has removed
// a binding, a deletion must not happen that only the binding allowed.
func (f *Finder) Annotations(config *unstructured.Unstructured) (Annotations, error) {
	asked := escalatingAnnotations(config.GetAnnotations())
	out := Annotations{Permitted: asked}
	if len(asked) == 0 {
		return out, nil
	}
	if namespace := config.GetNamespace(); !f.Trust.Trusts(namespace) {
		out.refuseAll(slices.Collect(maps.Keys(asked)))
		out.Reason, out.Message = api.ReasonEscalationNotPermitted, fmt.Sprintf(
			"%s: not in namespace %q, which the hub's administrator does not trust. The cluster keeps its CRDs, its Namespace and the resources of users; remove the annotation, or let the administrator add the namespace to rendering.trustedNamespaces of the chart, or annotate the ManagedClusterAddOn if the cluster has one",
			strings.Join(out.Refused, ", "), namespace)
		return out, nil
	}
	if _, refers := ReferenceOf(config); !refers {
		return out, nil
	}
	result, err := f.Resolve(config)
	if err != nil || result.Target != nil {
		return out, err
	}
	out.refuseAll([]string{api.AdoptAnnotation, api.DeletionPolicyAnnotation})
	if len(out.Refused) > 0 {
		out.Reason, out.Message = api.ReasonTargetNotResolved, fmt.Sprintf(
			"%s: not as long as the target is not resolved (%s). The cluster keeps its CRDs, its Namespace and the resources of users",
			strings.Join(out.Refused, ", "), result.Reason)
	}
	return out, nil
}

// refuseAll moves annotations from Permitted to Refused.
func (a *Annotations) refuseAll(names []string) {
	for _, name := range names {
		if value, asked := a.Permitted[name]; asked {
			a.Refused = append(a.Refused, "annotation "+name+"="+value)
			delete(a.Permitted, name)
		}
	}
	slices.Sort(a.Refused)
}

// escalatingAnnotations returns the annotations that ask for more than an installation. An unknown value asks for nothing.
func escalatingAnnotations(annotations map[string]string) map[string]string {
	out := map[string]string{}
	for _, name := range []string{api.AdoptAnnotation, api.ForceOrphanAnnotation} {
		if annotations[name] == "true" {
			out[name] = "true"
		}
	}
	switch policy := annotations[api.DeletionPolicyAnnotation]; policy {
	case api.DeletionPolicyDelete, api.DeletionPolicyDeleteUserResources:
		out[api.DeletionPolicyAnnotation] = policy
	}
	return out
}

// Adopts reports whether the add-on takes over the installation of another installer: an administrator has annotated the
// ManagedClusterAddOn, or the annotation of the configuring resource counts.
func (f *Finder) Adopts(addOn *addonv1beta1.ManagedClusterAddOn) bool {
	if addOn.Annotations[api.AdoptAnnotation] == "true" {
		return true
	}
	config, err := f.getConfig(addOn)
	if err != nil || config == nil {
		return false
	}
	annotations, err := f.Annotations(config)
	return err == nil && annotations.Permitted[api.AdoptAnnotation] == "true"
}

// EntersNamespaces reports whether the add-on may be installed into a namespace of its cluster that existed before; the
// default namespace of the component needs no permission.
func (f *Finder) EntersNamespaces(addOn *addonv1beta1.ManagedClusterAddOn) bool {
	name, ok := revision.ConfigOf(addOn)
	return ok && f.Trust.Trusts(name.Namespace)
}

// Removal returns the value of an annotation of the add-on that decides how an installation is removed. A value that a
// resource has passed on counts only while the annotation of the resource counts: the administrator may have changed the
// trusted namespaces, or the binding, since.
func (f *Finder) Removal(addOn *addonv1beta1.ManagedClusterAddOn, name string) string {
	value := addOn.Annotations[name]
	if value == "" || !slices.Contains(strings.Split(addOn.Annotations[api.PassedOnAnnotation], ","), name) {
		return value
	}
	configured, ok := ConfiguredBy(addOn)
	if !ok {
		return ""
	}
	config, err := f.get(api.Component(addOn.Name), configured)
	if err != nil || config == nil {
		return ""
	}
	annotations, err := f.Annotations(config)
	if err != nil || annotations.Permitted[name] != value {
		return "" // the controller of the resource brings the value up to date
	}
	return value
}
