// Copyright Contributors to the Open Cluster Management project

package resolve

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterinventoryv1alpha1 "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"

	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta2 "open-cluster-management.io/api/cluster/v1beta2"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// forgedCases are profiles that OCM did not publish. None maps to a ManagedCluster.
func forgedCases() map[string]testCase {
	return map[string]testCase{
		"forged: everything right in a namespace without any binding": {
			reason:   "Labels, names and status prove nothing.",
			base:     pulled,
			changes:  []change{func(in *Input) { in.Bindings = nil }},
			want:     Result{Reason: api.ReasonReferenceNotPermitted},
			mentions: []string{`"c1"`, "no ManagedClusterSet is bound"},
		},
		"forged: everything right, and the binding in another namespace": {
			reason:  "Consent is given to a namespace.",
			base:    pulled,
			changes: []change{func(in *Input) { in.Bindings[0].Namespace = "other" }},
			want:    Result{Reason: api.ReasonReferenceNotPermitted},
		},
		"forged: everything right, and the namespace has another set": {
			reason:   "A tenant with one set does not get the clusters of another.",
			base:     pulled,
			changes:  []change{func(in *Input) { in.Cluster.Labels[clusterv1beta2.ClusterSetLabel] = "prod" }},
			want:     Result{Reason: api.ReasonReferenceNotPermitted},
			mentions: []string{`ManagedCluster "c1"`, `"dev"`},
		},
		"forged: no binding, and no such cluster": {
			reason:  "Without any set a tenant does not learn which ManagedClusters exist.",
			base:    pulled,
			changes: []change{func(in *Input) { in.Bindings = nil }, noCluster},
			want:    Result{Reason: api.ReasonReferenceNotPermitted},
		},
		"forged: the label names another cluster than the name": {
			reason:   "OCM gives a profile the name of its cluster.",
			base:     pulled,
			changes:  []change{labelled("prod"), clusterNamed("prod")},
			want:     Result{Reason: api.ReasonManagedClusterNotFound},
			mentions: []string{`"prod"`, clusterv1.ClusterNameLabelKey},
		},
		"forged: no label": {
			reason:   "OCM labels what it publishes; a name alone is a coincidence.",
			base:     pulled,
			changes:  []change{func(in *Input) { delete(in.Profile.Labels, clusterv1.ClusterNameLabelKey) }},
			want:     Result{Reason: api.ReasonManagedClusterNotFound},
			mentions: []string{clusterv1.ClusterNameLabelKey},
		},
		"forged: an empty label": {
			reason:  "An empty label is none.",
			base:    pulled,
			changes: []change{labelled("")},
			want:    Result{Reason: api.ReasonManagedClusterNotFound},
		},
		"forged: right name, labels and binding, another manager": {
			reason:  "The immutable spec says whose profile it is. It is reached directly, or not at all.",
			base:    pulled,
			changes: []change{managedBy("gke-fleet")},
			want:    Result{Target: directTarget(""), Reason: api.ReasonMulticlusterDisabled},
		},
		"forged: another manager with an access provider": {
			reason:  "Also when it resolves it does not become the ManagedCluster of that name.",
			base:    pulled,
			changes: []change{managedBy("gke-fleet"), offers("gke"), configured("gke")},
			want:    Result{Target: directTarget("gke")},
		},
		"forged: no manager": {
			reason:  "No manager is not OCM.",
			base:    pulled,
			changes: []change{managedBy(""), offers("gke"), configured("gke")},
			want:    Result{Target: directTarget("gke")},
		},
		"forged: Direct delivery of another's cluster": {
			reason:  "Asking for Direct does not go around consent: the profile would choose which server gets the credential.",
			base:    pulled,
			changes: []change{asksFor(api.DeliveryDirect), offers("gke"), configured("gke"), func(in *Input) { in.Bindings = nil }},
			want:    Result{Reason: api.ReasonReferenceNotPermitted},
		},
		"forged: status written by hand without consent": {
			reason: "A healthy status does not make a profile true.",
			base:   pulled,
			changes: []change{func(in *Input) { in.Bindings = nil }, profileSays(metav1.ConditionTrue), func(in *Input) {
				in.Profile.Status.Properties = []clusterinventoryv1alpha1.Property{{Name: "id.k8s.io", Value: "c1"}}
			}},
			want: Result{Reason: api.ReasonReferenceNotPermitted},
		},
		"forged: status written by hand over an absent cluster": {
			reason:  "What OCM knows of the cluster comes before what the profile says.",
			base:    pulled,
			changes: []change{profileSays(metav1.ConditionTrue), clusterSays(clusterv1.ManagedClusterConditionAvailable, metav1.ConditionUnknown)},
			want:    Result{Target: workTarget(), Reason: api.ReasonManagedClusterUnavailable},
		},
	}
}

