// Copyright Contributors to the Open Cluster Management project

package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/lab"
)

// load is what a fleet of some size has cost.
type load struct {
	ready value         // from the first apply to the last Ready, summed up over the steps
	cpu   time.Duration // of the manager for all installations so far
	rss   value
}

// fleetPatience is how long a manager may take for the spokes of one step.
const fleetPatience = 10 * time.Minute

// fleets has each side install Serving on more and more light spokes, in a lab of its own. A side that does not finish a
// step gets no more spokes.
func fleets(ctx context.Context, opts options) ([]row, error) {
	var loads [2][]load
	for i, start := range starts() {
		var err error
		if loads[i], err = fleet(ctx, start, opts.spokes); err != nil {
			return nil, err
		}
	}
	var rows []row
	for i, n := range opts.spokes[:min(len(loads[0]), len(loads[1]))] {
		ours, theirs := loads[0][i], loads[1][i]
		of := "1 spoke"
		if n > 1 {
			of = fmt.Sprintf("%d spokes", n)
		}
		rows = append(rows,
			row{what: "CPU until Serving is Ready on " + of, ours: duration(ours.cpu), theirs: duration(theirs.cpu), unit: seconds},
			row{what: "RSS with " + of, ours: ours.rss, theirs: theirs.rss, unit: megabytes, goal: goalMemory},
			row{what: "time until all are Ready, up to " + of, ours: ours.ready, theirs: theirs.ready, unit: seconds},
		)
	}
	return rows, nil
}

func fleet(ctx context.Context, start func(context.Context, *lab.Lab) (*side, error), sizes []int) (loads []load, err error) {
	l, err := lab.New(ctx, lab.Options{Log: os.Stderr})
	if err != nil {
		return nil, err
	}
	defer func() { err = end(l, err) }()
	s, err := start(ctx, l)
	if err != nil {
		return nil, err
	}
	var all load
	have := 0
	for _, n := range sizes {
		added, err := l.AddLightSpokes(ctx, n-have)
		if err != nil {
			return nil, err
		}
		have = n
		step, err := s.grow(ctx, added)
		if err != nil {
			return nil, err
		}
		all = load{
			ready: value{number: all.ready.number + step.ready.number, atLeast: step.ready.atLeast}, cpu: all.cpu + step.cpu, rss: step.rss,
		}
		loads = append(loads, all)
		progress("%s with %d spokes: %s, CPU %.1f s, RSS %s", s.name, n, all.ready.text(seconds), all.cpu.Seconds(), all.rss.text(megabytes))
		if all.ready.atLeast {
			return loads, keepLogs(l)
		}
	}
	return loads, nil
}

// grow installs Serving on further spokes.
func (s *side) grow(ctx context.Context, added []*lab.Cluster) (load, error) {
	names := make([]string, len(added))
	for i, c := range added {
		names[i] = c.Name
		if err := s.publish(ctx, c); err != nil {
			return load{}, err
		}
	}
	if err := pause(ctx, settle); err != nil {
		return load{}, err
	}
	before, err := s.cpu()
	if err != nil {
		return load{}, err
	}
	bounded, cancel := context.WithTimeout(ctx, fleetPatience)
	defer cancel()
	start := time.Now()
	for _, c := range added {
		if err := s.apply(bounded, api.Serving, c); err != nil {
			return load{}, err
		}
	}
	_, err = s.becomes(bounded, true, api.Serving, names...)
	if err != nil && (bounded.Err() == nil || ctx.Err() != nil) {
		return load{}, err
	}
	if err != nil {
		progress("not all are Ready: %v", err)
	}
	ready := duration(time.Since(start))
	ready.atLeast = err != nil
	if err := pause(ctx, settle); err != nil {
		return load{}, err
	}
	after, err := s.cpu()
	if err != nil {
		return load{}, err
	}
	rss, err := s.memory()
	return load{ready: ready, cpu: after - before, rss: rss}, err
}
