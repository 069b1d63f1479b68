// Copyright Contributors to the Open Cluster Management project

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	workv1 "open-cluster-management.io/api/work/v1"
)

// cutPercent is the share of the clusters that become unreachable.
const cutPercent = 30

// isCut tells that nobody renews the lease of a cluster.
func (f *fleet) isCut(cluster string) bool {
	_, cut := f.cut.Load(cluster)
	return cut
}

// partitions makes some clusters unreachable and lets them return. Neither may change a work: the clusters keep their installation.
func (f *fleet) partitions(ctx context.Context) ([]row, error) {
	if !f.opts.has(partPartition) {
		return nil, nil
	}
	if err := f.calm(ctx); err != nil {
		return nil, err
	}
	works, err := f.listSpecs(ctx)
	if err != nil {
		return nil, err
	}
	lost, err := f.change(ctx, "become unreachable: the hub has noticed the last one", f.cutOff)
	if err != nil {
		return nil, err
	}
	returned, err := f.change(ctx, "return: the last add-on is Available", f.restore)
	if err != nil {
		return nil, err
	}
	rewritten, err := f.rewritten(ctx, works)
	return slices.Concat(lost, returned, []row{{
		what: "... works that are other works or have another spec than before", value: fmt.Sprint(rewritten), goal: "0", missed: rewritten != 0,
	}}), err
}

// change does something to the clusters that become unreachable, and measures the writes until nothing changes any more.
func (f *fleet) change(ctx context.Context, what string, do func(ctx context.Context, cluster string) error) ([]row, error) {
	clusters := f.clusters[:max(1, len(f.clusters)*cutPercent/100)]
	before, err := f.usage()
	if err != nil {
		return nil, err
	}
	start := time.Now()
	if err := eachOf(ctx, clusters, do); err != nil {
		return nil, err
	}
	took := time.Since(start)
	if err := f.calm(ctx); err != nil {
		return nil, err
	}
	used, err := f.usedSince(before)
	if err != nil {
		return nil, err
	}
	progress("%d clusters %s: %s", len(clusters), what, used)
	return []row{
		{what: fmt.Sprintf("%d clusters %s", len(clusters), what), value: seconds(took)},
		{what: "... the manager's writes for each of the clusters", value: used.perCluster(ourAccount, len(clusters))},
		{what: "... the writes of OCM's controllers for each of the clusters", value: used.perCluster(ocmAccount, len(clusters))},
	}, nil
}

// cutOff stops the lease of a cluster and returns when the hub takes the cluster for unreachable. The lease is short: with OCM's
// default the hub would wait five minutes.
func (f *fleet) cutOff(ctx context.Context, cluster string) error {
	f.cut.Store(cluster, true)
	if err := f.setLease(ctx, cluster, time.Second); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return f.clusterIs(ctx, cluster, func(c *clusterv1.ManagedCluster) bool {
		return !apimeta.IsStatusConditionTrue(c.Status.Conditions, clusterv1.ManagedClusterConditionAvailable) && len(c.Spec.Taints) > 0
	})
}

// restore reports the cluster as its registration agent would, and returns when the add-ons are Available again.
func (f *fleet) restore(ctx context.Context, cluster string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	f.cut.Delete(cluster)
	if err := f.renewLease(ctx, cluster); err != nil {
		return err
	}
	if err := f.setLease(ctx, cluster, leaseDuration); err != nil {
		return err
	}
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		c, err := f.Clusters.ClusterV1().ManagedClusters().Get(ctx, cluster, metav1.GetOptions{})
		if err != nil {
			return err
		}
		describe(&c.Status)
		_, err = f.Clusters.ClusterV1().ManagedClusters().UpdateStatus(ctx, c, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("cannot write the status of ManagedCluster %q: %w", cluster, err)
	}
	for {
		available, err := f.countAvailable(ctx, cluster)
		if err != nil {
			return err
		}
		if available == len(f.opts.components) {
			return nil
		}
		if err := pause(ctx, poll); err != nil {
			return fmt.Errorf("the add-ons of %s are not Available again: %w", cluster, err)
		}
	}
}

func (f *fleet) setLease(ctx context.Context, cluster string, duration time.Duration) error {
	patch := fmt.Appendf(nil, `{"spec":{"leaseDurationSeconds":%d}}`, int(duration.Seconds()))
	_, err := f.Clusters.ClusterV1().ManagedClusters().Patch(ctx, cluster, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("cannot change the lease of ManagedCluster %q: %w", cluster, err)
	}
	return nil
}

// countAvailable counts the add-ons of a cluster that are Available and stay.
func (f *fleet) countAvailable(ctx context.Context, cluster string) (int, error) {
	list, err := f.AddOns.AddonV1beta1().ManagedClusterAddOns(cluster).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, fmt.Errorf("cannot list the ManagedClusterAddOns of %s: %w", cluster, err)
	}
	n := 0
	for _, a := range list.Items {
		if a.DeletionTimestamp == nil && apimeta.IsStatusConditionTrue(a.Status.Conditions, addonv1beta1.ManagedClusterAddOnConditionAvailable) {
			n++
		}
	}
	return n, nil
}

// specs are the generations of works, by the works' names and UIDs.
type specs map[string]int64

// listSpecs lists the works that an agent applies. A gate is only for OCM to wait for.
func (f *fleet) listSpecs(ctx context.Context) (specs, error) {
	list, err := f.Works.WorkV1().ManifestWorks(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("cannot list ManifestWorks: %w", err)
	}
	out := specs{}
	for i := range list.Items {
		if w := &list.Items[i]; !isGate(w) {
			out[nameOf(w)] = w.Generation
		}
	}
	return out, nil
}

func nameOf(w *workv1.ManifestWork) string {
	return strings.Join([]string{w.Namespace, w.Name, string(w.UID)}, "/")
}

// rewritten counts the works that are gone or have another spec.
func (f *fleet) rewritten(ctx context.Context, before specs) (int, error) {
	now, err := f.listSpecs(ctx)
	n := 0
	for name, generation := range before {
		if now[name] != generation {
			n++
		}
	}
	return n, err
}
