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

// Need is an installation that a credential has to make, keep and remove.
type Need struct {
	// Anchor is the name of the installation's anchor.
	Anchor string
	// Bundles are what the cluster has or will have: one for each version that it goes through.
	Bundles []*render.Bundle
	// Foundation and UserResources are as in RemoveOptions.
	Foundation, UserResources bool
}

// permission is what may be done to the objects of a resource; the namespace is empty for the whole cluster.
type permission struct {
	namespace string
	schema.GroupResource
	verb string
}

// permissions hold the names of the objects that each permission is for, or nil where it is for every object.
type permissions map[permission]map[string]bool

// permissionsFor are the fewest permissions with which the installations can be made, kept and removed. A test takes away
// one after the other, and what is then refused must be of this package: who adds a request adds its permission here.
func permissionsFor(needs []Need) permissions {
	p := permissions{}
	p.named("", namespaceResource(), metav1.NamespaceSystem, "get") // it says which cluster this is
	p.every("", configMaps().GroupResource(), "list")               // for anchors of others
	for gvr := range sweptKinds() {
		p.every("", gvr.GroupResource(), "list")
	}
	for _, n := range needs {
		for _, b := range n.Bundles {
			p.claim(b, n.Anchor)
			for _, o := range b.Objects() {
				p.write(&o)
				p.remove(&o, &n, b.Namespace)
			}
		}
	}
	p.compact()
	return p
}

// claim is for the install namespace and the anchor.
func (p permissions) claim(b *render.Bundle, anchor string) {
	p.named("", namespaceResource(), b.Namespace, "get")
	p.every(b.Namespace, configMaps().GroupResource(), "create", "list", "watch")
	p.named(b.Namespace, configMaps().GroupResource(), anchor, "get", "update", "delete")
	for _, resource := range []string{"deployments", "statefulsets"} {
		p.every(b.Namespace, appsV1(resource).GroupResource(), "list")
	}
}

// write is for applying an object and seeing it.
func (p permissions) write(o *render.Object) {
	at, r, name := o.GetNamespace(), o.Resource.GroupResource(), o.GetName()
	p.every(at, r, "list", "watch")
	p.named(at, r, name, "patch")
	switch o.Class {
	case render.CreateOnly, render.OncePerVersion:
		p.every(at, r, "create") // the name is not known when that is decided
	default:
		p.named(at, r, name, "create") // an apply has the name in its path
	}
	if o.Class == render.OncePerVersion {
		p.named(at, r, name, "get")
	}
	if r.Group == rbacv1.GroupName {
		p.grant(o)
	}
}

// grant is for giving permissions that the credential does not have. To have them all would not be less: nobody else may
// write a ClusterRole that aggregates others.
func (p permissions) grant(o *render.Object) {
	at, r := o.GetNamespace(), o.Resource.GroupResource()
	switch o.GetKind() {
	case "ClusterRole", "Role":
		p.named(at, r, o.GetName(), "escalate")
	case "ClusterRoleBinding", "RoleBinding":
		kind, _, _ := unstructured.NestedString(o.Object, "roleRef", "kind")
		name, _, _ := unstructured.NestedString(o.Object, "roleRef", "name")
		role := schema.GroupResource{Group: rbacv1.GroupName, Resource: "clusterroles"}
		if kind == "Role" {
			role.Resource = "roles"
		}
		p.named(at, role, name, "bind")
	}
}

// remove is for deleting an object. The install namespace stays: the Role for it was there before.
func (p permissions) remove(o *render.Object, n *Need, installed string) {
	at, r, name := o.GetNamespace(), o.Resource.GroupResource(), o.GetName()
	if stageOf(o.GroupVersionKind().GroupKind()) == foundationStage && !n.Foundation || r == namespaceResource() && name == installed {
		return
	}
	p.named(at, r, name, "get", "delete")
	if o.GetKind() != "CustomResourceDefinition" {
		return
	}
	users := schema.GroupResource{}
	users.Group, _, _ = unstructured.NestedString(o.Object, "spec", "group")
	users.Resource, _, _ = unstructured.NestedString(o.Object, "spec", "names", "plural")
	p.every("", users, "list")
	if n.UserResources {
		p.every("", users, "delete")
	}
}

// every allows verbs on all objects of a resource.
func (p permissions) every(namespace string, r schema.GroupResource, verbs ...string) {
	for _, verb := range verbs {
		p[permission{namespace, r, verb}] = nil
	}
}

// named allows verbs on one object of a resource.
func (p permissions) named(namespace string, r schema.GroupResource, name string, verbs ...string) {
	for _, verb := range verbs {
		at := permission{namespace, r, verb}
		names, have := p[at]
		switch {
		case have && names == nil: // every one is allowed
		case have:
			names[name] = true
		default:
			p[at] = map[string]bool{name: true}
		}
	}
}

// compact takes away what nobody needs: what is allowed in the whole cluster too, and to make a namespace that has to be there
// for its Role.
func (p permissions) compact() {
	making := permission{"", namespaceResource(), "create"}
	for _, namespace := range p.namespaces() {
		delete(p[making], namespace)
	}
	if len(p[making]) == 0 {
		delete(p, making)
	}
	maps.DeleteFunc(p, func(at permission, _ map[string]bool) bool {
		names, have := p[permission{"", at.GroupResource, at.verb}]
		return at.namespace != "" && have && names == nil
	})
}

func namespaceResource() schema.GroupResource { return schema.GroupResource{Resource: "namespaces"} }

// namespaces are those in which something is allowed, sorted.
func (p permissions) namespaces() []string {
	found := map[string]bool{}
	for at := range p {
		if at.namespace != "" {
			found[at.namespace] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}
