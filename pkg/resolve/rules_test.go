// Copyright Contributors to the Open Cluster Management project

package resolve

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// TestEveryReasonHasACase holds that each reason that the source of this package names is what some case of the table
// wants, and that nothing else is.
func TestEveryReasonHasACase(t *testing.T) {
	values := reasonConstants(t, "../api")
	wanted := map[string]bool{}
	for name, tc := range testCases() {
		if r := tc.want.Reason; r != "" {
			wanted[r] = true
			if !slices.Contains(api.Reasons()[api.TargetClusterResolved], r) {
				t.Errorf("case %q wants reason %q, which %s does not have", name, r, api.TargetClusterResolved)
			}
		}
	}
	named := reasonsNamed(t)
	if len(named) == 0 {
		t.Fatal("the source names no reason: the search for it is broken")
	}
	for _, constant := range named {
		if !wanted[values[constant]] {
			t.Errorf("no case wants api.%s (%q)", constant, values[constant])
		}
	}
}

// TestEveryRuleDecides holds that each rule is needed: some case ends otherwise without it. A rule that guards a later
// one may be needed so badly that the later one panics.
func TestEveryRuleDecides(t *testing.T) {
	outcome := func(identity, availability []rule, in Input) (result string) {
		defer func() {
			if p := recover(); p != nil {
				result = fmt.Sprint("panic: ", p)
			}
		}()
		no := firstObjection(identity, &in)
		if no == nil {
			no = firstObjection(availability, &in)
		}
		return fmt.Sprint(no)
	}
	without := func(rules []rule, i int) []rule { return slices.Delete(slices.Clone(rules), i, i+1) }
	identity, availability := identityRules(), availabilityRules()
	needed := func(reducedIdentity, reducedAvailability []rule) bool {
		for _, tc := range testCases() {
			if outcome(identity, availability, input(tc.base, tc.changes...)) != outcome(reducedIdentity, reducedAvailability, input(tc.base, tc.changes...)) {
				return true
			}
		}
		return false
	}
	for i := range identity {
		if !needed(without(identity, i), availability) {
			t.Errorf("no case needs rule %d of identity", i)
		}
	}
	for i := range availability {
		if !needed(identity, without(availability, i)) {
			t.Errorf("no case needs rule %d of availability", i)
		}
	}
}

// TestPrecedence applies two faults at a time: the one that is named first gives the reason.
func TestPrecedence(t *testing.T) {
	type fault struct {
		reason string
		change change
	}
	unreadable := func(in *Input) { in.ProfileError = apierrors.NewInternalError(fmt.Errorf("etcd")) }
	permission := fault{api.ReasonReferenceNotPermitted, fromElsewhere}
	for name, tc := range map[string]struct {
		reason string
		base   func() Input
		order  []fault
	}{
		"a profile of OCM that asks for Direct": {
			reason: "Permission, the profile, the mapping, consent, the cluster, then upstream's order.",
			base: func() Input {
				return input(pulled, asksFor(api.DeliveryDirect), offers("gke"), configured("gke"))
			},
			order: []fault{
				permission,
				{api.ReasonClusterProfileUnavailable, unreadable},
				{api.ReasonManagedClusterNotFound, labelled("c2")},
				{api.ReasonReferenceNotPermitted, bound(metav1.ConditionFalse)},
				{api.ReasonManagedClusterNotAccepted, func(in *Input) { in.Cluster.Spec.HubAcceptsClient = false }},
				{api.ReasonManagedClusterUnavailable, clusterSays(clusterv1.ManagedClusterConditionAvailable, metav1.ConditionUnknown)},
				{api.ReasonClusterProfileNotReady, profileSays(metav1.ConditionFalse)},
				{api.ReasonMulticlusterDisabled, func(in *Input) { in.Direct = DirectDelivery{} }},
				{api.ReasonAccessProviderNotConfigured, offers("eks")},
			},
		},
		"a profile of another manager": {
			reason: "Upstream's order: NotFound, NotReady, MulticlusterDisabled, then the access provider.",
			base:   pushed,
			order: []fault{
				permission,
				{api.ReasonClusterProfileNotFound, func(in *Input) { in.Reference.Name = "c2" }},
				{api.ReasonClusterProfileNotReady, profileSays(metav1.ConditionFalse)},
				{api.ReasonMulticlusterDisabled, func(in *Input) { in.Direct = DirectDelivery{} }},
				{api.ReasonAccessProviderNotConfigured, offers("eks")},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for i, first := range tc.order {
				for _, second := range append([]fault{{change: func(*Input) {}}}, tc.order[i:]...) {
					if got := Resolve(input(tc.base, second.change, first.change)); got.Reason != first.reason {
						t.Errorf("%s\n%s with %q: got %q: %s", tc.reason, first.reason, second.reason, got.Reason, got.Message)
					}
				}
			}
		})
	}
}

