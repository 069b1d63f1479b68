// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/trust"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
)

const (
	// accountName is the name of the ManagedServiceAccount of the chart's preset.
	accountName = "knative-addon"
	// permissionsWork is the name of the ManifestWork with the permissions of the ServiceAccount.
	permissionsWork = "knative-addon-permissions"
)

var accountResource = schema.GroupVersionResource{
	Group: "authentication.open-cluster-management.io", Version: "v1beta1", Resource: "managedserviceaccounts",
}

// tunnel is a hub with a managed cluster that the manager reaches through cluster-proxy only, with tokens of a ManagedServiceAccount.
type tunnel struct {
	push
	cluster spoke
}

// TestClusterProxy installs on a managed cluster directly, through the tunnel of cluster-proxy and with plugin cp-creds of
// managed-serviceaccount.
func TestClusterProxy(t *testing.T) {
	startNightlyStory(t)
	p := newTunnel(t)
	name := p.cluster.Name
	t.Run("OCM publishes an access provider", func(t *testing.T) { p.publishAccess(t) })
	t.Run("the work agent delivers the permissions of the ServiceAccount", func(t *testing.T) { p.deliverPermissions(t) })
	t.Run("a resource becomes Ready through the tunnel", func(t *testing.T) { p.installDirectly(t, name, api.Serving, kourier()) })
	t.Run("a change on the cluster is repaired", func(t *testing.T) { p.repairDeployment(t, name, p.cluster.Cluster) })
	t.Run("a token that ends soon is replaced, and the installation goes on", func(t *testing.T) { p.rotateToken(t) })
	t.Run("a token that the cluster has revoked is replaced, and the installation goes on", func(t *testing.T) { p.revokeToken(t) })
	t.Run("the loss of the tunnel is reported, and removes nothing", func(t *testing.T) {
		p.interruptCluster(t, name, p.cluster.Cluster, name+"-proxy-agent")
	})
	t.Run("no log, Event or status contains the token", func(t *testing.T) { p.checkNoSecrets(t, p.readSyncedToken(t)) })
	t.Run("a removal through the tunnel leaves the permissions alone", func(t *testing.T) { p.remove(t) })
}

