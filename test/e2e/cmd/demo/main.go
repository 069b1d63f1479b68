// Copyright Contributors to the Open Cluster Management project

// Command demo shows the add-on on a real fleet in local processes: a hub, two managed clusters, and a cluster that OCM does not
// manage. The chart is installed with helm, and one KnativeFleet installs Knative Serving on the three clusters in waves. The demo
// stays until Ctrl-C; with DEMO_ONCE=1 the demo ends when all clusters are ready, and fails with the reasons of the clusters that are
// not ready within three minutes. With DEMO_REAL=1 the first cluster has a node that runs pods, and a Service of a user answers a
// request at the end; that needs root and packages of Debian.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
)

const (
	// patience is how long the clusters may take to become ready.
	patience = 10 * time.Minute
	// namespace is the namespace of the team that uses the clusters.
	namespace = "team"
	// plugin gives the manager access to the cluster that OCM does not manage.
	plugin = "secretreader"
)

// fleetManifest installs Serving on all clusters of the namespace, two at a time.
const fleetManifest = `
apiVersion: knative.open-cluster-management.io/v1alpha1
kind: KnativeFleet
metadata: {name: web, namespace: ` + namespace + `}
spec:
  selector: {}
  rolloutStrategy: {type: Progressive, progressive: {maxConcurrency: 2}}
  serving:
    spec:
      version: "1.23"
      ingress: {kourier: {enabled: true}}
      config:
        network: {ingress-class: kourier.ingress.networking.knative.dev}
        domain: {demo.test: ""}
`

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx, options{once: os.Getenv("DEMO_ONCE") == "1", realNode: os.Getenv("DEMO_REAL") == "1"}); err != nil {
		fmt.Fprintf(os.Stderr, "demo: %v\n", err)
		os.Exit(1) //nolint:gocritic // nothing is left to clean up
	}
}

// options say how the demo runs.
type options struct{ once, realNode bool }

// realNodes returns the names of the clusters with a real node.
func (o options) realNodes() []string {
	if o.realNode {
		return []string{"cluster1"}
	}
	return nil
}

