// Copyright Contributors to the Open Cluster Management project

package invariants

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/lab"
)

// maxPass is the longest time that one pass may occupy a worker: a request to a cluster fails after a minute without an answer.
const maxPass = 90 * time.Second

// ServeAll is invariant I4: no pass occupies a worker of the manager for longer than the longest request to one cluster. The times
// are the metric workqueue_longest_running_processor_seconds, by queue.
func ServeAll(longest map[string]float64) []string {
	var out []string
	for _, queue := range slices.Sorted(maps.Keys(longest)) {
		if running := time.Duration(longest[queue] * float64(time.Second)); running > maxPass {
			out = append(out, fmt.Sprintf("a pass of controller %s has occupied a worker for %s", queue, running.Round(time.Second)))
		}
	}
	return out
}

// Secret is a value that no text may contain.
type Secret struct{ Name, Value string }

// minSecret is the length of the shortest secret of a search. An ordinary text may contain a shorter value.
const minSecret = 16

// TellNoSecret is invariant I5 for one text, such as a log: the text contains no secret, whether plain, in base64 or in JSON.
func TellNoSecret(where, text string, secrets []Secret) []string {
	var out []string
	for _, s := range secrets {
		value := strings.TrimSpace(s.Value)
		if len(value) < minSecret {
			continue
		}
		quoted, err := json.Marshal(value)
		if err != nil {
			quoted = []byte(value)
		}
		// A Secret or a kubeconfig shows the base64 of the whole value.
		forms := []string{value, base64.StdEncoding.EncodeToString([]byte(s.Value)), strings.Trim(string(quoted), `"`)}
		if slices.ContainsFunc(forms, func(form string) bool { return strings.Contains(text, form) }) {
			out = append(out, fmt.Sprintf("%s has the secret of %s", where, s.Name))
		}
	}
	return slices.Compact(out)
}

// Report is the final status of a resource or an add-on.
type Report struct {
	// Name names the resource or the add-on.
	Name string
	// Deleting reports that the object waits for finalizers.
	Deleting             bool
	Generation, Observed int64
	Conditions           []metav1.Condition
}

// Converge is invariant I6 for one report at the end of a story: the report is of the present generation, and names either success
// or the cause of a failure. Progress that never ends is neither, unless TargetClusterResolved names the cause: a cluster that cannot
// be reached.
func Converge(r *Report) []string {
	var out []string
	if r.Observed != r.Generation {
		out = append(out, fmt.Sprintf("%s has generation %d, and its status is of generation %d", r.Name, r.Generation, r.Observed))
	}
	if r.Deleting {
		out = append(out, fmt.Sprintf("%s is still being deleted: %s", r.Name, summarizeConditions(r.Conditions)))
	}
	if apimeta.IsStatusConditionFalse(r.Conditions, api.TargetClusterResolved) {
		return out
	}
	for _, c := range r.Conditions {
		if c.Status != metav1.ConditionTrue && (c.Reason == api.ReasonDelivering || c.Reason == api.ReasonRemoving) {
			out = append(out, fmt.Sprintf("%s does not leave %s=%s, reason %s: %s", r.Name, c.Type, c.Status, c.Reason, c.Message))
		}
	}
	return out
}

func summarizeConditions(conditions []metav1.Condition) string {
	var out []string
	for _, c := range conditions {
		if c.Status != metav1.ConditionTrue {
			out = append(out, fmt.Sprintf("%s=%s, reason %s: %s", c.Type, c.Status, c.Reason, c.Message))
		}
	}
	return strings.Join(out, "; ")
}

// RunOn is invariant I6 for a program of the add-on: the program does not end by itself, and its log has no panic.
func RunOn(program string, failed bool, log string) []string {
	var out []string
	if failed {
		out = append(out, program+" has ended by itself")
	}
	for line := range strings.Lines(log) {
		// controller-runtime and apimachinery recover panics of passes, and log these lines.
		if strings.HasPrefix(line, "panic: ") || strings.Contains(line, "Observed a panic") || strings.Contains(line, "fatal error: ") {
			return append(out, fmt.Sprintf("%s has panicked: %s", program, strings.TrimSpace(line)))
		}
	}
	return out
}

// WriteNothing is invariant I7: since the time, no program of the add-on has written to the cluster, but for leases and Events.
func WriteNothing(cluster string, changes []lab.Change, since time.Time) []string {
	count := map[string]int{}
	for i := range changes {
		if c := &changes[i]; isWrite(c) && !c.Time.Before(since) {
			count[c.Verb+" "+describeChange(c)]++
		}
	}
	var out []string
	for _, write := range slices.Sorted(maps.Keys(count)) {
		out = append(out, fmt.Sprintf("%s: at rest the add-on has made %d writes: %s", cluster, count[write], write))
	}
	return out
}

// RecordWrites holds that WriteNothing sees the writes of direct delivery: the record of a cluster with anchors has a write of the add-on. A
// record that leaves out the account of the manager has none.
func RecordWrites(cluster string, anchors int, changes []lab.Change) []string {
	if anchors == 0 || !LastWrite(changes).IsZero() {
		return nil
	}
	return []string{fmt.Sprintf("%s has %d anchors, and its record has no write of the add-on", cluster, anchors)}
}

// LastWrite returns the time of the last change that WriteNothing counts; the zero time without such a change.
func LastWrite(changes []lab.Change) time.Time {
	var last time.Time
	for i := range changes {
		if c := &changes[i]; isWrite(c) && c.Time.After(last) {
			last = c.Time
		}
	}
	return last
}

// isWrite reports whether a program of the add-on has made the change, and the change is neither of a lease nor an Event.
func isWrite(c *lab.Change) bool {
	return strings.HasPrefix(c.Agent, AddOnAgent) && c.Resource != "leases" && c.Resource != "events" && !isReview(c)
}

// isReview reports whether the request only asks the API server whether a token is valid, or a request allowed.
func isReview(c *lab.Change) bool {
	return c.Group == "authentication.k8s.io" || c.Group == "authorization.k8s.io"
}

// Bounds of invariant I8.
const (
	// maxMemory is the goal for a thousand clusters.
	maxMemory = 512.0
	// maxReport bounds the status of a resource, as JSON.
	maxReport = 100 << 10
)

// StayBounded is invariant I8 for a program of the add-on: the program has never had more resident memory than the goal, in MB.
func StayBounded(program string, peak float64) []string {
	if peak > maxMemory {
		return []string{fmt.Sprintf("%s has had %.0f MB of resident memory, more than %.0f MB", program, peak, maxMemory)}
	}
	return nil
}

// DrainQueues is invariant I8 for the queues of a program at rest: nothing waits. The depths are the metric workqueue_depth, by queue.
func DrainQueues(depths map[string]float64) []string {
	var out []string
	for _, queue := range slices.Sorted(maps.Keys(depths)) {
		if depths[queue] > 0 {
			out = append(out, fmt.Sprintf("%.0f objects wait in queue %s at rest", depths[queue], queue))
		}
	}
	return out
}

// ReportBriefly is invariant I8 for an object that the add-on reports in: bytes is the size of the status as JSON.
func ReportBriefly(name string, bytes int) []string {
	if bytes > maxReport {
		return []string{fmt.Sprintf("the status of %s has %d bytes, more than %d", name, bytes, maxReport)}
	}
	return nil
}
