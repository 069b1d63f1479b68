// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	addonclient "open-cluster-management.io/api/client/addon/clientset/versioned"
	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned"
	workclient "open-cluster-management.io/api/client/work/clientset/versioned"
	clusterv1beta2 "open-cluster-management.io/api/cluster/v1beta2"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
)

const (
	// secretValue is in the configuration of another team, and nowhere else.
	secretValue = "private-value-of-team-b"
	// ocmAddOnManager is OCM's add-on manager among the lab's components.
	ocmAddOnManager = "ocm-addon"
)

// hostileAgent is the agent of a cluster with the credential that OCM gave to the agent, in the hands of an attacker.
type hostileAgent struct {
	team
	cluster *lab.Cluster
	config  *rest.Config
	addOns  addonclient.Interface
	works   workclient.Interface
	fleet   clusterclient.Interface
	// leaked are works of the cluster that held the secret value.
	leaked *leakWatch
}

// leakWatch watches the works of a cluster for the secret value.
type leakWatch struct {
	watchedViolations
}

// TestHostileCluster plays a managed cluster with the credential of its agent. Another team has a configuration that the cluster
// was not given, and no work of the cluster ever has a value of that.
func TestHostileCluster(t *testing.T) {
	startRestStory(t)
	f := ownFleet(t, lab.Options{ManagedClusters: 2, StatusSyncInterval: statusSync})
	m := newTeam(t, f, "team-b")
	k := newKlusterlet(t, m, f.Managed[0])
	private := m.createPrivateConfig(t)
	available(t, f, []api.Component{api.Serving}, enableAll(t, m)...)
	k.watchLeaks(t)

	t.Run("OCM lets the agent write works and status, and no record of the hub", func(t *testing.T) { k.checkPermissions(t) })
	t.Run("a status that the caches of the hub cannot decode is refused", func(t *testing.T) { k.forgeUndecodable(t) })
	t.Run("a forged handover in an annotation of a work has no effect", func(t *testing.T) { k.forgeHandover(t) })
	t.Run("a forged configuration in the status, in a race with OCM, has no effect", func(t *testing.T) { k.raceWithOCM(t, private) })
	t.Run("a forged configuration in the status while OCM is stopped has no effect", func(t *testing.T) { k.forgeWithoutOCM(t, private) })
	t.Run("a forged configuration of a payload of a paused cluster has no effect", func(t *testing.T) { k.forgePausedPayload(t, private) })
	t.Run("forged metadata, specs and messages of works are repaired or bounded", func(t *testing.T) { k.forgeWorks(t) })
	t.Run("a condition that exceeds the limit of a message", func(t *testing.T) { k.floodFeedback(t) })
	t.Run("a rollback ignores a forged completion of a revision", func(t *testing.T) { k.forgeCompletion(t) })
	t.Run("a recreated ManagedCluster inherits nothing", func(t *testing.T) { k.recreateManagedCluster(t, private) })
	k.leaked.checkNoViolations(t)
}

func newKlusterlet(t *testing.T, m team, c *lab.Cluster) *hostileAgent {
	t.Helper()
	k := &hostileAgent{team: m, cluster: c, leaked: &leakWatch{}}
	var errs [4]error
	k.config, errs[0] = m.Klusterlet(c)
	if errs[0] != nil {
		t.Fatal(errs[0])
	}
	k.addOns, errs[1] = addonclient.NewForConfig(k.config)
	k.works, errs[2] = workclient.NewForConfig(k.config)
	k.fleet, errs[3] = clusterclient.NewForConfig(k.config)
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	return k
}

func enableAll(t *testing.T, m team) []*lab.Cluster {
	t.Helper()
	var names []string
	for _, c := range m.Managed {
		names = append(names, c.Name)
	}
	if err := m.Enable(t.Context(), []string{api.Serving.AddOnName()}, names); err != nil {
		t.Fatal(err)
	}
	return m.Managed
}

