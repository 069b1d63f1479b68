// Copyright Contributors to the Open Cluster Management project

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"k8s.io/client-go/util/workqueue"

	clusterv1 "open-cluster-management.io/api/cluster/v1"
)

// joining is how many clusters join, or are written to, at a time.
const joining = 10

// poll is how often a state is looked at that nothing is measured by.
const poll = 500 * time.Millisecond

// leaseDuration is OCM's own default: how often a cluster's registration agent renews its lease.
const leaseDuration = time.Minute

// join has the clusters join, as their registration agents would, and keeps them Available until the context ends.
func (f *fleet) join(ctx context.Context) error {
	if err := f.each(ctx, f.joinOne); err != nil {
		return err
	}
	go f.renewLeases(ctx)
	progress("%d managed clusters have joined", len(f.clusters))
	return nil
}

// each does something for each cluster, for several at a time.
func (f *fleet) each(ctx context.Context, do func(ctx context.Context, cluster string) error) error {
	return eachOf(ctx, f.clusters, do)
}

// eachOf does something for each of the clusters, for several at a time.
func eachOf(ctx context.Context, clusters []string, do func(ctx context.Context, cluster string) error) error {
	var mu sync.Mutex
	var errs []error
	workqueue.ParallelizeUntil(ctx, joining, len(clusters), func(i int) {
		if err := do(ctx, clusters[i]); err != nil {
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		}
	})
	return errors.Join(append(errs, ctx.Err())...)
}

// joinOne returns when the hub has accepted the cluster and takes it for available.
func (f *fleet) joinOne(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	clusters := f.Clusters.ClusterV1().ManagedClusters()
	_, err := clusters.Create(ctx, &clusterv1.ManagedCluster{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       clusterv1.ManagedClusterSpec{HubAcceptsClient: true, LeaseDurationSeconds: int32(leaseDuration.Seconds())},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("cannot create ManagedCluster %q: %w", name, err)
	}
	accepted := func(c *clusterv1.ManagedCluster) bool {
		return apimeta.IsStatusConditionTrue(c.Status.Conditions, clusterv1.ManagedClusterConditionHubAccepted)
	}
	if err := f.clusterIs(ctx, name, accepted); err != nil {
		return err
	}
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		c, err := clusters.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		describe(&c.Status)
		_, err = clusters.UpdateStatus(ctx, c, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("cannot write the status of ManagedCluster %q: %w", name, err)
	}
	return f.clusterIs(ctx, name, func(c *clusterv1.ManagedCluster) bool { return len(c.Spec.Taints) == 0 })
}

// describe says of a cluster what its registration agent says.
func describe(status *clusterv1.ManagedClusterStatus) {
	for condition, reason := range map[string]string{
		clusterv1.ManagedClusterConditionJoined:    "ManagedClusterJoined",
		clusterv1.ManagedClusterConditionAvailable: "ManagedClusterAvailable",
	} {
		apimeta.SetStatusCondition(&status.Conditions, metav1.Condition{
			Type: condition, Status: metav1.ConditionTrue, Reason: reason, Message: "The cluster is played",
		})
	}
	status.Version.Kubernetes = "v1.35.4"
	status.Allocatable = clusterv1.ResourceList{clusterv1.ResourceCPU: resource.MustParse("16"), clusterv1.ResourceMemory: resource.MustParse("64Gi")}
	status.Capacity = status.Allocatable
}

func (f *fleet) clusterIs(ctx context.Context, name string, as func(*clusterv1.ManagedCluster) bool) error {
	for {
		c, err := f.Clusters.ClusterV1().ManagedClusters().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("cannot get ManagedCluster %q: %w", name, err)
		}
		if as(c) {
			return nil
		}
		if err := pause(ctx, poll); err != nil {
			return fmt.Errorf("the hub does not take ManagedCluster %q: %w", name, err)
		}
	}
}

// renewLeases renews the lease of one cluster after the other, each once in its duration. The hub has made them.
func (f *fleet) renewLeases(ctx context.Context) {
	for i := 0; ; i++ {
		name := f.clusters[i%len(f.clusters)]
		if !f.isCut(name) {
			if err := f.renewLease(ctx, name); err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
				progress("%v", err)
			}
		}
		if pause(ctx, leaseDuration/time.Duration(len(f.clusters))) != nil {
			return
		}
	}
}

func (f *fleet) renewLease(ctx context.Context, cluster string) error {
	patch := fmt.Appendf(nil, `{"spec":{"renewTime":%q}}`, time.Now().UTC().Format(metav1.RFC3339Micro))
	_, err := f.kube.CoordinationV1().Leases(cluster).Patch(ctx, "managed-cluster-lease", types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("cannot renew the lease of %s: %w", cluster, err)
	}
	return nil
}
