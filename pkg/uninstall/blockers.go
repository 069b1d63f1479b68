// Copyright Contributors to the Open Cluster Management project

package uninstall

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/dynamic"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	addonclient "open-cluster-management.io/api/client/addon/clientset/versioned"

	"open-cluster-management.io/knative-addon/pkg/api"
	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
)

// ListBlockers returns descriptions of the ManagedClusterAddOns of this add-on, and of the KnativeServings, KnativeEventings and
// KnativeFleets with a finalizer of this add-on: the deletion of each needs a running manager.
func ListBlockers(ctx context.Context, addOns addonclient.Interface, configs dynamic.Interface) ([]string, error) {
	var out []string
	list, err := listAddOns(ctx, addOns)
	if err != nil {
		return nil, err
	}
	for i := range list {
		out = append(out, describeObject("ManagedClusterAddOn", &list[i]))
	}
	held, err := listHeldConfigs(ctx, configs)
	for _, h := range held {
		out = append(out, describeObject(h.component.Kind(), h.config))
	}
	if err != nil {
		return out, err
	}
	fleets, err := listHeldFleets(ctx, configs)
	for i := range fleets {
		out = append(out, describeObject("KnativeFleet", &fleets[i]))
	}
	return out, err
}

// listAddOns returns the ManagedClusterAddOns with a name of this add-on; none when the hub does not serve the kind.
func listAddOns(ctx context.Context, client addonclient.Interface) ([]addonv1beta1.ManagedClusterAddOn, error) {
	var out []addonv1beta1.ManagedClusterAddOn
	for _, c := range api.Components() {
		// A large hub has tens of thousands of other add-ons.
		selector := fields.OneTermEqualSelector(metav1.ObjectNameField, c.AddOnName()).String()
		list, err := client.AddonV1beta1().ManagedClusterAddOns(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: selector})
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("cannot list ManagedClusterAddOns: %w", err)
		}
		for i := range list.Items {
			if list.Items[i].Name == c.AddOnName() {
				out = append(out, list.Items[i])
			}
		}
	}
	return out, nil
}

// heldConfig is a KnativeServing or KnativeEventing with a finalizer of this add-on.
type heldConfig struct {
	component api.Component
	config    *unstructured.Unstructured
}

// listHeldConfigs returns the resources with a finalizer of this add-on, of the kinds that the hub serves.
func listHeldConfigs(ctx context.Context, client dynamic.Interface) ([]heldConfig, error) {
	var out []heldConfig
	for _, c := range api.Components() {
		list, err := client.Resource(c.Resource()).List(ctx, metav1.ListOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("cannot list %ss: %w", c.Kind(), err)
		}
		for i := range list.Items {
			if slices.ContainsFunc(list.Items[i].GetFinalizers(), isOurs) {
				out = append(out, heldConfig{c, &list.Items[i]})
			}
		}
	}
	return out, nil
}

// listHeldFleets returns the KnativeFleets with a finalizer of this add-on; none when the hub does not serve the kind.
func listHeldFleets(ctx context.Context, client dynamic.Interface) ([]unstructured.Unstructured, error) {
	list, err := client.Resource(fleetv1alpha1.Resource()).List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot list KnativeFleets: %w", err)
	}
	return slices.DeleteFunc(list.Items, func(f unstructured.Unstructured) bool { return !slices.ContainsFunc(f.GetFinalizers(), isOurs) }), nil
}

// isOurs reports whether the finalizer belongs to this add-on.
func isOurs(finalizer string) bool {
	return slices.Contains([]string{api.FoundationFinalizer, api.InstallFinalizer, api.DirectFinalizer, api.FleetFinalizer}, finalizer)
}

// describeObject returns the kind and the name of an object, and whether the object is being deleted.
func describeObject(kind string, o metav1.Object) string {
	out := fmt.Sprintf("%s %s/%s", kind, o.GetNamespace(), o.GetName())
	if o.GetDeletionTimestamp() != nil {
		out += " (being deleted)"
	}
	return out
}