// newTunnel installs the chart with the preset for cluster-proxy. The plugin reads Secrets with the manager's ServiceAccount, as in the pod of the
// manager.
func newTunnel(t *testing.T) tunnel {
	t.Helper()
	l := ownLab(t, lab.Options{ManagedClusters: 1, ClusterProxy: true})
	cluster := l.Managed[0].Name
	inventory := trust.Inventory{
		Namespace: "blue", Providers: []string{"open-cluster-management"}, Servers: []string{lab.UserServer},
		Secrets: []string{cluster, cluster + "-" + accountName},
	}
	value, err := json.Marshal([]trust.Inventory{inventory})
	if err != nil {
		t.Fatal(err)
	}
	root, err := harness.Repository()
	if err != nil {
		t.Fatal(err)
	}
	preset := filepath.Join(root, "charts", "knative-addon", "presets", "cluster-proxy.yaml")
	p := tunnel{push: push{providers: filepath.Join(t.TempDir(), "providers.json")}, cluster: connect(t, l.Managed[0])}
	p.Fleet, err = harness.Prepare(l, harness.Options{
		Helm:    []string{"--values", preset, "--set-json", "multicluster.inventories=" + string(value)},
		Manager: []string{"--clusterprofile-provider-file=" + p.providers, "--inventory-file=" + inventoryFile(t, inventory)},
		Env:     []string{"HTTPS_PROXY=" + l.HubServicesProxy()},
	})
	if err != nil {
		t.Fatal(err)
	}
	logManagerOnFailure(t, p.Fleet)
	p.hub = connect(t, l.Hub)
	p.namespace, p.configs = inventory.Namespace, p.hub.dynamic
	p.provide(t, "secretreader")
	if _, err := p.Command(t.Context(), "kubectl", "create", "namespace", p.namespace); err != nil {
		t.Fatal(err)
	}
	if err := p.Reinstall(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The chart has the ServiceAccount of the plugin. A restart spares the interval after which the manager reads the changed file.
	p.writeProviderFile(t, p.presetProviders(t, preset)...)
	if err := errors.Join(p.Stop(harness.Manager), p.Start(harness.Manager)); err != nil {
		t.Fatal(err)
	}
	return p
}

// presetProviders returns the access providers of the chart's preset with the plugins of the lab.
func (p tunnel) presetProviders(t *testing.T, preset string) []map[string]any {
	t.Helper()
	kubeconfig, err := p.Hub.ServiceAccountKubeconfig(t.Context(), harness.Namespace, harness.ManagerAccount)
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(preset)
	if err != nil {
		t.Fatal(err)
	}
	var values struct {
		Multicluster struct {
			AccessProvidersConfig struct {
				Providers []map[string]any `json:"providers"`
			} `json:"accessProvidersConfig"`
		} `json:"multicluster"`
	}
	if err := yaml.Unmarshal(content, &values); err != nil {
		t.Fatal(err)
	}
	providers := values.Multicluster.AccessProvidersConfig.Providers
	for _, provider := range providers {
		config, isObject := provider["execConfig"].(map[string]any)
		command, isText := config["command"].(string)
		if !isObject || !isText {
			t.Fatalf("the preset has the access provider %v", provider)
		}
		config["command"] = p.Bin.Path(filepath.Base(command))
		config["env"] = []any{map[string]any{"name": "KUBECONFIG", "value": kubeconfig}}
	}
	return providers
}

// publishAccess creates the ManagedServiceAccount and waits for the access provider and the Secret of the ClusterProfile.
func (p tunnel) publishAccess(t *testing.T) {
	p.bind(t)
	_, err := p.hub.dynamic.Resource(accountResource).Namespace(p.cluster.Name).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": accountResource.GroupVersion().String(), "kind": "ManagedServiceAccount",
		"metadata": map[string]any{
			"name": accountName, "labels": map[string]any{"authentication.open-cluster-management.io/sync-to-clusterprofile": "true"},
		},
		"spec": map[string]any{"rotation": map[string]any{"enabled": true, "validity": "24h"}},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	profiles := p.hub.dynamic.Resource(profileResource).Namespace(p.namespace)
	eventually(t, "OCM publishes an access provider and a token", time.Minute, func(ctx context.Context) error {
		profile, err := profiles.Get(ctx, p.cluster.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		providers, _, err := unstructured.NestedSlice(profile.Object, "status", "accessProviders")
		if err == nil && len(providers) != 1 {
			err = fmt.Errorf("the ClusterProfile has %d access providers", len(providers))
		}
		if err == nil {
			_, err = p.findSyncedToken(ctx)
		}
		return err
	})
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, api.DeliveryAnnotation, api.DeliveryDirect)
	if _, err := profiles.Patch(t.Context(), p.cluster.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// findSyncedToken returns the token that plugin cp-creds reads.
func (p tunnel) findSyncedToken(ctx context.Context) (string, error) {
	secret, err := p.hub.kube.CoreV1().Secrets(p.namespace).Get(ctx, p.cluster.Name+"-"+accountName, metav1.GetOptions{})
	if err == nil && len(secret.Data["token"]) == 0 {
		err = errors.New("the Secret has no token")
	}
	if err != nil {
		return "", err
	}
	return string(secret.Data["token"]), nil
}

func (p tunnel) readSyncedToken(t *testing.T) string {
	t.Helper()
	token, err := p.findSyncedToken(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// deliverPermissions has the work agent deliver what `knative-addon rbac` prints.
func (p tunnel) deliverPermissions(t *testing.T) {
	resource, err := json.Marshal(map[string]any{
		"apiVersion": api.Group + "/v1beta1", "kind": api.Serving.Kind(),
		"metadata": map[string]any{"name": p.cluster.Name, "namespace": p.namespace}, "spec": kourier(),
	})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), p.Binary, "rbac", "--filename", "-", "--service-account", lab.AccountNamespace+"/"+accountName, //nolint:gosec // the built program
		"--manifest-work", p.cluster.Name+"/"+permissionsWork)
	cmd.Stdin = bytes.NewReader(resource)
	work, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Hub.Apply(t.Context(), work); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the permissions are applied", time.Minute, func(ctx context.Context) error {
		work, err := p.Works.WorkV1().ManifestWorks(p.cluster.Name).Get(ctx, permissionsWork, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range work.Status.Conditions {
			if c.Type == "Applied" && c.Status == metav1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("the conditions are %v", work.Status.Conditions)
	})
}

// rotateToken brings the end of the token close: the agent of managed-serviceaccount replaces a token in the last fifth of its validity.
func (p tunnel) rotateToken(t *testing.T) {
	before := p.readSyncedToken(t)
	patch := fmt.Appendf(nil, `{"status":{"expirationTimestamp":%q}}`, time.Now().Add(10*time.Second).UTC().Format(time.RFC3339))
	accounts := p.hub.dynamic.Resource(accountResource).Namespace(p.cluster.Name)
	if _, err := accounts.Patch(t.Context(), accountName, types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	p.awaitOtherToken(t, before)
	p.repairDeployment(t, p.cluster.Name, p.cluster.Cluster)
}

// revokeToken deletes the ServiceAccount on the cluster, and then the Secret on the hub. The agent of managed-serviceaccount creates the
// ServiceAccount again, with the same permissions. The agent requests another token only if the API server refuses the former token
// already, so that an administrator deletes the Secret.
func (p tunnel) revokeToken(t *testing.T) {
	before := p.readSyncedToken(t)
	accounts := p.cluster.kube.CoreV1().ServiceAccounts(lab.AccountNamespace)
	account, err := accounts.Get(t.Context(), accountName, metav1.GetOptions{})
	if err == nil {
		err = accounts.Delete(t.Context(), accountName, metav1.DeleteOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the agent has created the ServiceAccount again", time.Minute, func(ctx context.Context) error {
		again, err := accounts.Get(ctx, accountName, metav1.GetOptions{})
		if err == nil && again.UID == account.UID {
			err = errors.New("the ServiceAccount is the same")
		}
		return err
	})
	p.awaitEnd(t, before)
	err = p.hub.kube.CoreV1().Secrets(p.cluster.Name).Delete(t.Context(), accountName, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	p.awaitOtherToken(t, before)
	p.repairDeployment(t, p.cluster.Name, p.cluster.Cluster)
}

// awaitEnd waits until the API server of the cluster refuses the token.
func (p tunnel) awaitEnd(t *testing.T, token string) {
	t.Helper()
	config := rest.AnonymousClientConfig(p.cluster.Config)
	config.BearerToken = token
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the token has ended", time.Minute, func(ctx context.Context) error {
		_, err := client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
		if apierrors.IsUnauthorized(err) {
			return nil
		}
		return fmt.Errorf("the answer is not 401, but %s", fmt.Sprint(err))
	})
}

func (p tunnel) awaitOtherToken(t *testing.T, before string) {
	t.Helper()
	eventually(t, "the Secret of the ClusterProfile has another token", time.Minute, func(ctx context.Context) error {
		token, err := p.findSyncedToken(ctx)
		if err == nil && token == before {
			err = errors.New("the token is the same")
		}
		return err
	})
}

// remove removes Knative through the tunnel, and then the permissions: the Namespace of the install stays, and is empty.
func (p tunnel) remove(t *testing.T) {
	if err := p.resources(api.Serving).Delete(t.Context(), p.cluster.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.gone(t, api.Serving, p.cluster.Name)
	if err := p.Works.WorkV1().ManifestWorks(p.cluster.Name).Delete(t.Context(), permissionsWork, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.cluster.emptied(t)
	if _, err := p.cluster.kube.CoreV1().Namespaces().Get(t.Context(), "knative-serving", metav1.GetOptions{}); err != nil {
		t.Errorf("the Namespace went with the permissions: %v", err)
	}
}
