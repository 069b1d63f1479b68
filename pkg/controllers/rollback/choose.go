// Copyright Contributors to the Open Cluster Management project

package rollback

import (
	"fmt"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/revision"
)

const (
	// minHash is how much of a hash somebody has to write: a shorter one may as well be a slip.
	minHash = 8
	// maxNumber is how many digits a revision number may have; a hash that is all digits has more.
	maxNumber = 7
	// maxListed is how many revisions a refusal names.
	maxListed = 10
)

// named is the revision with the number or the hash. A refusal says why there is none.
func named(history []*appsv1.ControllerRevision, value string) (target *appsv1.ControllerRevision, refusal string) {
	if number, err := strconv.ParseInt(value, 10, 64); err == nil && len(value) <= maxNumber {
		for _, r := range history {
			if r.Revision == number {
				return r, ""
			}
		}
		return nil, "there is no revision with that number; " + listed(history)
	}
	if len(value) < minHash {
		return nil, fmt.Sprintf("it is no revision number, no spec hash of at least %d digits, and not %q; %s", minHash, api.RollbackLastKnownGood, listed(history))
	}
	for _, r := range history {
		if !strings.HasPrefix(revision.HashOf(r), strings.ToLower(value)) {
			continue
		}
		if target != nil {
			return nil, "several revisions have a hash that starts with it; " + listed(history)
		}
		target = r
	}
	if target == nil {
		return nil, "there is no revision with that hash; " + listed(history)
	}
	return target, ""
}

// newestGood is the newest revision that a cluster completed and that is not what the resource says already.
func newestGood(history []*appsv1.ControllerRevision, good map[string]bool, live string) (target *appsv1.ControllerRevision, refusal string) {
	for _, r := range history {
		if hash := revision.HashOf(r); good[hash] && hash != live {
			return r, ""
		}
	}
	return nil, "no cluster is known to have completed another spec than the one that is there; name a revision instead: " + listed(history)
}

func listed(history []*appsv1.ControllerRevision) string {
	if len(history) == 0 {
		return "there are no revisions yet"
	}
	var out []string
	for _, r := range history[:min(len(history), maxListed)] {
		out = append(out, fmt.Sprintf("%d (%.12s)", r.Revision, revision.HashOf(r)))
	}
	s := "the revisions are " + strings.Join(out, ", ")
	if more := len(history) - maxListed; more > 0 {
		s += fmt.Sprintf(" and %d more", more)
	}
	return s
}
