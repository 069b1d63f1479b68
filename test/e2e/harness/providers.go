// Copyright Contributors to the Open Cluster Management project

package harness

import (
	"encoding/json"
	"fmt"
	"os"

	"open-cluster-management.io/knative-addon/pkg/trust"
	"open-cluster-management.io/knative-addon/test/lab"
)

// Provider returns the entry of the provider file for a plugin of cluster-inventory-api, such as secretreader. The plugin reads Secrets
// of the hub.
func Provider(l *lab.Lab, plugin string) map[string]any {
	return map[string]any{"name": plugin, "execConfig": map[string]any{
		"apiVersion": "client.authentication.k8s.io/v1", "command": l.Bin.Path(plugin), "provideClusterInfo": true,
		"env": []any{map[string]any{"name": "KUBECONFIG", "value": l.Hub.Kubeconfig}},
	}}
}

// WriteProviders writes the file of flag --clusterprofile-provider-file with the entries.
func WriteProviders(file string, providers ...map[string]any) error {
	return writeJSON(file, map[string]any{"providers": providers})
}

// WriteInventories writes the file of flag --inventory-file with the entries.
func WriteInventories(file string, inventories ...trust.Inventory) error {
	return writeJSON(file, map[string]any{"inventories": inventories})
}

// LabInventory returns the entry of the inventory file for a namespace with every cluster of a lab. The plugins find their Secrets in
// namespace default, which is that of the lab's kubeconfig.
func LabInventory(namespace string) trust.Inventory {
	return trust.Inventory{
		Namespace: namespace, SecretNamespace: "default", Providers: []string{trust.Everything}, Servers: []string{"127.0.0.0/8"},
		Secrets: []string{trust.Everything},
	}
}

func writeJSON(file string, content any) error {
	data, err := json.Marshal(content)
	if err != nil {
		return fmt.Errorf("cannot encode %s: %w", file, err)
	}
	return os.WriteFile(file, data, 0o600)
}
