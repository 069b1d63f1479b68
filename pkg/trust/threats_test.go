// Copyright Contributors to the Open Cluster Management project

package trust

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const threats = 11

// TestThreatsHaveTests holds that docs/security.md has every threat, that each threat names a test, and that every test that
// the page names exists.
func TestThreatsHaveTests(t *testing.T) {
	page, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	exists := declaredTests(t, "../..")
	name := regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9]+)`")
	for _, match := range name.FindAllStringSubmatch(string(page), -1) {
		if !exists[match[1]] {
			t.Errorf("docs/security.md names %s, which does not exist", match[1])
		}
	}
	_, table, found := strings.Cut(string(page), "<!-- threats -->")
	table, _, closed := strings.Cut(table, "<!-- /threats -->")
	if !found || !closed {
		t.Fatal("docs/security.md has no table of threats")
	}
	for n := range threats {
		row := regexp.MustCompile(fmt.Sprintf(`(?m)^\| T%d \|.*$`, n+1)).FindString(table)
		if !name.MatchString(row) {
			t.Errorf("threat T%d has no test: %q", n+1, row)
		}
	}
}

// declaredTests are the names of all tests and fuzz targets below a directory.
func declaredTests(t *testing.T, root string) map[string]bool {
	t.Helper()
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Za-z0-9]+)\(`)
	out := map[string]bool{}
	for _, top := range []string{"cmd", "pkg", "test/e2e", "test/lab"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			source, err := os.ReadFile(path)
			for _, match := range declared.FindAllSubmatch(source, -1) {
				out[string(match[1])] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}
