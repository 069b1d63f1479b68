// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
)

// helloPods selects the pods of the user's Service.
const helloPods = "serving.knative.dev/service=hello"

// realStory is a fleet whose first cluster has a real node, with a Service of a user there.
type realStory struct {
	*harness.Fleet

	on spoke
	// servings are the KnativeServings of the hub.
	servings dynamic.ResourceInterface
}

// realStep is a step of a story, which continues the step before.
type realStep struct {
	name string
	run  func(*testing.T)
}

// TestRealNode takes Knative through its life on a node that runs pods, while a Service of a user answers requests. The images of 1.22
// contain the programs of 1.23: an upgrade replaces configuration and all pods, and no program.
func TestRealNode(t *testing.T) {
	startRealStory(t)
	r := newRealStory(t, 1)
	takeSteps(t, []realStep{
		{"a Service of a user answers after the installation", r.installServing},
		{"the installation of Eventing begins", r.enableEventing},
		{"a Service scales to zero and back", r.scaleToZero},
		{"an edit of the configuration restarts no pod", r.editConfiguration},
		{"a user applies a broker and a PingSource", r.applyEventKinds},
		{"no request fails during an upgrade", r.upgrade},
		{"no request fails when the only activator pod is deleted", r.deleteActivator(1)},
		{"events reach a pod through a broker and from a PingSource", r.deliverEvents},
	})
}

// TestRealRemoval removes Knative from a node that runs pods, installs Knative again, and rolls out an edit that breaks the Services of
// users.
func TestRealRemoval(t *testing.T) {
	startRealStory(t)
	r := newRealStory(t, 2)
	takeSteps(t, []realStep{
		{"a Service of a user answers after the installation", r.installServing},
		{"Eventing becomes Available", func(t *testing.T) { enabled(t, r.Fleet, []api.Component{api.Eventing}, r.on.Cluster) }},
		{"no request fails when one of two activator pods is deleted", r.deleteActivator(2)},
		{"the add-ons leave the hub after the last pod", r.removeBoth},
		{"the Service answers again after a reinstallation", r.reinstallServing},
		{"a wave stops at a cluster whose ingress class is not served", r.holdWave},
	})
}

// newRealStory starts a fleet with managed clusters, of which the first has a real node, and configures Serving 1.22.
func newRealStory(t *testing.T, clusters int) *realStory {
	t.Helper()
	l := ownLab(t, lab.Options{
		ManagedClusters: clusters, RealNodes: []string{"cluster1"}, RealEventing: true, StatusSyncInterval: statusSync, Log: os.Stderr,
	})
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
	t.Cleanup(func() { r.on.logPodsOnFailure(t, f) })
	r.configure(t, harness.SmallServing("1.22"))
	return r
}

