// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workclient "open-cluster-management.io/api/client/work/clientset/versioned"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/e2e/harness/invariants"
	"open-cluster-management.io/knative-addon/test/lab"
	"open-cluster-management.io/knative-addon/test/lab/process"
)

// program is a process of the add-on in a lab, running or ended.
type program struct {
	lab.Component

	log string
	// logError is the error of reading the log.
	logError error
}

// listPrograms lists all processes of the add-on, and the recorded programs of pods.
func (s *storyRecord) listPrograms() []program {
	out := slices.Clone(s.pods)
	for _, c := range s.lab.Components() {
		if filepath.Base(c.Command[0]) == "knative-addon" {
			log, err := os.ReadFile(c.Log)
			out = append(out, program{c, string(log), err})
		}
	}
	return out
}

// recordPod keeps the log of a program that runs in a pod, in place of an earlier log of the pod.
func recordPod(t *testing.T, l *lab.Lab, of program) {
	t.Helper()
	s := storyOf(t, l)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pods = append(slices.DeleteFunc(s.pods, func(p program) bool { return p.Name == of.Name }), of)
}

func (p program) hasFailed() bool { return p.State == process.Failed }

// isRunning reports whether the program runs controllers.
func (p program) isRunning() bool { return p.State == process.Running }

func (p program) peakMemory() (float64, error) {
	if p.PID == 0 {
		return 0, nil
	}
	return harness.PeakMemory(p.PID)
}

func (s *storyRecord) isRunning(component string) bool {
	return slices.ContainsFunc(s.lab.Components(), func(c lab.Component) bool { return c.Name == component && c.State == process.Running })
}

// hasStoppedCluster reports whether the story has left an API server or an agent stopped or paused: nothing converges without these.
func (s *storyRecord) hasStoppedCluster() bool {
	return slices.ContainsFunc(s.lab.Components(), func(c lab.Component) bool {
		return c.State != process.Running && (strings.HasSuffix(c.Name, "-apiserver") || strings.HasSuffix(c.Name, "-agent"))
	})
}

// report is the final status of an object with the place of its installation.
type report struct {
	invariants.Report

	object *unstructured.Unstructured
	// component is empty for kinds that install nothing.
	component api.Component
	size      int
}

var (
	addOnResource = schema.GroupVersionResource{Group: "addon.open-cluster-management.io", Version: "v1beta1", Resource: "managedclusteraddons"}
	workResource  = schema.GroupVersionResource{Group: "work.open-cluster-management.io", Version: "v1", Resource: "manifestworks"}
)

// readReports reads the resources of this project and its add-ons.
func (s *storyRecord) readReports(ctx context.Context) ([]report, error) {
	client, err := dynamic.NewForConfig(s.lab.Hub.Config)
	if err != nil {
		return nil, err
	}
	var out []report
	for _, component := range api.Components() {
		for _, gvr := range []schema.GroupVersionResource{component.Resource(), addOnResource} {
			list, err := listAll(ctx, client, gvr)
			if err != nil {
				return nil, err
			}
			for i := range list {
				o := &list[i]
				if gvr == addOnResource && o.GetName() != component.AddOnName() {
					continue
				}
				r, err := readReport(o)
				if err != nil {
					return nil, err
				}
				r.component = component
				out = append(out, r)
			}
		}
	}
	fleets, err := listAll(ctx, client, fleetv1alpha1.Resource())
	if err != nil {
		return nil, err
	}
	for i := range fleets {
		r, err := readReport(&fleets[i])
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

// listAll lists the objects of a resource in all namespaces; none when the cluster does not know the resource.
func listAll(ctx context.Context, client dynamic.Interface, gvr schema.GroupVersionResource) ([]unstructured.Unstructured, error) {
	list, err := client.Resource(gvr).List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot list %s: %w", gvr.Resource, err)
	}
	return list.Items, nil
}

func readReport(o *unstructured.Unstructured) (report, error) {
	var status struct {
		ObservedGeneration int64              `json:"observedGeneration"`
		Conditions         []metav1.Condition `json:"conditions"`
	}
	raw, _, err := unstructured.NestedMap(o.Object, "status")
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &status)
	}
	if err != nil {
		return report{}, fmt.Errorf("cannot read the status of %s %s/%s: %w", o.GetKind(), o.GetNamespace(), o.GetName(), err)
	}
	encoded, err := json.Marshal(raw) // users write the spec and the metadata
	if err != nil {
		return report{}, err
	}
	r := report{object: o, size: len(encoded), Report: invariants.Report{
		Name: o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName(), Deleting: o.GetDeletionTimestamp() != nil,
		Generation: o.GetGeneration(), Observed: o.GetGeneration(), Conditions: status.Conditions,
	}}
	if group := o.GroupVersionKind().Group; group == api.Group || group == fleetv1alpha1.Group { // the programs of the add-on write these statuses
		r.Observed = status.ObservedGeneration
	}
	return r, nil
}

