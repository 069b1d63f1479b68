// Copyright Contributors to the Open Cluster Management project

package addon

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"open-cluster-management.io/addon-framework/pkg/addonmanager/constants"
	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"
	"open-cluster-management.io/sdk-go/pkg/apis/work/v1/builder"

	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
)

// manifestsLimit is the limit of addon-framework on the manifests of one payload, in bytes: the framework divides larger payloads.
const manifestsLimit = 500 * 1024

// PayloadWorks returns the works that addon-framework builds from the objects of a payload when OCM wants the configurations for the
// add-on. existing are the payloads that the hub has; manifests that addon-framework cannot read are left out. The works have no executor.
func PayloadWorks(
	objects []runtime.Object, addon *addonv1beta1.ManagedClusterAddOn, configs map[string]string, existing []*workv1.ManifestWork,
) ([]*workv1.ManifestWork, error) {
	describe := func(index int) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Namespace: addon.Namespace, Name: newPayloadName(addon, index, existing),
			Labels: map[string]string{addonv1beta1.AddonLabelKey: addon.Name}, OwnerReferences: PayloadOwners(addon),
		}
	}
	present := make([]workv1.ManifestWork, 0, len(existing))
	for _, p := range existing {
		readable := *p
		readable.Spec.Workload.Manifests = slices.DeleteFunc(slices.Clone(p.Spec.Workload.Manifests), func(m workv1.Manifest) bool { return !manifestwork.IsReadable(m) })
		present = append(present, readable)
	}
	works, _, err := builder.NewWorkBuilder().WithManifestsLimit(manifestsLimit).Build(objects, describe,
		builder.ExistingManifestWorksOption(present),
		builder.ManifestConfigOption(manifestwork.PayloadConfigs()),
		builder.ManifestAnnotations(map[string]string{workv1.ManifestConfigSpecHashAnnotationKey: manifestwork.ConfigsText(configs)}))
	if err != nil {
		return nil, fmt.Errorf("cannot build the payload of add-on \"%s/%s\": %w", addon.Namespace, addon.Name, err)
	}
	return works, nil
}

// PayloadName returns the name that addon-framework gives to a payload of the add-on; index counts from 0.
func PayloadName(addon *addonv1beta1.ManagedClusterAddOn, index int) string {
	return fmt.Sprintf("%s-%d", constants.DeployWorkNamePrefix(addon.Name), index)
}

// HasNameGap reports whether a name of PayloadName before the last name is free, as after the deletion of one of several payloads. addon-framework
// numbers a new payload by the count of payloads, and overwrites the payload that has the name: the framework would replace the objects of two
// payloads in turn for ever.
func HasNameGap(addon *addonv1beta1.ManagedClusterAddOn, payloads []*workv1.ManifestWork) bool {
	return newPayloadName(addon, len(payloads), payloads) != PayloadName(addon, len(payloads))
}

// newPayloadName returns the name of a payload that OCM's builder would number with index: index is not less than the count of existing
// payloads. Each name before is free, or is a name of an existing payload.
func newPayloadName(addon *addonv1beta1.ManagedClusterAddOn, index int, existing []*workv1.ManifestWork) string {
	isFree := func(name string) bool {
		return !slices.ContainsFunc(existing, func(p *workv1.ManifestWork) bool { return p.Name == name })
	}
	left := index - len(existing)
	for i := 0; ; i++ {
		name := PayloadName(addon, i)
		if !isFree(name) {
			continue
		}
		if left <= 0 {
			return name
		}
		left--
	}
}

// PayloadOwners returns the owners that addon-framework gives to the payloads of the add-on.
func PayloadOwners(addon *addonv1beta1.ManagedClusterAddOn) []metav1.OwnerReference {
	return []metav1.OwnerReference{*metav1.NewControllerRef(addon, schema.GroupVersionKind{
		Group: addonv1beta1.GroupVersion.Group, Version: addonv1beta1.GroupVersion.Version, Kind: "ManagedClusterAddOn",
	})}
}
