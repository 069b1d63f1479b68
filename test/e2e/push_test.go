// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/trust"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
)

var profileResource = schema.GroupVersionResource{Group: "multicluster.x-k8s.io", Version: "v1alpha1", Resource: "clusterprofiles"}

// push is a hub with clusters that OCM does not manage.
type push struct {
	team
	hub spoke
	// providers is the file of access providers.
	providers string
}

// TestPush installs on clusters that OCM does not manage, through the real plugins.
func TestPush(t *testing.T) {
	startMainStory(t)
	p := newPush(t, lab.Options{Spokes: 2}, harness.Options{})
	one, two := p.Spokes[0], p.Spokes[1]
	p.token(t, "one", one, one.Credential.Token)
	p.kubeconfig(t, "two", two)
	t.Run("a resource becomes Ready through a plugin that reads a token", func(t *testing.T) { p.installDirectly(t, "one", api.Serving, kourier()) })
	t.Run("both components share a cluster", func(t *testing.T) { p.installDirectly(t, "one", api.Eventing, map[string]any{"version": "1.23"}) })
	t.Run("the hub records the renderings", func(t *testing.T) { p.compareInstalled(t, "one") })
	t.Run("a missing access provider is named", func(t *testing.T) { p.addMissingProvider(t, "two") })
	t.Run("nothing is written without a change, nor after a restart", func(t *testing.T) { p.checkNoWrites(t, one) })
	t.Run("a change on the cluster is repaired", func(t *testing.T) { p.repairDeployment(t, "one", one) })
	t.Run("a second ClusterProfile of the cluster conflicts", func(t *testing.T) { p.conflictByOtherProfile(t, one) })
	t.Run("a refused credential is reported, and a valid credential is used at once", func(t *testing.T) { p.replaceCredential(t, "one", one) })
	t.Run("an unreachable cluster is reported, and gets no write after the return", func(t *testing.T) { p.interruptCluster(t, "one", one, one.Name+"-apiserver") })
	t.Run("the removal of one component keeps the other component", func(t *testing.T) { p.removeEventing(t, "one") })
	t.Run("a removal waits for the cluster", func(t *testing.T) { p.deleteWhileUnreachable(t, "one", one) })
	t.Run("a resource of a lost cluster is removed with force-orphan", func(t *testing.T) { p.orphanUnreachable(t, "two", two) })
	t.Run("no log, Event or status contains a secret", func(t *testing.T) { p.checkNoSecrets(t, one.Credential.Token) })
}

// compareInstalled compares both components of a cluster with a program that renders as the manager does, and with one that does not.
func (p push) compareInstalled(t *testing.T, name string) {
	diff := []string{"diff", "--installed", name, "--trusted-namespaces=blue"}
	operator{p.Fleet}.becomes(t, 0, []string{"knative-serving 1.23.0 (Direct): no difference", "knative-eventing 1.23.0 (Direct): no difference"}, diff...)
	operator{p.Fleet}.ends(t, 1, []string{"becomes rendering", "the changed objects are unknown"}, append(diff, "--keep-crd-descriptions")...)
}

func newPush(t *testing.T, l lab.Options, opts harness.Options) push {
	t.Helper()
	return installDeliveryHub(t, ownLab(t, l), opts)
}

// installDeliveryHub installs the add-on on the lab's hub.
func installDeliveryHub(t *testing.T, l *lab.Lab, opts harness.Options) push {
	t.Helper()
	file := filepath.Join(t.TempDir(), "providers.json")
	p := push{providers: file}
	p.Fleet = &harness.Fleet{Lab: l}
	p.provide(t, "secretreader")
	if opts.Trusted == nil {
		opts.Trusted = []string{"blue"}
	}
	opts.Manager = append([]string{"--clusterprofile-provider-file=" + file, "--inventory-file=" + inventoryFile(t, labInventories()...)}, opts.Manager...)
	f, err := harness.Install(t.Context(), l, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the manager's log:\n%s", f.LogTail(harness.Manager))
		}
	})
	hub := connect(t, f.Hub)
	p.team, p.hub = team{Fleet: f, namespace: "blue", configs: hub.dynamic}, hub
	if _, err := f.Command(t.Context(), "kubectl", "create", "namespace", p.namespace); err != nil {
		t.Fatal(err)
	}
	return p
}

