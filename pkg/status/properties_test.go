// Copyright Contributors to the Open Cluster Management project

package status

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/workload"
)

// everyInput calls yield with each combination of what can be known of an installation, and of what was told before.
func everyInput(yield func(name string, in *Installation, last []metav1.Condition)) {
	targets := []Finding{resolved}
	for _, reason := range api.Reasons()[api.TargetClusterResolved] {
		if reason != api.ReasonTargetResolved && reason != api.ReasonFleetConfiguration {
			targets = append(targets, Finding{metav1.ConditionFalse, reason, "because"})
		}
	}
	seen := []change{
		func(*Installation) {}, waiting, paused, scaledDown, failed(forbidden("a")), failed(unknownKind("a"), forbidden("b")),
		func(in *Installation) { waiting(in); failed(unknownKind("a"))(in) }, func(in *Installation) { in.Bundle = nil },
	}
	for _, reason := range faults() {
		seen = append(seen, fault(reason))
	}
	before := [][]metav1.Condition{
		nil, last(), last(waiting), last(failed(unknownKind("a")), scaledDown), last(fault(api.ReasonInvalidSpec)), last(target(revoked), unheld),
		last(fault(api.ReasonNotEligible)), last(removing),
		{{Type: api.InstallSucceeded, Status: metav1.ConditionTrue}},
	}
	for n, f := range targets {
		if n == 2 { // what is told does not depend on why a target is not resolved
			seen, before = seen[:1], before[:1]
		}
		for i, see := range seen {
			for j, was := range before {
				for k, step := range []change{func(*Installation) {}, unheld, removing} {
					yield(fmt.Sprintf("%s/%d/%d/%d", f.Reason, i, j, k), installation(target(f), see, step), was)
				}
			}
		}
	}
}

// everyFleet calls yield with each combination of what can be known of a fleet configuration.
func everyFleet(yield func(name string, in Fleet)) {
	for _, in := range []Fleet{
		{},
		{Clusters: []string{"a"}},
		{Clusters: []string{"b", "a"}, NotReady: []string{"b"}, Held: []string{"a"}},
		{Clusters: []string{"b", "a"}, Waiting: []string{"b"}, Unresolved: []string{"b"}, Ineligible: []string{"a"}, Lacking: []string{"a", "b"}},
		{Clusters: []string{"b", "a"}, Waiting: []string{"b"}, Failed: []string{"b"}},
	} {
		yield("fine", in)
		for _, reason := range faults() {
			if reason != api.FaultConfigPending && reason != api.ReasonNotEligible { // those are about one cluster
				in.Fault = &render.Error{Reason: reason, Message: "it is wrong"}
				yield(string(reason), in)
			}
		}
	}
}

// TestEverythingIsDocumented holds docs/conditions.md against all that can be told, in both directions.
func TestEverythingIsDocumented(t *testing.T) {
	rows := documented(t)
	given := map[string]bool{}
	check := func(name string, conditions []metav1.Condition) {
		for _, told := range brokenDown(conditions)[1:] {
			given[told] = true
			if !slices.Contains(rows, told) {
				t.Fatalf("%s: %q is no row of docs/conditions.md", name, told)
			}
		}
	}
	everyInput(func(name string, in *Installation, last []metav1.Condition) { check(name, Conditions(in, last)) })
	everyFleet(func(name string, in Fleet) { check(name, FleetConditions(in)) })
	given[api.Ready+" True "+api.ReasonReady], given[api.Ready+" True "+api.ReasonUnused] = true, true
	for _, row := range rows {
		condition, _, _ := strings.Cut(row, " ")
		if !given[row] && !slices.Contains(slices.Concat(api.AddOnConditionTypes(), api.OptionalConditionTypes()), condition) {
			t.Errorf("docs/conditions.md has %q, which is never told", row)
		}
	}
}

