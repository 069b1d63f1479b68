// Copyright Contributors to the Open Cluster Management project

package scores

import (
	"slices"
	"strings"

	"golang.org/x/mod/semver"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
)

// pointsPerMinor is the number of points that a version loses for each minor version that is newer.
const pointsPerMinor int32 = 25

// componentState holds the hub's facts about a component on a cluster.
type componentState struct {
	component  api.Component
	addOn      *addonv1beta1.ManagedClusterAddOn // or nil
	foundation *workv1.ManifestWork              // or nil
	payloads   []*workv1.ManifestWork
	// versions lists the versions that can be installed, the newest first.
	versions []string
}

// computeScores returns the scores of the component. All scores are 0 when the component is not installed, or is being removed.
func (i componentState) computeScores() []clusterv1alpha1.AddOnPlacementScoreItem {
	name, _ := strings.CutPrefix(string(i.component), "knative-")
	item := func(score string, value int32) clusterv1alpha1.AddOnPlacementScoreItem {
		return clusterv1alpha1.AddOnPlacementScoreItem{Name: name + "-" + score, Value: value}
	}
	var ready, version, rollout int32
	if i.isInstalled() {
		ready = computeReadiness(i.payloads)
		version = computeVersionScore(i.foundation.Annotations[api.VersionAnnotation], i.versions)
		rollout = computeRolloutScore(i.addOn)
	}
	return []clusterv1alpha1.AddOnPlacementScoreItem{
		item("ready", ready), item("version", version), item("rollout", rollout),
	}
}

// isInstalled reports whether the component is installed and stays. An add-on stays while its removal is held, and during a
// hand-over to its successor.
func (i componentState) isInstalled() bool {
	isDeleting := func(w *workv1.ManifestWork) bool { return w.DeletionTimestamp != nil }
	return i.isPresent() && i.foundation != nil && !isDeleting(i.foundation) && len(i.payloads) > 0 &&
		!slices.ContainsFunc(i.payloads, isDeleting) && (i.addOn == nil || i.addOn.Annotations[api.RemovalAllowedAnnotation] == "")
}

// isPresent reports whether the cluster has the add-on, or a foundation that waits for the next add-on.
func (i componentState) isPresent() bool {
	return i.addOn != nil || i.foundation != nil && i.foundation.Annotations[api.OrphanedAnnotation] == ""
}

// computeReadiness returns the percentage of workloads that are rolled out, rounded down: 100 stands for all workloads.
func computeReadiness(payloads []*workv1.ManifestWork) int32 {
	var all, ready int32
	for _, p := range payloads {
		for _, rolledOut := range manifestwork.RolledOut(p) {
			all++
			if rolledOut {
				ready++
			}
		}
	}
	if all == 0 {
		return 0
	}
	return ready * 100 / all
}

// computeVersionScore returns 100 for the newest minor version, and pointsPerMinor less for each newer minor version.
func computeVersionScore(installed string, versions []string) int32 {
	if installed == "" || !semver.IsValid(canonicalVersion(installed)) {
		return 0
	}
	behind := map[string]bool{}
	for _, v := range versions {
		if minor := semver.MajorMinor(canonicalVersion(v)); semver.Compare(minor, semver.MajorMinor(canonicalVersion(installed))) > 0 {
			behind[minor] = true
		}
	}
	score := int32(100)
	for range behind {
		score -= pointsPerMinor
	}
	return max(0, score)
}

func canonicalVersion(version string) string { return "v" + strings.TrimPrefix(version, "v") }

// computeRolloutScore returns 100 when the cluster completed the configuration that OCM's rollout assigned, and 0 until then.
func computeRolloutScore(addOn *addonv1beta1.ManagedClusterAddOn) int32 {
	if addOn == nil {
		return 100 // without an add-on, during a hand-over, no rollout is in progress
	}
	for _, ref := range addOn.Status.ConfigReferences {
		desired, applied := ref.DesiredConfig, ref.LastAppliedConfig
		if desired != nil && (applied == nil || applied.SpecHash != desired.SpecHash || applied.ConfigReferent != desired.ConfigReferent) {
			return 0
		}
	}
	return 100
}
