// Copyright Contributors to the Open Cluster Management project

package resolve

import (
	"slices"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/message"
	"open-cluster-management.io/knative-addon/pkg/trust"
)

// inventoryPermits refuses a ClusterProfile that the administrator has not permitted to use an access provider: the author
// of the profile chooses the server that receives the credential. Without a file of access providers nothing is dialled,
// and directConfigured objects.
func inventoryPermits(in *Input) *objection {
	if !in.Direct.Configured {
		return nil
	}
	if !in.Direct.Inventories.Contains(in.Reference.Namespace) {
		return newInventoryObjection(in, trust.NoInventory(in.Reference.Namespace))
	}
	if usable := configuredProviders(in); len(usable) > 0 && selectProvider(in) == "" {
		return newInventoryObjection(in, trust.NoProvider(in.Reference.Namespace, message.QuotedList(usable)))
	}
	return nil
}

func newInventoryObjection(in *Input, no *trust.Refusal) *objection {
	return newObjection(api.ReasonReferenceNotPermitted, "ClusterProfile %s: %s; %s", in.Reference, no.What, no.Next)
}

// configuredProviders returns the access providers that the profile offers and the manager is configured for, in the order
// of the manager.
func configuredProviders(in *Input) []string {
	offered := offeredProviders(in.Profile)
	return slices.DeleteFunc(slices.Clone(in.Direct.Providers), func(name string) bool { return !slices.Contains(offered, name) })
}
