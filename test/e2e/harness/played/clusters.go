// Copyright Contributors to the Open Cluster Management project

package played

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
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"k8s.io/client-go/util/workqueue"

	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
)

const (
	// parallelCalls is the number of clusters for which ForEachCluster calls a function at a time.
	parallelCalls = 10
	// parallelJoins is the number of clusters that join at a time. A join mostly waits for the hub.
	parallelJoins = 200
	// parallelRenewals is the number of leases that are renewed at a time: a busy hub answers a request after seconds.
	parallelRenewals = 10
)

const (
	// patience is the longest time for the hub to accept a change of one cluster.
	patience = 15 * time.Minute
	// pollInterval is the interval of reads of a ManagedCluster. With 500 ms, the hub served 138 reads for each of 1,000 clusters that join.
	pollInterval = 2 * time.Second
)

// LeaseDuration is OCM's default: the interval at which the registration agent of a cluster renews the lease.
const LeaseDuration = time.Minute

// Clusters play the registration agents of managed clusters.
type Clusters struct {
	// Client and Kube are clients of the hub.
	Client clusterclient.Interface
	Kube   kubernetes.Interface
	// ReportError receives each error of the renewal of a lease.
	ReportError func(error)

	names []string
	// cutOff has the names of the clusters that do not renew their leases.
	cutOff sync.Map
}

// Names returns the names of the clusters that have joined.
func (c *Clusters) Names() []string { return c.names }

// JoinHub creates ManagedClusters cluster001, cluster002, ..., which join the hub as their registration agents would, and keeps the
// clusters Available until the context ends.
func (c *Clusters) JoinHub(ctx context.Context, count int) error {
	for i := range count {
		c.names = append(c.names, fmt.Sprintf("cluster%03d", i+1))
	}
	for i := range min(parallelRenewals, count) {
		go c.renewLeases(ctx, i) // a thousand clusters join more slowly than the lease of the first cluster ends
	}
	go c.reportLostClusters(ctx)
	return forEachCluster(ctx, parallelJoins, c.names, c.joinCluster)
}

// ForEachCluster calls a function for each of the clusters, for several clusters at a time.
func ForEachCluster(ctx context.Context, clusters []string, call func(ctx context.Context, cluster string) error) error {
	return forEachCluster(ctx, parallelCalls, clusters, call)
}

func forEachCluster(ctx context.Context, parallel int, clusters []string, call func(ctx context.Context, cluster string) error) error {
	var mu sync.Mutex
	var errs []error
	workqueue.ParallelizeUntil(ctx, parallel, len(clusters), func(i int) {
		if err := call(ctx, clusters[i]); err != nil {
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		}
	})
	return errors.Join(append(errs, ctx.Err())...)
}

