// Copyright Contributors to the Open Cluster Management project

package hub

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	addonclient "open-cluster-management.io/api/client/addon/clientset/versioned"
	addonv1beta1client "open-cluster-management.io/api/client/addon/clientset/versioned/typed/addon/v1beta1"
)

// rememberingAddOnClient is a client whose changes of ManagedClusterAddOns are remembered: the client sends no change of a version that this
// manager has replaced.
type rememberingAddOnClient struct {
	addonclient.Interface

	writes lastWrites
}

// AddonV1beta1 implements addonclient.Interface.
func (c *rememberingAddOnClient) AddonV1beta1() addonv1beta1client.AddonV1beta1Interface {
	return &rememberingAddOnGroup{c.Interface.AddonV1beta1(), c.writes}
}

type rememberingAddOnGroup struct {
	addonv1beta1client.AddonV1beta1Interface

	writes lastWrites
}

// ManagedClusterAddOns implements addonv1beta1client.AddonV1beta1Interface.
func (g *rememberingAddOnGroup) ManagedClusterAddOns(namespace string) addonv1beta1client.ManagedClusterAddOnInterface {
	return &rememberingAddOns{g.AddonV1beta1Interface.ManagedClusterAddOns(namespace), namespace, g.writes}
}

type rememberingAddOns struct {
	addonv1beta1client.ManagedClusterAddOnInterface

	namespace string
	writes    lastWrites
}

// Update implements addonv1beta1client.ManagedClusterAddOnInterface.
func (r *rememberingAddOns) Update(
	ctx context.Context, addOn *addonv1beta1.ManagedClusterAddOn, options metav1.UpdateOptions,
) (*addonv1beta1.ManagedClusterAddOn, error) {
	return sendUnlessStale(r.writes, r.key(addOn.Name), addOn.ResourceVersion, func() (*addonv1beta1.ManagedClusterAddOn, error) {
		return r.ManagedClusterAddOnInterface.Update(ctx, addOn, options)
	})
}

// Patch implements addonv1beta1client.ManagedClusterAddOnInterface.
func (r *rememberingAddOns) Patch( //nolint:revive // the interface has as many arguments
	ctx context.Context, name string, kind types.PatchType, data []byte, options metav1.PatchOptions, subresources ...string,
) (*addonv1beta1.ManagedClusterAddOn, error) {
	return sendUnlessStale(r.writes, r.key(name), versionOfPatch(data), func() (*addonv1beta1.ManagedClusterAddOn, error) {
		return r.ManagedClusterAddOnInterface.Patch(ctx, name, kind, data, options, subresources...)
	})
}

func (r *rememberingAddOns) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: r.namespace, Name: name}
}
