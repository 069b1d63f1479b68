// Copyright Contributors to the Open Cluster Management project

package resolve

import (
	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/trust"
)

// inventoryCases are profiles whose authors choose where the add-on sends credentials.
func inventoryCases() map[string]testCase {
	return map[string]testCase{
		"inventory: a namespace that is not listed": {
			reason:   "The author of a profile chooses server and extensions, and the plugin reads the Secrets of others.",
			base:     pushed,
			changes:  []change{listedIn(inventory("platform", "gke"))},
			want:     Result{Reason: api.ReasonReferenceNotPermitted},
			mentions: []string{`namespace "team" is not an inventory`, "multicluster.inventories"},
		},
		"inventory: none": {
			reason:  "The default is no namespace.",
			base:    pushed,
			changes: []change{listedIn(trust.Inventories{})},
			want:    Result{Reason: api.ReasonReferenceNotPermitted},
		},
		"inventory: a profile of OCM that asks for Direct": {
			reason:  "The annotation and the access providers are as easily written as the rest.",
			base:    pulled,
			changes: []change{asksFor(api.DeliveryDirect), offers("gke"), configured("gke"), listedIn(inventory("platform", "gke"))},
			want:    Result{Reason: api.ReasonReferenceNotPermitted},
		},
		"inventory: a profile of OCM": {
			reason:  "Nothing is dialled for the work agent.",
			base:    pulled,
			changes: []change{listedIn(trust.Inventories{})},
			want:    Result{Target: workTarget()},
		},
		"inventory: a provider that is not listed": {
			reason:   "Another plugin may read other Secrets.",
			base:     pushed,
			changes:  []change{listedIn(inventory("team", "eks"))},
			want:     Result{Reason: api.ReasonReferenceNotPermitted},
			mentions: []string{`access provider "gke"`, "multicluster.inventories[].providers"},
		},
		"inventory: the first of the providers that are listed": {
			reason:  "The manager's order counts among those that the inventory permits.",
			base:    pushed,
			changes: []change{offers("eks", "gke"), configured("eks", "gke"), listedIn(inventory("team", "gke"))},
			want:    Result{Target: directTarget("gke")},
		},
		"inventory: direct delivery is off": {
			reason:  "Nothing is dialled, and upstream's reason tells more.",
			base:    pushed,
			changes: []change{func(in *Input) { in.Direct = DirectDelivery{} }, listedIn(trust.Inventories{})},
			want:    Result{Target: directTarget(""), Reason: api.ReasonMulticlusterDisabled},
		},
	}
}
