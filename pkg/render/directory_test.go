// Copyright Contributors to the Open Cluster Management project

package render

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestAbandonedDirectories kills a process that has made a directory: the next start removes the directory, also a directory without a lock, and
// no directory of a process that runs.
func TestAbandonedDirectories(t *testing.T) {
	if os.Getenv("ABANDON_DIRECTORY") != "" {
		d, err := makePrivateDirectory()
		if err != nil {
			t.Fatal(err)
		}
		_ = d // an exit runs no deferred function
		os.Exit(0)
	}
	t.Setenv("TMPDIR", t.TempDir())
	mine, err := makePrivateDirectory()
	if err != nil {
		t.Fatal(err)
	}
	killed := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAbandonedDirectories$")
	killed.Env = append(os.Environ(), "ABANDON_DIRECTORY=1")
	if out, err := killed.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	before := countDirectories(t)
	if before < 2 {
		t.Fatal("the killed process has left no directory")
	}
	if err := os.Mkdir(filepath.Join(os.TempDir(), directoryPrefix+"half-removed"), 0o700); err != nil {
		t.Fatal(err)
	}
	before++
	removeAbandoned(os.TempDir(), time.Time{})
	if n := countDirectories(t); n != before {
		t.Errorf("a young directory is removed, %d are left", n)
	}
	removeAbandoned(os.TempDir(), time.Unix(1<<40, 0))
	if _, err := os.Stat(mine.path); err != nil || countDirectories(t) != 1 {
		t.Errorf("%d directories are left, the one of this process: %v", countDirectories(t), err)
	}
	if err := mine.removeDirectory(); err != nil || countDirectories(t) != 0 {
		t.Errorf("error is %v, %d directories are left", err, countDirectories(t))
	}
}

func countDirectories(t *testing.T) int {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(os.TempDir(), directoryPrefix+"*"))
	if err != nil {
		t.Fatal(err)
	}
	return len(found)
}
