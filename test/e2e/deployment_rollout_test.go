// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/lab"
)

// deploymentRollout edits an AddOnDeploymentConfig, whose edit OCM gives to the first cluster alone, and replaces the manager: the
// manager renders the earlier spec for the clusters of later waves, and records no spec twice.
func deploymentRollout(t *testing.T, m team) {
	m.setInstallStrategy(t, api.Serving, fmt.Sprintf(
		`{"type":"Placements","placements":[{"namespace":%q,"name":%q,"configs":[{"group":%q,"resource":%q,"namespace":%q,"name":"waves"}],`+
			`"rolloutStrategy":{"type":"All"}}]}`,
		m.namespace, placementName, deploymentConfigs().Group, deploymentConfigs().Resource, m.namespace))
	m.writeToleration(t, "wave-one")
	eventually(t, "all clusters have the first spec", 10*time.Minute, m.checkToleration("wave-one", len(m.Managed)))
	m.setInstallStrategy(t, api.Serving, fmt.Sprintf(
		`{"type":"Placements","placements":[{"namespace":%q,"name":%q,"configs":[{"group":%q,"resource":%q,"namespace":%q,"name":"waves"}],`+
			`"rolloutStrategy":{"type":"Progressive","progressive":{"maxConcurrency":1,"minSuccessTime":"1h"}}}]}`,
		m.namespace, placementName, deploymentConfigs().Group, deploymentConfigs().Resource, m.namespace))
	m.writeToleration(t, "wave-two")
	eventually(t, "the first cluster has the edit", 5*time.Minute, m.checkToleration("wave-two", 1))
	recorded := m.listDeploymentRevisions(t)
	if len(recorded) != 2 {
		t.Errorf("the ControllerRevisions are %v, want two", recorded)
	}
	m.replaceManager(t)
	// A work of the first cluster may still have the first spec.
	last := m.Managed[slices.IndexFunc(m.Managed, func(c *lab.Cluster) bool { return !m.hasToleration(t, c, "wave-two") })]
	m.removeToleration(t, last, "wave-one")
	eventually(t, last.Name+" has the earlier spec again", 5*time.Minute, func(ctx context.Context) error {
		found, err := m.readToleration(ctx, last, "wave-one")
		if err == nil && !found {
			err = fmt.Errorf("the works of %s lack the toleration", last.Name)
		}
		return err
	})
	having, err := m.listToleration(t.Context(), "wave-two")
	if err != nil {
		t.Fatal(err)
	}
	if len(having) != 1 {
		t.Errorf("the edit is on %v before the turn of a second cluster, want one cluster", having)
	}
	if now := m.listDeploymentRevisions(t); !slices.Equal(now, recorded) {
		t.Errorf("the ControllerRevisions went from %v to %v", recorded, now)
	}
}

// writeToleration writes AddOnDeploymentConfig waves with one toleration.
func (m team) writeToleration(t *testing.T, key string) {
	t.Helper()
	_, err := m.configs.Resource(deploymentConfigs()).Namespace(m.namespace).Apply(t.Context(), "waves", &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": deploymentConfigs().GroupVersion().String(), "kind": "AddOnDeploymentConfig", "metadata": map[string]any{"name": "waves"},
		"spec": map[string]any{"nodePlacement": map[string]any{"tolerations": []any{map[string]any{"key": key, "operator": "Exists"}}}},
	}}, metav1.ApplyOptions{FieldManager: "test", Force: true})
	if err != nil {
		t.Fatal(err)
	}
}

// listDeploymentRevisions lists the names and resource versions of the recorded specs of AddOnDeploymentConfigs.
func (m team) listDeploymentRevisions(t *testing.T) []string {
	t.Helper()
	list, err := connect(t, m.Hub).kube.AppsV1().ControllerRevisions(m.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: api.RevisionLabel + "=addondeploymentconfigs"})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for i := range list.Items {
		out = append(out, list.Items[i].Name+"@"+list.Items[i].ResourceVersion)
	}
	slices.Sort(out)
	return out
}

func (m team) checkToleration(key string, want int) func(context.Context) error {
	return func(ctx context.Context) error {
		having, err := m.listToleration(ctx, key)
		if err == nil && len(having) < want {
			err = fmt.Errorf("%v have toleration %s, want %d clusters", having, key, want)
		}
		return err
	}
}

// listToleration lists the clusters whose works have the toleration.
func (m team) listToleration(ctx context.Context, key string) ([]string, error) {
	var out []string
	for _, c := range m.Managed {
		found, err := m.readToleration(ctx, c, key)
		if err != nil {
			return nil, err
		}
		if found {
			out = append(out, c.Name)
		}
	}
	return out, nil
}

func (m team) hasToleration(t *testing.T, c *lab.Cluster, key string) bool {
	t.Helper()
	found, err := m.readToleration(t.Context(), c, key)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// readToleration reports whether a work of the cluster has the toleration.
func (m team) readToleration(ctx context.Context, c *lab.Cluster, key string) (bool, error) {
	works, err := m.ComponentWorks(ctx, api.Serving, c.Name)
	return slices.ContainsFunc(works, func(w workv1.ManifestWork) bool { return countManifests(&w, key) > 0 }), err
}

func countManifests(w *workv1.ManifestWork, text string) int {
	n := 0
	for _, manifest := range w.Spec.Workload.Manifests {
		if bytes.Contains(manifest.Raw, []byte(text)) {
			n++
		}
	}
	return n
}

// removeToleration replaces the key of the toleration in the works of the cluster. The agent may report on a work between the read and
// the write.
func (m team) removeToleration(t *testing.T, c *lab.Cluster, key string) {
	t.Helper()
	err := retry.RetryOnConflict(wait.Backoff{Steps: 20, Duration: 50 * time.Millisecond, Factor: 1.2}, func() error {
		works, err := m.ComponentWorks(t.Context(), api.Serving, c.Name)
		if err != nil {
			return err
		}
		for i := range works {
			if err := m.replaceKey(t.Context(), &works[i], key); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// replaceKey replaces the key of a toleration in the manifests of a work that contain the key.
func (m team) replaceKey(ctx context.Context, w *workv1.ManifestWork, key string) error {
	if countManifests(w, key) == 0 {
		return nil
	}
	for n := range w.Spec.Workload.Manifests {
		raw := &w.Spec.Workload.Manifests[n].Raw
		*raw = bytes.ReplaceAll(*raw, []byte(key), []byte("tampered"))
	}
	_, err := m.Works.WorkV1().ManifestWorks(w.Namespace).Update(ctx, w, metav1.UpdateOptions{})
	return err
}
