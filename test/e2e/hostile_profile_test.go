// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/trust"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
)

const (
	// inventoryNamespace has the ClusterProfiles of the administrator.
	inventoryNamespace = "edge"
	// victimToken is the token of a cluster that mallory has nothing to do with.
	victimToken = "victim-t0ken-of-another-cluster"
	// printedSecret is what a plugin prints to stderr, and deliveredValue what a resource delivers to a cluster.
	printedSecret, deliveredValue = "hunter2pw", "c4n4ry-of-a-delivered-object"
	// verboseManager is the manager with a verbosity that logs the bodies of requests in other programs.
	verboseManager = "manager-verbose"
)

// hostileProfile is a hub with an honest cluster, a Secret of another, and a server of mallory.
type hostileProfile struct {
	push
	cluster *lab.Cluster
	// other is a cluster that nobody has asked to install on.
	other   *lab.Cluster
	mallory *httptest.Server
	// connections counts the connections to mallory's server.
	connections *atomic.Int32
	// runs is the file in which every run of a plugin leaves what the plugin was asked for.
	runs string
	// tenant and insider are mallory in his own namespace, and as an author of ClusterProfiles in the inventory.
	tenant, insider push
}

// TestHostileProfile is a tenant who writes ClusterProfiles that lead the manager's credentials to a server of his own. The
// plugin is cluster-inventory-api's, and reads Secrets with the ServiceAccount and the permissions of the chart.
func TestHostileProfile(t *testing.T) {
	startRestStory(t)
	h := newHostileProfile(t)
	t.Run("the resource of the honest profile becomes Ready", func(t *testing.T) {
		h.token(t, "edge-7", h.cluster, h.cluster.Credential.Token)
		spec := kourier()
		spec["config"].(map[string]any)["features"] = map[string]any{"canary": deliveredValue} //nolint:forcetypeassert // of kourier
		h.apply(t, api.Serving, "edge-7", spec)
		h.ready(t, api.Serving, "edge-7")
	})
	for name, a := range h.attacks() {
		t.Run(name, func(t *testing.T) { h.refused(t, a) })
	}
	t.Run("the output of a plugin is not published", func(t *testing.T) { h.runLeakyPlugin(t) })
	t.Run("a missing plugin is named", func(t *testing.T) { h.runMissingPlugin(t) })
	t.Run("a verbose log contains no secret", func(t *testing.T) { h.logVerbosely(t) })
	t.Run("a profile of another cluster is refused", func(t *testing.T) { h.redirectProfile(t) })
	h.checkNoLeak(t)
}

func newHostileProfile(t *testing.T) hostileProfile {
	t.Helper()
	l := ownLab(t, lab.Options{})
	spokes, err := l.AddLightSpokes(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	h := hostileProfile{cluster: spokes[0], other: spokes[1], connections: &atomic.Int32{}, runs: filepath.Join(dir, "runs")}
	h.providers = filepath.Join(dir, "providers.json")
	h.writeProviderFile(t)
	inventory := trust.Inventory{
		Namespace: inventoryNamespace, SecretNamespace: "default", Providers: []string{"secretreader", "leaky", "missing"},
		Servers: []string{strings.TrimPrefix(h.cluster.URL, "https://"), strings.TrimPrefix(h.other.URL, "https://")}, Secrets: []string{"edge-7"},
	}
	f := h.install(t, l, inventory)
	h.team = team{Fleet: f, namespace: inventoryNamespace}
	h.hub = connect(t, f.Hub)
	h.configs = h.hub.dynamic
	h.tenant, h.insider = h.as(t, tenantNamespace), h.as(t, inventoryNamespace)
	h.startHostileServer(t)
	h.writeProviders(t)
	h.writeSecret(t, "victim", map[string][]byte{"token": []byte(victimToken)})
	return h
}

// install installs the chart with the inventory and the permissions that come with the inventory.
func (h *hostileProfile) install(t *testing.T, l *lab.Lab, inventory trust.Inventory) *harness.Fleet {
	t.Helper()
	value, err := json.Marshal([]trust.Inventory{inventory})
	if err != nil {
		t.Fatal(err)
	}
	f, err := harness.Install(t.Context(), l, harness.Options{
		Helm: []string{
			"--set", "multicluster.enabled=true", "--set-json", "multicluster.inventories=" + string(value),
			"--set-json", `multicluster.plugins=[{"name":"secretreader","image":"example.com/secretreader:v1","mountPath":"/plugins"}]`,
			"--set-json", `multicluster.accessProvidersConfig={"providers":[{"name":"secretreader","execConfig":{"command":"/plugins/secretreader"}}]}`,
		},
		// The verbosity of the chart: the story compares the log with the log of a verbose manager.
		Manager: []string{"--v=0", "--clusterprofile-provider-file=" + h.providers, "--inventory-file=" + inventoryFile(t, inventory)},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the manager's log:\n%s", f.LogTail(harness.Manager))
		}
	})
	return f
}

