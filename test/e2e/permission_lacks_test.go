// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"open-cluster-management.io/knative-addon/pkg/delivery/direct"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// removeEachPermission takes each permission away, makes a pass need it, and gives it back.
func (c *credential) removeEachPermission(t *testing.T, grant []permission) {
	c.requests.pretendOldServer(true)
	cluster, b := c.connect(t), c.bundle(t, "1.23")
	for _, p := range grant {
		t.Run(p.String(), func(t *testing.T) {
			c.awaitInstalled(t, c.installation(cluster), b)
			c.requests.takeRefusals()
			giveBack := c.withdrawPermission(t, p)
			defer giveBack()
			c.requirePermission(t, p, b)
			if p.verb == "watch" {
				c.checkWatchRefused(t, p, b)
				return
			}
			eventually(t, "it is refused", 30*time.Second, func(ctx context.Context) error {
				at := cluster
				if p.verb == "list" {
					at = c.connect(t)
				}
				err := outcomeError(c.installation(at).Sync(ctx, bundleWithout(p, b), direct.SyncOptions{}))
				if !slices.ContainsFunc(refusalTexts(p), func(text string) bool { return strings.Contains(fmt.Sprint(err), text) }) {
					return fmt.Errorf("the pass says: %s", fmt.Sprint(err))
				}
				return nil
			})
		})
	}
}

// checkWatchRefused holds that a watch is refused. That does not stop a pass: changes are seen when everything is listed again.
func (c *credential) checkWatchRefused(t *testing.T, p permission, b *render.Bundle) {
	t.Helper()
	i := c.installation(c.connect(t))
	eventually(t, "a watch is refused", 30*time.Second, func(ctx context.Context) error {
		if _, err := i.Sync(ctx, b, direct.SyncOptions{}); err != nil {
			return err
		}
		for _, a := range c.requests.takeRefusals() {
			if a.verb == p.verb && a.group == p.group && a.resource == p.resource && a.namespace == p.namespace {
				return nil
			}
		}
		return errors.New("it was not asked for")
	})
}

// refusalTexts is what an API server says when a permission is missing.
func refusalTexts(p permission) []string {
	if p.verb == "escalate" || p.verb == "bind" {
		return []string{"is attempting to grant RBAC permissions not currently held", "must have cluster-admin privileges to use the aggregationRule"}
	}
	return []string{fmt.Sprintf("cannot %s resource %q", p.verb, p.resource)}
}

// withdrawPermission takes a permission away until the function that it returns is called.
func (c *credential) withdrawPermission(t *testing.T, p permission) (giveBack func()) {
	t.Helper()
	before := c.rules(t, p.namespace, func(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule { return without(rules, p) })
	c.awaitAllowed(t, p, false)
	return func() {
		c.rules(t, p.namespace, func([]rbacv1.PolicyRule) []rbacv1.PolicyRule { return before })
		c.awaitAllowed(t, p, true)
	}
}

// rules changes the rules of the Role in a namespace, or of the ClusterRole, and returns what they were.
func (c *credential) rules(t *testing.T, namespace string, change func([]rbacv1.PolicyRule) []rbacv1.PolicyRule) (before []rbacv1.PolicyRule) {
	t.Helper()
	if namespace == "" {
		roles := c.kube.RbacV1().ClusterRoles()
		role, err := roles.Get(t.Context(), credentialName, metav1.GetOptions{})
		if err == nil {
			before, role.Rules = role.Rules, change(role.Rules)
			_, err = roles.Update(t.Context(), role, metav1.UpdateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
		return before
	}
	roles := c.kube.RbacV1().Roles(namespace)
	role, err := roles.Get(t.Context(), credentialName, metav1.GetOptions{})
	if err == nil {
		before, role.Rules = role.Rules, change(role.Rules)
		_, err = roles.Update(t.Context(), role, metav1.UpdateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	return before
}

// awaitAllowed waits until the API server follows a change of the roles.
func (c *credential) awaitAllowed(t *testing.T, p permission, allowed bool) {
	t.Helper()
	eventually(t, "the change of the roles is followed", 30*time.Second, func(ctx context.Context) error {
		review, err := c.kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{User: credentialUser, ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: p.namespace, Verb: p.verb, Group: p.group, Resource: p.resource, Name: first(p.names),
			}},
		}, metav1.CreateOptions{})
		if err == nil && review.Status.Allowed != allowed {
			err = fmt.Errorf("allowed is %t: %s", review.Status.Allowed, review.Status.Reason)
		}
		return err
	})
}

// bundleWithout is the bundle, less what the credential has to delete because of that.
func bundleWithout(p permission, b *render.Bundle) *render.Bundle {
	if p.resource == "namespaces" || p.verb != "get" && p.verb != "delete" {
		return b
	}
	less := *b
	less.Payload = slices.DeleteFunc(slices.Clone(b.Payload), func(o render.Object) bool { return of(p, o) })
	return &less
}

func of(p permission, o render.Object) bool {
	return o.Resource.Group == p.group && o.Resource.Resource == p.resource && o.GetNamespace() == p.namespace
}

// requirePermission makes the next pass need a permission.
func (c *credential) requirePermission(t *testing.T, p permission, b *render.Bundle) {
	t.Helper()
	existing := slices.Contains([]string{"namespaces", "configmaps", "secrets", "jobs"}, p.resource)
	firstLook := p.verb == "get" && (p.resource == "namespaces" || p.resource == "customresourcedefinitions")
	switch {
	case p.verb == "watch", p.verb == "delete", p.verb == "get" && !firstLook:
	case p.verb == "list", existing, firstLook:
		c.deleteAnchor(t)
		if p.verb == "create" && p.resource == "jobs" {
			c.deleteSome(t, p, b)
		}
	default:
		c.deleteSome(t, p, b)
	}
}

// deleteSome deletes an object that a permission is for, all if it names none or, where it is to bind a role, its bindings.
func (c *credential) deleteSome(t *testing.T, p permission, b *render.Bundle) {
	t.Helper()
	deleted := 0
	for _, o := range b.Objects() {
		role, bound, _ := unstructured.NestedString(o.Object, "roleRef", "name")
		binding := bound && p.verb == "bind" && o.GetNamespace() == p.namespace && role == first(p.names)
		if !binding && (p.verb == "bind" || !of(p, o) || len(p.names) > 0 && o.GetName() != p.names[0]) {
			continue
		}
		deleted++
		background := metav1.DeletePropagationBackground
		err := c.dynamic.Resource(o.Resource).Namespace(o.GetNamespace()).Delete(t.Context(), o.GetName(), metav1.DeleteOptions{PropagationPolicy: &background})
		if err != nil && !apierrors.IsNotFound(err) { // a Job that has run may be gone
			t.Fatal(err)
		}
	}
	if deleted == 0 {
		t.Fatal("there is nothing to delete")
	}
}
