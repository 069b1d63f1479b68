// Copyright Contributors to the Open Cluster Management project

package trust

import "testing"

func TestTrusts(t *testing.T) {
	for name, tc := range map[string]struct {
		policy    Policy
		namespace string
		want      bool
	}{
		"the zero policy trusts no namespace":             {namespace: "team"},
		"a listed namespace is trusted":                   {policy: Policy{Namespaces: []string{"platform"}}, namespace: "platform", want: true},
		"another namespace is not":                        {policy: Policy{Namespaces: []string{"platform"}}, namespace: "team"},
		"the wildcard trusts every namespace":             {policy: Policy{Namespaces: []string{AnyNamespace}}, namespace: "team", want: true},
		"a resource without a namespace is never trusted": {policy: Policy{Namespaces: []string{AnyNamespace, ""}}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.policy.Trusts(tc.namespace); got != tc.want {
				t.Errorf("Trusts(%q) = %t, want %t", tc.namespace, got, tc.want)
			}
		})
	}
}