func TestReferencePolicy(t *testing.T) {
	policy := ReferencePolicy{
		Allowed: map[string][]string{"team": {"fleet"}, "admin": {AnyNamespace}, AnyNamespace: {"shared"}},
	}
	for name, tc := range map[string]struct {
		reason   string
		policy   ReferencePolicy
		from, to string
		want     bool
	}{
		"the own namespace":                  {"Always.", ReferencePolicy{}, "team", "team", true},
		"the add-on's namespace":             {"It is no exception: a set may be bound to it for Placements.", policy, "team", "addon", false},
		"from the add-on's namespace":        {"Being in the add-on's namespace opens no other.", policy, "addon", "team", false},
		"another namespace by default":       {"Nothing is allowed that is not listed.", ReferencePolicy{}, "team", "fleet", false},
		"a listed namespace":                 {"The administrator listed it.", policy, "team", "fleet", true},
		"a namespace listed for others":      {"It is listed for another namespace.", policy, "other", "fleet", false},
		"the other way around":               {"Allowing has a direction.", policy, "fleet", "team", false},
		"a namespace listed for all":         {"The administrator opened it.", policy, "other", "shared", true},
		"any namespace, for one":             {"The administrator trusts this namespace.", policy, "admin", "team", true},
		"any namespace, for another":         {"And no other one.", policy, "team", "admin", false},
		"no namespace":                       {"A reference without namespace is none.", policy, "admin", "", false},
		"no namespace on either side":        {"Two empty names are not the same namespace.", ReferencePolicy{}, "", "", false},
		"a namespace literally named by any": {"Only the policy has wildcards.", ReferencePolicy{}, AnyNamespace, "team", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.policy.Permits(tc.from, tc.to); got != tc.want {
				t.Errorf("%s\nPermits(%q, %q) = %v", tc.reason, tc.from, tc.to, got)
			}
		})
	}
}

// reasonsNamed are the constants of package api that the source of this package names and that are reasons.
func reasonsNamed(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, file := range sources(t, ".") {
		ast.Inspect(file, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if !ok || !strings.HasPrefix(s.Sel.Name, "Reason") {
				return true
			}
			if x, ok := s.X.(*ast.Ident); ok && x.Name == "api" {
				out = append(out, s.Sel.Name)
			}
			return true
		})
	}
	return slices.Compact(slices.Sorted(slices.Values(out)))
}

// reasonConstants are the values of the constants named Reason... of the package in dir.
func reasonConstants(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, file := range sources(t, dir) {
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, "Reason") {
				return true
			}
			if value, ok := spec.Values[0].(*ast.BasicLit); ok {
				out[spec.Names[0].Name], _ = strconv.Unquote(value.Value)
			}
			return true
		})
	}
	return out
}

// sources are the parsed files of the package in dir, without its tests.
func sources(t *testing.T, dir string) []*ast.File {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var out []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, file)
	}
	return out
}
