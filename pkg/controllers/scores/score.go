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
	"open-cluster-management.io/knative-addon/pkg/delivery/work"
)

// perMinor is what a version loses for each minor version that it is behind the newest.
const perMinor int32 = 25

// installation is what the hub knows of a component on a cluster.
type installation struct {
	component  api.Component
	addOn      *addonv1beta1.ManagedClusterAddOn // nil when there is none
	foundation *workv1.ManifestWork              // nil when there is none
	payloads   []*workv1.ManifestWork
	// versions are those that can be installed, the newest first.
	versions []string
}

// scores are the scores of the component, all 0 when it is not installed, or on its way out.
func (i installation) scores() []clusterv1alpha1.AddOnPlacementScoreItem {
	name, _ := strings.CutPrefix(string(i.component), "knative-")
	item := func(score string, value int32) clusterv1alpha1.AddOnPlacementScoreItem {
		return clusterv1alpha1.AddOnPlacementScoreItem{Name: name + "-" + score, Value: value}
	}
	var ready, version, rollout int32
	if i.installed() {
		ready = readiness(i.payloads)
		version = age(i.foundation.Annotations[api.VersionAnnotation], i.versions)
		rollout = rolledOut(i.addOn)
	}
	return []clusterv1alpha1.AddOnPlacementScoreItem{
		item("ready", ready), item("version", version), item("rollout", rollout),
	}
}

// installed tells that there is something, and that it stays. An add-on that is only held, or between two hands, stays.
func (i installation) installed() bool {
	leaves := func(w *workv1.ManifestWork) bool { return w.DeletionTimestamp != nil }
	return i.present() && i.foundation != nil && !leaves(i.foundation) && len(i.payloads) > 0 &&
		!slices.ContainsFunc(i.payloads, leaves) && (i.addOn == nil || i.addOn.Annotations[api.RemovalAllowedAnnotation] == "")
}

// present tells that the cluster has the add-on, or its foundation waits for the next one.
func (i installation) present() bool {
	return i.addOn != nil || i.foundation != nil && i.foundation.Annotations[api.OrphanedAnnotation] == ""
}

// readiness is the percentage of workloads that are rolled out. It is 100 only when all are.
func readiness(payloads []*workv1.ManifestWork) int32 {
	var all, ready int32
	for _, p := range payloads {
		for _, rolledOut := range work.RolledOut(p) {
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

// age is 100 for the newest minor version, and less for each that the installed one is behind.
func age(installed string, versions []string) int32 {
	if installed == "" || !semver.IsValid(canonical(installed)) {
		return 0
	}
	behind := map[string]bool{}
	for _, v := range versions {
		if minor := semver.MajorMinor(canonical(v)); semver.Compare(minor, semver.MajorMinor(canonical(installed))) > 0 {
			behind[minor] = true
		}
	}
	score := int32(100)
	for range behind {
		score -= perMinor
	}
	return max(0, score)
}

func canonical(version string) string { return "v" + strings.TrimPrefix(version, "v") }

// rolledOut is 100 when the cluster has completed the configuration that its rollout has come to, and 0 on the way there.
func rolledOut(addOn *addonv1beta1.ManagedClusterAddOn) int32 {
	if addOn == nil {
		return 100 // between two add-ons nothing changes
	}
	for _, ref := range addOn.Status.ConfigReferences {
		desired, applied := ref.DesiredConfig, ref.LastAppliedConfig
		if desired != nil && (applied == nil || applied.SpecHash != desired.SpecHash || applied.ConfigReferent != desired.ConfigReferent) {
			return 0
		}
	}
	return 100
}
