// Copyright Contributors to the Open Cluster Management project

package v1alpha1

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestReasonsAreDocumented compares docs/conditions.md with the reasons, in both directions and in order.
func TestReasonsAreDocumented(t *testing.T) {
	data, err := os.ReadFile("../../../../docs/conditions.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(data), "<!-- fleet-reasons -->\n")
	table, _, closed := strings.Cut(rest, "<!-- /fleet-reasons -->")
	if !found || !closed {
		t.Fatal("docs/conditions.md has no table fleet-reasons")
	}
	documented := map[string][]string{}
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "| `") { // the header
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 5 {
			t.Fatalf("docs/conditions.md has %d cells instead of 5 in %q", len(cells), line)
		}
		condition, reason := strings.Trim(cells[0], " `"), strings.Trim(cells[1], " `")
		documented[condition] = append(documented[condition], reason)
	}
	if diff := cmp.Diff(Reasons(), documented); diff != "" {
		t.Errorf("docs/conditions.md: -constants, +documented:\n%s", diff)
	}
}
