// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"open-cluster-management.io/knative-addon/test/e2e/harness/invariants"
	"open-cluster-management.io/knative-addon/test/lab"
)

const (
	// restWindow is how long nothing may be written at the end of a story.
	restWindow = 8 * time.Second
	// settleInterval is the time between two checks of a fleet that writes nothing and is not settled yet.
	settleInterval = time.Second
	// convergence is how long the end of a story may take to come to rest, on a loaded machine.
	convergence = loadFactor * 90 * time.Second
)

// storyRecord has the requests that one story has declared, for the checks of the invariants.
type storyRecord struct {
	lab *lab.Lab

	mu sync.Mutex
	// shared are clusters of other labs that the hub of the lab writes to, too.
	shared   []*lab.Cluster
	removals []invariants.RemovalRequest
	// written has the Secrets that the story has written, with values that the story may have replaced since.
	written []invariants.Secret
	// pods are programs of the add-on that have run in pods, as recordPod has read them. None is running.
	pods    []program
	closers []func()
}

// storyRecords are the records of all labs of this run.
var storyRecords sync.Map

// checkInvariants has the invariants checked when the story of the lab has ended. Every lab of this package begins here, so that no
// story leaves out the checks.
func checkInvariants(t *testing.T, l *lab.Lab) {
	t.Helper()
	s := &storyRecord{lab: l}
	storyRecords.Store(l, s)
	t.Cleanup(func() {
		storyRecords.Delete(l)
		s.check(t)
		for _, closer := range s.closers {
			closer()
		}
	})
}

// closeAfterInvariants closes a part of the story, such as a proxy in front of the cluster, after the checks of the invariants. The
// cleanup functions of a story run before the checks.
func closeAfterInvariants(t *testing.T, c *lab.Cluster, closer func()) {
	t.Helper()
	found := false
	storyRecords.Range(func(_, value any) bool {
		s := value.(*storyRecord) //nolint:forcetypeassert // checkInvariants stores nothing else
		if found = c == s.lab.Hub || slices.Contains(s.lab.Clusters(), c); found {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.closers = append(s.closers, closer)
		}
		return !found
	})
	if !found {
		t.Fatalf("no lab has cluster %s", c.Name)
	}
}

func storyOf(t *testing.T, l *lab.Lab) *storyRecord {
	t.Helper()
	s, ok := storyRecords.Load(l)
	if !ok {
		t.Fatal("the lab was not started with ownLab")
	}
	return s.(*storyRecord) //nolint:forcetypeassert // checkInvariants stores nothing else
}

// requestRemoval declares that the story requests, from now on, the removal of CRDs and Namespaces from the cluster.
func requestRemoval(t *testing.T, l *lab.Lab, cluster *lab.Cluster) {
	t.Helper()
	s := storyOf(t, l)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removals = append(s.removals, invariants.RemovalRequest{Cluster: cluster.Name, Since: time.Now()})
}

// checkShared has invariant I7 checked for a cluster of another lab that the hub of the lab writes to, too.
func checkShared(t *testing.T, l *lab.Lab, cluster *lab.Cluster) {
	t.Helper()
	s := storyOf(t, l)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shared = append(s.shared, cluster)
}

// recordSecret keeps the values of a Secret that a story writes: no text may have a value, not even after the story has replaced the value.
func recordSecret(t *testing.T, l *lab.Lab, secret *corev1.Secret) {
	t.Helper()
	s := storyOf(t, l)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written = append(s.written, secretValues("the story", secret)...)
}

// check reports every violation as an error of the test. Invariants of the end of a story need a story that has come to its end.
func (s *storyRecord) check(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*convergence)
	defer cancel()
	start := time.Now()
	passed := !t.Failed()
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []string
	if passed {
		restStory(t)
		var former []string
		if found, former = s.restingViolations(ctx); len(former) > 0 {
			t.Logf("the fleet did not rest until these ended: %q", former)
		}
	}
	found = append(found, s.recordedViolations(ctx)...) // also of the time until the fleet was at rest
	slices.Sort(found)
	for _, v := range slices.Compact(found) {
		t.Errorf("invariant %s", v)
	}
	t.Logf("the invariants took %s", time.Since(start).Round(100*time.Millisecond))
}

// nameViolations names the invariant in each violation. An error is a violation: a check that cannot read proves nothing.
func nameViolations(invariant string, violations []string, err error) []string {
	var out []string
	for _, v := range violations {
		out = append(out, invariant+": "+v)
	}
	if err != nil {
		out = append(out, invariant+" cannot be checked: "+err.Error())
	}
	return out
}

// recordedViolations checks the invariants that hold at any time, also in a story that has failed: the lab has recorded the whole
// story.
func (s *storyRecord) recordedViolations(ctx context.Context) []string {
	var out []string
	for _, c := range append(s.lab.Clusters(), s.lab.Hub) {
		changes, err := c.Changes()
		out = append(out, nameViolations("I1", invariants.KeepUserData(c.Name, c == s.lab.Hub, changes, s.removals), err)...)
		if c == s.lab.Hub {
			out = append(out, nameViolations("I3", invariants.ReportConsistently(changes), nil)...)
		}
	}
	texts, err := s.readTexts(ctx)
	secrets, secretsErr := s.readSecrets(ctx)
	out = append(out, nameViolations("I5", nil, err)...)
	out = append(out, nameViolations("I5", nil, secretsErr)...)
	for _, text := range texts {
		out = append(out, nameViolations("I5", invariants.TellNoSecret(text.where, text.content, secrets), nil)...)
	}
	for _, p := range s.listPrograms() {
		out = append(out, nameViolations("I6", invariants.RunOn(p.Name, p.hasFailed(), p.log), p.logError)...)
		out = append(out, nameViolations("I9", invariants.EndRefusals(p.Name, p.log), nil)...)
		peak, err := p.peakMemory()
		out = append(out, nameViolations("I8", invariants.StayBounded(p.Name, peak), err)...)
	}
	return out
}

