// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
)

// maxManagerMemory is how many MB the manager may ever have, whatever tenants write and clusters answer.
const maxManagerMemory = 512

// dearResources is how many resources of a tenant keep the manager rendering.
const dearResources = 13

// hostileInput is a resource that a tenant writes to stop the manager.
type hostileInput struct {
	component api.Component
	spec      map[string]any
	// refused is what the API server says; empty means that it takes the resource.
	refused string
	// reason is that of condition InstallSucceeded, and message what its message has.
	reason  string
	message []string
}

// TestHostileRendering: a tenant who may write resources of Knative and nothing else writes all that once stopped the manager, at
// once. The manager goes on, with little memory; each resource reports the error; and resources of another namespace become Ready. Some
// resources name manifests on a server that is slow, huge, or leads into the network of the hub.
func TestHostileRendering(t *testing.T) {
	startRestStory(t)
	l := ownLab(t, lab.Options{ManagedClusters: 1, StatusSyncInterval: statusSync})
	manifests := startManifestServer(t, l.Hub)
	f, err := harness.Install(t.Context(), l, manifests.options())
	if err != nil {
		t.Fatal(err)
	}
	logManagerOnFailure(t, f)
	blue := newTeam(t, f, "blue")
	config, err := f.Tenant(t.Context(), "tenant")
	if err != nil {
		t.Fatal(err)
	}
	mallory := tenantTeam(t, f, "tenant", config)
	before := managerPID(t, f)
	inputs := hostileInputs()
	manifests.addInputs(inputs)
	mallory.writeInputs(t, inputs)
	blue.apply(t, api.Serving, f.Managed[0].Name, kourier())
	t.Run("resources of another namespace become Ready", func(t *testing.T) {
		blue.becomes(t, api.Serving, f.Managed[0].Name, conditionState{condition: api.Ready, status: metav1.ConditionTrue})
	})
	t.Run("each resource reports the error", func(t *testing.T) { mallory.awaitRefusals(t, inputs) })
	t.Run("the manager continues within the memory limit", func(t *testing.T) { checkMemory(t, f, before) })
	t.Run("a manager that starts with the same resources continues", func(t *testing.T) {
		if err := errors.Join(f.Kill(harness.Manager), f.Start(harness.Manager)); err != nil {
			t.Fatal(err)
		}
		started := managerPID(t, f)
		edited := kourier()
		edited["config"].(map[string]any)["autoscaler"] = map[string]any{"stable-window": "77s"} //nolint:forcetypeassert // see kourier
		blue.editServing(t, f.Managed[0].Name, edited)
		blue.becomes(t, api.Serving, f.Managed[0].Name, conditionState{condition: api.Ready, status: metav1.ConditionTrue})
		mallory.awaitRefusals(t, inputs)
		checkMemory(t, f, started)
	})
	if n := manifests.connections.Load(); n > 0 {
		t.Errorf("the manager has connected %d times to an address that is not permitted", n)
	}
}

// editServing replaces the spec of a KnativeServing, but for its reference.
func (m team) editServing(t *testing.T, name string, spec map[string]any) {
	t.Helper()
	eventually(t, "the spec can be replaced", time.Minute, func(ctx context.Context) error {
		u, err := m.resources(api.Serving).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		ref, _, err := unstructured.NestedMap(u.Object, "spec", "clusterProfileRef")
		if err != nil {
			return err
		}
		spec["clusterProfileRef"] = ref
		u.Object["spec"] = spec
		_, err = m.resources(api.Serving).Update(ctx, u, metav1.UpdateOptions{})
		return err
	})
}

func managerPID(t *testing.T, f *harness.Fleet) int {
	t.Helper()
	pid, err := harness.PID(f.Lab, harness.Manager)
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// checkMemory holds that the process is the one that was there, and never had too much memory.
func checkMemory(t *testing.T, f *harness.Fleet, pid int) {
	t.Helper()
	if now := managerPID(t, f); now != pid {
		t.Errorf("the manager is process %d, and was %d", now, pid)
	}
	peak, err := harness.PeakMemory(pid)
	if err != nil {
		t.Fatalf("the manager is gone: %v", err)
	}
	now, err := harness.Memory(pid)
	if err != nil {
		t.Fatalf("the manager is gone: %v", err)
	}
	t.Logf("the manager has %.0f MB, and had at most %.0f MB", now, peak)
	if peak > maxManagerMemory {
		t.Errorf("the manager had %.0f MB, want at most %d", peak, maxManagerMemory)
	}
}

// tenantTeam is a namespace with the permissions of its tenant.
func tenantTeam(t *testing.T, f *harness.Fleet, namespace string, config *rest.Config) team {
	t.Helper()
	configs, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return team{Fleet: f, namespace: namespace, configs: configs}
}

// writeInputs creates all resources at once, and holds what the API server refuses.
func (m team) writeInputs(t *testing.T, inputs map[string]hostileInput) {
	t.Helper()
	var wg sync.WaitGroup
	for name, in := range inputs {
		wg.Go(func() {
			_, err := m.resources(in.component).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": api.Group + "/v1beta1", "kind": in.component.Kind(),
				"metadata": map[string]any{"name": name, "namespace": m.namespace}, "spec": in.spec,
			}}, metav1.CreateOptions{})
			switch {
			case in.refused == "" && err != nil:
				t.Errorf("%s: %v", name, err)
			case in.refused != "" && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), in.refused)):
				t.Errorf("%s: the API server says %v, want %q", name, err, in.refused)
			}
		})
	}
	wg.Wait()
}

