// Copyright Contributors to the Open Cluster Management project

// Package health tests the health checks of docs/gitops.md: the check for Argo CD with the Lua interpreter of Argo CD, and the expressions
// for Flux with the evaluator of Flux and with kstatus. The package is here, so that these libraries are no dependencies of the add-on.
package health

import (
	"fmt"
	"os"
	"strings"
	"testing"

	lua "github.com/yuin/gopher-lua"
	"gopkg.in/yaml.v3"
)

// readBlock decodes a block of YAML of docs/gitops.md.
func readBlock(t *testing.T, name string, into any) {
	t.Helper()
	page, err := os.ReadFile("../../../docs/gitops.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "<!-- "+name+" -->\n```yaml\n")
	text, _, closed := strings.Cut(rest, "```\n<!-- /"+name+" -->")
	if !found || !closed {
		t.Fatalf("docs/gitops.md has no block %s", name)
	}
	if err := yaml.Unmarshal([]byte(text), into); err != nil {
		t.Fatal(err)
	}
}

// readScripts returns the Lua scripts of the ConfigMap in docs/gitops.md, by key.
func readScripts(t *testing.T) map[string]string {
	t.Helper()
	var config struct {
		Data map[string]string `yaml:"data"`
	}
	readBlock(t, "argocd-cm", &config)
	return config.Data
}

// toLua converts a value of YAML, as Argo CD converts a value of JSON.
func toLua(value any) lua.LValue {
	switch v := value.(type) {
	case map[string]any:
		out := &lua.LTable{}
		for key, nested := range v {
			out.RawSetString(key, toLua(nested))
		}
		return out
	case []any:
		out := &lua.LTable{}
		for _, nested := range v {
			out.Append(toLua(nested))
		}
		return out
	case int:
		return lua.LNumber(v)
	case string:
		return lua.LString(v)
	}
	panic(fmt.Sprintf("no value of the tests has type %T", value))
}

// runScript returns the status and the message that a script computes for an object. The script has the libraries that Argo CD gives to
// health checks.
func runScript(t *testing.T, script, object string) (status, message string) {
	t.Helper()
	var content map[string]any
	if err := yaml.Unmarshal([]byte(object), &content); err != nil {
		t.Fatal(err)
	}
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for name, open := range map[string]lua.LGFunction{lua.LoadLibName: lua.OpenPackage, lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable} {
		if err := state.CallByParam(lua.P{Fn: state.NewFunction(open), Protect: true}, lua.LString(name)); err != nil {
			t.Fatal(err)
		}
	}
	state.SetGlobal("obj", toLua(content))
	if err := state.DoString(script); err != nil {
		t.Fatal(err)
	}
	result, ok := state.Get(-1).(*lua.LTable)
	if !ok {
		t.Fatalf("the script returns %s", state.Get(-1))
	}
	return result.RawGetString("status").String(), result.RawGetString("message").String()
}

func TestHealth(t *testing.T) {
	const notProcessed = "the manager has not processed the resource yet"
	of := func(observed int, conditions string) string {
		return fmt.Sprintf("{metadata: {generation: 2}, status: {observedGeneration: %d, conditions: [%s]}}", observed, conditions)
	}
	ready := func(status, reason, message string) string {
		return of(2, fmt.Sprintf("{type: InstallSucceeded, status: Unknown, reason: Other}, {type: Ready, status: %q, reason: %s, message: %q}", status, reason, message))
	}
	for name, tc := range map[string]struct{ object, status, message string }{
		"a new resource":              {"{metadata: {generation: 1}}", "Progressing", notProcessed},
		"an edit":                     {of(1, `{type: Ready, status: "True", reason: Ready}`), "Progressing", notProcessed},
		"a status without Ready":      {of(2, `{type: InstallSucceeded, status: "True", reason: Applied}`), "Progressing", notProcessed},
		"a status without conditions": {"{metadata: {generation: 2}, status: {observedGeneration: 2}}", "Progressing", notProcessed},
		"a delivery":                  {ready("Unknown", "Delivering", "InstallSucceeded: waiting"), "Progressing", "Delivering: InstallSucceeded: waiting"},
		"a rollout of workloads":      {ready("False", "WorkloadsNotReady", "webhook"), "Progressing", "WorkloadsNotReady: webhook"},
		"a pause":                     {ready("Unknown", "Paused", "by a"), "Suspended", "Paused: by a"},
		"a refused spec":              {ready("False", "InvalidSpec", "spec.config"), "Degraded", "InvalidSpec: spec.config"},
		"an unreachable cluster":      {ready("False", "ManagedClusterUnavailable", "c1"), "Degraded", "ManagedClusterUnavailable: c1"},
		"an installation":             {ready("True", "Ready", ""), "Healthy", "Ready"},
		"a resource without a use":    {ready("True", "Unused", "no add-on"), "Healthy", "Unused: no add-on"},
		"a misspelled setting": {
			of(2, `{type: Ready, status: "True", reason: Ready}, {type: SettingsEffective, status: "False", reason: CheckSettings, message: autoscalr}`),
			"Healthy", "Ready; SettingsEffective: autoscalr",
		},
		"a verification":         {ready("False", "Verifying", "waits for Service"), "Progressing", "Verifying: waits for Service"},
		"a paused fleet":         {ready("False", "Paused", "by a"), "Suspended", "Paused: by a"},
		"a fleet's rollout":      {ready("False", "Progressing", "3 of 9 clusters"), "Progressing", "Progressing: 3 of 9 clusters"},
		"a fleet's last cluster": {ready("False", "ClustersNotReady", "8 of 9"), "Progressing", "ClustersNotReady: 8 of 9"},
		"a stopped rollout":      {ready("False", "MaxFailuresExceeded", "c1 failed"), "Degraded", "MaxFailuresExceeded: c1 failed"},
		"a held removal": {
			of(2, `{type: Ready, status: "True", reason: Ready}, {type: RemovalHeld, status: "True", reason: MassRemoval, message: confirm}`),
			"Healthy", "Ready; RemovalHeld: confirm",
		},
		"a removal": {
			`{metadata: {generation: 2, deletionTimestamp: "2026-01-01T00:00:00Z"}, status: {observedGeneration: 2}}`, "Progressing", "the installation is being removed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			scripts := readScripts(t)
			for _, kind := range []string{"operator.knative.dev_KnativeServing", "operator.knative.dev_KnativeEventing", "knative.open-cluster-management.io_KnativeFleet"} {
				script := scripts["resource.customizations.health."+kind]
				if script == "" {
					t.Fatalf("docs/gitops.md has no check of %s", kind)
				}
				if status, message := runScript(t, script, tc.object); status != tc.status || message != tc.message {
					t.Errorf("%s is %s, %q; want %s, %q", kind, status, message, tc.status, tc.message)
				}
			}
		})
	}
}
