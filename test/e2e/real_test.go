// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
)

const (
	// helloPods selects the pods of the user's Service.
	helloPods = "serving.knative.dev/service=hello"

	// loadInterval is the time between two requests of a load, requestTimeout the time that an answer may take. A load goes on for
	// loadMargin before and after the tested step, and has at least fewestRequests.
	loadInterval   = 50 * time.Millisecond
	requestTimeout = 15 * time.Second
	loadMargin     = 5 * time.Second
	fewestRequests = 150
)

// realStory is a fleet whose first cluster has a real node, with a Service of a user there.
type realStory struct {
	*harness.Fleet

	on spoke
	// servings are the KnativeServings of the hub.
	servings dynamic.ResourceInterface
}

// TestRealNode takes Knative through its life on a node that runs pods, while a Service of a user answers requests. Each step continues
// the step before. The images of 1.22 contain the programs of 1.23: an upgrade replaces configuration and all pods, and no program.
func TestRealNode(t *testing.T) {
	startRealStory(t)
	l := ownLab(t, lab.Options{ManagedClusters: 1, RealNode: true, StatusSyncInterval: 2 * time.Second, Log: os.Stderr})
	f, err := harness.Install(t.Context(), l, harness.Options{})
	if err != nil {
		t.Fatal(err)
	}
	logManagerOnFailure(t, f)
	hub, err := dynamic.NewForConfig(l.Hub.Config)
	if err != nil {
		t.Fatal(err)
	}
	r := &realStory{Fleet: f, on: connect(t, l.Managed[0]), servings: hub.Resource(api.Serving.Resource()).Namespace(harness.Namespace)}
	t.Cleanup(func() { r.logPodsOnFailure(t) })
	r.configure(t, smallSpec("1.22"))

	for _, step := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"a Service of a user answers after the installation", r.installServing},
		{"a Service scales to zero and back", r.scaleToZero},
		{"an edit of the configuration restarts no pod", r.editConfiguration},
		{"no request fails during an upgrade", r.upgrade},
		{"no request fails when an activator pod is deleted", r.deleteActivator},
		{"the add-on leaves the hub after the last pod", r.removeServing},
		{"the Service answers again after a reinstallation", r.reinstallServing},
	} {
		if !t.Run(step.name, step.run) {
			return
		}
	}
}

// smallSpec is a spec of Serving whose requests of CPU leave room for two replicas on two cores, and with which Services scale to zero
// in seconds.
func smallSpec(version string) map[string]any {
	var workloads []any
	for deployment, container := range map[string]string{
		"activator": "activator", "autoscaler": "autoscaler", "autoscaler-hpa": "autoscaler-hpa", "controller": "controller", "webhook": "webhook",
		"net-kourier-controller": "controller", "3scale-kourier-gateway": "kourier-gateway",
	} {
		workloads = append(workloads, map[string]any{"name": deployment, "resources": []any{map[string]any{
			"container": container, "requests": map[string]any{"cpu": "20m"},
		}}})
	}
	spec := kourier()
	spec["version"], spec["workloads"] = version, workloads
	spec["config"] = map[string]any{
		"network":    map[string]any{"ingress-class": "kourier.ingress.networking.knative.dev"},
		"domain":     map[string]any{"first.test": ""},
		"autoscaler": map[string]any{"stable-window": "6s", "scale-to-zero-grace-period": "3s"},
	}
	return spec
}

