// Copyright Contributors to the Open Cluster Management project

package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/e2e/harness/memoryspoke"
)

// Goals of a manager with clusters without a work agent. The goal of a thousand clusters is a resident set of 500 MB.
const (
	// goalPushMemory is the resident set without clusters, goalPushClusterMemory the memory of each cluster, in MB.
	goalPushMemory        = 140
	goalPushClusterMemory = 0.36
	// goalPushRequests is the number of requests a second to each cluster at rest.
	goalPushRequests = 0.1
)

// pushSettle is the time after an installation until the manager polls a cluster rarely. The longest interval of a large fleet is longer.
const pushSettle = 8 * time.Minute

// push measures clusters without a work agent, on a hub without managed clusters.
func push(ctx context.Context, opts options) ([]row, error) {
	opts.clusters = 0
	return measureMixedFleet(ctx, opts, (*mixedFleet).installAndRest)
}

// pushRest is the use of the manager while nothing changes.
type pushRest struct {
	took, cpu time.Duration
	// rss is the resident set at the end, peak the largest since the start of the manager, in MB.
	rss, peak float64
	// requests counts the requests to all clusters, writes the writes to the hub, and clusterWrites the writes to the clusters.
	requests, writes, clusterWrites int
}

// installAndRest installs on every cluster, and measures the rest.
func (m *mixedFleet) installAndRest(ctx context.Context) ([]row, error) {
	before, err := m.usage()
	if err != nil {
		return nil, err
	}
	installed, err := m.install(ctx)
	if err != nil {
		return nil, err
	}
	if err := m.calm(ctx); err != nil {
		return nil, err
	}
	used, err := m.usedSince(before)
	if err != nil {
		return nil, err
	}
	progress("installed on %d clusters in %.1f s; %s", len(m.clusters), installed.Seconds(), used)
	rest, err := m.measureRest(ctx)
	return m.pushRows(installed, used.cpu[harness.Manager], rest), err
}

// restTime is half of the rest of managed clusters: the time until the polls are rare comes on top.
func (m *mixedFleet) restTime() time.Duration { return m.opts.rest / 2 }

// measureRest measures a rest, which begins when the manager polls the clusters at the longest interval.
func (m *mixedFleet) measureRest(ctx context.Context) (pushRest, error) {
	progress("%s until the polls are rare, then a rest of %s", pushSettle, m.restTime())
	if err := pause(ctx, pushSettle); err != nil {
		return pushRest{}, err
	}
	before, err := m.usage()
	if err != nil {
		return pushRest{}, err
	}
	var writes atomic.Int64
	defer m.writes.AddWatcher(func(memoryspoke.Write) { writes.Add(1) })()
	requests, start := m.countRequests(), time.Now()
	defer m.profile(ctx, "profile?seconds=60", "push-rest.cpu")()
	if err := pause(ctx, m.restTime()); err != nil {
		return pushRest{}, err
	}
	used, err := m.usedSince(before)
	if err != nil {
		return pushRest{}, err
	}
	progress("rest: %s", used)
	out := pushRest{
		took: time.Since(start), cpu: used.cpu[harness.Manager],
		requests: m.countRequests() - requests, writes: used.written(ourAccount), clusterWrites: int(writes.Load()),
	}
	pid, err := harness.PID(m.Lab, harness.Manager)
	if err != nil {
		return out, err
	}
	if out.rss, err = harness.Memory(pid); err != nil {
		return out, err
	}
	if out.peak, err = harness.PeakMemory(pid); err != nil {
		return out, err
	}
	return out, m.saveProfile(ctx, "heap?gc=1", "push-rest.heap")
}

// countRequests returns the number of requests that the clusters without a work agent have got.
func (m *mixedFleet) countRequests() int {
	sum := 0
	for _, s := range m.spokes {
		sum += s.CountRequests()
	}
	return sum
}

func (m *mixedFleet) pushRows(installed, cpu time.Duration, rest pushRest) []row {
	core := 100 * rest.cpu.Seconds() / rest.took.Seconds()
	memory := goalPushMemory + goalPushClusterMemory*float64(len(m.clusters))
	requests := float64(rest.requests) / rest.took.Seconds()
	mostRequests := goalPushRequests * float64(len(m.clusters))
	return []row{
		{what: fmt.Sprintf("first installation on %d clusters without a work agent: all are Ready", len(m.clusters)), value: seconds(installed)},
		{what: "... the manager's CPU for each cluster", value: milliseconds(m.ofEach(cpu))},
		{
			what: fmt.Sprintf("the manager's CPU in %s of rest", m.restTime()), value: fmt.Sprintf("%.1f %% of a core", core),
			goal: fmt.Sprintf("at most %d %%", goalRestCPU), missed: core > goalRestCPU,
		},
		{
			what: "... the manager's RSS", value: fmt.Sprintf("%.0f MB", rest.rss),
			goal: fmt.Sprintf("at most %.0f MB", memory), missed: rest.rss > memory,
		},
		{what: "... the manager's largest RSS", value: fmt.Sprintf("%.0f MB", rest.peak)},
		{
			what: "... requests a second to all clusters", value: fmt.Sprintf("%.1f", requests),
			goal: fmt.Sprintf("at most %.0f", mostRequests), missed: requests > mostRequests,
		},
		{what: "... the manager's writes to the hub", value: fmt.Sprint(rest.writes), goal: "0", missed: rest.writes != 0},
		{what: "... writes to the clusters", value: fmt.Sprint(rest.clusterWrites), goal: "0", missed: rest.clusterWrites != 0},
	}
}
