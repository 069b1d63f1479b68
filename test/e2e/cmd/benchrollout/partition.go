// Copyright Contributors to the Open Cluster Management project

package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"

	"open-cluster-management.io/knative-addon/test/e2e/harness/played"
)

// cutPercent is the share of the clusters that become unreachable.
const cutPercent = 30

// partitions makes some clusters unreachable and lets them return. Neither may change a work: the clusters keep their installation.
func (f *fleet) partitions(ctx context.Context) ([]row, error) {
	if !f.opts.has(partPartition) {
		return nil, nil
	}
	if err := f.calm(ctx); err != nil {
		return nil, err
	}
	works, err := f.ListWorkSpecs(ctx)
	if err != nil {
		return nil, err
	}
	lost, err := f.change(ctx, "become unreachable: the hub has noticed the last one", f.registration.CutOffCluster)
	if err != nil {
		return nil, err
	}
	returned, err := f.change(ctx, "return: the last add-on is Available", f.restore)
	if err != nil {
		return nil, err
	}
	now, err := f.ListWorkSpecs(ctx)
	rewritten := len(works.ListChanged(now))
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
	if err := played.ForEachCluster(ctx, clusters, do); err != nil {
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

// restore lets a cluster return, and returns when the add-ons are Available again.
func (f *fleet) restore(ctx context.Context, cluster string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := f.registration.RestoreCluster(ctx, cluster); err != nil {
		return err
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
