// Copyright Contributors to the Open Cluster Management project

package metrics

import (
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// MaxClusters is the number of clusters that have series of their own, if the administrator asks for such series.
const MaxClusters = 1000

// Sources are the caches and the functions that a Collector reads.
type Sources struct {
	// Configs are the caches of KnativeServings and KnativeEventings.
	Configs map[api.Component]cache.Indexer
	// AddOns and Foundations are the caches of ManagedClusterAddOns, and of ManifestWorks with api.FoundationLabel.
	AddOns, Foundations cache.Indexer
	// Deployments is the cache of AddOnDeploymentConfigs.
	Deployments cache.Indexer
	// Fleets is the cache of KnativeFleets, whose keys are the namespace and the name.
	Fleets cache.Indexer
	// Versions knows the bundled versions of Knative.
	Versions Versions
	// CountConnections counts the connections to clusters without a work agent by the state of their circuit breakers.
	CountConnections func() map[string]int
	// PerCluster adds series for each of the first MaxClusters clusters.
	PerCluster bool
}

// Versions knows the bundled versions of Knative. A render.Renderer implements the interface.
type Versions interface {
	Versions(component api.Component) []string
	ResolveVersion(component api.Component, specVersion string) (string, error)
}

// Collector describes the content of the caches at the time of a scrape.
type Collector struct {
	sources Sources
	reasons boundedReasons
	// versions are the bundled versions of each component.
	versions map[api.Component][]string

	resources, addOns, desired, running, outdated, started, paused, connections, cluster, omitted *prometheus.Desc
	fleetClusters, fleetReady, omittedFleets                                                      *prometheus.Desc

	mu sync.Mutex
	// hashes are the hashes of specs by the UID of the resource, as of the last scrape.
	hashes map[types.UID]specHash
}

func newCollector(sources Sources) *Collector {
	c := &Collector{sources: sources, reasons: newBoundedReasons(), versions: map[api.Component][]string{}, hashes: map[types.UID]specHash{}}
	for _, component := range api.Components() {
		c.versions[component] = sources.Versions.Versions(component)
	}
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("knative_addon_"+name, help, labels, nil)
	}
	c.resources = describe("resources",
		"KnativeServings and KnativeEventings, by status and reason of conditions Ready and TargetClusterResolved.",
		"component", "mode", "condition", "status", "reason")
	c.addOns = describe("managedclusteraddons",
		"ManagedClusterAddOns of Knative, by status and reason of conditions Available and TargetClusterResolved.",
		"component", "mode", "condition", "status", "reason")
	c.desired = describe("desired_version_clusters",
		"Clusters by the version of Knative that the cluster has or is being changed to.", "component", "mode", "version")
	c.running = describe("running_version_clusters",
		"Clusters by the version of Knative that last ran completely on the cluster.", "component", "mode", "version")
	c.outdated = describe("outdated_clusters",
		"Clusters that do not run the present specs of their configurations yet, by state.", "component", "mode", "state")
	c.started = describe("rollout_start_time_seconds",
		"Unix time since when the oldest configuration with outdated clusters is not Ready; absent without such a configuration.", "component", "mode")
	c.paused = describe("paused_clusters", "Clusters that an annotation keeps unchanged.", "component", "mode")
	c.connections = describe("direct_connections",
		"Connections to clusters without a work agent, by the state of the circuit breaker.", "circuit_breaker")
	c.cluster = describe("cluster_condition",
		"1 while a condition of the installation on a cluster is True, 0 while the condition is False or Unknown.",
		"component", "cluster", "mode", "condition", "reason")
	c.omitted = describe("omitted_clusters",
		"Clusters without series of knative_addon_cluster_condition, because more clusters exist than have series.")
	c.fleetClusters = describe("knativefleet_clusters", "Clusters of a KnativeFleet by state. A cluster counts in several states.", "knativefleet", "state")
	c.fleetReady = describe("knativefleet_ready", "1 while condition Ready of a KnativeFleet is True, 0 while the condition is False or Unknown.",
		"knativefleet", "reason")
	c.omittedFleets = describe("omitted_knativefleets", "KnativeFleets without series, because more KnativeFleets exist than have series.")
	return c
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{
		c.resources, c.addOns, c.desired, c.running, c.outdated, c.started, c.paused, c.connections, c.cluster, c.omitted,
		c.fleetClusters, c.fleetReady, c.omittedFleets,
	} {
		out <- desc
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.takeSnapshot()
	sendCounts(out, c.resources, s.resources, conditionKey.labelValues)
	sendCounts(out, c.addOns, s.addOns, conditionKey.labelValues)
	sendCounts(out, c.desired, s.desired, versionKey.labelValues)
	sendCounts(out, c.running, s.running, versionKey.labelValues)
	sendCounts(out, c.outdated, s.outdated, outdatedKey.labelValues)
	sendCounts(out, c.paused, s.paused, modeKey.labelValues)
	for k, start := range s.started {
		out <- prometheus.MustNewConstMetric(c.started, prometheus.GaugeValue, float64(start.Unix()), k.labelValues()...)
	}
	if c.sources.CountConnections != nil {
		sendCounts(out, c.connections, c.sources.CountConnections(), func(state string) []string { return []string{state} })
	}
	c.sendClusters(out, s.clusters)
	c.sendFleets(out)
}

// sendCounts sends a gauge for each count.
func sendCounts[K comparable](out chan<- prometheus.Metric, desc *prometheus.Desc, counts map[K]int, labels func(K) []string) {
	for k, n := range counts {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(n), labels(k)...)
	}
}

// sendClusters sends the series of the first MaxClusters clusters by name: the same clusters at each scrape, as long as no cluster
// comes or goes.
func (c *Collector) sendClusters(out chan<- prometheus.Metric, clusters map[string]clusterConditions) {
	if !c.sources.PerCluster {
		return
	}
	names := make([]string, 0, len(clusters))
	for name := range clusters {
		names = append(names, name)
	}
	slices.Sort(names)
	kept := names[:min(len(names), MaxClusters)]
	for _, name := range kept {
		for k, is := range clusters[name] {
			out <- prometheus.MustNewConstMetric(c.cluster, prometheus.GaugeValue, is.value(), string(k.component), name, k.mode, k.condition, is.reason)
		}
	}
	out <- prometheus.MustNewConstMetric(c.omitted, prometheus.GaugeValue, float64(len(names)-len(kept)))
}
