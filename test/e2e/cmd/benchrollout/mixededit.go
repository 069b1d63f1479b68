// Copyright Contributors to the Open Cluster Management project

package main

import (
	"bytes"
	"context"
	"fmt"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/e2e/harness/memoryspoke"
	"open-cluster-management.io/knative-addon/test/e2e/harness/played"
)

// goalFleet is what an edit of a KnativeFleet may take, as a multiple of the same edit of one resource after the other.
const goalFleet = 1.3

// fleetName is the name of the KnativeFleet.
const fleetName = "web"

// servingSpec is the spec of the KnativeServing of each cluster, without the reference.
func servingSpec() map[string]any {
	return map[string]any{
		"version": "1.23", "ingress": map[string]any{"kourier": map[string]any{"enabled": true}},
		"config": map[string]any{"network": map[string]any{"ingress-class": "kourier.ingress.networking.knative.dev"}},
	}
}

// editPatch returns the merge patch of an edit of one line.
func editPatch(value []byte) []byte {
	return fmt.Appendf(nil, `{"config":{"deployment":{"progress-deadline":%q}}}`, value)
}

// compareEdits installs on every cluster, and measures edits of the resources, and then edits of a KnativeFleet that has taken over the
// resources.
func (m *mixedFleet) compareEdits(ctx context.Context) ([]row, error) {
	installed, err := m.install(ctx)
	if err != nil {
		return nil, err
	}
	values := &markers{}
	each, err := m.measureEdits(ctx, values, m.editEach)
	if err != nil {
		return nil, err
	}
	if err := m.adopt(ctx); err != nil {
		return nil, err
	}
	one, err := m.measureEdits(ctx, values, m.editFleet)
	if err != nil {
		return nil, err
	}
	return m.mixedRows(installed, each, one), nil
}

// install creates a KnativeServing for each cluster, and returns the time until all are Ready.
func (m *mixedFleet) install(ctx context.Context) (time.Duration, error) {
	ready := expect("KnativeServings that are Ready", len(m.clusters))
	defer m.resources.AddWatcher(func(u *unstructured.Unstructured) {
		if isReady(u) {
			ready.see(u.GetName())
		}
	})()
	err := played.ForEachCluster(ctx, m.clusters, func(ctx context.Context, cluster string) error {
		spec := servingSpec()
		spec["clusterProfileRef"] = map[string]any{"namespace": mixedNamespace, "name": cluster}
		_, err := m.configs.Resource(api.Serving.Resource()).Namespace(mixedNamespace).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": api.Group + "/v1beta1", "kind": api.Serving.Kind(), "metadata": map[string]any{"name": cluster}, "spec": spec,
		}}, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("cannot create the KnativeServing of %s: %w", cluster, err)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	took, err := ready.wait(ctx)
	progress("a KnativeServing for each of %d clusters: all are Ready after %.1f s", len(m.clusters), took.Seconds())
	return took, err
}

// isReady reports whether a resource is Ready at its generation.
func isReady(u *unstructured.Unstructured) bool {
	var status struct {
		ObservedGeneration int64              `json:"observedGeneration"`
		Conditions         []metav1.Condition `json:"conditions"`
	}
	fields, found, err := unstructured.NestedMap(u.Object, "status")
	if !found || err != nil || runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &status) != nil {
		return false
	}
	return status.ObservedGeneration == u.GetGeneration() && apimeta.IsStatusConditionTrue(status.Conditions, api.Ready)
}

// mixedEdit holds the durations of one edit of a mixed fleet.
type mixedEdit struct {
	// updated ends when the last cluster has the edit: the work of a managed cluster, or the object on any other cluster. ready ends when
	// the last KnativeServing is Ready at its generation.
	updated, ready, cpu time.Duration
	writes              string
}

// measureEdits measures edits, the first of which does not count.
func (m *mixedFleet) measureEdits(ctx context.Context, values *markers, edit func(ctx context.Context, value []byte) error) ([]mixedEdit, error) {
	var out []mixedEdit
	for i := range m.opts.rounds + 1 {
		e, err := m.measureEdit(ctx, values.next(), edit)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			out = append(out, e)
		}
	}
	return out, nil
}

func (m *mixedFleet) measureEdit(ctx context.Context, value []byte, edit func(ctx context.Context, value []byte) error) (mixedEdit, error) {
	if err := m.calm(ctx); err != nil {
		return mixedEdit{}, err
	}
	before, err := m.usage()
	if err != nil {
		return mixedEdit{}, err
	}
	updated, ready := expect("clusters with the edit", len(m.clusters)), expect("KnativeServings that are Ready with the edit", len(m.clusters))
	defer m.agents.AddWatcher(func(w *workv1.ManifestWork) {
		if w.Labels[addonv1beta1.AddonLabelKey] == api.Serving.AddOnName() && carries(w, value) {
			updated.see(w.Namespace)
		}
	})()
	defer m.writes.AddWatcher(func(w memoryspoke.Write) {
		if w.Name == "config-deployment" && bytes.Contains(w.Body, value) {
			updated.see(w.Spoke)
		}
	})()
	defer m.resources.AddWatcher(func(u *unstructured.Unstructured) {
		if deadline, _, _ := unstructured.NestedString(u.Object, "spec", "config", "deployment", "progress-deadline"); deadline == string(value) && isReady(u) {
			ready.see(u.GetName())
		}
	})()
	if err := edit(ctx, value); err != nil {
		return mixedEdit{}, err
	}
	var out mixedEdit
	if out.updated, err = updated.wait(ctx); err != nil {
		return out, err
	}
	if out.ready, err = ready.wait(ctx); err != nil {
		return out, err
	}
	if err := m.calm(ctx); err != nil {
		return out, err
	}
	used, err := m.usedSince(before)
	out.cpu, out.writes = used.cpu[harness.Manager], used.perCluster(ourAccount, len(m.clusters))
	progress("edit: the last cluster has the edit after %.2f s, and is Ready after %.2f s; %s", out.updated.Seconds(), out.ready.Seconds(), used)
	return out, err
}