func consentCases() map[string]testCase {
	return map[string]testCase{
		"a binding that is not Bound": {
			reason:   "OCM binds when the set exists.",
			base:     pulled,
			changes:  []change{bound(metav1.ConditionFalse)},
			want:     Result{Reason: api.ReasonReferenceNotPermitted},
			mentions: []string{`not bound: "dev"`},
		},
		"a binding without status": {
			reason:  "OCM has not looked at it yet.",
			base:    pulled,
			changes: []change{func(in *Input) { in.Bindings[0].Status = clusterv1beta2.ManagedClusterSetBindingStatus{} }},
			want:    Result{Reason: api.ReasonReferenceNotPermitted},
		},
		"a binding of another name than its set": {
			reason:  "OCM's admission allows none; such a binding has come past it.",
			base:    pulled,
			changes: []change{func(in *Input) { in.Bindings[0].Name = "mine" }},
			want:    Result{Reason: api.ReasonReferenceNotPermitted},
		},
		"another binding is not Bound": {
			reason: "The message also names what could help.",
			base:   pulled,
			changes: []change{func(in *Input) {
				in.Cluster.Labels[clusterv1beta2.ClusterSetLabel] = "prod"
				prod := binding(reference.Namespace, "prod")
				prod.Status.Conditions[0].Status = metav1.ConditionFalse
				in.Bindings = append(in.Bindings, prod)
			}},
			want:     Result{Reason: api.ReasonReferenceNotPermitted},
			mentions: []string{`: "dev"`, `not bound: "prod"`},
		},
		"a set by labels that does not contain the cluster": {
			reason:  "The selector decides, not the exclusive label.",
			base:    pulled,
			changes: []change{setSelects(&metav1.LabelSelector{MatchLabels: map[string]string{"vendor": "openshift"}})},
			want:    Result{Reason: api.ReasonReferenceNotPermitted},
		},
		"a set by labels without selector": {
			reason:  "No selector selects nothing.",
			base:    pulled,
			changes: []change{setSelects(nil)},
			want:    Result{Reason: api.ReasonReferenceNotPermitted},
		},
		"a set whose selector cannot be read": {
			reason:  "What nobody can read contains nothing.",
			base:    pulled,
			changes: []change{setSelects(&metav1.LabelSelector{MatchLabels: map[string]string{"a": "-"}})},
			want:    Result{Reason: api.ReasonReferenceNotPermitted},
		},
		"a set of an unknown form": {
			reason:  "A newer OCM may have forms that we do not know.",
			base:    pulled,
			changes: []change{func(in *Input) { in.Sets[0].Spec.ClusterSelector.SelectorType = "Everything" }},
			want:    Result{Reason: api.ReasonReferenceNotPermitted},
		},
		"an exclusive set with an empty selector": {
			reason: "The selector counts for sets by labels only.",
			base:   pulled,
			changes: []change{setSelects(&metav1.LabelSelector{}), func(in *Input) {
				in.Sets[0].Spec.ClusterSelector.SelectorType = clusterv1beta2.ExclusiveClusterSetLabel
				in.Cluster.Labels = nil
			}},
			want: Result{Reason: api.ReasonReferenceNotPermitted},
		},
		"a set that contains the cluster and is not bound": {
			reason: "Being in a set is not enough.",
			base:   pulled,
			changes: []change{func(in *Input) {
				in.Cluster.Labels[clusterv1beta2.ClusterSetLabel] = "prod"
				in.Sets = append(in.Sets, set("prod"))
			}},
			want: Result{Reason: api.ReasonReferenceNotPermitted},
		},
		"a bound set that is gone": {
			reason:  "The condition of a binding may be old.",
			base:    pulled,
			changes: []change{func(in *Input) { in.Sets = nil }},
			want:    Result{Reason: api.ReasonReferenceNotPermitted},
		},
	}
}
