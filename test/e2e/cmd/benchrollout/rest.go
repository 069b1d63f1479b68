// Copyright Contributors to the Open Cluster Management project

package main

import (
	"context"
	"fmt"
	"time"

	"open-cluster-management.io/knative-addon/test/e2e/harness"
)

// goalRest is the rest in which the manager is to write nothing: everything is handed on again once in it.
const goalRest = 10 * time.Minute

// rests counts what is written while nothing happens.
func (f *fleet) rests(ctx context.Context) ([]row, error) {
	if !f.opts.has(partRest) {
		return nil, nil
	}
	if err := f.calm(ctx); err != nil {
		return nil, err
	}
	progress("rest of %s", f.opts.rest)
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
	return []row{
		r,
		{what: "... those of OCM's controllers", value: fmt.Sprint(used.written(ocmAccount))},
		{what: "... the manager's CPU for each cluster", value: milliseconds(f.ofEach(used.cpu[harness.Manager]))},
	}, nil
}
