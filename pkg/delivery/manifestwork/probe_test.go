// Copyright Contributors to the Open Cluster Management project

package manifestwork

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/jsonpath"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/manifests"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/workload"
)

func probe(t *testing.T) *workv1.ManifestWork {
	t.Helper()
	b := bundle(t)
	b.Payload = append(b.Payload,
		object(t, "rbac.authorization.k8s.io/v1/ClusterRole", "knative-serving-admin", render.Object{}),
		object(t, "rbac.authorization.k8s.io/v1/ClusterRole", "knative-serving-core", render.Object{}),
		boundTo(t, "users", "elsewhere"), boundTo(t, "knative-serving-controller-admin", ns))
	b.Workloads = []workload.Expected{{Kind: "Deployment", Namespace: ns, Name: "activator"}, {Kind: "StatefulSet", Namespace: ns, Name: "rabbit"}}
	w, err := Probe(b, &addonv1beta1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Name: "knative-serving", Namespace: "cluster1", UID: "u1"}})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// boundTo is a ClusterRoleBinding of a ServiceAccount of the namespace.
func boundTo(t *testing.T, name, namespace string) render.Object {
	t.Helper()
	o := object(t, "rbac.authorization.k8s.io/v1/ClusterRoleBinding", name, render.Object{})
	o.Object["subjects"] = []any{map[string]any{"kind": "ServiceAccount", "name": "controller", "namespace": namespace}}
	return o
}

func TestProbe(t *testing.T) {
	w := probe(t)
	if w.Name != ProbeName("knative-serving") || !IsProbe(w) {
		t.Errorf("%q is no probe", w.Name)
	}
	var names []string
	for _, m := range w.Spec.Workload.Manifests {
		var o metav1.PartialObjectMetadata
		if err := json.Unmarshal(m.Raw, &o); err != nil {
			t.Fatal(err)
		}
		names = append(names, o.Kind+" "+o.Name)
		if o.Name == manifests.ProbeRoleName("knative-serving") {
			testProbeRole(t, w, m)
		} else {
			testProbed(t, w, m, o.Kind)
		}
	}
	want := []string{
		"ClusterRole knative.open-cluster-management.io:work:knative-serving", "ClusterRole knative-serving-admin",
		"ClusterRoleBinding knative-serving-controller-admin",
		"Deployment activator", "StatefulSet rabbit",
		"Namespace " + ns, "CustomResourceDefinition services.serving.knative.dev",
		"ClusterRole knative.open-cluster-management.io:work:knative-serving:probe",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	rule := func(group, resource, namespace, name string) workv1.OrphaningRule {
		return workv1.OrphaningRule{Group: group, Resource: resource, Namespace: namespace, Name: name}
	}
	const rbac = "rbac.authorization.k8s.io"
	orphaned := &workv1.SelectivelyOrphan{OrphaningRules: []workv1.OrphaningRule{
		rule(rbac, "clusterroles", "", "knative.open-cluster-management.io:work:knative-serving"),
		rule(rbac, "clusterroles", "", "knative-serving-admin"), rule(rbac, "clusterrolebindings", "", "knative-serving-controller-admin"),
		rule("apps", "deployments", ns, "activator"), rule("apps", "statefulsets", ns, "rabbit"), rule("", "namespaces", "", ns),
		rule("apiextensions.k8s.io", "customresourcedefinitions", "", "services.serving.knative.dev"),
	}}
	if diff := cmp.Diff(orphaned, w.Spec.DeleteOption.SelectivelyOrphan); diff != "" {
		t.Errorf("the agent owns all objects but these (-want +got):\n%s", diff)
	}
}

// testProbed holds that the agent only reads an object of the probe, and reports values of the object.
func testProbed(t *testing.T, probe *workv1.ManifestWork, m workv1.Manifest, kind string) {
	t.Helper()
	resource := map[string]string{
		"ClusterRole": "clusterroles", "ClusterRoleBinding": "clusterrolebindings", "Deployment": "deployments", "StatefulSet": "statefulsets",
		"Namespace": "namespaces", "CustomResourceDefinition": "customresourcedefinitions",
	}[kind]
	i := slices.IndexFunc(probe.Spec.ManifestConfigs, func(c workv1.ManifestConfigOption) bool {
		return c.ResourceIdentifier.Resource == resource && c.ResourceIdentifier.Name == "*"
	})
	if i < 0 || probe.Spec.ManifestConfigs[i].UpdateStrategy.Type != workv1.UpdateStrategyTypeReadOnly || len(probe.Spec.ManifestConfigs[i].FeedbackRules) == 0 {
		t.Errorf("the agent would write %s, or not report on the object", m.Raw)
	}
	if kind == "ClusterRoleBinding" && !strings.Contains(string(m.Raw), `"roleRef":{`) {
		t.Error("the API server refuses the dry run of a binding without a role")
	}
}

// testProbeRole holds that the agent writes the role of the probe, and that the role gives no permission but the one for CRDs.
func testProbeRole(t *testing.T, probe *workv1.ManifestWork, m workv1.Manifest) {
	t.Helper()
	var role rbacv1.ClusterRole
	if err := json.Unmarshal(m.Raw, &role); err != nil {
		t.Fatal(err)
	}
	want := []rbacv1.PolicyRule{{APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"customresourcedefinitions"}, Verbs: []string{"patch"}}}
	if diff := cmp.Diff(want, role.Rules); diff != "" || role.Labels["open-cluster-management.io/aggregate-to-work"] != "true" {
		t.Errorf("labels %v, rules (-want +got):\n%s", role.Labels, diff)
	}
	// The agent uses the first entry with a strategy that matches.
	first := slices.IndexFunc(probe.Spec.ManifestConfigs, func(c workv1.ManifestConfigOption) bool {
		return c.ResourceIdentifier.Resource == "clusterroles" && (c.ResourceIdentifier.Name == role.Name || c.ResourceIdentifier.Name == "*")
	})
	if first < 0 || probe.Spec.ManifestConfigs[first].UpdateStrategy.Type != workv1.UpdateStrategyTypeUpdate {
		t.Errorf("the agent does not write %s", role.Name)
	}
}

