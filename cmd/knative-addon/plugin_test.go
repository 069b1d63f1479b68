// Copyright Contributors to the Open Cluster Management project

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestNameCommands holds that commands in a text have the name by which a user has called the program, and that names of objects stay.
func TestNameCommands(t *testing.T) {
	const text = "run `knative-addon explain REASON`, or\n    knative-addon status\nin --namespace knative-addon of knative-addon.example.com"
	want := "run `kubectl knative-fleet explain REASON`, or\n    kubectl knative-fleet status\nin --namespace knative-addon of knative-addon.example.com"
	if got := nameCommands(text, pluginName); got != want {
		t.Errorf("the text is %q, want %q", got, want)
	}
	if got := nameCommands(text, programName); got != text {
		t.Errorf("the text is %q, want %q", got, text)
	}
}

// TestExplanationsNameProgram holds that the commands in an explanation can be run as they are printed.
func TestExplanationsNameProgram(t *testing.T) {
	for _, name := range []string{programName, pluginName} {
		out, err := execute(t, newRootCommand(name), "", "explain", "UnknownVersion")
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out, "`"+name+" ") || name == pluginName && strings.Contains(out, "`"+programName+" ") {
			t.Errorf("the explanation does not name commands of %s:\n%s", name, out)
		}
	}
}

// mainVariable makes the test binary run main.
const mainVariable = "KNATIVE_ADDON_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(mainVariable) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestErrorsNameProgram runs the program as a plugin of kubectl, and holds that the hint of an error is a command that the user can run.
func TestErrorsNameProgram(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	plugin := filepath.Join(t.TempDir(), pluginFile)
	if err := os.Symlink(self, plugin); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		plugin: pluginName + `: cannot explain "Lunch": the documentation has no such reason; ` + "`kubectl knative-fleet explain` lists all reasons\n",
		self:   programName + `: cannot explain "Lunch": the documentation has no such reason; ` + "`knative-addon explain` lists all reasons\n",
	} {
		cmd := exec.CommandContext(t.Context(), path, "explain", "Lunch")
		cmd.Env = append(os.Environ(), mainVariable+"=1")
		out, err := cmd.CombinedOutput()
		if err == nil || string(out) != want {
			t.Errorf("%s prints %q, error %v; want %q", filepath.Base(path), out, err, want)
		}
	}
}
