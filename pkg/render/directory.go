// Copyright Contributors to the Open Cluster Management project

package render

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const (
	directoryPrefix = "knative-releases-"
	lockName        = "lock"
	// youngDirectory is the age below which a directory without a locked file may belong to a process that starts.
	youngDirectory = time.Minute
)

// privateDirectory is a directory of one Renderer. The locked file in the directory shows other processes that the owner runs: the
// kernel unlocks the file at the end of the process, also of a killed process.
type privateDirectory struct {
	path string
	lock *os.File
}

// makePrivateDirectory makes a directory below the temporary directory, and removes the directories of processes that were killed:
// the temporary directory of a pod outlives the containers.
func makePrivateDirectory() (*privateDirectory, error) {
	removeAbandoned(os.TempDir(), time.Now().Add(-youngDirectory)) //nolint:forbidigo // compared with the clock of the file system
	path, err := os.MkdirTemp("", directoryPrefix)
	if err != nil {
		return nil, err
	}
	lock, err := lockFile(filepath.Join(path, lockName), os.O_CREATE)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(path))
	}
	return &privateDirectory{path: path, lock: lock}, nil
}

// removeDirectory removes the directory and ends the lock.
func (d *privateDirectory) removeDirectory() error {
	return errors.Join(os.RemoveAll(d.path), d.lock.Close())
}

// removeAbandoned removes the directories whose lock no process holds, if the directory is older than the time. A process that was killed
// while the process removed a directory has left the directory without a lock. Failures stay without consequence: the directory may belong to another
// user.
func removeAbandoned(parent string, olderThan time.Time) {
	found, err := filepath.Glob(filepath.Join(parent, directoryPrefix+"*"))
	if err != nil {
		return
	}
	for _, path := range found {
		if info, err := os.Lstat(path); err != nil || !info.IsDir() || !info.ModTime().Before(olderThan) {
			continue
		}
		lock, err := lockFile(filepath.Join(path, lockName), os.O_CREATE)
		if err != nil {
			continue
		}
		_ = os.RemoveAll(path)
		_ = lock.Close()
	}
}

// lockFile opens and locks a file. The error is immediate when another process has the lock.
func lockFile(path string, flags int) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|syscall.O_NOFOLLOW|flags, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}