// editEach edits the KnativeServing of each cluster, with the manager's limits of requests.
func (m *mixedFleet) editEach(ctx context.Context, value []byte) error {
	patch := fmt.Appendf(nil, `{"spec":%s}`, editPatch(value))
	return played.ForEachCluster(ctx, m.clusters, func(ctx context.Context, cluster string) error {
		_, err := m.configs.Resource(api.Serving.Resource()).Namespace(mixedNamespace).Patch(ctx, cluster, types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil {
			return fmt.Errorf("cannot edit the KnativeServing of %s: %w", cluster, err)
		}
		return nil
	})
}

// adopt creates a KnativeFleet that takes over the KnativeServing of each cluster.
func (m *mixedFleet) adopt(ctx context.Context) error {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, api.FleetAdoptAnnotation, fleetName)
	err := played.ForEachCluster(ctx, m.clusters, func(ctx context.Context, cluster string) error {
		_, err := m.configs.Resource(api.Serving.Resource()).Namespace(mixedNamespace).Patch(ctx, cluster, types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil {
			return fmt.Errorf("cannot annotate the KnativeServing of %s: %w", cluster, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	_, err = m.configs.Resource(fleetv1alpha1.Resource()).Namespace(mixedNamespace).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": fleetv1alpha1.Group + "/" + fleetv1alpha1.Version, "kind": fleetv1alpha1.Kind, "metadata": map[string]any{"name": fleetName},
		"spec": map[string]any{
			"selector": map[string]any{}, "serving": map[string]any{"spec": servingSpec()}, "rolloutStrategy": map[string]any{"type": "All"},
		},
	}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("cannot create the KnativeFleet: %w", err)
	}
	return m.awaitFleet(ctx)
}

// awaitFleet waits until the KnativeFleet is Ready with every cluster.
func (m *mixedFleet) awaitFleet(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		u, err := m.configs.Resource(fleetv1alpha1.Resource()).Namespace(mixedNamespace).Get(ctx, fleetName, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("cannot get the KnativeFleet: %w", err)
		}
		total, _, _ := unstructured.NestedInt64(u.Object, "status", "rollout", "total")
		if isReady(u) && total == int64(len(m.clusters)) {
			return nil
		}
		if err := pause(ctx, poll); err != nil {
			return fmt.Errorf("the KnativeFleet is not Ready with %d clusters: %v: %w", len(m.clusters), u.Object["status"], err)
		}
	}
}

// editFleet edits the template of the KnativeFleet.
func (m *mixedFleet) editFleet(ctx context.Context, value []byte) error {
	patch := fmt.Appendf(nil, `{"spec":{"serving":{"spec":%s}}}`, editPatch(value))
	_, err := m.configs.Resource(fleetv1alpha1.Resource()).Namespace(mixedNamespace).Patch(ctx, fleetName, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("cannot edit the KnativeFleet: %w", err)
	}
	return nil
}

func (m *mixedFleet) mixedRows(installed time.Duration, each, one []mixedEdit) []row {
	clusters := fmt.Sprintf("%d managed clusters and %d clusters without a work agent", m.opts.clusters, m.opts.spokes)
	rows := []row{
		{what: fmt.Sprintf("first installation on %s, a KnativeServing for each: all are Ready", clusters), value: seconds(installed)},
	}
	rows = append(rows, m.editRowsOf("edit of one line of each of these KnativeServings: last cluster updated", each, nil)...)
	return append(rows, m.editRowsOf("edit of the same line of one KnativeFleet: last cluster updated", one, each)...)
}

// editRowsOf returns the rows of edits, compared with other edits unless those are nil.
func (m *mixedFleet) editRowsOf(what string, edits, others []mixedEdit) []row {
	of := func(edits []mixedEdit, value func(mixedEdit) time.Duration) time.Duration {
		var all []time.Duration
		for _, e := range edits {
			all = append(all, value(e))
		}
		return median(all)
	}
	updated, cpu := func(e mixedEdit) time.Duration { return e.updated }, func(e mixedEdit) time.Duration { return e.cpu }
	rows := []row{
		{what: what, value: seconds(of(edits, updated))},
		{what: "... the manager's CPU for each cluster", value: milliseconds(m.ofEach(of(edits, cpu)))},
		{what: "... last KnativeServing Ready", value: seconds(of(edits, func(e mixedEdit) time.Duration { return e.ready }))},
		{what: "... the manager's writes for each cluster", value: edits[len(edits)-1].writes},
	}
	if others == nil {
		return rows
	}
	for i, value := range []func(mixedEdit) time.Duration{updated, cpu} {
		times := of(edits, value).Seconds() / of(others, value).Seconds()
		rows[i].goal, rows[i].missed = fmt.Sprintf("%.2f times the edit of each KnativeServing, at most %.1f", times, goalFleet), times > goalFleet
	}
	return rows
}
