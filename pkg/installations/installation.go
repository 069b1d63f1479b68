// Copyright Contributors to the Open Cluster Management project

package installations

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
)

const (
	// ReasonNotReported is the reason of an installation about which no controller has reported yet.
	ReasonNotReported = "NotReported"
	// ModeUnknown stands for the delivery mode of a resource that was not delivered yet.
	ModeUnknown api.DeliveryMode = "Unknown"
	// hubCluster stands for the hub in Installation.Cluster.
	hubCluster = "hub"
)

// Installation is a component on a cluster.
type Installation struct {
	// Cluster is the name of the ManagedCluster, namespace/name of the ClusterProfile without a work agent, or hub.
	Cluster   string           `json:"cluster"`
	Component api.Component    `json:"component"`
	Mode      api.DeliveryMode `json:"mode"`
	// Version is the version that runs on the cluster, and NextVersion the version that the cluster is being changed to.
	Version     string `json:"version,omitempty"`
	NextVersion string `json:"nextVersion,omitempty"`
	// Revision is the hash of the spec that the cluster has completed, and NextRevision the hash of another spec that the cluster
	// is to have.
	Revision     string `json:"revision,omitempty"`
	NextRevision string `json:"nextRevision,omitempty"`
	// PendingChange describes a change that has not reached the cluster yet: the revision of a KnativeFleet, a rollback, or a change of an
	// AddOnDeploymentConfig.
	PendingChange string `json:"pendingChange,omitempty"`
	// isChangeRefused reports that the manager does not make the pending change unless a user acts.
	isChangeRefused bool
	// Ready, Reason, Message and Since are those of the condition that decides.
	Ready   metav1.ConditionStatus `json:"ready"`
	Reason  string                 `json:"reason"`
	Message string                 `json:"message,omitempty"`
	Since   *metav1.Time           `json:"since,omitempty"`
	Paused  bool                   `json:"paused,omitempty"`
	// Deleting reports whether the resource or the ManagedClusterAddOn is being deleted.
	Deleting bool `json:"deleting,omitempty"`
	// Object is the resource of the installation, or the ManagedClusterAddOn of an installation with a fleet configuration.
	Object Object `json:"object"`
	// Fleet is the name of the KnativeFleet that owns the resource, in the namespace of the resource.
	Fleet string `json:"fleet,omitempty"`
	// ClusterProfile is namespace/name of the reference of the resource.
	ClusterProfile string `json:"clusterProfile,omitempty"`
}

// IsCurrent reports whether no other revision, and no pending change, is to come.
func (i *Installation) IsCurrent() bool { return i.NextRevision == "" && i.PendingChange == "" }

// Object names an object of the hub.
type Object struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

func (o Object) String() string {
	if o.Namespace == "" {
		return o.Kind + " " + o.Name
	}
	return o.Kind + " " + o.Namespace + "/" + o.Name
}

// compareInstallations orders by cluster, component and object.
func compareInstallations(a, b Installation) int {
	return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Component, b.Component), cmp.Compare(a.Object.String(), b.Object.String()))
}

// id identifies an installation over time.
func (i *Installation) id() string {
	return string(i.Component) + " " + i.Cluster + " " + i.Object.String()
}

// describeOwner returns the object and the KnativeFleet that writes the spec of the object.
func (i *Installation) describeOwner() string {
	if i.Fleet == "" {
		return i.Object.String()
	}
	return i.Object.String() + " of KnativeFleet " + i.Fleet
}

// describeProblem returns reason and message of an installation that is not ready, or the wait for a revision.
func (i *Installation) describeProblem() string {
	out := i.Reason
	if i.Message != "" {
		out += ": " + i.Message
	}
	switch isReady := i.Ready == metav1.ConditionTrue; {
	case isReady && i.PendingChange != "":
		out = i.PendingChange
	case isReady && i.NextRevision != "":
		out = "the cluster runs revision " + cmp.Or(shortHash(i.Revision), "-") + ", and revision " + shortHash(i.NextRevision) + " is to follow"
	case i.PendingChange != "":
		out += "; " + i.PendingChange
	}
	if i.Paused {
		out += "; paused"
	}
	return out
}

// shortHash returns the digits of a spec hash that suffice for annotation rollback-to.
func shortHash(hash string) string { return hash[:min(len(hash), shortHashDigits)] }

// shortHashDigits is the least number of digits of a hash that the manager accepts for a rollback.
const shortHashDigits = 8
