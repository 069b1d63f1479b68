// Copyright Contributors to the Open Cluster Management project

package hub

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestConditionsOfOthers(t *testing.T) {
	condition := func(name string) any { return map[string]any{"type": name, "severity": "Info"} }
	for name, tc := range map[string]struct {
		stored any
		want   []any
	}{
		"a status without conditions":          {},
		"conditions that are no list":          {stored: "x"},
		"conditions of both writers":           {stored: []any{condition("A"), condition("Theirs"), condition("B")}, want: []any{condition("Theirs")}},
		"a condition whose type has no string": {stored: []any{map[string]any{"type": int64(1)}}, want: []any{map[string]any{"type": int64(1)}}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, ConditionsOfOthers(tc.stored, []string{"A", "B"})); diff != "" {
				t.Errorf("conditions of others (-want +got):\n%s", diff)
			}
		})
	}
}