// TestReadySumsUp holds what Ready promises, whatever is known.
func TestReadySumsUp(t *testing.T) {
	check := func(name string, conditions []metav1.Condition) {
		conditions = slices.DeleteFunc(conditions, func(c metav1.Condition) bool { return slices.Contains(api.OptionalConditionTypes(), c.Type) })
		var types []string
		var worst metav1.Condition
		for _, status := range []metav1.ConditionStatus{metav1.ConditionFalse, metav1.ConditionUnknown, metav1.ConditionTrue} {
			i := slices.IndexFunc(conditions[1:], func(c metav1.Condition) bool { return c.Status == status })
			if i >= 0 {
				worst = conditions[1+i]
				break
			}
		}
		for _, c := range conditions {
			types = append(types, c.Type)
		}
		if diff := cmp.Diff(api.ConditionTypes(), types); diff != "" {
			t.Fatalf("%s: conditions (-want +got):\n%s", name, diff)
		}
		ready := conditions[0]
		if ready.Status != worst.Status {
			t.Fatalf("%s: Ready is %s, and the worst is %s", name, ready.Status, worst.Type)
		}
		if ready.Status != metav1.ConditionTrue && (ready.Reason != worst.Reason || !strings.HasPrefix(ready.Message, worst.Type) || !strings.HasSuffix(ready.Message, worst.Message)) {
			t.Fatalf("%s: Ready says %s %q, want what %s says: %s %q", name, ready.Reason, ready.Message, worst.Type, worst.Reason, worst.Message)
		}
	}
	everyInput(func(name string, in *Installation, last []metav1.Condition) { check(name, Conditions(in, last)) })
	everyFleet(func(name string, in Fleet) { check(name, FleetConditions(in)) })
}

// TestPendingIsNoFailure holds that a configuration that is not resolved yet fails nothing.
func TestPendingIsNoFailure(t *testing.T) {
	everyInput(func(name string, in *Installation, last []metav1.Condition) {
		if in.Fault == nil || in.Fault.Reason != api.FaultConfigPending {
			return
		}
		for _, c := range Conditions(in, last) {
			if c.Reason == api.FaultConfigPending {
				t.Fatalf("%s: %s has reason %s", name, c.Type, c.Reason)
			}
			if c.Type == api.InstallSucceeded && c.Status == metav1.ConditionFalse && len(last) == 0 {
				t.Fatalf("%s: the installation failed (%s)", name, c.Reason)
			}
		}
	})
}

// TestToldOnceIsToldAgain holds that what was told is told again when nothing has changed: nothing is written at rest.
func TestToldOnceIsToldAgain(t *testing.T) {
	everyInput(func(name string, in *Installation, last []metav1.Condition) {
		first := Conditions(in, last)
		if diff := cmp.Diff(first, Conditions(in, first)); diff != "" {
			t.Fatalf("%s: it is told otherwise the second time (-first +second):\n%s", name, diff)
		}
	})
}

// messy is an installation with as much as possible, and with text of which nobody knows whose it is.
func messy() *Installation {
	in := installation(target(resolved))
	in.Observation = delivery.Observation{}
	foreign := "Internal error\r\n\toccurred:\x1b[31m\u2028 failed calling webhook \x00" + strings.Repeat("é", 4000) + string([]byte{0xff})
	for i := range 12 {
		name := fmt.Sprintf("%02d", i)
		in.Bundle.Workloads = append(in.Bundle.Workloads, workload.Expected{Kind: "Deployment", Namespace: ns, Name: name})
		in.Bundle.Jobs = append(in.Bundle.Jobs, workload.JobRef{Namespace: ns, Name: name})
		in.Observation.Jobs = append(in.Observation.Jobs, delivery.JobState{JobRef: workload.JobRef{Namespace: ns, Name: name}, Complete: i > 3, Failed: i == 2})
		in.Observation.Failed = append(in.Observation.Failed,
			delivery.Failure{Object: "Certificate " + ns + "/same", Cause: name + foreign},
			delivery.Failure{Object: "Gateway " + ns + "/" + name + foreign, Cause: foreign, KindMissing: true})
		in.Observation.Workloads = append(in.Observation.Workloads, delivery.WorkloadState{
			WorkloadKey: delivery.WorkloadKey{Kind: "Deployment", Namespace: ns, Name: name},
			State:       workload.State{Generation: 1, Desired: int64(i), ObservedGeneration: int64(i % 2)},
		})
	}
	return in
}

