// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"open-cluster-management.io/knative-addon/pkg/api"
)

func (l localInstalls) changeVersion(t *testing.T) {
	l.patch(t, "first", map[string]any{"spec": map[string]any{"version": "1.22", "config": map[string]any{"deployment": map[string]any{"progress-deadline": "300s"}}}})
	eventually(t, "the older version is there", 3*time.Minute, func(ctx context.Context) error {
		s, err := l.read(ctx, api.Serving, "first")
		if err == nil && (!s.current || !strings.HasPrefix(s.version, "1.22.") || s.conditions[api.Ready].Status != metav1.ConditionTrue) {
			err = fmt.Errorf("%+v", s)
		}
		return err
	})
	eventually(t, "the Jobs are those of the version", time.Minute, func(ctx context.Context) error {
		jobs, err := l.listed(ctx, schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"})
		isOf := func(version string) bool {
			return slices.ContainsFunc(jobs, func(j unstructured.Unstructured) bool { return strings.Contains(j.GetName(), version) })
		}
		if err == nil && (isOf("1.23") || !isOf("1.22")) {
			err = fmt.Errorf("there are %d Jobs, of 1.23: %t, of 1.22: %t", len(jobs), isOf("1.23"), isOf("1.22"))
		}
		return err
	})
	l.patch(t, "first", map[string]any{"spec": map[string]any{"version": "1.20"}})
	l.becomes(t, api.Serving, "first", conditionState{api.VersionMigrationEligible, metav1.ConditionFalse, api.ReasonNotEligible})
	l.patch(t, "first", map[string]any{"spec": map[string]any{"version": "1.23"}})
	l.ready(t, api.Serving, "first")
}

// refuses requests a value that the webhook of Knative Serving refuses. A webhook that has just started lets every ConfigMap pass
// until the webhook leads.
func (l localInstalls) refuses(t *testing.T) {
	configMaps := l.dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace("knative-serving")
	eventually(t, "the webhook checks ConfigMaps", 3*time.Minute, func(ctx context.Context) error {
		bad := []byte(`{"data":{"max-scale":"not a number"}}`)
		_, err := configMaps.Patch(ctx, "config-autoscaler", types.MergePatchType, bad, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil {
			return errors.New("the value passes")
		}
		if !strings.Contains(err.Error(), "not a number") {
			return err
		}
		return nil
	})
	l.patch(t, "first", map[string]any{"spec": map[string]any{"config": map[string]any{"autoscaler": map[string]any{"max-scale": "not a number"}}}})
	l.becomes(t, api.Serving, "first", conditionState{api.InstallSucceeded, metav1.ConditionFalse, api.ReasonApplyFailed},
		"ConfigMap knative-serving/config-autoscaler", "not a number")
	l.patch(t, "first", map[string]any{"spec": map[string]any{"config": map[string]any{"autoscaler": nil}}})
	l.ready(t, api.Serving, "first")
}
