// Copyright Contributors to the Open Cluster Management project

// Package clustercache connects to one cluster and caches the state of the objects there that have our component label.
//
// A View caches one Place: metadata, and for workloads the status. A watch keeps the View current, or the poller where the cluster refuses
// watches, floods them, or exceeds the WatchLimit; beyond the WatchLimit only workloads are watched. The poller lists a place after
// as long as nothing has changed on the cluster. Every list and watch is bounded, since no cluster is trusted.
//
// client-go's Reflector cannot replace the own reflector: a Reflector always watches (73 goroutines a cluster in BenchmarkFootprint; a
// cluster beyond the WatchLimit needs 5) and never detects a silent watch.
package clustercache