// takeSteps runs the steps until one fails, and reports whether all have passed.
func takeSteps(t *testing.T, steps []realStep) bool {
	t.Helper()
	for _, step := range steps {
		if !t.Run(step.name, step.run) {
			return false
		}
	}
	return true
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

// installServing installs Serving 1.22. The user applies the Service as soon as the policies, which await the start of the webhooks, or
// the webhooks judge requests. A Service that arrives before that is stored as written (docs/design/0020-start-of-webhooks.md): the story
// does not cover that time.
func (r *realStory) installServing(t *testing.T) {
	start := time.Now()
	if err := r.Enable(t.Context(), []string{api.Serving.AddOnName()}, []string{r.on.Name}); err != nil {
		t.Fatal(err)
	}
	r.on.acceptUser(t)
	t.Logf("the Service was accepted after %s", time.Since(start).Round(100*time.Millisecond))
	r.on.answers(t)
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

// acceptUser waits until policies or webhooks judge the Services of users, and applies the Service of the user.
func (s spoke) acceptUser(t *testing.T) {
	t.Helper()
	eventually(t, "a policy or a webhook judges the Services of users", 3*time.Minute, func(ctx context.Context) error {
		created, err := s.knativeServices().Create(ctx, newService("early"), dryRunCreate())
		switch {
		case err != nil && strings.Contains(err.Error(), startPolicyRefusal):
			return nil
		case err == nil && created.GetAnnotations()["serving.knative.dev/creator"] == "":
			return errors.New("the cluster accepts a Service as written")
		}
		return err
	})
	eventually(t, "the cluster accepts the Service of a user", 3*time.Minute, func(ctx context.Context) error {
		return s.Apply(ctx, []byte(harness.HelloManifest))
	})
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
func (s spoke) answers(t *testing.T) {
	t.Helper()
	eventually(t, "the Service of the user answers", 3*time.Minute, func(ctx context.Context) error {
		service, err := harness.Hello(ctx, s.Cluster)
		if err != nil {
			return err
		}
		if !hasTrueCondition(service, "Ready") {
			conditions, _, _ := unstructured.NestedSlice(service.Object, "status", "conditions")
			return fmt.Errorf("Service hello is not Ready: %v", conditions)
		}
		request, err := harness.HelloRequest(ctx, s.Cluster)
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

// scaleToZero waits until every pod of the Service is ending, and sends a request. A pod that ends gets no request, and runs for half a
// minute more.
func (r *realStory) scaleToZero(t *testing.T) {
	for range 2 {
		eventually(t, "every pod of the Service is ending", 2*time.Minute, func(ctx context.Context) error {
			pods, err := r.on.kube.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: helloPods})
			if err != nil {
				return err
			}
			running := slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
			if len(running) > 0 {
				return fmt.Errorf("the Service has %d pods", len(running))
			}
			return nil
		})
		request, err := harness.HelloRequest(t.Context(), r.on.Cluster)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		// A Service at zero holds the request until a pod runs: the first request has to succeed.
		if _, err := harness.Answer(request, harness.HelloText, loadFactor*time.Minute); err != nil {
			t.Fatalf("the request that starts a pod: %v", err)
		}
		t.Logf("the answer of a Service without pods took %s", time.Since(start).Round(10*time.Millisecond))
	}
}

// editConfiguration changes the domain of all Services and a setting of the autoscaler. All pods read both while running.
func (r *realStory) editConfiguration(t *testing.T) {
	r.on.keepPods(t, func() {
		r.configure(t, movedConfig())
		r.on.moved(t)
		available(t, r.Fleet, []api.Component{api.Serving}, r.on.Cluster)
		settled(t, r.Fleet, api.Serving, r.on.Cluster)
	})
}

// movedConfig is a patch of harness.SmallServing that moves all Services to another domain, and changes a setting of the autoscaler.
func movedConfig() map[string]any {
	return map[string]any{"config": map[string]any{
		"domain":     map[string]any{"first.test": nil, "second.test": ""},
		"autoscaler": map[string]any{"stable-window": "7s"},
	}}
}

// moved waits until the Service of the user answers at the domain of movedConfig.
func (s spoke) moved(t *testing.T) {
	t.Helper()
	eventually(t, "the Service has the new domain", time.Minute, func(ctx context.Context) error {
		service, err := harness.Hello(ctx, s.Cluster)
		if err != nil {
			return err
		}
		if url, _, _ := unstructured.NestedString(service.Object, "status", "url"); url != "http://hello.default.second.test" {
			return fmt.Errorf("the URL is %q", url)
		}
		return nil
	})
	s.answers(t)
}

// keepPods runs a step, and holds that no pod of Knative Serving was replaced or restarted.
func (s spoke) keepPods(t *testing.T, step func()) {
	t.Helper()
	before := s.controlPlanePods(t)
	step()
	if diff := cmp.Diff(before, s.controlPlanePods(t)); diff != "" {
		t.Errorf("pods of Knative were replaced or restarted (-before +after):\n%s", diff)
	}
}

// controlPlanePods returns the pods of Knative that are not finished, by UID, with the restarts of their containers.
func (s spoke) controlPlanePods(t *testing.T) map[string]int32 {
	t.Helper()
	pods, err := s.kube.CoreV1().Pods(servingNamespace).List(t.Context(), metav1.ListOptions{FieldSelector: "status.phase=Running"})
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

// logPodsOnFailure logs the state of the pods of the cluster, with what the pods that serve requests have logged, when the test has failed.
func (s spoke) logPodsOnFailure(t *testing.T, f *harness.Fleet) {
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
		out, err := f.Command(context.WithoutCancel(t.Context()), "kubectl", append([]string{"--kubeconfig", s.Kubeconfig}, args...)...)
		t.Logf("%s: kubectl %s (error %v):\n%s", s.Name, strings.Join(args, " "), err, out)
	}
}
