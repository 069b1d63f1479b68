// Copyright Contributors to the Open Cluster Management project

// Package clustercache connects to one cluster and caches the state of the objects there that have our component label.
//
// A View caches one Place: metadata, and for workloads the status. A watch keeps the View current, or a poll where the cluster
// refuses watches, floods them, or exceeds the WatchLimit. Every list and watch is bounded, since no cluster is trusted.
//
// client-go's Reflector cannot replace the own reflector: a Reflector always watches (800 kB and 73 goroutines a cluster in
// BenchmarkFootprint; a polled cluster needs 208 kB and 19, a watched one 55 goroutines) and never detects a silent watch.
package clustercache