func run(ctx context.Context, opts options) (err error) {
	start := time.Now()
	l, err := lab.New(ctx, lab.Options{
		ManagedClusters: 2, Spokes: 1, RealNodes: opts.realNodes(), StatusSyncInterval: 5 * time.Second, Log: os.Stderr,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()

	fleet, err := install(ctx, l)
	if err != nil {
		return err
	}
	d := demo{Fleet: fleet}
	if err := d.connectClusters(ctx); err != nil {
		return err
	}
	if err := d.installKnative(ctx); err != nil {
		return err
	}
	if err := d.show(ctx); err != nil {
		return err
	}
	fmt.Printf("\nKnative Serving is ready on %d clusters, %.0f s after the start.\n", len(d.Lab.Clusters()), time.Since(start).Seconds())
	if opts.realNode {
		err = callService(ctx, fleet)
	} else {
		fmt.Println("The API servers, OCM and Knative's webhooks are real. KWOK simulates nodes and pods: no Service of a user runs here.")
	}
	if opts.once || err != nil {
		return err
	}
	d.explain()
	<-ctx.Done()
	return nil
}

// install installs the chart. The manager runs as a process of this machine, with an access provider for the clusters that OCM does
// not manage.
func install(ctx context.Context, l *lab.Lab) (*harness.Fleet, error) {
	providers, inventories := filepath.Join(l.Dir, "providers.json"), filepath.Join(l.Dir, "inventories.json")
	if err := harness.WriteProviders(providers, harness.Provider(l, plugin)); err != nil {
		return nil, err
	}
	if err := harness.WriteInventories(inventories, harness.LabInventory(namespace)); err != nil {
		return nil, err
	}
	step("helm install knative-addon charts/knative-addon --namespace %s --create-namespace", harness.Namespace)
	return harness.Install(ctx, l, harness.Options{
		Manager: []string{"--clusterprofile-provider-file=" + providers, "--inventory-file=" + inventories},
	})
}

// demo is a lab with the add-on on its hub.
type demo struct{ *harness.Fleet }

// connectClusters publishes the ClusterProfiles of all clusters in the namespace of the team.
func (d demo) connectClusters(ctx context.Context) error {
	if err := d.execute(ctx, "kubectl", "create", "namespace", namespace); err != nil {
		return err
	}
	if err := d.execute(ctx, "clusteradm", "clusterset", "bind", "default", "--namespace", namespace); err != nil {
		return err
	}
	for _, c := range d.Spokes {
		if err := d.execute(ctx, "knative-addon", "register", c.Name, "--kubeconfig", c.Kubeconfig, "--namespace", namespace, "--secret-namespace", "default"); err != nil {
			return err
		}
	}
	return nil
}

// installKnative applies the KnativeFleet, and prints each change of state until every cluster is ready.
func (d demo) installKnative(ctx context.Context) error {
	step("kubectl apply --filename - <<EOF%sEOF", fleetManifest)
	if err := d.Hub.Apply(ctx, []byte(fleetManifest)); err != nil {
		return err
	}
	watchCtx, stop := context.WithCancel(ctx)
	defer stop()
	watch := d.command(watchCtx, "knative-addon", "status", "--watch")
	watch.Cancel = func() error { return watch.Process.Signal(os.Interrupt) }
	step("%s", "knative-addon status --watch")
	if err := watch.Start(); err != nil {
		return err
	}
	wait := []string{"wait", "--timeout", patience.String()}
	for _, c := range d.Lab.Clusters() {
		wait = append(wait, c.Name)
	}
	var failure strings.Builder
	cmd := d.command(ctx, "knative-addon", wait...)
	cmd.Stdout, cmd.Stderr = nil, &failure
	err := cmd.Run()
	stop()
	_ = watch.Wait() // the interrupt ends the command
	if err != nil {
		return fmt.Errorf("%w: %s", err, failure.String())
	}
	return d.execute(ctx, "kubectl", "wait", "knativefleet", "web", "--namespace", namespace, "--for", "condition=Ready", "--timeout", patience.String())
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

// show prints the commands that a user would run next, with the outputs.
func (d demo) show(ctx context.Context) error {
	direct := d.Spokes[0]
	for _, command := range [][]string{
		{"knative-addon", "status"},
		{"kubectl", "get", "knativefleet", "web", "--namespace", namespace},
		{"kubectl", "--kubeconfig", direct.Kubeconfig, "--namespace", api.Serving.InstallNamespace(), "get", "deployments"},
	} {
		if err := d.execute(ctx, command[0], command[1:]...); err != nil {
			return err
		}
	}
	return nil
}

// execute prints a command and runs the command, with its output on the terminal.
func (d demo) execute(ctx context.Context, program string, args ...string) error {
	step("%s %s", program, strings.Join(args, " "))
	return d.command(ctx, program, args...).Run()
}

// command returns a command for the hub. Its output is no terminal for the program, so that the program prints lines.
func (d demo) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	path := d.Binary
	if program != "knative-addon" {
		path = d.Bin.Path(program)
	}
	cmd := exec.CommandContext(ctx, path, args...) //nolint:gosec // a program of the lab
	cmd.Env = append(os.Environ(), "KUBECONFIG="+d.Hub.Kubeconfig)
	cmd.Stdout, cmd.Stderr = lines{os.Stdout}, os.Stderr
	return cmd
}

// lines hides from a program that its output is a terminal.
type lines struct{ io.Writer }

func (d demo) explain() {
	fmt.Printf("\nGo on in another terminal:\n\n  export PATH=%s:%s:$PATH\n  export KUBECONFIG=%s   # the hub\n",
		filepath.Dir(d.Binary), strings.Join(d.Bin.Dirs(), ":"), d.Hub.Kubeconfig)
	for _, c := range d.Lab.Clusters() {
		fmt.Printf("  kubectl --kubeconfig %s get pods --all-namespaces   # %s\n", c.Kubeconfig, c.Name)
	}
	fmt.Printf("  knative-addon tree cluster1\n  knative-addon dashboard\n  kubectl delete knativefleet --namespace %s web && knative-addon wait --for=removed\n\nCtrl-C ends everything.\n", namespace)
}
