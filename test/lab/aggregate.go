// Copyright Contributors to the Open Cluster Management project

package lab

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	rbacinformers "k8s.io/client-go/informers/rbac/v1"
	"k8s.io/client-go/kubernetes"
	rbaclisters "k8s.io/client-go/listers/rbac/v1"
	"k8s.io/client-go/tools/cache"
)

// aggregate keeps the rules of ClusterRoles that aggregate others until the lab ends: the Knative Operator cannot read one
// that has none.
func (l *Lab) aggregate(c *Cluster, client kubernetes.Interface, roles rbacinformers.ClusterRoleInformer) error {
	informer, lister := roles.Informer(), roles.Lister()
	do := func(any) {
		if !informer.HasSynced() {
			return // a union of some of them would be written again and again
		}
		err := aggregated(l.ctx, client, lister)
		if err != nil && l.ctx.Err() == nil && !isUnreachable(err) {
			l.logf("%s: cannot aggregate: %v", c.Name, err)
		}
	}
	handler := cache.ResourceEventHandlerFuncs{AddFunc: do, UpdateFunc: func(_, o any) { do(o) }, DeleteFunc: do}
	if _, err := informer.AddEventHandler(handler); err != nil {
		return fmt.Errorf("cannot watch the ClusterRoles of %s: %w", c.Name, err)
	}
	return nil
}

// aggregated sets the rules of all ClusterRoles that aggregate others. A conflict means that there is an event to come.
func aggregated(ctx context.Context, client kubernetes.Interface, lister rbaclisters.ClusterRoleLister) error {
	all, err := lister.List(labels.Everything())
	if err != nil {
		return err
	}
	var errs []error
	for _, role := range all {
		if role.AggregationRule == nil {
			continue
		}
		rules, err := union(role, lister)
		if err == nil && !apiequality.Semantic.DeepEqual(rules, role.Rules) {
			role = role.DeepCopy()
			role.Rules = rules
			_, err = client.RbacV1().ClusterRoles().Update(ctx, role, metav1.UpdateOptions{})
		}
		if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// union are the rules of the ClusterRoles that a ClusterRole selects, in the order of their names.
func union(role *rbacv1.ClusterRole, lister rbaclisters.ClusterRoleLister) ([]rbacv1.PolicyRule, error) {
	found := map[string]*rbacv1.ClusterRole{}
	for _, s := range role.AggregationRule.ClusterRoleSelectors {
		selector, err := metav1.LabelSelectorAsSelector(&s)
		if err != nil {
			return nil, fmt.Errorf("ClusterRole %q: %w", role.Name, err)
		}
		selected, err := lister.List(selector)
		if err != nil {
			return nil, err
		}
		for _, r := range selected {
			found[r.Name] = r
		}
	}
	delete(found, role.Name)
	var rules []rbacv1.PolicyRule
	for _, name := range slices.Sorted(maps.Keys(found)) {
		rules = append(rules, found[name].Rules...)
	}
	return rules, nil
}
