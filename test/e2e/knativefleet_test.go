// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
)

var decisionResource = schema.GroupVersionResource{Group: "multicluster.x-k8s.io", Version: "v1alpha1", Resource: "placementdecisions"}

// knativeFleet is KnativeFleet blue/web over two managed clusters and one cluster that OCM does not manage.
type knativeFleet struct {
	push
	// clusters are the names of the ClusterProfiles, sorted.
	clusters []string
}

// TestKnativeFleet installs Serving on a mixed fleet with one resource, and changes the resource and the selection. The namespace is not
// trusted, and the admission policies are on.
func TestKnativeFleet(t *testing.T) {
	startRestStory(t)
	l := ownLab(t, lab.Options{ManagedClusters: 2, Spokes: 1, StatusSyncInterval: statusSync})
	serveDecisions(t, l)
	p := installDeliveryHub(t, l, harness.Options{Trusted: []string{"administrators"}})
	p.bind(t)
	direct := p.Spokes[0]
	p.token(t, direct.Name, direct, direct.Credential.Token)
	f := knativeFleet{push: p, clusters: []string{p.Managed[0].Name, p.Managed[1].Name, direct.Name}}
	f.setClusterValues(t)
	t.Run("a tenant without permission for KnativeServings is refused", func(t *testing.T) { f.refuseTenant(t) })
	t.Run("a spec with two selections, or without a template, is invalid", func(t *testing.T) { f.refuseInvalid(t) })
	t.Run("content that needs a trusted namespace is refused in a child too", func(t *testing.T) { f.refuseContent(t) })
	t.Run("every cluster becomes Ready", func(t *testing.T) { f.install(t) })
	t.Run("an edit reaches one cluster after the other", func(t *testing.T) { f.edit(t) })
	t.Run("every cluster has its own values", func(t *testing.T) { f.checkClusterValues(t) })
	t.Run("an edited and a deleted child are restored", func(t *testing.T) { f.restore(t) })
	t.Run("a bad edit stops at the first cluster, and the correction repairs the cluster", func(t *testing.T) { f.stop(t) })
	t.Run("a cluster that a Placement does not select is removed", func(t *testing.T) { f.selectByPlacement(t) })
	t.Run("a decision key selects, and maxRemoval holds a removal", func(t *testing.T) { f.selectByDecisionKey(t) })
	t.Run("the deletion removes every installation", func(t *testing.T) { f.delete(t) })
}

// serveDecisions makes the hub serve the PlacementDecisions of SIG Multicluster.
func serveDecisions(t *testing.T, l *lab.Lab) {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-inventory-api").Output()
	if err != nil {
		t.Fatalf("cannot find module cluster-inventory-api: %v", err)
	}
	file := filepath.Join(strings.TrimSpace(string(dir)), "config", "crd", "bases", "multicluster.x-k8s.io_placementdecisions.yaml")
	if _, err := (&harness.Fleet{Lab: l}).Command(t.Context(), "kubectl", "apply", "--server-side", "--filename", file); err != nil {
		t.Fatal(err)
	}
	if err := l.Hub.WaitForCRDs(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (f knativeFleet) fleets() dynamic.ResourceInterface {
	return f.configs.Resource(fleetv1alpha1.Resource()).Namespace(f.namespace)
}

// web returns the KnativeFleet with the spec of each KnativeServing.
func (f knativeFleet) web(serving map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": fleetv1alpha1.Group + "/" + fleetv1alpha1.Version, "kind": fleetv1alpha1.Kind,
		"metadata": map[string]any{"namespace": f.namespace, "name": "web"},
		"spec": map[string]any{
			"selector": map[string]any{}, "serving": map[string]any{"spec": serving},
			"rolloutStrategy": map[string]any{"type": "Progressive", "progressive": map[string]any{"maxConcurrency": int64(1)}},
		},
	}}
}

// setServing changes the template with a merge patch.
func (f knativeFleet) setServing(t *testing.T, spec map[string]any) {
	t.Helper()
	f.patchFleet(t, map[string]any{"serving": map[string]any{"spec": spec}})
}

