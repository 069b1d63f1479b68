// Copyright Contributors to the Open Cluster Management project

package main

import (
	"context"
	"fmt"
	"time"

	"open-cluster-management.io/knative-addon/test/e2e/harness"
)

// goalRest is the rest in which the manager may write nothing. The caches of the manager hand each object to the controllers again once in this time.
const goalRest = 10 * time.Minute

// goalRestCPU is the percentage of a core that the manager may use at rest.
const goalRestCPU = 10

// rests counts the writes of the manager and of OCM's controllers to a hub at rest.
func (f *fleet) rests(ctx context.Context) ([]row, error) {
	if !f.opts.has(partRest) {
		return nil, nil
	}
	if err := f.calm(ctx); err != nil {
		return nil, err
	}
	progress("rest of %s", f.opts.rest)
	f.opts.beginRest()
	before, err := f.usage()
	if err != nil {
		return nil, err
	}
	if err := pause(ctx, f.opts.rest); err != nil {
		return nil, err
	}
	used, err := f.usedSince(before)
	if err != nil {
		return nil, err
	}
	progress("rest: %s", used)
	r := row{what: fmt.Sprintf("the manager's writes in %s of rest", f.opts.rest), value: fmt.Sprint(used.written(ourAccount))}
	if f.opts.rest >= goalRest {
		r.goal, r.missed = "0", used.written(ourAccount) != 0
	}
	if err := f.saveProfile(ctx, "heap?gc=1", "rest.heap"); err != nil {
		return nil, err
	}
	memory, err := f.memory()
	if err != nil {
		return nil, err
	}
	core := 100 * used.cpu[harness.Manager].Seconds() / f.opts.rest.Seconds()
	return []row{
		r,
		{what: "... the manager's CPU", value: fmt.Sprintf("%.1f %% of a core", core), goal: fmt.Sprintf("at most %d %%", goalRestCPU), missed: core > goalRestCPU},
		// After part edit, the hub has the works of the bare client too.
		{what: "... RSS of the manager and of the hub's components", value: memory},
		{what: "... the writes of OCM's controllers", value: fmt.Sprint(used.written(ocmAccount))},
		{what: "... the manager's CPU for each cluster", value: milliseconds(f.ofEach(used.cpu[harness.Manager]))},
	}, nil
}
