// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/knative-addon/pkg/inventory"
)

// Grant holds the objects that an administrator of a cluster applies for a credential.
type Grant struct {
	// Namespaces have to exist for the Roles. The namespaces belong to the administrator, and no removal deletes the
	// namespaces.
	Namespaces []metav1.PartialObjectMetadata

	ClusterRole        rbacv1.ClusterRole
	ClusterRoleBinding rbacv1.ClusterRoleBinding
	// Roles and RoleBindings exist once for each namespace.
	Roles        []rbacv1.Role
	RoleBindings []rbacv1.RoleBinding
}

// GrantFor returns the fewest permissions that suffice for the subjects to create, keep and remove the installations. name is
// the name of the roles and bindings.
func GrantFor(name string, subjects []rbacv1.Subject, needs ...Need) *Grant {
	p := permissionsFor(needs)
	rbac := func(kind string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
	}
	g := &Grant{
		ClusterRole: rbacv1.ClusterRole{TypeMeta: rbac("ClusterRole"), ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: p.policyRules("")},
		ClusterRoleBinding: rbacv1.ClusterRoleBinding{
			TypeMeta: rbac("ClusterRoleBinding"), ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		},
	}
	for _, namespace := range p.listNamespaces() {
		in := metav1.ObjectMeta{Namespace: namespace, Name: name}
		g.Namespaces = append(g.Namespaces, metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
			ObjectMeta: metav1.ObjectMeta{Name: namespace, Annotations: map[string]string{inventory.KeepAnnotation: "true"}},
		})
		g.Roles = append(g.Roles, rbacv1.Role{TypeMeta: rbac("Role"), ObjectMeta: in, Rules: p.policyRules(namespace)})
		g.RoleBindings = append(g.RoleBindings, rbacv1.RoleBinding{
			TypeMeta: rbac("RoleBinding"), ObjectMeta: in, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		})
	}
	return g
}

// Objects returns all objects of the grant in an order in which the objects can be applied.
func (g *Grant) Objects() []any {
	var out []any
	for _, n := range g.Namespaces {
		out = append(out, n)
	}
	out = append(out, g.ClusterRole, g.ClusterRoleBinding)
	for i := range g.Roles {
		out = append(out, g.Roles[i], g.RoleBindings[i])
	}
	return out
}

// policyRules returns the permissions of a namespace as sorted rules. Permissions that differ only in verbs, or only in
// resources, share a rule.
func (p permissions) policyRules(namespace string) []rbacv1.PolicyRule {
	type object struct{ group, resource, names string }
	verbs := map[object][]string{}
	for at, names := range p {
		if at.namespace == namespace {
			o := object{at.Group, at.Resource, strings.Join(slices.Sorted(maps.Keys(names)), " ")}
			verbs[o] = append(verbs[o], at.verb)
		}
	}
	type rule struct{ group, names, verbs string }
	resources := map[rule][]string{}
	for o, v := range verbs {
		slices.Sort(v)
		r := rule{o.group, o.names, strings.Join(v, " ")}
		resources[r] = append(resources[r], o.resource)
	}
	out := make([]rbacv1.PolicyRule, 0, len(resources))
	for r, list := range resources {
		slices.Sort(list)
		out = append(out, rbacv1.PolicyRule{
			APIGroups: []string{r.group}, Resources: list, ResourceNames: strings.Fields(r.names), Verbs: strings.Fields(r.verbs),
		})
	}
	slices.SortFunc(out, func(a, b rbacv1.PolicyRule) int {
		return cmp.Or(cmp.Compare(a.APIGroups[0], b.APIGroups[0]), slices.Compare(a.Resources, b.Resources),
			cmp.Compare(len(a.ResourceNames), len(b.ResourceNames)), slices.Compare(a.Verbs, b.Verbs))
	})
	return out
}