// configure changes the default KnativeServing of the fleet by a merge patch of its spec.
func (r *realStory) configure(t *testing.T, spec map[string]any) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"spec": spec})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.servings.Patch(t.Context(), "default", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// policyRefresh is longer than an API server takes to enforce a new admission policy.
const policyRefresh = 1500 * time.Millisecond

// installServing installs Serving 1.22. The user applies the Service as soon as the cluster accepts the Service: the policies that await
// the start of the webhooks refuse earlier requests.
func (r *realStory) installServing(t *testing.T) {
	start := time.Now()
	if err := r.Enable(t.Context(), []string{api.Serving.AddOnName()}, []string{r.on.Name}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the cluster has the policies", 3*time.Minute, func(ctx context.Context) error {
		bindings := r.on.kube.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
		_, err := bindings.Get(ctx, "started.webhook.serving.knative.dev", metav1.GetOptions{})
		return err
	})
	time.Sleep(policyRefresh)
	eventually(t, "the cluster accepts the Service of a user", 3*time.Minute, func(ctx context.Context) error {
		return r.on.Apply(ctx, []byte(harness.HelloManifest))
	})
	t.Logf("the Service was accepted after %s", time.Since(start).Round(100*time.Millisecond))
	r.answers(t)
	t.Logf("the first answer came after %s", time.Since(start).Round(100*time.Millisecond))
	available(t, r.Fleet, []api.Component{api.Serving}, r.on.Cluster)
	t.Logf("the add-on was Available after %s", time.Since(start).Round(100*time.Millisecond))

	service := r.service(t)
	if creator := service.GetAnnotations()["serving.knative.dev/creator"]; creator == "" {
		t.Error("Service hello has no annotation with its creator: the cluster accepted the Service without Knative's webhook")
	}
	if revisions := r.on.list(t, "serving.knative.dev", "v1", "revisions"); len(revisions) != 1 {
		t.Errorf("the new Service has %d Revisions, want 1", len(revisions))
	}
	if err := r.on.runs("1.22.")(t.Context()); err != nil {
		t.Error(err)
	}
}

// service reads the Service of the user.
func (r *realStory) service(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	s, err := harness.Hello(t.Context(), r.on.Cluster)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// answers waits until the Service is Ready and the gateway answers requests to its URL with its text.
func (r *realStory) answers(t *testing.T) {
	t.Helper()
	eventually(t, "the Service of the user answers", 3*time.Minute, func(ctx context.Context) error {
		service, err := harness.Hello(ctx, r.on.Cluster)
		if err != nil {
			return err
		}
		if !hasTrueCondition(service, "Ready") {
			conditions, _, _ := unstructured.NestedSlice(service.Object, "status", "conditions")
			return fmt.Errorf("Service hello is not Ready: %v", conditions)
		}
		request, err := harness.HelloRequest(ctx, r.on.Cluster)
		if err != nil {
			return err
		}
		_, err = harness.Answer(request, harness.HelloText, requestTimeout)
		return err
	})
}

func hasTrueCondition(u *unstructured.Unstructured, condition string) bool {
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(c any) bool {
		m, isMap := c.(map[string]any)
		return isMap && m["type"] == condition && m["status"] == string(metav1.ConditionTrue)
	})
}

// scaleToZero waits until the Service has no pod, and sends a request.
func (r *realStory) scaleToZero(t *testing.T) {
	for range 2 {
		eventually(t, "the Service has no pod", 2*time.Minute, func(ctx context.Context) error {
			pods, err := r.on.kube.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: helloPods})
			if err == nil && len(pods.Items) > 0 {
				err = fmt.Errorf("the Service has %d pods", len(pods.Items))
			}
			return err
		})
		request, err := harness.HelloRequest(t.Context(), r.on.Cluster)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		// A Service at zero holds the request until a pod runs: the first request has to succeed.
		if _, err := harness.Answer(request, harness.HelloText, time.Minute); err != nil {
			t.Fatalf("the request that starts a pod: %v", err)
		}
		t.Logf("the answer of a Service without pods took %s", time.Since(start).Round(10*time.Millisecond))
	}
}

// editConfiguration changes the domain of all Services and a setting of the autoscaler. All pods read both while running.
func (r *realStory) editConfiguration(t *testing.T) {
	before := r.controlPlanePods(t)
	r.configure(t, map[string]any{"config": map[string]any{
		"domain":     map[string]any{"first.test": nil, "second.test": ""},
		"autoscaler": map[string]any{"stable-window": "7s"},
	}})
	eventually(t, "the Service has the new domain", time.Minute, func(ctx context.Context) error {
		service, err := harness.Hello(ctx, r.on.Cluster)
		if err != nil {
			return err
		}
		if url, _, _ := unstructured.NestedString(service.Object, "status", "url"); url != "http://hello.default.second.test" {
			return fmt.Errorf("the URL is %q", url)
		}
		return nil
	})
	r.answers(t)
	available(t, r.Fleet, []api.Component{api.Serving}, r.on.Cluster)
	settled(t, r.Fleet, api.Serving, r.on.Cluster)
	if diff := cmp.Diff(before, r.controlPlanePods(t)); diff != "" {
		t.Errorf("the edit has replaced or restarted pods of Knative (-before +after):\n%s", diff)
	}
}

