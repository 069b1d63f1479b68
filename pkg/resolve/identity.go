// Copyright Contributors to the Open Cluster Management project

package resolve

import (
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta2 "open-cluster-management.io/api/cluster/v1beta2"
	clustersdkv1beta2 "open-cluster-management.io/sdk-go/pkg/apis/cluster/v1beta2"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/message"
	"open-cluster-management.io/knative-addon/pkg/trust"
)

// identityRules decide which cluster a resource may refer to. Permission comes first, so that an author never learns of
// objects that the author may not refer to; for the same reason a namespace without any bound set learns of no
// ManagedCluster.
func identityRules() []rule {
	return []rule{
		referencePermitted,
		profileServed,
		profileReadable,
		profileFound,
		forOCM(profileNamesCluster),
		forOCM(namespaceBound),
		forOCM(clusterFound),
		forOCM(clusterBound),
		forDirect(inventoryPermits),
	}
}

func referencePermitted(in *Input) *objection {
	if in.Policy.Permits(in.Namespace, in.Reference.Namespace) {
		return nil
	}
	return newObjection(api.ReasonReferenceNotPermitted,
		"resources in namespace %q may not refer to ClusterProfile %s, only to those in: %s; refer to one of these, or ask the hub's administrator to allow namespace %q",
		in.Namespace, in.Reference, message.QuotedList(in.Policy.permittedNamespaces(in.Namespace)), in.Reference.Namespace)
}

func profileServed(in *Input) *objection {
	if !apimeta.IsNoMatchError(in.ProfileError) {
		return nil
	}
	return newObjection(api.ReasonClusterProfileNotFound,
		"ClusterProfile %s does not exist, because the hub has no ClusterProfiles; enable OCM's feature gate ClusterProfile, or install the CustomResourceDefinition of the Cluster Inventory API",
		in.Reference)
}

func profileReadable(in *Input) *objection {
	if in.ProfileError == nil || apierrors.IsNotFound(in.ProfileError) {
		return nil
	}
	// The text of the error may change from one attempt to the next, unlike the class of the error.
	class := apierrors.ReasonForError(in.ProfileError)
	if class == "" {
		class = "no answer"
	}
	return newObjection(api.ReasonClusterProfileUnavailable,
		"ClusterProfile %s cannot be read from the hub (%s); check the hub's API server and the permissions of the add-on's manager",
		in.Reference, class)
}

func profileFound(in *Input) *objection {
	if in.Profile != nil && (types.NamespacedName{Namespace: in.Profile.Namespace, Name: in.Profile.Name}) == in.Reference {
		return nil
	}
	return newObjection(api.ReasonClusterProfileNotFound,
		"ClusterProfile %s does not exist; publish it (OCM does, for the clusters of each ManagedClusterSet that is bound to namespace %q), or recreate this resource with another spec.clusterProfileRef",
		in.Reference, in.Reference.Namespace)
}

func profileNamesCluster(in *Input) *objection {
	if ClaimedCluster(in.Profile) != "" {
		return nil
	}
	label, labelled := in.Profile.Labels[clusterv1.ClusterNameLabelKey]
	if !labelled {
		return newObjection(api.ReasonManagedClusterNotFound,
			"ClusterProfile %s names no ManagedCluster, because label %s is missing; refer to a profile as OCM publishes it",
			in.Reference, clusterv1.ClusterNameLabelKey)
	}
	return newObjection(api.ReasonManagedClusterNotFound,
		"ClusterProfile %s names no ManagedCluster, because label %s is %q and not its own name; refer to a profile as OCM publishes it",
		in.Reference, clusterv1.ClusterNameLabelKey, label)
}

func namespaceBound(in *Input) *objection {
	if len(boundSets(in)) > 0 {
		return nil
	}
	return newObjection(api.ReasonReferenceNotPermitted,
		"ClusterProfile %s gives no right to ManagedCluster %q, because no ManagedClusterSet is bound to namespace %q%s; ask the hub's administrator to bind one that contains the cluster",
		in.Reference, ClaimedCluster(in.Profile), in.Reference.Namespace, unboundNote(in))
}

func clusterFound(in *Input) *objection {
	name := ClaimedCluster(in.Profile)
	if in.Cluster != nil && in.Cluster.Name == name {
		return nil
	}
	return newObjection(api.ReasonManagedClusterNotFound,
		"ManagedCluster %q of ClusterProfile %s does not exist; register the cluster with the hub, or delete this resource",
		name, in.Reference)
}

func clusterBound(in *Input) *objection {
	bound := boundSets(in)
	contains := func(set *clusterv1beta2.ManagedClusterSet) bool {
		return slices.Contains(bound, set.Name) && isMember(set, in.Cluster)
	}
	if slices.ContainsFunc(in.Sets, contains) {
		return nil
	}
	return newObjection(api.ReasonReferenceNotPermitted,
		"ClusterProfile %s gives no right to ManagedCluster %q, because the cluster is in none of the ManagedClusterSets bound to namespace %q: %s%s; ask the hub's administrator to bind one that contains the cluster",
		in.Reference, in.Cluster.Name, in.Reference.Namespace, message.QuotedList(bound), unboundNote(in))
}

// isMember reports whether the cluster is a member of the set. A set with an unreadable selector has no members.
func isMember(set *clusterv1beta2.ManagedClusterSet, cluster *clusterv1.ManagedCluster) bool {
	selector, err := clustersdkv1beta2.BuildClusterSelector(set)
	return err == nil && selector != nil && selector.Matches(labels.Set(cluster.Labels))
}

// boundSets returns the names of the sets that are bound to the profile's namespace. OCM checks the right to bind a set
// when a binding is created, and keeps the set from changing later through the rule that a binding has the name of the set;
// a binding of another name has come past that check.
func boundSets(in *Input) []string {
	var sets []string
	for _, b := range in.Bindings {
		if b.Namespace == in.Profile.Namespace && b.Name == b.Spec.ClusterSet && isBound(b) {
			sets = append(sets, b.Spec.ClusterSet)
		}
	}
	return sets
}

func isBound(b *clusterv1beta2.ManagedClusterSetBinding) bool {
	return apimeta.IsStatusConditionTrue(b.Status.Conditions, clusterv1beta2.ClusterSetBindingBoundType)
}

// unboundNote names the bindings that would prove consent if the bindings were Bound.
func unboundNote(in *Input) string {
	var unbound []string
	for _, b := range in.Bindings {
		if b.Namespace == in.Profile.Namespace && !isBound(b) {
			unbound = append(unbound, b.Name)
		}
	}
	if len(unbound) == 0 {
		return ""
	}
	return " (ManagedClusterSetBindings not bound: " + message.QuotedList(unbound) + ")"
}

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
