// Copyright Contributors to the Open Cluster Management project

package main

import (
	"context"
	"fmt"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/test/e2e/harness"
)

// goalInstall is what a first installation may take for each cluster, on two cores with the agents and the whole hub.
const goalInstall = 2 * time.Second

// install lets the Placements of both components select all clusters, and waits until both are Available on each.
func (f *fleet) install(ctx context.Context) ([]row, error) {
	if err := f.calm(ctx); err != nil {
		return nil, err
	}
	before, err := f.usage()
	if err != nil {
		return nil, err
	}
	works := expect("payloads", len(f.opts.components)*len(f.clusters))
	available := expect("add-ons that are Available", len(f.opts.components)*len(f.clusters))
	defer f.agents.AddWatcher(func(w *workv1.ManifestWork) {
		if w.Labels[addonv1beta1.AddonLabelKey] != "" && !harness.IsGate(w) {
			works.see(w.Namespace + "/" + w.Name)
		}
	})()
	defer f.addOns.AddWatcher(func(a *addonv1beta1.ManagedClusterAddOn) {
		if apimeta.IsStatusConditionTrue(a.Status.Conditions, addonv1beta1.ManagedClusterAddOnConditionAvailable) {
			available.see(a.Namespace + "/" + a.Name)
		}
	})()
	if _, err := f.Command(ctx, "clusteradm", "clusterset", "bind", "default", "--namespace", harness.Namespace); err != nil {
		return nil, err
	}
	written, err := works.wait(ctx)
	if err != nil {
		return nil, err
	}
	done, err := available.wait(ctx)
	if err != nil {
		return nil, err
	}
	if err := f.calm(ctx); err != nil {
		return nil, err
	}
	used, err := f.usedSince(before)
	if err != nil {
		return nil, err
	}
	list, err := f.Works.WorkV1().ManifestWorks(f.clusters[0]).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("cannot list the works of %s: %w", f.clusters[0], err)
	}
	manifests, size := 0, 0
	for _, w := range list.Items {
		manifests += len(w.Spec.Workload.Manifests)
		for _, m := range w.Spec.Workload.Manifests {
			size += len(m.Raw)
		}
	}
	progress("installed on %d clusters in %.1f s; %s", len(f.clusters), done.Seconds(), used)
	what := fmt.Sprintf("first installation on %d clusters, %d manifests and %d kB in %d works on each", len(f.clusters), manifests, size/1000, len(list.Items))
	return []row{
		{what: what + ": last payload written", value: seconds(written)},
		{what: "... last add-on Available", value: seconds(done), goal: fmt.Sprintf("%.0f ms for each cluster, at most %d ms", float64(f.ofEach(done).Milliseconds()), goalInstall.Milliseconds()), missed: f.ofEach(done) > goalInstall},
		{what: "... the manager's CPU for each cluster", value: milliseconds(f.ofEach(used.cpu[harness.Manager]))},
		{what: "... the manager's writes for each cluster", value: used.perCluster(ourAccount, len(f.clusters))},
		{what: "... the writes of OCM's controllers for each cluster", value: used.perCluster(ocmAccount, len(f.clusters))},
	}, nil
}

func (f *fleet) ofEach(d time.Duration) time.Duration { return d / time.Duration(len(f.clusters)) }
