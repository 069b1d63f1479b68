// Copyright Contributors to the Open Cluster Management project

// Command benchpull measures, on a real fleet in local processes, what the add-on takes from the creation of a
// KnativeServing to all objects applied, against a bare ManifestWork with the same objects; how soon a cluster is
// repaired; and how soon the hub tells of a workload that cannot run. Figures of one run belong together; times alone
// depend on the machine.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
)

func main() {
	rounds := flag.Int("rounds", 3, "how many labs are started, one after the other; each has fresh clusters, of which another one is ours each time")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx, *rounds); err != nil {
		fmt.Fprintf(os.Stderr, "benchpull: %v\n", err)
		os.Exit(1) //nolint:gocritic // nothing is left to clean up
	}
}

func run(ctx context.Context, rounds int) error {
	var all []figures
	for i := range rounds {
		f, err := round(ctx, i)
		if err != nil {
			return fmt.Errorf("round %d: %w", i+1, err)
		}
		all = append(all, f)
	}
	report(os.Stdout, all)
	return nil
}

// figures are what one round has measured.
type figures struct {
	add, bare          time.Duration // from the first write to all objects applied
	protected, deleted time.Duration // from the deletion of a Deployment to the repair; protected has a PodDisruptionBudget
	scaled             time.Duration // from the scaling of a Deployment to the repair
	unavailable        time.Duration // from the Deployment's status on the cluster to Ready=False on the hub
	objects            int
}

// bench is a fleet with two fresh clusters.
type bench struct {
	*harness.Fleet
	hub dynamic.Interface
	// our is the cluster of the KnativeServing, bare that of the bare ManifestWork.
	our, bare *lab.Cluster
	spoke     kubernetes.Interface
}

func round(ctx context.Context, i int) (f figures, err error) {
	l, err := lab.New(ctx, lab.Options{ManagedClusters: 2, Log: os.Stderr})
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	fleet, err := harness.Install(ctx, l, harness.Options{})
	if err != nil {
		return f, err
	}
	b := bench{Fleet: fleet, our: l.Managed[i%2], bare: l.Managed[1-i%2]}
	if b.hub, err = dynamic.NewForConfig(l.Hub.Config); err != nil {
		return f, err
	}
	if b.spoke, err = kubernetes.NewForConfig(b.our.Config); err != nil {
		return f, err
	}
	return b.measure(ctx)
}

func (b *bench) measure(ctx context.Context) (f figures, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	if err := b.prepare(ctx); err != nil {
		return f, err
	}
	if f.add, err = b.install(ctx); err != nil {
		return f, err
	}
	if f.bare, f.objects, err = b.installBare(ctx); err != nil {
		return f, err
	}
	if f.protected, err = b.repairDeleted(ctx, "activator"); err != nil {
		return f, err
	}
	if f.deleted, err = b.repairDeleted(ctx, workload); err != nil {
		return f, err
	}
	if f.unavailable, err = b.noticeUnavailable(ctx); err != nil {
		return f, err
	}
	f.scaled, err = b.repairScaled(ctx)
	return f, err
}
