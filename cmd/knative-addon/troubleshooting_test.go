// Copyright Contributors to the Open Cluster Management project

package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
)

var (
	// namedReason is a reason of a condition or of an Event in docs/troubleshooting.md.
	namedReason = regexp.MustCompile("`([A-Z][a-z]+(?:[A-Z][a-z]+)+)`")
	// quotedMessage is a part of a message or of a log line in docs/troubleshooting.md.
	quotedMessage = regexp.MustCompile("(?:message|log|^\\|) `([a-z][^`]* [^`]*)`")
)

// TestTroubleshooting holds that docs/troubleshooting.md names reasons and quotes messages that the code has.
func TestTroubleshooting(t *testing.T) {
	root := filepath.Join("..", "..")
	page, err := os.ReadFile(filepath.Join(root, "docs", "troubleshooting.md"))
	if err != nil {
		t.Fatal(err)
	}
	code := readCode(t, filepath.Join(root, "pkg")) + readCode(t, filepath.Join(root, "cmd"))
	reasons := namedReason.FindAllStringSubmatch(string(page), -1)
	var messages [][]string
	for line := range strings.Lines(string(page)) {
		messages = append(messages, quotedMessage.FindAllStringSubmatch(line, -1)...)
	}
	if len(reasons) < 40 || len(messages) < 10 {
		t.Fatalf("the page has %d reasons and %d messages", len(reasons), len(messages))
	}
	for _, r := range reasons {
		if r[1] != addonv1beta1.ManagedClusterAddOnManifestApplied && !strings.Contains(code, `"`+r[1]+`"`) {
			t.Errorf("the code has no reason %q", r[1])
		}
	}
	for _, m := range messages {
		if !strings.Contains(code, m[1]) {
			t.Errorf("the code has no message %q", m[1])
		}
	}
}

// readCode returns the Go files below a directory, without tests.
func readCode(t *testing.T, dir string) string {
	t.Helper()
	var out strings.Builder
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		content, err := os.ReadFile(path) //nolint:gosec // of this repository
		out.Write(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}
