// Copyright Contributors to the Open Cluster Management project

package access

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// swap does what the kubelet does to a ConfigMap: a new directory, and a link to it that takes the place of the old.
func swap(t *testing.T, dir, version, content string) {
	t.Helper()
	write(t, filepath.Join(dir, version, "providers.json"), content)
	next := filepath.Join(dir, "..data_tmp")
	if err := os.Symlink(version, next); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
}

func TestFileFollowsConfigMaps(t *testing.T) {
	dir := t.TempDir()
	swap(t, dir, "..1", one(`"name":"p"`, `"name":"first"`))
	path := filepath.Join(dir, "providers.json")
	if err := os.Symlink("..data/providers.json", path); err != nil {
		t.Fatal(err)
	}
	fake := clocktesting.NewFakeClock(time.Unix(0, 0))
	changes := make(chan FileState, 10)
	f := OpenFile(path, FileOptions{Clock: fake, Interval: time.Minute, Changed: func(s FileState) { changes <- s }})
	if got := f.State(); !slices.Equal(got.Names(), []string{"first"}) || got.Err != nil || !got.Configured {
		t.Fatalf("got %+v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- f.Start(ctx) }()

	for _, version := range []string{"second", "third"} {
		swap(t, dir, ".."+version, one(`"name":"p"`, `"name":"`+version+`"`))
		if err := os.RemoveAll(filepath.Join(dir, "..1")); err != nil {
			t.Fatal(err)
		}
		waitUntil(t, fake.HasWaiters)
		fake.Step(time.Minute)
		if got := <-changes; !slices.Equal(got.Names(), []string{version}) || got.Err != nil {
			t.Errorf("got %+v, want %s", got, version)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestABadFileTakesNothingAway(t *testing.T) {
	path := filepath.Join(t.TempDir(), "providers.json")
	write(t, path, one("", ""))
	var told []FileState
	f := OpenFile(path, FileOptions{Changed: func(s FileState) { told = append(told, s) }})

	step := func(content string, wantTold int, wantErr string) {
		t.Helper()
		if content == "" {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		} else {
			write(t, path, content)
		}
		told = nil
		f.Reload()
		f.Reload() // Nothing has changed since.
		if len(told) != wantTold {
			t.Errorf("%q: told %d times, want %d", content, len(told), wantTold)
		}
		got := f.State()
		if len(got.Providers) != 1 {
			t.Errorf("%q: the last good providers are gone", content)
		}
		if wantErr == "" {
			if got.Err != nil {
				t.Errorf("%q: %v", content, got.Err)
			}
			return
		}
		if got.Err == nil || !strings.Contains(got.Err.Error(), wantErr) || !strings.Contains(got.Err.Error(), path) {
			t.Errorf("%q: error %v does not tell %q and the path", content, got.Err, wantErr)
		}
	}
	step(one("", ""), 0, "")
	step("{", 1, "JSON")
	step(one("/p", "p"), 1, "full path")
	step("", 1, "does not exist")
	if !errors.Is(f.State().Err, fs.ErrNotExist) {
		t.Errorf("%v is not fs.ErrNotExist", f.State().Err)
	}
	step(one("", ""), 1, "")
	step(one("/p", "/q"), 1, "")
	if got := f.State().Providers[0].ExecConfig.Command; got != "/q" {
		t.Errorf("command is %s, want the one of the last good file", got)
	}
}

// TestADirectoryTakesNothingAway holds that a directory in the place of the file keeps the providers and the process.
func TestADirectoryTakesNothingAway(t *testing.T) {
	path := filepath.Join(t.TempDir(), "providers.json")
	write(t, path, one("", ""))
	f := OpenFile(path, FileOptions{})
	if err := errors.Join(os.Remove(path), os.Mkdir(path, 0o700)); err != nil {
		t.Fatal(err)
	}
	f.Reload()
	if got := f.State(); len(got.Providers) != 1 || got.Err == nil || !strings.Contains(got.Err.Error(), "not a file") {
		t.Errorf("the state is %+v, want the last good providers and an error", got)
	}
}

func TestFilesThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "large"), strings.Repeat(" ", maxFile+1))
	write(t, filepath.Join(dir, "locked"), one("", ""))
	if err := os.Chmod(filepath.Join(dir, "locked"), 0); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"": "not a file", "absent": "does not exist", "large": "more than", "large/below": "not a directory", "locked": "denied"} {
		if name == "locked" && os.Geteuid() == 0 {
			continue // Root may read everything.
		}
		got := OpenFile(filepath.Join(dir, name), FileOptions{}).State()
		if got.Err == nil || !strings.Contains(got.Err.Error(), want) || len(got.Providers) > 0 || !got.Configured {
			t.Errorf("%q: got %+v, want an error that tells %q", name, got, want)
		}
	}
}

func TestWithoutFileThereIsNothing(t *testing.T) {
	f := OpenFile("", FileOptions{Changed: func(FileState) { t.Error("told of a change") }})
	f.Reload()
	if got := f.State(); got.Configured || got.Err != nil || got.Providers != nil {
		t.Errorf("got %+v", got)
	}
}
