// Copyright Contributors to the Open Cluster Management project

package render

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/trust"
)

// TestReservedNamespaces holds that a tenant installs nothing into the namespaces of Kubernetes and OCM.
func TestReservedNamespaces(t *testing.T) {
	trusted := trust.Policy{Namespaces: []string{"fleet"}}
	for name, tc := range map[string]struct {
		annotations map[string]string
		policy      trust.Policy
		refused     bool
	}{
		"no annotation":                {},
		"the default":                  {annotations: map[string]string{api.InstallNamespaceAnnotation: "knative-serving"}},
		"any other":                    {annotations: map[string]string{api.InstallNamespaceAnnotation: "payroll"}},
		"of Kubernetes":                {annotations: map[string]string{api.InstallNamespaceAnnotation: "kube-system"}, refused: true},
		"the one that is always there": {annotations: map[string]string{api.InstallNamespaceAnnotation: "default"}, refused: true},
		"of the agent":                 {annotations: map[string]string{api.InstallNamespaceAnnotation: "open-cluster-management-agent"}, refused: true},
		"of Kubernetes, with trust":    {annotations: map[string]string{api.InstallNamespaceAnnotation: "kube-system"}, policy: trusted},
	} {
		t.Run(name, func(t *testing.T) {
			config := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": api.Group + "/v1beta1", "kind": "KnativeServing", "spec": map[string]any{"version": "1.23"},
				"metadata": map[string]any{"namespace": "fleet", "name": "default"},
			}}
			config.SetAnnotations(tc.annotations)
			install, err := Decode(config)
			if err != nil {
				t.Fatal(err)
			}
			err = (&Renderer{config: Config{Trust: tc.policy}}).CheckNamespace(install)
			if (err != nil) != tc.refused {
				t.Fatalf("got %v", err)
			}
			if tc.refused {
				checkReservedNamespace(t, install, err)
			}
		})
	}
}

// checkReservedNamespace holds what the refusal says, and that a rendering ends with the refusal.
func checkReservedNamespace(t *testing.T, install *Install, refusal error) {
	t.Helper()
	if _, err := restrictedRenderer(t).Render(t.Context(), install, DefaultOptions(api.ModeDirect)); ReasonOf(err) != api.ReasonEscalationNotPermitted {
		t.Errorf("the rendering ends with %v", err)
	}
	if got := ReasonOf(refusal); got != api.ReasonEscalationNotPermitted {
		t.Errorf("the reason is %q", got)
	}
	for _, want := range []string{api.InstallNamespaceAnnotation, install.InstallNamespace(), `"fleet"`, "rendering.trustedNamespaces"} {
		if !strings.Contains(refusal.Error(), want) {
			t.Errorf("%q is not in %q", want, refusal)
		}
	}
}
