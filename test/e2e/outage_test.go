// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
)

const (
	hubServer  = "hub-apiserver"
	outageLine = "the hub is unreachable"
)

// TestWithoutHubOrManager takes the hub away from the manager, and then the manager away from the hub.
func TestWithoutHubOrManager(t *testing.T) {
	startRestStory(t)
	f := ownFleet(t, lab.Options{ManagedClusters: 1, StatusSyncInterval: statusSync})
	enabled(t, f, []api.Component{api.Serving}, f.Managed[0])
	t.Run("a manager waits for a hub that stops to answer", func(t *testing.T) { outage(t, f) })
	t.Run("a manager that starts without a hub waits for the hub", func(t *testing.T) { startWithoutHub(t, f) })
	t.Run("an uninstall is refused while an add-on is enabled", func(t *testing.T) { uninstallRefused(t, f) })
	t.Run("a release frees the hub of an add-on without a manager", func(t *testing.T) { released(t, f) })
}

// outage pauses the hub's API server under a manager that runs.
func outage(t *testing.T, f *harness.Fleet) {
	pause(t, f)
	eventually(t, "the manager is not ready", 3*time.Minute, func(ctx context.Context) error {
		if f.Probe(ctx, harness.Manager, "/readyz") == nil {
			return errors.New("it is ready")
		}
		return nil
	})
	alive(t, f)
	resume(t, f)
}

// startWithoutHub starts the manager while the hub's API server answers nothing.
func startWithoutHub(t *testing.T, f *harness.Fleet) {
	if err := f.Stop(harness.Manager); err != nil {
		t.Fatal(err)
	}
	before := strings.Count(managerLog(t, f), outageLine)
	pause(t, f)
	if err := f.Start(harness.Manager); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the log says that the hub is unreachable", time.Minute, func(context.Context) error {
		if n := strings.Count(managerLog(t, f), outageLine); n != before+1 {
			return fmt.Errorf("it says so %d times, before %d times", n, before)
		}
		return nil
	})
	alive(t, f)
	if f.Probe(t.Context(), harness.Manager, "/readyz") == nil {
		t.Error("the manager is ready without a hub")
	}
	resume(t, f)
	if log := managerLog(t, f); strings.Count(log, outageLine) != before+1 || !strings.Contains(log, "the hub is reachable again") {
		t.Errorf("the log has %d lines on an unreachable hub, before %d:\n%s", strings.Count(log, outageLine), before, f.LogTail(harness.Manager))
	}
}

func alive(t *testing.T, f *harness.Fleet) {
	t.Helper()
	if err := f.Probe(t.Context(), harness.Manager, "/healthz"); err != nil {
		t.Errorf("the manager is not alive: %v", err)
	}
}

func pause(t *testing.T, f *harness.Fleet) {
	t.Helper()
	if err := f.Pause(hubServer); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Resume(hubServer) })
}

func resume(t *testing.T, f *harness.Fleet) {
	t.Helper()
	if err := f.Resume(hubServer); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the manager is ready", 2*time.Minute, func(ctx context.Context) error { return f.Probe(ctx, harness.Manager, "/readyz") })
}

func managerLog(t *testing.T, f *harness.Fleet) string {
	t.Helper()
	i := slices.IndexFunc(f.Components(), func(c lab.Component) bool { return c.Name == harness.Manager })
	content, err := os.ReadFile(f.Components()[i].Log)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// knativeAddOn runs a command of knative-addon as the hub's administrator.
func knativeAddOn(ctx context.Context, f *harness.Fleet, args ...string) (string, error) {
	return knativeAddOnWith(ctx, f, f.Hub.Kubeconfig, args...)
}

// knativeAddOnWith runs a command of knative-addon as the user of a kubeconfig.
func knativeAddOnWith(ctx context.Context, f *harness.Fleet, kubeconfig string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, f.Binary, append(args, "--kubeconfig="+kubeconfig)...).CombinedOutput() //nolint:gosec // the built program
	return string(out), err
}

