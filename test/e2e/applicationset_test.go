// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/e2e/harness/docpage"
	"open-cluster-management.io/knative-addon/test/lab"
)

// Names of the manifests of docs/gitops.md.
const (
	applicationSetName = "team-services"
	readDecisionsName  = "read-placement-decisions"
	refreshAnnotation  = "argocd.argoproj.io/application-set-refresh"
)

var (
	applicationResource    = schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "applications"}
	applicationSetResource = schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "applicationsets"}
)

// application is the part of an Application that the story compares.
type application struct {
	UID         types.UID
	Destination string
	// Finalizers hold a deleted Application until Argo CD has deleted the Services on the cluster.
	Finalizers []string
}

// placedServices is a fleet whose Placement of namespace argocd selects the clusters of Knative and of an ApplicationSet.
type placedServices struct {
	team
	hub spoke
	// manifests are the manifests of docs/gitops.md.
	manifests []byte
}

// TestApplicationSet runs Argo CD's ApplicationSet controller with the manifests of docs/gitops.md: one Placement selects the clusters of
// Knative and the clusters of Applications. No other program of Argo CD runs, so that no Application is synced.
func TestApplicationSet(t *testing.T) {
	startNightlyStory(t)
	argo, err := harness.BuildArgoCD(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p := newPlacedServices(t, argo)
	first, second := p.Managed[0], p.Managed[1]
	t.Run("a selected cluster that Argo CD does not know gets Knative and no Application", func(t *testing.T) {
		p.selectClusters(t, first, second)
		p.registerInArgoCD(t, first)
		if err := p.Hub.Apply(t.Context(), p.manifests); err != nil {
			t.Fatal(err)
		}
		p.awaitPlacement(t, placementName, first, second)
		p.refresh(t)
		p.awaitApplications(t, first)
		available(t, p.Fleet, []api.Component{api.Serving}, first, second)
		p.checkNoError(t)
	})
	t.Run("a cluster that Argo CD learns gets an Application", func(t *testing.T) {
		p.registerInArgoCD(t, second)
		p.awaitApplications(t, first, second)
	})
	t.Run("a deselected cluster loses the Application and Knative", func(t *testing.T) {
		before := p.listApplications(t)[applicationOf(first)]
		p.selectClusters(t, first)
		p.awaitApplications(t, first)
		p.removed(t, second)
		if diff := cmp.Diff(before, p.listApplications(t)[applicationOf(first)]); diff != "" {
			t.Errorf("the Application of the other cluster has changed (-before +after):\n%s", diff)
		}
	})
	t.Run("a cluster that is selected again gets the Application and Knative", func(t *testing.T) {
		p.selectClusters(t, first, second)
		p.awaitApplications(t, first, second)
		available(t, p.Fleet, []api.Component{api.Serving}, first, second)
	})
	t.Run("a Placement that selects no cluster deletes the Applications and leaves Knative", func(t *testing.T) { p.selectNone(t) })
	t.Run("without the Role the ApplicationSet reports an error, and the Applications stay", func(t *testing.T) { p.removeRole(t) })
	t.Run("a deleted Placement leaves the Applications and Knative", func(t *testing.T) { p.deletePlacement(t) })
}

// newPlacedServices installs the chart with the values of docs/gitops.md, and runs the ApplicationSet controller under the Role of Argo CD's
// manifests.
func newPlacedServices(t *testing.T, argo harness.ArgoCD) placedServices {
	t.Helper()
	values := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(values, readManifests(t, "gitops.md", "placement-values"), 0o600); err != nil {
		t.Fatal(err)
	}
	l := ownLab(t, lab.Options{ManagedClusters: 2, StatusSyncInterval: statusSync, Log: os.Stderr})
	f, err := harness.Install(t.Context(), l, harness.Options{Helm: []string{
		"--values", values, "--set", "serving.installStrategy.rolloutStrategy.progressive.minSuccessTime=1s", // for the second cluster of the rollout
	}})
	if err != nil {
		t.Fatal(err)
	}
	logManagerOnFailure(t, f)
	if err := argo.Install(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	if err := argo.Run(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the log of the ApplicationSet controller:\n%s", f.LogTail(harness.ApplicationSetController))
		}
	})
	hub := connect(t, l.Hub)
	return placedServices{
		team: team{Fleet: f, namespace: harness.ArgoCDNamespace, configs: hub.dynamic}, hub: hub,
		manifests: readManifests(t, "gitops.md", "placement-applicationset"),
	}
}

