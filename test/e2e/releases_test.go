// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render/releases"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
)

// TestFurtherReleases gives a cluster a version that only a directory of the administrator has. The cluster keeps the version while no
// manager starts, and while the manager has no directory.
func TestFurtherReleases(t *testing.T) {
	startRestStory(t)
	f := ownFleet(t, lab.Options{ManagedClusters: 1, StatusSyncInterval: statusSync}, "--leader-elect=false")
	m := newTeam(t, f, "platform")
	c := f.Managed[0]
	dir, flags := writeRelease(t)
	enabled(t, f, []api.Component{api.Serving}, c)
	s := connect(t, c)

	t.Run("a version that the manager lacks is refused", func(t *testing.T) {
		m.version(t, "1.24")
		eventually(t, "the fleet's resource names the version", time.Minute, m.checkFleetReady(metav1.ConditionFalse, `version "1.24" of knative-serving is not bundled`))
	})
	t.Run("a manager with the directory upgrades the cluster", func(t *testing.T) {
		m.runManager(t, flags...)
		eventually(t, "the cluster runs 1.24, with the Jobs of 1.24", 3*time.Minute, s.ranJobs("1.24."))
		eventually(t, "the fleet's resource is Ready", 2*time.Minute, m.checkFleetReady(metav1.ConditionTrue, ""))
	})
	t.Run("a manager does not start with a changed directory", func(t *testing.T) {
		file := filepath.Join(dir, "ingress", "1.24", "kourier", "kourier.yaml")
		if err := errors.Join(os.WriteFile(file, []byte("# nothing\n"), 0o600), m.Kill(harness.Manager)); err != nil {
			t.Fatal(err)
		}
		err := m.RunManager(t.Context(), harness.Manager, flags...)
		if log := m.LogTail(harness.Manager); err == nil || !strings.Contains(log, `file "ingress/1.24/kourier/kourier.yaml" has SHA-256`) {
			t.Errorf("the start of the manager: %v; the log lacks the file:\n%s", err, log)
		}
		if err := s.runs("1.24.")(t.Context()); err != nil {
			t.Error(err)
		}
	})
	t.Run("a manager without the directory leaves the version on the cluster", func(t *testing.T) {
		m.runManager(t)
		eventually(t, "the fleet's resource names the version", time.Minute, m.checkFleetReady(metav1.ConditionFalse, `version "1.24" of knative-serving is not bundled`))
		if err := s.kube.AppsV1().Deployments("knative-serving").Delete(t.Context(), "activator", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the work agent has created the Deployment again", 2*time.Minute, func(ctx context.Context) error {
			if _, err := s.kube.AppsV1().Deployments("knative-serving").Get(ctx, "activator", metav1.GetOptions{}); err != nil {
				return err
			}
			return s.runs("1.24.")(ctx)
		})
	})
	t.Run("the cluster goes back to a version of the manager", func(t *testing.T) {
		m.version(t, "1.23")
		eventually(t, "the cluster runs 1.23, with the Jobs of 1.23", 3*time.Minute, s.ranJobs("1.23."))
		eventually(t, "the fleet's resource is Ready", 2*time.Minute, m.checkFleetReady(metav1.ConditionTrue, ""))
	})
}

// writeRelease writes a directory with Serving 1.24.0 and its Kourier, which are copies of the bundled 1.23.0, and returns the directory and
// the flags of a manager that uses the directory.
func writeRelease(t *testing.T) (dir string, flags []string) {
	t.Helper()
	bundled, dir := t.TempDir(), t.TempDir()
	if _, err := releases.Unpack(bundled); err != nil {
		t.Fatal(err)
	}
	var sums strings.Builder
	for from, to := range map[string]string{"knative-serving/1.23.0": "knative-serving/1.24.0", "ingress/1.23/kourier": "ingress/1.24/kourier"} {
		files, err := os.ReadDir(filepath.Join(bundled, from))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(dir, to), 0o700); err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			data, err := os.ReadFile(filepath.Join(bundled, from, file.Name()))
			if err != nil {
				t.Fatal(err)
			}
			data = bytes.ReplaceAll(data, []byte("1.23.0"), []byte("1.24.0"))
			if err := os.WriteFile(filepath.Join(dir, to, file.Name()), data, 0o600); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&sums, "%x  %s/%s\n", sha256.Sum256(data), to, file.Name())
		}
	}
	if err := os.WriteFile(filepath.Join(dir, releases.SumsName), []byte(sums.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir, []string{"--releases-dir=" + dir, fmt.Sprintf("--releases-sha256=%x", sha256.Sum256([]byte(sums.String())))}
}
