// Copyright Contributors to the Open Cluster Management project

package tools

import (
	"io"
	"strings"
	"testing"
)

// TestUnknownGroup holds that a name without a group is refused before any program is built, with the names of all groups.
func TestUnknownGroup(t *testing.T) {
	_, err := Build(t.Context(), Set{Kube, "cube"}, io.Discard)
	if err == nil || !strings.Contains(err.Error(), `unknown group "cube"`) {
		t.Fatalf("got %v, want an error that names the group", err)
	}
	for _, g := range groups() {
		if !strings.Contains(err.Error(), g.name) {
			t.Errorf("%v does not name group %q", err, g.name)
		}
	}
}
