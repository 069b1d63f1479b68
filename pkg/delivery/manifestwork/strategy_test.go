// Copyright Contributors to the Open Cluster Management project

package manifestwork

import (
	"encoding/json"
	"path"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/manifests"
	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// TestConfigsSayAll guards against addon-framework merging two entries, which drops condition rules and the way to watch, and
// against defaults that the API server would add behind our back.
func TestConfigsSayAll(t *testing.T) {
	seen := map[workv1.ResourceIdentifier]bool{}
	for _, c := range PayloadConfigs() {
		if seen[c.ResourceIdentifier] {
			t.Errorf("%+v occurs twice", c.ResourceIdentifier)
		}
		seen[c.ResourceIdentifier] = true
		if c.FeedbackScrapeType == "" {
			t.Errorf("%+v has no scrape type", c.ResourceIdentifier)
		}
		s := c.UpdateStrategy
		if s != nil && s.Type == workv1.UpdateStrategyTypeServerSideApply && (s.ServerSideApply == nil || s.ServerSideApply.FieldManager == "") {
			t.Errorf("%+v has no field manager", c.ResourceIdentifier)
		}
	}
}

// TestStrategiesFollowClasses holds the agent's strategy for each object of each release against its class, and its
// permissions against what there is to write.
func TestStrategiesFollowClasses(t *testing.T) {
	may := extraPermissions(t)
	want := map[render.Class]workv1.UpdateStrategyType{
		render.Apply: workv1.UpdateStrategyTypeServerSideApply, render.CreateOnly: workv1.UpdateStrategyTypeCreateOnly,
		render.OncePerVersion: workv1.UpdateStrategyTypeCreateOnly, render.Update: workv1.UpdateStrategyTypeUpdate,
	}
	for _, b := range everything(t) {
		for _, o := range b.Payload {
			if group := o.Resource.Group; !ofKubernetes(group) && !may[o.Resource.GroupResource().String()] {
				t.Errorf("%s %s: the agent may not write %s", b.Component, b.Version, o.Resource.GroupResource())
			}
			if got := strategyOf(o); got != want[o.Class] {
				t.Errorf("%s %s: %s is kept by %s, want %s for class %s", b.Component, b.Version, o.ID(), got, want[o.Class], o.Class)
			}
		}
	}
}

// everything renders every version with all that can be enabled.
func everything(t *testing.T) []*render.Bundle {
	t.Helper()
	renderer, err := render.New(render.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = renderer.Close() })
	enabled := func(names ...string) map[string]any {
		out := map[string]any{}
		for _, n := range names {
			out[n] = map[string]any{"enabled": true}
		}
		return out
	}
	specs := map[api.Component]map[string]any{
		api.Serving: {"ingress": enabled("istio", "kourier", "contour", "gateway-api"), "security": enabled("securityGuard")},
		api.Eventing: {
			"source": enabled("ceph", "github", "gitlab", "kafka", "rabbitmq", "redis"),
			"config": map[string]any{"features": map[string]any{"transport-encryption": "strict"}},
		},
	}
	var out []*render.Bundle
	for component, spec := range specs {
		for _, version := range renderer.Versions(component) {
			spec["version"] = version
			install, err := render.Decode(&unstructured.Unstructured{Object: map[string]any{
				"apiVersion": api.Group + "/v1beta1", "kind": component.Kind(), "metadata": map[string]any{"name": "all", "namespace": "fleet"}, "spec": spec,
			}})
			if err != nil {
				t.Fatal(err)
			}
			b, err := renderer.Render(t.Context(), install, render.DefaultOptions(api.ModeManifestWork))
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, b)
		}
	}
	return out
}

// ofKubernetes tells that OCM gives the agent permission for what Knative needs of the group.
func ofKubernetes(group string) bool {
	return !strings.Contains(group, ".") || strings.HasSuffix(group, ".k8s.io")
}

// extraPermissions are the resources that the work agent's role gives every verb on.
func extraPermissions(t *testing.T) map[string]bool {
	t.Helper()
	raw, err := manifests.WorkAgentRole(api.Serving, "")
	if err != nil {
		t.Fatal(err)
	}
	var role rbacv1.ClusterRole
	if err := json.Unmarshal(raw, &role); err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, rule := range role.Rules {
		if len(rule.Verbs) == 7 {
			out[schema.GroupResource{Group: rule.APIGroups[0], Resource: rule.Resources[0]}.String()] = true
		}
	}
	return out
}

// strategyOf is what the agent makes of the entries: the first that matches and has a strategy, else Update.
func strategyOf(o render.Object) workv1.UpdateStrategyType {
	for _, c := range PayloadConfigs() {
		id := c.ResourceIdentifier
		named, err := path.Match(id.Name, o.GetName())
		if id.Group == o.Resource.Group && id.Resource == o.Resource.Resource && named && err == nil && c.UpdateStrategy != nil {
			return c.UpdateStrategy.Type
		}
	}
	return workv1.UpdateStrategyTypeUpdate
}

// TestFirstStrategyWins checks what the agent makes of the order of the entries: it takes the first that matches.
func TestFirstStrategyWins(t *testing.T) {
	for name, want := range map[string]workv1.UpdateStrategyType{
		"webhook-certs": workv1.UpdateStrategyTypeCreateOnly, "request-reply-keys": workv1.UpdateStrategyTypeCreateOnly,
		"registry-credentials": workv1.UpdateStrategyTypeServerSideApply,
	} {
		i := slices.IndexFunc(PayloadConfigs(), func(c workv1.ManifestConfigOption) bool {
			id := c.ResourceIdentifier
			return id.Resource == "secrets" && c.UpdateStrategy != nil &&
				(id.Name == "*" || id.Name == name || strings.HasPrefix(id.Name, "*") && strings.HasSuffix(name, id.Name[1:]))
		})
		if got := PayloadConfigs()[i].UpdateStrategy.Type; got != want {
			t.Errorf("Secret %q is kept by %s, want %s", name, got, want)
		}
	}
}
