// Copyright Contributors to the Open Cluster Management project

package metrics

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// States of a cluster that does not run the present spec of its configuration yet.
const (
	// StateDelivering means that nothing but OCM's rollout or the delivery itself keeps the cluster from the present spec.
	StateDelivering = "Delivering"
	// StatePaused means that an annotation keeps the cluster unchanged.
	StatePaused = "Paused"
	// StateNotResolved means that TargetClusterResolved is not True.
	StateNotResolved = "NotResolved"
	// StateRefused means that the manager cannot deliver the spec of a resource for one cluster before a user changes the spec.
	StateRefused = "Refused"
)

// ModeUnknown stands for the delivery mode of a resource that was not delivered yet.
const ModeUnknown = "Unknown"

// hubCluster stands for the hub in the label cluster of a resource that is installed on the hub itself.
const hubCluster = "hub"

type modeKey struct {
	component api.Component
	mode      string
}

func (k modeKey) labelValues() []string { return []string{string(k.component), k.mode} }

type conditionKey struct {
	modeKey
	condition string
	verdict
}

func (k conditionKey) labelValues() []string {
	return []string{string(k.component), k.mode, k.condition, k.status, k.reason}
}

type versionKey struct {
	modeKey
	version string
}

func (k versionKey) labelValues() []string { return []string{string(k.component), k.mode, k.version} }

type outdatedKey struct {
	modeKey
	state string
}

func (k outdatedKey) labelValues() []string { return []string{string(k.component), k.mode, k.state} }

// clusterConditions are the conditions of the installations on a cluster.
type clusterConditions map[clusterKey]verdict

type clusterKey struct {
	modeKey
	condition string
}

// specHash is the hash of the spec of a resource at a generation.
type specHash struct {
	generation int64
	hash       string
}

// snapshot holds the counts of one scrape.
type snapshot struct {
	resources, addOns map[conditionKey]int
	desired, running  map[versionKey]int
	outdated          map[outdatedKey]int
	paused            map[modeKey]int
	started           map[modeKey]time.Time
	clusters          map[string]clusterConditions
	hashes            map[types.UID]specHash
}

// newSnapshot returns a snapshot in which nothing is outdated and nothing is paused. Alerts compare these counts with earlier
// counts, and therefore need a series while the count is 0.
func newSnapshot() *snapshot {
	s := &snapshot{
		resources: map[conditionKey]int{}, addOns: map[conditionKey]int{}, desired: map[versionKey]int{}, running: map[versionKey]int{},
		outdated: map[outdatedKey]int{}, paused: map[modeKey]int{}, started: map[modeKey]time.Time{},
		clusters: map[string]clusterConditions{}, hashes: map[types.UID]specHash{},
	}
	for _, component := range api.Components() {
		for _, mode := range []api.DeliveryMode{api.ModeManifestWork, api.ModeDirect} {
			k := modeKey{component, string(mode)}
			s.paused[k] = 0
			for _, state := range []string{StateDelivering, StatePaused, StateNotResolved, StateRefused} {
				s.outdated[outdatedKey{k, state}] = 0
			}
		}
	}
	return s
}

// countOutdated counts a cluster that does not run the present spec. since is the time since when its configuration is not Ready;
// zero when the configuration is Ready.
func (s *snapshot) countOutdated(k outdatedKey, since time.Time) {
	s.outdated[k]++
	if start, known := s.started[k.modeKey]; !since.IsZero() && (!known || since.Before(start)) {
		s.started[k.modeKey] = since
	}
}

// noteCluster keeps a condition of an installation. Of several resources for one cluster, the first reason by name counts: the caches
// have no order, and every scrape has to report the same reason.
func (s *snapshot) noteCluster(cluster string, k clusterKey, is verdict) {
	if s.clusters[cluster] == nil {
		s.clusters[cluster] = clusterConditions{}
	}
	if before, known := s.clusters[cluster][k]; !known || is.reason < before.reason {
		s.clusters[cluster][k] = is
	}
}
