// Copyright Contributors to the Open Cluster Management project

package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

// TestHeapGrowth holds that a small heap grows by the least number of bytes, and a large heap by the percentage.
func TestHeapGrowth(t *testing.T) {
	for live, want := range map[uint64]int{0: 400, 2 << 20: 400, 14 << 20: 100, 28 << 20: 50, 56 << 20: 25, 400 << 20: 25} {
		if got := heapGrowth(live); got != want {
			t.Errorf("a heap with %d live bytes grows by %d %%, want %d %%", live, got, want)
		}
	}
}

// TestTuneCollector holds that each collection sets the growth again.
func TestTuneCollector(t *testing.T) {
	before := debug.SetGCPercent(100)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	tuneCollector()
	ballast := make([]byte, 256<<20)
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	deadline := time.Now().Add(time.Minute)
	for {
		runtime.GC() // the cleanup that sets the growth runs soon after
		metrics.Read(sample)
		growth := sample[0].Value.Uint64()
		if growth == largeHeapGrowth {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("with a large heap the growth is %d %%", growth)
		}
	}
	runtime.KeepAlive(ballast)
}
