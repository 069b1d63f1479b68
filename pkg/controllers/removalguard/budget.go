// Copyright Contributors to the Open Cluster Management project

package removalguard

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const (
	// window is the time in which removals are counted.
	window = time.Hour
	// batchDelay is the time without a further deletion before the budget decides: OCM deletes one add-on after the other.
	batchDelay = 10 * time.Second
	// longestBatch is the longest wait of a removal for further deletions: deletions one after the other would postpone the decision
	// without end.
	longestBatch = time.Minute
)

// ParseMaxRemoval parses the number of clusters from which a component may be removed within an hour without confirmation: a
// number, or a percentage of the fleet.
func ParseMaxRemoval(value string) (intstr.IntOrString, error) {
	v := intstr.Parse(value)
	n, err := intstr.GetScaledValueFromIntOrPercent(&v, 100, false)
	if err == nil && (n < 0 || v.Type == intstr.String && n > 100) {
		err = fmt.Errorf("%q is out of range", value)
	}
	if err != nil {
		return v, fmt.Errorf("cannot read how many removals are allowed from %q; it must be a number, or a percentage as in \"10%%\": %w", value, err)
	}
	return v, nil
}

// Limit returns how many of the installations of a fleet maxRemoval permits to remove; a percentage above 0 allows at least one removal.
func Limit(maxRemoval intstr.IntOrString, fleet int) int {
	n, err := intstr.GetScaledValueFromIntOrPercent(&maxRemoval, fleet, false)
	if err != nil {
		return 0 // ParseMaxRemoval refuses such a value
	}
	if maxRemoval.Type == intstr.String && maxRemoval.StrVal != "0%" {
		return max(n, 1)
	}
	return n
}

// removalTimes holds the removals of the last hour: the time of each decision, by the first eight characters of the add-on's UID. A
// recorded removal is not counted again when the manager is killed between the record and the removal.
type removalTimes map[string]time.Time

func removalID(uid types.UID) string { return string(uid[:min(len(uid), 8)]) }

// parseRemovals parses "minute:id.id,minute:id" and skips malformed entries and entries older than the window. An entry that is further
// ahead than the window comes from a manager with another clock, and counts as a removal of now. isAhead reports such an entry, whose time
// has to be corrected: the entry would count without end.
func parseRemovals(text string, now time.Time) (out removalTimes, isAhead bool) {
	out = removalTimes{}
	for entry := range strings.SplitSeq(text, ",") {
		minute, ids, ok := strings.Cut(entry, ":")
		n, err := strconv.ParseInt(minute, 10, 64)
		if !ok || err != nil {
			continue
		}
		at := time.Unix(n*60, 0)
		switch age := now.Sub(at); {
		case age >= window:
			continue
		case -age >= window:
			at, isAhead = now, true
		}
		for id := range strings.SplitSeq(ids, ".") {
			if id != "" {
				out[id] = at
			}
		}
	}
	return out, isAhead
}

func (l removalTimes) String() string {
	byMinute := map[int64][]string{}
	for id, at := range l {
		byMinute[at.Unix()/60] = append(byMinute[at.Unix()/60], id)
	}
	var entries []string
	for _, minute := range slices.Sorted(maps.Keys(byMinute)) {
		entries = append(entries, fmt.Sprintf("%d:%s", minute, strings.Join(slices.Sorted(slices.Values(byMinute[minute])), ".")))
	}
	return strings.Join(entries, ",")
}

// candidate is an add-on on which the budget decides.
type candidate struct {
	id         string
	deleted    time.Time
	overBudget bool
}

// budget holds the facts for one decision on all candidates.
type budget struct {
	candidates []candidate
	// settling is the number of add-ons that may become candidates without another deletion.
	settling int
	// fleet is the number of add-ons, with the add-ons that were removed within the window.
	fleet      int
	removed    removalTimes
	maxRemoval intstr.IntOrString
	// confirming reports that no further removal may begin, because a confirmation is being applied.
	confirming bool
	now        time.Time
}

// budgetDecision is the decision on all candidates.
type budgetDecision struct {
	// allowed, waiting and held list ids.
	allowed, waiting, held []string
	// wait is the delay until the next decision when candidates are waiting.
	wait time.Duration
}

// determineBudget allows all candidates, or none: one mistake deletes many add-ons, and even a few removals would be damage. A held
// add-on stays held until the administrator decides, also when the other add-ons are no longer being removed: the administrator is
// correcting the mistake.
func determineBudget(b *budget) budgetDecision {
	var out budgetDecision
	var fresh []candidate
	for _, c := range b.candidates {
		switch _, counted := b.removed[c.id]; {
		case counted:
			out.allowed = append(out.allowed, c.id)
		case c.overBudget:
			out.held = append(out.held, c.id)
		default:
			fresh = append(fresh, c)
		}
	}
	if len(fresh) == 0 {
		return out
	}
	var ids []string
	for _, c := range fresh {
		ids = append(ids, c.id)
	}
	pending := len(fresh) + len(out.held) + b.settling
	switch wait := batchEnd(fresh).Sub(b.now); {
	case b.confirming:
		out.waiting, out.wait = ids, batchDelay
	case wait > 0:
		out.waiting, out.wait = ids, min(wait, batchDelay)
	case pending > Limit(b.maxRemoval, b.fleet)-len(b.removed):
		out.held = append(out.held, ids...)
	default:
		out.allowed = append(out.allowed, ids...)
	}
	return out
}

// batchEnd returns the time at which the deletions count as one batch.
func batchEnd(fresh []candidate) time.Time {
	byTime := func(a, b candidate) int { return a.deleted.Compare(b.deleted) }
	oldest, newest := slices.MinFunc(fresh, byTime).deleted, slices.MaxFunc(fresh, byTime).deleted
	if limit := oldest.Add(longestBatch); limit.Before(newest.Add(batchDelay)) {
		return limit
	}
	return newest.Add(batchDelay)
}