// joinCluster returns when the hub has accepted the cluster and reports the cluster as available.
func (c *Clusters) joinCluster(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err := c.Client.ClusterV1().ManagedClusters().Create(ctx, &clusterv1.ManagedCluster{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       clusterv1.ManagedClusterSpec{HubAcceptsClient: true, LeaseDurationSeconds: int32(LeaseDuration.Seconds())},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("cannot create ManagedCluster %q: %w", name, err)
	}
	if err := c.awaitCluster(ctx, name, isAccepted); err != nil {
		return err
	}
	if err := c.reportAvailable(ctx, name); err != nil {
		return err
	}
	return c.awaitCluster(ctx, name, func(mc *clusterv1.ManagedCluster) bool { return len(mc.Spec.Taints) == 0 })
}

func isAccepted(mc *clusterv1.ManagedCluster) bool {
	return apimeta.IsStatusConditionTrue(mc.Status.Conditions, clusterv1.ManagedClusterConditionHubAccepted)
}

// reportAvailable writes the status that the registration agent of an available cluster writes.
func (c *Clusters) reportAvailable(ctx context.Context, name string) error {
	clusters := c.Client.ClusterV1().ManagedClusters()
	// OCM's controllers write the same object at the same time.
	patient := wait.Backoff{Steps: 20, Duration: 20 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Cap: time.Second}
	err := retry.RetryOnConflict(patient, func() error {
		mc, err := clusters.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		setAvailable(&mc.Status)
		_, err = clusters.UpdateStatus(ctx, mc, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("cannot write the status of ManagedCluster %q: %w", name, err)
	}
	return nil
}

// setAvailable sets the fields that a registration agent reports.
func setAvailable(status *clusterv1.ManagedClusterStatus) {
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

// awaitCluster returns when the ManagedCluster has the state that the function accepts.
func (c *Clusters) awaitCluster(ctx context.Context, name string, hasState func(*clusterv1.ManagedCluster) bool) error {
	for {
		mc, err := c.Client.ClusterV1().ManagedClusters().Get(ctx, name, metav1.GetOptions{})
		if err == nil && hasState(mc) {
			return nil
		}
		if ended := pause(ctx, pollInterval); ended != nil {
			return fmt.Errorf("the hub does not accept the change of ManagedCluster %q: %w", name, errors.Join(err, ended))
		}
	}
}

// CutOffCluster makes a cluster unreachable: CutOffCluster stops the renewals of the lease, and returns when the hub has tainted the cluster. The lease
// becomes short, because with OCM's default the hub waits five minutes.
func (c *Clusters) CutOffCluster(ctx context.Context, name string) error {
	c.cutOff.Store(name, true)
	if err := c.setLeaseDuration(ctx, name, time.Second); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return c.awaitCluster(ctx, name, func(mc *clusterv1.ManagedCluster) bool {
		return !apimeta.IsStatusConditionTrue(mc.Status.Conditions, clusterv1.ManagedClusterConditionAvailable) && len(mc.Spec.Taints) > 0
	})
}

// RestoreCluster makes a cluster available again: RestoreCluster renews the lease of the cluster, writes the status that a registration agent
// writes, and returns before OCM's controllers react.
func (c *Clusters) RestoreCluster(ctx context.Context, name string) error {
	c.cutOff.Delete(name)
	if err := c.renewLease(ctx, name); err != nil {
		return err
	}
	if err := c.setLeaseDuration(ctx, name, LeaseDuration); err != nil {
		return err
	}
	return c.reportAvailable(ctx, name)
}

func (c *Clusters) setLeaseDuration(ctx context.Context, name string, duration time.Duration) error {
	patch := fmt.Appendf(nil, `{"spec":{"leaseDurationSeconds":%d}}`, int(duration.Seconds()))
	_, err := c.Client.ClusterV1().ManagedClusters().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("cannot change the lease of ManagedCluster %q: %w", name, err)
	}
	return nil
}

// renewLeases renews the leases of a share of the clusters, one after the other, each once in LeaseDuration. The hub has created the
// leases. first is the first cluster of the share, below parallelRenewals.
func (c *Clusters) renewLeases(ctx context.Context, first int) {
	var share []string
	for i := first; i < len(c.names); i += parallelRenewals {
		share = append(share, c.names[i])
	}
	for i := 0; ; i++ {
		name := share[i%len(share)]
		if _, isCutOff := c.cutOff.Load(name); !isCutOff {
			if err := c.renewLease(ctx, name); err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
				c.ReportError(err)
			}
		}
		if pause(ctx, LeaseDuration/time.Duration(len(share))) != nil {
			return
		}
	}
}

// reportLostClusters reports clusters as available that the hub has found unreachable, as the registration agent of a cluster does when
// the hub answers the agent again.
func (c *Clusters) reportLostClusters(ctx context.Context) {
	for pause(ctx, LeaseDuration) == nil {
		clusters, err := c.Client.ClusterV1().ManagedClusters().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			continue // the hub does not answer yet
		}
		for i := range clusters.Items {
			mc := &clusters.Items[i]
			available := apimeta.FindStatusCondition(mc.Status.Conditions, clusterv1.ManagedClusterConditionAvailable)
			if _, isCutOff := c.cutOff.Load(mc.Name); isCutOff || available == nil || available.Status != metav1.ConditionUnknown {
				continue
			}
			c.ReportError(fmt.Errorf("the hub has lost cluster %s", mc.Name))
			if err := c.reportAvailable(ctx, mc.Name); err != nil && ctx.Err() == nil {
				c.ReportError(err)
			}
		}
	}
}

func (c *Clusters) renewLease(ctx context.Context, name string) error {
	patch := fmt.Appendf(nil, `{"spec":{"renewTime":%q}}`, time.Now().UTC().Format(metav1.RFC3339Micro))
	_, err := c.Kube.CoordinationV1().Leases(name).Patch(ctx, "managed-cluster-lease", types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("cannot renew the lease of %s: %w", name, err)
	}
	return nil
}

// pause waits, and returns an error when the context ends earlier.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
