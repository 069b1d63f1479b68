// Copyright Contributors to the Open Cluster Management project

package resolve

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterinventoryv1alpha1 "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"

	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
)

func sightCases() map[string]testCase {
	return map[string]testCase{
		"no ManagedCluster": {
			reason:   "The profile outlived its cluster.",
			base:     pulled,
			changes:  []change{noCluster},
			want:     Result{Reason: api.ReasonManagedClusterNotFound},
			mentions: []string{`ManagedCluster "c1"`},
		},
		"another ManagedCluster": {
			reason:  "A mistake of the caller must not become another cluster.",
			base:    pulled,
			changes: []change{clusterNamed("prod")},
			want:    Result{Reason: api.ReasonManagedClusterNotFound},
		},
		"not accepted": {
			reason:   "The administrator has the last word, also about a cluster that is there.",
			base:     pulled,
			changes:  []change{func(in *Input) { in.Cluster.Spec.HubAcceptsClient = false }},
			want:     Result{Target: closedTarget(), Reason: api.ReasonManagedClusterNotAccepted},
			mentions: []string{"clusteradm accept --clusters c1"},
		},
		"accepted, and the hub had trouble writing it down": {
			reason:  "A fault of the hub is not a decision of its administrator.",
			base:    pulled,
			changes: []change{clusterSays(clusterv1.ManagedClusterConditionHubAccepted, metav1.ConditionFalse)},
			want:    Result{Target: workTarget()},
		},
		"being deleted": {
			reason:   "A cluster on its way out gets nothing new; what it has is not given up here.",
			base:     pulled,
			changes:  []change{func(in *Input) { in.Cluster.DeletionTimestamp = &metav1.Time{} }},
			want:     Result{Target: closedTarget(), Reason: api.ReasonManagedClusterUnavailable},
			mentions: []string{"is being deleted"},
		},
		"not joined": {
			reason:   "The cluster has never been there.",
			base:     pulled,
			changes:  []change{func(in *Input) { in.Cluster.Status.Conditions = nil }},
			want:     Result{Target: workTarget(), Reason: api.ReasonManagedClusterUnavailable},
			mentions: []string{"has not joined", "is missing"},
		},
		"unavailable": {
			reason:   "An unavailable cluster keeps its installation: the target is still known.",
			base:     pulled,
			changes:  []change{clusterSays(clusterv1.ManagedClusterConditionAvailable, metav1.ConditionUnknown)},
			want:     Result{Target: workTarget(), Reason: api.ReasonManagedClusterUnavailable},
			mentions: []string{"Unknown (Because)", "keeps its installation"},
		},
		"its API server does not answer": {
			reason:  "The agent is there, the cluster is not well.",
			base:    pulled,
			changes: []change{clusterSays(clusterv1.ManagedClusterConditionAvailable, metav1.ConditionFalse)},
			want:    Result{Target: workTarget(), Reason: api.ReasonManagedClusterUnavailable},
		},
		"unavailable with Direct delivery": {
			reason:  "The same identity, whatever the way.",
			base:    pulled,
			changes: []change{asksFor(api.DeliveryDirect), offers("gke"), configured("gke"), clusterSays(clusterv1.ManagedClusterConditionAvailable, metav1.ConditionUnknown)},
			want: Result{
				Target: &Target{Mode: api.ModeDirect, Profile: reference, ManagedCluster: "c1", Provider: "gke"},
				Reason: api.ReasonManagedClusterUnavailable,
			},
		},
		"a profile that is not healthy": {
			reason:   "OCM copies the health, or somebody else wrote it.",
			base:     pulled,
			changes:  []change{profileSays(metav1.ConditionFalse)},
			want:     Result{Target: workTarget(), Reason: api.ReasonClusterProfileNotReady},
			mentions: []string{"ControlPlaneHealthy is False (Because)"},
		},
	}
}

