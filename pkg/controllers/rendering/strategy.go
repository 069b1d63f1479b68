// Copyright Contributors to the Open Cluster Management project

package rendering

import (
	"fmt"

	"sigs.k8s.io/yaml"

	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"

	"open-cluster-management.io/knative-addon/pkg/rollout"
)

// ParseStrategy reads a rollout strategy of OCM from JSON or YAML. Unknown fields, and values that OCM's engine refuses, are errors.
func ParseStrategy(text string) (clusterv1alpha1.RolloutStrategy, error) {
	var out clusterv1alpha1.RolloutStrategy
	if err := yaml.UnmarshalStrict([]byte(text), &out); err != nil {
		return out, fmt.Errorf("cannot read the rollout strategy: %w", err)
	}
	if _, err := rollout.Determine(out, []rollout.Cluster{{Name: "any", Phase: rollout.Waiting}}); err != nil {
		return out, fmt.Errorf("cannot use the rollout strategy: %w", err)
	}
	return out, nil
}
