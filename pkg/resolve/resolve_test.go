// Copyright Contributors to the Open Cluster Management project

package resolve

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"open-cluster-management.io/knative-addon/pkg/trust"
)

// change is a step away from an Input that resolves.
type change func(*Input)

// testCase is a row of the table: what is changed in pulled or pushed, and where the reference leads then.
type testCase struct {
	reason  string
	base    func() Input
	changes []change
	// want has the target and the reason; the message must mention all of these.
	want     Result
	mentions []string
}

func TestResolve(t *testing.T) {
	for name, tc := range testCases() {
		t.Run(name, func(t *testing.T) {
			in := input(tc.base, tc.changes...)
			got := Resolve(in)
			message := got.Message
			got.Message = ""
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\nResolve: -want, +got, message %q:\n%s", tc.reason, message, diff)
			}
			if (message == "") != got.Resolved() {
				t.Errorf("%s\nResolve: reason %q has message %q", tc.reason, got.Reason, message)
			}
			for _, m := range tc.mentions {
				if !strings.Contains(message, m) {
					t.Errorf("%s\nResolve: message %q does not mention %q", tc.reason, message, m)
				}
			}
			if diff := cmp.Diff(input(tc.base, tc.changes...), in, cmp.Comparer(func(a, b error) bool { return fmt.Sprint(a) == fmt.Sprint(b) }),
				cmp.Comparer(func(a, b trust.Inventories) bool { return reflect.DeepEqual(a, b) })); diff != "" {
				t.Errorf("Resolve changed its input: -before, +after:\n%s", diff)
			}
		})
	}
}

// TestMessages holds what every message promises: it names the profile or the cluster, says what to do, has one line of
// bounded length, repeats no foreign text, and does not depend on the order of what was gathered.
func TestMessages(t *testing.T) {
	for name, tc := range testCases() {
		if tc.want.Reason == "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			in := input(tc.base, tc.changes...)
			got := Resolve(in)
			for promise, broken := range map[string]bool{
				"names the profile or the cluster": !strings.Contains(got.Message, in.Reference.String()) &&
					!strings.Contains(got.Message, `ManagedCluster "`+in.Reference.Name+`"`),
				"says what to do":         !strings.ContainsAny(got.Message, ";:"),
				"has one line":            strings.ContainsAny(got.Message, "\n\r\x00"),
				"has a bounded length":    len(got.Message) > 4096,
				"repeats no foreign text": strings.Contains(got.Message, "canary") || strings.Contains(got.Message, "12:00"),
			} {
				if broken {
					t.Errorf("not true that the message %s: %q", promise, got.Message)
				}
			}
			reverse(&in)
			if diff := cmp.Diff(got, Resolve(in)); diff != "" {
				t.Errorf("Resolve depends on order: -want, +got:\n%s", diff)
			}
		})
	}
}

// reverse turns around every list whose order means nothing.
func reverse(in *Input) {
	slices.Reverse(in.Bindings)
	slices.Reverse(in.Sets)
	if in.Profile != nil {
		slices.Reverse(in.Profile.Status.AccessProviders)
		slices.Reverse(in.Profile.Status.Conditions)
	}
	if in.Cluster != nil {
		slices.Reverse(in.Cluster.Status.Conditions)
	}
}

func testCases() map[string]testCase {
	cases := map[string]testCase{}
	for _, group := range []map[string]testCase{resolvedCases(), referenceCases(), forgedCases(), consentCases(), sightCases(), directCases(), inventoryCases()} {
		for name, tc := range group {
			if _, twice := cases[name]; twice {
				panic("two cases are named " + name)
			}
			cases[name] = tc
		}
	}
	return cases
}