func directCases() map[string]testCase {
	return map[string]testCase{
		"direct: a profile without status": {
			reason:   "Its manager has not looked at the cluster yet.",
			base:     pushed,
			changes:  []change{func(in *Input) { in.Profile.Status = clusterinventoryv1alpha1.ClusterProfileStatus{} }},
			want:     Result{Target: directTarget(""), Reason: api.ReasonClusterProfileNotReady},
			mentions: []string{"is missing", `"gke-fleet"`},
		},
		"direct: an unknown health": {
			reason:  "Unknown is not True.",
			base:    pushed,
			changes: []change{profileSays(metav1.ConditionUnknown)},
			want:    Result{Target: directTarget("gke"), Reason: api.ReasonClusterProfileNotReady},
		},
		"direct: switched off": {
			reason:   "Health comes before, what the profile offers after.",
			base:     pushed,
			changes:  []change{func(in *Input) { in.Direct = DirectDelivery{} }},
			want:     Result{Target: directTarget(""), Reason: api.ReasonMulticlusterDisabled},
			mentions: []string{"--clusterprofile-provider-file", `"gke-fleet"`},
		},
		"direct: switched off, and OCM's profile asks for it": {
			reason:   "It does not fall back to the work agent: two ways would be two writers when the first comes back.",
			base:     pulled,
			changes:  []change{asksFor(api.DeliveryDirect), offers("gke")},
			want:     Result{Target: &Target{Mode: api.ModeDirect, Profile: reference, ManagedCluster: "c1"}, Reason: api.ReasonMulticlusterDisabled},
			mentions: []string{api.DeliveryAnnotation},
		},
		"direct: the profile offers nothing": {
			reason:   "Its manager does not say how to get there.",
			base:     pushed,
			changes:  []change{offers()},
			want:     Result{Target: directTarget(""), Reason: api.ReasonAccessProviderNotConfigured},
			mentions: []string{"status.accessProviders", `"gke-fleet"`},
		},
		"direct: OCM's profile asks for it and offers nothing": {
			reason:  "Cluster-proxy has not written its provider yet; it still does not fall back.",
			base:    pulled,
			changes: []change{asksFor(api.DeliveryDirect), configured("gke")},
			want:    Result{Target: &Target{Mode: api.ModeDirect, Profile: reference, ManagedCluster: "c1"}, Reason: api.ReasonAccessProviderNotConfigured},
		},
		"direct: the profile offers what is not configured": {
			reason:   "The message lists what would do, sorted.",
			base:     pushed,
			changes:  []change{offers("eks", "aks")},
			want:     Result{Target: directTarget(""), Reason: api.ReasonAccessProviderNotConfigured},
			mentions: []string{`"aks", "eks"`},
		},
		"direct: the file of providers is bad": {
			reason: "Who adds the provider to a file that nobody can read has to learn that.",
			base:   pushed,
			changes: []change{offers("eks"), func(in *Input) {
				in.Direct.Problem = `cannot use file "providers.json": it is empty`
			}},
			want:     Result{Target: directTarget(""), Reason: api.ReasonAccessProviderNotConfigured},
			mentions: []string{`"eks"`, "correct the file", "it is empty"},
		},
		"direct: the profile offers far too much": {
			reason: "Whoever writes a profile does not decide how long our conditions are, nor how many lines they have.",
			base:   pushed,
			changes: []change{func(in *Input) {
				in.Profile.Status.AccessProviders = nil
				for i := range 20 {
					name := fmt.Sprintf("%02d\n%s", i, strings.Repeat("é", 1000))
					in.Profile.Status.AccessProviders = append(in.Profile.Status.AccessProviders, clusterinventoryv1alpha1.AccessProvider{Name: name})
				}
			}},
			want:     Result{Target: directTarget(""), Reason: api.ReasonAccessProviderNotConfigured},
			mentions: []string{`...", "`, "and 10 more; add one of them"},
		},
		"direct: the profile offers much": {
			reason:   "A message names some and counts the rest.",
			base:     pushed,
			changes:  []change{offers("a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l")},
			want:     Result{Target: directTarget(""), Reason: api.ReasonAccessProviderNotConfigured},
			mentions: []string{`"j" and 2 more`},
		},
	}
}
