// Copyright Contributors to the Open Cluster Management project

package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	other   = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// TestLinks holds that every relative link of a page leads to a file of the repository, and to a heading of that file.
func TestLinks(t *testing.T) {
	links := 0
	err := filepath.WalkDir("..", func(page string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := entry.Name(); entry.IsDir() && (name == "_output" || name == "bin" || strings.HasPrefix(name, ".git")) {
			return filepath.SkipDir
		}
		if entry.IsDir() || filepath.Ext(page) != ".md" {
			return nil
		}
		content, err := os.ReadFile(page)
		if err != nil {
			return err
		}
		for _, match := range link.FindAllStringSubmatch(string(content), -1) {
			if strings.Contains(match[1], "://") {
				continue
			}
			links++
			checkLink(t, page, match[1])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if links < 100 {
		t.Errorf("the pages have %d links, so that the test overlooks links", links)
	}
}

func checkLink(t *testing.T, page, target string) {
	t.Helper()
	file, anchor, _ := strings.Cut(target, "#")
	path := page
	if file != "" {
		path = filepath.Join(filepath.Dir(page), file)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Errorf("%s links to %q: %v", page, target, err)
		return
	}
	if anchor == "" || info.IsDir() || filepath.Ext(path) != ".md" {
		return
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, match := range heading.FindAllStringSubmatch(string(content), -1) {
		if anchorOf(match[1]) == anchor {
			return
		}
	}
	t.Errorf("%s links to %q, and the file has no such heading", page, target)
}

// anchorOf returns the anchor that GitHub gives a heading.
func anchorOf(text string) string {
	return strings.ReplaceAll(other.ReplaceAllString(strings.ToLower(text), ""), " ", "-")
}
