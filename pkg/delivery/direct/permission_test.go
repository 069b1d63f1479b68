// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"open-cluster-management.io/knative-addon/pkg/render"
)

// allows tells whether a request, as the apiServer names it, is permitted.
func (p permissions) allows(request string) bool {
	verb, path, _ := strings.Cut(request, " ")
	parts := strings.Split(path, "/")
	resource, namespace, name := parts[0], "", ""
	switch {
	case len(parts) == 3:
		namespace, name = parts[1], parts[2]
	case len(parts) == 2 && (verb == "list" || verb == "watch" || verb == "create"):
		namespace = parts[1]
	case len(parts) == 2:
		name = parts[1]
	}
	if verb == "apply" {
		verb = "patch"
	}
	for at, names := range p {
		of := at.Resource == resource && at.verb == verb && (at.namespace == "" || at.namespace == namespace)
		if of && (names == nil || names[name]) {
			return true
		}
	}
	return false
}

// TestPermissionsAreEnough holds that an installation asks for nothing that it is not given. The real RBAC is in test/e2e.
func TestPermissionsAreEnough(t *testing.T) {
	s, b := newClusterFixture(t), bundleOf(t)
	p := permissionsFor([]Need{{
		Anchor: strings.TrimPrefix(anchorPath, "configmaps/knative-serving/"), Bundles: []*render.Bundle{b}, Foundation: true, UserResources: true,
	}})
	var mu sync.Mutex
	refused := map[string]bool{}
	s.disturb(func(request string) error {
		if p.allows(request) || strings.HasSuffix(request, " ") { // discovery is everybody's
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		refused[request] = true
		return apierrors.NewForbidden(schema.GroupResource{}, request, nil)
	})
	s.add(b.Foundation[0].Resource, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": installed},
	}})
	s.settle(t, b)
	s.lose(anchorPath)
	s.restart()
	s.settle(t, b)
	s.settle(t, bundleOf(t, without("ConfigMap")))
	s.lose(anchorPath)
	for range 3 {
		if waiting, err := s.Remove(t.Context(), RemoveOptions{Namespace: installed, Foundation: true, UserResources: true}); err != nil {
			t.Errorf("waiting for %q: %v", waiting, err)
		}
	}
	for request := range refused {
		t.Errorf("refused: %s", request)
	}
}

// TestGrant holds what is in the roles, line by line.
func TestGrant(t *testing.T) {
	b := bundleOf(t, without("Deployment"), without("ServiceAccount"), without("Image"), without("ValidatingWebhookConfiguration"))
	subject := rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "hub"}
	g := GrantFor("it", []rbacv1.Subject{subject}, Need{Anchor: "anchor", Bundles: []*render.Bundle{b}})
	if diff := cmp.Diff([]string{
		"configmaps,services: list", "namespaces: list,watch",
		"namespaces [knative-serving kube-system]: get",
		"mutatingwebhookconfigurations,validatingadmissionpolicies,validatingadmissionpolicybindings,validatingwebhookconfigurations: list",
		"customresourcedefinitions: list,watch", "customresourcedefinitions [images.caching.knative.dev]: create,get,patch",
		"deployments,statefulsets: list",
		"clusterrolebindings: list,watch", "clusterrolebindings [controller]: create,delete,get,patch",
		"clusterroles [admin]: bind", "clusterroles,rolebindings,roles: list",
	}, lines(g.ClusterRole.Rules)); diff != "" {
		t.Errorf("ClusterRole (-want +got):\n%s", diff)
	}
	if len(g.Roles) != 1 || len(g.Namespaces) != 1 || g.Roles[0].Namespace != installed || g.Namespaces[0].Name != installed {
		t.Fatalf("there are Roles %v and Namespaces %v", g.Roles, g.Namespaces)
	}
	if diff := cmp.Diff([]string{
		"configmaps: create,watch", "configmaps [config-network]: patch", "configmaps [anchor]: update",
		"configmaps [anchor config-network]: delete,get", "secrets: create,list,watch", "secrets [certs]: delete,get,patch",
		"jobs: create,list,watch", "jobs [migrate]: delete,get,patch",
	}, lines(g.Roles[0].Rules)); diff != "" {
		t.Errorf("Role (-want +got):\n%s", diff)
	}
	if g.ClusterRoleBinding.Subjects[0] != subject || g.RoleBindings[0].Subjects[0] != subject {
		t.Errorf("they are bound to %v and %v", g.ClusterRoleBinding.Subjects, g.RoleBindings[0].Subjects)
	}
}

// TestGrantForDeletion holds what a deletion policy adds.
func TestGrantForDeletion(t *testing.T) {
	b := bundleOf(t)
	rules := func(n Need) []string {
		n.Anchor, n.Bundles = "anchor", []*render.Bundle{b}
		return lines(GrantFor("it", nil, n).ClusterRole.Rules)
	}
	before := rules(Need{})
	for name, tc := range map[string]struct {
		need Need
		want []string
	}{
		"foundation": {Need{Foundation: true}, []string{"customresourcedefinitions [images.caching.knative.dev]: create,delete,get,patch", "images: list"}},
		"resources of users": {
			Need{Foundation: true, UserResources: true},
			[]string{"customresourcedefinitions [images.caching.knative.dev]: create,delete,get,patch", "images: delete,list"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			added := slices.DeleteFunc(rules(tc.need), func(line string) bool { return slices.Contains(before, line) })
			if diff := cmp.Diff(tc.want, added); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func lines(rules []rbacv1.PolicyRule) []string {
	var out []string
	for _, r := range rules {
		names := ""
		if len(r.ResourceNames) > 0 {
			names = fmt.Sprintf(" %v", r.ResourceNames)
		}
		out = append(out, strings.Join(r.Resources, ",")+names+": "+strings.Join(r.Verbs, ","))
	}
	return out
}

// TestGrantForParameters holds that the credential may get every object of the kind that is the parameter of a policy: the API server
// refuses the policy otherwise, although the binding names one object.
func TestGrantForParameters(t *testing.T) {
	policy := render.Object{
		Unstructured: &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": map[string]any{"name": "p"},
			"spec": map[string]any{"paramKind": map[string]any{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration"}},
		}},
		Class:    render.Apply,
		Resource: schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicies"},
	}
	b := &render.Bundle{Namespace: "knative-serving", Payload: []render.Object{policy}}
	p := permissionsFor([]Need{{Anchor: "anchor", Bundles: []*render.Bundle{b}}})
	for request, want := range map[string]bool{
		"get mutatingwebhookconfigurations/any":   true,
		"get validatingwebhookconfigurations/any": false,
		"patch mutatingwebhookconfigurations/any": false,
		"apply validatingadmissionpolicies/p":     true,
	} {
		if got := p.allows(request); got != want {
			t.Errorf("%s is permitted: %t, want %t", request, got, want)
		}
	}
}
