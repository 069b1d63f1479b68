// Copyright Contributors to the Open Cluster Management project

package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// Units of values; counts have none.
const (
	seconds   = "s"
	megabytes = "MB"
)

// value is one figure; less is better.
type value struct {
	number float64
	// atLeast tells that waiting has ended before it was reached.
	atLeast bool
}

func duration(d time.Duration) value { return value{number: d.Seconds()} }

func number(n int) value { return value{number: float64(n)} }

func (v value) text(unit string) string {
	format := "%.1f "
	switch {
	case unit == seconds && v.number < 10:
		format = "%.2f "
	case unit != seconds:
		format = "%.0f "
	}
	text := strings.TrimSpace(fmt.Sprintf(format+unit, v.number))
	if v.atLeast {
		return "> " + text
	}
	return text
}

// row is one line of the table. A goal is how many times less ours has to be; with 0 it only has to come.
type row struct {
	what         string
	ours, theirs value
	unit         string
	goal         float64
}

func (r row) met() bool {
	return !r.ours.atLeast && (r.goal == 0 || r.theirs.number > 0 && r.theirs.number >= r.goal*r.ours.number)
}

func (r row) ratio() string {
	switch {
	case r.ours.number == 0 || r.ours.atLeast:
		return "-"
	case r.theirs.atLeast:
		return fmt.Sprintf("> %.1f", r.theirs.number/r.ours.number)
	}
	return fmt.Sprintf("%.1f", r.theirs.number/r.ours.number)
}

func (r row) verdict() string {
	switch {
	case r.goal == 0 && r.met():
		return ""
	case r.goal == 0:
		return "missed: it never came"
	case r.met():
		return fmt.Sprintf("%.0f: met", r.goal)
	}
	return fmt.Sprintf("%.0f: missed", r.goal)
}

var errMissed = errors.New("goals are missed")

// report prints the table.
func report(out io.Writer, rows []row) error {
	var missed []string
	fmt.Fprintf(out, "\n| | knative-addon | Knative Operator | times less | goal |\n|---|---|---|---|---|\n")
	for _, r := range rows {
		fmt.Fprintf(out, "| %s | %s | %s | %s | %s |\n", r.what, r.ours.text(r.unit), r.theirs.text(r.unit), r.ratio(), r.verdict())
		if !r.met() {
			missed = append(missed, r.what)
		}
	}
	if len(missed) > 0 {
		return fmt.Errorf("%w: %s", errMissed, strings.Join(missed, "; "))
	}
	return nil
}
