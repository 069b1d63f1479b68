// Copyright Contributors to the Open Cluster Management project

package realnode

import (
	"os"
	"path/filepath"
	"testing"
)

// TestWeighGroup gives shares to a control group of version 1, of version 2, and of a hierarchy without shares.
func TestWeighGroup(t *testing.T) {
	for file, want := range map[string]string{"cpu.shares": "8192", "cpu.weight": "800", "memory.max": "max"} {
		group := t.TempDir()
		path := filepath.Join(group, file)
		if err := os.WriteFile(path, []byte("max"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := weighGroup(group); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s has %q (error %v), want %q", file, got, err, want)
		}
		if files, err := os.ReadDir(group); err != nil || len(files) != 1 {
			t.Errorf("the group has files %v (error %v), want %s only", files, err, file)
		}
	}
}