// controlPlanePods returns the pods of Knative that are not finished, by UID, with the restarts of their containers.
func (r *realStory) controlPlanePods(t *testing.T) map[string]int32 {
	t.Helper()
	pods, err := r.on.kube.CoreV1().Pods(servingNamespace).List(t.Context(), metav1.ListOptions{FieldSelector: "status.phase=Running"})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int32{}
	for i := range pods.Items {
		p := &pods.Items[i]
		name := fmt.Sprintf("%s (%s)", p.Name, p.UID)
		out[name] = 0
		for _, c := range p.Status.ContainerStatuses {
			out[name] += c.RestartCount
		}
	}
	if len(out) < 7 {
		t.Fatalf("Knative has pods %v only", slices.Sorted(maps.Keys(out)))
	}
	return out
}

// upgrade takes Serving from 1.22 to 1.23 under a load of requests, with one replica of each workload.
func (r *realStory) upgrade(t *testing.T) {
	r.withLoad(t, func() {
		r.configure(t, map[string]any{"version": "1.23"})
		eventually(t, "the cluster goes up to 1.23", 3*time.Minute, r.on.runs("1.23."))
		available(t, r.Fleet, []api.Component{api.Serving}, r.on.Cluster)
		r.rolledOut(t)
	})
}

// withLoad runs a step while requests are sent at a constant rate, and holds that no request fails. The load goes on for a while after
// the step: pods that end still have connections.
func (r *realStory) withLoad(t *testing.T, step func()) {
	t.Helper()
	request, err := harness.HelloRequest(t.Context(), r.on.Cluster)
	if err != nil {
		t.Fatal(err)
	}
	load := harness.StartLoad(t.Context(), request, harness.HelloText, loadInterval, requestTimeout)
	stop := func() {
		report := load.Stop()
		t.Log(report)
		if report.Failed > 0 || report.Requests < fewestRequests {
			t.Errorf("%d of %d requests have failed, want none of at least %d", report.Failed, report.Requests, fewestRequests)
		}
	}
	defer stop() // also when the step fails
	time.Sleep(loadMargin)
	step()
	time.Sleep(loadMargin)
}

