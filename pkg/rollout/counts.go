// Copyright Contributors to the Open Cluster Management project

package rollout

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
	"open-cluster-management.io/knative-addon/pkg/message"
)

const (
	// maxReported is the number of clusters that a status names, and of the reasons and versions that a status counts.
	maxReported = 10
	// maxReason and maxVersion are the numbers of bytes of a reason and of a version in a status.
	maxReason, maxVersion = 64, 64
)

// ClusterState is the state of a cluster for the counts of a status.
type ClusterState struct {
	Name  string
	Phase Phase
	// Updated reports whether the cluster has the revision.
	Updated bool
	// Unresolved reports whether the cluster is unknown or unavailable, or used by another owner.
	Unresolved bool
	// Reason describes a cluster that has not succeeded.
	Reason string
	// Versions are the versions that run on the cluster, by component.
	Versions map[string]string
	// Since is the time of the last change of the phase; zero when unknown.
	Since time.Time
}

// CountClusters returns the counts of a rollout to the clusters. The size of the result has a bound for any number of clusters. Equal
// clusters in another order give an equal result.
func CountClusters(revision string, clusters []ClusterState) fleetv1alpha1.RolloutStatus {
	out := fleetv1alpha1.RolloutStatus{Revision: revision, Total: int32(len(clusters))} //nolint:gosec // a hub has fewer clusters
	reasons, versions := map[string]int32{}, map[versionKey]int32{}
	var worst []*ClusterState
	for i := range clusters {
		c := &clusters[i]
		if c.Updated {
			out.Updated++
		}
		if c.Unresolved {
			out.Unresolved++
			reasons[message.OneLine(c.Reason, maxReason)]++
		}
		for component, version := range c.Versions {
			versions[versionKey{component, message.OneLine(version, maxVersion)}]++
		}
		switch c.Phase {
		case Succeeded:
			out.Ready++
			continue
		case Failed, TimedOut:
			out.Failed++
		case Progressing, Skipped, Waiting:
		}
		worst = append(worst, c)
	}
	out.Clusters, out.UnresolvedReasons, out.Versions = reportWorst(worst), listReasons(reasons), listVersions(versions)
	return out
}

// reportWorst returns the reports of the clusters that are furthest from success.
func reportWorst(clusters []*ClusterState) []fleetv1alpha1.ClusterReport {
	slices.SortStableFunc(clusters, func(a, b *ClusterState) int {
		return cmp.Or(cmp.Compare(b.Phase, a.Phase), a.Since.Compare(b.Since), strings.Compare(a.Name, b.Name))
	})
	var out []fleetv1alpha1.ClusterReport
	for _, c := range clusters[:min(len(clusters), maxReported)] {
		r := fleetv1alpha1.ClusterReport{Name: message.Shorten(c.Name, message.MaxName), Reason: message.OneLine(c.Reason, maxReason)}
		if !c.Since.IsZero() {
			since := metav1.NewTime(c.Since).Rfc3339Copy()
			r.Since = &since
		}
		out = append(out, r)
	}
	return out
}

type versionKey struct{ component, version string }

func listReasons(counts map[string]int32) []fleetv1alpha1.ReasonCount {
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), strings.Compare(a, b))
	})
	var out []fleetv1alpha1.ReasonCount
	for _, name := range names {
		if last := len(out) - 1; len(out) == maxReported {
			out[last] = fleetv1alpha1.ReasonCount{Reason: fleetv1alpha1.Others, Clusters: out[last].Clusters + counts[name]}
			continue
		}
		out = append(out, fleetv1alpha1.ReasonCount{Reason: name, Clusters: counts[name]})
	}
	return out
}

func listVersions(counts map[versionKey]int32) []fleetv1alpha1.VersionCount {
	keys := slices.SortedFunc(maps.Keys(counts), func(a, b versionKey) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), strings.Compare(a.component, b.component), strings.Compare(a.version, b.version))
	})
	var out []fleetv1alpha1.VersionCount
	for _, key := range keys {
		if last := len(out) - 1; len(out) == maxReported {
			out[last] = fleetv1alpha1.VersionCount{
				Component: fleetv1alpha1.Others, Version: fleetv1alpha1.Others, Clusters: out[last].Clusters + counts[key],
			}
			continue
		}
		out = append(out, fleetv1alpha1.VersionCount{Component: key.component, Version: key.version, Clusters: counts[key]})
	}
	return out
}