// as acts with the credentials of mallory, who may write resources and ClusterProfiles of the namespace.
func (h *hostileProfile) as(t *testing.T, namespace string) push {
	t.Helper()
	config, err := h.Tenant(t.Context(), namespace)
	if err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	out := h.push
	out.namespace, out.configs, out.hub.dynamic = namespace, client, client
	return out
}

// startHostileServer starts mallory's server, which speaks TLS with a certificate of its own.
func (h *hostileProfile) startHostileServer(t *testing.T) {
	t.Helper()
	h.mallory = httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("mallory has received %s %s, with a token: %t", r.Method, r.URL, r.Header.Get("Authorization") != "")
	}))
	h.mallory.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			h.connections.Add(1)
		}
	}
	h.mallory.StartTLS()
	t.Cleanup(h.mallory.Close)
}

// writeProviders offers cluster-inventory-api's plugin with the ServiceAccount of the manager, and a plugin that fails and
// prints a secret. Both leave a trace of every run.
func (h *hostileProfile) writeProviders(t *testing.T) {
	t.Helper()
	kubeconfig, err := h.Hub.ServiceAccountKubeconfig(t.Context(), harness.Namespace, "knative-addon-manager")
	if err != nil {
		t.Fatal(err)
	}
	script := func(name, end string) string {
		file := filepath.Join(filepath.Dir(h.runs), name)
		content := fmt.Sprintf("#!/bin/sh\necho \"$KUBERNETES_EXEC_INFO\" >>%s\n%s\n", h.runs, end)
		if err := os.WriteFile(file, []byte(content), 0o700); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
		return file
	}
	provider := func(name, end string) map[string]any {
		return map[string]any{"name": name, "execConfig": map[string]any{
			"apiVersion": "client.authentication.k8s.io/v1", "command": script(name, end), "provideClusterInfo": true,
			"env": []any{map[string]any{"name": "KUBECONFIG", "value": kubeconfig}},
		}}
	}
	h.writeProviderFile(t, provider("secretreader", "exec "+h.Bin.Path("secretreader")),
		provider("leaky", "echo 'login as admin / "+printedSecret+" refused' >&2\nexit 3"),
		map[string]any{"name": "missing", "execConfig": map[string]any{
			"apiVersion": "client.authentication.k8s.io/v1", "command": h.missingPlugin(),
			"args": []any{"--password=" + printedSecret}, "env": []any{map[string]any{"name": "PASSWORD", "value": printedSecret}},
		}})
}

// attack is a ClusterProfile of mallory's.
type attack struct {
	name string
	by   push
	// server is whom the profile names, and extension what the plugin is told.
	server    map[string]any
	extension map[string]any
	// says is part of the refusal.
	says string
}