// labInventories are the namespaces of the tests with all clusters of the lab.
func labInventories() []trust.Inventory {
	var out []trust.Inventory
	for _, namespace := range []string{"blue", "green", "red", tenantNamespace} {
		out = append(out, harness.LabInventory(namespace))
	}
	return out
}

// inventoryFile writes a file of inventories.
func inventoryFile(t *testing.T, inventories ...trust.Inventory) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "inventories.json")
	if err := harness.WriteInventories(file, inventories...); err != nil {
		t.Fatal(err)
	}
	return file
}

// provide writes the file of access providers with these plugins of cluster-inventory-api.
func (p push) provide(t *testing.T, plugins ...string) {
	t.Helper()
	var providers []map[string]any
	for _, plugin := range plugins {
		providers = append(providers, p.provider(plugin))
	}
	p.writeProviderFile(t, providers...)
}

func (p push) provider(plugin string) map[string]any {
	return harness.Provider(p.Lab, plugin)
}

func (p push) writeProviderFile(t *testing.T, providers ...map[string]any) {
	t.Helper()
	if err := harness.WriteProviders(p.providers, providers...); err != nil {
		t.Fatal(err)
	}
}

// publishProfile publishes a ClusterProfile of the cluster with one access provider and what its plugin is told.
func (p push) publishProfile(t *testing.T, name string, c *lab.Cluster, provider string, extension map[string]any) {
	t.Helper()
	profiles := p.hub.dynamic.Resource(profileResource).Namespace(p.namespace)
	_, err := profiles.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ClusterProfile", "metadata": map[string]any{"name": name, "namespace": p.namespace},
		"spec": map[string]any{"displayName": name, "clusterManager": map[string]any{"name": "by-hand"}},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p.profileStatus(t, name, map[string]any{
		"conditions": []any{map[string]any{
			"type": "ControlPlaneHealthy", "status": "True", "reason": "Seen", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
		}},
		"accessProviders": accessProviders(c, provider, extension),
	})
}

func accessProviders(c *lab.Cluster, provider string, extension map[string]any) []any {
	return []any{map[string]any{"name": provider, "cluster": map[string]any{
		"server": c.URL, "certificate-authority-data": base64.StdEncoding.EncodeToString(c.CA),
		"extensions": []any{map[string]any{"name": "client.authentication.k8s.io/exec", "extension": extension}},
	}}}
}

func (p push) profileStatus(t *testing.T, name string, status map[string]any) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		t.Fatal(err)
	}
	profiles := p.hub.dynamic.Resource(profileResource).Namespace(p.namespace)
	if _, err := profiles.Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
}

// token publishes a profile whose plugin reads a token from a Secret.
func (p push) token(t *testing.T, name string, c *lab.Cluster, token string) {
	t.Helper()
	p.writeSecret(t, name, map[string][]byte{"token": []byte(token)})
	p.publishProfile(t, name, c, "secretreader", map[string]any{"clusterName": name})
}

// kubeconfig publishes a profile whose plugin reads a kubeconfig from a Secret.
func (p push) kubeconfig(t *testing.T, name string, c *lab.Cluster) {
	t.Helper()
	p.kubeconfigSecret(t, name, c)
	p.publishProfile(t, name, c, "kubeconfig-secretreader", kubeconfigOf(name))
}

