// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
)

// crdResource is the kind CustomResourceDefinition.
var crdResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// CRDs of the hub that TestKindsRemoved deletes.
const (
	profileCRD   = "clusterprofiles.multicluster.x-k8s.io"
	placementCRD = "placements.cluster.open-cluster-management.io"
)

// TestKindsRemoved deletes the CRDs of ClusterProfiles and of Placements from the hub while the manager runs, and recreates the CRDs.
// No cluster is written to, and every installation has its owner again afterwards.
func TestKindsRemoved(t *testing.T) {
	startNightlyStory(t)
	p := newPush(t, lab.Options{ManagedClusters: 2, Spokes: 1, StatusSyncInterval: statusSync}, harness.Options{})
	p.bind(t)
	p.token(t, p.Spokes[0].Name, p.Spokes[0], p.Spokes[0].Credential.Token)
	ways := []way{{push: p, spoke: connect(t, p.Managed[0])}, {push: p, spoke: connect(t, p.Spokes[0])}}
	for _, w := range ways {
		w.apply(t, api.Serving, w.Name, kourier())
	}
	for _, w := range ways {
		w.shows(t, verdicts{})
	}
	settled(t, p.Fleet, api.Serving, p.Managed[0])

	t.Run("the kind of ClusterProfiles, while the manager runs", func(t *testing.T) { p.removeProfileKind(t, ways, func() {}, func() {}) })
	t.Run("the kind of ClusterProfiles, and the manager starts without, and later lacks the permission", func(t *testing.T) {
		var permit func()
		p.removeProfileKind(t, ways, func() {
			p.replaceManager(t)
			permit = p.forbidProfiles(t)
		}, func() {
			for _, w := range ways {
				w.shows(t, verdicts{api.TargetClusterResolved: "False " + api.ReasonClusterProfileUnavailable}, w.Name, "Forbidden")
			}
			permit()
		})
	})
	ways[0].delete(t)
	p.gone(t, api.Serving, ways[0].Name)
	p.createPlacement(t)
	available(t, p.Fleet, []api.Component{api.Serving}, p.Managed...)
	t.Run("the kind of Placements, while the manager runs", func(t *testing.T) { p.removePlacementKind(t, func() {}) })
	t.Run("the kind of Placements, and the manager starts without", func(t *testing.T) {
		p.removePlacementKind(t, func() { p.restartWithoutPlacements(t) })
	})
}

