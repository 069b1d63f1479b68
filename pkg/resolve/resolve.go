// Copyright Contributors to the Open Cluster Management project

package resolve

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	clusterinventoryv1alpha1 "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"

	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta2 "open-cluster-management.io/api/cluster/v1beta2"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/trust"
)

// Input holds every fact about one reference.
type Input struct {
	// Reference is spec.clusterProfileRef.
	Reference types.NamespacedName
	// Namespace is that of the KnativeServing or KnativeEventing.
	Namespace string
	// Policy lists the namespaces whose ClusterProfiles may be referred to.
	Policy ReferencePolicy

	// Profile is the ClusterProfile of the reference; nil when none exists.
	Profile *clusterinventoryv1alpha1.ClusterProfile
	// ProfileError is the error of reading the ClusterProfile.
	ProfileError error
	// Cluster is the ManagedCluster of ClaimedCluster; nil when none exists.
	Cluster *clusterv1.ManagedCluster
	// Bindings are the ManagedClusterSetBindings of the profile's namespace. Bindings of other namespaces prove nothing and
	// are ignored.
	Bindings []*clusterv1beta2.ManagedClusterSetBinding
	// Sets are the ManagedClusterSets of the hub; at least the bound sets.
	Sets []*clusterv1beta2.ManagedClusterSet

	// Direct is the manager's configuration for Direct delivery.
	Direct DirectDelivery
}

// DirectDelivery is the manager's configuration for Direct delivery.
type DirectDelivery struct {
	// Configured reports whether the manager has a provider file.
	Configured bool
	// Providers are the names of the access providers in the order of the file. The first name that a profile offers
	// counts.
	Providers []string
	// Problem is the problem of the file now; empty without a problem. Providers are then the providers of the last good
	// content.
	Problem string
	// Inventories are the namespaces whose ClusterProfiles may be connected to, with the permitted access providers.
	Inventories trust.Inventories
}

// Target is a cluster and the way to reach the cluster.
type Target struct {
	// Mode is the way in which objects reach the cluster.
	Mode api.DeliveryMode
	// Profile is the ClusterProfile of the reference, which does not identify the cluster: several profiles may lead to one
	// cluster.
	Profile types.NamespacedName
	// ManagedCluster is the identity of a cluster that OCM manages, in both modes. The name is empty for other clusters,
	// which are identified once the manager connects.
	ManagedCluster string
	// Provider is the access provider to use, in mode Direct; empty when none fits.
	Provider string
	// Closed reports whether no new installation may begin: OCM has not accepted the cluster, or the cluster is being
	// detached.
	Closed bool
}

// Result is the target of a reference, or the reason for having none.
type Result struct {
	// Target is the cluster, whenever the cluster is known for certain and may be used; also when the cluster is
	// unavailable.
	Target *Target
	// Reason is a constant of package api that explains why the target is not resolved; empty when the target is resolved.
	Reason string
	// Message names the object, the problem and the next step; empty when the target is resolved.
	Message string
}

// Resolved reports whether the target is known, may be used and, as far as the hub knows, is available.
func (r Result) Resolved() bool { return r.Reason == "" }

// Resolve determines the target of a reference.
func Resolve(in Input) Result {
	if no := firstObjection(identityRules(), &in); no != nil {
		return Result{Reason: no.reason, Message: no.message}
	}
	result := Result{Target: buildTarget(&in)}
	if no := firstObjection(availabilityRules(), &in); no != nil {
		result.Reason, result.Message = no.reason, no.message
	}
	return result
}

// ClaimedCluster returns the name of the ManagedCluster that a profile claims; empty when the profile claims none, or not
// in the way of OCM. Only Resolve verifies the claim.
func ClaimedCluster(profile *clusterinventoryv1alpha1.ClusterProfile) string {
	if !publishedByOCM(profile) || profile.Labels[clusterv1.ClusterNameLabelKey] != profile.Name {
		return ""
	}
	return profile.Name
}