// TestOrderDoesNotMatter shuffles every list whose order means nothing.
func TestOrderDoesNotMatter(t *testing.T) {
	shuffle := func(in *Installation) {
		o := &in.Observation
		rand.Shuffle(len(o.Failed), func(i, j int) { o.Failed[i], o.Failed[j] = o.Failed[j], o.Failed[i] })
		rand.Shuffle(len(o.Workloads), func(i, j int) { o.Workloads[i], o.Workloads[j] = o.Workloads[j], o.Workloads[i] })
		rand.Shuffle(len(o.Jobs), func(i, j int) { o.Jobs[i], o.Jobs[j] = o.Jobs[j], o.Jobs[i] })
		rand.Shuffle(len(o.FinishedJobs), func(i, j int) { o.FinishedJobs[i], o.FinishedJobs[j] = o.FinishedJobs[j], o.FinishedJobs[i] })
	}
	was := last(scaledDown)
	for name, make := range map[string]func() *Installation{
		"messy": messy, "well": func() *Installation { return installation() },
		"unavailable": func() *Installation { in := messy(); target(outOfSight)(in); waiting(in); return in },
	} {
		want := Conditions(make(), was)
		for range 100 {
			in := make()
			shuffle(in)
			rand.Shuffle(len(was), func(i, j int) { was[i], was[j] = was[j], was[i] })
			if diff := cmp.Diff(want, Conditions(in, was)); diff != "" {
				t.Fatalf("%s: the order of a list matters (-want +got):\n%s", name, diff)
			}
		}
	}
	names := []string{"k", "a", "j", "b", "i", "c", "h", "d", "g", "e", "f"}
	want := FleetConditions(Fleet{Clusters: slices.Clone(names), NotReady: slices.Clone(names)})
	for range 20 {
		rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		if diff := cmp.Diff(want, FleetConditions(Fleet{Clusters: slices.Clone(names), NotReady: slices.Clone(names)})); diff != "" {
			t.Fatalf("the order of clusters matters (-want +got):\n%s", diff)
		}
	}
}

// TestNothingIsChanged holds that Conditions leaves alone what it is given: it comes from caches.
func TestNothingIsChanged(t *testing.T) {
	in, was := messy(), last()
	Conditions(in, was)
	if diff := cmp.Diff(messy(), in, cmpopts.IgnoreUnexported(render.Bundle{})); diff != "" {
		t.Errorf("the installation was changed (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(last(), was); diff != "" {
		t.Errorf("the last conditions were changed (-before +after):\n%s", diff)
	}
	names := []string{"b", "a"}
	FleetConditions(Fleet{Clusters: names, NotReady: names})
	if diff := cmp.Diff([]string{"b", "a"}, names); diff != "" {
		t.Errorf("the clusters were changed (-before +after):\n%s", diff)
	}
}

// TestMessages holds what every message promises: one line of bounded length, at most five objects, no times.
func TestMessages(t *testing.T) {
	times := regexp.MustCompile(`\d{4}-\d{2}-\d{2}|\d{2}:\d{2}:\d{2}`)
	withWaiting := messy()
	withWaiting.Observation = delivery.Observation{Waiting: "waiting for ManifestWork: " + messy().Observation.Failed[0].Cause}
	withFailures, notReady := messy(), messy()
	notReady.Observation.Failed = nil
	told := 0
	for _, in := range []*Installation{withWaiting, withFailures, notReady} {
		for _, c := range Conditions(in, last()) {
			told++
			if strings.ContainsFunc(c.Message, func(r rune) bool { return !unicode.IsPrint(r) }) || strings.ToValidUTF8(c.Message, "") != c.Message {
				t.Errorf("the message of %s is not one line of text: %q", c.Type, c.Message)
			}
			if limit := maxListed*2*(maxCause+10) + 100; len(c.Message) > limit {
				t.Errorf("the message of %s has %d bytes", c.Type, len(c.Message))
			}
			if n := strings.Count(c.Message, ns+"/"); n > maxListed {
				t.Errorf("the message of %s names %d objects: %q", c.Type, n, c.Message)
			}
			if times.MatchString(c.Message) {
				t.Errorf("the message of %s holds a time: %q", c.Type, c.Message)
			}
		}
	}
	if told != 3*len(api.ConditionTypes()) {
		t.Errorf("%d messages were looked at", told)
	}
	for _, want := range []string{"; and 19 more", "; and 7 more"} {
		all := fmt.Sprint(Conditions(withFailures, nil))
		if !strings.Contains(all, want) {
			t.Errorf("what is not named is not counted: no %q in %s", want, all)
		}
	}
}