func (h *hostileProfile) attacks() map[string]attack {
	own := map[string]any{
		"server":                     h.mallory.URL,
		"certificate-authority-data": encodePEM(h.mallory.Certificate().Raw),
	}
	honest := map[string]any{"server": h.cluster.URL, "certificate-authority-data": base64.StdEncoding.EncodeToString(h.cluster.CA)}
	proxied := map[string]any{"proxy-url": strings.Replace(h.mallory.URL, "https://", "http://", 1)}
	maps.Copy(proxied, honest)
	victim, edge := map[string]any{"clusterName": "victim"}, map[string]any{"clusterName": "edge-7"}
	const notListed = `namespace "tenant" is not an inventory`
	return map[string]attack{
		"the tenant's own server with the token of another cluster": {name: "own-server", by: h.tenant, server: own, extension: victim, says: notListed},
		"the cluster of another team":                               {name: "foreign-cluster", by: h.tenant, server: honest, extension: edge, says: notListed},
		"the tenant's own proxy":                                    {name: "own-proxy", by: h.tenant, server: proxied, extension: edge, says: notListed},
		"a foreign server in the inventory":                         {name: "inventory-server", by: h.insider, server: own, extension: edge, says: "does not list server"},
		"a foreign proxy in the inventory":                          {name: "inventory-proxy", by: h.insider, server: proxied, extension: edge, says: "does not list proxy"},
		"the Secret of another cluster in the inventory":            {name: "inventory-secret", by: h.insider, server: honest, extension: victim, says: "lists no Secret"},
	}
}

func encodePEM(certificate []byte) string {
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}))
}

// refused makes a ClusterProfile and a resource for the profile as mallory, and waits for the refusal.
func (h *hostileProfile) refused(t *testing.T, a attack) {
	a.by.publishProfile(t, a.name, h.cluster, "secretreader", a.extension)
	cluster := map[string]any{"extensions": []any{map[string]any{"name": "client.authentication.k8s.io/exec", "extension": a.extension}}}
	maps.Copy(cluster, a.server)
	a.by.profileStatus(t, a.name, map[string]any{"accessProviders": []any{map[string]any{"name": "secretreader", "cluster": cluster}}})
	a.by.apply(t, api.Serving, a.name, kourier())
	a.by.awaitUnresolved(t, api.Serving, a.name, api.ReasonReferenceNotPermitted, a.says, "multicluster.inventories")
}

func (h *hostileProfile) runLeakyPlugin(t *testing.T) {
	h.publishProfile(t, "leaky", h.cluster, "leaky", map[string]any{"clusterName": "edge-7"})
	h.apply(t, api.Serving, "leaky", kourier())
	h.awaitUnresolved(t, api.Serving, "leaky", api.ReasonAccessProviderFailed, "exit code 3")
}

// missingPlugin is the file of a plugin that does not exist.
func (h *hostileProfile) missingPlugin() string {
	return filepath.Join(filepath.Dir(h.runs), "missing")
}

// runMissingPlugin has a ClusterProfile name a provider whose plugin does not exist, and whose configuration has a secret.
func (h *hostileProfile) runMissingPlugin(t *testing.T) {
	h.publishProfile(t, "missing", h.cluster, "missing", map[string]any{"clusterName": "edge-7"})
	h.apply(t, api.Serving, "missing", kourier())
	h.awaitUnresolved(t, api.Serving, "missing", api.ReasonAccessProviderFailed, h.missingPlugin(), "does not exist", "execConfig.command")
	s, err := h.read(t.Context(), api.Serving, "missing")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range s.conditions {
		if name != api.Ready && name != api.TargetClusterResolved && c.Status != metav1.ConditionUnknown {
			t.Errorf("condition %s is %+v", name, c)
		}
	}
}

