// Copyright Contributors to the Open Cluster Management project

package health

import (
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/fluxcd/pkg/apis/kustomize"
	"github.com/fluxcd/pkg/runtime/cel"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// fluxCheck is an entry of healthCheckExprs.
type fluxCheck struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	Current    string `yaml:"current"`
	Failed     string `yaml:"failed"`
}

// newResource returns a resource of generation 2. observed is 0 for a resource without status; ready is the status of condition Ready.
func newResource(observed int64, ready, reason string) *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "c1", "generation": int64(2)}}}
	if observed > 0 {
		out.Object["status"] = map[string]any{
			"observedGeneration": observed,
			"conditions":         []any{map[string]any{"type": "Ready", "status": ready, "reason": reason}},
		}
	}
	return out
}

// TestFluxHealth compares what Flux computes by the expressions of docs/gitops.md, and by kstatus alone, with that page.
func TestFluxHealth(t *testing.T) {
	var block struct {
		Checks []fluxCheck `yaml:"healthCheckExprs"`
	}
	readBlock(t, "flux-health", &block)
	if len(block.Checks) != 3 {
		t.Fatalf("docs/gitops.md has %d health checks, want 3", len(block.Checks))
	}
	for name, tc := range map[string]struct {
		resource    *unstructured.Unstructured
		expressions status.Status
		kstatus     status.Status
	}{
		"a new resource":            {newResource(0, "", ""), status.UnknownStatus, status.CurrentStatus},
		"an edit":                   {newResource(1, "True", "Ready"), status.InProgressStatus, status.InProgressStatus},
		"an edit of a refused spec": {newResource(1, "False", "InvalidSpec"), status.InProgressStatus, status.InProgressStatus},
		"a delivery":                {newResource(2, "Unknown", "Delivering"), status.InProgressStatus, status.InProgressStatus},
		"a rollout of workloads":    {newResource(2, "False", "WorkloadsNotReady"), status.InProgressStatus, status.InProgressStatus},
		"a verification":            {newResource(2, "False", "Verifying"), status.InProgressStatus, status.InProgressStatus},
		"a paused fleet":            {newResource(2, "False", "Paused"), status.InProgressStatus, status.InProgressStatus},
		"a fleet's rollout":         {newResource(2, "False", "Progressing"), status.InProgressStatus, status.InProgressStatus},
		"a fleet's last cluster":    {newResource(2, "False", "ClustersNotReady"), status.InProgressStatus, status.InProgressStatus},
		"a stopped rollout":         {newResource(2, "False", "MaxFailuresExceeded"), status.FailedStatus, status.InProgressStatus},
		"a refused spec":            {newResource(2, "False", "InvalidSpec"), status.FailedStatus, status.InProgressStatus},
		"an installation":           {newResource(2, "True", "Ready"), status.CurrentStatus, status.CurrentStatus},
	} {
		t.Run(name, func(t *testing.T) {
			for _, check := range block.Checks {
				evaluator, err := cel.NewStatusEvaluator(&kustomize.HealthCheckExpressions{Current: check.Current, Failed: check.Failed})
				if err != nil {
					t.Fatal(err)
				}
				tc.resource.SetAPIVersion(check.APIVersion)
				tc.resource.SetKind(check.Kind)
				reader := cel.NewStatusReader(t.Context(), nil, tc.resource.GroupVersionKind().GroupKind(), evaluator)
				if result, err := reader.ReadStatusForObject(t.Context(), nil, tc.resource); err != nil || result.Status != tc.expressions {
					t.Errorf("by its expressions, %s is %v with error %v; want %s", check.Kind, result, err, tc.expressions)
				}
				if result, err := status.Compute(tc.resource); err != nil || result.Status != tc.kstatus {
					t.Errorf("by kstatus, %s is %v with error %v; want %s", check.Kind, result, err, tc.kstatus)
				}
			}
		})
	}
}
