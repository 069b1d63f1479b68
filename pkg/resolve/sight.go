// Copyright Contributors to the Open Cluster Management project

package resolve

import (
	"fmt"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterinventoryv1alpha1 "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"

	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// sightRules say whether the cluster was seen. What OCM knows of a ManagedCluster comes before what its profile says:
// OCM copies the health of a profile from there, and others may write it too. Direct delivery has more to say once it
// connects.
func sightRules() []rule {
	return []rule{
		ofOCM(clusterAccepted),
		ofOCM(clusterStays),
		ofOCM(clusterJoined),
		ofOCM(clusterAvailable),
		profileHealthy,
		byDirect(directConfigured),
		byDirect(providerConfigured),
	}
}

// ManagedCluster says whether a cluster whose add-on was enabled on the hub, without any ClusterProfile, may be written to
// and was seen. cluster is nil when there is none of that name.
func ManagedCluster(name string, cluster *clusterv1.ManagedCluster) Result {
	if cluster == nil {
		return Result{Reason: api.ReasonManagedClusterNotFound, Message: fmt.Sprintf(
			"ManagedCluster %q does not exist; register the cluster with the hub, or delete its add-on", name)}
	}
	in := &Input{Cluster: cluster}
	result := Result{Target: &Target{Mode: ManifestWork, ManagedCluster: name, Closed: closed(in)}}
	if no := firstObjection([]rule{clusterAccepted, clusterStays, clusterJoined, clusterAvailable}, in); no != nil {
		result.Reason, result.Message = no.reason, no.message
	}
	return result
}

// closed tells that the cluster is not accepted, or is being detached.
func closed(in *Input) bool { return firstObjection([]rule{clusterAccepted, clusterStays}, in) != nil }

// clusterAccepted goes by the spec, which is what the administrator decided; the condition also turns False when the hub
// could not write something.
func clusterAccepted(in *Input) *objection {
	if in.Cluster.Spec.HubAcceptsClient {
		return nil
	}
	return object(api.ReasonManagedClusterNotAccepted,
		"ManagedCluster %q is not accepted by the hub; let the hub's administrator accept it: clusteradm accept --clusters %s",
		in.Cluster.Name, in.Cluster.Name)
}

func clusterStays(in *Input) *objection {
	if in.Cluster.DeletionTimestamp == nil {
		return nil
	}
	return object(api.ReasonManagedClusterUnavailable,
		"ManagedCluster %q is being deleted, so that nothing more is installed there; delete this resource, or register the cluster again once it is gone",
		in.Cluster.Name)
}

func clusterJoined(in *Input) *objection {
	if apimeta.IsStatusConditionTrue(in.Cluster.Status.Conditions, clusterv1.ManagedClusterConditionJoined) {
		return nil
	}
	return object(api.ReasonManagedClusterUnavailable,
		"ManagedCluster %q has not joined the hub: %s; check the klusterlet on the cluster",
		in.Cluster.Name, describe(in.Cluster.Status.Conditions, clusterv1.ManagedClusterConditionJoined))
}

func clusterAvailable(in *Input) *objection {
	if apimeta.IsStatusConditionTrue(in.Cluster.Status.Conditions, clusterv1.ManagedClusterConditionAvailable) {
		return nil
	}
	return object(api.ReasonManagedClusterUnavailable,
		"ManagedCluster %q is out of sight: %s; what is installed there stays; check the cluster and its klusterlet",
		in.Cluster.Name, describe(in.Cluster.Status.Conditions, clusterv1.ManagedClusterConditionAvailable))
}

func profileHealthy(in *Input) *objection {
	if apimeta.IsStatusConditionTrue(in.Profile.Status.Conditions, clusterinventoryv1alpha1.ClusterConditionControlPlaneHealthy) {
		return nil
	}
	return object(api.ReasonClusterProfileNotReady,
		"ClusterProfile %s is not healthy: %s; what is installed on the cluster stays; check the cluster and its cluster manager %s, which has to report it",
		in.Reference, describe(in.Profile.Status.Conditions, clusterinventoryv1alpha1.ClusterConditionControlPlaneHealthy),
		quote(in.Profile.Spec.ClusterManager.Name))
}

func directConfigured(in *Input) *objection {
	if in.Direct.Configured {
		return nil
	}
	if publishedByOCM(in.Profile) {
		return object(api.ReasonMulticlusterDisabled,
			"ClusterProfile %s asks for Direct delivery, and multi-cluster support is disabled: set --clusterprofile-provider-file on the add-on's manager to enable it, or take annotation %s off the profile",
			in.Reference, api.DeliveryAnnotation)
	}
	return object(api.ReasonMulticlusterDisabled,
		"ClusterProfile %s of cluster manager %s needs Direct delivery, and multi-cluster support is disabled: set --clusterprofile-provider-file on the add-on's manager to enable it",
		in.Reference, quote(in.Profile.Spec.ClusterManager.Name))
}

func providerConfigured(in *Input) *objection {
	if provider(in) != "" {
		return nil
	}
	offered := offeredProviders(in.Profile)
	if len(offered) == 0 {
		return object(api.ReasonAccessProviderNotConfigured,
			"ClusterProfile %s offers no access provider; cluster manager %s has to publish one in status.accessProviders",
			in.Reference, quote(in.Profile.Spec.ClusterManager.Name))
	}
	if in.Direct.Problem != "" {
		return object(api.ReasonAccessProviderNotConfigured,
			"the add-on's manager has none of the access providers that ClusterProfile %s offers: %s; correct the file: %s",
			in.Reference, list(offered), in.Direct.Problem)
	}
	return object(api.ReasonAccessProviderNotConfigured,
		"the add-on's manager is configured for none of the access providers that ClusterProfile %s offers: %s; add one of them to the file of --clusterprofile-provider-file",
		in.Reference, list(offered))
}

// describe says what a condition is, without its message: that may hold times, and is not ours.
func describe(conditions []metav1.Condition, conditionType string) string {
	c := apimeta.FindStatusCondition(conditions, conditionType)
	if c == nil {
		return fmt.Sprintf("condition %s is missing", conditionType)
	}
	return fmt.Sprintf("condition %s is %s (%s)", conditionType, c.Status, c.Reason)
}
