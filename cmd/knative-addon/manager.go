// Copyright Contributors to the Open Cluster Management project

package main

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"open-cluster-management.io/knative-addon/pkg/controllers"
	"open-cluster-management.io/knative-addon/pkg/controllers/guard"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// managerFlags are the flags of `knative-addon manager`.
type managerFlags struct {
	kubeconfig, metrics, probes string
	leaderElect                 bool
	leaseNamespace              string
	qps                         float32
	burst, verbosity            int
	render                      renderFlags
	references                  referenceFlags
	maxRemoval                  string
	direct                      directFlags
}

// gcPercent is by how much the heap may grow between two collections, unless the environment says so: half of Go's default. Most
// of the heap is what caches hold, and the manager has more processor time than memory to spare.
const gcPercent = 50

func newManager() *cobra.Command {
	var f managerFlags
	cmd := &cobra.Command{
		Use: "manager", Short: "Run the add-on on a hub", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	f.render.add(flags)
	f.references.add(flags)
	f.direct.add(flags)
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig of the hub; empty means the pod's service account")
	flags.StringVar(&f.metrics, "metrics-bind-address", ":8080", "where /metrics is served; 0 means nowhere")
	flags.StringVar(&f.probes, "health-probe-bind-address", ":8081", "where /healthz and /readyz are served")
	flags.BoolVar(&f.leaderElect, "leader-elect", true, "act only while holding a Lease, so that several replicas may run")
	flags.StringVar(&f.leaseNamespace, "leader-election-namespace", "", "namespace of the Lease; empty means the pod's own")
	flags.Float32Var(&f.qps, "kube-api-qps", 100, "requests to the hub per second")
	flags.IntVar(&f.burst, "kube-api-burst", 200, "requests to the hub at once")
	flags.StringVar(&f.maxRemoval, "max-removal", "10%",
		"how many clusters, as a number or a percentage, may lose an add-on through Placements within an hour without confirmation")
	flags.IntVar(&f.verbosity, "v", 0, "verbosity of the log; 2 and above log Secrets that are delivered")
	return cmd
}

func (f *managerFlags) run(ctx context.Context) error {
	logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Verbosity(f.verbosity)))
	ctrl.SetLogger(logger)
	klog.SetLogger(logger)

	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	references, err := f.references.policy()
	if err != nil {
		return err
	}
	maxRemoval, err := guard.ParseMaxRemoval(f.maxRemoval)
	if err != nil {
		return fmt.Errorf("--max-removal: %w", err)
	}
	config, err := f.config()
	if err != nil {
		return err
	}
	renderer, err := render.New(f.render.config())
	if err != nil {
		return err
	}
	defer func() { _ = renderer.Close() }()
	logger.Info("release manifests are ready", "source", renderer.Source())
	logger.Info("clusters of ClusterProfiles are watched up to a number and polled beyond it, or where watching is refused",
		"watched", f.direct.watched, "pollInterval", f.direct.interval())

	options := f.options()
	if options.Scheme, err = controllers.NewScheme(); err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(config, options)
	if err != nil {
		return fmt.Errorf("cannot create the manager: %w", err)
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("cannot add the health check: %w", err)
	}
	if err := mgr.AddReadyzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("cannot add the readiness check: %w", err)
	}
	hub, err := controllers.NewHub(config)
	if err != nil {
		return err
	}
	if err := controllers.SetupWithManager(mgr, hub, renderer, controllers.Options{
		Render: f.render.options(render.Pull), References: references, MaxRemoval: maxRemoval,
		Direct: f.direct.options(), RenderDirect: f.render.options(render.Push),
	}); err != nil {
		return err
	}
	// Full caches before the lease: a replica that takes over can act at once.
	if err := hub.Start(ctx); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

func (f *managerFlags) config() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", f.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("cannot read the hub's kubeconfig: %w", err)
	}
	config.QPS, config.Burst = f.qps, f.burst
	config.UserAgent = "knative-addon/" + version
	return config, nil
}

func (f *managerFlags) options() ctrl.Options {
	// Short enough that a crashed leader is replaced within half a minute.
	lease, renew, retry := 15*time.Second, 10*time.Second, 2*time.Second
	return ctrl.Options{
		Metrics:                       metricsserver.Options{BindAddress: f.metrics},
		HealthProbeBindAddress:        f.probes,
		LeaderElection:                f.leaderElect,
		LeaderElectionID:              "knative-addon",
		LeaderElectionNamespace:       f.leaseNamespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &lease, RenewDeadline: &renew, RetryPeriod: &retry,
	}
}