// awaitRefusals waits until each resource that the API server has taken says what becomes of it.
func (m team) awaitRefusals(t *testing.T, inputs map[string]hostileInput) {
	t.Helper()
	for name, in := range inputs {
		if in.refused != "" {
			continue
		}
		want := conditionState{condition: api.InstallSucceeded, status: metav1.ConditionFalse, reason: in.reason}
		if in.reason == api.ReasonRendered {
			want.status = metav1.ConditionTrue
		}
		m.becomes(t, in.component, name, want, in.message...)
	}
}

// hostileInputs are by the names of their resources.
func hostileInputs() map[string]hostileInput {
	out := map[string]hostileInput{
		// The API server refuses what no resource needs.
		"aliases-118k": {component: api.Serving, spec: specOfPatches("merge", aliasText(100_000, 6000)), refused: "spec.patches[0].patch.content"},
		"patches-8000": {component: api.Serving, refused: "spec.patches", spec: specOfPatches("merge", repeatText(8000, func(n int) string {
			return fmt.Sprintf(`{"data":{"k%d":"v"}}`, n)
		})...)},
		"copies-100": {component: api.Serving, refused: "spec.patches", spec: specOfPatches("json", append([]string{addText(60_000)}, repeatText(100, copyFive)...)...)},
		// The API server takes the others.
		"aliases-60k": {
			component: api.Serving, spec: specOfPatches("merge", aliasText(40_000, 8000)), reason: api.ReasonInvalidSpec,
			message: []string{"spec.patches[0]", "patch.content", "anchors and aliases", "write the value where it is used"},
		},
		"aliases-1000": {
			component: api.Serving, spec: specOfPatches("merge", aliasText(60_000, 1000)), reason: api.ReasonInvalidSpec,
			message: []string{"spec.patches[0]", "anchors and aliases"},
		},
		"brokers": {
			component: api.Eventing, reason: api.ReasonInvalidSpec, message: []string{"spec.config.br-defaults", "default-br-config", "anchors and aliases"},
			spec: map[string]any{"version": "1.23", "config": map[string]any{"br-defaults": map[string]any{"default-br-config": aliasText(40_000, 1000)}}},
		},
		"copies-90": {
			component: api.Serving, spec: specOfPatches("json", append([]string{addText(60_000)}, repeatText(90, copyFive)...)...), reason: api.ReasonTooLarge,
			message: []string{"spec.patches[4]", "config-features", "1048576 is the limit", "have the patch write less"},
		},
		"copies-double": {
			component: api.Serving, reason: api.ReasonTooLarge, message: []string{"spec.patches[", "is the limit"},
			spec: specOfPatches("json", repeatText(30, func(n int) string { return fmt.Sprintf(`[{"op":"copy","from":"/data","path":"/data/d%d"}]`, n) })...),
		},
		"long-config": {
			component: api.Serving, reason: api.ReasonTooLarge, message: []string{"the spec has more than 1048576 bytes", "shorten spec.config"},
			spec: map[string]any{"version": "1.23", "config": map[string]any{"features": map[string]any{
				"a": strings.Repeat("x", 600_000), "b": strings.Repeat("x", 600_000),
			}}},
		},
	}
	for n := range dearResources {
		out[fmt.Sprintf("dear-%d", n)] = hostileInput{component: api.Serving, spec: expensiveSpec(n), reason: api.ReasonRendered}
	}
	return out
}

// expensiveSpec is a spec within all bounds that is as much work as they leave.
func expensiveSpec(n int) map[string]any {
	contents := repeatText(3, func(i int) string { return fmt.Sprintf(`{"data":{"big%d":%q}}`, i, strings.Repeat("z", 60_000)) })
	return specOfPatches("merge", append(contents, repeatText(65, func(i int) string { return fmt.Sprintf(`{"data":{"k%d":"v%d"}}`, i, n) })...)...)
}

func specOfPatches(kind string, contents ...string) map[string]any {
	var patches []any
	for _, content := range contents {
		patches = append(patches, map[string]any{
			"target": map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": "config-features"},
			"patch":  map[string]any{"type": kind, "content": content},
		})
	}
	return map[string]any{"version": "1.23", "patches": patches}
}

// aliasText is a short YAML text of which a parser makes size*n bytes.
func aliasText(size, n int) string {
	return "x: &a " + strings.Repeat("z", size) + "\ny: [" + strings.Repeat("*a,", n-1) + "*a]\n"
}

func addText(size int) string {
	return `[{"op":"add","path":"/data/x","value":"` + strings.Repeat("z", size) + `"}]`
}

func copyFive(n int) string {
	var operations []string
	for i := range 5 {
		operations = append(operations, fmt.Sprintf(`{"op":"copy","from":"/data/x","path":"/data/c%d_%d"}`, n, i))
	}
	return "[" + strings.Join(operations, ",") + "]"
}

func repeatText(n int, text func(n int) string) []string {
	var out []string
	for i := range n {
		out = append(out, text(i))
	}
	return out
}
