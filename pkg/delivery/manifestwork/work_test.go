// Copyright Contributors to the Open Cluster Management project

package manifestwork

import (
	"encoding/json"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/manifests"
	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render"
)

func object(t *testing.T, kind, name string, o render.Object) render.Object {
	t.Helper()
	apiVersion, kind := cutLast(kind)
	namespace, name := cutLast(name)
	o.Unstructured = &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind}}
	o.SetNamespace(namespace)
	o.SetName(name)
	raw, err := json.Marshal(o.Object)
	if err != nil {
		t.Fatal(err)
	}
	o.JSON = raw
	return o
}

// cutLast cuts s around its last slash; without one it is all after.
func cutLast(s string) (before, after string) {
	i := strings.LastIndex(s, "/")
	return s[:max(i, 0)], s[i+1:]
}

// bundle is a Namespace and a CRD, a ConfigMap and a Job.
func bundle(t *testing.T) *render.Bundle {
	t.Helper()
	return &render.Bundle{
		Component: api.Serving, Version: "1.23.0", Namespace: ns, Digest: "d1", FoundationDigest: "f1",
		Foundation: []render.Object{
			object(t, "v1/Namespace", ns, render.Object{Orphan: true, Resource: schema.GroupVersionResource{Resource: "namespaces"}}),
			object(t, "apiextensions.k8s.io/v1/CustomResourceDefinition", "services.serving.knative.dev", render.Object{
				Orphan: true, Resource: schema.GroupVersionResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"},
			}),
		},
		Payload: []render.Object{
			object(t, "v1/ConfigMap", ns+"/config-leader-election", render.Object{Class: render.Apply}),
			object(t, "batch/v1/Job", ns+"/"+"cleanup", render.Object{Class: render.OncePerVersion}),
		},
	}
}

func TestFoundation(t *testing.T) {
	addOn := &addonv1beta1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Name: "knative-serving", Namespace: "cluster1", UID: "u1"}}
	w, err := Foundation(bundle(t), addOn, "h1")
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, m := range w.Spec.Workload.Manifests {
		var o metav1.PartialObjectMetadata
		if err := json.Unmarshal(m.Raw, &o); err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, o.Kind)
	}
	if raw := string(w.Spec.Workload.Manifests[0].Raw); !strings.Contains(raw, `"`+api.HubAnnotation+`":"h1"`) {
		t.Errorf("the cluster cannot tell whose the installation is: %s", raw)
	}
	if diff := cmp.Diff([]string{"ClusterRole", "Namespace", "CustomResourceDefinition"}, kinds); diff != "" {
		t.Errorf("the agent needs its permissions first (-want +got):\n%s", diff)
	}
	want := []workv1.OrphaningRule{
		{Resource: "namespaces", Name: ns},
		{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions", Name: "services.serving.knative.dev"},
	}
	if diff := cmp.Diff(want, w.Spec.DeleteOption.SelectivelyOrphan.OrphaningRules); diff != "" {
		t.Errorf("CRDs and Namespaces stay, the role goes (-want +got):\n%s", diff)
	}
	if _, labelled := w.Labels[addonv1beta1.AddonLabelKey]; labelled {
		t.Error("addon-framework would delete a work with OCM's label")
	}
	if got := w.OwnerReferences[0].UID; got != addOn.UID {
		t.Errorf("the owner is %q, want the add-on", got)
	}
}

func TestPayloadLeavesOutFinishedJobs(t *testing.T) {
	b := bundle(t)
	const marks = 1
	recorded := func(jobs string) *workv1.ManifestWork {
		f := installed()
		f.Annotations = map[string]string{api.FinishedJobsAnnotation: jobs}
		return f
	}
	if got := len(Payload(b, installed())) - marks; got != 2 {
		t.Errorf("payload has %d objects, want all 2", got)
	}
	if got := len(Payload(b, recorded(ns+"/cleanup"))) - marks; got != 1 {
		t.Errorf("payload has %d objects, want 1 without the finished Job", got)
	}
	if got := len(Payload(b, recorded(ns+"/config-leader-election"))) - marks; got != 2 {
		t.Errorf("payload has %d objects: only Jobs may be left out", got)
	}
}

func TestRemovedJobs(t *testing.T) {
	complete := metav1.Condition{Type: jobFinishedCondition, Status: metav1.ConditionTrue}
	job := func(name string, conditions ...metav1.Condition) workv1.ManifestCondition {
		return workv1.ManifestCondition{ResourceMeta: workv1.ManifestResourceMeta{Kind: "Job", Namespace: ns, Name: name}, Conditions: conditions}
	}
	w := &workv1.ManifestWork{}
	w.Status.ResourceStatus.Manifests = []workv1.ManifestCondition{
		job("removed", complete, gone), job("a-removed", gone, complete),
		job("finished", complete), job("never-there", gone), job("running"),
	}
	if diff := cmp.Diff([]string{ns + "/a-removed", ns + "/removed"}, RemovedJobs(w)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

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

func TestApplied(t *testing.T) {
	w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Generation: 2}}
	if ok, why := Applied(w); ok || why == "" {
		t.Errorf("a work without status is applied (%v, %q)", ok, why)
	}
	w.Status.Conditions = []metav1.Condition{{Type: workv1.WorkApplied, Status: metav1.ConditionTrue, ObservedGeneration: 1}}
	if ok, why := Applied(w); ok || why == "" {
		t.Errorf("an older generation is applied (%v, %q)", ok, why)
	}
	w.Status.Conditions[0].ObservedGeneration = 2
	if ok, why := Applied(w); !ok {
		t.Errorf("the work is not applied: %s", why)
	}
	w.Status.Conditions[0].Status = metav1.ConditionFalse
	w.Status.ResourceStatus.Manifests = []workv1.ManifestCondition{{
		ResourceMeta: workv1.ManifestResourceMeta{Kind: "CustomResourceDefinition", Name: "services.serving.knative.dev"},
		Conditions:   []metav1.Condition{{Type: workv1.ManifestApplied, Status: metav1.ConditionFalse, Message: "forbidden"}},
	}}
	if ok, why := Applied(w); ok || why != `CustomResourceDefinition services.serving.knative.dev: forbidden` {
		t.Errorf("Applied is %v, %q: it must name the object and the cause", ok, why)
	}
}

func TestSameManifests(t *testing.T) {
	work := func(raws ...string) *workv1.ManifestWork {
		w := &workv1.ManifestWork{}
		for _, r := range raws {
			m := workv1.Manifest{}
			m.Raw = []byte(r)
			w.Spec.Workload.Manifests = append(w.Spec.Workload.Manifests, m)
		}
		return w
	}
	for name, tc := range map[string]struct {
		a, b *workv1.ManifestWork
		want bool
	}{
		"equal":                  {work(`{"a":1}`), work(`{"a":1}`), true},
		"other spelling":         {work(`{"a":1,"b":2}`), work(`{"b": 2, "a": 1}`), true},
		"other value":            {work(`{"a":1}`), work(`{"a":2}`), false},
		"other order of objects": {work(`{"a":1}`, `{"b":1}`), work(`{"b":1}`, `{"a":1}`), false},
		"one more":               {work(`{"a":1}`), work(`{"a":1}`, `{"b":1}`), false},
		"broken":                 {work(`{"a":1}`), work(`{"a":`), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := SameManifests(tc.a, tc.b); got != tc.want {
				t.Errorf("SameManifests is %v, want %v", got, tc.want)
			}
		})
	}
}
