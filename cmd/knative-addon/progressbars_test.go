// Copyright Contributors to the Open Cluster Management project

package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/installations"
)

// TestProgressBars holds what the bars count, that a line of a watch stands above the bars, and that a bar which was full follows the
// next edit.
func TestProgressBars(t *testing.T) {
	serving := func(ready metav1.ConditionStatus, nextRevision, nextVersion string) installations.Installation {
		return installations.Installation{Component: api.Serving, Ready: ready, NextRevision: nextRevision, NextVersion: nextVersion}
	}
	var out bytes.Buffer
	bars := newProgressBars(&out, []api.Component{api.Serving, api.Eventing})
	bars.update([]installations.Installation{serving(metav1.ConditionTrue, "", ""), serving(metav1.ConditionTrue, "", "")})
	if _, err := fmt.Fprintln(bars, "a line of the watch"); err != nil {
		t.Fatal(err)
	}
	bars.update([]installations.Installation{
		serving(metav1.ConditionTrue, "", ""), serving(metav1.ConditionTrue, "1.23.0", ""), serving(metav1.ConditionTrue, "", "4f2a"),
		serving(metav1.ConditionFalse, "", ""),
	})
	bars.Close()
	printed := out.String()
	for _, want := range []string{"1 of 4 ready and current", "0 of 0 ready and current", string(api.Serving), string(api.Eventing)} {
		if !strings.Contains(printed, want) {
			t.Errorf("%q is not in %q", want, printed)
		}
	}
	if line := strings.Index(printed, "a line of the watch\n"); line < 0 || line > strings.LastIndex(printed, "1 of 4") {
		t.Errorf("the line of the watch is not above the bars: %q", printed)
	}
	if isTerminal(&out) {
		t.Error("a buffer counts as a terminal")
	}
}
