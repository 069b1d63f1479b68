// Copyright Contributors to the Open Cluster Management project

package resolve

import (
	"fmt"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterinventoryv1alpha1 "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"

	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/message"
)

// availabilityRules decide whether the hub considers the cluster available. The ManagedCluster counts before the
// ClusterProfile: OCM copies the health of a profile from the ManagedCluster, and other writers may change the profile.
// Direct delivery finds further problems when the manager connects.
func availabilityRules() []rule {
	return []rule{
		forOCM(clusterAccepted),
		forOCM(clusterNotDeleted),
		forOCM(clusterJoined),
		forOCM(clusterAvailable),
		profileHealthy,
		forDirect(directConfigured),
		forDirect(providerConfigured),
	}
}

// ManagedCluster resolves a cluster whose add-on was enabled on the hub without any ClusterProfile. cluster is nil when no
// ManagedCluster has the name.
func ManagedCluster(name string, cluster *clusterv1.ManagedCluster) Result {
	if cluster == nil {
		return Result{Reason: api.ReasonManagedClusterNotFound, Message: fmt.Sprintf(
			"ManagedCluster %q does not exist; register the cluster with the hub, or delete its add-on", name)}
	}
	in := &Input{Cluster: cluster}
	result := Result{Target: &Target{Mode: api.ModeManifestWork, ManagedCluster: name, Closed: isClosed(in)}}
	if no := firstObjection([]rule{clusterAccepted, clusterNotDeleted, clusterJoined, clusterAvailable}, in); no != nil {
		result.Reason, result.Message = no.reason, no.message
	}
	return result
}

// isClosed reports whether the hub has not accepted the cluster, or the cluster is being detached.
func isClosed(in *Input) bool {
	return firstObjection([]rule{clusterAccepted, clusterNotDeleted}, in) != nil
}

// clusterAccepted reads the spec, which holds the administrator's decision; the condition also turns False when the hub
// could not write an object.
func clusterAccepted(in *Input) *objection {
	if in.Cluster.Spec.HubAcceptsClient {
		return nil
	}
	return newObjection(api.ReasonManagedClusterNotAccepted,
		"ManagedCluster %q is not accepted by the hub; let the hub's administrator accept it: clusteradm accept --clusters %s",
		in.Cluster.Name, in.Cluster.Name)
}

func clusterNotDeleted(in *Input) *objection {
	if in.Cluster.DeletionTimestamp == nil {
		return nil
	}
	return newObjection(api.ReasonManagedClusterUnavailable,
		"ManagedCluster %q is being deleted, so that the add-on installs nothing more on the cluster; delete this resource, or register the cluster again after the deletion",
		in.Cluster.Name)
}

func clusterJoined(in *Input) *objection {
	if apimeta.IsStatusConditionTrue(in.Cluster.Status.Conditions, clusterv1.ManagedClusterConditionJoined) {
		return nil
	}
	return newObjection(api.ReasonManagedClusterUnavailable,
		"ManagedCluster %q has not joined the hub: %s; check the klusterlet on the cluster",
		in.Cluster.Name, describeCondition(in.Cluster.Status.Conditions, clusterv1.ManagedClusterConditionJoined))
}

func clusterAvailable(in *Input) *objection {
	if apimeta.IsStatusConditionTrue(in.Cluster.Status.Conditions, clusterv1.ManagedClusterConditionAvailable) {
		return nil
	}
	return newObjection(api.ReasonManagedClusterUnavailable,
		"ManagedCluster %q is unavailable: %s; the cluster keeps its installation; check the cluster and its klusterlet",
		in.Cluster.Name, describeCondition(in.Cluster.Status.Conditions, clusterv1.ManagedClusterConditionAvailable))
}

func profileHealthy(in *Input) *objection {
	if apimeta.IsStatusConditionTrue(in.Profile.Status.Conditions, clusterinventoryv1alpha1.ClusterConditionControlPlaneHealthy) {
		return nil
	}
	return newObjection(api.ReasonClusterProfileNotReady,
		"ClusterProfile %s is not healthy: %s; the cluster keeps its installation; check the cluster and its cluster manager %s, which has to report condition ControlPlaneHealthy",
		in.Reference, describeCondition(in.Profile.Status.Conditions, clusterinventoryv1alpha1.ClusterConditionControlPlaneHealthy),
		message.Quote(in.Profile.Spec.ClusterManager.Name))
}

func directConfigured(in *Input) *objection {
	if in.Direct.Configured {
		return nil
	}
	if publishedByOCM(in.Profile) {
		return newObjection(api.ReasonMulticlusterDisabled,
			"ClusterProfile %s asks for Direct delivery, and multi-cluster support is disabled: set chart value multicluster.enabled (flag --clusterprofile-provider-file of the add-on's manager), or remove annotation %s from the profile",
			in.Reference, api.DeliveryAnnotation)
	}
	return newObjection(api.ReasonMulticlusterDisabled,
		"ClusterProfile %s of cluster manager %s needs Direct delivery, and multi-cluster support is disabled: set chart value multicluster.enabled (flag --clusterprofile-provider-file of the add-on's manager)",
		in.Reference, message.Quote(in.Profile.Spec.ClusterManager.Name))
}

func providerConfigured(in *Input) *objection {
	if selectProvider(in) != "" {
		return nil
	}
	offered := offeredProviders(in.Profile)
	if len(offered) == 0 {
		return newObjection(api.ReasonAccessProviderNotConfigured,
			"ClusterProfile %s offers no access provider; cluster manager %s has to publish one in status.accessProviders",
			in.Reference, message.Quote(in.Profile.Spec.ClusterManager.Name))
	}
	if in.Direct.Problem != "" {
		return newObjection(api.ReasonAccessProviderNotConfigured,
			"the add-on's manager has none of the access providers that ClusterProfile %s offers: %s; correct the file: %s",
			in.Reference, message.QuotedList(offered), in.Direct.Problem)
	}
	return newObjection(api.ReasonAccessProviderNotConfigured,
		"the add-on's manager is configured for none of the access providers that ClusterProfile %s offers: %s; add one of them to the file of --clusterprofile-provider-file",
		in.Reference, message.QuotedList(offered))
}

// describeCondition returns type, status and reason of a condition. The message of the condition is left out: other
// programs write the message, which may contain times.
func describeCondition(conditions []metav1.Condition, conditionType string) string {
	c := apimeta.FindStatusCondition(conditions, conditionType)
	if c == nil {
		return fmt.Sprintf("condition %s is missing", conditionType)
	}
	return fmt.Sprintf("condition %s is %s (%s)", conditionType, c.Status, c.Reason)
}
