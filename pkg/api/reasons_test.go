// Copyright Contributors to the Open Cluster Management project

package api

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// allConditions are those of both kinds of object.
func allConditions() []string {
	return slices.Concat(ConditionTypes(), OptionalConditionTypes(), AddOnConditionTypes())
}

// TestReasonsAreListed holds that Reasons lists every constant of this package that is a reason, each once per condition.
func TestReasonsAreListed(t *testing.T) {
	var listed []string
	for condition, reasons := range Reasons() {
		if !slices.Contains(allConditions(), condition) {
			t.Errorf("neither ConditionTypes nor AddOnConditionTypes lists %q, which has reasons", condition)
		}
		if sorted := slices.Sorted(slices.Values(reasons)); len(slices.Compact(sorted)) != len(reasons) {
			t.Errorf("%s has a reason twice: %v", condition, reasons)
		}
		listed = append(listed, reasons...)
	}
	slices.Sort(listed)
	if diff := cmp.Diff(constants(t, "Reason"), slices.Compact(listed)); diff != "" {
		t.Errorf("Reasons: -constants, +listed:\n%s", diff)
	}
}

// TestConditionsAreDocumented holds docs/conditions.md against the constants, in both directions.
func TestConditionsAreDocumented(t *testing.T) {
	var conditions []string
	for _, row := range documented(t, "conditions", 2) {
		conditions = append(conditions, row[0])
	}
	if diff := cmp.Diff(allConditions(), conditions); diff != "" {
		t.Errorf("docs/conditions.md, conditions: -constants, +documented:\n%s", diff)
	}

	reasons := map[string][]string{}
	for _, row := range documented(t, "reasons", 5) {
		condition, reason, status := row[0], row[1], row[2]
		reasons[condition] = append(reasons[condition], reason)
		if status != "True" && status != "False" && status != "Unknown" {
			t.Errorf("docs/conditions.md gives %s/%s status %q", condition, reason, status)
		}
	}
	if diff := cmp.Diff(Reasons(), reasons); diff != "" {
		t.Errorf("docs/conditions.md, reasons, in order: -constants, +documented:\n%s", diff)
	}
}

// documented are the rows of a table of docs/conditions.md, without the quotes of the first two cells.
func documented(t *testing.T, table string, cells int) [][]string {
	t.Helper()
	data, err := os.ReadFile("../../docs/conditions.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(data), "<!-- "+table+" -->\n")
	body, _, closed := strings.Cut(rest, "<!-- /"+table+" -->")
	if !found || !closed {
		t.Fatalf("docs/conditions.md has no table %q", table)
	}
	var rows [][]string
	for line := range strings.Lines(body) {
		if !strings.HasPrefix(line, "| `") { // the header
			continue
		}
		row := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range row {
			row[i] = strings.TrimSpace(row[i])
			if row[i] == "" {
				t.Errorf("docs/conditions.md has an empty cell in %q", line)
			}
		}
		if len(row) != cells {
			t.Fatalf("docs/conditions.md has %d cells instead of %d in %q", len(row), cells, line)
		}
		row[0], row[1] = strings.Trim(row[0], "`"), strings.Trim(row[1], "`")
		rows = append(rows, row)
	}
	return rows
}

// constants are the values of this package's constants whose names start with prefix, sorted.
func constants(t *testing.T, prefix string) []string {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || !strings.HasPrefix(spec.Names[0].Name, prefix) {
				return true
			}
			for _, value := range spec.Values {
				text, err := strconv.Unquote(value.(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				out = append(out, text)
			}
			return true
		})
	}
	slices.Sort(out)
	return out
}
