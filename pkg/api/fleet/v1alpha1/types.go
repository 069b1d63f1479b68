// Copyright Contributors to the Open Cluster Management project

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"
)

const (
	// Group and Version are the API group and the version of KnativeFleet.
	Group, Version = "knative.open-cluster-management.io", "v1alpha1"
	// Kind is the kind of a KnativeFleet.
	Kind = "KnativeFleet"
)

// Resource returns the resource of KnativeFleets.
func Resource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: Group, Version: Version, Resource: "knativefleets"}
}

// KnativeFleet installs Knative Serving, Knative Eventing or both on the clusters of selected ClusterProfiles of its namespace. Each
// selected cluster gets a KnativeServing or KnativeEventing with the name of the ClusterProfile.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=knativefleets,singular=knativefleet,categories=knative
// +kubebuilder:printcolumn:name="Clusters",type=integer,JSONPath=`.status.rollout.total`
// +kubebuilder:printcolumn:name="Updated",type=integer,JSONPath=`.status.rollout.updated`
// +kubebuilder:printcolumn:name="Ready Clusters",type=integer,JSONPath=`.status.rollout.ready`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="the name may have 63 characters, because the name is a label of each child"
type KnativeFleet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec KnativeFleetSpec `json:"spec"`
	// +optional
	Status KnativeFleetStatus `json:"status,omitempty"`
}

// KnativeFleetSpec selects clusters, and says what is installed on these clusters and in which order.
//
// +kubebuilder:validation:XValidation:rule="[has(self.placementRef), has(self.decisionKey), has(self.selector)].filter(x, x).size() == 1",message="set exactly one of placementRef, decisionKey and selector"
// +kubebuilder:validation:XValidation:rule="has(self.serving) || has(self.eventing)",message="set serving, eventing or both"
type KnativeFleetSpec struct {
	// PlacementRef selects the clusters that a Placement of Open Cluster Management has decided on. The Placement is in the namespace
	// of the KnativeFleet, and each cluster needs a ClusterProfile of the same name in this namespace.
	// +optional
	PlacementRef *PlacementReference `json:"placementRef,omitempty"`
	// DecisionKey selects the ClusterProfiles of the PlacementDecisions (multicluster.x-k8s.io) of the namespace that have this value
	// of label multicluster.x-k8s.io/decision-key. Any scheduler may write these PlacementDecisions.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +optional
	DecisionKey string `json:"decisionKey,omitempty"`
	// Selector selects the ClusterProfiles of the namespace by labels. An empty selector selects all of them.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// Serving is the template of the KnativeServing of each selected cluster.
	// +optional
	Serving *Template `json:"serving,omitempty"`
	// Eventing is the template of the KnativeEventing of each selected cluster.
	// +optional
	Eventing *Template `json:"eventing,omitempty"`

	// RolloutStrategy is Open Cluster Management's strategy in which the clusters get a change: All (the default), Progressive or
	// ProgressivePerGroup.
	// +kubebuilder:default={type: All}
	// +optional
	RolloutStrategy clusterv1alpha1.RolloutStrategy `json:"rolloutStrategy,omitempty"`
	// GroupByLabel is the key of a label of ClusterProfiles. The clusters with one value are a decision group with the value as the
	// name, in the order of the values. Without GroupByLabel, a group is a decision group of the Placement, or one PlacementDecision of
	// the decisionKey.
	// +kubebuilder:validation:MaxLength=317
	// +optional
	GroupByLabel string `json:"groupByLabel,omitempty"`

	// MaxRemoval is the number, or the percentage, of the children that may be deleted within an hour because their clusters are no
	// longer selected. A percentage above 0 permits at least one. More removals wait for annotation
	// knative.open-cluster-management.io/removal: Confirm on the KnativeFleet.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern="^((100|[0-9]{1,2})%|[0-9]+)$"
	// +kubebuilder:validation:XValidation:rule="type(self) == string || self >= 0 && self <= 2147483647 && self == int(self)",message="a number has to be an integer from 0 to 2147483647"
	// +kubebuilder:default="10%"
	// +optional
	MaxRemoval *intstr.IntOrString `json:"maxRemoval,omitempty"`
	// DeletionPolicy decides on the children when the KnativeFleet is deleted: Remove deletes the children, Orphan keeps the children and
	// their installations.
	// +kubebuilder:validation:Enum=Remove;Orphan
	// +kubebuilder:default=Remove
	// +optional
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
}

