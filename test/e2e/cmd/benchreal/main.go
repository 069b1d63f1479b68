// Copyright Contributors to the Open Cluster Management project

// Command benchreal compares, on a node that runs pods, an installation by this add-on with the same manifests applied with kubectl: the time
// to the first answer of a Service of a user, the answer of a Service without pods, and the requests that fail during an upgrade. Ratios
// hold on other machines, times do not.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
)

func main() {
	rounds := flag.Int("rounds", 2, "how often both ways are measured, one after the other on one cluster")
	coldStarts := flag.Int("cold-starts", 3, "how many answers of a Service without pods each measurement has")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx, *rounds, *coldStarts); err != nil {
		fmt.Fprintf(os.Stderr, "benchreal: %v\n", err)
		os.Exit(1) //nolint:gocritic // nothing is left to clean up
	}
}

// bench is a fleet whose managed cluster has a real node.
type bench struct {
	*harness.Fleet

	cluster *lab.Cluster
	kube    kubernetes.Interface
	hub     dynamic.Interface
	// coldStarts is how many answers of a Service without pods a measurement has.
	coldStarts int
}

func run(ctx context.Context, rounds, coldStarts int) (err error) {
	l, err := lab.New(ctx, lab.Options{ManagedClusters: 1, RealNodes: []string{"cluster1"}, StatusSyncInterval: 2 * time.Second, Log: os.Stderr})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	fleet, err := harness.Install(ctx, l, harness.Options{})
	if err != nil {
		return err
	}
	b := &bench{Fleet: fleet, cluster: l.Managed[0], coldStarts: coldStarts}
	if b.kube, err = kubernetes.NewForConfig(b.cluster.Config); err != nil {
		return fmt.Errorf("cannot create a client for %s: %w", b.cluster.Name, err)
	}
	if b.hub, err = dynamic.NewForConfig(l.Hub.Config); err != nil {
		return fmt.Errorf("cannot create a client for the hub: %w", err)
	}
	addOn, kubectl, err := b.compare(ctx, rounds)
	if err != nil {
		return err
	}
	report(os.Stdout, addOn, kubectl)
	return nil
}

// compare measures both ways in each round. The last installation stays, because the lab ends.
func (b *bench) compare(ctx context.Context, rounds int) (addOn, kubectl []figures, err error) {
	for i := range rounds {
		ways := []struct {
			way

			into *[]figures
		}{{&byAddOn{b}, &addOn}, {&byKubectl{b}, &kubectl}}
		if i%2 == 1 {
			slices.Reverse(ways) // the first installation of a cluster starts programs that no cache has yet
		}
		for j, w := range ways {
			f, err := b.measure(ctx, w)
			if last := i == rounds-1 && j == len(ways)-1; err == nil && !last {
				err = errors.Join(b.deleteService(ctx), w.remove(ctx))
			}
			if err != nil {
				return nil, nil, fmt.Errorf("round %d, %s: %w", i+1, w.name(), err)
			}
			fmt.Fprintf(os.Stderr, "benchreal: round %d, %s: %+v\n", i+1, w.name(), f)
			*w.into = append(*w.into, f)
		}
	}
	return addOn, kubectl, nil
}

// way is a way in which Serving comes to the cluster.
type way interface {
	name() string
	// install requests an installation, or a change to the version of an installation.
	install(ctx context.Context, version string) error
	// remove removes the installation, and waits for the end.
	remove(ctx context.Context) error
}
