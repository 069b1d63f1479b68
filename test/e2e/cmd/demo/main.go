// Copyright Contributors to the Open Cluster Management project

// Command demo shows the add-on on a real fleet in local processes: a hub, two managed clusters, the chart installed with
// helm, Knative Serving enabled with clusteradm. It stays until Ctrl-C; with DEMO_ONCE=1 it ends when everything is
// Available, and fails with the reason when that takes longer than three minutes.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
)

// patience is how long the add-on may take to become Available.
const patience = 3 * time.Minute

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx, os.Getenv("DEMO_ONCE") == "1"); err != nil {
		fmt.Fprintf(os.Stderr, "demo: %v\n", err)
		os.Exit(1) //nolint:gocritic // nothing is left to clean up
	}
}

func run(ctx context.Context, once bool) (err error) {
	start := time.Now()
	l, err := lab.New(ctx, lab.Options{ManagedClusters: 2, StatusSyncInterval: 5 * time.Second, Log: os.Stderr})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()

	step("helm install knative-addon charts/knative-addon --namespace %s", harness.Namespace)
	fleet, err := harness.Install(ctx, l, harness.Options{})
	if err != nil {
		return err
	}
	clusters := []string{l.Managed[0].Name, l.Managed[1].Name}
	step("clusteradm addon enable --names %s --clusters %s", api.Serving.AddOnName(), strings.Join(clusters, ","))
	if err := fleet.Enable(ctx, []string{api.Serving.AddOnName()}, clusters); err != nil {
		return err
	}
	if err := watch(ctx, fleet, clusters); err != nil {
		return err
	}
	if err := show(ctx, fleet); err != nil {
		return err
	}
	fmt.Printf("\nKnative Serving is Available on %d clusters, %.0f s after the start.\n", len(clusters), time.Since(start).Seconds())
	fmt.Println("The API servers, OCM and Knative's webhooks are real. KWOK simulates nodes and pods: no Service of a user runs here.")
	if once {
		return nil
	}
	explain(fleet)
	<-ctx.Done()
	return nil
}

func step(format string, args ...any) {
	fmt.Printf("\n$ "+format+"\n", args...)
}

// watch prints one line a cluster whenever it has come further, until all are Available.
func watch(ctx context.Context, fleet *harness.Fleet, clusters []string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	shown := map[string]string{}
	for {
		waiting, err := look(ctx, fleet, clusters, shown)
		if ctx.Err() == nil && (err != nil || len(waiting) == 0) {
			return err
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return fmt.Errorf("not Available within %s: %s", patience, strings.Join(waiting, "; "))
			}
			return errors.New("interrupted")
		case <-tick.C:
		}
	}
}

// look prints what has changed since it was shown, and returns why clusters are not Available.
func look(ctx context.Context, fleet *harness.Fleet, clusters []string, shown map[string]string) (waiting []string, err error) {
	for _, cluster := range clusters {
		p, err := fleet.Progress(ctx, api.Serving, cluster)
		if err != nil {
			return append(waiting, cluster+": "+err.Error()), err
		}
		line := fmt.Sprintf("%-10s %3d of %3d objects applied, %d of %d workloads available", cluster, p.Applied, p.Objects, p.Available, p.Workloads)
		if p.Done {
			line += ", add-on Available"
		} else {
			waiting = append(waiting, cluster+": "+p.Message)
		}
		if line != shown[cluster] {
			shown[cluster] = line
			fmt.Println(line)
		}
	}
	return waiting, nil
}

// show prints what a user would look at next.
func show(ctx context.Context, fleet *harness.Fleet) error {
	spoke := fleet.Managed[0]
	for _, command := range [][]string{
		{"clusteradm", "get", "addon", api.Serving.AddOnName(), "--output", "table"},
		{"kubectl", "--kubeconfig", spoke.Kubeconfig, "--namespace", api.Serving.InstallNamespace(), "get", "deployments"},
	} {
		step("%s", strings.Join(command, " "))
		out, err := fleet.Command(ctx, command[0], command[1:]...)
		if err != nil {
			return err
		}
		fmt.Print(out)
	}
	return nil
}

func explain(fleet *harness.Fleet) {
	fmt.Printf("\nGo on in another terminal:\n\n  export PATH=%s:$PATH\n  export KUBECONFIG=%s   # the hub\n", strings.Join(fleet.Bin.Dirs(), ":"), fleet.Hub.Kubeconfig)
	for _, c := range fleet.Managed {
		fmt.Printf("  kubectl --kubeconfig %s get pods --all-namespaces   # %s\n", c.Kubeconfig, c.Name)
	}
	fmt.Print("  clusteradm addon enable --names knative-eventing --clusters cluster1,cluster2\n" +
		"  clusteradm addon disable --names knative-serving --clusters cluster1\n\nCtrl-C ends everything.\n")
}