// PlacementReference names a Placement in the namespace of the KnativeFleet.
type PlacementReference struct {
	// Name is the name of the Placement.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// Template is the content of a KnativeServing or KnativeEventing.
type Template struct {
	// Metadata holds labels and annotations of each child.
	// +optional
	Metadata TemplateMetadata `json:"metadata,omitempty"`
	// Spec is the spec of each child, without clusterProfileRef. The schema is the schema of the spec of KnativeServing or
	// KnativeEventing; the API server checks the spec when the first child is written.
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Spec runtime.RawExtension `json:"spec,omitempty"`
}

// TemplateMetadata holds labels and annotations of each child.
type TemplateMetadata struct {
	// +kubebuilder:validation:MaxProperties=64
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// +kubebuilder:validation:MaxProperties=64
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// DeletionPolicy decides on the children of a deleted KnativeFleet.
type DeletionPolicy string

const (
	// DeletionPolicyRemove deletes the children.
	DeletionPolicyRemove DeletionPolicy = "Remove"
	// DeletionPolicyOrphan keeps the children.
	DeletionPolicyOrphan DeletionPolicy = "Orphan"
)

// KnativeFleetStatus is the state of a KnativeFleet, bounded for any number of clusters.
type KnativeFleetStatus struct {
	// Conditions are Ready, RolledOut and TargetClusterResolved, and RemovalHeld while removals wait.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// ObservedGeneration is the generation of the spec that the status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Rollout counts the selected clusters.
	// +optional
	Rollout RolloutStatus `json:"rollout,omitempty"`
	// Removals are the numbers of children that were deleted in the last hour because their clusters were no longer selected.
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	Removals []Removals `json:"removals,omitempty"`
}

// RolloutStatus counts the selected clusters. The status of a KnativeServing or KnativeEventing that configures many clusters has the
// same fields.
type RolloutStatus struct {
	// Revision is the hash of the templates.
	// +optional
	Revision string `json:"revision,omitempty"`
	// Total is the number of selected clusters.
	Total int32 `json:"total"`
	// Updated is the number of clusters whose children have the revision.
	Updated int32 `json:"updated"`
	// Ready is the number of clusters whose children have the revision and are Ready.
	Ready int32 `json:"ready"`
	// Failed is the number of clusters that count as failures of the revision.
	Failed int32 `json:"failed"`
	// Held is the number of clusters that are no longer selected, and that keep their installation because the removal waits.
	// +optional
	Held int32 `json:"held,omitempty"`
	// Unresolved is the number of clusters that are unknown or unavailable, or whose child belongs to another owner.
	Unresolved int32 `json:"unresolved"`
	// UnresolvedReasons are the reasons of the unresolved clusters, the most frequent first. The last of ten reasons stands for all
	// others.
	// +kubebuilder:validation:MaxItems=10
	// +listType=atomic
	// +optional
	UnresolvedReasons []ReasonCount `json:"unresolvedReasons,omitempty"`
	// Versions are the versions that run on the selected clusters, the most frequent first. The last of ten versions stands for all
	// others.
	// +kubebuilder:validation:MaxItems=10
	// +listType=atomic
	// +optional
	Versions []VersionCount `json:"versions,omitempty"`
	// Clusters are the ten clusters that are furthest from Ready, the worst first.
	// +kubebuilder:validation:MaxItems=10
	// +listType=atomic
	// +optional
	Clusters []ClusterReport `json:"clusters,omitempty"`
}

// ClusterReport is the state of a cluster that is not Ready.
type ClusterReport struct {
	// Name is the name of the ClusterProfile.
	Name string `json:"name"`
	// Reason is the reason of condition Ready of the child, or a reason of the KnativeFleet.
	Reason string `json:"reason"`
	// Since is the time since which the cluster has been in this state, if known.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
}

// ReasonCount is the number of clusters with a reason.
type ReasonCount struct {
	// Reason is the reason of a condition, or Others.
	Reason string `json:"reason"`
	// Clusters is the number of clusters with the reason.
	Clusters int32 `json:"clusters"`
}

// VersionCount is the number of clusters with a version.
type VersionCount struct {
	// Component is knative-serving or knative-eventing.
	Component string `json:"component"`
	// Version is a version of the component, or Others.
	Version string `json:"version"`
	// Clusters is the number of clusters that run the version.
	Clusters int32 `json:"clusters"`
}

// Others is the reason or version in a bounded list that stands for all reasons or versions without an entry of their own.
const Others = "Others"

// Removals counts deleted children of one minute.
type Removals struct {
	// Minute is the minute of the deletions.
	Minute metav1.Time `json:"minute"`
	// Count is the number of deleted children.
	Count int32 `json:"count"`
}

// KnativeFleetList is a list of KnativeFleets.
//
// +kubebuilder:object:root=true
type KnativeFleetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []KnativeFleet `json:"items"`
}