// publishedByOCM reports whether the profile claims OCM as the cluster manager.
func publishedByOCM(profile *clusterinventoryv1alpha1.ClusterProfile) bool {
	return profile.Spec.ClusterManager.Name == api.ClusterManagerOCM
}

// buildTarget returns the cluster when no identity rule objects.
func buildTarget(in *Input) *Target {
	t := &Target{Mode: deliveryMode(in), Profile: in.Reference, ManagedCluster: ClaimedCluster(in.Profile)}
	t.Closed = publishedByOCM(in.Profile) && isClosed(in)
	if t.Mode == api.ModeDirect {
		t.Provider = selectProvider(in)
	}
	return t
}

// deliveryMode returns the mode of the profile's cluster. An OCM profile that asks for Direct never falls back to
// ManifestWork, also when the access provider is missing for a while: two modes for one cluster would be two writers.
func deliveryMode(in *Input) api.DeliveryMode {
	if publishedByOCM(in.Profile) && in.Profile.Annotations[api.DeliveryAnnotation] != api.DeliveryDirect {
		return api.ModeManifestWork
	}
	return api.ModeDirect
}

// selectProvider returns the first configured access provider that the profile offers and the inventory permits; empty when
// none exists.
func selectProvider(in *Input) string {
	for _, name := range configuredProviders(in) {
		if in.Direct.Inventories.PermitsProvider(in.Reference.Namespace, name) {
			return name
		}
	}
	return ""
}

// offeredProviders returns the access providers of a profile, including the deprecated field.
func offeredProviders(profile *clusterinventoryv1alpha1.ClusterProfile) []string {
	var names []string
	for _, p := range slices.Concat(profile.Status.AccessProviders, profile.Status.CredentialProviders) {
		names = append(names, p.Name)
	}
	return names
}

// rule returns an objection, or nil when the rule holds.
type rule func(*Input) *objection

type objection struct{ reason, message string }

func newObjection(reason, format string, args ...any) *objection {
	return &objection{reason: reason, message: fmt.Sprintf(format, args...)}
}

func firstObjection(rules []rule, in *Input) *objection {
	for _, r := range rules {
		if no := r(in); no != nil {
			return no
		}
	}
	return nil
}

// forOCM restricts a rule to profiles that OCM publishes.
func forOCM(r rule) rule {
	return func(in *Input) *objection {
		if !publishedByOCM(in.Profile) {
			return nil
		}
		return r(in)
	}
}

// forDirect restricts a rule to Direct delivery.
func forDirect(r rule) rule {
	return func(in *Input) *objection {
		if deliveryMode(in) != api.ModeDirect {
			return nil
		}
		return r(in)
	}
}

// AnyNamespace stands for every namespace in a ReferencePolicy.
const AnyNamespace = "*"

// ReferencePolicy says which ClusterProfiles may be referred to from where. A resource may always refer to ClusterProfiles
// of its own namespace; the hub's administrator allows every other namespace, the add-on's included: a profile in the
// add-on's namespace leads to a cluster of a set that is bound for Placements, and not for every author of a resource.
type ReferencePolicy struct {
	// Allowed lists, by the namespace of the resource, further namespaces of ClusterProfiles. AnyNamespace may stand on
	// both sides.
	Allowed map[string][]string
}

// Permits reports whether a resource in namespace from may refer to a ClusterProfile in namespace to.
func (p ReferencePolicy) Permits(from, to string) bool {
	allowed := p.allowedNamespaces(from)
	return to != "" && (to == from || slices.Contains(allowed, to) || slices.Contains(allowed, AnyNamespace))
}

// allowedNamespaces returns the namespaces that the administrator lists for a resource in namespace from.
func (p ReferencePolicy) allowedNamespaces(from string) []string {
	return slices.Concat(p.Allowed[from], p.Allowed[AnyNamespace])
}

// permittedNamespaces returns all namespaces that a resource in namespace from may refer to.
func (p ReferencePolicy) permittedNamespaces(from string) []string {
	return slices.DeleteFunc(append([]string{from}, p.allowedNamespaces(from)...), func(namespace string) bool { return namespace == "" })
}
