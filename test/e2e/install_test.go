// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
)

// installBothComponents is the life of an installation on two clusters: enabled, looked after, disabled, enabled again.
func installBothComponents(t *testing.T, f *harness.Fleet) {
	enabled(t, f, api.Components(), f.Managed...)
	one := connect(t, f.Managed[0])

	t.Run("every object is applied", func(t *testing.T) { checkEverythingApplied(t, f) })
	t.Run("the workloads are available on the clusters", func(t *testing.T) {
		for _, c := range f.Managed {
			checkWorkloadsAvailable(t, connect(t, c))
		}
	})
	t.Run("fields of the cluster survive resyncs of the work agent", func(t *testing.T) { checkSpokeFieldsKept(t, f, one) })
	t.Run("disable keeps CRDs and Namespaces, enable adopts both", func(t *testing.T) { disableAndEnable(t, f, one) })
}

func checkEverythingApplied(t *testing.T, f *harness.Fleet) {
	for _, c := range f.Managed {
		for _, component := range api.Components() {
			settled(t, f, component, c)
			works, err := f.ComponentWorks(t.Context(), component, c.Name)
			if err != nil {
				t.Fatal(err)
			}
			if len(works) != 3 {
				t.Errorf("%s on %s is %d works, want foundation, payload and gate", component, c.Name, len(works))
			}
			for i := range works {
				applied, why := manifestwork.Applied(&works[i])
				if !applied {
					t.Errorf("%s on %s is not applied: %s", works[i].Name, c.Name, why)
				}
				if want, got := len(works[i].Spec.Workload.Manifests), len(works[i].Status.ResourceStatus.Manifests); want != got {
					t.Errorf("%s on %s: %d of %d objects are reported", works[i].Name, c.Name, got, want)
				}
				bytes := 0
				for _, m := range works[i].Spec.Workload.Manifests {
					bytes += len(m.Raw)
				}
				t.Logf("%s on %s: %d objects, %d bytes", works[i].Name, c.Name, len(works[i].Spec.Workload.Manifests), bytes)
			}
		}
	}
}

func checkWorkloadsAvailable(t *testing.T, s spoke) {
	want := map[string]int{"knative-serving": 7, "knative-eventing": 9}
	got := map[string]int{}
	list, err := s.kube.AppsV1().Deployments("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range list.Items {
		got[d.Namespace]++
		if d.Status.AvailableReplicas < 1 {
			t.Errorf("%s: Deployment %s/%s has no available pod", s.Name, d.Namespace, d.Name)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: Deployments by namespace (-want +got):\n%s", s.Name, diff)
	}
}

// checkSpokeFieldsKept edits a ConfigMap, which the agent's next resync repairs, so that its repair proves a resync. What
// Knative and autoscalers have written, and what a finished Job has left, must be the same before and after two of them.
func checkSpokeFieldsKept(t *testing.T, f *harness.Fleet, s spoke) {
	ctx := t.Context()
	// A hand that scales as an autoscaler would.
	if err := s.scale(ctx, "activator", 2); err != nil {
		t.Fatal(err)
	}
	job := findFinishedJob(t, s)
	deleteJob(t, f, s, job)
	s.awaitWebhooksWritten(t)
	before := awaitRest(t, "what Knative has written on "+s.Name, func(context.Context) (map[string]string, error) {
		return readSpokeFields(t, s), nil //nolint:contextcheck // the function uses the context of the test
	})
	if len(before) < 10 {
		t.Fatalf("Knative's webhooks have written next to nothing: %v", before)
	}
	for range 2 {
		awaitResync(t, s, "knative-serving", "knative-eventing")
	}
	if diff := cmp.Diff(before, readSpokeFields(t, s)); diff != "" {
		t.Errorf("resyncs have changed what belongs to the cluster (-before +after):\n%s", diff)
	}
	d, err := s.kube.AppsV1().Deployments("knative-serving").Get(ctx, "activator", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := *d.Spec.Replicas; got != 2 {
		t.Errorf("activator has %d replicas after resyncs, want the 2 that it was scaled to", got)
	}
	if _, err := s.kube.BatchV1().Jobs("knative-serving").Get(ctx, job, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("finished and removed Job %q is back (error %v)", job, err)
	}
	available(t, f, []api.Component{api.Serving}, s.Cluster)
}

// scale sets the replicas of a Deployment of Serving. The cluster writes the status of the Deployment at any time, so that an update of its
// scale might conflict.
func (s spoke) scale(ctx context.Context, deployment string, replicas int) error {
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	deployments := s.dynamic.Resource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}).Namespace(servingNamespace)
	_, err := deployments.Patch(ctx, deployment, types.MergePatchType, patch, metav1.PatchOptions{}, "scale")
	return err
}

// deleteJob deletes a finished Job until the payload no longer carries the Job. An agent that applies the payload before the agent
// reports the deletion creates the Job again.
func deleteJob(t *testing.T, f *harness.Fleet, s spoke, job string) {
	t.Helper()
	background := metav1.DeletePropagationBackground
	eventually(t, "the payload no longer carries the removed Job", 2*time.Minute, func(ctx context.Context) error {
		err := s.kube.BatchV1().Jobs("knative-serving").Delete(ctx, job, metav1.DeleteOptions{PropagationPolicy: &background})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		return payloadLacksJob(ctx, f, s.Cluster, job)
	})
}

