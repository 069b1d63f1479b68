// Copyright Contributors to the Open Cluster Management project

package render

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/values"
)

// usingValues is a spec with a reference in each of the fields that may have one.
const usingValues = `
version: "1.23"
registry:
  default: $(cluster.variables.REGISTRY)/knative/${NAME}:v1
ingress:
  kourier: {enabled: true, service-type: $(cluster.claims.service-type)}
config:
  network: {ingress-class: kourier.ingress.networking.knative.dev}
  domain: {example.com: ""}
  defaults: {revision-timeout-seconds: "$(cluster.labels.example.com/timeout)", container-name-template: "$(NAME)-$$(cluster.name)"}
workloads:
- {name: activator, env: [{container: activator, envVars: [{name: X, value: $(cluster.labels.none)}]}]}
`

func cluster(pairs ...string) *values.Cluster {
	given := map[values.Reference]string{}
	for i := 0; i < len(pairs); i += 2 {
		r, err := values.ParseReference(pairs[i])
		if err != nil {
			panic(err)
		}
		given[r] = pairs[i+1]
	}
	return values.Given(given)
}

func on(t *testing.T, in *Install, c *values.Cluster, d *Deployment) *Bundle {
	t.Helper()
	in, err := in.On(c, d)
	if err != nil {
		t.Fatal(err)
	}
	b, err := shared.Render(t.Context(), in, DefaultOptions(api.ModeManifestWork))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestValuesOfACluster(t *testing.T) {
	in := install(t, api.Serving, usingValues)
	var names []string
	for _, r := range in.References() {
		names = append(names, r.String())
	}
	want := []string{"$(cluster.claims.service-type)", "$(cluster.labels.example.com/timeout)", "$(cluster.variables.REGISTRY)"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Fatalf("references: -want +got:\n%s", diff)
	}
	one := cluster("name", "c1", "labels.example.com/timeout", "11", "claims.service-type", "NodePort", "variables.REGISTRY", "registry.eu")
	b := on(t, in, one, nil)
	for what, wanted := range map[string]string{
		`ConfigMap/config-defaults`: `"revision-timeout-seconds":"11"`,
		`Service/kourier`:           `"type":"NodePort"`,
		`Deployment/controller`:     `"image":"registry.eu/knative/controller:v1"`,
		`Deployment/activator`:      `"value":"$(cluster.labels.none)"`, // elsewhere it is text
	} {
		if json := jsonOf(t, b, what); !strings.Contains(json, wanted) {
			t.Errorf("%s has no %s: %s", what, wanted, json)
		}
	}
	if json := jsonOf(t, b, "ConfigMap/config-defaults"); !strings.Contains(json, `"$(NAME)-$(cluster.name)"`) {
		t.Errorf("an escaped reference is not the text: %s", json)
	}

	t.Run("clusters with equal values share a bundle", func(t *testing.T) { sharedByValues(t, in, b) })
	t.Run("values that run into each other are different", func(t *testing.T) {
		x := identityOf([]string{"a", "bc"}, nil)
		if x == identityOf([]string{"ab", "c"}, nil) || x == identityOf([]string{"abc"}, nil) {
			t.Error("different values have one identity")
		}
	})
	t.Run("missing values are named, all of them", func(t *testing.T) { missingAreNamed(t, in) })
	t.Run("nothing is rendered without a cluster", func(t *testing.T) {
		if _, err := shared.Render(t.Context(), in, DefaultOptions(api.ModeManifestWork)); ReasonOf(err) != api.ReasonValueMissing {
			t.Errorf("error is %v", err)
		}
	})
	t.Run("the Install stays as it was", func(t *testing.T) {
		if diff := cmp.Diff(install(t, api.Serving, usingValues).serving, in.serving); diff != "" {
			t.Error(diff)
		}
	})
}

func sharedByValues(t *testing.T, in *Install, b *Bundle) {
	t.Helper()
	same := cluster("name", "c2", "labels.other", "x", "labels.example.com/timeout", "11", "claims.service-type", "NodePort", "variables.REGISTRY", "registry.eu")
	if on(t, in, same, nil) != b {
		t.Error("another cluster with the same values has another bundle")
	}
	other := cluster("labels.example.com/timeout", "12", "claims.service-type", "NodePort", "variables.REGISTRY", "registry.eu")
	if on(t, in, other, nil).Digest == b.Digest {
		t.Error("a cluster with other values has the same bundle")
	}
}

func missingAreNamed(t *testing.T, in *Install) {
	t.Helper()
	_, err := in.On(cluster("name", "c1", "claims.service-type", "NodePort"), nil)
	if ReasonOf(err) != api.ReasonValueMissing {
		t.Fatalf("error is %v", err)
	}
	for _, part := range []string{`"c1"`, "$(cluster.labels.example.com/timeout)", "$(cluster.variables.REGISTRY)", `KnativeServing "fleet/knative"`} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %s", err, part)
		}
	}
}

func TestWithoutReferences(t *testing.T) {
	plain := install(t, api.Serving, kourier)
	if got, err := plain.On(nil, nil); got != plain || err != nil {
		t.Errorf("an Install without references is another on a cluster: %v", err)
	}
	escaped := install(t, api.Serving, kourier+"config: {defaults: {a: $$(cluster.name)}}")
	if json := jsonOf(t, on(t, escaped, nil, nil), "ConfigMap/config-defaults"); !strings.Contains(json, `"a":"$(cluster.name)"`) {
		t.Errorf("an escaped reference is not the text: %s", json)
	}
}

func TestReferencesOfEventing(t *testing.T) {
	in := install(t, api.Eventing, "config: {features: {a: $(cluster.name)}}")
	if json := jsonOf(t, on(t, in, cluster("name", "c1"), nil), "ConfigMap/config-features"); !strings.Contains(json, `"a":"c1"`) {
		t.Errorf("no value: %s", json)
	}
}

func TestBadReferences(t *testing.T) {
	for name, tc := range map[string]struct{ spec, want string }{
		"an unknown source": {"config: {domain: {a: $(cluster.label.region)}}", "spec.config: $(cluster.label.region) is no value"},
		"an open one":       {"registry: {default: $(cluster.name}", "spec.registry: "},
		"one in a key":      {"config: {domain: {$(cluster.name).example.com: x}}", "spec.config: a key refers"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Decode(resource(t, api.Serving, tc.spec))
			if ReasonOf(err) != api.ReasonInvalidSpec || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error is %v, want one with %q", err, tc.want)
			}
		})
	}
}

// jsonOf is the JSON of an object, called kind/name.
func jsonOf(t *testing.T, b *Bundle, what string) string {
	t.Helper()
	kind, name, _ := strings.Cut(what, "/")
	for _, o := range b.Objects() {
		if o.GetKind() == kind && o.GetName() == name {
			return string(o.JSON)
		}
	}
	t.Fatalf("the bundle has no %s", what)
	return ""
}
