// Copyright Contributors to the Open Cluster Management project

package resolve

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	clusterv1beta2 "open-cluster-management.io/api/cluster/v1beta2"

	"open-cluster-management.io/knative-addon/pkg/api"
)

func resolvedCases() map[string]testCase {
	return map[string]testCase{
		"a profile of OCM": {
			reason: "What OCM published for a cluster that is there leads to its work agent.",
			base:   pulled,
			want:   Result{Target: workTarget()},
		},
		"a profile of OCM that also has an access provider": {
			reason:  "Offering another way is not asking for it.",
			base:    pulled,
			changes: []change{offers("gke"), configured("gke")},
			want:    Result{Target: workTarget()},
		},
		"a profile of OCM that asks for an unknown delivery": {
			reason:  "Only Direct is anything else than OCM's own way.",
			base:    pulled,
			changes: []change{offers("gke"), configured("gke"), asksFor("direct")},
			want:    Result{Target: workTarget()},
		},
		"a profile of OCM that asks for Direct": {
			reason:  "The cluster keeps its identity, so that it is not installed twice.",
			base:    pulled,
			changes: []change{offers("gke"), configured("gke"), asksFor(api.DeliveryDirect)},
			want:    Result{Target: &Target{Mode: api.ModeDirect, Profile: reference, ManagedCluster: "c1", Provider: "gke"}},
		},
		"a profile of another manager": {
			reason: "OCM does not manage the cluster.",
			base:   pushed,
			want:   Result{Target: directTarget("gke")},
		},
		"several access providers": {
			reason:  "The first one of the configuration wins, as in the Cluster Inventory API.",
			base:    pushed,
			changes: []change{offers("gke", "secretreader", "eks"), configured("kubelogin", "eks", "gke")},
			want:    Result{Target: directTarget("eks")},
		},
		"an access provider in the deprecated field": {
			reason: "Profiles of older managers have their providers there.",
			base:   pushed,
			changes: []change{func(in *Input) {
				in.Profile.Status.CredentialProviders, in.Profile.Status.AccessProviders = in.Profile.Status.AccessProviders, nil
			}},
			want: Result{Target: directTarget("gke")},
		},
		"a profile in a namespace that the administrator opens to all": {
			reason: "Allowed for every namespace of resources.",
			base:   pushed,
			changes: []change{func(in *Input) {
				in.Namespace, in.Policy.Allowed = "other", map[string][]string{AnyNamespace: {reference.Namespace}}
			}},
			want: Result{Target: directTarget("gke")},
		},
		"a profile in a namespace that the administrator allows": {
			reason: "Allowed for this namespace of resources.",
			base:   pulled,
			changes: []change{func(in *Input) {
				in.Namespace, in.Policy.Allowed = "other", map[string][]string{"other": {reference.Namespace}}
			}},
			want: Result{Target: workTarget()},
		},
		"a set by labels": {
			reason:  "A set may select clusters by any label.",
			base:    pulled,
			changes: []change{setSelects(&metav1.LabelSelector{MatchLabels: map[string]string{"vendor": "kind"}})},
			want:    Result{Target: workTarget()},
		},
		"the global set": {
			reason:  "An empty selector contains every cluster.",
			base:    pulled,
			changes: []change{setSelects(&metav1.LabelSelector{})},
			want:    Result{Target: workTarget()},
		},
		"a set of the older, exclusive form": {
			reason:  "No selector type means the exclusive label.",
			base:    pulled,
			changes: []change{func(in *Input) { in.Sets[0].Spec.ClusterSelector.SelectorType = "" }},
			want:    Result{Target: workTarget()},
		},
		"one of several bound sets": {
			reason: "One set that contains the cluster is enough; one that nobody can read does not disturb it.",
			base:   pulled,
			changes: []change{func(in *Input) {
				in.Bindings = append([]*clusterv1beta2.ManagedClusterSetBinding{binding(reference.Namespace, "broken")}, in.Bindings...)
				in.Sets = append([]*clusterv1beta2.ManagedClusterSet{{
					ObjectMeta: metav1.ObjectMeta{Name: "broken"},
					Spec: clusterv1beta2.ManagedClusterSetSpec{ClusterSelector: clusterv1beta2.ManagedClusterSelector{
						SelectorType: clusterv1beta2.LabelSelector, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "-"}},
					}},
				}}, in.Sets...)
			}},
			want: Result{Target: workTarget()},
		},
	}
}

func referenceCases() map[string]testCase {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "clusterprofiles"}, "c1", errors.New("token=canary"))
	return map[string]testCase{
		"another namespace": {
			reason:   "A resource may not refer to any profile that it can name.",
			base:     pulled,
			changes:  []change{fromElsewhere},
			want:     Result{Reason: api.ReasonReferenceNotPermitted},
			mentions: []string{`"other"`, "only to those in"},
		},
		"another namespace, where nothing is": {
			reason:   "Permission comes first: who may not refer to a profile does not learn whether it is there.",
			base:     pulled,
			changes:  []change{fromElsewhere, noProfile},
			want:     Result{Reason: api.ReasonReferenceNotPermitted},
			mentions: []string{`"other"`},
		},
		"a namespace that is allowed to others only": {
			reason: "What the administrator allows one namespace is not allowed to all.",
			base:   pulled,
			changes: []change{fromElsewhere, func(in *Input) {
				in.Policy.Allowed = map[string][]string{"third": {reference.Namespace}, "other": {"third"}}
			}},
			want:     Result{Reason: api.ReasonReferenceNotPermitted},
			mentions: []string{`"third"`},
		},
		"no profile": {
			reason:   "As the Knative Operator says it.",
			base:     pulled,
			changes:  []change{noProfile},
			want:     Result{Reason: api.ReasonClusterProfileNotFound},
			mentions: []string{"spec.clusterProfileRef"},
		},
		"a profile that the hub says is not there": {
			reason: "The answer 404 is an answer.",
			base:   pulled,
			changes: []change{noProfile, func(in *Input) {
				in.ProfileError = apierrors.NewNotFound(schema.GroupResource{Resource: "clusterprofiles"}, "c1")
			}},
			want: Result{Reason: api.ReasonClusterProfileNotFound},
		},
		"a hub without ClusterProfiles": {
			reason: "The Knative Operator says NotFound as well.",
			base:   pulled,
			changes: []change{noProfile, func(in *Input) {
				in.ProfileError = fmt.Errorf("cannot get: %w", &apimeta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "ClusterProfile"}})
			}},
			want:     Result{Reason: api.ReasonClusterProfileNotFound},
			mentions: []string{"feature gate ClusterProfile"},
		},
		"a profile other than the one referred to": {
			reason:  "A mistake of the caller must not become a way around the policy.",
			base:    pulled,
			changes: []change{func(in *Input) { in.Reference.Name = "c2" }},
			want:    Result{Reason: api.ReasonClusterProfileNotFound},
		},
		"a profile that may not be read": {
			reason:   "The class of the error is enough, its text is not ours.",
			base:     pulled,
			changes:  []change{noProfile, func(in *Input) { in.ProfileError = forbidden }},
			want:     Result{Reason: api.ReasonClusterProfileUnavailable},
			mentions: []string{"(Forbidden)"},
		},
		"a hub that does not answer": {
			reason:   "An error without class is none of the hub's.",
			base:     pulled,
			changes:  []change{noProfile, func(in *Input) { in.ProfileError = errors.New("dial tcp 10.0.0.1:6443: i/o timeout") }},
			want:     Result{Reason: api.ReasonClusterProfileUnavailable},
			mentions: []string{"(no answer)"},
		},
	}
}