// restingViolations checks the invariants of a fleet at rest. The story may have ended with a write: the checks are repeated until
// all hold and nothing was written for restWindow, or the fleet has had its time to converge. former are the violations of the check before
// the last.
func (s *storyRecord) restingViolations(ctx context.Context) (found, former []string) {
	if !slices.ContainsFunc(s.listPrograms(), program.isRunning) {
		return nil, nil // the story has stopped the manager, or never started one
	}
	for begin, since := time.Now(), time.Now(); ; {
		former, found = found, s.settledViolations(ctx)
		time.Sleep(max(restWindow-time.Since(since), settleInterval))
		written, last := s.writesSince(since)
		found = append(found, written...)
		found = append(found, s.measuredViolations(ctx)...)
		found = append(found, s.passViolations()...)
		if len(found) == 0 || time.Since(begin) > convergence || ctx.Err() != nil {
			return found, former
		}
		if !last.Before(since) {
			since = last.Add(time.Nanosecond) // a new window begins after the last write
		}
	}
}

// writesSince returns the violations of I7 since the time, and the time of the last write to any cluster.
func (s *storyRecord) writesSince(since time.Time) (violations []string, last time.Time) {
	for _, c := range slices.Concat(s.lab.Clusters(), s.shared, []*lab.Cluster{s.lab.Hub}) {
		changes, err := c.Changes()
		violations = append(violations, nameViolations("I7", invariants.WriteNothing(c.Name, changes, since), err)...)
		if of := invariants.LastWrite(changes); of.After(last) {
			last = of
		}
	}
	return violations, last
}

// settledViolations compares what the hub reports with what the clusters have.
func (s *storyRecord) settledViolations(ctx context.Context) []string {
	var out []string
	reports, err := s.readReports(ctx)
	out = append(out, nameViolations("I3", nil, err)...)
	for i := range reports {
		r := &reports[i]
		out = append(out, nameViolations("I8", invariants.ReportBriefly(r.Name, r.size), nil)...)
		if !s.hasStoppedCluster() {
			out = append(out, nameViolations("I6", invariants.Converge(&r.Report), nil)...)
		}
	}
	for i := range reports {
		installation, err := s.readInstallation(ctx, &reports[i])
		if installation != nil || err != nil {
			var violations []string
			if err == nil {
				violations = invariants.RunAsReported(installation)
			}
			out = append(out, nameViolations("I3", violations, err)...)
		}
	}
	notes, err := s.readOrphanedNotes(ctx)
	out = append(out, nameViolations("I2", nil, err)...)
	for _, c := range append(s.lab.Clusters(), s.lab.Hub) {
		if !s.isRunning(c.Name + "-apiserver") {
			continue
		}
		delivered, recorded, err := deliveredObjects(ctx, c)
		if err != nil {
			err = fmt.Errorf("%s: %w", c.Name, err)
		}
		out = append(out, nameViolations("I2", invariants.OrphanNothing(c.Name, delivered, recorded, notes), err)...)
		unrecorded, err := unrecordedWrites(ctx, c)
		out = append(out, nameViolations("I7", unrecorded, err)...)
	}
	return out
}

// measuredViolations reads the metrics of the managers. A manager that waits to lead has no queues. The account of local
// installations may not review tokens, so that nobody can read the metrics of that program.
func (s *storyRecord) measuredViolations(ctx context.Context) []string {
	var out []string
	queues := 0
	for _, p := range s.listPrograms() {
		if !p.isRunning() || p.Command[1] != "manager" {
			continue
		}
		m, err := s.readMetrics(ctx, p)
		if err != nil {
			err = fmt.Errorf("metrics of %s: %w", p.Name, err)
		}
		longest := m["workqueue_longest_running_processor_seconds"]
		if err == nil && len(longest) == 0 && len(m["workqueue_depth"]) > 0 {
			err = fmt.Errorf("%s does not measure how long passes run", p.Name)
		}
		queues += len(m["workqueue_depth"])
		out = append(out, nameViolations("I4", invariants.ServeAll(longest), err)...)
		out = append(out, nameViolations("I8", invariants.DrainQueues(m["workqueue_depth"]), nil)...)
	}
	if queues == 0 {
		out = append(out, nameViolations("I8", nil, errors.New("no manager has queues"))...)
	}
	return out
}

// passViolations reads the latest passes of the running programs from their logs.
func (s *storyRecord) passViolations() []string {
	var out []string
	read := 0
	for _, p := range s.listPrograms() {
		if p.isRunning() {
			passes := invariants.LatestPasses(p.log)
			read += len(passes)
			out = append(out, nameViolations("I9", invariants.EndPasses(p.Name, passes), nil)...)
		}
	}
	if read == 0 {
		out = append(out, nameViolations("I9", nil, errors.New("no log has passes"))...)
	}
	return out
}