// createPrivateConfig makes the configuration of the other team, and returns what OCM would write into a status for that.
func (m team) createPrivateConfig(t *testing.T) *addonv1beta1.ConfigSpecHash {
	t.Helper()
	u, err := m.resources(api.Serving).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": api.Group + "/v1beta1", "kind": api.Serving.Kind(), "metadata": map[string]any{"name": "private"},
		"spec": map[string]any{"version": "1.23", "config": map[string]any{"defaults": map[string]any{"token": secretValue}}},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	hash, err := hashOf(u)
	if err != nil {
		t.Fatal(err)
	}
	return &addonv1beta1.ConfigSpecHash{ConfigReferent: addonv1beta1.ConfigReferent{Namespace: m.namespace, Name: "private"}, SpecHash: hash}
}

func (k *hostileAgent) watchLeaks(t *testing.T) {
	t.Helper()
	k.leaked.followWatch(t, func(ctx context.Context) (watch.Interface, error) {
		return k.Works.WorkV1().ManifestWorks(k.cluster.Name).Watch(ctx, metav1.ListOptions{})
	}, k.leaked.see)
}

func (l *leakWatch) see(_ context.Context, e watch.Event) {
	w, ok := e.Object.(*workv1.ManifestWork)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case e.Type == watch.Error:
		l.violations = append(l.violations, fmt.Sprintf("the watch has failed: %v", e.Object))
	case ok && slices.ContainsFunc(w.Spec.Workload.Manifests, func(m workv1.Manifest) bool { return bytes.Contains(m.Raw, []byte(secretValue)) }):
		l.violations = append(l.violations, fmt.Sprintf("ManifestWork %s/%s has the other team's value", w.Namespace, w.Name))
	}
}

// checkPermissions holds what the threat model says of the agent, against the authorizer of the hub.
func (k *hostileAgent) checkPermissions(t *testing.T) {
	client, err := kubernetes.NewForConfig(k.config)
	if err != nil {
		t.Fatal(err)
	}
	const addon, cluster, works = "addon.open-cluster-management.io", "cluster.open-cluster-management.io", "work.open-cluster-management.io"
	for _, tc := range []struct {
		verb, group, resource, sub string
		want                       bool
	}{
		{"patch", works, "manifestworks", "", true},
		{"update", works, "manifestworks", "", true},
		{"patch", works, "manifestworks", "status", true},
		{"create", works, "manifestworks", "", false},
		{"delete", works, "manifestworks", "", false},
		{"patch", addon, "managedclusteraddons", "status", true},
		{"patch", addon, "managedclusteraddons", "", false},
		{"update", addon, "managedclusteraddons", "", false},
		{"create", addon, "managedclusteraddons", "", false},
		{"patch", addon, "clustermanagementaddons", "", false},
		{"patch", addon, "clustermanagementaddons", "status", false},
		{"get", addon, "addondeploymentconfigs", "", false},
		{"update", "coordination.k8s.io", "leases", "", true},
		{"update", cluster, "addonplacementscores", "status", false},
		{"update", cluster, "placementdecisions", "status", false},
		{"create", "apps", "controllerrevisions", "", false},
		{"patch", "apps", "controllerrevisions", "", false},
		{"delete", "apps", "controllerrevisions", "", false},
		{"get", "apps", "controllerrevisions", "", false},
		{"get", api.Group, "knativeservings", "", false},
		{"get", "", "configmaps", "", false},
		{"create", "", "events", "", true},
	} {
		review, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: k.cluster.Name, Verb: tc.verb, Group: tc.group, Resource: tc.resource, Subresource: tc.sub,
			}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if review.Status.Allowed != tc.want {
			t.Errorf("the agent may %s %s.%s/%s: %t, want %t", tc.verb, tc.resource, tc.group, tc.sub, review.Status.Allowed, tc.want)
		}
	}
	k.writeManagedCluster(t)
	before := k.readAddOn(t)
	k.patchStatus(t, map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{api.GrantedConfigsAnnotation: "forged", api.ClusterUIDAnnotation: "forged"}},
		"spec":     map[string]any{"configs": []any{}},
	})
	after := k.readAddOn(t)
	for _, name := range []string{api.GrantedConfigsAnnotation, api.ClusterUIDAnnotation} {
		if before.Annotations[name] == "" || after.Annotations[name] != before.Annotations[name] {
			t.Errorf("annotation %s went from %q to %q with a patch of the status", name, before.Annotations[name], after.Annotations[name])
		}
	}
}

