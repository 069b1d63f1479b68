// Copyright Contributors to the Open Cluster Management project

package docs_test

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// maxPackageComment is the number of lines of a package comment.
const maxPackageComment = 12

var (
	quoted        = regexp.MustCompile("`([^`]+)`")
	fileName      = regexp.MustCompile(`^[\w-]+\.(go|md|yaml|json)$`)
	identifier    = regexp.MustCompile(`^[A-Za-z]+$`)
	goFile        = regexp.MustCompile(`\b[a-z]\w*\.go\b`)
	otherPackage  = regexp.MustCompile(`(\w+\s+)?\b[Pp]ackage\s+([a-z]\w*(?:/\w+)*)`)
	makeTarget    = regexp.MustCompile(`^make ([a-z-]+)`)
	testName      = regexp.MustCompile("`(Test[A-Z]\\w+)`")
	testFunction  = regexp.MustCompile(`(?m)^func (Test[A-Z]\w+)\(`)
	rootDirectory = ".."
)

// TestMap holds that every file, directory, function, test and target of make that the map of CONTRIBUTING.md names exists.
func TestMap(t *testing.T) {
	rows := tableAfter(t, "## Where to change what")
	for _, row := range rows {
		checkRow(t, row)
	}
	if len(rows) < 40 {
		t.Errorf("the map has %d rows, so that the test overlooks rows", len(rows))
	}
}

// TestLayout holds that the table of the floors names every package, and no other. Packages below pkg/api and pkg/render belong to the
// floors of these two.
func TestLayout(t *testing.T) {
	documented := map[string]bool{"pkg/controllers": true}
	for _, row := range tableAfter(t, "## Layout") {
		for _, m := range quoted.FindAllStringSubmatch(row[1], -1) {
			documented[strings.TrimSuffix(m[1], "/<name>")] = true
		}
	}
	for dir := range documented {
		if !exists(dir) {
			t.Errorf("the table of the layout names %s, which does not exist", dir)
		}
	}
	for dir := range packages(t) {
		if !documented[dir] && !documented[filepath.Dir(dir)] && !strings.HasPrefix(dir, "pkg/api/") && !strings.HasPrefix(dir, "pkg/render/") {
			t.Errorf("the table of the layout lacks %s", dir)
		}
	}
}

// TestPackageComments holds that every package has a short doc.go, and that the comment names existing files and packages.
func TestPackageComments(t *testing.T) {
	all := packages(t)
	for dir, main := range all {
		if main {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(rootDirectory, dir, "doc.go"), nil, parser.ParseComments|parser.PackageClauseOnly)
		if err != nil || file.Doc == nil {
			t.Errorf("%s has no doc.go with a package comment: %v", dir, err)
			continue
		}
		checkPackageComment(t, all, dir, file.Doc)
	}
}

func checkPackageComment(t *testing.T, all map[string]bool, dir string, comment *ast.CommentGroup) {
	t.Helper()
	if n := len(comment.List); n > maxPackageComment {
		t.Errorf("the comment in %s/doc.go has %d lines, %d is the limit", dir, n, maxPackageComment)
	}
	text := comment.Text()
	for _, file := range goFile.FindAllString(text, -1) {
		if !exists(filepath.Join(dir, file)) {
			t.Errorf("%s/doc.go names %s, which does not exist", dir, file)
		}
	}
	articles := []string{"the", "this", "a", "each", "every", "no", "other"}
	for _, m := range otherPackage.FindAllStringSubmatch(text, -1) {
		if article := strings.ToLower(strings.TrimSpace(m[1])); !slices.Contains(articles, article) && !isPackageName(all, m[2]) {
			t.Errorf("%s/doc.go names package %s, which does not exist", dir, m[2])
		}
	}
}

func isPackageName(all map[string]bool, name string) bool {
	for dir := range all {
		if strings.HasSuffix(dir, "/"+name) {
			return true
		}
	}
	return false
}

