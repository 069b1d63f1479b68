// Copyright Contributors to the Open Cluster Management project

package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"open-cluster-management.io/knative-addon/pkg/clustercache"
	"open-cluster-management.io/knative-addon/pkg/controllers"
	"open-cluster-management.io/knative-addon/pkg/hub"
	"open-cluster-management.io/knative-addon/pkg/logging"
	"open-cluster-management.io/knative-addon/pkg/reconciler"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/trust"
)

// processFlags are the flags of every command that runs on a hub.
type processFlags struct {
	kubeconfig, metrics, probes string
	metricsSecure               bool
	metricsCertDir              string
	profilePort                 uint16
	leaderElect                 bool
	leaseNamespace              string
	// lease is the name of the Lease, set by createManager.
	lease             string
	qps               float32
	burst, verbosity  int
	operatorNamespace string
}

// renewDeadline is how long a leader tries to renew the Lease before it ends.
const renewDeadline = 10 * time.Second

func (f *processFlags) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig of the hub; empty means the pod's service account")
	flags.StringVar(&f.metrics, "metrics-bind-address", ":8080", "address of /metrics; 0 switches /metrics off")
	flags.BoolVar(&f.metricsSecure, "metrics-secure", true,
		"serve /metrics by HTTPS, and only to users of the hub with the permission to get /metrics; false serves /metrics by HTTP to all clients")
	flags.StringVar(&f.metricsCertDir, "metrics-cert-dir", "",
		"directory of tls.crt and tls.key for /metrics; empty means a self-signed certificate")
	flags.StringVar(&f.probes, "health-probe-bind-address", ":8081", "address of /healthz and /readyz")
	flags.Uint16Var(&f.profilePort, "pprof-port", 0,
		"port of 127.0.0.1 at which /debug/pprof/ serves profiles of this process to programs of the same pod or machine; 0 switches the profiles off")
	flags.BoolVar(&f.leaderElect, "leader-elect", true, "act only while holding a Lease, so that several replicas may run")
	flags.StringVar(&f.leaseNamespace, "leader-election-namespace", "", "namespace of the Lease; empty means the pod's own")
	flags.Float32Var(&f.qps, "kube-api-qps", 100, "requests to the hub per second, of each client of the hub: works, add-ons, clusters, ClusterProfiles, resources of Knative, and all others")
	flags.IntVar(&f.burst, "kube-api-burst", 200, "requests to the hub at once, of each client of the hub")
	flags.IntVar(&f.verbosity, "v", 0,
		"verbosity of the log, up to 6: 1 logs Events and every pass of a controller, 4 and above the logs of libraries; no verbosity logs the content of objects")
	flags.StringVar(&f.operatorNamespace, "knative-operator-namespace", hub.DefaultOperatorNamespace,
		"namespace of the hub in which a Deployment knative-operator is the Knative Operator; Deployments elsewhere do not count")
}

// prepareProcess sets up the log and the memory of the process.
func (f *processFlags) prepareProcess() logr.Logger {
	logger := logging.New(f.verbosity, os.Stderr)
	ctrl.SetLogger(logger)
	klog.SetLoggerWithOptions(logger, klog.ContextualLogger(true))
	if os.Getenv("GOGC") == "" {
		tuneCollector()
	}
	return logger
}

func (f *processFlags) hubConfig() (*rest.Config, error) {
	if f.operatorNamespace == "*" || invalidNamespace(f.operatorNamespace) {
		return nil, fmt.Errorf("cannot use --knative-operator-namespace=%q: it has to be the name of a namespace", f.operatorNamespace)
	}
	config, err := clientcmd.BuildConfigFromFlags("", f.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("cannot read the hub's kubeconfig: %w", err)
	}
	config.QPS, config.Burst = f.qps, f.burst
	config.UserAgent = "knative-addon/" + version
	return config, nil
}

// prepareRendering reads the configuration of the hub's API server and opens the release manifests. The caller closes the renderer.
func (f *processFlags) prepareRendering(logger logr.Logger, flags *renderFlags, trusted trust.Policy) (*rest.Config, *render.Renderer, error) {
	if err := flags.requireSum(); err != nil {
		return nil, nil, err
	}
	config, err := f.hubConfig()
	if err != nil {
		return nil, nil, err
	}
	renderer, err := render.New(flags.buildConfig(trusted))
	if err != nil {
		return nil, nil, err
	}
	logger.Info("release manifests are ready", "source", renderer.Source())
	return config, renderer, nil
}

// createManager returns a manager that acts while the process holds the Lease.
func (f *processFlags) createManager(config *rest.Config, lease string) (ctrl.Manager, error) {
	f.lease = lease
	if err := boundHosts(config); err != nil {
		return nil, err
	}
	options := f.managerOptions(lease)
	if f.leaderElect {
		l := &leadership{clock: clock.RealClock{}}
		options.LeaderElectionConfig = l.observe(config)
		options.BaseContext = func() context.Context { return reconciler.WithLeadership(context.Background(), l.leads) }
	}
	var err error
	if options.Scheme, err = controllers.NewScheme(); err != nil {
		return nil, err
	}
	mgr, err := ctrl.NewManager(config, options)
	if err != nil {
		return nil, fmt.Errorf("cannot create the manager: %w", err)
	}
	return mgr, nil
}

func (f *processFlags) managerOptions(name string) ctrl.Options {
	// Short enough that a crashed leader is replaced within half a minute.
	lease, renew, retry := 15*time.Second, renewDeadline, 2*time.Second
	return ctrl.Options{
		Metrics:                       f.metricsOptions(),
		HealthProbeBindAddress:        "0", // see runWithHub
		PprofBindAddress:              f.profileAddress(),
		LeaderElection:                f.leaderElect,
		LeaderElectionID:              name,
		LeaderElectionNamespace:       f.leaseNamespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &lease, RenewDeadline: &renew, RetryPeriod: &retry,
	}
}

// effectivePollInterval returns the interval of a flag, or the default for an interval that is too short.
func effectivePollInterval(interval time.Duration) time.Duration {
	if interval < clustercache.MinPollInterval {
		return clustercache.DefaultPollInterval
	}
	return interval
}

// profileAddress returns the address of /debug/pprof/. Profiles contain names and texts of the hub and need no permission, so that
// no flag makes other machines or pods reach the profiles.
func (f *processFlags) profileAddress() string {
	if f.profilePort == 0 {
		return "0"
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(int(f.profilePort)))
}