// forbidProfiles takes the permission to read ClusterProfiles from the manager. The returned function gives the permission back.
func (p push) forbidProfiles(t *testing.T) (permit func()) {
	t.Helper()
	setRules := func(change func([]rbacv1.PolicyRule) []rbacv1.PolicyRule) {
		role, err := p.hub.kube.RbacV1().ClusterRoles().Get(t.Context(), harness.ManagerAccount, metav1.GetOptions{})
		if err == nil {
			role.Rules = change(role.Rules)
			_, err = p.hub.kube.RbacV1().ClusterRoles().Update(t.Context(), role, metav1.UpdateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var former []rbacv1.PolicyRule
	setRules(func(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
		former = slices.Clone(rules)
		return slices.DeleteFunc(rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, "clusterprofiles") })
	})
	return func() { setRules(func([]rbacv1.PolicyRule) []rbacv1.PolicyRule { return former }) }
}

// removeProfileKind deletes the kind ClusterProfile, runs a further fault, and restores the kind and the profile that OCM does not publish.
// restored runs before all resources have to be Ready again.
func (p push) removeProfileKind(t *testing.T, ways []way, fault, restored func()) {
	before := restingSpecsOf(t, spokesOf(ways)...)
	crd := p.deleteKind(t, profileCRD)
	missing := verdicts{api.TargetClusterResolved: "False " + api.ReasonClusterProfileNotFound}
	for _, w := range ways {
		w.shows(t, missing, w.Name)
	}
	p.awaitLog(t, "ClusterProfiles cannot be listed or watched")
	fault()
	// The manager serves other resources.
	enabled(t, p.Fleet, []api.Component{api.Serving}, p.Managed[1])
	p.disable(t, p.Managed[1])
	p.removed(t, p.Managed[1])
	for _, w := range ways {
		w.shows(t, missing, w.Name)
	}
	p.restoreKind(t, crd)
	p.token(t, p.Spokes[0].Name, p.Spokes[0], p.Spokes[0].Credential.Token)
	restored()
	for _, w := range ways {
		w.shows(t, verdicts{})
		if diff := cmp.Diff(before[w.Name], specs(t, w.spoke)); diff != "" {
			t.Errorf("%s was written to (-before +after):\n%s", w.Name, diff)
		}
	}
	alive(t, p.Fleet)
}

// removePlacementKind deletes the kind Placement, runs a further fault, and restores the kind and the Placement.
func (p push) removePlacementKind(t *testing.T, fault func()) {
	before := p.readInstallations(t, p.Managed...)
	crd := p.deleteKind(t, placementCRD)
	p.all(func(c *lab.Cluster) { p.awaitRemovalHeld(t, c, api.ReasonMassRemoval) })
	alive(t, p.Fleet)
	fault()
	p.allUntouched(t, before)
	p.restoreKind(t, crd)
	p.createPlacement(t)
	p.awaitHandovers(t, before)
	available(t, p.Fleet, []api.Component{api.Serving}, p.Managed...)
}

// restartWithoutPlacements starts the manager on a hub without Placements: the manager waits, and names the kind in the log.
func (p push) restartWithoutPlacements(t *testing.T) {
	t.Helper()
	p.replaceManager(t)
	p.awaitLog(t, "still listing")
	alive(t, p.Fleet)
	if p.Probe(t.Context(), harness.Manager, "/readyz") == nil {
		t.Error("the manager is ready without Placements")
	}
}

// awaitLog waits until the manager has written another line with the text.
func (p push) awaitLog(t *testing.T, text string) {
	t.Helper()
	before := strings.Count(managerLog(t, p.Fleet), text)
	eventually(t, "the manager's log says "+text, 3*time.Minute, func(context.Context) error {
		if strings.Count(managerLog(t, p.Fleet), text) == before {
			return errors.New("no new line says so")
		}
		return nil
	})
}

// deleteKind deletes a CRD from the hub, waits until the hub does not serve the kind, and returns a copy for restoreKind.
func (p push) deleteKind(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	crds := p.hub.dynamic.Resource(crdResource)
	crd, err := crds.Get(t.Context(), name, metav1.GetOptions{})
	if err == nil {
		err = crds.Delete(t.Context(), name, metav1.DeleteOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the hub does not serve "+name, 3*time.Minute, func(ctx context.Context) error {
		_, err := crds.Get(ctx, name, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("the CRD is there (error %w)", err)
		}
		if _, err := p.hub.listed(ctx, servedResource(crd)); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the kind is served (error %w)", err)
		}
		return nil
	})
	out := &unstructured.Unstructured{Object: map[string]any{"apiVersion": crd.GetAPIVersion(), "kind": crd.GetKind(), "spec": crd.Object["spec"]}}
	out.SetName(name)
	out.SetLabels(crd.GetLabels())
	out.SetAnnotations(crd.GetAnnotations())
	return out
}

// restoreKind recreates a CRD, and waits until the hub serves the kind.
func (p push) restoreKind(t *testing.T, crd *unstructured.Unstructured) {
	t.Helper()
	if _, err := p.hub.dynamic.Resource(crdResource).Create(t.Context(), crd, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the hub serves "+crd.GetName(), 3*time.Minute, func(ctx context.Context) error {
		_, err := p.hub.listed(ctx, servedResource(crd))
		return err
	})
}

// servedResource returns the resource of a CRD in its storage version.
func servedResource(crd *unstructured.Unstructured) schema.GroupVersionResource {
	out := schema.GroupVersionResource{}
	out.Resource, out.Group, _ = strings.Cut(crd.GetName(), ".")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, o := range versions {
		if v, _ := o.(map[string]any); v["storage"] == true {
			out.Version, _ = v["name"].(string)
		}
	}
	return out
}
