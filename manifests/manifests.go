// Copyright Contributors to the Open Cluster Management project

// Package manifests holds the objects that the add-on itself delivers to clusters.
package manifests

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

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

// ProbeRoleName returns the name of the ClusterRole of ProbeRole.
func ProbeRoleName(c api.Component) string { return WorkAgentRoleName(c) + ":probe" }

// ProbeRole returns a ClusterRole that lets OCM's work agent apply the CRDs of the component server-side: the agent has this permission
// before the ClusterRole of WorkAgentRole arrives, with the CRDs. OCM aggregates the ClusterRole into the role of the agent.
func ProbeRole(c api.Component) map[string]any {
	return map[string]any{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
		"metadata": map[string]any{"name": ProbeRoleName(c), "labels": map[string]any{aggregateToWork: "true"}},
		"rules": []any{map[string]any{
			"apiGroups": []any{"apiextensions.k8s.io"}, "resources": []any{"customresourcedefinitions"}, "verbs": []any{"patch"},
		}},
	}
}

// aggregateToWork is the label of the ClusterRoles that OCM aggregates into the role of the work agent.
const aggregateToWork = "open-cluster-management.io/aggregate-to-work"

// roleKey identifies a ClusterRole of WorkAgentRole.
type roleKey struct {
	component api.Component
	hub       types.UID
}

// workAgentRoles keeps the ClusterRoles by roleKey: each pass of a controller needs a ClusterRole, and a process has one hub.
//
//nolint:gochecknoglobals // the results depend on the arguments alone, and all callers may share the results
var workAgentRoles sync.Map

// WorkAgentRole returns the ClusterRole, as JSON, that lets OCM's work agent install and remove the component: OCM
// aggregates every ClusterRole with the role's label into the role of the agent. An annotation names the hub unless hub is
// empty. Callers share the result, and must not change the bytes.
func WorkAgentRole(c api.Component, hub types.UID) ([]byte, error) {
	if kept, ok := workAgentRoles.Load(roleKey{c, hub}); ok {
		if role, ok := kept.([]byte); ok {
			return role, nil
		}
	}
	role, err := encodeWorkAgentRole(c, hub)
	if err != nil {
		return nil, fmt.Errorf("cannot read the work agent's role: %w", err)
	}
	workAgentRoles.Store(roleKey{c, hub}, role)
	return role, nil
}

func encodeWorkAgentRole(c api.Component, hub types.UID) ([]byte, error) {
	var role map[string]any
	if err := yaml.Unmarshal(workAgentRole, &role); err != nil {
		return nil, err
	}
	metadata, ok := role["metadata"].(map[string]any)
	if !ok {
		return nil, errors.New("it has no metadata")
	}
	metadata["name"] = WorkAgentRoleName(c)
	if hub != "" {
		metadata["annotations"] = map[string]any{api.HubAnnotation: string(hub)}
	}
	return json.Marshal(role)
}
