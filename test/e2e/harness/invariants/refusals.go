// Copyright Contributors to the Open Cluster Management project

package invariants

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
)

// mostRefusals is the number of passes over one object that an API server may refuse one after the other: with the pauses between failed
// passes, about five seconds.
const mostRefusals = 10

// EndRefusals is invariant I9 for the whole log of a program with verbosity 1: no controller goes on with passes over one object that an API
// server refuses, as a policy or a missing permission of the chart would make the server do.
func EndRefusals(program, log string) []string {
	var out []string
	refusals, objects := map[[2]string]int{}, map[string][2]string{}
	for _, line := range joinLines(log) {
		_, message, _ := strings.Cut(line, `] "`)
		switch {
		case strings.HasPrefix(message, `Starting Controller" `):
			controller := readValues(message)["controller"]
			maps.DeleteFunc(refusals, func(key [2]string, _ int) bool { return key[0] == controller })
		case strings.HasPrefix(message, `reconciled" `):
			values := readValues(message)
			key := [2]string{values["controller"], nameObject(values)}
			if objects[values["reconcileID"]] = key; values["result"] != "failed" {
				delete(refusals, key)
			}
		case strings.HasPrefix(message, `Reconciler error" `):
			values := readValues(message)
			key := objects[values["reconcileID"]]
			if !strings.Contains(values["err"], "is forbidden") {
				delete(refusals, key)
				continue
			}
			if refusals[key]++; refusals[key] == mostRefusals {
				out = append(out, fmt.Sprintf("%s: an API server has refused %d passes of controller %s over %s one after the other: %s",
					program, mostRefusals, key[0], key[1], values["err"]))
			}
		}
	}
	return out
}

// joinLines returns the lines of a log. A value that klog prints over several lines, as in key=< with one tab before each line and the end
// " >", becomes a quoted value in one line.
func joinLines(log string) []string {
	var out, block []string
	begin := ""
	for line := range strings.Lines(log) {
		line = strings.TrimSuffix(line, "\n")
		if begin != "" {
			if text, isValue := strings.CutPrefix(line, "\t"); isValue {
				block = append(block, text)
				continue
			}
			line = begin + strconv.Quote(strings.Join(block, "\n")) + strings.TrimPrefix(line, " >")
			begin, block = "", nil
		}
		if key, isBegin := strings.CutSuffix(line, "=<"); isBegin {
			begin = key + "="
			continue
		}
		out = append(out, line)
	}
	return out
}
