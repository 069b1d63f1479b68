// Copyright Contributors to the Open Cluster Management project

// Command demo shows the add-on on a real fleet in local processes: a hub, two managed clusters, the chart installed with
// helm, Knative Serving enabled with clusteradm. It stays until Ctrl-C; with DEMO_ONCE=1 it ends when everything is
// Available, and fails with the reason when that takes longer than three minutes. With DEMO_REAL=1 the first cluster has a node
// that runs pods, and a Service of a user answers a request at the end; that needs root and packages of Debian.
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
	if err := run(ctx, demo{once: os.Getenv("DEMO_ONCE") == "1", realNode: os.Getenv("DEMO_REAL") == "1"}); err != nil {
		fmt.Fprintf(os.Stderr, "demo: %v\n", err)
		os.Exit(1) //nolint:gocritic // nothing is left to clean up
	}
}

// demo says how the demo runs.
type demo struct{ once, realNode bool }

// helmArguments give the Services of a real node a domain: without a domain, the gateway answers only requests from the cluster.
func (d demo) helmArguments() []string {
	if !d.realNode {
		return nil
	}
	return []string{"--set", `serving.spec.config.domain.demo\.test=`}
}

func run(ctx context.Context, d demo) (err error) {
	start := time.Now()
	l, err := lab.New(ctx, lab.Options{ManagedClusters: 2, RealNode: d.realNode, StatusSyncInterval: 5 * time.Second, Log: os.Stderr})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()

	arguments := d.helmArguments()
	step("helm install knative-addon charts/knative-addon --namespace %s %s", harness.Namespace, strings.Join(arguments, " "))
	fleet, err := harness.Install(ctx, l, harness.Options{Helm: arguments})
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
	if d.realNode {
		err = callService(ctx, fleet)
	} else {
		fmt.Println("The API servers, OCM and Knative's webhooks are real. KWOK simulates nodes and pods: no Service of a user runs here.")
	}
	if d.once || err != nil {
		return err
	}
	explain(fleet)
	<-ctx.Done()
	return nil
}

// callService applies a Service of a user to the cluster with the real node, and prints the answer of the Service.
func callService(ctx context.Context, fleet *harness.Fleet) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	spoke := fleet.Managed[0]
	step("kubectl --kubeconfig %s apply --filename - <<EOF%sEOF", spoke.Kubeconfig, harness.HelloManifest)
	if err := spoke.Apply(ctx, []byte(harness.HelloManifest)); err != nil {
		return err
	}
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		request, err := harness.HelloRequest(ctx, spoke)
		if err == nil {
			var answer string
			if answer, err = harness.Answer(request, harness.HelloText, patience); err == nil {
				step("curl --header %q %s", "Host: "+request.Host, request.URL)
				fmt.Print(answer)
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the Service has not answered within %s: %w", patience, err)
		case <-tick.C:
		}
	}
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
