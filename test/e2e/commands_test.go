// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
)

// operator is a user who sees the fleet by the command line only.
type operator struct{ *harness.Fleet }

// command runs knative-addon with the hub of the lab, and returns standard output, standard error and the exit code.
func (o operator) command(ctx context.Context, args ...string) (string, int, error) {
	cmd := exec.CommandContext(ctx, o.Binary, args...) //nolint:gosec // the built program
	cmd.Env = append(os.Environ(), "KUBECONFIG="+o.Hub.Kubeconfig)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return string(out), exit.ExitCode(), nil
	}
	return string(out), 0, err
}

// ends fails the test unless a command ends with the exit code and with all words in its output, which it returns.
func (o operator) ends(t *testing.T, code int, words []string, args ...string) string {
	t.Helper()
	out, got, err := o.command(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("knative-addon %s: exit code %d\n%s", strings.Join(args, " "), got, out)
	if got != code {
		t.Errorf("knative-addon %s: exit code %d, want %d: %s", strings.Join(args, " "), got, code, out)
	}
	printed(t, out, words...)
	return out
}

// becomes waits until a command ends with the exit code and with all words in its output.
func (o operator) becomes(t *testing.T, code int, words []string, args ...string) {
	t.Helper()
	eventually(t, "knative-addon "+strings.Join(args, " "), time.Minute, func(ctx context.Context) error {
		out, got, err := o.command(ctx, args...)
		missing := slices.DeleteFunc(slices.Clone(words), func(word string) bool { return strings.Contains(out, word) })
		if err == nil && (got != code || len(missing) > 0) {
			err = fmt.Errorf("exit code %d, %q is not in: %s", got, missing, out)
		}
		return err
	})
}

// timesOut holds that `knative-addon wait` times out with all words in its output. On a busy machine, the command may not have read all
// objects in its time.
func (o operator) timesOut(t *testing.T, words []string, name string) {
	t.Helper()
	o.becomes(t, 1, append([]string{"timed out; not reached"}, words...), "wait", name, "--timeout=6s")
}

// showRefusedObjects has the commands show a cluster whose work agent cannot apply ConfigMaps.
func (o operator) showRefusedObjects(t *testing.T, c *lab.Cluster) {
	o.becomes(t, 0, []string{
		"ManagedClusterAddOn " + c.Name + "/knative-serving", "ManifestWork knative-serving-foundation: Applied is True",
		"ManifestWork knative-serving-gate: holds the rollout", "ManifestWork addon-knative-serving-deploy-0: Applied is False",
		"ConfigMap knative-serving/", "not applied:", "exceeded quota",
	}, "tree", c.Name, "serving")
	o.becomes(t, 0, []string{c.Name, "knative-serving", "ManifestWork", "False", "0 of 1 ready; worst: " + c.Name + " knative-serving is "}, "status", "--not-ready")
	o.timesOut(t, []string{c.Name + " knative-serving"}, c.Name)
}

// commandFleet has the commands show, explain and change a cluster that is ready, and a resource without a cluster.
func commandFleet(t *testing.T, m team, c *lab.Cluster) {
	o := operator{m.Fleet}
	m.configs = connect(t, m.Hub).dynamic
	settled(t, m.Fleet, api.Serving, c) // the hub records the version after the add-on is Available
	t.Run("the commands show a ready cluster", func(t *testing.T) { o.showReady(t, c) })
	t.Run("the commands show a resource without a ClusterProfile", func(t *testing.T) { o.showUnresolved(t) })
	t.Run("an add-on is paused and resumed", func(t *testing.T) { o.pauseAddOn(t, c) })
	t.Run("files are compared with a cluster", func(t *testing.T) { o.compareFiles(t, c) })
	t.Run("the state of the hub is archived", func(t *testing.T) { o.writeBundle(t, c) })
	t.Run("a wrong spec is rolled back", func(t *testing.T) { o.rollBackSpec(t, m, c) })
}

func (o operator) showReady(t *testing.T, c *lab.Cluster) {
	o.ends(t, 0, []string{c.Name + " knative-serving", "is ready"}, "wait", c.Name, "--timeout=9m")
	o.ends(t, 0, []string{c.Name, "knative-serving", "ManifestWork", "1.23.0", "True", "Ready", "1 of 1 ready"}, "status", c.Name, "--component=serving")
	o.ends(t, 0, []string{`"total": 1`, `"ready": "True"`, `"version": "1.23.0"`}, "status", "--output=json")
	o.ends(t, 0, []string{"Ready is True", "KnativeServing knative-addon/default"}, "tree", c.Name)
	o.ends(t, 1, []string{"cannot find an installation", "nowhere"}, "status", "nowhere")
}

func (o operator) showUnresolved(t *testing.T) {
	resources := connect(t, o.Hub).dynamic.Resource(api.Serving.Resource()).Namespace("default")
	_, err := resources.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": api.Group + "/v1beta1", "kind": api.Serving.Kind(), "metadata": map[string]any{"name": "typo", "namespace": "default"},
		"spec": map[string]any{"clusterProfileRef": map[string]any{"namespace": "default", "name": "nowhere"}},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	const reason = api.ReasonClusterProfileNotFound
	o.becomes(t, 0, []string{"default/nowhere", "Unknown", "False", reason, "1 of 2 ready; worst: default/nowhere"}, "status")
	o.ends(t, 0, []string{"KnativeServing default/typo", "TargetClusterResolved is False, " + reason}, "tree", "nowhere")
	o.ends(t, 0, []string{"Meaning:", "bind a ManagedClusterSet", "docs/troubleshooting.md"}, "explain", reason)
	o.timesOut(t, []string{"default/nowhere knative-serving (KnativeServing default/typo): " + reason}, "default/typo")
	if err := resources.Delete(t.Context(), "typo", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	o.ends(t, 0, []string{"removed"}, "wait", "default/typo", "--for=removed", "--timeout=3m")
}

func (o operator) pauseAddOn(t *testing.T, c *lab.Cluster) {
	addOn := []string{"managedclusteraddon/knative-serving", "--namespace", c.Name}
	annotated := "ManagedClusterAddOn " + c.Name + "/knative-serving: annotated " + api.PausedAnnotation
	for _, mode := range []string{"client", "server"} {
		o.ends(t, 0, []string{annotated + "=true (dry run: " + mode + ")"}, append([]string{"pause", "--dry-run=" + mode}, addOn...)...)
	}
	if out := o.ends(t, 0, []string{"1 of 1 ready"}, "status"); strings.Contains(out, "paused") {
		t.Errorf("a dry run has paused the cluster: %s", out)
	}
	o.ends(t, 0, []string{annotated + "=true"}, append([]string{"pause"}, addOn...)...)
	o.ends(t, 0, []string{"unchanged"}, append([]string{"pause"}, addOn...)...)
	o.ends(t, 0, []string{"1 of 1 ready, 1 paused"}, "status")
	o.ends(t, 0, []string{annotated + "-"}, append([]string{"resume"}, addOn...)...)
	if out := o.ends(t, 0, []string{"1 of 1 ready"}, "status"); strings.Contains(out, "1 paused") {
		t.Errorf("the cluster is paused after resume: %s", out)
	}
	o.ends(t, 1, []string{"is not being deleted"}, append([]string{"removal", "confirm"}, addOn...)...)
}

// compareFiles compares the configuration of the cluster with files: an equal one, a changed one, and an invalid one. A program that
// renders as the manager does reports no difference of the installation, and another program does.
func (o operator) compareFiles(t *testing.T, c *lab.Cluster) {
	live, err := connect(t, o.Hub).dynamic.Resource(api.Serving.Resource()).Namespace(harness.Namespace).Get(t.Context(), "default", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "serving.json")
	write := func(path []string, value any) {
		t.Helper()
		if len(path) > 0 {
			if err := unstructured.SetNestedField(live.Object, value, path...); err != nil {
				t.Fatal(err)
			}
		}
		data, err := json.Marshal(live)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(nil, nil)
	o.ends(t, 0, []string{"1 cluster, knative-serving 1.23.0 (ManifestWork): no difference", c.Name}, "diff", "--filename", file)
	write([]string{"spec", "config", "gc", "max-non-active-revisions"}, "7")
	o.ends(t, 1, []string{"update 1 objects", "update ConfigMap knative-serving/config-gc", `+  max-non-active-revisions: "7"`}, "diff", c.Name, "--filename", file)
	write([]string{"spec", "version"}, "1.20")
	o.ends(t, 2, []string{"cannot compare", "1.20"}, "diff", "--filename", file)
	o.ends(t, 0, []string{"1 cluster, knative-serving 1.23.0 (ManifestWork): no difference", c.Name}, "diff", "--installed")
	o.ends(t, 1, []string{"(ManifestWork): update", "update ConfigMap knative-serving/config-gc", "+  _example:"}, "diff", "--installed", "--keep-config-examples", c.Name)
	o.ends(t, 0, []string{"1 of 1 ready"}, "status")
}

// writeBundle writes an archive, which has the ManifestWorks of the cluster and no data of the ManifestWorks.
func (o operator) writeBundle(t *testing.T, c *lab.Cluster) {
	file := filepath.Join(t.TempDir(), "bundle.tar.gz")
	o.ends(t, 0, []string{"wrote " + file}, "bundle", c.Name, "--file", file)
	out, err := exec.CommandContext(t.Context(), "tar", "-xzOf", file).Output() //nolint:gosec // the file of the test
	if err != nil {
		t.Fatal(err)
	}
	text := string(out)
	printed(t, text, "1 of 1 ready", "name: knative-serving-foundation", "name: addon-knative-serving-deploy-0", "kind: Secret", "kind: ManagedCluster\n", "sha256:")
	for _, secret := range []string{"BEGIN CERTIFICATE", "caBundle", "enable-scale-to-zero"} {
		if strings.Contains(text, secret) {
			t.Errorf("the archive has %q", secret)
		}
	}
}

// rollBackSpec writes a version that does not exist into the configuration, and returns to the last revision that worked.
func (o operator) rollBackSpec(t *testing.T, m team, c *lab.Cluster) {
	m.patchDefault(t, `{"spec":{"version":"9.9"}}`)
	o.ends(t, 2, []string{"does not continue without a change", c.Name + " knative-serving", "UnknownVersion"}, "wait", c.Name, "--timeout=9m")
	o.ends(t, 0, []string{"annotated " + api.RollbackAnnotation + "=last-known-good"},
		"rollback", "knativeserving/default", "--namespace", harness.Namespace, "--to", api.RollbackLastKnownGood)
	o.becomes(t, 0, []string{"1 of 1 ready"}, "status") // until the manager rolls back, UnknownVersion would end a wait
	o.ends(t, 0, []string{"is ready"}, "wait", c.Name, "--timeout=9m")
}
