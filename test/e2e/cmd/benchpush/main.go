// Copyright Contributors to the Open Cluster Management project

// Command benchpush measures push mode against the Knative Operator in multi-cluster mode. Both manage equal clusters of
// one lab at the same time, each with a hub of its own, and are given the same resources, the same access provider plugin
// and the same release manifests. It ends with a table, and with an error when a goal is missed. Figures of one run belong
// together; times alone depend on the machine.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// options are the flags.
type options struct {
	parts []string
	// rest is how long nothing happens while requests are counted.
	rest time.Duration
	// repair and detect are for how long the Knative Operator is waited for at the least. It is always waited for until the
	// goal is reached or missed.
	repair, detect time.Duration
	// spokes are the sizes of the fleet.
	spokes []int
}

// Parts of the benchmark.
const (
	partSpoke = "spoke"
	partFleet = "fleet"
)

func main() {
	opts, err := parse()
	if err != nil {
		fmt.Fprintf(os.Stderr, "benchpush: %v\n", err)
		os.Exit(2)
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx, opts); err != nil {
		fmt.Fprintf(os.Stderr, "benchpush: %v\n", err)
		os.Exit(1) //nolint:gocritic // nothing is left to clean up
	}
}

func parse() (options, error) {
	var opts options
	parts := flag.String("parts", partSpoke+","+partFleet, "what is measured: one spoke with all its components, and fleets of light spokes")
	spokes := flag.String("spokes", "1,10,30", "sizes of the fleets")
	quick := flag.Bool("quick", false, "a short run: other defaults of rest, repair, detect and spokes")
	flag.DurationVar(&opts.rest, "rest", 10*time.Minute, "how long requests at rest are counted; the Knative Operator works every 10 minutes")
	flag.DurationVar(&opts.repair, "repair", 11*time.Minute, "for how long the Knative Operator's repair is waited for at the least")
	flag.DurationVar(&opts.detect, "detect", 2*time.Minute, "for how long the Knative Operator's notice of a dead spoke is waited for at the least")
	flag.Parse()
	if *quick {
		short := map[string]string{"rest": "1m", "repair": "0s", "detect": "0s", "spokes": "1,3"}
		flag.Visit(func(f *flag.Flag) { delete(short, f.Name) })
		for name, value := range short {
			if err := flag.Set(name, value); err != nil {
				return opts, fmt.Errorf("cannot set -%s: %w", name, err)
			}
		}
	}
	opts.parts = strings.Split(*parts, ",")
	for s := range strings.SplitSeq(*spokes, ",") {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			return opts, fmt.Errorf("cannot read -spokes %q: use numbers above 0, as in 1,10", *spokes)
		}
		opts.spokes = append(opts.spokes, n)
	}
	slices.Sort(opts.spokes)
	return opts, nil
}

func run(ctx context.Context, opts options) error {
	var rows []row
	for _, part := range opts.parts {
		measure, ok := map[string]func(context.Context, options) ([]row, error){partSpoke: oneSpoke, partFleet: fleets}[part]
		if !ok {
			return fmt.Errorf("there is no part %q", part)
		}
		more, err := measure(ctx, opts)
		rows = append(rows, more...)
		if err != nil {
			return errors.Join(fmt.Errorf("part %q: %w", part, err), report(os.Stdout, rows))
		}
	}
	return report(os.Stdout, rows)
}

// progress says what is going on.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s benchpush: %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}
