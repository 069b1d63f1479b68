// Copyright Contributors to the Open Cluster Management project

package configuration

import (
	"fmt"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/message"
	"open-cluster-management.io/knative-addon/pkg/revision"
)

const (
	// minHash is the number of digits of a hash that a request must have: a shorter text may be a typing error.
	minHash = 8
	// maxNumber is the greatest number of digits of a revision number; a hash of digits only has more.
	maxNumber = 7
	// maxListed is the number of revisions that a refusal names.
	maxListed = 10
)

// FindRevision returns the revision that the value of api.RollbackAnnotation requests, or a refusal with the reason why there is none.
func (r *Recorder) FindRevision(config *unstructured.Unstructured, value string) (target *appsv1.ControllerRevision, refusal string, err error) {
	history, err := revision.History(r.Revisions, r.Kind, client.ObjectKeyFromObject(config))
	if err != nil {
		return nil, "", err
	}
	if value != api.RollbackLastKnownGood {
		target, refusal = findNamedRevision(history, value)
		return target, refusal, nil
	}
	current, err := revision.Hash(config)
	if err != nil {
		return nil, "", err
	}
	referred, err := r.References.Of(r.Kind, client.ObjectKeyFromObject(config))
	if err != nil {
		return nil, "", err
	}
	target, refusal = findLastKnownGood(history, referred.Good, current)
	return target, refusal, nil
}

// findNamedRevision returns the revision with the number, or with the hash that begins with the value, or a refusal.
func findNamedRevision(history []*appsv1.ControllerRevision, value string) (target *appsv1.ControllerRevision, refusal string) {
	if number, err := strconv.ParseInt(value, 10, 64); err == nil && len(value) <= maxNumber {
		for _, r := range history {
			if r.Revision == number {
				return r, ""
			}
		}
		return nil, "there is no revision with that number; " + describeHistory(history)
	}
	if len(value) < minHash {
		return nil, fmt.Sprintf("it is no revision number, no spec hash of at least %d digits, and not %q; %s", minHash, api.RollbackLastKnownGood, describeHistory(history))
	}
	for _, r := range history {
		if !strings.HasPrefix(revision.HashOf(r), strings.ToLower(value)) {
			continue
		}
		if target != nil {
			return nil, "several revisions have a hash that starts with it; " + describeHistory(history)
		}
		target = r
	}
	if target == nil {
		return nil, "there is no revision with that hash; " + describeHistory(history)
	}
	return target, ""
}

// findLastKnownGood returns the newest revision with another hash than the current spec that a cluster completed, or a refusal. The
// status of a ManagedClusterAddOn is no evidence of a completed revision, since the agent of the cluster may write that status.
func findLastKnownGood(history []*appsv1.ControllerRevision, good map[string]bool, current string) (target *appsv1.ControllerRevision, refusal string) {
	for _, r := range history {
		hash := revision.HashOf(r)
		if hash != current && (good[hash] || r.Annotations[api.CompletedAnnotation] != "") {
			return r, ""
		}
	}
	return nil, "no cluster is known to have completed another spec than the present spec; name a revision instead: " + describeHistory(history)
}

// describeHistory lists the numbers and hashes of the revisions, for a refusal.
func describeHistory(history []*appsv1.ControllerRevision) string {
	if len(history) == 0 {
		return "there are no revisions yet"
	}
	var revisions []string
	for _, r := range history {
		revisions = append(revisions, fmt.Sprintf("%d (%.12s)", r.Revision, revision.HashOf(r)))
	}
	return "the revisions are " + message.List(revisions, maxListed)
}
