// Copyright Contributors to the Open Cluster Management project

package lab

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// Start starts a lab that ends with the test. When the test has failed, the logs of all components are kept, and the
// test says where.
func Start(t testing.TB, opts Options) *Lab {
	t.Helper()
	if opts.Log == nil {
		opts.Log = os.Stderr
	}
	l, err := New(t.Context(), opts)
	if err != nil {
		t.Fatalf("cannot start the lab: %v", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			dir, err := l.KeepLogs()
			t.Logf("the logs of the lab's components are in %s (error %v)", dir, err)
		}
		if err := l.Close(); err != nil {
			t.Errorf("cannot close the lab: %v", err)
		}
	})
	return l
}

// KeepLogs copies the logs of all components to a directory that outlives the lab, and returns it.
func (l *Lab) KeepLogs() (string, error) {
	to, err := os.MkdirTemp("", "knative-addon-lab-logs-")
	if err != nil {
		return "", fmt.Errorf("cannot keep the logs: %w", err)
	}
	for _, c := range l.Components() {
		if err := copyFile(c.Log, filepath.Join(to, filepath.Base(c.Log))); err != nil {
			return "", fmt.Errorf("cannot keep the log of %s: %w", c.Name, err)
		}
	}
	return to, nil
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		_ = out.Close()
		return err
	}
	return out.Close()
}
