// Copyright Contributors to the Open Cluster Management project

// Package manifests holds the objects that the add-on itself delivers to clusters.
package manifests

import (
	_ "embed"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"open-cluster-management.io/knative-addon/pkg/api"
)

//go:embed work-agent-role.yaml
var workAgentRole []byte

// WorkAgentRoleName returns the name of the ClusterRole of WorkAgentRole.
func WorkAgentRoleName(c api.Component) string {
	return api.Prefix[:len(api.Prefix)-1] + ":work:" + string(c)
}

// WorkAgentRole returns the ClusterRole, as JSON, that lets OCM's work agent install and remove the component: OCM
// aggregates every ClusterRole with the role's label into the role of the agent. An annotation names the hub unless hub is
// empty.
func WorkAgentRole(c api.Component, hub types.UID) ([]byte, error) {
	var role map[string]any
	if err := yaml.Unmarshal(workAgentRole, &role); err != nil {
		return nil, fmt.Errorf("cannot read the work agent's role: %w", err)
	}
	metadata, ok := role["metadata"].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("cannot read the work agent's role: it has no metadata")
	}
	metadata["name"] = WorkAgentRoleName(c)
	if hub != "" {
		metadata["annotations"] = map[string]any{api.HubAnnotation: string(hub)}
	}
	return json.Marshal(role)
}
