// Copyright Contributors to the Open Cluster Management project

package render

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"open-cluster-management.io/knative-addon/pkg/api"
)

func TestClaims(t *testing.T) {
	for name, tc := range map[string]struct {
		component api.Component
		spec      string
		mode      api.DeliveryMode
		want      map[string]string
	}{
		"Serving claims its version and its ingress": {
			component: api.Serving, spec: "version: '1.22'\ningress: {kourier: {enabled: true}}", mode: api.ModeManifestWork,
			want: map[string]string{api.ServingVersionClaim: "1.22.1", api.IngressClaim: "kourier"},
		},
		"several ingresses are one value that a Placement can compare with": {
			component: api.Serving, spec: "version: 1.23.0\ningress: {kourier: {enabled: true}, gateway-api: {enabled: true}, contour: {enabled: true}}", mode: api.ModeManifestWork,
			want: map[string]string{api.ServingVersionClaim: "1.23.0", api.IngressClaim: "contour_gateway-api_kourier"},
		},
		"without ingress there is no claim of one": {
			component: api.Serving, spec: "version: 1.23.0\ningress: {}", mode: api.ModeManifestWork, want: map[string]string{api.ServingVersionClaim: "1.23.0"},
		},
		"Eventing claims its version": {
			component: api.Eventing, spec: "version: 1.23.0", mode: api.ModeManifestWork, want: map[string]string{api.EventingVersionClaim: "1.23.0"},
		},
		"a cluster that OCM does not manage claims nothing": {
			component: api.Serving, spec: "version: 1.23.0\ningress: {kourier: {enabled: true}}", mode: api.ModeDirect, want: map[string]string{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := shared.Render(t.Context(), install(t, tc.component, tc.spec), DefaultOptions(tc.mode))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, claimsOf(t, b)); diff != "" {
				t.Errorf("claims (-want +got):\n%s", diff)
			}
		})
	}
}

// claimsOf are the claims of a bundle. They are objects like any other, and Placements can select by their values.
func claimsOf(t *testing.T, b *Bundle) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, o := range b.Payload {
		if o.GetKind() != "ClusterClaim" {
			continue
		}
		if o.Class != Apply || o.Orphan || o.Resource.Resource != "clusterclaims" {
			t.Errorf("%s is %s of resource %s, orphaned %t", o.ID(), o.Class, o.Resource, o.Orphan)
		}
		value, _, _ := unstructured.NestedString(o.Object, "spec", "value")
		if problems := validation.IsValidLabelValue(value); len(problems) > 0 {
			t.Errorf("no Placement can select by %q: %v", value, problems)
		}
		out[o.GetName()] = value
	}
	return out
}
