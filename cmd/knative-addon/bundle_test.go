// Copyright Contributors to the Open Cluster Management project

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestIncompleteBundle holds that the command keeps an archive without a list, prints the name of the file, and fails.
func TestIncompleteBundle(t *testing.T) {
	for refused, isIncomplete := range map[string]bool{"events": true, "nothing": false} {
		file := filepath.Join(t.TempDir(), "bundle.tar.gz")
		out, err := execute(t, newBundleCommand(), "", "--kubeconfig", newForbiddingHub(t, refused), "--file", file)
		if (err != nil) != isIncomplete || isIncomplete && !strings.Contains(err.Error(), "incomplete") {
			t.Errorf("without %s, error is %v", refused, err)
		}
		if _, statErr := os.Stat(file); statErr != nil || out != "wrote "+file+"\n" {
			t.Errorf("without %s, the output is %q, and the file %v", refused, out, statErr)
		}
	}
}
