// Copyright Contributors to the Open Cluster Management project

package knative

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/clustercache"
	"open-cluster-management.io/knative-addon/pkg/hub"
)

// recordedCluster returns the UID of the cluster on which the resource is installed. The UID is empty without a record: an
// annotation that came with the resource, before the finalizer, records nothing.
func (d *Direct) recordedCluster(config *unstructured.Unstructured) types.UID {
	if !hasFinalizer(d, config) {
		return ""
	}
	return types.UID(config.GetAnnotations()[api.InstalledOnAnnotation])
}

// findRecordedCluster returns the cluster of the resource. Another cluster than the recorded cluster is an *UnreachableError:
// names, addresses and ClusterProfiles are used again, and the installation on the recorded cluster must not be forgotten. Without
// a record, only the anchor of the resource proves that the cluster has the installation. The cluster is nil while a probe is pending.
func (d *Direct) findRecordedCluster(ctx context.Context, config *unstructured.Unstructured) (*ReachableCluster, error) {
	t, err := d.Clusters.FindCluster(ctx, config)
	if err != nil || t == nil || !hasFinalizer(d, config) || d.recordedCluster(config) == t.UID {
		return t, err
	}
	if d.recordedCluster(config) != "" {
		return nil, d.newReplacedError(config, t)
	}
	if err := d.proveCluster(ctx, config, t); err != nil {
		return nil, err
	}
	return t, nil
}

// proveCluster returns an *UnreachableError unless the cluster has an anchor of the resource.
func (d *Direct) proveCluster(ctx context.Context, config *unstructured.Unstructured, t *ReachableCluster) error {
	probeCtx, cancel := context.WithTimeout(ctx, probeTimeout) // the request holds a worker
	defer cancel()
	anchored, err := d.installationOf(config, t).HasAnchor(probeCtx, d.Clusters.InstallNamespace(config))
	if unreachable, ok := t.unreachableError(probeCtx, err); ok {
		return unreachable
	}
	if blocked := (*clustercache.BlockedError)(nil); errors.As(err, &blocked) {
		return d.newNotRecordedError(config, t, fmt.Sprintf("does not permit to look for an anchor of this resource (%v)", blocked))
	}
	if err != nil || anchored {
		return err
	}
	return d.newNotRecordedError(config, t, fmt.Sprintf("has no anchor (ConfigMap %q) of this resource", anchorName(d.Component, config)))
}

// newReplacedError returns the error for a cluster that is not the recorded cluster.
func (d *Direct) newReplacedError(config *unstructured.Unstructured, t *ReachableCluster) error {
	return &UnreachableError{Retry: refusalRetry, Values: t.Values, Finding: unresolvedTarget(api.ReasonClusterReplaced,
		"%s is another cluster (namespace kube-system has UID %q) than the cluster on which this resource is installed (%q), and the manager writes to neither cluster; "+
			"let the ClusterProfile lead to the recorded cluster again, or %s", d.Clusters.DisplayName(config), t.UID, d.recordedCluster(config), leaveInstallation(t))}
}

// newNotRecordedError returns the error for a cluster that may not be the cluster of the installation.
func (d *Direct) newNotRecordedError(config *unstructured.Unstructured, t *ReachableCluster, why string) error {
	return &UnreachableError{Retry: refusalRetry, Values: t.Values, Finding: unresolvedTarget(api.ReasonClusterNotRecorded,
		"this resource is installed and has no annotation %s, and %s (namespace kube-system has UID %q) %s; the manager writes nothing there: "+
			"let the ClusterProfile lead to the cluster of the installation, or %s",
		api.InstalledOnAnnotation, d.Clusters.DisplayName(config), t.UID, why, leaveInstallation(t))}
}

// leaveInstallation ends the message about an installation on another cluster than the cluster that the manager finds.
func leaveInstallation(t *ReachableCluster) string {
	return fmt.Sprintf("set annotation %s to %q to use the found cluster and to leave the installation on the other cluster, "+
		"or delete this resource with annotation %s=true, which leaves the installation as well and counts in a trusted namespace", api.InstalledOnAnnotation, t.UID, api.ForceOrphanAnnotation)
}

// recordCluster writes the finalizer and the UID of the cluster into the resource, before any write to the cluster.
func (d *Direct) recordCluster(ctx context.Context, config *unstructured.Unstructured, cluster types.UID) error {
	resources := d.ConfigClient.Resource(d.Component.Resource()).Namespace(config.GetNamespace())
	_, err := hub.Patch(ctx, resources, config, func(changed *unstructured.Unstructured) {
		controllerutil.AddFinalizer(changed, d.Finalizer())
		changed.SetAnnotations(labels.Merge(changed.GetAnnotations(), labels.Set{api.InstalledOnAnnotation: string(cluster)}))
	})
	return err
}