// logVerbosely runs another manager in the place of the first, and has the manager write an object.
func (h *hostileProfile) logVerbosely(t *testing.T) {
	if err := h.Stop(harness.Manager); err != nil {
		t.Fatal(err)
	}
	if err := h.RunManager(t.Context(), verboseManager, "--v=9"); err != nil {
		t.Fatal(err)
	}
	configMaps := connect(t, h.cluster).kube.CoreV1().ConfigMaps("knative-serving")
	if err := configMaps.Delete(t.Context(), "config-features", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	event(t, h.team, "DriftRepaired")
	h.ready(t, api.Serving, "edge-7")
	h.awaitUnresolved(t, api.Serving, "leaky", api.ReasonAccessProviderFailed)
}

// redirectProfile has the honest profile lead to another cluster, also while the resource is deleted, and back again.
func (h *hostileProfile) redirectProfile(t *testing.T) {
	h.leadProfileTo(t, h.other)
	h.awaitUnresolved(t, api.Serving, "edge-7", api.ReasonClusterReplaced, api.InstalledOnAnnotation)
	if err := h.resources(api.Serving).Delete(t.Context(), "edge-7", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	h.becomes(t, api.Serving, "edge-7", conditionState{api.Ready, metav1.ConditionFalse, api.ReasonClusterReplaced})
	_, err := connect(t, h.other).kube.CoreV1().Namespaces().Get(t.Context(), api.Serving.InstallNamespace(), metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("the other cluster has Namespace %s: %v", api.Serving.InstallNamespace(), err)
	}
	deployments := connect(t, h.cluster).kube.AppsV1().Deployments(api.Serving.InstallNamespace())
	if list, err := deployments.List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) == 0 {
		t.Fatalf("the recorded cluster has lost its Deployments: %v", err)
	}
	h.leadProfileTo(t, h.cluster)
	h.gone(t, api.Serving, "edge-7")
	if list, err := deployments.List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) > 0 {
		t.Errorf("the removal has left %d Deployments: %v", len(list.Items), err)
	}
}

// leadProfileTo has the honest profile lead to the cluster.
func (h *hostileProfile) leadProfileTo(t *testing.T, to *lab.Cluster) {
	t.Helper()
	h.writeSecret(t, "edge-7", map[string][]byte{"token": []byte(to.Credential.Token)})
	h.profileStatus(t, "edge-7", map[string]any{"accessProviders": accessProviders(to, "secretreader", map[string]any{"clusterName": "edge-7"})})
}

// checkNoLeak looks for what mallory wanted in everything that can be read.
func (h *hostileProfile) checkNoLeak(t *testing.T) {
	t.Helper()
	if n := h.connections.Load(); n != 0 {
		t.Errorf("the manager has dialled mallory's server %d times", n)
	}
	runs, err := os.ReadFile(h.runs)
	if err != nil || !strings.Contains(string(runs), h.cluster.URL) {
		t.Errorf("no plugin has run for the honest profile: %v", err)
	}
	for _, foreign := range []string{"victim", strings.TrimPrefix(h.mallory.URL, "https://")} {
		if strings.Contains(string(runs), foreign) {
			t.Errorf("a plugin has run for %s", foreign)
		}
	}
	secrets := []string{victimToken, printedSecret, h.cluster.Credential.Token}
	for _, gvr := range []schema.GroupVersionResource{{Group: "events.k8s.io", Version: "v1", Resource: "events"}, api.Serving.Resource()} {
		list, err := h.hub.dynamic.Resource(gvr).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		data, err := list.MarshalJSON()
		h.checkAbsent(t, gvr.Resource, string(data), secrets...)
		if err != nil || len(list.Items) == 0 {
			t.Errorf("%s cannot be read: %v", gvr.Resource, err)
		}
	}
	for _, c := range h.Components() {
		if c.Name != harness.Manager && c.Name != verboseManager {
			continue
		}
		log, err := os.ReadFile(c.Log)
		if err != nil || len(log) == 0 {
			t.Fatalf("the log of %s has %d bytes: %v", c.Name, len(log), err)
		}
		t.Logf("the log of %s has %d lines", c.Name, strings.Count(string(log), "\n"))
		h.checkAbsent(t, "the log of "+c.Name, string(log), append(secrets, deliveredValue)...)
		const detail = `"reconciled"`
		if verbose := c.Name == verboseManager; strings.Contains(string(log), detail) != verbose {
			t.Errorf("the log of %s has %s: %t", c.Name, detail, !verbose)
		}
	}
}

func (h *hostileProfile) checkAbsent(t *testing.T, where, text string, secrets ...string) {
	t.Helper()
	for _, secret := range secrets {
		if strings.Contains(text, secret) {
			t.Errorf("%q is in %s", secret, where)
		}
	}
}