// writeManagedCluster holds that the agent may label its own ManagedCluster, and may neither change its ManagedClusterSet, which
// is what consent goes by, nor read another cluster.
func (k *hostileAgent) writeManagedCluster(t *testing.T) {
	t.Helper()
	clusters := k.fleet.ClusterV1().ManagedClusters()
	label := func(key, value string) error {
		own, err := clusters.Get(t.Context(), k.cluster.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		own.Labels[key] = value
		_, err = clusters.Update(t.Context(), own, metav1.UpdateOptions{})
		return err
	}
	eventually(t, "the agent labels its ManagedCluster", time.Minute, func(context.Context) error { return label("forged", "yes") })
	eventually(t, "the agent is kept from another ManagedClusterSet", time.Minute, func(context.Context) error {
		err := label(clusterv1beta2.ClusterSetLabel, "another")
		if err == nil {
			t.Error("the agent has put its cluster into another ManagedClusterSet")
			return nil
		}
		if !apierrors.IsForbidden(err) { // also a conflict with OCM's own write
			return err
		}
		return nil
	})
	if _, err := clusters.Get(t.Context(), k.Managed[1].Name, metav1.GetOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("the agent reads another ManagedCluster: %v", err)
	}
}

func (k *hostileAgent) readAddOn(t *testing.T) *addonv1beta1.ManagedClusterAddOn {
	t.Helper()
	a, err := k.AddOns.AddonV1beta1().ManagedClusterAddOns(k.cluster.Name).Get(t.Context(), api.Serving.AddOnName(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (k *hostileAgent) patchStatus(t *testing.T, patch any) {
	t.Helper()
	raw, err := json.Marshal(patch)
	if err != nil {
		t.Fatal(err)
	}
	_, err = k.addOns.AddonV1beta1().ManagedClusterAddOns(k.cluster.Name).Patch(
		t.Context(), api.Serving.AddOnName(), types.MergePatchType, raw, metav1.PatchOptions{}, "status")
	if err != nil {
		t.Fatal(err)
	}
}

func (k *hostileAgent) patchWork(t *testing.T, name, patch string, subresources ...string) {
	t.Helper()
	_, err := k.works.WorkV1().ManifestWorks(k.cluster.Name).Patch(
		t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...)
	if err != nil {
		t.Fatalf("the agent cannot patch its work %s: %v", name, err)
	}
}

// checkConfigurationKept holds that the add-on has the configuration of the fleet.
func (k *hostileAgent) checkConfigurationKept(t *testing.T) {
	t.Helper()
	a := k.readAddOn(t)
	if len(a.Spec.Configs) > 0 {
		t.Errorf("spec.configs is %v", a.Spec.Configs)
	}
	if got, want := a.Annotations[api.GrantedConfigsAnnotation], "knativeservings."+api.Group+"/"+harness.Namespace+"/default"; got != want {
		t.Errorf("the hub has given %q, want %q", got, want)
	}
}

// awaitRecovery waits until the cluster has again what the hub gave.
func (k *hostileAgent) awaitRecovery(t *testing.T) {
	t.Helper()
	eventually(t, "the status of the add-on is OCM's again", 3*time.Minute, func(ctx context.Context) error {
		a, err := k.AddOns.AddonV1beta1().ManagedClusterAddOns(k.cluster.Name).Get(ctx, api.Serving.AddOnName(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		resolved := apimeta.FindStatusCondition(a.Status.Conditions, api.TargetClusterResolved)
		for _, ref := range a.Status.ConfigReferences {
			if ref.DesiredConfig == nil || ref.DesiredConfig.Namespace != harness.Namespace {
				return fmt.Errorf("it names %v", ref.DesiredConfig)
			}
		}
		if len(a.Status.ConfigReferences) == 0 || resolved == nil || resolved.Status != metav1.ConditionTrue {
			return fmt.Errorf("it has references %v, and the condition is %v", a.Status.ConfigReferences, resolved)
		}
		return nil
	})
	settled(t, k.Fleet, api.Serving, k.cluster)
	k.checkConfigurationKept(t)
}

func (k *hostileAgent) forgeHandover(t *testing.T) {
	foundation := manifestwork.FoundationName(api.Serving)
	k.patchWork(t, foundation, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, api.HandoverAnnotation,
		fmt.Sprintf(`[{"group":%q,"resource":"knativeservings","namespace":%q,"name":"private"}]`, api.Group, k.namespace)))
	eventually(t, "the annotation is gone again", 2*time.Minute, func(ctx context.Context) error {
		w, err := k.Works.WorkV1().ManifestWorks(k.cluster.Name).Get(ctx, foundation, metav1.GetOptions{})
		if err != nil || w.Annotations[api.HandoverAnnotation] != "" {
			return fmt.Errorf("the annotation is there, error %w", err)
		}
		return nil
	})
	k.awaitRecovery(t)
}

// claimOf returns a status that names the configuration of the other team.
func claimOf(private *addonv1beta1.ConfigSpecHash) map[string]any {
	return map[string]any{"status": map[string]any{"configReferences": []addonv1beta1.ConfigReference{{
		ConfigGroupResource: addonv1beta1.ConfigGroupResource{Group: api.Group, Resource: "knativeservings"}, DesiredConfig: private,
	}}}}
}

// raceWithOCM writes the status as often as the hub lets the agent, against OCM's own writes.
func (k *hostileAgent) raceWithOCM(t *testing.T, private *addonv1beta1.ConfigSpecHash) {
	const writers, writes = 4, 75
	raw, err := json.Marshal(claimOf(private))
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range writes {
				_, err := k.addOns.AddonV1beta1().ManagedClusterAddOns(k.cluster.Name).Patch(
					t.Context(), api.Serving.AddOnName(), types.MergePatchType, raw, metav1.PatchOptions{}, "status")
				if err != nil && !apierrors.IsConflict(err) {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	k.awaitRecovery(t)
}

func (k *hostileAgent) forgeWithoutOCM(t *testing.T, private *addonv1beta1.ConfigSpecHash) {
	before := workGenerations(t, k.Fleet, k.cluster)
	k.pauseOCM(t)
	k.patchStatus(t, claimOf(private))
	eventually(t, "the refusal has a reason on the add-on", 2*time.Minute, func(ctx context.Context) error {
		a, err := k.AddOns.AddonV1beta1().ManagedClusterAddOns(k.cluster.Name).Get(ctx, api.Serving.AddOnName(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		c := apimeta.FindStatusCondition(a.Status.Conditions, api.TargetClusterResolved)
		if c == nil || c.Reason != api.ReasonConfigNotGranted || !strings.Contains(c.Message, `"team-b/private"`) {
			return fmt.Errorf("the condition is %v", c)
		}
		return nil
	})
	event(t, k.team, api.ReasonConfigNotGranted)
	// The resource of the other team does not count the cluster.
	u, err := k.resources(api.Serving).Get(t.Context(), "private", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprint(u.Object["status"]); strings.Contains(text, k.cluster.Name) {
		t.Errorf("the status of the other team's resource speaks of the cluster: %s", text)
	}
	for name, generation := range workGenerations(t, k.Fleet, k.cluster) {
		if before[name] != generation {
			t.Errorf("work %s went from generation %d to %d", name, before[name], generation)
		}
	}
	k.resumeOCM(t)
	k.awaitRecovery(t)
}
