// Copyright Contributors to the Open Cluster Management project

// Command benchrollout measures the cost of a fleet of many managed clusters. A real hub runs OCM's controllers and the manager. The
// managed clusters are ManagedClusters without nodes, and the command plays their work agents. The command installs Serving and Eventing by
// Placements, edits one line of the configuration, and counts the writes at rest. For comparison with the edit, one client writes the same
// works without a manager, and another client writes the whole installation as one work. The command prints a table, and ends with an
// error when the fleet misses a goal. On another hub, the command compares an edit of one KnativeFleet, with as many clusters without a
// work agent that run in memory, with the same edit of each KnativeServing. Flag -parts selects further parts: a restart of the manager,
// clusters that become unreachable, and on a further hub, a fleet of clusters without a work agent that all run in memory.
// Compare only figures of the same run; times depend on the machine.
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
	"sync"
	"syscall"
	"time"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// options are the flags.
type options struct {
	clusters, spokes, rounds int
	// watched is --watched-clusters of the manager of part push; negative keeps the default of the manager.
	watched        int
	components     []api.Component
	parts, compare []string
	// rest is how long nothing happens while writes are counted.
	rest time.Duration
	// profiles is the directory for the manager's profiles; empty means that no profile is taken.
	profiles string
	// beginRest starts the measurement that takes place beside the rest of the managed clusters.
	beginRest func()
}

// Parts of the benchmark, which come after the installation. partFleet and partPush have hubs of their own.
const (
	partEdit      = "edit"
	partRest      = "rest"
	partRestart   = "restart"
	partPartition = "partition"
	partFleet     = "fleet"
	partPush      = "push"
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
		os.Exit(1) //nolint:gocritic // run has ended all programs
	}
}

func parse() (options, error) {
	var opts options
	parts := flag.String("parts", partEdit+","+partRest+","+partFleet,
		"what is measured after the installation: an edit, what is written at rest, a restart of the manager, a partition of 30 % of the clusters, "+
			"on a hub of its own, an edit of a KnativeFleet of managed clusters and clusters without a work agent, "+
			"and on another hub, an installation without work agents and its rest")
	components := flag.String("components", string(api.Serving)+","+string(api.Eventing), "which components are installed; an edit needs knative-serving")
	compare := flag.String("compare", "same,serving,whole", "with which works of a bare client an edit is compared")
	flag.StringVar(&opts.profiles, "profiles", "", "directory for profiles of the manager's heap, at rest, and of the manager's CPU, during an edit")
	flag.IntVar(&opts.clusters, "clusters", 200, "how many managed clusters are played")
	flag.IntVar(&opts.spokes, "spokes", 200, "how many clusters without a work agent run in the memory of this process: "+
		"beside the managed clusters in part fleet, alone in part push")
	flag.IntVar(&opts.watched, "watched", -1, "flag --watched-clusters of the manager in part push; a negative number keeps the manager's default")
	flag.IntVar(&opts.rounds, "rounds", 3, "how often everything is edited; the medians count")
	flag.DurationVar(&opts.rest, "rest", 10*time.Minute, "how long writes at rest are counted; half of the time in part push")
	flag.Parse()
	if opts.clusters < 1 || opts.spokes < 1 || opts.rounds < 1 {
		return opts, errors.New("-clusters, -spokes and -rounds have to be above 0")
	}
	if err := opts.choose(*parts, *components, *compare); err != nil || opts.profiles == "" {
		return opts, err
	}
	return opts, os.MkdirAll(opts.profiles, 0o750)
}

// choose reads the flags that are lists.
func (o *options) choose(parts, components, compare string) error {
	var sets []string
	for _, s := range bareSets() {
		sets = append(sets, s.name)
	}
	var names []string
	var errs [3]error
	o.parts, errs[0] = split(parts, "part", []string{partEdit, partRest, partRestart, partPartition, partFleet, partPush})
	names, errs[1] = split(components, "component", []string{string(api.Serving), string(api.Eventing)})
	o.compare, errs[2] = split(compare, "comparison", sets)
	for _, name := range names {
		o.components = append(o.components, api.Component(name))
	}
	if o.has(partEdit) && !slices.Contains(o.components, api.Serving) {
		return errors.New("an edit changes a KnativeServing: -components needs knative-serving")
	}
	return errors.Join(errs[:]...)
}

// split returns the words of a list, which all have to be known.
func split(list, what string, known []string) ([]string, error) {
	var out []string
	for word := range strings.SplitSeq(list, ",") {
		if word != "" && !slices.Contains(known, word) {
			return nil, fmt.Errorf("there is no %s %q", what, word)
		}
		if word != "" {
			out = append(out, word)
		}
	}
	return out, nil
}

func run(ctx context.Context, opts options) error {
	inTurn, beside := opts.hubs()
	rows, err := measureHubs(ctx, opts, inTurn, beside)
	return errors.Join(err, report(os.Stdout, rows))
}

// measurement starts a hub, measures, stops the hub, and returns the rows of the report.
type measurement func(context.Context, options) ([]row, error)

// hubs returns the measurements that the parts select. The measurements in turn take place one after another, beside starts when the managed
// clusters begin to rest, or after the others: both hubs mostly wait from then on. beside is nil without part push.
func (o options) hubs() (inTurn []measurement, beside measurement) {
	withoutHub := func(part string) bool { return part != partFleet && part != partPush }
	if len(o.parts) == 0 || slices.ContainsFunc(o.parts, withoutHub) {
		inTurn = append(inTurn, managed)
	}
	if o.has(partFleet) {
		inTurn = append(inTurn, mixed)
	}
	if o.has(partPush) {
		beside = push
	}
	return inTurn, beside
}

// measureHubs returns the rows of all measurements. After an error, no further measurement begins.
func measureHubs(ctx context.Context, opts options, inTurn []measurement, beside measurement) (rows []row, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var last []row
	var lastErr error
	ended := make(chan struct{})
	opts.beginRest = sync.OnceFunc(func() {
		go func() {
			defer close(ended)
			if beside != nil && ctx.Err() == nil {
				last, lastErr = beside(ctx, opts)
			}
		}()
	})
	for _, measure := range inTurn {
		var more []row
		more, err = measure(ctx, opts)
		if rows = append(rows, more...); err != nil {
			cancel()
			break
		}
	}
	opts.beginRest()
	<-ended
	return append(rows, last...), errors.Join(err, lastErr)
}

// managed measures a fleet of managed clusters that Placements select.
func managed(ctx context.Context, opts options) (rows []row, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f, err := newFleet(ctx, opts)
	if err != nil {
		return nil, err
	}
	defer func() {
		cancel() // the played agents end before the lab
		err = f.end(err)
	}()
	if rows, err = f.install(ctx); err != nil {
		return rows, err
	}
	for _, part := range []func(context.Context) ([]row, error){f.edits, f.rests, f.restarts, f.partitions} {
		if ctx.Err() != nil {
			break
		}
		more, failed := part(ctx)
		if rows = append(rows, more...); failed != nil {
			progress("%v", failed)
		}
		err = errors.Join(err, failed)
	}
	return rows, errors.Join(err, f.agents.Err())
}

// largeFleet is the number of managed clusters from which on the hub is prepared for many.
const largeFleet = 500

func (o options) has(part string) bool { return slices.Contains(o.parts, part) }

// progress writes a line with the time to standard error.
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
