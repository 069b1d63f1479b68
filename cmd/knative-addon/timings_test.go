// Copyright Contributors to the Open Cluster Management project

package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"

	"open-cluster-management.io/knative-addon/pkg/controllers/rendering"
)

const root = "../.."

// TestTimings compares docs/timings.md with the durations in the code: every row has the value of the code, and every named
// duration of the code has a row.
func TestTimings(t *testing.T) {
	code := map[string]time.Duration{}
	for _, dir := range []string{"cmd", "pkg"} {
		maps.Copy(code, namedDurations(t, dir))
	}
	documented := map[string]bool{}
	for _, row := range timingRows(t) {
		if len(row) != 3 {
			continue // of flags, or of others
		}
		names, packages := namesAndPackages(row[2])
		values := strings.Split(row[1], ", ")
		if len(names) != len(values) {
			t.Errorf("docs/timings.md names %q and has the values %q", names, values)
			continue
		}
		for i, name := range names {
			for _, pkg := range packages {
				at := pkg + " " + name
				documented[at] = true
				if got, known := code[at]; !known {
					t.Errorf("docs/timings.md names %s, which the code lacks", at)
				} else if want := parseTiming(t, values[i]); got != want {
					t.Errorf("%s is %s, docs/timings.md says %s", at, got, want)
				}
			}
		}
	}
	for _, at := range slices.Sorted(maps.Keys(code)) {
		if !documented[at] {
			t.Errorf("docs/timings.md lacks %s, which is %s", at, code[at])
		}
	}
}

// TestTimingFlags compares the flags in docs/timings.md with the commands.
func TestTimingFlags(t *testing.T) {
	commands := map[string]*cobra.Command{
		"manager": newManagerCommand(), "local-installs": newLocalInstallsCommand(), "register": newRegisterCommand(),
		"install-check": newInstallCheckCommand(), "wait": newWaitCommand(), "images": newImagesCommand(),
	}
	name := regexp.MustCompile("^`--([a-z-]+)`(?: of `([a-z-]+)`)?$")
	var rows int
	for _, row := range timingRows(t) {
		m := name.FindStringSubmatch(row[0])
		if m == nil {
			continue
		}
		rows++
		if m[2] == "" {
			m[2] = "manager"
		}
		flag := commands[m[2]].Flags().Lookup(m[1])
		if flag == nil || flag.DefValue != row[1] {
			t.Errorf("docs/timings.md has %s with default %q, the command has %+v", row[0], row[1], flag)
		}
	}
	if rows == 0 {
		t.Error("docs/timings.md has no flag")
	}
}

// TestChartRenderingRollout holds that the chart and the flag have the same default.
func TestChartRenderingRollout(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(root, "charts", "knative-addon", "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var values struct {
		Rendering struct {
			RolloutStrategy clusterv1alpha1.RolloutStrategy `json:"rolloutStrategy"`
		} `json:"rendering"`
	}
	if err := yaml.Unmarshal(data, &values); err != nil {
		t.Fatal(err)
	}
	want, err := rendering.ParseStrategy(defaultRenderingRollout)
	if err != nil {
		t.Fatal(err)
	}
	got := values.Rendering.RolloutStrategy
	got.All = nil // the type does not select the field
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the chart's strategy (-flag +chart):\n%s", diff)
	}
}

// timingRows returns the cells of all rows of docs/timings.md, without heads.
func timingRows(t *testing.T) [][]string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, "docs", "timings.md"))
	if err != nil {
		t.Fatal(err)
	}
	var out [][]string
	lines := strings.Split(string(content), "\n")
	for i, line := range lines {
		isHead := i+1 < len(lines) && strings.HasPrefix(lines[i+1], "|---")
		if !strings.HasPrefix(line, "| ") || isHead {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for j := range cells {
			cells[j] = strings.TrimSpace(cells[j])
		}
		out = append(out, cells)
	}
	return out
}

// namesAndPackages returns the quoted words of a cell: names of durations, and the packages that have them.
func namesAndPackages(cell string) (names, packages []string) {
	for _, quoted := range regexp.MustCompile("`[^`]+`").FindAllString(cell, -1) {
		if word := strings.Trim(quoted, "`"); strings.Contains(word, "/") {
			packages = append(packages, word)
		} else {
			names = append(names, word)
		}
	}
	return names, packages
}

// parseTiming reads a duration as the document writes it, such as "10 min".
func parseTiming(t *testing.T, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(strings.ReplaceAll(strings.Replace(text, "min", "m", 1), " ", ""))
	if err != nil {
		t.Errorf("docs/timings.md: %v", err)
	}
	return d
}

// namedDurations returns the durations below a directory that the code gives a name, by package and name: constants, variables,
// fields, and defaults of fields.
func namedDurations(t *testing.T, dir string) map[string]time.Duration {
	t.Helper()
	out := map[string]time.Duration{}
	err := filepath.WalkDir(filepath.Join(root, dir), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		pkg, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			for name, value := range durationsOf(n) {
				out[filepath.ToSlash(pkg)+" "+name] = value
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// durationsOf returns the durations that a node gives a name.
func durationsOf(n ast.Node) map[string]time.Duration {
	var names, values []ast.Expr
	switch n := n.(type) {
	case *ast.ValueSpec:
		for _, name := range n.Names {
			names = append(names, name)
		}
		values = n.Values
	case *ast.AssignStmt:
		names, values = n.Lhs, n.Rhs
	case *ast.KeyValueExpr:
		names, values = []ast.Expr{n.Key}, []ast.Expr{n.Value}
	case *ast.CallExpr: // orDuration(&o.Cluster.DialTimeout, 5*time.Second)
		if len(n.Args) == 2 {
			names, values = n.Args[:1], n.Args[1:]
		}
	}
	out := map[string]time.Duration{}
	for i := range min(len(names), len(values)) {
		if value, isDuration := evaluateDuration(values[i]); isDuration {
			if name := nameOf(names[i]); name != "" {
				out[name] = value
			}
		}
	}
	return out
}

// nameOf returns an identifier, or the fields of a selector without the variable that has them.
func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.UnaryExpr:
		return nameOf(e.X)
	case *ast.SelectorExpr:
		if inner, isSelector := e.X.(*ast.SelectorExpr); isSelector {
			return nameOf(inner) + "." + e.Sel.Name
		}
		return e.Sel.Name
	}
	return ""
}

// evaluateDuration returns the value of a unit of package time, or of a number of them.
func evaluateDuration(e ast.Expr) (time.Duration, bool) {
	units := map[string]time.Duration{
		"Nanosecond": time.Nanosecond, "Microsecond": time.Microsecond, "Millisecond": time.Millisecond, "Second": time.Second,
		"Minute": time.Minute, "Hour": time.Hour,
	}
	switch e := e.(type) {
	case *ast.SelectorExpr:
		unit, known := units[e.Sel.Name]
		x, isIdent := e.X.(*ast.Ident)
		return unit, known && isIdent && x.Name == "time"
	case *ast.BinaryExpr:
		number, isNumber := e.X.(*ast.BasicLit)
		unit, isDuration := evaluateDuration(e.Y)
		if !isNumber || !isDuration || e.Op != token.MUL {
			return 0, false
		}
		n, err := strconv.Atoi(number.Value)
		return time.Duration(n) * unit, err == nil
	}
	return 0, false
}
