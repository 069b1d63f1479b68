// Copyright Contributors to the Open Cluster Management project

package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// row is one line of the table. Those without a goal are only told.
type row struct {
	what, value, goal string
	missed            bool
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

func milliseconds(d time.Duration) string { return fmt.Sprintf("%d ms", d.Milliseconds()) }

var errMissed = errors.New("goals are missed")

// report prints the table.
func report(out io.Writer, rows []row) error {
	var missed []string
	fmt.Fprintf(out, "\n| | | goal |\n|---|---|---|\n")
	for _, r := range rows {
		verdict := r.goal
		if r.missed {
			verdict += ": missed"
			missed = append(missed, r.what)
		}
		fmt.Fprintf(out, "| %s | %s | %s |\n", r.what, r.value, verdict)
	}
	if len(missed) > 0 {
		return fmt.Errorf("%w: %s", errMissed, strings.Join(missed, "; "))
	}
	return nil
}
