// Copyright Contributors to the Open Cluster Management project

// Package manifests holds the objects that the add-on itself delivers to clusters.
package manifests

import (
	_ "embed"
	"encoding/json"
	"fmt"

	"sigs.k8s.io/yaml"

	"open-cluster-management.io/knative-addon/pkg/api"
)

//go:embed work-agent-role.yaml
var workAgentRole []byte

// WorkAgentRole is the ClusterRole, as JSON, that lets OCM's work agent install and remove the component: OCM collects
// every ClusterRole with its label into the agent's own.
func WorkAgentRole(c api.Component) ([]byte, error) {
	var role map[string]any
	if err := yaml.Unmarshal(workAgentRole, &role); err != nil {
		return nil, fmt.Errorf("cannot read the work agent's role: %w", err)
	}
	metadata, ok := role["metadata"].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("cannot read the work agent's role: it has no metadata")
	}
	metadata["name"] = api.Prefix[:len(api.Prefix)-1] + ":work:" + string(c)
	return json.Marshal(role)
}
