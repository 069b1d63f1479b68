// Copyright Contributors to the Open Cluster Management project

package render

import (
	gocmp "cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestOracle renders a matrix of CRs here and with the operator's functions and compares object by object, field by
// field. Every difference needs a rule that tells how the two values relate, and every rule needs a difference.
func TestOracle(t *testing.T) {
	cases := oracleCases(t)
	if len(cases) < 60 {
		t.Errorf("the matrix has %d cases, want at least 60", len(cases))
	}
	var mu sync.Mutex
	used := map[string]int{}
	t.Run("matrix", func(t *testing.T) {
		for name, c := range cases {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				theirs, ours := renderBoth(t, c)
				counts := explain(t, theirs, ours)
				mu.Lock()
				defer mu.Unlock()
				for rule, n := range counts {
					used[rule] += n
				}
			})
		}
	})
	documented := documentedRules(t)
	for _, r := range oracleRules() {
		if r.elsewhere == "" && used[r.name] == 0 {
			t.Errorf("no case of the matrix needs rule %q", r.name)
		}
		if r.elsewhere != "" && !testExists(t, r.elsewhere) {
			t.Errorf("rule %q is shown by %s, which does not exist", r.name, r.elsewhere)
		}
		if !slices.Contains(documented, r.name) {
			t.Errorf("docs/rendering.md does not list rule %q", r.name)
		}
	}
	for _, name := range documented {
		if !slices.ContainsFunc(oracleRules(), func(r oracleRule) bool { return r.name == name }) {
			t.Errorf("docs/rendering.md lists rule %q, which does not exist", name)
		}
	}
	t.Logf("%d cases; differences by rule: %v", len(cases), used)
}

// testExists tells whether this package has a test of that name.
func testExists(t *testing.T, name string) bool {
	t.Helper()
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(file string) bool {
		data, err := os.ReadFile(file)
		return err == nil && strings.Contains(string(data), "func "+name+"(t *testing.T)")
	})
}

// documentedRules are the names in the table of rules.
func documentedRules(t *testing.T) []string {
	t.Helper()
	data, err := os.ReadFile("../../docs/rendering.md")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	_, table, _ := strings.Cut(string(data), "<!-- rules -->")
	table, _, _ = strings.Cut(table, "<!-- /rules -->")
	for line := range strings.Lines(table) {
		if _, rest, found := strings.Cut(line, "| `"); found && strings.HasPrefix(line, "| `") {
			name, _, _ := strings.Cut(rest, "`")
			names = append(names, name)
		}
	}
	return names
}

// renderBoth is what the operator applies, in its order, and our bundle.
func renderBoth(t *testing.T, c oracleCase) ([]unstructured.Unstructured, *Bundle) {
	t.Helper()
	namespace := gocmp.Or(c.namespace, c.component.InstallNamespace())
	u := resource(t, c.component, c.spec)
	theirs := operatorObjects(t, shared.catalog.dir, typed(t, u, namespace))
	ours, err := shared.Render(context.Background(), installIn(t, namespace, c.component, c.spec), c.options)
	if err != nil {
		t.Fatalf("cannot render: %v", err)
	}
	return theirs, ours
}

// comparison is one object of the operator, as it is after everything was applied, beside ours.
type comparison struct {
	theirs, ours map[string]any
	// all are the operator's objects of that identity, in order of application.
	all []map[string]any
	// namespace is the install namespace, usual the component's own.
	namespace, usual string
	// scaled are the names that something on the spoke scales.
	scaled map[string]bool
}

func (c *comparison) kind() string { return stringOf(c.theirs["kind"]) }

func (c *comparison) name() string {
	m, _ := c.theirs["metadata"].(map[string]any)
	return stringOf(m["name"])
}

// addedRule returns the rule by which the bundle has an object that the operator does not have.
func addedRule(t *testing.T, o Object) string {
	t.Helper()
	switch {
	case o.GetKind() == "ClusterClaim":
		return "claim-added"
	case strings.HasPrefix(o.GetName(), startPolicyPrefix):
		return "start-policy-added"
	}
	t.Errorf("%s is in the bundle and the operator does not have it", o.ID())
	return ""
}

