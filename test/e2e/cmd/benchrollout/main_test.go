// Copyright Contributors to the Open Cluster Management project

package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/lab"
)

func TestChoose(t *testing.T) {
	for name, c := range map[string]struct {
		parts, components, compare string
		invalid                    bool
	}{
		"all":                     {parts: "edit,rest,restart,partition,fleet,push", components: "knative-serving,knative-eventing", compare: "same,serving,whole"},
		"nothing":                 {components: "knative-eventing"},
		"an unknown part":         {parts: "edit,pause", components: "knative-serving", invalid: true},
		"an unknown component":    {components: "knative-functions", invalid: true},
		"an unknown comparison":   {components: "knative-serving", compare: "half", invalid: true},
		"an edit without Serving": {parts: "edit", components: "knative-eventing", invalid: true},
	} {
		t.Run(name, func(t *testing.T) {
			var o options
			if err := o.choose(c.parts, c.components, c.compare); (err != nil) != c.invalid {
				t.Errorf("error is %v", err)
			}
		})
	}
	var o options
	if err := o.choose("rest", "knative-serving", "same"); err != nil || !o.has(partRest) || o.has(partEdit) ||
		!slices.Equal(o.components, []api.Component{api.Serving}) {
		t.Errorf("the options are %v with error %v", o, err)
	}
}

func TestPerCluster(t *testing.T) {
	u := usage{writes: map[lab.Write]int{
		{Account: ourAccount + "manager", Verb: "patch", Resource: "manifestworks"}:  20,
		{Account: ourAccount + "local", Verb: "patch", Resource: "manifestworks"}:    5,
		{Account: ourAccount + "manager", Verb: "create", Resource: "events"}:        1,
		{Account: ourAccount + "manager", Verb: "update", Resource: "leases"}:        9,
		{Account: ourAccount + "manager", Verb: "delete", Resource: "manifestworks"}: 0,
		{Account: ocmAccount + "work", Verb: "patch", Resource: "manifestworks"}:     7,
	}}
	if got, want := u.perCluster(ourAccount, 10), "create events 0.10, patch manifestworks 2.50"; got != want {
		t.Errorf("the writes for each cluster are %q, want %q", got, want)
	}
}

// TestEditRows holds that the table compares an edit with the bare client, and shows OCM's share of the CPU of both.
func TestEditRows(t *testing.T) {
	f := &fleet{opts: options{compare: []string{"same"}}, clusters: []string{"cluster001", "cluster002"}}
	used := usage{cpu: map[string]time.Duration{"hub-apiserver": 3 * time.Second, "ocm-addon": 200 * time.Millisecond, "ocm-webhooks": 400 * time.Millisecond}}
	bare := bareEdit{written: 10 * time.Second, applied: 12 * time.Second, shares: cpuShares{all: time.Second, ocm: 20 * time.Millisecond}}
	for written, missed := range map[time.Duration]bool{13 * time.Second: false, 14 * time.Second: true} {
		rows := f.editRows([]edit{{written: written, completed: 15 * time.Second, shares: used.shares()}}, map[string][]bareEdit{"same": {bare}}, 100)
		var shares []string
		applied := ""
		for _, r := range rows {
			if strings.HasPrefix(r.what, "... until the agent has applied") {
				applied = r.value + ", " + r.goal
			}
			if strings.Contains(r.what, "of this OCM's") {
				shares = append(shares, r.value)
			}
			if strings.HasPrefix(r.what, "bare client") && r.missed != missed {
				t.Errorf("after %s the goal is missed: %v, want %v", written, r.missed, missed)
			}
		}
		if want := "12.00 s, ours takes 1.25 times that until OCM calls the last one completed"; applied != want {
			t.Errorf("the works of the bare client are applied after %q, want %q", applied, want)
		}
		if want := []string{"1800 ms, 300 ms", "500 ms, 10 ms"}; !slices.Equal(shares, want) {
			t.Errorf("the shares are %q, want %q", shares, want)
		}
	}
}

func TestMixedRows(t *testing.T) {
	m := &mixedFleet{fleet: &fleet{opts: options{clusters: 1, spokes: 1}, clusters: []string{"cluster001", "spoke001"}}}
	edits := func(updated, cpu time.Duration) []mixedEdit {
		return []mixedEdit{{updated: updated, cpu: cpu}, {updated: time.Hour, cpu: time.Hour}, {}} // the median counts
	}
	for name, tc := range map[string]struct {
		one    []mixedEdit
		missed []string
	}{
		"both goals are reached": {one: edits(13*time.Second, 26*time.Second)},
		"the time is missed":     {one: edits(14*time.Second, 26*time.Second), missed: []string{"edit of the same line of one KnativeFleet: last cluster updated"}},
		"the CPU is missed":      {one: edits(13*time.Second, 27*time.Second), missed: []string{"... the manager's CPU for each cluster"}},
	} {
		var missed []string
		for _, r := range m.mixedRows(time.Second, edits(10*time.Second, 20*time.Second), tc.one) {
			if r.missed {
				missed = append(missed, r.what)
			}
		}
		if !slices.Equal(missed, tc.missed) {
			t.Errorf("%s: missed are %q", name, missed)
		}
	}
}

