// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
)

// pollCluster has a manager that watches no cluster install, repair, notice what is denied, and become unreachable.
func (l directCluster) pollCluster(t *testing.T) {
	if err := l.Stop(harness.Manager); err != nil {
		t.Fatal(err)
	}
	if err := l.RunManager(t.Context(), harness.Manager+"-polling", "--watched-clusters=0", "--remote-deployments-poll-interval=2s"); err != nil {
		t.Fatal(err)
	}
	l.installDirectly(t, l.Name, api.Serving, kourier())
	l.repairDeployment(t, l.Name, l.Cluster)
	l.denyWatches(t)
	l.loses(t)
}

// denyWatches takes the permission to list away from the account.
func (l directCluster) denyWatches(t *testing.T) {
	t.Helper()
	const blind = "all-but-list"
	_, err := l.kube.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: blind}, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{"*"}, Resources: []string{"*"},
			Verbs: []string{"get", "watch", "create", "update", "patch", "delete", "bind", "escalate"},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	l.replaceRole(t, blind)
	eventually(t, "it is told what is denied", time.Minute, func(ctx context.Context) error {
		s, err := l.read(ctx, api.Serving, l.Name)
		if err != nil {
			return err
		}
		c := s.conditions[api.InstallSucceeded]
		if c.Reason != api.ReasonApplyFailed || !strings.Contains(c.Message, "cannot list") || !strings.Contains(c.Message, account) {
			return fmt.Errorf("%s: %s", c.Reason, c.Message)
		}
		if got := s.conditions[api.TargetClusterResolved]; got.Status != metav1.ConditionTrue {
			return fmt.Errorf("a cluster that answers is said to be %v", got)
		}
		return nil
	})
	l.replaceRole(t, "cluster-admin")
	l.ready(t, api.Serving, l.Name)
}

// replaceRole gives the account another role.
func (l directCluster) replaceRole(t *testing.T, role string) {
	t.Helper()
	if err := l.kube.RbacV1().ClusterRoleBindings().Delete(t.Context(), account, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	l.may(t, role)
}

// loses stops the cluster, and starts it again.
func (l directCluster) loses(t *testing.T) {
	t.Helper()
	server := l.Name + "-apiserver"
	if err := l.Stop(server); err != nil {
		t.Fatal(err)
	}
	l.becomes(t, api.Serving, l.Name, conditionState{api.TargetClusterResolved, metav1.ConditionFalse, api.ReasonRemoteClusterStale})
	if err := l.Start(server); err != nil {
		t.Fatal(err)
	}
	l.ready(t, api.Serving, l.Name)
}
