// Copyright Contributors to the Open Cluster Management project

package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// largeHeapGrowth is the growth of a large heap between two collections of garbage, in percent. Caches hold most of the heap, so that Go's
	// default of 100 would take most of the memory for garbage.
	largeHeapGrowth = 25
	// minHeapGrowth is the least growth of the heap between two collections, in bytes: a percentage alone collects a small heap all the time. A
	// fleet of 20 clusters takes a quarter less processor time with 16 MB, and has 13 MB more memory.
	minHeapGrowth = 14 << 20
	// maxHeapGrowth is the growth of a heap that has just begun, in percent.
	maxHeapGrowth = 400
)

// collectionMarker is an object without a reference: its cleanup runs after each collection. The pointer keeps the object apart from others.
type collectionMarker struct{ _ *byte }

// tuneCollector sets the growth of the heap until the next collection, now and after each collection.
func tuneCollector() {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	debug.SetGCPercent(heapGrowth(sample[0].Value.Uint64()))
	runtime.AddCleanup(&collectionMarker{}, func(struct{}) { tuneCollector() }, struct{}{})
}

// heapGrowth returns the growth in percent of a heap with so many bytes of live objects.
func heapGrowth(live uint64) int {
	growth := max(largeHeapGrowth, 100*minHeapGrowth/max(live, 1))
	return int(min(growth, maxHeapGrowth)) //nolint:gosec // the value is small
}