// readInstallation reads the workloads of an installation that is reported to work; nil for other reports, and for clusters that are
// not of this lab or do not run.
func (s *storyRecord) readInstallation(ctx context.Context, r *report) (*invariants.Installation, error) {
	claims := api.Ready
	if r.object.GetKind() == "ManagedClusterAddOn" {
		claims = "Available"
	}
	if r.Deleting || !apimeta.IsStatusConditionTrue(r.Conditions, claims) {
		return nil, nil
	}
	c, err := s.clusterOf(ctx, r.object)
	if c == nil || err != nil || !s.isRunning(c.Name+"-apiserver") {
		return nil, err
	}
	if agent := c.Name + "-agent"; slices.Contains(s.lab.Managed, c) && !s.isRunning(agent) {
		return nil, nil
	}
	out := &invariants.Installation{Name: r.Name, Cluster: c.Name, Generation: r.Generation, Observed: r.Observed}
	if out.Workloads, err = deliveredWorkloads(ctx, c, r.component); err != nil {
		return nil, err
	}
	if r.object.GetKind() == "ManagedClusterAddOn" && !apimeta.IsStatusConditionTrue(r.Conditions, addonv1beta1.ManagedClusterAddOnConditionProgressing) {
		out.FalseConditions, err = s.falseConditions(ctx, c.Name, r.component)
	}
	return out, err
}

// falseConditions returns the conditions Applied and Available of the component's ManifestWorks for a cluster that are False.
func (s *storyRecord) falseConditions(ctx context.Context, cluster string, component api.Component) ([]string, error) {
	client, err := workclient.NewForConfig(s.lab.Hub.Config)
	if err != nil {
		return nil, err
	}
	works, err := client.WorkV1().ManifestWorks(cluster).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("cannot list the ManifestWorks of %s: %w", cluster, err)
	}
	var out []string
	for i := range works.Items {
		w := &works.Items[i]
		if w.Labels[api.FoundationLabel] != string(component) && w.Labels[addonv1beta1.AddonLabelKey] != component.AddOnName() {
			continue
		}
		for _, condition := range []string{workv1.WorkApplied, workv1.WorkAvailable} {
			if apimeta.IsStatusConditionFalse(w.Status.Conditions, condition) {
				out = append(out, fmt.Sprintf("ManifestWork %s/%s: %s", cluster, w.Name, condition))
			}
		}
	}
	return out, nil
}

