// Copyright Contributors to the Open Cluster Management project

package lab

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const tempPrefix = "knative-addon-lab-run-"

// newTempDir makes a directory for one run and removes those of runs that were killed: a run holds a lock on a file in
// its directory, and the kernel drops the lock with the process.
func newTempDir() (string, *os.File, error) {
	left, err := filepath.Glob(filepath.Join(os.TempDir(), tempPrefix+"*"))
	if err != nil {
		return "", nil, fmt.Errorf("cannot look for directories of earlier labs: %w", err)
	}
	for _, dir := range left {
		if f, err := lockDir(dir, 0); err == nil {
			_ = os.RemoveAll(dir)
			_ = f.Close()
		}
	}
	dir, err := os.MkdirTemp("", tempPrefix)
	if err != nil {
		return "", nil, fmt.Errorf("cannot create the lab's directory: %w", err)
	}
	f, err := lockDir(dir, os.O_CREATE)
	if err != nil {
		return "", nil, fmt.Errorf("cannot lock the lab's directory: %w", err)
	}
	return dir, f, nil
}

func lockDir(dir string, flag int) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), flag|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}