// readManifests returns the manifests of a name on a page of docs.
func readManifests(t *testing.T, name, manifests string) []byte {
	t.Helper()
	found, err := docpage.FindManifests(readDocument(t, name), manifests)
	if err != nil {
		t.Fatalf("docs/%s: %v", name, err)
	}
	return []byte(found)
}

// selectClusters sets the label of the Placement on these managed clusters, and removes the label from all others.
func (p placedServices) selectClusters(t *testing.T, clusters ...*lab.Cluster) {
	t.Helper()
	labels := map[string]string{}
	for _, c := range p.Managed {
		labels[c.Name] = "null"
	}
	for _, c := range clusters {
		labels[c.Name] = `"true"`
	}
	for name, value := range labels {
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{"knative":%s}}}`, value)
		_, err := p.Clusters.ClusterV1().ManagedClusters().Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// registerInArgoCD creates the Secret that `argocd cluster add --name` writes, without a credential: nothing connects to the cluster.
func (p placedServices) registerInArgoCD(t *testing.T, c *lab.Cluster) {
	t.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "cluster-" + c.Name, Labels: map[string]string{"argocd.argoproj.io/secret-type": "cluster"}},
		StringData: map[string]string{"name": c.Name, "server": c.URL, "config": "{}"},
	}
	if _, err := p.hub.kube.CoreV1().Secrets(p.namespace).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func applicationOf(c *lab.Cluster) string { return applicationSetName + "-" + c.Name }

func (p placedServices) readApplications(ctx context.Context) (map[string]application, error) {
	list, err := p.configs.Resource(applicationResource).Namespace(p.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	out := map[string]application{}
	for i := range list.Items {
		u := &list.Items[i]
		name, _, _ := unstructured.NestedString(u.Object, "spec", "destination", "name")
		out[u.GetName()] = application{UID: u.GetUID(), Destination: name, Finalizers: u.GetFinalizers()}
	}
	return out, nil
}

func (p placedServices) listApplications(t *testing.T) map[string]application {
	t.Helper()
	out, err := p.readApplications(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// awaitApplications waits until there are exactly the Applications of these clusters, whose deletion leaves the Services on the cluster.
func (p placedServices) awaitApplications(t *testing.T, clusters ...*lab.Cluster) {
	t.Helper()
	want := map[string]application{}
	for _, c := range clusters {
		want[applicationOf(c)] = application{Destination: c.Name}
	}
	eventually(t, fmt.Sprintf("%d clusters have an Application", len(clusters)), 2*time.Minute, func(ctx context.Context) error {
		got, err := p.readApplications(ctx)
		if err != nil {
			return err
		}
		for name, a := range got {
			a.UID = ""
			got[name] = a
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("-want +got:\n%s", diff)
		}
		return nil
	})
}

// refresh ends the wait of the ApplicationSet controller after an error, with the command of docs/gitops.md, and waits until the controller
// has generated the Applications.
func (p placedServices) refresh(t *testing.T) {
	t.Helper()
	account := "system:serviceaccount:" + p.namespace + ":" + harness.ApplicationSetController
	eventually(t, "the controller may list PlacementDecisions", time.Minute, func(ctx context.Context) error {
		_, err := p.Command(ctx, "kubectl", "auth", "can-i", "list", "placementdecisions.cluster.open-cluster-management.io", "--namespace", p.namespace, "--as", account)
		return err
	})
	if _, err := p.Command(t.Context(), "kubectl", "annotate", "applicationset", "--namespace", p.namespace, applicationSetName, refreshAnnotation+"=true"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the controller has generated the Applications", 2*time.Minute, func(ctx context.Context) error {
		set, err := p.configs.Resource(applicationSetResource).Namespace(p.namespace).Get(ctx, applicationSetName, metav1.GetOptions{})
		if err == nil && set.GetAnnotations()[refreshAnnotation] != "" {
			err = errors.New("the annotation is still there")
		}
		return err
	})
	p.checkNoError(t)
}

// readError returns the status and the message of condition ErrorOccurred of the ApplicationSet.
func (p placedServices) readError(ctx context.Context) (status, message string, err error) {
	set, err := p.configs.Resource(applicationSetResource).Namespace(p.namespace).Get(ctx, applicationSetName, metav1.GetOptions{})
	if err != nil {
		return "", "", err
	}
	conditions, _, err := unstructured.NestedSlice(set.Object, "status", "conditions")
	for _, o := range conditions {
		if c, _ := o.(map[string]any); c["type"] == "ErrorOccurred" {
			return fmt.Sprint(c["status"]), fmt.Sprint(c["message"]), err
		}
	}
	return "", "", err
}

func (p placedServices) checkNoError(t *testing.T) {
	t.Helper()
	eventually(t, "the ApplicationSet reports no error", time.Minute, func(ctx context.Context) error {
		status, message, err := p.readError(ctx)
		if err == nil && status != string(metav1.ConditionFalse) {
			err = fmt.Errorf("ErrorOccurred is %q: %s", status, message)
		}
		return err
	})
}

// awaitError waits until the ApplicationSet reports an error with the text, and holds that the Applications are the same as before.
func (p placedServices) awaitError(t *testing.T, text string, before map[string]application) {
	t.Helper()
	eventually(t, "the ApplicationSet reports an error", 2*time.Minute, func(ctx context.Context) error {
		status, message, err := p.readError(ctx)
		if err == nil && (status != string(metav1.ConditionTrue) || !strings.Contains(message, text)) {
			err = fmt.Errorf("ErrorOccurred is %q: %s", status, message)
		}
		return err
	})
	if diff := cmp.Diff(before, p.listApplications(t)); diff != "" {
		t.Errorf("the Applications have changed (-before +after):\n%s", diff)
	}
}

// selectNone removes the label from all clusters: Argo CD deletes the Applications, and the add-on holds the removals.
func (p placedServices) selectNone(t *testing.T) {
	before := p.readInstallations(t, p.Managed...)
	p.selectClusters(t)
	p.awaitApplications(t)
	p.all(func(c *lab.Cluster) { p.awaitRemovalHeld(t, c, api.ReasonMassRemoval) })
	p.allUntouched(t, before)
	p.selectClusters(t, p.Managed...)
	p.awaitApplications(t, p.Managed...)
	p.awaitHandovers(t, before)
	available(t, p.Fleet, []api.Component{api.Serving}, p.Managed...)
}

// removeRole deletes the RoleBinding of docs/gitops.md, and applies the RoleBinding again.
func (p placedServices) removeRole(t *testing.T) {
	before := p.listApplications(t)
	if err := p.hub.kube.RbacV1().RoleBindings(p.namespace).Delete(t.Context(), readDecisionsName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.awaitError(t, "forbidden", before)
	if err := p.Hub.Apply(t.Context(), p.manifests); err != nil {
		t.Fatal(err)
	}
	p.refresh(t)
	p.awaitApplications(t, p.Managed...)
}

// deletePlacement deletes the Placement, and applies the Placement again.
func (p placedServices) deletePlacement(t *testing.T) {
	applications, installations := p.listApplications(t), p.readInstallations(t, p.Managed...)
	if err := p.Clusters.ClusterV1beta1().Placements(p.namespace).Delete(t.Context(), placementName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.awaitError(t, "no clusterDecisionResources found", applications)
	p.all(func(c *lab.Cluster) { p.awaitRemovalHeld(t, c, api.ReasonMassRemoval) })
	if err := p.Hub.Apply(t.Context(), p.manifests); err != nil {
		t.Fatal(err)
	}
	p.awaitPlacement(t, placementName, p.Managed...)
	p.refresh(t)
	p.awaitHandovers(t, installations)
	if diff := cmp.Diff(applications, p.listApplications(t)); diff != "" {
		t.Errorf("the Applications have changed (-before +after):\n%s", diff)
	}
}