func (p push) kubeconfigSecret(t *testing.T, name string, c *lab.Cluster) {
	t.Helper()
	kubeconfig, err := os.ReadFile(c.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	p.writeSecret(t, name, map[string][]byte{"kubeconfig": kubeconfig})
}

// kubeconfigOf tells the plugin in which Secret a kubeconfig is.
func kubeconfigOf(secret string) map[string]any {
	return map[string]any{"name": secret, "key": "kubeconfig", "namespace": "default"}
}

// writeSecret writes a Secret where the plugins look.
func (p push) writeSecret(t *testing.T, name string, data map[string][]byte) {
	t.Helper()
	secrets := p.hub.kube.CoreV1().Secrets("default")
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Data: data}
	recordSecret(t, p.Lab, s)
	_, err := secrets.Create(t.Context(), s, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = secrets.Update(t.Context(), s, metav1.UpdateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (p push) installDirectly(t *testing.T, name string, component api.Component, spec map[string]any) {
	start := time.Now()
	p.apply(t, component, name, spec)
	p.ready(t, component, name)
	t.Logf("ready after %s", time.Since(start).Round(10*time.Millisecond))
	s, err := p.read(t.Context(), component, name)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range api.ConditionTypes() {
		if got := s.conditions[c]; got.Status != metav1.ConditionTrue {
			t.Errorf("condition %s is %v", c, got)
		}
	}
	if !strings.HasPrefix(s.version, "1.23.") {
		t.Errorf("status.version is %q", s.version)
	}
}

func (p push) addMissingProvider(t *testing.T, name string) {
	p.apply(t, api.Serving, name, kourier())
	p.awaitUnresolved(t, api.Serving, name, api.ReasonAccessProviderNotConfigured, "kubeconfig-secretreader")
	p.provide(t, "secretreader", "kubeconfig-secretreader")
	p.ready(t, api.Serving, name)
}

func (p push) checkNoWrites(t *testing.T, c *lab.Cluster) {
	s := connect(t, c)
	before := s.restingSpecs(t)
	if err := errors.Join(p.Stop(harness.Manager), p.Start(harness.Manager)); err != nil {
		t.Fatal(err)
	}
	time.Sleep(localNoWriteTime)
	checkNoRepairs(t, p.team)
	if diff := cmp.Diff(before, specs(t, s)); diff != "" {
		t.Errorf("written at rest:\n%s", diff)
	}
}

func (p push) repairDeployment(t *testing.T, name string, c *lab.Cluster) {
	deployments := connect(t, c).kube.AppsV1().Deployments("knative-serving")
	if err := deployments.Delete(t.Context(), "autoscaler", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the Deployment is back", time.Minute, func(ctx context.Context) error {
		d, err := deployments.Get(ctx, "autoscaler", metav1.GetOptions{})
		if err == nil && d.DeletionTimestamp != nil {
			err = errors.New("it is still there")
		}
		return err
	})
	p.ready(t, api.Serving, name)
	event(t, p.team, "DriftRepaired")
}

func (p push) conflictByOtherProfile(t *testing.T, c *lab.Cluster) {
	p.token(t, "alias", c, c.Credential.Token)
	p.apply(t, api.Serving, "alias", kourier())
	p.awaitUnresolved(t, api.Serving, "alias", api.ReasonTargetConflict, `"blue/one"`)
	if err := p.resources(api.Serving).Delete(t.Context(), "alias", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.gone(t, api.Serving, "alias")
	p.ready(t, api.Serving, "one")
}

func (p push) replaceCredential(t *testing.T, name string, c *lab.Cluster) {
	p.writeSecret(t, name, map[string][]byte{"token": []byte("no-token-of-this-cluster")})
	// What is cached works until it ends or is refused: a restart forgets it.
	if err := errors.Join(p.Stop(harness.Manager), p.Start(harness.Manager)); err != nil {
		t.Fatal(err)
	}
	got := p.becomes(t, api.Serving, name, conditionState{condition: api.TargetClusterResolved, status: metav1.ConditionFalse})
	t.Logf("%s: %s", got.Reason, got.Message)
	s, err := p.read(t.Context(), api.Serving, name)
	if err != nil {
		t.Fatal(err)
	}
	if s.conditions[api.DeploymentsAvailable].Status != metav1.ConditionTrue || s.conditions[api.Ready].Status == metav1.ConditionTrue {
		t.Errorf("the last observation is not kept, or it is Ready: %v", s.conditions)
	}
	p.writeSecret(t, name, map[string][]byte{"token": []byte(c.Credential.Token)})
	p.ready(t, api.Serving, name)
}

// interruptCluster stops, and then freezes, the component that the manager reaches the cluster through.
func (p push) interruptCluster(t *testing.T, name string, c *lab.Cluster, component string) {
	s := connect(t, c)
	before := s.restingSpecs(t)
	for what, away := range map[string]struct{ leave, back func(string) error }{
		"stopped": {p.Stop, p.Start}, "silent": {p.Pause, p.Resume},
	} {
		t.Run(what, func(t *testing.T) {
			if err := away.leave(component); err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			p.becomes(t, api.Serving, name, conditionState{api.TargetClusterResolved, metav1.ConditionFalse, api.ReasonRemoteClusterStale})
			t.Logf("noticed after %s", time.Since(start).Round(10*time.Millisecond))
			last, err := p.read(t.Context(), api.Serving, name)
			if err != nil {
				t.Fatal(err)
			}
			if last.conditions[api.InstallSucceeded].Status != metav1.ConditionTrue || last.conditions[api.Ready].Status == metav1.ConditionTrue {
				t.Errorf("the last observation is not kept, or it is Ready: %v", last.conditions)
			}
			if err := away.back(component); err != nil {
				t.Fatal(err)
			}
			p.ready(t, api.Serving, name)
			if diff := cmp.Diff(before, specs(t, s)); diff != "" {
				t.Errorf("it was written to:\n%s", diff)
			}
		})
	}
}

func (p push) removeEventing(t *testing.T, name string) {
	if err := p.resources(api.Eventing).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.gone(t, api.Eventing, name)
	p.ready(t, api.Serving, name)
}

func (p push) deleteWhileUnreachable(t *testing.T, name string, c *lab.Cluster) {
	if err := p.Stop(c.Name + "-apiserver"); err != nil {
		t.Fatal(err)
	}
	p.becomes(t, api.Serving, name, conditionState{api.TargetClusterResolved, metav1.ConditionFalse, api.ReasonRemoteClusterStale})
	if err := p.resources(api.Serving).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.becomes(t, api.Serving, name, conditionState{api.InstallSucceeded, metav1.ConditionUnknown, api.ReasonRemoving}, api.ForceOrphanAnnotation)
	if err := p.Start(c.Name + "-apiserver"); err != nil {
		t.Fatal(err)
	}
	p.gone(t, api.Serving, name)
	connect(t, c).emptied(t)
}

func (p push) orphanUnreachable(t *testing.T, name string, c *lab.Cluster) {
	s := connect(t, c)
	before := s.restingSpecs(t)
	if err := p.hub.dynamic.Resource(profileResource).Namespace(p.namespace).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.awaitUnresolved(t, api.Serving, name, api.ReasonClusterProfileNotFound)
	if err := p.resources(api.Serving).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.becomes(t, api.Serving, name, conditionState{api.InstallSucceeded, metav1.ConditionUnknown, api.ReasonRemoving})
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"true"}}}`, api.ForceOrphanAnnotation)
	if _, err := p.resources(api.Serving).Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	p.gone(t, api.Serving, name)
	event(t, p.team, "Orphaned", fmt.Sprintf("stay on the cluster of ClusterProfile %q", p.namespace+"/"+name), "lists the objects")
	if diff := cmp.Diff(before, specs(t, s)); diff != "" {
		t.Errorf("it was written to:\n%s", diff)
	}
}

// checkNoSecrets looks for a secret in everything that the manager has said.
func (p push) checkNoSecrets(t *testing.T, secret string) {
	for _, c := range p.Components() {
		if c.Name != harness.Manager {
			continue
		}
		log, err := os.ReadFile(c.Log)
		if err != nil {
			t.Fatal(err)
		}
		if len(log) == 0 || strings.Contains(string(log), secret) {
			t.Errorf("the log of %d bytes has the token", len(log))
		}
	}
	for _, gvr := range []schema.GroupVersionResource{{Group: "events.k8s.io", Version: "v1", Resource: "events"}, api.Serving.Resource(), profileResource} {
		list, err := p.hub.dynamic.Resource(gvr).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		data, err := list.MarshalJSON()
		if err != nil || strings.Contains(string(data), secret) {
			t.Errorf("%s have the token, or cannot be read: %v", gvr.Resource, err)
		}
	}
}