func TestHubs(t *testing.T) {
	for name, tc := range map[string]struct {
		parts  []string
		inTurn int
		beside bool
	}{
		"an installation alone":           {nil, 1, false},
		"parts of one fleet":              {[]string{partEdit, partRest}, 1, false},
		"a KnativeFleet":                  {[]string{partFleet}, 1, false},
		"clusters without a work agent":   {[]string{partPush}, 0, true},
		"both hubs of their own":          {[]string{partFleet, partPush}, 1, true},
		"managed clusters and a hub more": {[]string{partRest, partPush}, 1, true},
	} {
		if inTurn, beside := (options{parts: tc.parts}).hubs(); len(inTurn) != tc.inTurn || (beside != nil) != tc.beside {
			t.Errorf("%s: %d measurements in turn, and one beside: %v", name, len(inTurn), beside != nil)
		}
	}
}

// TestMeasureHubs holds that the measurement beside the others begins at the rest of the first hub, or last, and not after an error.
func TestMeasureHubs(t *testing.T) {
	failure := errors.New("failure")
	for name, tc := range map[string]struct {
		rests bool
		err   error
		want  []string
	}{
		"the first hub rests":             {rests: true, want: []string{"beside", "first", "second"}},
		"no hub rests":                    {want: []string{"first", "second", "beside"}},
		"the first hub fails":             {err: failure, want: []string{"first"}},
		"the first hub fails in the rest": {rests: true, err: failure, want: []string{"beside", "first"}},
	} {
		var order []string
		began := make(chan struct{})
		note := func(what string) []row {
			order = append(order, what)
			return []row{{what: what}}
		}
		first := func(_ context.Context, opts options) ([]row, error) {
			if tc.rests {
				opts.beginRest()
				<-began
			}
			return note("first"), tc.err
		}
		second := func(context.Context, options) ([]row, error) { return note("second"), nil }
		beside := func(context.Context, options) ([]row, error) {
			defer close(began)
			return note("beside"), nil
		}
		rows, err := measureHubs(t.Context(), options{}, []measurement{first, second}, beside)
		if !slices.Equal(order, tc.want) || len(rows) != len(tc.want) || !errors.Is(err, tc.err) {
			t.Errorf("%s: order %q, %d rows, error %v", name, order, len(rows), err)
		}
	}
}

func TestPushRows(t *testing.T) {
	m := &mixedFleet{fleet: &fleet{opts: options{rest: 2 * time.Minute}, clusters: make([]string, 1000)}}
	good := pushRest{took: 100 * time.Second, cpu: 10 * time.Second, rss: 500, peak: 900, requests: 10000}
	for name, tc := range map[string]struct {
		change func(*pushRest)
		missed string
	}{
		"every goal is reached":       {func(*pushRest) {}, ""},
		"the CPU is missed":           {func(r *pushRest) { r.cpu += time.Second }, "the manager's CPU in 1m0s of rest"},
		"the memory is missed":        {func(r *pushRest) { r.rss++ }, "... the manager's RSS"},
		"the requests are missed":     {func(r *pushRest) { r.requests += 100 }, "... requests a second to all clusters"},
		"a write to the hub":          {func(r *pushRest) { r.writes++ }, "... the manager's writes to the hub"},
		"a write to a remote cluster": {func(r *pushRest) { r.clusterWrites++ }, "... writes to the clusters"},
	} {
		rest := good
		tc.change(&rest)
		var missed []string
		for _, r := range m.pushRows(time.Minute, time.Minute, rest) {
			if r.missed {
				missed = append(missed, r.what)
			}
		}
		if got := strings.Join(missed, "; "); got != tc.missed {
			t.Errorf("%s: missed are %q, want %q", name, got, tc.missed)
		}
	}
}

func TestIsReady(t *testing.T) {
	ready := func(generation, observed int64, status string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"generation": generation},
			"status":   map[string]any{"observedGeneration": observed, "conditions": []any{map[string]any{"type": "Ready", "status": status}}},
		}}
	}
	for name, tc := range map[string]struct {
		object *unstructured.Unstructured
		want   bool
	}{
		"Ready":                          {ready(2, 2, "True"), true},
		"Ready at an earlier generation": {ready(2, 1, "True"), false},
		"not Ready":                      {ready(2, 2, "False"), false},
		"no status":                      {&unstructured.Unstructured{Object: map[string]any{}}, false},
	} {
		if got := isReady(tc.object); got != tc.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}
