// Copyright Contributors to the Open Cluster Management project

package target

import (
	"strings"
	"testing"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/resolve"
)

// TestRefusals holds that a refusal names the cluster, the obstacle and the ways out, and at most maxNamed objects.
func TestRefusals(t *testing.T) {
	objects := []string{"Deployment a/1", "Deployment a/2", "Deployment a/3", "Deployment a/4", "Deployment a/5", "Deployment a/6"}
	for name, tc := range map[string]struct {
		refusal *resolve.Result
		reason  string
		says    []string
	}{
		"another installer": {
			RefuseUnmanaged(`cluster "c1"`, api.Serving, objects, "adopt it"), api.ReasonExistingInstallation,
			[]string{`cluster "c1" already has knative-serving`, "Deployment a/5 and 1 more", "remove the installation, or adopt it"},
		},
		"a namespace of the cluster": {
			RefuseNamespace(`cluster "c1" had namespace "payroll" before`, api.Eventing), api.ReasonEscalationNotPermitted,
			[]string{`cluster "c1" had namespace "payroll" before`, api.InstallNamespaceAnnotation, "namespace of the KnativeEventing", "rendering.trustedNamespaces"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.refusal.Reason != tc.reason || tc.refusal.Target != nil {
				t.Errorf("the refusal is %+v", tc.refusal)
			}
			for _, want := range tc.says {
				if !strings.Contains(tc.refusal.Message, want) {
					t.Errorf("%q is not in %q", want, tc.refusal.Message)
				}
			}
		})
	}
}