func payloadLacksJob(ctx context.Context, f *harness.Fleet, c *lab.Cluster, job string) error {
	works, err := f.ComponentWorks(ctx, api.Serving, c.Name)
	if err != nil {
		return err
	}
	for _, w := range works {
		for _, m := range w.Spec.Workload.Manifests {
			if strings.Contains(string(m.Raw), `"kind":"Job"`) && strings.Contains(string(m.Raw), job) {
				return fmt.Errorf("%s has it", w.Name)
			}
		}
	}
	return nil
}

func findFinishedJob(t *testing.T, s spoke) string {
	t.Helper()
	var name string
	eventually(t, "a Job of Serving has finished", time.Minute, func(ctx context.Context) error {
		jobs, err := s.kube.BatchV1().Jobs("knative-serving").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, j := range jobs.Items {
			if j.Status.Succeeded == 1 && strings.HasPrefix(j.Name, "storage-version-migration") {
				name = j.Name
				return nil
			}
		}
		return fmt.Errorf("none of %d has", len(jobs.Items))
	})
	return name
}

// awaitResync edits a ConfigMap of each namespace at once, and waits until the agent has repaired all.
func awaitResync(t *testing.T, s spoke, namespaces ...string) {
	t.Helper()
	const name, label = "config-leader-election", "app.kubernetes.io/name"
	original := map[string]string{}
	for _, namespace := range namespaces {
		found, err := s.kube.CoreV1().ConfigMaps(namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		original[namespace] = found.Labels[label]
	}
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:"edited-by-hand"}}}`, label)
	for _, namespace := range namespaces {
		_, err := s.kube.CoreV1().ConfigMaps(namespace).Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, namespace := range namespaces {
		eventually(t, "the edited ConfigMap of "+namespace+" is repaired", 4*resync, func(ctx context.Context) error {
			now, err := s.kube.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
			if err == nil && now.Labels[label] != original[namespace] {
				err = fmt.Errorf("ConfigMap %s/%s still has label %q", namespace, name, now.Labels[label])
			}
			return err
		})
	}
}

// readSpokeFields is what Knative writes on the cluster: the resourceVersions of its certificate Secrets, and the rules and CA
// bundles of its webhooks and converting CRDs.
func readSpokeFields(t *testing.T, s spoke) map[string]string {
	t.Helper()
	out := map[string]string{}
	secrets, err := s.kube.CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range secrets.Items {
		if strings.HasPrefix(secret.Namespace, "knative-") && len(secret.Data) > 0 {
			out["Secret "+secret.Namespace+"/"+secret.Name] = secret.ResourceVersion
		}
	}
	for _, resource := range []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"} {
		for _, o := range s.list(t, "admissionregistration.k8s.io", "v1", resource) {
			webhooks, _, _ := unstructured.NestedSlice(o.Object, "webhooks")
			for _, w := range webhooks {
				m := w.(map[string]any) //nolint:forcetypeassert // of the API server
				out[resource+" "+o.GetName()+" "+fmt.Sprint(m["name"])] = fmt.Sprint(m["rules"], m["clientConfig"], m["namespaceSelector"])
			}
		}
	}
	for _, o := range s.list(t, "apiextensions.k8s.io", "v1", "customresourcedefinitions") {
		if bundle, found, _ := unstructured.NestedString(o.Object, "spec", "conversion", "webhook", "clientConfig", "caBundle"); found {
			out["CustomResourceDefinition "+o.GetName()] = bundle
		}
	}
	return out
}

func disableAndEnable(t *testing.T, f *harness.Fleet, s spoke) {
	both := api.Components()
	kept := foundationUIDs(t, s)
	if len(kept) == 0 {
		t.Fatal("the cluster has no CRD and no Namespace of Knative")
	}
	if err := f.Disable(t.Context(), names(both), []string{s.Name}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the add-ons and their works are gone from the hub", 3*time.Minute, func(ctx context.Context) error {
		addOns, err := f.AddOns.AddonV1beta1().ManagedClusterAddOns(s.Name).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		works, err := f.Works.WorkV1().ManifestWorks(s.Name).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(addOns.Items)+len(works.Items) > 0 {
			return fmt.Errorf("%d add-ons and %d works are left", len(addOns.Items), len(works.Items))
		}
		return nil
	})
	s.emptied(t)
	if diff := cmp.Diff(kept, foundationUIDs(t, s)); diff != "" {
		t.Errorf("disable has not kept CRDs and Namespaces (-before +after):\n%s", diff)
	}
	enabled(t, f, both, s.Cluster)
	if diff := cmp.Diff(kept, foundationUIDs(t, s)); diff != "" {
		t.Errorf("enable has not adopted CRDs and Namespaces (-before +after):\n%s", diff)
	}
}

// foundationUIDs are the CRDs and Namespaces of Knative that are not being deleted, by UID.
func foundationUIDs(t *testing.T, s spoke) map[string]types.UID {
	t.Helper()
	out := map[string]types.UID{}
	for _, o := range append(s.list(t, "apiextensions.k8s.io", "v1", "customresourcedefinitions"), s.list(t, "", "v1", "namespaces")...) {
		if strings.Contains(o.GetName(), "knative") && o.GetDeletionTimestamp() == nil {
			out[o.GetKind()+" "+o.GetName()] = o.GetUID()
		}
	}
	return out
}

// listLeftovers are the objects of an installation that should be gone: workloads, webhook configurations, RBAC, and
// everything in Knative's namespaces but what Kubernetes itself puts there.
func listLeftovers(t *testing.T, s spoke) []string {
	t.Helper()
	out, err := s.fetchLeftovers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// emptied waits until nothing of an installation is left. A work agent that was applying when a work was deleted may create
// objects again after the deletion: the objects belong to the deleted AppliedManifestWork, and the garbage collector of the cluster
// deletes the objects. The controllers of a cluster retry only after up to a minute when the API server was gone.
func (s spoke) emptied(t *testing.T) {
	t.Helper()
	s.awaitRemovedExcept(t, "")
}

// awaitRemovedExcept waits until nothing of an installation is left but objects whose names hold the text, if the text is not empty.
func (s spoke) awaitRemovedExcept(t *testing.T, text string) {
	t.Helper()
	eventually(t, "nothing is left on "+s.Name, 3*time.Minute, func(ctx context.Context) error {
		left, err := s.fetchLeftovers(ctx)
		left = slices.DeleteFunc(left, func(object string) bool { return text != "" && strings.Contains(object, text) })
		if err == nil && len(left) > 0 {
			err = errors.New(strings.Join(left, ", "))
		}
		return err
	})
}

func (s spoke) fetchLeftovers(ctx context.Context) ([]string, error) {
	namespaced := map[string]string{
		"deployments": "apps", "statefulsets": "apps", "replicasets": "apps", "pods": "", "services": "", "configmaps": "", "secrets": "",
		"serviceaccounts": "", "roles": "rbac.authorization.k8s.io", "rolebindings": "rbac.authorization.k8s.io", "jobs": "batch",
		"horizontalpodautoscalers": "autoscaling", "poddisruptionbudgets": "policy",
		"images": "caching.internal.knative.dev", "certificates": "networking.internal.knative.dev",
	}
	version := map[string]string{
		"horizontalpodautoscalers": "v2", "images": "v1alpha1", "certificates": "v1alpha1",
	}
	ofKubernetes := map[string]bool{"kube-root-ca.crt": true, "default": true}
	var out []string
	for resource, group := range namespaced {
		v := version[resource]
		if v == "" {
			v = "v1"
		}
		items, err := s.listed(ctx, schema.GroupVersionResource{Group: group, Version: v, Resource: resource})
		if err != nil {
			return nil, err
		}
		for _, o := range items {
			if strings.HasPrefix(o.GetNamespace(), "knative-") && !ofKubernetes[o.GetName()] {
				out = append(out, resource+" "+o.GetNamespace()+"/"+o.GetName())
			}
		}
	}
	clusterScoped := map[string]string{
		"mutatingwebhookconfigurations": "admissionregistration.k8s.io", "validatingwebhookconfigurations": "admissionregistration.k8s.io",
		"clusterroles": "rbac.authorization.k8s.io", "clusterrolebindings": "rbac.authorization.k8s.io",
	}
	for resource, group := range maps.All(clusterScoped) {
		items, err := s.listed(ctx, schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource})
		if err != nil {
			return nil, err
		}
		for _, o := range items {
			for _, word := range []string{"knative", "kourier", "eventing"} {
				if strings.Contains(o.GetName(), word) {
					out = append(out, resource+" "+o.GetName())
					break
				}
			}
		}
	}
	return out, nil
}

// chartOnServer has the API server check the whole chart, with everything that values can add to it.
func chartOnServer(t *testing.T, f *harness.Fleet) {
	out, err := f.Template(t.Context(), "--skip-tests", "--set", "podDisruptionBudget.enabled=true", "--set", "replicaCount=2",
		"--set", "rendering.remoteManifestsAllowedHosts={example.com}", "--set", "rendering.allowedKinds={Widget.example.com}",
		"--set", "localInstalls=true", "--set", "serving.installStrategy.type=Placements", "--values", multiclusterValues(t, "ImageVolume", "/access/secretreader"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(kubectlDir(t), "chart.yaml")
	if err := os.WriteFile(file, []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := f.Command(t.Context(), "kubectl", "apply", "--dry-run=server", "--filename", file)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{
		"deployment.apps", "poddisruptionbudget", "clusterrole.rbac", "clustermanagementaddon", "knativeserving", "knativeeventing", "placement.cluster",
	} {
		if !strings.Contains(got, kind) {
			t.Errorf("the chart has no %s:\n%s", kind, got)
		}
	}
}
