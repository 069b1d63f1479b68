// Copyright Contributors to the Open Cluster Management project

// Package metrics describes the state of the fleet in metrics of Prometheus. docs/metrics.md explains each metric to users.
//
//   - A Collector reads the caches of the manager at the time of a scrape. It sends no request, starts no watch and copies no
//     object. Every replica of the manager fills its caches, so that every replica reports the same state: queries take the
//     maximum over the replicas.
//   - Every value of a label comes from a list that the code, the administrator or the bundled releases bound. A text of a
//     cluster never becomes a label. The names of clusters are labels only of a metric that the administrator switches on, and of
//     at most MaxClusters clusters. The namespaces and names of at most MaxFleets KnativeFleets are labels.
package metrics
