// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
)

// local is a hub that installs on itself.
type local struct {
	team
	spoke
}

// own makes a KnativeServing without a reference in the team's namespace.
func (l local) own(t *testing.T, name string, spec map[string]any) {
	t.Helper()
	_, err := l.resources(api.Serving).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": api.Group + "/v1beta1", "kind": api.Serving.Kind(), "metadata": map[string]any{"name": name, "namespace": l.namespace}, "spec": spec,
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func (l local) patch(t *testing.T, name string, patch map[string]any) {
	t.Helper()
	data, err := json.Marshal(patch)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.resources(api.Serving).Patch(t.Context(), name, types.MergePatchType, data, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (l local) annotate(t *testing.T, name, annotation, value string) {
	t.Helper()
	l.patch(t, name, map[string]any{"metadata": map[string]any{"annotations": map[string]any{annotation: value}}})
}

func (l local) delete(t *testing.T, name string) {
	t.Helper()
	if err := l.resources(api.Serving).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// left is what should be gone from the hub and is not.
func (l local) left(t *testing.T) []string {
	t.Helper()
	return slices.DeleteFunc(leftovers(t, l.spoke), func(o string) bool { return strings.Contains(o, " knative-addon") })
}

// TestLocalInstalls installs on the hub itself, without an agent.
func TestLocalInstalls(t *testing.T) {
	t.Parallel()
	// Without a lease that a killed manager would keep for a while.
	l := localHub(t)
	t.Run("a resource becomes ready", func(t *testing.T) { l.becomesReady(t) })
	t.Run("nothing is written at rest, nor after a restart", func(t *testing.T) { l.rests(t) })
	t.Run("what somebody changes is undone", func(t *testing.T) { l.repairs(t) })
	t.Run("a pause keeps everything as it is", func(t *testing.T) { l.pauses(t) })
	t.Run("the oldest resource wins", func(t *testing.T) { l.rival(t) })
	t.Run("a new version takes the place of the old one", func(t *testing.T) { l.upgrades(t) })
	t.Run("what the hub refuses is named", func(t *testing.T) { l.refuses(t) })
	t.Run("a removal leaves CRDs and Namespace, and the next one takes over", func(t *testing.T) { l.removes(t) })
	t.Run("resources of users keep CRDs", func(t *testing.T) { l.userResources(t) })
	t.Run("an installation that is not ours is left alone, or adopted", func(t *testing.T) { l.foreign(t) })
	t.Run("a manager that is killed goes on where it was", func(t *testing.T) { l.killed(t) })
}

func localHub(t *testing.T) local {
	t.Helper()
	started := ownLab(t, lab.Options{HubNodes: true})
	f, err := harness.Install(t.Context(), started, harness.Options{
		Helm: []string{"--set", "localInstalls=true"}, Manager: []string{"--local-installs"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the manager's log:\n%s", f.LogTail(harness.Manager))
		}
	})
	configs, err := dynamic.NewForConfig(f.Hub.Config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Command(t.Context(), "kubectl", "create", "namespace", "knative-serving"); err != nil {
		t.Fatal(err)
	}
	return local{team: team{Fleet: f, namespace: "knative-serving", configs: configs}, spoke: connect(t, f.Hub)}
}

func (l local) becomesReady(t *testing.T) {
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
	anchor := l.anchor(t, "first")
	d, err := l.kube.AppsV1().Deployments("knative-serving").Get(t.Context(), "activator", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !metav1.IsControlledBy(d, anchor) {
		t.Errorf("the owners of Deployment activator are %v", d.OwnerReferences)
	}
	if lines := strings.Count(anchor.Data["inventory"], "\n"); lines < 60 {
		t.Errorf("the anchor records %d objects", lines)
	}
	// The chart's own is in another namespace than it would install into.
	fleetWide := l.team
	fleetWide.namespace = harness.Namespace
	fleetWide.becomes(t, api.Serving, "default", state{api.TargetClusterResolved, metav1.ConditionTrue, api.ReasonFleetConfiguration})
}

func (l local) anchor(t *testing.T, name string) *corev1.ConfigMap {
	t.Helper()
	anchor, err := l.kube.CoreV1().ConfigMaps("knative-serving").Get(t.Context(), "knativeserving-"+name+"-root-owner", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return anchor
}

// localRest is how long nothing may be written.
const localRest = 20 * time.Second

func (l local) rests(t *testing.T) {
	before := specs(t, l.spoke)
	time.Sleep(localRest)
	if diff := cmp.Diff(before, specs(t, l.spoke)); diff != "" {
		t.Errorf("written at rest:\n%s", diff)
	}
	if err := errors.Join(l.Stop(harness.Manager), l.Start(harness.Manager)); err != nil {
		t.Fatal(err)
	}
	resource, err := l.resources(api.Serving).Get(t.Context(), "first", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(localRest) // longer than it takes to start
	if diff := cmp.Diff(before, specs(t, l.spoke)); diff != "" {
		t.Errorf("written after a restart:\n%s", diff)
	}
	unrepaired(t, l.team)
	after, err := l.resources(api.Serving).Get(t.Context(), "first", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if after.GetResourceVersion() != resource.GetResourceVersion() {
		t.Errorf("the status was written after a restart: %v", after.Object["status"])
	}
}

// unrepaired holds that nothing was taken for drift so far.
func unrepaired(t *testing.T, m team) {
	t.Helper()
	list, err := connect(t, m.Hub).kube.CoreV1().Events(m.namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "reason=DriftRepaired"})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list.Items {
		t.Errorf("nobody had changed anything, and yet: %s", e.Message)
	}
}

func (l local) repairs(t *testing.T) {
	deployments := l.kube.AppsV1().Deployments("knative-serving")
	roles := l.kube.RbacV1().ClusterRoles()
	config := l.kube.CoreV1().ConfigMaps("knative-serving")
	for _, tc := range []struct {
		name             string
		change, restored func(ctx context.Context) error
	}{
		{
			"a deleted Deployment",
			func(ctx context.Context) error { return deployments.Delete(ctx, "autoscaler", metav1.DeleteOptions{}) },
			func(ctx context.Context) error {
				d, err := deployments.Get(ctx, "autoscaler", metav1.GetOptions{})
				if err == nil && (d.DeletionTimestamp != nil || d.Status.AvailableReplicas != 1) {
					err = errors.New("it is not available")
				}
				return err
			},
		},
		{
			"a scaled Deployment",
			func(ctx context.Context) error {
				scale, err := deployments.GetScale(ctx, "autoscaler", metav1.GetOptions{})
				if err != nil {
					return err
				}
				scale.Spec.Replicas = 0
				_, err = deployments.UpdateScale(ctx, "autoscaler", scale, metav1.UpdateOptions{})
				return err
			},
			func(ctx context.Context) error {
				d, err := deployments.Get(ctx, "autoscaler", metav1.GetOptions{})
				if err == nil && *d.Spec.Replicas != 1 {
					err = fmt.Errorf("it has %d replicas", *d.Spec.Replicas)
				}
				return err
			},
		},
		{
			"an edited ConfigMap",
			func(ctx context.Context) error {
				_, err := config.Patch(ctx, "config-network", types.MergePatchType, []byte(`{"data":{"ingress-class":"istio.ingress.networking.knative.dev"}}`), metav1.PatchOptions{})
				return err
			},
			func(ctx context.Context) error {
				m, err := config.Get(ctx, "config-network", metav1.GetOptions{})
				if err == nil && m.Data["ingress-class"] != "kourier.ingress.networking.knative.dev" {
					err = fmt.Errorf("it says %q", m.Data["ingress-class"])
				}
				return err
			},
		},
		{
			"a deleted ClusterRole",
			func(ctx context.Context) error {
				return roles.Delete(ctx, "knative-serving-core", metav1.DeleteOptions{})
			},
			func(ctx context.Context) error {
				_, err := roles.Get(ctx, "knative-serving-core", metav1.GetOptions{})
				return err
			},
		},
		{
			"a deleted anchor, and with it everything that it owns",
			func(ctx context.Context) error {
				return config.Delete(ctx, "knativeserving-first-root-owner", metav1.DeleteOptions{})
			},
			func(ctx context.Context) error {
				m, err := config.Get(ctx, "knativeserving-first-root-owner", metav1.GetOptions{})
				if err != nil {
					return err
				}
				d, err := deployments.Get(ctx, "activator", metav1.GetOptions{})
				if err == nil && (!metav1.IsControlledBy(d, m) || d.Status.AvailableReplicas != 1) {
					err = fmt.Errorf("Deployment activator has the owners %v", d.OwnerReferences)
				}
				return err
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			start := time.Now()
			if err := tc.change(t.Context()); err != nil {
				t.Fatal(err)
			}
			eventually(t, "it is undone", time.Minute, tc.restored)
			t.Logf("undone after %s", time.Since(start).Round(10*time.Millisecond))
			l.ready(t, api.Serving, "first")
			t.Logf("ready after %s", time.Since(start).Round(10*time.Millisecond))
		})
	}
	event(t, l.team, "DriftRepaired")
}

func (l local) rival(t *testing.T) {
	l.own(t, "second", kourier())
	message := l.becomes(t, api.Serving, "second", state{api.TargetClusterResolved, metav1.ConditionFalse, api.ReasonTargetConflict}).Message
	if !strings.Contains(message, `"knative-serving/first"`) {
		t.Errorf("the message does not name the other one: %s", message)
	}
	l.ready(t, api.Serving, "first")
}

func (l local) upgrades(t *testing.T) {
	l.patch(t, "first", map[string]any{"spec": map[string]any{"version": "1.22", "config": map[string]any{"deployment": map[string]any{"progress-deadline": "300s"}}}})
	eventually(t, "the older version is there", 3*time.Minute, func(ctx context.Context) error {
		s, err := l.read(ctx, api.Serving, "first")
		if err == nil && (!s.current || !strings.HasPrefix(s.version, "1.22.") || s.conditions[api.Ready].Status != metav1.ConditionTrue) {
			err = fmt.Errorf("%+v", s)
		}
		return err
	})
	migration := func(version string) bool {
		jobs := l.list(t, "batch", "v1", "jobs")
		return slices.ContainsFunc(jobs, func(j unstructured.Unstructured) bool { return strings.Contains(j.GetName(), version) })
	}
	if migration("1.23") || !migration("1.22") {
		t.Error("the Jobs are not those of the version")
	}
	l.patch(t, "first", map[string]any{"spec": map[string]any{"version": "1.20"}})
	l.becomes(t, api.Serving, "first", state{api.VersionMigrationEligible, metav1.ConditionFalse, api.ReasonNotEligible})
	l.patch(t, "first", map[string]any{"spec": map[string]any{"version": "1.23"}})
	l.ready(t, api.Serving, "first")
}

func (l local) refuses(t *testing.T) {
	l.patch(t, "first", map[string]any{"spec": map[string]any{"config": map[string]any{"autoscaler": map[string]any{"max-scale": "not a number"}}}})
	c := l.becomes(t, api.Serving, "first", state{api.InstallSucceeded, metav1.ConditionFalse, api.ReasonApplyFailed})
	for _, want := range []string{"ConfigMap knative-serving/config-autoscaler", "not a number"} {
		if !strings.Contains(c.Message, want) {
			t.Errorf("the message does not say %q: %s", want, c.Message)
		}
	}
	l.patch(t, "first", map[string]any{"spec": map[string]any{"config": map[string]any{"autoscaler": nil}}})
	l.ready(t, api.Serving, "first")
}

func (l local) removes(t *testing.T) {
	crds := len(l.list(t, "apiextensions.k8s.io", "v1", "customresourcedefinitions"))
	l.delete(t, "second")
	l.gone(t, api.Serving, "second")
	l.ready(t, api.Serving, "first") // what is not its own stays

	l.own(t, "third", kourier())
	l.becomes(t, api.Serving, "third", state{api.TargetClusterResolved, metav1.ConditionFalse, api.ReasonTargetConflict})
	l.delete(t, "first")
	l.gone(t, api.Serving, "first")
	l.ready(t, api.Serving, "third")
	l.delete(t, "third")
	l.gone(t, api.Serving, "third")
	if left := l.left(t); len(left) > 0 {
		t.Errorf("left: %s", strings.Join(left, ", "))
	}
	if now := len(l.list(t, "apiextensions.k8s.io", "v1", "customresourcedefinitions")); now != crds {
		t.Errorf("there are %d CRDs, before there were %d", now, crds)
	}
}

func (l local) userResources(t *testing.T) {
	l.own(t, "first", kourier())
	l.ready(t, api.Serving, "first")
	services := l.dynamic.Resource(schema.GroupVersionResource{Group: "serving.knative.dev", Version: "v1", Resource: "services"}).Namespace("default")
	_, err := services.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "serving.knative.dev/v1", "kind": "Service", "metadata": map[string]any{"name": "hello", "namespace": "default"},
		"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"image": "example.com/hello"}}}}},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	l.annotate(t, "first", api.DeletionPolicyAnnotation, api.DeletionPolicyDelete)
	l.delete(t, "first")
	c := l.becomes(t, api.Serving, "first", state{api.Ready, metav1.ConditionUnknown, api.ReasonRemoving})
	eventually(t, "the message names the resources of users", time.Minute, func(ctx context.Context) error {
		s, err := l.read(ctx, api.Serving, "first")
		if err == nil && !strings.Contains(s.conditions[api.Ready].Message, "1 services.serving.knative.dev") {
			err = fmt.Errorf("it says %q", s.conditions[api.Ready].Message)
		}
		return err
	})
	if left := l.left(t); len(left) < 50 {
		t.Errorf("things are removed while a user's resource is there (%s): only %d are left", c.Message, len(left))
	}
	if err := services.Delete(t.Context(), "hello", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	l.gone(t, api.Serving, "first")
	for _, d := range l.list(t, "apps", "v1", "deployments") {
		if d.GetNamespace() == "knative-serving" {
			t.Errorf("Deployment %s is left", d.GetName())
		}
	}
	for _, crd := range l.list(t, "apiextensions.k8s.io", "v1", "customresourcedefinitions") {
		if strings.HasSuffix(crd.GetName(), "serving.knative.dev") {
			t.Errorf("CRD %s is left", crd.GetName())
		}
	}
	if _, err := l.kube.CoreV1().Namespaces().Get(t.Context(), "knative-serving", metav1.GetOptions{}); err != nil {
		t.Errorf("the namespace, which was there before, is gone: %v", err)
	}
}

func (l local) foreign(t *testing.T) {
	l.own(t, "first", kourier())
	l.ready(t, api.Serving, "first")
	// As somebody else would have installed it: without an anchor and without our label.
	l.annotate(t, "first", api.ForceOrphanAnnotation, "true")
	l.delete(t, "first")
	l.gone(t, api.Serving, "first")
	event(t, l.team, "Orphaned")
	l.disown(t)
	before := l.pods(t)

	l.own(t, "heir", kourier())
	c := l.becomes(t, api.Serving, "heir", state{api.TargetClusterResolved, metav1.ConditionFalse, api.ReasonExistingInstallation})
	if !strings.Contains(c.Message, "Deployment knative-serving/activator") {
		t.Errorf("the message does not name what is there: %s", c.Message)
	}
	if diff := cmp.Diff(before, l.pods(t)); diff != "" {
		t.Errorf("it was not left alone:\n%s", diff)
	}
	l.annotate(t, "heir", api.AdoptAnnotation, "true")
	l.ready(t, api.Serving, "heir")
	if diff := cmp.Diff(before, l.pods(t)); diff != "" {
		t.Errorf("pods were restarted by an adoption:\n%s", diff)
	}
	l.delete(t, "heir")
	l.gone(t, api.Serving, "heir")
	if left := l.left(t); len(left) > 0 {
		t.Errorf("left: %s", strings.Join(left, ", "))
	}
}

// disown takes our label and owner from everything that is installed, and then the anchor away.
func (l local) disown(t *testing.T) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:null},"ownerReferences":null}}`, api.ComponentLabel)
	for _, gvr := range []schema.GroupVersionResource{
		{Group: "apps", Version: "v1", Resource: "deployments"},
		{Version: "v1", Resource: "services"},
		{Version: "v1", Resource: "serviceaccounts"},
		{Version: "v1", Resource: "secrets"},
		{Version: "v1", Resource: "configmaps"},
		{Group: "batch", Version: "v1", Resource: "jobs"},
		{Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"},
		{Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"},
		{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"},
		{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"},
		{Group: "caching.internal.knative.dev", Version: "v1alpha1", Resource: "images"},
		{Group: "networking.internal.knative.dev", Version: "v1alpha1", Resource: "certificates"},
	} {
		for _, o := range l.list(t, gvr.Group, gvr.Version, gvr.Resource) {
			if o.GetLabels()[api.ComponentLabel] == "" || strings.HasSuffix(o.GetName(), "-root-owner") {
				continue
			}
			_, err := l.dynamic.Resource(gvr).Namespace(o.GetNamespace()).Patch(t.Context(), o.GetName(), types.MergePatchType, patch, metav1.PatchOptions{})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := l.kube.CoreV1().ConfigMaps("knative-serving").Delete(t.Context(), "knativeserving-first-root-owner", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// pods are the UIDs of Knative's pods.
func (l local) pods(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, p := range l.list(t, "", "v1", "pods") {
		if p.GetNamespace() == "knative-serving" && !strings.Contains(p.GetName(), "storage-version") && !strings.Contains(p.GetName(), "cleanup") {
			out = append(out, p.GetName()+" "+string(p.GetUID()))
		}
	}
	slices.Sort(out)
	return out
}
