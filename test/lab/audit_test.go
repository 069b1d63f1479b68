// Copyright Contributors to the Open Cluster Management project

package lab

import (
	"slices"
	"strings"
	"testing"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/yaml"
)

// TestRecordedWriters holds that the API server of a spoke records the writes of every account with which a manager may write, and not the
// writes of the cluster's own programs.
func TestRecordedWriters(t *testing.T) {
	opts := &Options{RecordChanges: true}
	var policy auditv1.Policy
	if err := yaml.UnmarshalStrict([]byte(opts.auditPolicy(false)), &policy); err != nil {
		t.Fatal(err)
	}
	for account, want := range map[string]auditv1.Level{
		"kube-system:fleet-access":                      auditv1.LevelMetadata, // the Credential
		"knative-addon:knative-addon":                   auditv1.LevelMetadata, // of `knative-addon register`
		"default:fleet":                                 auditv1.LevelMetadata,
		"open-cluster-management-agent-addon:knative":   auditv1.LevelMetadata, // of managed-serviceaccount
		"open-cluster-management-agent:" + agentAccount: auditv1.LevelNone,
		"kube-system:deployment-controller":             auditv1.LevelNone,
		"knative-serving:controller":                    auditv1.LevelNone,
	} {
		if got := levelOf(&policy, account, "patch"); got != want {
			t.Errorf("the API server records a write of %s at level %s, want %s", account, got, want)
		}
		if got := levelOf(&policy, account, "get"); got != auditv1.LevelNone {
			t.Errorf("the API server records a read of %s at level %s", account, got)
		}
	}
}

// levelOf returns the level at which a policy records a request of a ServiceAccount for Deployments: the level of the first rule that matches.
func levelOf(policy *auditv1.Policy, account, verb string) auditv1.Level {
	namespace, _, _ := strings.Cut(account, ":")
	groups := []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"}
	for i := range policy.Rules {
		r := &policy.Rules[i]
		ofUser := len(r.Users)+len(r.UserGroups) == 0 || slices.Contains(r.Users, accountPrefix+account) ||
			slices.ContainsFunc(r.UserGroups, func(group string) bool { return slices.Contains(groups, group) })
		ofResource := len(r.Resources) == 0 || slices.ContainsFunc(r.Resources, func(k auditv1.GroupResources) bool { return k.Group == "apps" })
		if ofUser && ofResource && (len(r.Verbs) == 0 || slices.Contains(r.Verbs, verb)) {
			return r.Level
		}
	}
	return auditv1.LevelNone
}
