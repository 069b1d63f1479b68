// Copyright Contributors to the Open Cluster Management project

// Command benchrollout measures what a fleet of many managed clusters costs: on a real hub with OCM's controllers and the
// real manager it installs Serving and Eventing by Placement on clusters that are only ManagedClusters and whose work agents
// are played, edits one line of the configuration, and rests. The edit is compared with a bare client that writes the same
// works, and with one that writes the whole installation as one work. It ends with a table, and with an error when a goal
// is missed. Figures of one run belong together; times alone depend on the machine.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// options are the flags.
type options struct {
	clusters, rounds int
	parts            []string
	// rest is how long nothing happens while writes are counted.
	rest time.Duration
}

// Parts of the benchmark, which come after the installation.
const (
	partEdit = "edit"
	partRest = "rest"
)

func main() {
	opts, err := parse()
	if err != nil {
		fmt.Fprintf(os.Stderr, "benchrollout: %v\n", err)
		os.Exit(2)
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx, opts); err != nil {
		fmt.Fprintf(os.Stderr, "benchrollout: %v\n", err)
		os.Exit(1) //nolint:gocritic // nothing is left to clean up
	}
}

func parse() (options, error) {
	var opts options
	parts := flag.String("parts", partEdit+","+partRest, "what is measured after the installation: an edit, and what is written at rest")
	flag.IntVar(&opts.clusters, "clusters", 200, "how many managed clusters are played")
	flag.IntVar(&opts.rounds, "rounds", 3, "how often everything is edited; the medians count")
	flag.DurationVar(&opts.rest, "rest", 10*time.Minute, "how long writes at rest are counted")
	flag.Parse()
	if opts.clusters < 1 || opts.rounds < 1 {
		return opts, errors.New("-clusters and -rounds have to be above 0")
	}
	opts.parts = strings.Split(*parts, ",")
	for _, p := range opts.parts {
		if p != "" && p != partEdit && p != partRest {
			return opts, fmt.Errorf("there is no part %q", p)
		}
	}
	return opts, nil
}

func run(ctx context.Context, opts options) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f, err := newFleet(ctx, opts)
	if err != nil {
		return err
	}
	defer func() {
		cancel() // first what is played
		err = f.end(err)
	}()
	rows, err := f.install(ctx)
	for _, part := range []func(context.Context) ([]row, error){f.edits, f.rests} {
		if err != nil {
			break
		}
		var more []row
		more, err = part(ctx)
		rows = append(rows, more...)
	}
	return errors.Join(err, f.agents.err(), report(os.Stdout, rows))
}

func (o options) has(part string) bool { return slices.Contains(o.parts, part) }

// progress says what is going on.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s benchrollout: %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}

// pause waits.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
