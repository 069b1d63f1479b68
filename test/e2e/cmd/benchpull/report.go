// Copyright Contributors to the Open Cluster Management project

package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

var errNotYet = errors.New("not yet")

// report prints what was measured, and the medians against what they should be.
func report(out io.Writer, all []figures) {
	fmt.Fprintf(out, "\nround  objects  KnativeServing  bare ManifestWork  ratio  repair: deleted, with a PDB  deleted, without  scaled  unavailable to Ready=False\n")
	for i, f := range all {
		fmt.Fprintf(out, "%5d  %7d  %12.2f s  %15.2f s  %5.2f  %21.2f s  %14.2f s  %4.2f s  %10.2f s\n", i+1, f.objects,
			f.add.Seconds(), f.bare.Seconds(), f.add.Seconds()/f.bare.Seconds(), f.protected.Seconds(), f.deleted.Seconds(), f.scaled.Seconds(), f.unavailable.Seconds())
	}
	median := func(of func(figures) float64) float64 {
		var values []float64
		for _, f := range all {
			values = append(values, of(f))
		}
		slices.Sort(values)
		return values[len(values)/2]
	}
	seconds := func(of func(figures) time.Duration) float64 {
		return median(func(f figures) float64 { return of(f).Seconds() })
	}
	fmt.Fprintf(out, "\nmedian: all objects applied in %.2f times what a bare ManifestWork takes (goal: at most 1.5)\n",
		median(func(f figures) float64 { return f.add.Seconds() / f.bare.Seconds() }))
	fmt.Fprintf(out, "median: a deleted Deployment is back after %.2f s when it has a PodDisruptionBudget, else after %.2f s, a scaled one after %.2f s (goal: 5 s)\n",
		seconds(func(f figures) time.Duration { return f.protected }), seconds(func(f figures) time.Duration { return f.deleted }), seconds(func(f figures) time.Duration { return f.scaled }))
	fmt.Fprintf(out, "median: Ready=False %.2f s after the Deployment's status says so on the cluster (goal: 2 s)\n",
		seconds(func(f figures) time.Duration { return f.unavailable }))
}
