// Copyright Contributors to the Open Cluster Management project

package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// writePlugin writes a file that only readers and runners may use, and returns its path.
func writePlugin(t *testing.T, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "plugin")
	if err := os.WriteFile(file, []byte(content), 0o555); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestFilesKeepPathAndPermissions(t *testing.T) {
	target := t.TempDir()
	files := []string{writePlugin(t, "one"), writePlugin(t, "two")}
	for range 2 { // an init container may run again
		if _, err := execute(t, newCopyFilesCommand(), "", append([]string{"--to", target}, files...)...); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []string{"one", "two"} {
		got, err := os.ReadFile(filepath.Join(target, files[i]))
		if err != nil || string(got) != want {
			t.Errorf("the copy of %s is %q, %v; want %q", files[i], got, err, want)
		}
		info, err := os.Stat(filepath.Join(target, files[i]))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != 0o555 {
			t.Errorf("the copy of %s has mode %s, want that of the file", files[i], info.Mode())
		}
		left, err := os.ReadDir(filepath.Dir(filepath.Join(target, files[i])))
		if err != nil || len(left) != 1 {
			t.Errorf("beside the copy of %s lie %v, %v; want nothing", files[i], left, err)
		}
	}
}

func TestFilesThatCannotBeCopiedFail(t *testing.T) {
	target := t.TempDir()
	if _, err := execute(t, newCopyFilesCommand(), "", "--to", target, filepath.Join(t.TempDir(), "absent")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an absent file yields %v, want %v", err, fs.ErrNotExist)
	}
	for name, args := range map[string][]string{
		"a directory":     {"--to", target, t.TempDir()},
		"a relative path": {"--to", target, "plugin"},
		"no target":       {writePlugin(t, "one")},
		"no file":         {"--to", target},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := execute(t, newCopyFilesCommand(), "", args...); err == nil {
				t.Error("the command ended without an error")
			}
		})
	}
	entries, err := os.ReadDir(target)
	if err != nil || len(entries) > 0 {
		t.Errorf("failed copies have left %v, %v", entries, err)
	}
}
