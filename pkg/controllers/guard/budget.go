// Copyright Contributors to the Open Cluster Management project

package guard

import (
	"cmp"
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
	// batchPause is how long no further add-on may have been deleted before the brake decides: OCM deletes one by one.
	batchPause = 10 * time.Second
)

// ParseMaxRemoval reads how many clusters of a component may lose it within an hour without confirmation: a number, or a
// percentage of the fleet.
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

// limitOf is how many of a fleet may go; a percentage above 0 lets go of at least one.
func limitOf(maxRemoval intstr.IntOrString, fleet int) int {
	n, err := intstr.GetScaledValueFromIntOrPercent(&maxRemoval, fleet, false)
	if err != nil {
		return 0 // ParseMaxRemoval has refused it
	}
	if maxRemoval.Type == intstr.String && maxRemoval.StrVal != "0%" {
		return max(n, 1)
	}
	return n
}

// ledger holds the removals of the last hour: when each was allowed, by the start of the add-on's UID. Who is in it is
// not counted again when a manager is killed between writing it and allowing the removals.
type ledger map[string]time.Time

func idOf(uid types.UID) string { return string(uid[:min(len(uid), 8)]) }

// parseLedger reads "minute:id.id,minute:id"; what cannot be read is left out, as are entries older than the window.
func parseLedger(text string, now time.Time) ledger {
	out := ledger{}
	for entry := range strings.SplitSeq(text, ",") {
		minute, ids, ok := strings.Cut(entry, ":")
		n, err := strconv.ParseInt(minute, 10, 64)
		if !ok || err != nil {
			continue
		}
		at := time.Unix(n*60, 0)
		if now.Sub(at) >= window {
			continue
		}
		for id := range strings.SplitSeq(ids, ".") {
			if id != "" {
				out[id] = at
			}
		}
	}
	return out
}

func (l ledger) String() string {
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

// candidate is an add-on that the brake decides on.
type candidate struct {
	id      string
	deleted time.Time
	braked  bool
}

// brake is what one decision on all candidates is made of.
type brake struct {
	candidates []candidate
	// settling is how many others may become candidates in a moment.
	settling int
	// fleet is how many add-ons there are, with those that were removed within the window.
	fleet      int
	removed    ledger
	maxRemoval intstr.IntOrString
	now        time.Time
}

// braking is the decision on all candidates.
type braking struct {
	// allowed, waiting and held are ids.
	allowed, waiting, held []string
	// wait is after how long to look again when some are waiting.
	wait time.Duration
}

// determineBraking lets all go, or none: a few of many would be damage by the same mistake. Who is held stays held until
// somebody says otherwise, also when the others are not to be removed any more: the mistake is being corrected.
func determineBraking(b *brake) braking {
	var out braking
	var fresh []candidate
	for _, c := range b.candidates {
		switch _, counted := b.removed[c.id]; {
		case counted:
			out.allowed = append(out.allowed, c.id)
		case c.braked:
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
	newest := slices.MaxFunc(fresh, func(a, b candidate) int { return cmp.Compare(a.deleted.UnixNano(), b.deleted.UnixNano()) }).deleted
	pending := len(fresh) + len(out.held) + b.settling
	switch wait := newest.Add(batchPause).Sub(b.now); {
	case wait > 0:
		out.waiting, out.wait = ids, min(wait, batchPause)
	case pending > limitOf(b.maxRemoval, b.fleet)-len(b.removed):
		out.held = append(out.held, ids...)
	default:
		out.allowed = append(out.allowed, ids...)
	}
	return out
}
