// Copyright Contributors to the Open Cluster Management project

package register

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/knative-addon/pkg/trust"
)

// configMap is the ConfigMap with which the chart configures access providers and inventories of the manager.
const configMap = "clusterprofile-provider-file"

// ReviewInventories compares the registration with the chart's inventories in the add-on's namespace. The result explains why the
// manager would refuse the ClusterProfile, with the entry to add to the chart's values, and is empty when the inventories permit the
// ClusterProfile. The manager decides: a manager that was not installed by the chart may have other inventories.
func (r *Registration) ReviewInventories(ctx context.Context, addOnNamespace string) (string, error) {
	found, err := r.hub.Kube.CoreV1().ConfigMaps(addOnNamespace).Get(ctx, configMap, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return fmt.Sprintf("the chart in namespace %q has configured no access provider: set multicluster.enabled, multicluster.plugins, multicluster.accessProvidersConfig and\n%s",
			addOnNamespace, r.describeInventory()), nil
	}
	if err != nil {
		return "", r.hub.explain(fmt.Sprintf("read ConfigMap %s/%s", addOnNamespace, configMap), err)
	}
	list, err := trust.ParseInventories([]byte(found.Data["inventories.json"]))
	if err != nil {
		return "", fmt.Errorf("cannot use ConfigMap %s/%s: %w", addOnNamespace, configMap, err)
	}
	if !slices.ContainsFunc(list, func(in trust.Inventory) bool { return in.Namespace == addOnNamespace }) {
		list = append(list, trust.OwnInventory(addOnNamespace))
	}
	inventories, err := trust.NewInventories(list)
	if err != nil {
		return "", fmt.Errorf("cannot use ConfigMap %s/%s: %w", addOnNamespace, configMap, err)
	}
	config, err := json.Marshal(map[string]string{"clusterName": r.Profile.Name})
	if err != nil {
		return "", fmt.Errorf("cannot encode the extension of the ClusterProfile: %w", err)
	}
	grant, refusal := inventories.Permit(&trust.Connection{
		Namespace: r.Profile.Namespace, Provider: r.Provider, Server: r.Endpoint.Server, Proxy: r.Endpoint.ProxyURL, Config: config,
	})
	switch {
	case refusal != nil:
		return fmt.Sprintf("%s: add to the chart's values\n%s", refusal.What, r.describeInventory()), nil
	case grant.SecretNamespace != r.SecretNamespace:
		return fmt.Sprintf("the inventory of namespace %q has its Secrets in namespace %q: use --secret-namespace %s", r.Profile.Namespace, grant.SecretNamespace, grant.SecretNamespace), nil
	}
	return "", nil
}

// describeInventory returns the chart value that permits the ClusterProfile and no more.
func (r *Registration) describeInventory() string {
	inventory := trust.Inventory{
		Namespace: r.Profile.Namespace, Providers: []string{r.Provider}, Servers: []string{hostOf(r.Endpoint.Server)}, Secrets: []string{r.Profile.Name},
	}
	if r.Endpoint.ProxyURL != "" {
		inventory.Proxies = []string{hostOf(r.Endpoint.ProxyURL)}
	}
	if r.SecretNamespace != r.Profile.Namespace {
		inventory.SecretNamespace = r.SecretNamespace
	}
	text, err := json.Marshal(inventory)
	if err != nil {
		// Every field is text or a list of texts.
		panic(err)
	}
	return fmt.Sprintf("  multicluster:\n    inventories:\n    - %s", text)
}

// hostOf returns host and port of a URL as an inventory lists them.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	return u.Host
}
