// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"maps"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"open-cluster-management.io/knative-addon/pkg/render"
)

// Need is an installation that a credential has to create, keep and remove.
type Need struct {
	// Anchor is the name of the installation's anchor.
	Anchor string
	// Bundles are the current and future bundles of the cluster: one for each version of an upgrade.
	Bundles []*render.Bundle
	// Foundation and UserResources are as in RemoveOptions.
	Foundation, UserResources bool
}

// permission is a verb on the objects of a resource; the namespace is empty for the whole cluster.
type permission struct {
	namespace string
	schema.GroupResource
	verb string
}

// permissions map each permission to the names of objects, or to nil for every object.
type permissions map[permission]map[string]bool

// permissionsFor returns the fewest permissions that suffice to create, keep and remove the installations. A test withdraws
// each permission in turn and expects the cluster to refuse a request of this package. A new request of this package needs a
// permission here.
func permissionsFor(needs []Need) permissions {
	p := permissions{}
	p.allowNamed("", namespaceResource(), metav1.NamespaceSystem, "get") // Cluster.UID reads the namespace
	p.allowAll("", configMapResource().GroupResource(), "list")          // for anchors of other owners
	for gvr := range uninstalledKinds() {
		p.allowAll("", gvr.GroupResource(), "list")
	}
	for _, n := range needs {
		for _, b := range n.Bundles {
			p.allowClaim(b, n.Anchor)
			for _, o := range b.Objects() {
				p.allowApply(&o)
				p.allowRemove(&o, &n, b.Namespace)
			}
			p.allowVerification(b, &n)
		}
	}
	p.removeRedundant()
	return p
}

// allowVerification allows to apply, observe and remove the Service of a requested verification.
func (p permissions) allowVerification(b *render.Bundle, n *Need) {
	if b.Verification == nil {
		return
	}
	if service, err := b.Verification.Service(b.RenderingName()); err == nil { // a Service of texts always encodes
		p.allowApply(&service)
		p.allowRemove(&service, n, b.Namespace)
	}
}

// allowClaim allows to read and write the install namespace and the anchor.
func (p permissions) allowClaim(b *render.Bundle, anchor string) {
	p.allowNamed("", namespaceResource(), b.Namespace, "get")
	p.allowAll(b.Namespace, configMapResource().GroupResource(), "create", "list", "watch")
	p.allowNamed(b.Namespace, configMapResource().GroupResource(), anchor, "get", "update", "delete")
	for _, resource := range []string{"deployments", "statefulsets"} {
		p.allowAll(b.Namespace, appsResource(resource).GroupResource(), "list")
	}
}

// allowApply allows to apply an object and to cache the state of the object.
func (p permissions) allowApply(o *render.Object) {
	at, r, name := o.GetNamespace(), o.Resource.GroupResource(), o.GetName()
	p.allowAll(at, r, "list", "watch")
	p.allowNamed(at, r, name, "patch")
	switch o.Class {
	case render.CreateOnly, render.OncePerVersion:
		p.allowAll(at, r, "create") // RBAC cannot restrict create by name
	default:
		p.allowNamed(at, r, name, "create") // except for an apply, which has the name in the path
	}
	if o.Class == render.OncePerVersion || render.KindOf(o.GroupVersionKind().GroupKind()).Stage == render.StageFoundation {
		p.allowNamed(at, r, name, "get") // existedBefore reads the object
	}
	if r.Group == rbacv1.GroupName {
		p.allowGrant(o)
	}
	if kind := paramKind(o); kind.Resource != "" {
		p.allowAll("", schema.GroupResource{Group: kind.Group, Resource: kind.Resource}, "get") // the API server asks for the whole kind
	}
}

// paramKind returns the kind of the parameters of an admission policy; the zero Kind for other objects.
func paramKind(o *render.Object) render.Kind {
	if o.GetKind() != "ValidatingAdmissionPolicy" {
		return render.Kind{}
	}
	version, _, _ := unstructured.NestedString(o.Object, "spec", "paramKind", "apiVersion")
	kind, _, _ := unstructured.NestedString(o.Object, "spec", "paramKind", "kind")
	return render.KindOf(schema.FromAPIVersionAndKind(version, kind).GroupKind())
}

// allowGrant allows to grant permissions that the credential does not have. A credential with all granted permissions would not
// be weaker, and could still not write a ClusterRole that aggregates other ClusterRoles.
func (p permissions) allowGrant(o *render.Object) {
	at, r := o.GetNamespace(), o.Resource.GroupResource()
	switch o.GetKind() {
	case "ClusterRole", "Role":
		p.allowNamed(at, r, o.GetName(), "escalate")
	case "ClusterRoleBinding", "RoleBinding":
		kind, _, _ := unstructured.NestedString(o.Object, "roleRef", "kind")
		name, _, _ := unstructured.NestedString(o.Object, "roleRef", "name")
		role := schema.GroupResource{Group: rbacv1.GroupName, Resource: "clusterroles"}
		if kind == "Role" {
			role.Resource = "roles"
		}
		p.allowNamed(at, role, name, "bind")
	}
}

// allowRemove allows to delete an object. The install namespace stays, because the Role for the namespace needs the namespace
// before the installation.
func (p permissions) allowRemove(o *render.Object, n *Need, installed string) {
	at, r, name := o.GetNamespace(), o.Resource.GroupResource(), o.GetName()
	if render.KindOf(o.GroupVersionKind().GroupKind()).Stage == render.StageFoundation && !n.Foundation || r == namespaceResource() && name == installed {
		return
	}
	p.allowNamed(at, r, name, "get", "delete")
	if o.GetKind() != "CustomResourceDefinition" {
		return
	}
	users := schema.GroupResource{}
	users.Group, _, _ = unstructured.NestedString(o.Object, "spec", "group")
	users.Resource, _, _ = unstructured.NestedString(o.Object, "spec", "names", "plural")
	p.allowAll("", users, "list")
	if n.UserResources {
		p.allowAll("", users, "delete")
	}
}

// allowAll allows verbs on all objects of a resource.
func (p permissions) allowAll(namespace string, r schema.GroupResource, verbs ...string) {
	for _, verb := range verbs {
		p[permission{namespace, r, verb}] = nil
	}
}

// allowNamed allows verbs on one object of a resource.
func (p permissions) allowNamed(namespace string, r schema.GroupResource, name string, verbs ...string) {
	for _, verb := range verbs {
		at := permission{namespace, r, verb}
		names, have := p[at]
		switch {
		case have && names == nil: // every object is allowed
		case have:
			names[name] = true
		default:
			p[at] = map[string]bool{name: true}
		}
	}
}

// removeRedundant removes permissions that a permission for the whole cluster includes, and the permissions to write a namespace
// that has to exist for its Role: an existing namespace never changes.
func (p permissions) removeRedundant() {
	for _, verb := range []string{"create", "patch"} {
		writing := permission{"", namespaceResource(), verb}
		for _, namespace := range p.listNamespaces() {
			delete(p[writing], namespace)
		}
		if len(p[writing]) == 0 {
			delete(p, writing)
		}
	}
	maps.DeleteFunc(p, func(at permission, _ map[string]bool) bool {
		names, have := p[permission{"", at.GroupResource, at.verb}]
		return at.namespace != "" && have && names == nil
	})
}

func namespaceResource() schema.GroupResource { return schema.GroupResource{Resource: "namespaces"} }

// listNamespaces returns the namespaces with permissions, sorted.
func (p permissions) listNamespaces() []string {
	found := map[string]bool{}
	for at := range p {
		if at.namespace != "" {
			found[at.namespace] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}