// uninstallRefused runs the check of the chart's hook with the hook's own permissions.
func uninstallRefused(t *testing.T, f *harness.Fleet) {
	kubeconfig := applyHook(t, f, "uninstall-check", "kind: Job\n", "helm.sh/hook: pre-delete\n")
	eventually(t, "the check refuses the uninstall", time.Minute, func(ctx context.Context) error { // the hub may know the new role a moment later
		out, err := knativeAddOnWith(ctx, f, kubeconfig, "uninstall-check")
		if err == nil || !strings.Contains(out, "ManagedClusterAddOn cluster1/knative-serving") || !strings.Contains(out, "clusteradm addon disable") {
			return fmt.Errorf("error is %v, the check says %q", err, out) //nolint:errorlint // the error may be nil
		}
		return nil
	})
}

// applyHook applies the ServiceAccount and the permissions of a hook of the chart, and returns a kubeconfig of the ServiceAccount. The last
// object of the hook has to contain the texts. No pod of the hub runs, so that object is left out.
func applyHook(t *testing.T, f *harness.Fleet, hook string, texts ...string) (kubeconfig string) {
	t.Helper()
	manifests, err := f.Template(t.Context(), "--show-only", "templates/"+strings.ReplaceAll(hook, "-", "")+".yaml")
	last := max(strings.LastIndex(manifests, "\n---\n"), 0)
	isMissing := func(text string) bool { return !strings.Contains(manifests[last:], text) }
	if err != nil || slices.ContainsFunc(texts, isMissing) {
		t.Fatalf("error is %v, the chart has the hook %q", err, manifests)
	}
	if err := f.Hub.Apply(t.Context(), []byte(manifests[:last])); err != nil {
		t.Fatal(err)
	}
	kubeconfig, err = f.Hub.ServiceAccountKubeconfig(t.Context(), harness.Namespace, "knative-addon-"+hook)
	if err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

// released disables the add-on after the uninstall of the chart: the finalizer holds the add-on until the release.
func released(t *testing.T, f *harness.Fleet) {
	cluster := f.Managed[0]
	if err := f.Stop(harness.Manager); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Command(t.Context(), "helm", "uninstall", "knative-addon", "--namespace", harness.Namespace); err != nil {
		t.Fatal(err)
	}
	if err := f.Disable(t.Context(), []string{api.Serving.AddOnName()}, []string{cluster.Name}); err != nil {
		t.Fatal(err)
	}
	if out, err := knativeAddOn(t.Context(), f, "release"); err == nil || !strings.Contains(out, "would remove the finalizer of ManagedClusterAddOn cluster1/knative-serving (being deleted)") {
		t.Errorf("without confirmation: error is %v, the release says %q", err, out)
	}
	if out, err := knativeAddOn(t.Context(), f, "release", "--yes"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	eventually(t, "the add-on is gone", time.Minute, func(ctx context.Context) error {
		_, err := f.AddOns.AddonV1beta1().ManagedClusterAddOns(cluster.Name).Get(ctx, api.Serving.AddOnName(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, errors.New("it is there"))
	})
	eventually(t, "further releases delete the works", 2*time.Minute, func(ctx context.Context) error {
		if out, err := knativeAddOn(ctx, f, "release", "--yes"); err != nil {
			return errors.New(out)
		}
		works, err := f.ComponentWorks(ctx, api.Serving, cluster.Name)
		if err == nil && len(works) > 0 {
			err = errors.New(works[0].Name + " is there")
		}
		return err
	})
	if _, err := connect(t, cluster).kube.AppsV1().Deployments("knative-serving").Get(t.Context(), "activator", metav1.GetOptions{}); err != nil {
		t.Errorf("the cluster has lost Knative: %v", err)
	}
	if out, err := knativeAddOn(t.Context(), f, "uninstall-check"); err != nil {
		t.Errorf("after the release the check says %q", out)
	}
}
