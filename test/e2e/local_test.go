// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"encoding/json"
	"errors"
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
	"open-cluster-management.io/knative-addon/test/lab/faultproxy"
)

// localInstalls is a hub that installs on itself.
type localInstalls struct {
	team
	spoke
	// proxy stands between the programs and the API server of the hub.
	proxy *faultproxy.Proxy
}

// own makes a KnativeServing without a reference in the team's namespace.
func (l localInstalls) own(t *testing.T, name string, spec map[string]any) {
	t.Helper()
	_, err := l.resources(api.Serving).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": api.Group + "/v1beta1", "kind": api.Serving.Kind(), "metadata": map[string]any{"name": name, "namespace": l.namespace}, "spec": spec,
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func (l localInstalls) patch(t *testing.T, name string, patch map[string]any) {
	t.Helper()
	data, err := json.Marshal(patch)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.resources(api.Serving).Patch(t.Context(), name, types.MergePatchType, data, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (l localInstalls) annotate(t *testing.T, name, annotation, value string) {
	t.Helper()
	l.patch(t, name, map[string]any{"metadata": map[string]any{"annotations": map[string]any{annotation: value}}})
}

func (l localInstalls) delete(t *testing.T, name string) {
	t.Helper()
	if err := l.resources(api.Serving).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestLocalInstalls installs on the hub itself, without an agent.
func TestLocalInstalls(t *testing.T) {
	startRestStory(t)
	// Without a lease that a killed manager would keep for a while.
	l := localHub(t)
	t.Run("a resource becomes Ready", func(t *testing.T) { l.installLocally(t) })
	t.Run("nothing is written without a change, nor after a restart", func(t *testing.T) { l.checkNoWrites(t) })
	t.Run("a change on the cluster is repaired", func(t *testing.T) { l.repairChanges(t) })
	t.Run("a pause stops all writes", func(t *testing.T) { l.pauses(t) })
	t.Run("the oldest resource wins", func(t *testing.T) { l.createSecond(t) })
	t.Run("a new version replaces the old version", func(t *testing.T) { l.changeVersion(t) })
	t.Run("a refused object is named", func(t *testing.T) { l.refuses(t) })
	t.Run("a removal keeps CRDs and Namespace, and the next resource owns the hub", func(t *testing.T) { l.removes(t) })
	t.Run("resources of users keep CRDs", func(t *testing.T) { l.keepUserResources(t) })
	t.Run("a foreign installation is unchanged, or adopted", func(t *testing.T) { l.adoptForeign(t) })
	t.Run("a killed manager continues", func(t *testing.T) { l.killManager(t) })
}

func localHub(t *testing.T) localInstalls {
	t.Helper()
	started := ownLab(t, lab.Options{HubNodes: true})
	proxy := startProxy(t, started.Hub)
	f, err := harness.Install(t.Context(), started, harness.Options{
		LocalInstalls: true, Trusted: []string{"knative-serving"}, HubProxy: proxy,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the manager's log:\n%s\nand of what installs on the hub:\n%s", f.LogTail(harness.Manager), f.LogTail(harness.LocalInstalls))
		}
	})
	configs, err := dynamic.NewForConfig(f.Hub.Config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Command(t.Context(), "kubectl", "create", "namespace", "knative-serving"); err != nil {
		t.Fatal(err)
	}
	return localInstalls{team: team{Fleet: f, namespace: "knative-serving", configs: configs}, spoke: connect(t, f.Hub), proxy: proxy}
}

// isOwnedBy reports whether an anchor is the only owner of an object.
func isOwnedBy(object metav1.Object, anchor *corev1.ConfigMap) bool {
	owners := object.GetOwnerReferences()
	return len(owners) == 1 && owners[0].UID == anchor.UID
}

func (l localInstalls) installLocally(t *testing.T) {
	l.own(t, "first", kourier())
	l.ready(t, api.Serving, "first")
	s, err := l.read(t.Context(), api.Serving, "first")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(s.version, "1.23.") {
		t.Errorf("status.version is %q", s.version)
	}
	for _, c := range api.ConditionTypes() {
		if got := s.conditions[c]; got.Status != metav1.ConditionTrue {
			t.Errorf("condition %s is %v", c, got)
		}
	}
	anchor := l.readAnchor(t, "first")
	d, err := l.kube.AppsV1().Deployments("knative-serving").Get(t.Context(), "activator", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !isOwnedBy(d, anchor) {
		t.Errorf("the owners of Deployment activator are %v", d.OwnerReferences)
	}
	if lines := strings.Count(anchor.Data["inventory"], "\n"); lines < 60 {
		t.Errorf("the anchor records %d objects", lines)
	}
	// The chart's own is in another namespace than it would install into.
	fleetWide := l.team
	fleetWide.namespace = harness.Namespace
	fleetWide.becomes(t, api.Serving, "default", conditionState{api.TargetClusterResolved, metav1.ConditionTrue, api.ReasonFleetConfiguration})
}

func (l localInstalls) readAnchor(t *testing.T, name string) *corev1.ConfigMap {
	t.Helper()
	anchor, err := l.kube.CoreV1().ConfigMaps("knative-serving").Get(t.Context(), "knativeserving-"+name+"-root-owner", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return anchor
}

// localNoWriteTime is how long nothing may be written.
const localNoWriteTime = 20 * time.Second

func (l localInstalls) checkNoWrites(t *testing.T) {
	before := l.restingSpecs(t)
	time.Sleep(localNoWriteTime)
	if diff := cmp.Diff(before, specs(t, l.spoke)); diff != "" {
		t.Errorf("written at rest:\n%s", diff)
	}
	if err := errors.Join(l.Stop(harness.LocalInstalls), l.Start(harness.LocalInstalls)); err != nil {
		t.Fatal(err)
	}
	resource, err := l.resources(api.Serving).Get(t.Context(), "first", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(localNoWriteTime) // longer than it takes to start
	if diff := cmp.Diff(before, specs(t, l.spoke)); diff != "" {
		t.Errorf("written after a restart:\n%s", diff)
	}
	checkNoRepairs(t, l.team)
	after, err := l.resources(api.Serving).Get(t.Context(), "first", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if after.GetResourceVersion() != resource.GetResourceVersion() {
		t.Errorf("the status was written after a restart: %v", after.Object["status"])
	}
}

func (l localInstalls) createSecond(t *testing.T) {
	l.own(t, "second", kourier())
	l.becomes(t, api.Serving, "second", conditionState{api.TargetClusterResolved, metav1.ConditionFalse, api.ReasonTargetConflict},
		`"knative-serving/first"`)
	l.ready(t, api.Serving, "first")
}
