// Copyright Contributors to the Open Cluster Management project

package main

import (
	"fmt"
	"io"
	"time"
)

// report prints a table with the means of both ways, and their ratios.
func report(out io.Writer, addOn, kubectl []figures) {
	fmt.Fprintf(out, "Rounds: %d, means of times\n\n| | the add-on | kubectl apply | ratio |\n|---|---|---|---|\n", len(addOn))
	for _, row := range []struct {
		name string
		of   func(f figures) time.Duration
	}{
		{"from the request to the first answer of a Service", func(f figures) time.Duration { return f.firstAnswer }},
		{"answer of a Service without pods", func(f figures) time.Duration { return f.coldStart }},
		{"upgrade from " + firstVersion + " to " + lastVersion, func(f figures) time.Duration { return f.upgrade }},
		{"slowest answer during the upgrade", func(f figures) time.Duration { return f.slowest }},
	} {
		ours, theirs := mean(addOn, row.of), mean(kubectl, row.of)
		fmt.Fprintf(out, "| %s | %s | %s | %.2f |\n", row.name, rounded(ours), rounded(theirs), float64(ours)/float64(theirs))
	}
	fmt.Fprintf(out, "| failed requests during the upgrade | %s | %s | |\n", lost(addOn), lost(kubectl))
}

func mean(all []figures, of func(f figures) time.Duration) time.Duration {
	var sum time.Duration
	for _, f := range all {
		sum += of(f)
	}
	return sum / time.Duration(max(1, len(all)))
}

// lost says how many requests of all rounds have failed.
func lost(all []figures) string {
	failed, requests := 0, 0
	for _, f := range all {
		failed, requests = failed+f.failed, requests+f.requests
	}
	return fmt.Sprintf("%d of %d", failed, requests)
}

// rounded returns a duration in seconds with two digits.
func rounded(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }
