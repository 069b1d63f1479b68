// Copyright Contributors to the Open Cluster Management project

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// tableTest is a test in docs/reliability.md: a package, if the test is not a story, and a name.
var tableTest = regexp.MustCompile("(?:`((?:pkg|cmd)/[a-z/-]+)` )?`(Test[A-Za-z0-9]+)`")

// TestReliabilityTable holds that docs/reliability.md has a row for each of its forty scenarios, with a bound, and names tests that exist.
func TestReliabilityTable(t *testing.T) {
	root := filepath.Join("..", "..")
	table, err := os.ReadFile(filepath.Join(root, "docs", "reliability.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows, packages := 0, map[string]string{}
	for line := range strings.Lines(string(table)) {
		cells := strings.Split(line, "|")
		if len(cells) != 7 || !regexp.MustCompile(`^ \d+ $`).MatchString(cells[1]) {
			continue
		}
		rows++
		if !regexp.MustCompile(`\d|one report`).MatchString(cells[5]) {
			t.Errorf("row%shas the bound %q", cells[1], cells[5])
		}
		found := tableTest.FindAllStringSubmatch(cells[4], -1)
		if len(found) == 0 && !strings.Contains(cells[4], "not tested") {
			t.Errorf("row%snames no test and does not say that there is none", cells[1])
		}
	}
	for _, f := range tableTest.FindAllStringSubmatch(string(table), -1) { // also in the text below the table
		dir := filepath.Join("test", "e2e")
		if f[1] != "" {
			dir = f[1]
		}
		if !strings.Contains(readTests(t, filepath.Join(root, dir), packages), "func "+f[2]+"(t *testing.T)") {
			t.Errorf("the page names %s, which %s lacks", f[2], dir)
		}
	}
	if rows != 40 {
		t.Errorf("%d rows, want 40", rows)
	}
}

// TestUpgradesNameStories holds that docs/upgrades.md names stories that exist.
func TestUpgradesNameStories(t *testing.T) {
	root := filepath.Join("..", "..")
	page, err := os.ReadFile(filepath.Join(root, "docs", "upgrades.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := tableTest.FindAllStringSubmatch(string(page), -1)
	if len(found) < 5 {
		t.Errorf("the page names %d stories, so that the test overlooks stories", len(found))
	}
	stories := readTests(t, filepath.Join(root, "test", "e2e"), map[string]string{})
	for _, f := range found {
		if !strings.Contains(stories, "func "+f[2]+"(t *testing.T)") {
			t.Errorf("the page names %s, which test/e2e lacks", f[2])
		}
	}
}

// readTests returns the text of all test files of a directory, which it keeps in read.
func readTests(t *testing.T, dir string, read map[string]string) string {
	t.Helper()
	if text, found := read[dir]; found {
		return text
	}
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has %d test files: %v", dir, len(files), err)
	}
	var text strings.Builder
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(content)
	}
	read[dir] = text.String()
	return read[dir]
}