// isPodReady reports whether the pod has condition Ready.
func isPodReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// rolledOut waits until every Deployment of Knative has only pods of the present spec, and none that ends.
func (r *realStory) rolledOut(t *testing.T) {
	t.Helper()
	eventually(t, "the Deployments of Knative are rolled out", 3*time.Minute, func(ctx context.Context) error {
		list, err := r.on.kube.AppsV1().Deployments(servingNamespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range list.Items {
			d := &list.Items[i]
			if s := d.Status; s.ObservedGeneration != d.Generation || s.UpdatedReplicas != s.Replicas || s.AvailableReplicas != *d.Spec.Replicas {
				return fmt.Errorf("Deployment %s has status %+v", d.Name, d.Status)
			}
		}
		return nil
	})
}

// deleteActivator deletes one of two activator pods under load, as a drained node does. The activator holds the requests to a Service
// with few pods, so that all requests of the load pass an activator.
func (r *realStory) deleteActivator(t *testing.T) {
	r.configure(t, map[string]any{"high-availability": map[string]any{"replicas": 2}})
	activators := func(ctx context.Context) (map[types.UID]string, error) {
		pods, err := r.on.kube.CoreV1().Pods(servingNamespace).List(ctx, metav1.ListOptions{LabelSelector: "app=activator"})
		out := map[types.UID]string{}
		for i := range pods.Items {
			if p := &pods.Items[i]; p.DeletionTimestamp == nil && isPodReady(p) {
				out[p.UID] = p.Name
			}
		}
		return out, err
	}
	awaitTwo := func(without types.UID) map[types.UID]string {
		var found map[types.UID]string
		eventually(t, "two activator pods are Ready", 3*time.Minute, func(ctx context.Context) error {
			var err error
			if found, err = activators(ctx); err == nil && (len(found) != 2 || found[without] != "") {
				err = fmt.Errorf("pods %v are Ready", found)
			}
			return err
		})
		return found
	}
	pods := awaitTwo("")
	r.rolledOut(t)
	uid := slices.Sorted(maps.Keys(pods))[0]
	r.withLoad(t, func() {
		if err := r.on.kube.CoreV1().Pods(servingNamespace).Delete(t.Context(), pods[uid], metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		awaitTwo(uid)
	})
}

// removeServing disables the add-on. The hub must not report the end before the cluster has removed all pods.
func (r *realStory) removeServing(t *testing.T) {
	start := time.Now()
	if err := r.Disable(t.Context(), []string{api.Serving.AddOnName()}, []string{r.on.Name}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the add-on is gone from the hub", 5*time.Minute, func(ctx context.Context) error {
		a, err := r.AddOns.AddonV1beta1().ManagedClusterAddOns(r.on.Name).Get(ctx, api.Serving.AddOnName(), metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		}
		return fmt.Errorf("the conditions are %+v", a.Status.Conditions)
	})
	t.Logf("the removal took %s", time.Since(start).Round(100*time.Millisecond))
	left, err := r.on.listRunLeftovers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(left) > 0 {
		t.Errorf("the add-on has left the hub, and the cluster has %s", strings.Join(left, ", "))
	}
	r.on.emptied(t)
}

// listRunLeftovers lists what running pods leave behind: the pods, and objects that the pods have created.
func (s spoke) listRunLeftovers(ctx context.Context) ([]string, error) {
	var out []string
	for resource, group := range map[string]string{"pods": "", "services": "", "serviceaccounts": "", "leases": "coordination.k8s.io"} {
		list, err := s.dynamic.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}).
			Namespace(servingNamespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("cannot list %s: %w", resource, err)
		}
		for _, o := range list.Items {
			if resource != "serviceaccounts" || o.GetName() != "default" { // Kubernetes creates this account in every Namespace
				out = append(out, resource+" "+o.GetName())
			}
		}
	}
	slices.Sort(out)
	return out, nil
}

// reinstallServing enables the add-on again: the Service that was there before has to answer without a request of its user.
func (r *realStory) reinstallServing(t *testing.T) {
	start := time.Now()
	enabled(t, r.Fleet, []api.Component{api.Serving}, r.on.Cluster)
	t.Logf("the add-on was Available after %s", time.Since(start).Round(100*time.Millisecond))
	r.answers(t)
	t.Logf("the Service answered after %s", time.Since(start).Round(100*time.Millisecond))
}

// logPodsOnFailure logs the state of the pods of the cluster, with what the pods that serve requests have logged, when the test has failed.
func (r *realStory) logPodsOnFailure(t *testing.T) {
	t.Helper()
	if !t.Failed() {
		return
	}
	for _, args := range [][]string{
		{"get", "pods", "--all-namespaces", "--output", "wide"},
		{"get", "events", "--all-namespaces", "--sort-by", ".metadata.creationTimestamp"},
		{"logs", "--namespace", servingNamespace, "--selector", "app in (activator, autoscaler, 3scale-kourier-gateway)", "--prefix", "--tail", "40"},
		{"logs", "--namespace", "default", "--selector", helloPods, "--all-containers", "--prefix", "--tail", "40"},
	} {
		out, err := r.Command(context.WithoutCancel(t.Context()), "kubectl", append([]string{"--kubeconfig", r.on.Kubeconfig}, args...)...)
		t.Logf("%s: kubectl %s (error %v):\n%s", r.on.Name, strings.Join(args, " "), err, out)
	}
}
