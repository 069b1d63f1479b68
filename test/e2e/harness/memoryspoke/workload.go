// Copyright Contributors to the Open Cluster Management project

package memoryspoke

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// setRolledOut sets the status of a workload whose pods all run, or of a Job that has completed.
func setRolledOut(o *unstructured.Unstructured) {
	switch o.GetKind() {
	case "Deployment", "StatefulSet":
		replicas, found, err := unstructured.NestedInt64(o.Object, "spec", "replicas")
		if !found || err != nil {
			replicas = 1
		}
		o.Object["status"] = map[string]any{
			"observedGeneration": o.GetGeneration(), "replicas": replicas, "updatedReplicas": replicas, "availableReplicas": replicas, "readyReplicas": replicas,
		}
	case "Job":
		if o.Object["status"] != nil {
			return
		}
		at := time.Now().UTC().Format(time.RFC3339)
		o.Object["status"] = map[string]any{
			"succeeded": int64(1), "startTime": at, "completionTime": at,
			"conditions": []any{map[string]any{"type": "Complete", "status": "True", "reason": "CompletionsReached", "lastTransitionTime": at}},
		}
	}
}