// explain compares and counts the differences by rule.
func explain(t *testing.T, theirs []unstructured.Unstructured, ours *Bundle) map[string]int {
	t.Helper()
	used := map[string]int{}
	byID := map[ObjectID][]map[string]any{}
	scaled := map[string]bool{"pingsource-mt-adapter": true, "kafka-source-dispatcher": true}
	for _, u := range theirs {
		byID[objectIDOf(&u)] = append(byID[objectIDOf(&u)], u.Object)
		if target, _, _ := unstructured.NestedString(u.Object, "spec", "scaleTargetRef", "name"); target != "" {
			scaled[target] = true
		}
	}
	seen := map[ObjectID]bool{}
	for _, o := range ours.Objects() {
		if seen[o.ID()] {
			t.Errorf("%s is in the bundle twice", o.ID())
		}
		seen[o.ID()] = true
		all := byID[o.ID()]
		if len(all) == 0 {
			used[addedRule(t, o)]++
			continue
		}
		if len(all) > 1 {
			used["deduplicated"]++
		}
		c := &comparison{
			all: all, namespace: ours.Namespace, usual: ours.Component.InstallNamespace(), scaled: scaled,
		}
		for rule, n := range compare(t, c, all[len(all)-1], o) {
			used[rule] += n
		}
	}
	for id := range byID {
		if !seen[id] {
			t.Errorf("%s is missing in the bundle", id)
		}
	}
	return used
}

// compared are the CRDs that were compared before, which are the same in every bundle of a version.
var compared sync.Map // of [sha256.Size]byte to map[string]int

// compare counts the differences of one object by rule.
func compare(t *testing.T, c *comparison, theirs map[string]any, ours Object) map[string]int {
	t.Helper()
	data, err := json.Marshal(theirs)
	if err != nil {
		t.Fatal(err)
	}
	pair := sha256.Sum256(slices.Concat(data, []byte{'\n'}, ours.JSON))
	if known, found := compared.Load(pair); found && isCRD(ours.Unstructured) {
		return known.(map[string]int)
	}
	used := map[string]int{}
	c.theirs, c.ours = normal(t, theirs), normal(t, ours.Object)
	for _, d := range differences(nil, c.theirs, c.ours) {
		used[explainOne(t, c, d)]++
	}
	if !t.Failed() {
		compared.Store(pair, used)
	}
	return used
}

func explainOne(t *testing.T, c *comparison, d difference) string {
	t.Helper()
	for _, r := range oracleRules() {
		if r.explains != nil && r.explains(c, d) {
			return r.name
		}
	}
	t.Errorf("%s %q differs at %s, no rule says why:\n%s", c.kind(), c.name(), d.path, cmp.Diff(d.theirs, d.ours))
	return ""
}

// normal is an object as JSON has it: numbers are numbers, whatever their Go type.
func normal(t *testing.T, object map[string]any) map[string]any {
	t.Helper()
	data, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// difference is a place where two objects differ. An absent value is nil.
type difference struct {
	path         location
	theirs, ours any
}

// location leads to a value; indexes are in brackets.
type location []string

// String joins the path by dots.
func (p location) String() string { return strings.Join(p, ".") }

// ends tells whether the path ends in the given elements.
func (p location) ends(elements ...string) bool {
	return len(p) >= len(elements) && slices.Equal(p[len(p)-len(elements):], elements)
}

// differences are the smallest values that differ; lists of different lengths differ as a whole.
func differences(at location, theirs, ours any) []difference {
	switch x := theirs.(type) {
	case map[string]any:
		y, ok := ours.(map[string]any)
		if !ok {
			break
		}
		var out []difference
		for key := range x {
			out = append(out, differences(append(slices.Clone(at), key), x[key], y[key])...)
		}
		for key := range y {
			if _, found := x[key]; !found {
				out = append(out, difference{append(slices.Clone(at), key), nil, y[key]})
			}
		}
		return out
	case []any:
		y, ok := ours.([]any)
		if !ok || len(x) != len(y) {
			break
		}
		var out []difference
		for n := range x {
			out = append(out, differences(append(slices.Clone(at), fmt.Sprintf("[%d]", n)), x[n], y[n])...)
		}
		return out
	}
	if reflect.DeepEqual(theirs, ours) {
		return nil
	}
	return []difference{{at, theirs, ours}}
}
