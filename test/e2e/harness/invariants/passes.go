// Copyright Contributors to the Open Cluster Management project

package invariants

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Pass is the latest pass of a controller over an object.
type Pass struct {
	Controller, Object string
	// Result is the result of the pass in the log, such as "done" or "failed".
	Result string
	// Cause is the error of a failed pass; empty when the error has several lines.
	Cause string
}

// loggedValue is a key of a line of the log with a quoted value.
var loggedValue = regexp.MustCompile(`(\w+)=("(?:[^"\\]|\\.)*")`)

// LatestPasses reads the latest pass of each controller over each object from the log of a program with verbosity 1. A program that
// starts again appends to the log: a controller that starts forgets the passes of its predecessor.
func LatestPasses(log string) []Pass {
	latest, causes := map[[2]string]Pass{}, map[string]string{}
	for line := range strings.Lines(log) {
		_, message, isMessage := strings.Cut(line, `] "`)
		switch {
		case !isMessage:
		case strings.HasPrefix(message, `Starting Controller" `):
			controller := readValues(message)["controller"]
			maps.DeleteFunc(latest, func(key [2]string, _ Pass) bool { return key[0] == controller })
		case strings.HasPrefix(message, `Reconciler error" `):
			values := readValues(message)
			causes[values["reconcileID"]] = values["err"]
		case strings.HasPrefix(message, `reconciled" `):
			values := readValues(message)
			pass := Pass{Controller: values["controller"], Object: nameObject(values), Result: values["result"], Cause: values["reconcileID"]}
			latest[[2]string{pass.Controller, pass.Object}] = pass
		}
	}
	out := slices.SortedFunc(maps.Values(latest), func(a, b Pass) int {
		return cmp.Or(strings.Compare(a.Controller, b.Controller), strings.Compare(a.Object, b.Object))
	})
	for i := range out {
		out[i].Cause = causes[out[i].Cause] // controller-runtime logs the error after the pass
	}
	return out
}

func readValues(message string) map[string]string {
	out := map[string]string{}
	for _, match := range loggedValue.FindAllStringSubmatch(message, -1) {
		if value, err := strconv.Unquote(match[2]); err == nil {
			out[match[1]] = value
		}
	}
	return out
}

// nameObject names the object of a request. A controller of addon-framework logs the cluster and the component of the request instead.
func nameObject(values map[string]string) string {
	namespace, name := values["namespace"], values["name"]
	if name == "" {
		namespace, name = values["cluster"], values["component"]
	}
	return strings.TrimPrefix(namespace+"/"+name, "/")
}

// EndPasses is invariant I9 for the passes of a program at rest: the latest pass of each controller over each object is not repeated because
// of an error or a conflict. A pass with result "failed, not repeated" has found a fault of the object.
func EndPasses(program string, passes []Pass) []string {
	var out []string
	for _, p := range passes {
		if p.Result == "failed" || strings.HasPrefix(p.Result, "conflict") {
			out = append(out, strings.TrimSuffix(fmt.Sprintf("%s: the latest pass of controller %s over %s has result %q: %s",
				program, p.Controller, p.Object, p.Result, p.Cause), ": "))
		}
	}
	return out
}
