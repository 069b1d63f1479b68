// Copyright Contributors to the Open Cluster Management project

package main

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReport(t *testing.T) {
	unreached := value{number: 120, atLeast: true}
	tests := map[string]struct {
		row  row
		want string
		miss bool
	}{
		"a figure without a goal":                       {row: row{ours: number(100), theirs: number(50)}, want: "| x | 100 | 50 | 0.5 |  |"},
		"a goal that is met":                            {row: row{ours: value{number: 2}, theirs: value{number: 8}, unit: seconds, goal: 3}, want: "| x | 2.00 s | 8.00 s | 4.0 | 3: met |"},
		"a goal that is missed":                         {row: row{ours: number(80), theirs: number(76), unit: megabytes, goal: 1}, want: "| x | 80 MB | 76 MB | 0.9 | 1: missed |", miss: true},
		"waiting for the other proves the goal":         {row: row{ours: value{number: 6}, theirs: unreached, unit: seconds, goal: 20}, want: "| x | 6.00 s | > 120.0 s | > 20.0 | 20: met |"},
		"waiting for the other does not prove the goal": {row: row{ours: value{number: 12}, theirs: unreached, unit: seconds, goal: 20}, want: "| x | 12.0 s | > 120.0 s | > 10.0 | 20: missed |", miss: true},
		"what never came misses its goal":               {row: row{ours: unreached, theirs: unreached, unit: seconds, goal: 20}, want: "| x | > 120.0 s | > 120.0 s | - | 20: missed |", miss: true},
		"what never came is missed without a goal, too": {row: row{ours: unreached, theirs: number(60), unit: seconds}, want: "| x | > 120.0 s | 60.0 s | - | missed: it never came |", miss: true},
		"nothing at all is less than anything":          {row: row{ours: number(0), theirs: number(500), goal: 50}, want: "| x | 0 | 500 | - | 50: met |"},
		"nothing against nothing proves nothing":        {row: row{ours: number(0), theirs: number(0), goal: 50}, want: "| x | 0 | 0 | - | 50: missed |", miss: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tt.row.what = "x"
			var out bytes.Buffer
			if err := report(&out, []row{tt.row}); errors.Is(err, errMissed) != tt.miss {
				t.Errorf("report says %v", err)
			}
			want := "\n| | knative-addon | Knative Operator | times less | goal |\n|---|---|---|---|---|\n" + tt.want + "\n"
			if diff := cmp.Diff(want, out.String()); diff != "" {
				t.Errorf("-want, +got:\n%s", diff)
			}
		})
	}
}
