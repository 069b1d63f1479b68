// Copyright Contributors to the Open Cluster Management project

package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
)

func TestRBAC(t *testing.T) {
	elsewhere := strings.Replace(servingYAML, "metadata: {", "metadata: {annotations: {"+api.InstallNamespaceAnnotation+": apps}, ", 1)
	forGood := strings.Replace(servingYAML, "metadata: {", "metadata: {annotations: {"+api.DeletionPolicyAnnotation+": Delete}, ", 1)
	for name, tc := range map[string]struct {
		input         string
		args          []string
		want, without []string
	}{
		"a ServiceAccount by default": {
			servingYAML, nil,
			[]string{"kind: ServiceAccount\n  name: knative-addon\n  namespace: knative-addon\n", "  name: knative-addon\n  namespace: knative-serving\n", "-1.23.0\n", "- knativeserving-knative-serving-root-owner\n"},
			[]string{"-1.22.", "kind: User", "cluster-admin", `- '*'`},
		},
		"another name":                {servingYAML, []string{"--name", "spoke"}, []string{"name: spoke\n"}, []string{"name: knative-addon\nrules"}},
		"another subject":             {servingYAML, []string{"--user", "hub", "--group", "hubs"}, []string{"kind: User\n  name: hub\n", "kind: Group\n  name: hubs\n"}, []string{"kind: ServiceAccount"}},
		"from a version":              {servingYAML, []string{"--from", "1.22"}, []string{"-1.22.", "-1.23.0\n"}, nil},
		"another namespace":           {elsewhere, nil, []string{"  namespace: apps\n", "  - apps\n"}, []string{"namespace: knative-serving"}},
		"a deletion policy":           {forGood, nil, []string{"  - domainmappings\n"}, nil},
		"several in the same objects": {servingYAML + "---\n" + strings.ReplaceAll(strings.ReplaceAll(servingYAML, "Serving", "Eventing"), "ingress: {kourier: {enabled: true}}", ""), nil, []string{"namespace: knative-serving\n", "namespace: knative-eventing\n"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := execute(t, newRBACCommand(), tc.input, append([]string{"-f", "-"}, tc.args...)...)
			if err != nil {
				t.Fatal(err)
			}
			contains(t, out, tc.want, true)
			contains(t, out, tc.without, false)
			if strings.Count(out, "kind: ClusterRole\n") != 1+strings.Count(out, "  kind: ClusterRole\n") {
				t.Error("there is not one ClusterRole")
			}
		})
	}
}

// TestRBACManifestWork holds that a ManifestWork has the printed objects, and that its deletion keeps the Namespace of the installation.
func TestRBACManifestWork(t *testing.T) {
	printed, err := execute(t, newRBACCommand(), servingYAML, "-f", "-")
	if err != nil {
		t.Fatal(err)
	}
	out, err := execute(t, newRBACCommand(), servingYAML, "-f", "-", "--manifest-work", "edge-7/permissions")
	if err != nil {
		t.Fatal(err)
	}
	var work workv1.ManifestWork
	if err := yaml.UnmarshalStrict([]byte(strings.TrimPrefix(out, "---\n")), &work); err != nil {
		t.Fatal(err)
	}
	if work.Namespace != "edge-7" || work.Name != "permissions" {
		t.Errorf("the ManifestWork is %s/%s", work.Namespace, work.Name)
	}
	var manifests strings.Builder
	for _, m := range work.Spec.Workload.Manifests {
		text, err := yaml.JSONToYAML(m.Raw)
		if err != nil {
			t.Fatal(err)
		}
		manifests.WriteString("---\n" + string(text))
	}
	if diff := cmp.Diff(printed, manifests.String()); diff != "" {
		t.Errorf("the ManifestWork has other objects:\n%s", diff)
	}
	want := &workv1.DeleteOption{
		PropagationPolicy: workv1.DeletePropagationPolicyTypeSelectivelyOrphan,
		SelectivelyOrphan: &workv1.SelectivelyOrphan{OrphaningRules: []workv1.OrphaningRule{{Resource: "namespaces", Name: "knative-serving"}}},
	}
	if diff := cmp.Diff(want, work.Spec.DeleteOption); diff != "" {
		t.Errorf("the deletion differs:\n%s", diff)
	}
}

func contains(t *testing.T, out string, words []string, want bool) {
	t.Helper()
	for _, w := range words {
		if strings.Contains(out, w) != want {
			t.Errorf("%q is in what was printed: %t\n%s", w, !want, out)
		}
	}
}

func TestRBACBadInput(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"an account without namespace": {[]string{"--service-account", "hub"}, "namespace/name"},
		"a work without namespace":     {[]string{"--manifest-work", "permissions"}, "namespace/name"},
		"a version that is unknown":    {[]string{"--from", "1.3"}, "1.23"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := execute(t, newRBACCommand(), servingYAML, append([]string{"-f", "-"}, tc.args...)...)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}