// TestProbeReads evaluates what a probe asks for as the work agent does.
func TestProbeReads(t *testing.T) {
	const object = `{"kind": "Deployment", "metadata": {%s}}`
	for name, tc := range map[string]struct {
		metadata string
		want     map[string]string
	}{
		"nobody's":     {`"name": "a"`, map[string]string{}},
		"other owners": {`"ownerReferences": [{"kind": "ConfigMap", "name": "x"}], "labels": {"a": "b"}`, map[string]string{}},
		"applied by a work": {
			`"ownerReferences": [{"kind": "ConfigMap", "name": "x"}, {"kind": "AppliedManifestWork", "name": "y"}]`, map[string]string{appliedByValue: "y"},
		},
		"written directly": {`"labels": {"knative.open-cluster-management.io/component": "c"}`, map[string]string{directValue: "c"}},
		"of a hub":         {`"annotations": {"knative.open-cluster-management.io/hub": "h"}`, map[string]string{hubValue: "h"}},
	} {
		t.Run(name, func(t *testing.T) {
			var o any
			if err := json.Unmarshal(fmt.Appendf(nil, object, tc.metadata), &o); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, fedBack(t, "clusterroles", o)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestProbeReadsNamespace holds that the namespace of a ServiceAccount is reported, and no namespace for a user.
func TestProbeReadsNamespace(t *testing.T) {
	binding := boundTo(t, "controller", "elsewhere").Object
	if got := fedBack(t, "clusterrolebindings", binding); got[namespaceValue] != "elsewhere" {
		t.Errorf("got %v", got)
	}
	for _, subjects := range [][]any{nil, {map[string]any{"kind": "User", "name": "mallory"}}} {
		binding["subjects"] = subjects
		if got := fedBack(t, "clusterrolebindings", binding); len(got) > 0 {
			t.Errorf("of %v it reports %v", subjects, got)
		}
	}
}

// fedBack are the values that the agent would report of an object of the resource.
func fedBack(t *testing.T, resource string, object any) map[string]string {
	t.Helper()
	out := map[string]string{}
	configs := probeConfigs("knative-serving")
	i := slices.IndexFunc(configs, func(c workv1.ManifestConfigOption) bool {
		return c.ResourceIdentifier.Resource == resource && c.ResourceIdentifier.Name == "*"
	})
	for _, p := range configs[i].FeedbackRules[0].JsonPaths {
		path := jsonpath.New(p.Name).AllowMissingKeys(true)
		if err := path.Parse("{" + p.Path + "}"); err != nil {
			t.Fatal(err)
		}
		results, err := path.FindResults(object)
		if err != nil {
			t.Fatal(err)
		}
		if len(results) > 0 && len(results[0]) > 0 {
			out[p.Name] = fmt.Sprint(results[0][0].Interface())
		}
	}
	return out
}

// reported is a probe with what the agent says of each object; nil is one that is not there.
func reported(t *testing.T, values ...map[string]string) *workv1.ManifestWork {
	t.Helper()
	w := probe(t)
	w.Generation = 2
	w.Status.Conditions = []metav1.Condition{
		{Type: workv1.WorkApplied, Status: metav1.ConditionTrue, ObservedGeneration: 2},
		{Type: workv1.WorkAvailable, Status: metav1.ConditionFalse, ObservedGeneration: 2},
	}
	for len(values) < 7 { // the cluster has none of the foundation
		values = append(values, nil)
	}
	for i, kind := range []string{"ClusterRole", "ClusterRole", "ClusterRoleBinding", "Deployment", "StatefulSet", "Namespace", "CustomResourceDefinition"} {
		m := workv1.ManifestCondition{ResourceMeta: workv1.ManifestResourceMeta{Kind: kind, Name: "x"}}
		m.Conditions = []metav1.Condition{{Type: workv1.ManifestAvailable, Status: metav1.ConditionTrue}}
		switch kind {
		case "Deployment", "StatefulSet":
			m.ResourceMeta.Namespace = ns
		case "Namespace":
			m.ResourceMeta.Name = ns
		case "CustomResourceDefinition":
			m.ResourceMeta.Name = "services.serving.knative.dev"
		}
		if values[i] == nil {
			m.Conditions = []metav1.Condition{{Type: workv1.ManifestAvailable, Status: metav1.ConditionFalse, Reason: "ResourceNotAvailable"}}
		}
		for name, value := range values[i] {
			m.StatusFeedbacks.Values = append(m.StatusFeedbacks.Values, workv1.FeedbackValue{
				Name: name, Value: workv1.FieldValue{Type: workv1.String, String: &value},
			})
		}
		w.Status.ResourceStatus.Manifests = append(w.Status.ResourceStatus.Manifests, m)
	}
	w.Status.ResourceStatus.Manifests = append(w.Status.ResourceStatus.Manifests, workv1.ManifestCondition{
		ResourceMeta: workv1.ManifestResourceMeta{Kind: "ClusterRole", Name: manifests.ProbeRoleName("knative-serving")},
		Conditions:   []metav1.Condition{{Type: workv1.ManifestAvailable, Status: metav1.ConditionTrue}},
	})
	return w
}

func TestFoundBy(t *testing.T) {
	there := map[string]string{}
	unread := reported(t, nil, nil, nil, there, nil)
	unread.Status.ResourceStatus.Manifests[3].Conditions[0].Status = metav1.ConditionUnknown
	old := reported(t, nil, nil, nil, nil, nil)
	old.Generation = 3
	early := reported(t, nil, nil, nil, nil, nil)
	early.Status.Conditions = early.Status.Conditions[:1]
	for name, tc := range map[string]struct {
		reason string
		probe  *workv1.ManifestWork
		want   Found
	}{
		"nobody": {reason: "A free cluster.", probe: reported(t, nil, nil, nil, nil, nil)},
		"roles alone": {
			reason: "They may be left over.", probe: reported(t, map[string]string{hubValue: "h1"}, there, nil, nil, nil), want: Found{Hub: "h1"},
		},
		"another hub": {
			reason: "Its works own what it applied.",
			probe:  reported(t, map[string]string{hubValue: "h2", appliedByValue: "a-foundation"}, nil, nil, map[string]string{appliedByValue: "a-payload"}, nil),
			want: Found{
				Hub: "h2", AppliedBy: "a-foundation", Applied: []string{"ClusterRole x", "Deployment " + ns + "/x"},
				Workloads: []string{"Deployment " + ns + "/x"},
			},
		},
		"direct delivery into another namespace": {
			reason: "Cluster-scoped objects are there once.", probe: reported(t, nil, map[string]string{directValue: "knative-serving"}, nil, nil, nil),
			want: Found{Direct: []string{"ClusterRole x"}},
		},
		"by hand": {
			reason: "Nobody's.", probe: reported(t, nil, there, nil, there, there),
			want: Found{Workloads: []string{"Deployment " + ns + "/x", "StatefulSet " + ns + "/x"}},
		},
		"a binding": {
			reason: "It names the namespace of an installation.", probe: reported(t, nil, nil, map[string]string{namespaceValue: "elsewhere"}, nil, nil),
			want: Found{Binding: "ClusterRoleBinding x", Namespace: "elsewhere"},
		},
		"a namespace that was there, and a CRD that this hub made": {
			reason: "The one stays whatever is asked for; the other may go.",
			probe:  reported(t, nil, nil, nil, nil, nil, there, map[string]string{createdByValue: "h1"}),
			want:   Found{Foundation: map[string]string{"Namespace " + ns: "", "CustomResourceDefinition services.serving.knative.dev": "h1"}},
		},
		"unreadable": {
			reason: "It is not known.", probe: unread,
			want: Found{Waiting: "waiting for the work agent to report the objects of the cluster: the agent cannot read Deployment " + ns + "/x"},
		},
		"of another generation": {
			reason: "The agent has not looked since.", probe: old,
			want: Found{Waiting: "waiting for the work agent to report the objects of the cluster: the work agent has not applied the work yet"},
		},
		"before the agent has looked": {
			reason: "It applies first.", probe: early, want: Found{Waiting: "waiting for the work agent to report the objects of the cluster"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, FoundBy(tc.probe)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}