func (f knativeFleet) patchFleet(t *testing.T, spec map[string]any) {
	t.Helper()
	data, err := json.Marshal(map[string]any{"spec": spec})
	if err == nil {
		_, err = f.fleets().Patch(t.Context(), "web", types.MergePatchType, data, metav1.PatchOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (f knativeFleet) readFleet(ctx context.Context) (*fleetv1alpha1.KnativeFleet, error) {
	u, err := f.fleets().Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	out := &fleetv1alpha1.KnativeFleet{}
	return out, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, out)
}

// reports waits until a condition of the KnativeFleet, and of its present generation, is as wanted and has the text in its message.
func (f knativeFleet) reports(t *testing.T, want conditionState, text string) {
	t.Helper()
	eventually(t, fmt.Sprintf("KnativeFleet with %v", want), 5*time.Minute, func(ctx context.Context) error {
		fleet, err := f.readFleet(ctx)
		if err != nil {
			return err
		}
		c := apimeta.FindStatusCondition(fleet.Status.Conditions, want.condition)
		if c == nil || fleet.Status.ObservedGeneration != fleet.Generation || c.Status != want.status || c.Reason != want.reason || !strings.Contains(c.Message, text) {
			return fmt.Errorf("generation %d has status %+v", fleet.Generation, fleet.Status)
		}
		return nil
	})
}

func (f knativeFleet) becomesReady(t *testing.T, clusters int) {
	t.Helper()
	f.reports(t, conditionState{fleetv1alpha1.Ready, metav1.ConditionTrue, fleetv1alpha1.ReasonReady}, fmt.Sprintf("all %d clusters", clusters))
}

// refuseTenant creates a KnativeFleet as a user who may write KnativeFleets and no KnativeServings.
func (f knativeFleet) refuseTenant(t *testing.T) {
	const user = "fleet-writer"
	role := metav1.ObjectMeta{Namespace: f.namespace, Name: user}
	rules := []rbacv1.PolicyRule{{APIGroups: []string{fleetv1alpha1.Group}, Resources: []string{"knativefleets"}, Verbs: []string{"*"}}}
	_, err := f.hub.kube.RbacV1().Roles(f.namespace).Create(t.Context(), &rbacv1.Role{ObjectMeta: role, Rules: rules}, metav1.CreateOptions{})
	if err == nil {
		_, err = f.hub.kube.RbacV1().RoleBindings(f.namespace).Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: role, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		}, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	config := rest.CopyConfig(f.Hub.Config)
	config.Impersonate.UserName = user
	as, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	create := func(ctx context.Context) error {
		_, err := as.Resource(fleetv1alpha1.Resource()).Namespace(f.namespace).Create(ctx, f.web(kourier()), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	// A policy works a moment after the API server has read the policy.
	eventually(t, "the refusal of a user without permission for KnativeServings", time.Minute, func(ctx context.Context) error {
		if err := create(ctx); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "may not create knativeservings in namespace blue") {
			return fmt.Errorf("the creation ends with %w", errors.Join(errors.New("the wrong result"), err))
		}
		return nil
	})
	roles := f.hub.kube.RbacV1().Roles(f.namespace)
	rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{api.Group}, Resources: []string{"knativeservings"}, Verbs: []string{"*"}})
	if _, err := roles.Update(t.Context(), &rbacv1.Role{ObjectMeta: role, Rules: rules}, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the permission of a user with permission for KnativeServings", time.Minute, create)
}

// refuseInvalid creates KnativeFleets that the CustomResourceDefinition refuses.
func (f knativeFleet) refuseInvalid(t *testing.T) {
	for text, change := range map[string]func(spec map[string]any){
		"exactly one of placementRef, decisionKey and selector": func(spec map[string]any) { spec["decisionKey"] = "edge" },
		"set exactly one of":                func(spec map[string]any) { delete(spec, "selector") },
		"set serving, eventing or both":     func(spec map[string]any) { delete(spec, "serving") },
		"spec.maxRemoval":                   func(spec map[string]any) { spec["maxRemoval"] = "many" },
		"an integer from 0 to 2147483647":   func(spec map[string]any) { spec["maxRemoval"] = int64(3_000_000_000) },
		"has to be an integer from 0 to":    func(spec map[string]any) { spec["maxRemoval"] = 1.0000000001 },
		`supported values: "Remove"`:        func(spec map[string]any) { spec["deletionPolicy"] = "Keep" },
		"spec.rolloutStrategy.type":         func(spec map[string]any) { spec["rolloutStrategy"] = map[string]any{"type": "Someday"} },
		"spec.serving.spec in body must be": func(spec map[string]any) { spec["serving"] = map[string]any{"spec": "text"} },
	} {
		fleet := f.web(kourier())
		change(fleet.Object["spec"].(map[string]any)) //nolint:forcetypeassert // of web
		_, err := f.fleets().Create(t.Context(), fleet, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: the creation ends with %v", text, err)
		}
	}
}

// refuseContent holds that the policies on the content of KnativeServings hold for the children that the manager writes.
func (f knativeFleet) refuseContent(t *testing.T) {
	spec := kourier()
	spec["manifests"] = []any{map[string]any{"URL": "https://example.com/serving.yaml"}}
	if _, err := f.fleets().Create(t.Context(), f.web(spec), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.reports(t, conditionState{fleetv1alpha1.RolledOut, metav1.ConditionFalse, fleetv1alpha1.ReasonChildRefused}, "spec.manifests may not replace the release")
	if names := f.childNames(t); len(names) > 0 {
		t.Errorf("there are children %q", names)
	}
}

func (f knativeFleet) childNames(t *testing.T) []string {
	t.Helper()
	list, err := f.resources(api.Serving).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for i := range list.Items {
		out = append(out, list.Items[i].GetName())
	}
	slices.Sort(out)
	return out
}

// install corrects the template, so that every cluster gets Serving.
func (f knativeFleet) install(t *testing.T) {
	f.setServing(t, map[string]any{"manifests": nil})
	f.becomesReady(t, 3)
	for _, name := range f.clusters {
		f.ready(t, api.Serving, name)
	}
	f.counts(t, func(s fleetv1alpha1.RolloutStatus) bool {
		return s.Total == 3 && s.Updated == 3 && s.Ready == 3 && s.Failed+s.Unresolved == 0 && len(s.Clusters) == 0
	})
}

// edit changes the template. When a cluster gets the revision, the cluster before has to be Ready with the revision.
func (f knativeFleet) edit(t *testing.T) {
	before, err := f.readFleet(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	end := f.watchChildren(t)
	f.setServing(t, map[string]any{"config": map[string]any{
		"defaults": map[string]any{"revision-timeout-seconds": "299"}, "features": map[string]any{"where": whereValues},
	}})
	f.becomesReady(t, 3)
	if order := orderOf(t, end(), before.Status.Rollout.Revision); !slices.Equal(order, f.clusters) {
		t.Errorf("the order of the clusters is %q, want %q", order, f.clusters)
	}
}

// restore edits the child of one cluster and deletes the child of another.
func (f knativeFleet) restore(t *testing.T) {
	edited, deleted := f.clusters[1], f.clusters[2]
	patch := []byte(`{"spec": {"config": {"defaults": {"revision-timeout-seconds": "298"}}}}`)
	if _, err := f.resources(api.Serving).Patch(t.Context(), edited, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	before, err := f.resources(api.Serving).Get(t.Context(), deleted, metav1.GetOptions{})
	if err == nil {
		err = f.resources(api.Serving).Delete(t.Context(), deleted, metav1.DeleteOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the children as the template has them", 3*time.Minute, func(ctx context.Context) error {
		for _, name := range []string{edited, deleted} {
			child, err := f.resources(api.Serving).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			value, _, _ := unstructured.NestedString(child.Object, "spec", "config", "defaults", "revision-timeout-seconds")
			if value != "299" || child.GetUID() == before.GetUID() || !isReadyNow(child) {
				return fmt.Errorf("%s has timeout %q, UID %s and is Ready: %t", name, value, child.GetUID(), isReadyNow(child))
			}
		}
		return nil
	})
	f.becomesReady(t, 3)
}

// stop sets a version that does not exist.
func (f knativeFleet) stop(t *testing.T) {
	f.setServing(t, map[string]any{"version": "9.99"})
	f.reports(t, conditionState{fleetv1alpha1.Ready, metav1.ConditionFalse, fleetv1alpha1.ReasonMaxFailuresExceeded}, f.clusters[0])
	f.counts(t, func(s fleetv1alpha1.RolloutStatus) bool {
		return s.Updated == 1 && s.Failed == 1 && len(s.Clusters) > 0 && s.Clusters[0].Reason == api.ReasonUnknownVersion
	})
	fleet, err := f.readFleet(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f.setServing(t, map[string]any{"version": "1.23"})
	f.becomesReady(t, 3)
	again, err := f.readFleet(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if again.Status.Rollout.Revision == fleet.Status.Rollout.Revision {
		t.Errorf("the revision is %s as before the correction", again.Status.Rollout.Revision)
	}
}

// selectByPlacement selects the managed clusters by a Placement: the third cluster loses Serving.
func (f knativeFleet) selectByPlacement(t *testing.T) {
	placement := &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "managed"}}
	if _, err := f.Clusters.ClusterV1beta1().Placements(f.namespace).Create(t.Context(), placement, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the decision of the Placement", time.Minute, func(ctx context.Context) error {
		decisions, err := f.placementDecisions(ctx, "managed")
		if err == nil && len(decisions) != 2 {
			err = fmt.Errorf("the Placement selects %q", decisions)
		}
		return err
	})
	f.patchFleet(t, map[string]any{"selector": nil, "placementRef": map[string]any{"name": "managed"}})
	f.becomesReady(t, 2)
	f.gone(t, api.Serving, f.clusters[2])
	if names := f.childNames(t); !slices.Equal(names, f.clusters[:2]) {
		t.Errorf("the children are %q", names)
	}
}

// selectByDecisionKey selects the same clusters by two PlacementDecisions, and then one cluster less.
func (f knativeFleet) selectByDecisionKey(t *testing.T) {
	decisions := f.configs.Resource(decisionResource).Namespace(f.namespace)
	for i, name := range f.clusters[:2] {
		_, err := decisions.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "PlacementDecision",
			"metadata": map[string]any{"namespace": f.namespace, "name": "edge-" + name, "labels": map[string]any{
				"multicluster.x-k8s.io/decision-key": "edge", "multicluster.x-k8s.io/decision-index": fmt.Sprint(i),
			}},
			"decisions": []any{map[string]any{"clusterProfileRef": map[string]any{"name": name}}},
		}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	f.patchFleet(t, map[string]any{"placementRef": nil, "decisionKey": "edge"})
	f.becomesReady(t, 2)
	if err := decisions.Delete(t.Context(), "edge-"+f.clusters[1], metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.reports(t, conditionState{fleetv1alpha1.RemovalHeld, metav1.ConditionTrue, fleetv1alpha1.ReasonMassRemoval}, f.clusters[1])
	f.becomesReady(t, 1)
	if names := f.childNames(t); !slices.Equal(names, f.clusters[:2]) {
		t.Errorf("the children are %q", names)
	}
}

// delete switches the deletion policy to Orphan and back, and deletes the KnativeFleet.
func (f knativeFleet) delete(t *testing.T) {
	for _, policy := range []string{"Orphan", "Remove"} {
		held := policy == "Orphan"
		f.patchFleet(t, map[string]any{"deletionPolicy": policy})
		eventually(t, "the finalizer of policy "+policy, time.Minute, func(ctx context.Context) error {
			fleet, err := f.readFleet(ctx)
			if err == nil && slices.Contains(fleet.Finalizers, api.FleetFinalizer) != held {
				err = fmt.Errorf("the finalizers are %q", fleet.Finalizers)
			}
			return err
		})
	}
	if err := f.fleets().Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range f.clusters {
		f.gone(t, api.Serving, name)
	}
	for _, c := range []*lab.Cluster{f.Managed[0], f.Managed[1], f.Spokes[0]} {
		s := connect(t, c)
		eventually(t, "no Deployment of Serving on "+c.Name, 2*time.Minute, func(ctx context.Context) error {
			list, err := s.kube.AppsV1().Deployments(api.Serving.InstallNamespace()).List(ctx, metav1.ListOptions{})
			if err == nil && len(list.Items) > 0 {
				err = fmt.Errorf("%d Deployments", len(list.Items))
			}
			return err
		})
	}
}
