// Copyright Contributors to the Open Cluster Management project

package resolve

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	clusterinventoryv1alpha1 "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"

	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta2 "open-cluster-management.io/api/cluster/v1beta2"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// Mode is how objects come to a cluster.
type Mode string

const (
	// ManifestWork delivers through OCM's work agent on the cluster.
	ManifestWork Mode = "ManifestWork"
	// Direct delivers from the hub, through an access provider of the ClusterProfile.
	Direct Mode = "Direct"
)

// Input is everything that was gathered for one reference.
type Input struct {
	// Reference is spec.clusterProfileRef.
	Reference types.NamespacedName
	// Namespace is that of the KnativeServing or KnativeEventing.
	Namespace string
	// Policy says which profiles may be referred to from there.
	Policy ReferencePolicy

	// Profile is what the reference names, nil when there is none.
	Profile *clusterinventoryv1alpha1.ClusterProfile
	// ProfileError is why it could not be read.
	ProfileError error
	// Cluster is the ManagedCluster of ClaimedCluster, nil when there is none.
	Cluster *clusterv1.ManagedCluster
	// Bindings are the ManagedClusterSetBindings of the profile's namespace. Those of other namespaces prove nothing and
	// are passed over.
	Bindings []*clusterv1beta2.ManagedClusterSetBinding
	// Sets are the hub's ManagedClusterSets, at least those that are bound.
	Sets []*clusterv1beta2.ManagedClusterSet

	// Direct is what the manager is configured for.
	Direct DirectDelivery
}

// DirectDelivery is what the manager is configured for besides OCM's work agents.
type DirectDelivery struct {
	// Configured tells that there is a provider file.
	Configured bool
	// Providers are the names of its access providers. Of those that a profile offers the first one here is taken.
	Providers []string
	// Problem is what is wrong with the file now, and empty when nothing is. Providers are those from before then.
	Problem string
}

// Target is a cluster and how it is reached.
type Target struct {
	// Mode is how objects come there.
	Mode Mode
	// Profile is the ClusterProfile that led there. It is not the cluster's identity: several profiles may lead to one.
	Profile types.NamespacedName
	// ManagedCluster is the identity of a cluster that OCM manages, in both modes. It is empty for others: who they are
	// is known once they answer.
	ManagedCluster string
	// Provider is the access provider to use, in mode Direct; empty when none fits.
	Provider string
	// Closed tells that nothing new may be begun on the cluster: OCM has not accepted it, or it is being detached.
	Closed bool
}

// Result is where a reference leads, or why not.
type Result struct {
	// Target is the cluster, whenever it is known for certain and may be used; also when it is out of sight.
	Target *Target
	// Reason is why the target is not resolved, a constant of package api; empty when it is.
	Reason string
	// Message says what is wrong with which object, and what to do; empty when nothing is.
	Message string
}

// Resolved tells that the target is known, may be used and, as far as the hub can say, is there.
func (r Result) Resolved() bool { return r.Reason == "" }

// Resolve says where a reference leads.
func Resolve(in Input) Result {
	if no := firstObjection(identityRules(), &in); no != nil {
		return Result{Reason: no.reason, Message: no.message}
	}
	result := Result{Target: target(&in)}
	if no := firstObjection(sightRules(), &in); no != nil {
		result.Reason, result.Message = no.reason, no.message
	}
	return result
}

// ClaimedCluster is the name of the ManagedCluster that a profile says it is of; empty when it says so of none, or not
// the way OCM does. It is a claim: only Resolve tells whether it is true.
func ClaimedCluster(profile *clusterinventoryv1alpha1.ClusterProfile) string {
	if !publishedByOCM(profile) || profile.Labels[clusterv1.ClusterNameLabelKey] != profile.Name {
		return ""
	}
	return profile.Name
}

// publishedByOCM tells whether the profile says that it is OCM's.
func publishedByOCM(profile *clusterinventoryv1alpha1.ClusterProfile) bool {
	return profile.Spec.ClusterManager.Name == api.ClusterManagerOCM
}

// target is the cluster when no rule of identity objects.
func target(in *Input) *Target {
	t := &Target{Mode: mode(in), Profile: in.Reference, ManagedCluster: ClaimedCluster(in.Profile)}
	t.Closed = publishedByOCM(in.Profile) && closed(in)
	if t.Mode == Direct {
		t.Provider = provider(in)
	}
	return t
}

// mode is how the profile's cluster is reached. An OCM profile that asks for Direct gets nothing else, also when its
// access provider is missing for a while: two ways to one cluster would be two writers.
func mode(in *Input) Mode {
	if publishedByOCM(in.Profile) && in.Profile.Annotations[api.DeliveryAnnotation] != api.DeliveryDirect {
		return ManifestWork
	}
	return Direct
}

// provider is the first configured access provider that the profile offers; empty when there is none.
func provider(in *Input) string {
	offered := offeredProviders(in.Profile)
	i := slices.IndexFunc(in.Direct.Providers, func(name string) bool { return slices.Contains(offered, name) })
	if i < 0 {
		return ""
	}
	return in.Direct.Providers[i]
}

// offeredProviders are the access providers of a profile, also those in the field that is deprecated.
func offeredProviders(profile *clusterinventoryv1alpha1.ClusterProfile) []string {
	var names []string
	for _, p := range slices.Concat(profile.Status.AccessProviders, profile.Status.CredentialProviders) {
		names = append(names, p.Name)
	}
	return names
}

// rule is one thing that must be true. It objects, or returns nil.
type rule func(*Input) *objection

type objection struct{ reason, message string }

func object(reason, format string, args ...any) *objection {
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

// ofOCM holds a rule for profiles that OCM publishes.
func ofOCM(r rule) rule {
	return func(in *Input) *objection {
		if !publishedByOCM(in.Profile) {
			return nil
		}
		return r(in)
	}
}

// byDirect holds a rule for Direct delivery.
func byDirect(r rule) rule {
	return func(in *Input) *objection {
		if mode(in) != Direct {
			return nil
		}
		return r(in)
	}
}

const (
	// maxListed is how many names a message lists.
	maxListed = 10
	// maxName is how many bytes of a name a message repeats: all of a name that Kubernetes allows.
	maxName = 253
)

// list makes names readable: sorted, each once, quoted, not too many.
func list(names []string) string {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	var quoted []string
	for _, name := range names[:min(len(names), maxListed)] {
		quoted = append(quoted, quote(name))
	}
	out := strings.Join(quoted, ", ")
	if more := len(names) - len(quoted); more > 0 {
		out += fmt.Sprintf(" and %d more", more)
	}
	return out
}

// quote keeps a name on one line and short: whoever writes a profile does not decide how our messages look.
func quote(name string) string {
	if len(name) > maxName {
		name = strings.ToValidUTF8(name[:maxName], "") + "..."
	}
	return strconv.Quote(name)
}
