// Copyright Contributors to the Open Cluster Management project

package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
)

// benchmark is the name of this program among the components.
const benchmark = "benchmark"

// usage is what has been used and written so far, or since some other usage.
type usage struct {
	cpu    map[string]time.Duration // by the name of the program: a component of the lab, or benchmark
	writes map[lab.Write]int
}

// usage reads what has been used so far.
func (f *fleet) usage() (usage, error) {
	pids := map[string]int{benchmark: os.Getpid()}
	for _, c := range f.Components() {
		pids[c.Name] = c.PID
	}
	out := usage{cpu: map[string]time.Duration{}}
	for name, pid := range pids {
		var err error
		if out.cpu[name], err = harness.CPU(pid); err != nil {
			return out, fmt.Errorf("cannot measure %s: %w", name, err)
		}
	}
	var err error
	out.writes, err = f.Writes()
	return out, err
}

// memory lists the resident sets of the components, the largest first.
func (f *fleet) memory() (string, error) {
	rss := map[string]float64{}
	for _, c := range f.Components() {
		if c.PID == 0 {
			continue
		}
		var err error
		if rss[c.Name], err = harness.Memory(c.PID); err != nil {
			return "", fmt.Errorf("cannot measure %s: %w", c.Name, err)
		}
	}
	var out []string
	for _, name := range slices.SortedFunc(maps.Keys(rss), func(a, b string) int { return int(rss[b] - rss[a]) }) {
		out = append(out, fmt.Sprintf("%s %.0f MB", name, rss[name]))
	}
	return strings.Join(out, ", "), nil
}

// usedSince returns the usage between an earlier reading and now. The CPU of a program includes its ended child processes.
func (f *fleet) usedSince(before usage) (usage, error) {
	now, err := f.usage()
	for name := range now.cpu {
		now.cpu[name] -= before.cpu[name]
	}
	for w := range now.writes {
		now.writes[w] -= before.writes[w]
	}
	return now, err
}

// cpuShares holds two sums of CPU time: of all components of the lab and the benchmark, and of OCM's controllers and webhooks alone.
type cpuShares struct{ all, ocm time.Duration }

// shares sums the CPU time. The names of OCM's components begin with "ocm-".
func (u usage) shares() (out cpuShares) {
	for name, cpu := range u.cpu {
		out.all += cpu
		if strings.HasPrefix(name, "ocm-") {
			out.ocm += cpu
		}
	}
	return out
}

// String names the components that have used the most, and the requests of ours and OCM's.
func (u usage) String() string {
	var components, writes []string
	for _, name := range slices.SortedFunc(maps.Keys(u.cpu), func(a, b string) int { return int(u.cpu[b] - u.cpu[a]) }) {
		if u.cpu[name] >= 100*time.Millisecond {
			components = append(components, fmt.Sprintf("%s %.1f s", name, u.cpu[name].Seconds()))
		}
	}
	for w, n := range u.writes {
		if n > 0 && (isOf(w, ourAccount) || isOf(w, ocmAccount)) {
			writes = append(writes, fmt.Sprintf("%s %s %s %d", w.Account, w.Verb, w.Resource, n))
		}
	}
	slices.Sort(writes)
	return fmt.Sprintf("CPU: %s; writes: %s", strings.Join(components, ", "), strings.Join(writes, ", "))
}

// Prefixes of the ServiceAccounts of the manager and of OCM's controllers.
const (
	ourAccount = harness.Namespace + ":"
	ocmAccount = "open-cluster-management-hub:"
)

func isOf(w lab.Write, accounts string) bool { return strings.HasPrefix(w.Account, accounts) }

// perCluster lists the writes of the accounts, divided by the number of clusters, apart from leases.
func (u usage) perCluster(accounts string, clusters int) string {
	count := map[string]int{}
	for w, n := range u.writes {
		if n > 0 && isOf(w, accounts) && w.Resource != "leases" {
			count[w.Verb+" "+w.Resource] += n
		}
	}
	out := make([]string, 0, len(count))
	for _, kind := range slices.Sorted(maps.Keys(count)) {
		out = append(out, fmt.Sprintf("%s %.2f", kind, float64(count[kind])/float64(clusters)))
	}
	return strings.Join(out, ", ")
}

// written counts the writes of the accounts, apart from the Leases with which the replicas of a controller elect a leader: the number of clusters does
// not change the writes of these Leases.
func (u usage) written(accounts string) int {
	sum := 0
	for w, n := range u.writes {
		if isOf(w, accounts) && w.Resource != "leases" {
			sum += n
		}
	}
	return sum
}
