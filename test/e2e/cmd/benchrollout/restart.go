// Copyright Contributors to the Open Cluster Management project

package main

import (
	"context"
	"fmt"
	"time"

	"open-cluster-management.io/knative-addon/test/e2e/harness"
)

// Goals of a manager that starts on a hub with a full fleet.
const (
	goalReady = 30 * time.Second
	// goalMemory is the resident set without clusters, goalClusterMemory what each cluster adds, in MB.
	goalMemory        = 60
	goalClusterMemory = 0.06
)

// restarts starts the manager again on a hub on which nothing changes.
func (f *fleet) restarts(ctx context.Context) ([]row, error) {
	if !f.opts.has(partRestart) {
		return nil, nil
	}
	if err := f.calm(ctx); err != nil {
		return nil, err
	}
	before, err := f.usage()
	if err != nil {
		return nil, err
	}
	if err := f.Stop(harness.Manager); err != nil {
		return nil, err
	}
	start := time.Now()
	if err := f.Start(harness.Manager); err != nil {
		return nil, err
	}
	if err := f.awaitReady(ctx); err != nil {
		return nil, err
	}
	ready := time.Since(start)
	if err := f.awaitIdle(ctx); err != nil {
		return nil, err
	}
	idle := time.Since(start)
	rows, err := f.restartRows(before, ready, idle)
	if err != nil {
		return nil, err
	}
	return rows, f.saveProfile(ctx, "heap?gc=1", "restart.heap")
}

func (f *fleet) restartRows(before usage, ready, idle time.Duration) ([]row, error) {
	used, err := f.usedSince(before)
	if err != nil {
		return nil, err
	}
	pid, err := harness.PID(f.Lab, harness.Manager)
	if err != nil {
		return nil, err
	}
	cpu, err := harness.CPU(pid)
	if err != nil {
		return nil, err
	}
	now, err := harness.Memory(pid)
	if err != nil {
		return nil, err
	}
	peak, err := harness.PeakMemory(pid)
	if err != nil {
		return nil, err
	}
	most := goalMemory + goalClusterMemory*float64(len(f.clusters))
	writes := used.written(ourAccount)
	progress("restart: ready after %.2f s, idle after %.2f s, CPU %.1f s; %s", ready.Seconds(), idle.Seconds(), cpu.Seconds(), used)
	return []row{
		{
			what: fmt.Sprintf("restart of the manager with %d clusters: ready", len(f.clusters)), value: seconds(ready),
			goal: fmt.Sprintf("at most %.0f s", goalReady.Seconds()), missed: ready > goalReady,
		},
		{what: "... the manager's CPU until it is idle", value: seconds(cpu)},
		{what: "... the manager's writes", value: fmt.Sprint(writes), goal: "0", missed: writes != 0},
		{what: "... the manager's RSS", value: fmt.Sprintf("%.0f MB", now), goal: fmt.Sprintf("at most %.0f MB", most), missed: now > most},
		{what: "... the manager's largest RSS", value: fmt.Sprintf("%.0f MB", peak)},
	}, nil
}

// awaitReady waits until the manager's caches are full.
func (f *fleet) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := f.Probe(ctx, harness.Manager, "/readyz")
		if err == nil {
			return nil
		}
		if pause(ctx, poll/10) != nil {
			return fmt.Errorf("the manager does not become ready: %w", err)
		}
	}
}

// awaitIdle waits until the manager uses hardly any CPU for some seconds.
func (f *fleet) awaitIdle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	pid, err := harness.PID(f.Lab, harness.Manager)
	if err != nil {
		return err
	}
	const tenth = quiet / 10
	for last := time.Duration(-1); ; {
		now, err := harness.CPU(pid)
		if err != nil {
			return err
		}
		if last >= 0 && now-last < tenth {
			return nil
		}
		last = now
		if err := pause(ctx, quiet); err != nil {
			return fmt.Errorf("the manager does not become idle: %w", err)
		}
	}
}
