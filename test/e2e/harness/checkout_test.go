// Copyright Contributors to the Open Cluster Management project

package harness

import (
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"open-cluster-management.io/knative-addon/test/lab"
)

// TestMissingRevision holds that a revision which the history lacks, as in a shallow clone, is an error of one line.
func TestMissingRevision(t *testing.T) {
	dir := t.TempDir()
	for _, args := range [][]string{
		{"git", "init", "--quiet"}, {"git", "-c", "user.name=test", "-c", "user.email=test@example.com", "commit", "--quiet", "--allow-empty", "--message=first"},
	} {
		if err := runIn(t.Context(), dir, args...); err != nil {
			t.Fatal(err)
		}
	}
	if err := requireRevision(t.Context(), dir, "HEAD"); err != nil {
		t.Errorf("a revision of the history: %v", err)
	}
	err := requireRevision(t.Context(), dir, "0123456789abcdef0123456789abcdef01234567")
	if err == nil || strings.Count(err.Error(), "\n") > 0 || !strings.Contains(err.Error(), "git fetch --unshallow") {
		t.Errorf("a revision that the history lacks: %v", err)
	}
	if err := requireRevision(t.Context(), t.TempDir(), "HEAD"); err == nil {
		t.Error("a directory without a history has a revision")
	}
}

// TestUseCheckout holds that the arguments of helm name the chart of the checkout.
func TestUseCheckout(t *testing.T) {
	dir := t.TempDir()
	f, err := Prepare(&lab.Lab{Hub: &lab.Cluster{Config: &rest.Config{Host: "https://127.0.0.1:1"}}}, Options{Checkout: &Checkout{dir: dir}})
	if err != nil {
		t.Fatal(err)
	}
	if f.helmArgs[chartArg] != filepath.Join(dir, "charts", "knative-addon") || f.Binary != filepath.Join(dir, "bin", "knative-addon") {
		t.Errorf("helm gets %q, and the program is %s", f.helmArgs, f.Binary)
	}
}
