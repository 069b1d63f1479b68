// Copyright Contributors to the Open Cluster Management project

package invariants

import (
	"fmt"
	"strings"
	"testing"
)

// startLine is the line of a controller that starts.
func startLine(controller string) string {
	return fmt.Sprintf("I0101 10:00:00.000000       1 controller.go:303] \"Starting Controller\" controller=%q\n", controller)
}

// passLines are the lines of a pass over an object of namespace team; id is a number of the pass. An empty error means that controller-runtime
// logs none.
func passLines(id int, controller, name, result, failure string) string {
	request := fmt.Sprintf("controller=%q namespace=\"team\" name=%q reconcileID=\"%d\"", controller, name, id)
	lines := fmt.Sprintf("I0101 10:00:00.000000       1 wrap.go:37] \"reconciled\" %s component=\"knative-serving\" result=%q duration=\"3ms\"\n", request, result)
	if failure != "" {
		lines += fmt.Sprintf("E0101 10:00:00.000000       1 controller.go:495] \"Reconciler error\" err=%s %s\n", failure, request)
	}
	return lines
}

// TestEndPasses holds that a pass which always fails is a violation, and a pass which succeeds at last is none.
func TestEndPasses(t *testing.T) {
	const (
		serving = "knativeservings"
		fleet   = "knativefleets"
		refused = `"admission webhook \"x\" denied the request"`
	)
	failing := passLines(1, serving, "a", "failed", refused)
	for name, tc := range map[string]struct {
		log  []string
		want string
	}{
		"no pass":              {},
		"a pass that succeeds": {log: []string{passLines(1, serving, "a", "done", "")}},
		"a pass that waits":    {log: []string{passLines(1, serving, "a", "requeued after 1m0s", "")}},
		"a pass that finds a fault of the object": {log: []string{passLines(1, serving, "a", "failed, not repeated", refused)}},
		"a pass that succeeds after a failure":    {log: []string{failing, passLines(2, serving, "a", "done", "")}},
		"a pass that fails after a success, beside passes that succeed": {
			log:  []string{passLines(2, serving, "a", "done", ""), failing, passLines(3, serving, "b", "done", ""), passLines(4, fleet, "a", "done", "")},
			want: `manager: the latest pass of controller knativeservings over team/a has result "failed": admission webhook "x" denied the request`,
		},
		"an error of several lines": {
			log: []string{passLines(1, serving, "a", "failed", "<\n\tone\n\tanother\n >")}, want: `over team/a has result "failed"`,
		},
		"a pass whose writes are always conflicts": {
			log: []string{passLines(1, serving, "a", "conflict, requeued after 1s", "")}, want: `has result "conflict, requeued after 1s"`,
		},
		"a pass of addon-framework": {
			log: []string{`I0101 10:00:00.000000       1 wrap.go:37] "reconciled" controller="addon-deploy-controller" reconcileID="1" ` +
				`cluster="c1" component="knative-serving" result="failed" duration="3ms"` + "\n"},
			want: `controller addon-deploy-controller over c1/knative-serving has result "failed"`,
		},
		"a failure of an earlier manager":     {log: []string{failing, startLine(serving), passLines(1, serving, "b", "done", "")}},
		"a failure before another controller": {log: []string{failing, startLine(fleet)}, want: "controller knativeservings over team/a"},
	} {
		t.Run(name, func(t *testing.T) {
			expectViolation(t, EndPasses("manager", LatestPasses(strings.Join(tc.log, ""))), tc.want)
		})
	}
}

// TestEndRefusals holds that passes which an API server refuses again and again are a violation, also when the object is deleted later.
func TestEndRefusals(t *testing.T) {
	const fleet, forbidden, timeout = "knativefleets", `"controllerrevisions.apps \"a\" is forbidden: policy x denied request"`, `"i/o timeout"`
	repeat := func(count int, failure string) string {
		var out strings.Builder
		for id := range count {
			out.WriteString(passLines(id, fleet, "a", "failed", failure))
		}
		return out.String()
	}
	// An error that joins several errors has a line for each; klog prints such an error as a block.
	const joined = "<\n\tcannot create KnativeServing \"team/a\": knativeservings \"a\" is forbidden: policy x denied request\n\tcannot create KnativeServing \"team/b\"\n >"
	done := passLines(100, fleet, "a", "done", "")
	for name, tc := range map[string]struct {
		log  []string
		want string
	}{
		"refusals until the object is deleted": {
			log:  []string{done, repeat(3*mostRefusals, forbidden), done},
			want: "manager: an API server has refused 10 passes of controller knativefleets over team/a one after the other: controllerrevisions.apps",
		},
		"refusals with an error of several lines": {
			log:  []string{done, repeat(mostRefusals, joined)},
			want: `over team/a one after the other: cannot create KnativeServing "team/a": knativeservings "a" is forbidden`,
		},
		"refusals, and a success after an error of several lines": {log: []string{repeat(mostRefusals-1, joined), done, repeat(mostRefusals-1, joined)}},
		"few refusals":                        {log: []string{repeat(mostRefusals-1, forbidden)}},
		"refusals that end":                   {log: []string{repeat(mostRefusals-1, forbidden), done, repeat(mostRefusals-1, forbidden)}},
		"refusals of two managers":            {log: []string{repeat(mostRefusals-1, forbidden), startLine(fleet), repeat(mostRefusals-1, forbidden)}},
		"a hub that does not answer":          {log: []string{repeat(3*mostRefusals, timeout)}},
		"a hub that does not answer all time": {log: []string{repeat(mostRefusals-1, forbidden), repeat(1, timeout), repeat(mostRefusals-1, forbidden)}},
	} {
		t.Run(name, func(t *testing.T) { expectViolation(t, EndRefusals("manager", strings.Join(tc.log, "")), tc.want) })
	}
}