// clusterOf returns the cluster that a resource or an add-on installs on; nil when it installs nothing, or elsewhere.
func (s *storyRecord) clusterOf(ctx context.Context, o *unstructured.Unstructured) (*lab.Cluster, error) {
	named := func(name string) *lab.Cluster {
		if i := slices.IndexFunc(s.lab.Managed, func(c *lab.Cluster) bool { return c.Name == name }); i >= 0 {
			return s.lab.Managed[i]
		}
		return nil
	}
	if o.GetKind() == "ManagedClusterAddOn" {
		return named(o.GetNamespace()), nil
	}
	reference, found, err := unstructured.NestedStringMap(o.Object, "spec", "clusterProfileRef")
	if err != nil || !found {
		return nil, err
	}
	client, err := dynamic.NewForConfig(s.lab.Hub.Config)
	if err != nil {
		return nil, err
	}
	profile, err := client.Resource(profileResource).Namespace(reference["namespace"]).Get(ctx, reference["name"], metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("cannot get the ClusterProfile of a resource that is Ready: %w", err)
	}
	manager, _, _ := unstructured.NestedString(profile.Object, "spec", "clusterManager", "name")
	if manager == api.ClusterManagerOCM && profile.GetAnnotations()[api.DeliveryAnnotation] != api.DeliveryDirect {
		return named(profile.GetLabels()["open-cluster-management.io/cluster-name"]), nil
	}
	providers, _, _ := unstructured.NestedSlice(profile.Object, "status", "accessProviders")
	for _, p := range providers {
		entry, _ := p.(map[string]any)
		server, _, _ := unstructured.NestedString(entry, "cluster", "server")
		for _, c := range s.lab.Clusters() {
			if c.URL == server {
				return c, nil
			}
		}
	}
	return nil, nil // through a proxy, or to a cluster that the test plays
}

// deliveredWorkloads reads the workloads of a component on a cluster.
func deliveredWorkloads(ctx context.Context, c *lab.Cluster, component api.Component) ([]invariants.Workload, error) {
	client, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return nil, err
	}
	deployments, err := client.AppsV1().Deployments("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("cannot list the Deployments of %s: %w", c.Name, err)
	}
	sets, err := client.AppsV1().StatefulSets("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("cannot list the StatefulSets of %s: %w", c.Name, err)
	}
	var out []invariants.Workload
	for i := range deployments.Items {
		d := &deployments.Items[i]
		if isDelivered(d) && isPartOf(d, component) {
			out = append(out, invariants.Workload{
				Name: "Deployment " + d.Namespace + "/" + d.Name, Generation: d.Generation, Observed: d.Status.ObservedGeneration,
				Desired: *d.Spec.Replicas, Available: d.Status.AvailableReplicas,
			})
		}
	}
	for i := range sets.Items {
		d := &sets.Items[i]
		if isDelivered(d) && isPartOf(d, component) {
			out = append(out, invariants.Workload{
				Name: "StatefulSet " + d.Namespace + "/" + d.Name, Generation: d.Generation, Observed: d.Status.ObservedGeneration,
				Desired: *d.Spec.Replicas, Available: d.Status.AvailableReplicas,
			})
		}
	}
	return out, nil
}

// isPartOf reports whether a workload is of the component. A work agent does not label objects: Knative's own label decides.
func isPartOf(o metav1.Object, component api.Component) bool {
	if label := o.GetLabels()[api.ComponentLabel]; label != "" {
		return label == string(component)
	}
	return o.GetLabels()["app.kubernetes.io/name"] == component.AddOnName()
}

// isDelivered reports whether the add-on has applied the object, directly or by a work agent.
func isDelivered(o metav1.Object) bool {
	if o.GetLabels()[api.ComponentLabel] != "" {
		return true
	}
	return slices.ContainsFunc(o.GetManagedFields(), func(f metav1.ManagedFieldsEntry) bool {
		return strings.HasPrefix(f.Manager, "work-agent") && f.Operation == metav1.ManagedFieldsOperationApply
	})
}

// readOrphanedNotes reads the notes of Events Orphaned.
func (s *storyRecord) readOrphanedNotes(ctx context.Context) ([]string, error) {
	client, err := kubernetes.NewForConfig(s.lab.Hub.Config)
	if err != nil {
		return nil, err
	}
	list, err := client.CoreV1().Events("").List(ctx, metav1.ListOptions{FieldSelector: "reason=Orphaned"})
	if err != nil {
		return nil, fmt.Errorf("cannot list the Events of the hub: %w", err)
	}
	var out []string
	for i := range list.Items {
		out = append(out, list.Items[i].Message)
	}
	return out, nil
}