// packages returns the directories of packages below pkg, and whether a package is a command.
func packages(t *testing.T) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	err := filepath.WalkDir(filepath.Join(rootDirectory, "pkg"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.PackageClauseOnly)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(rootDirectory, filepath.Dir(path))
		out[filepath.ToSlash(dir)] = file.Name.Name == "main"
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestNamedTests holds that every test that a page names exists.
func TestNamedTests(t *testing.T) {
	declared := map[string]bool{"TestX": true} // the example of a name in docs/reliability.md
	named := map[string]string{}
	err := filepath.WalkDir(rootDirectory, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() && (entry.Name() == "_output" || entry.Name() == "bin" || strings.HasPrefix(entry.Name(), ".git")) {
			return cmp.Or(err, filepath.SkipDir)
		}
		names := map[string]*regexp.Regexp{".md": testName}[filepath.Ext(path)]
		if strings.HasSuffix(path, "_test.go") {
			names = testFunction
		}
		if names == nil {
			return nil
		}
		content, err := os.ReadFile(path)
		for _, m := range names.FindAllStringSubmatch(string(content), -1) {
			if named[m[1]] = path; names == testFunction {
				declared[m[1]] = true
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, path := range named {
		if !declared[name] {
			t.Errorf("%s names %s, which does not exist", path, name)
		}
	}
}

// checkRow checks the names in the second and the third cell of a row.
func checkRow(t *testing.T, row []string) {
	t.Helper()
	if len(row) != 3 {
		t.Errorf("row %q has %d cells", row[0], len(row))
		return
	}
	places := slices.Concat(quotedPlaces(row[1]), quotedPlaces(row[2]))
	var dirs []string
	for _, place := range places {
		if !exists(place) {
			t.Errorf("row %q names %s, which does not exist", row[0], place)
		}
		if filepath.Ext(place) != "" {
			place = filepath.Dir(place)
		}
		dirs = append(dirs, place)
	}
	for _, cell := range row[1:] {
		for _, m := range quoted.FindAllStringSubmatch(cell, -1) {
			checkName(t, row[0], m[1], dirs)
		}
	}
	if strings.Contains(row[2], "the `_test.go` beside each") {
		checkTests(t, row, dirs)
	}
}

// quotedPlaces returns the paths in a cell, from the root of the repository.
func quotedPlaces(cell string) []string {
	var out []string
	for _, m := range quoted.FindAllStringSubmatch(cell, -1) {
		if strings.Contains(m[1], "/") && !strings.Contains(m[1], " ") {
			out = append(out, m[1])
		}
	}
	return out
}

// checkName checks a name without a directory: a file or a function in one of the directories of the row, or a target of make.
func checkName(t *testing.T, row, name string, dirs []string) {
	t.Helper()
	target := makeTarget.FindStringSubmatch(name)
	switch {
	case target != nil:
		if makefile := read(t, "Makefile"); !strings.Contains(makefile, "\n"+target[1]+":") {
			t.Errorf("row %q names target %s, which the Makefile lacks", row, target[1])
		}
	case name != "_test.go" && fileName.MatchString(name):
		if !slices.ContainsFunc(dirs, func(dir string) bool { return exists(filepath.Join(dir, name)) }) {
			t.Errorf("row %q names %s, which is in none of the directories %q", row, name, dirs)
		}
	case identifier.MatchString(name):
		if !slices.ContainsFunc(dirs, func(dir string) bool { return declares(t, dir, name) }) {
			t.Errorf("row %q names %s, which no file of the directories %q declares", row, name, dirs)
		}
	}
}

// checkTests holds that every Go file of the second cell has a test of its own.
func checkTests(t *testing.T, row, dirs []string) {
	t.Helper()
	for _, m := range quoted.FindAllStringSubmatch(row[1], -1) {
		dir, name := filepath.Split(m[1])
		if dir != "" {
			dirs = []string{dir}
		}
		test, isGo := strings.CutSuffix(name, ".go")
		if isGo && !slices.ContainsFunc(dirs, func(dir string) bool {
			return exists(filepath.Join(dir, name)) && exists(filepath.Join(dir, test+"_test.go"))
		}) {
			t.Errorf("row %q promises a test beside %s", row[0], m[1])
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(filepath.Join(rootDirectory, path))
	return err == nil
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(rootDirectory, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// declares reports whether a Go file of the directory declares a function, a method or a constant with the name.
func declares(t *testing.T, dir, name string) bool {
	t.Helper()
	declaration := regexp.MustCompile(`(?m)^(func (\([^)]*\) )?|const |\t)` + name + `\b`)
	files, err := filepath.Glob(filepath.Join(rootDirectory, dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(path string) bool {
		content, err := os.ReadFile(path)
		return err == nil && declaration.Match(content)
	})
}

// tableAfter returns the cells of the rows of the first table below a heading of CONTRIBUTING.md, without the head.
func tableAfter(t *testing.T, heading string) [][]string {
	t.Helper()
	_, section, found := strings.Cut(read(t, "CONTRIBUTING.md"), "\n"+heading+"\n")
	if !found {
		t.Fatalf("CONTRIBUTING.md has no heading %q", heading)
	}
	var rows [][]string
	head := true
	for line := range strings.Lines(section) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "|---"):
			head = false
		case !head && !strings.HasPrefix(line, "|"):
			return rows
		case !head:
			cells := strings.Split(strings.Trim(line, "|"), "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			rows = append(rows, cells)
		}
	}
	return rows
}
