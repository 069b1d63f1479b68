// Copyright Contributors to the Open Cluster Management project

package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/util/retry"

	addonclient "open-cluster-management.io/api/client/addon/clientset/versioned"
	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned"
	workclient "open-cluster-management.io/api/client/work/clientset/versioned"

	"open-cluster-management.io/knative-addon/test/lab"
	"open-cluster-management.io/knative-addon/test/lab/faultproxy"
	"open-cluster-management.io/knative-addon/test/lab/pki"
	"open-cluster-management.io/knative-addon/test/lab/process"
)

// Namespace is where the chart is installed.
const Namespace = "knative-addon"

// ManagerAccount is the chart's ServiceAccount of the manager, LocalAccount that of the program which installs on the hub.
const (
	ManagerAccount = "knative-addon-manager"
	LocalAccount   = "knative-addon-local"
)

// Manager is the name of the manager among the lab's components, LocalInstalls that of the program which installs on the hub.
const (
	Manager       = "manager"
	LocalInstalls = "local-installs"
)

// Fleet is a lab with the add-on on its hub.
type Fleet struct {
	*lab.Lab

	AddOns   addonclient.Interface
	Works    workclient.Interface
	Clusters clusterclient.Interface
	// Binary is the file of knative-addon.
	Binary string
	chart  string
	// helmArgs are the arguments of the chart's installation; args and env are the arguments and the environment of the manager.
	helmArgs, args, env []string
	// hubProxy stands between the manager and the hub's API server, if it is not nil.
	hubProxy *faultproxy.Proxy
	// metrics are the addresses of metrics, by component.
	metrics map[string]string
	// probes are the addresses of /healthz and /readyz, by component.
	probes map[string]string
}

// Options say what Install runs.
type Options struct {
	// Helm and Manager are further arguments.
	Helm, Manager []string
	// Env is added to the environment of the manager, as "NAME=value".
	Env []string
	// Trusted are the namespaces whose resources may escalate; none means the namespace of the chart.
	Trusted []string
	// LeaderElection lets several managers take turns. A manager that leads ends when the hub does not answer for ten seconds,
	// and nobody would start it again.
	LeaderElection bool
	// LocalInstalls installs on the hub too.
	LocalInstalls bool
	// Checkout has the chart and the program of an earlier revision; nil means those of this checkout.
	Checkout *Checkout
	// HubProxy, if not nil, stands between the manager and the hub's API server.
	HubProxy *faultproxy.Proxy
}

// Install installs the chart and runs the manager.
func Install(ctx context.Context, l *lab.Lab, opts Options) (*Fleet, error) {
	f, err := Prepare(l, opts)
	if err != nil {
		return nil, err
	}
	if err := f.Reinstall(ctx); err != nil || !opts.LocalInstalls {
		return f, err
	}
	return f, f.run(ctx, program{
		command: LocalInstalls, name: LocalInstalls, account: LocalAccount,
		args: append([]string{fmt.Sprintf("--leader-elect=%t", opts.LeaderElection)}, trustedArgs(opts)...),
	})
}

// Prepare returns a fleet without the add-on: the caller installs the chart, and runs the manager with RunManager.
func Prepare(l *lab.Lab, opts Options) (*Fleet, error) {
	root, err := Repository()
	if err != nil {
		return nil, err
	}
	binary, err := Binary()
	if err != nil {
		return nil, err
	}
	if len(opts.Trusted) > 0 {
		opts.Helm = append(slices.Clone(opts.Helm), "--set", "rendering.trustedNamespaces={"+strings.Join(opts.Trusted, ",")+"}")
	}
	f := &Fleet{
		Lab: l, Binary: binary, chart: filepath.Join(root, "charts", "knative-addon"), hubProxy: opts.HubProxy, env: opts.Env,
		args: slices.Concat([]string{fmt.Sprintf("--leader-elect=%t", opts.LeaderElection)}, trustedArgs(opts), opts.Manager),
	}
	var errs [3]error
	f.AddOns, errs[0] = addonclient.NewForConfig(l.Hub.Config)
	f.Works, errs[1] = workclient.NewForConfig(l.Hub.Config)
	f.Clusters, errs[2] = clusterclient.NewForConfig(l.Hub.Config)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("cannot create the hub's clients: %w", err)
	}
	if opts.LocalInstalls {
		f.args, opts.Helm = append(f.args, "--local-installs"), append([]string{"--set", "localInstalls=true"}, opts.Helm...)
	}
	f.helmArgs = append([]string{
		"upgrade", "--install", "knative-addon", f.chart,
		"--namespace", Namespace, "--create-namespace", "--set", "replicaCount=0",
	}, opts.Helm...)
	if opts.Checkout != nil {
		f.useCheckout(opts.Checkout)
	}
	return f, nil
}

// chartArg is the position of the chart among the arguments of helm.
const chartArg = 3

// trustedArgs returns the argument of the manager for the trusted namespaces.
func trustedArgs(opts Options) []string {
	if len(opts.Trusted) == 0 {
		return nil
	}
	return []string{"--trusted-namespaces=" + strings.Join(opts.Trusted, ",")}
}

// Reinstall installs the chart as Install did, on a hub that has lost the chart, and runs a manager in place of the stopped one.
func (f *Fleet) Reinstall(ctx context.Context) error {
	if _, err := f.Command(ctx, "helm", f.helmArgs...); err != nil {
		return err
	}
	return f.RunManager(ctx, Manager)
}

// Binary returns the file of knative-addon that `make build` writes.
func Binary() (string, error) {
	root, err := Repository()
	return filepath.Join(root, "bin", "knative-addon"), err
}

// Repository returns the root of the checkout that this file is in.
func Repository() (string, error) {
	_, file, _, _ := runtime.Caller(0)
	root := filepath.Join(filepath.Dir(file), "..", "..", "..")
	if _, err := os.Stat(filepath.Join(root, "charts")); err != nil {
		return "", fmt.Errorf("cannot find the checkout (is this built with -trimpath?): %w", err)
	}
	return root, nil
}

// RunManager runs a manager as a component of that name, with further arguments. With leader election, a further one waits
// for its turn to lead.
func (f *Fleet) RunManager(ctx context.Context, name string, args ...string) error {
	return f.RunManagerWithEnv(ctx, name, nil, args...)
}

// RunManagerWithEnv is RunManager with further environment variables, as "NAME=value".
func (f *Fleet) RunManagerWithEnv(ctx context.Context, name string, env []string, args ...string) error {
	return f.run(ctx, program{
		command: "manager", name: name, account: ManagerAccount, args: append(slices.Clone(f.args), args...), env: append(slices.Clone(f.env), env...),
	})
}

// startTimeout bounds the start of a program on a busy machine.
const startTimeout = 3 * time.Minute

// program is a command of knative-addon that runs as a component of that name, with the token of a ServiceAccount.
type program struct {
	command, name, account string
	args, env              []string
}

func (f *Fleet) run(ctx context.Context, of program) error {
	if _, err := os.Stat(f.Binary); err != nil {
		return fmt.Errorf("cannot run the manager: %w; `make build` makes it", err)
	}
	kubeconfig, err := f.accountKubeconfig(ctx, of.account)
	if err != nil {
		return err
	}
	var ports [2]int
	for i := range ports {
		if ports[i], err = f.Port(); err != nil {
			return err
		}
	}
	if f.metrics == nil {
		f.metrics, f.probes = map[string]string{}, map[string]string{}
	}
	f.metrics[of.name] = fmt.Sprintf("127.0.0.1:%d", ports[1])
	f.probes[of.name] = fmt.Sprintf("127.0.0.1:%d", ports[0])
	args := []string{
		of.command, "--kubeconfig=" + kubeconfig, "--leader-election-namespace=" + Namespace, "--addon-namespace=" + Namespace,
		"--health-probe-bind-address=" + f.probes[of.name], "--metrics-bind-address=" + f.metrics[of.name],
	}
	if f.RecordsChanges() {
		args = append(args, "--v=1") // the log has every pass
	}
	p, err := f.Run(process.Spec{Name: of.name, Path: f.Binary, Dir: f.Dir, Env: of.env, Args: append(args, of.args...)})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return p.WaitReady(ctx, func(ctx context.Context) error { return f.Probe(ctx, of.name, "/readyz") })
}

// Probe returns an error unless /healthz or /readyz of a component succeeds.
func (f *Fleet) Probe(ctx context.Context, component, path string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+f.probes[component]+path, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", path, resp.Status)
	}
	return nil
}

// accountKubeconfig writes a kubeconfig with the token of a ServiceAccount, and returns the file. The kubeconfig leads through the proxy of
// the hub, if the fleet has a proxy.
func (f *Fleet) accountKubeconfig(ctx context.Context, account string) (string, error) {
	file, err := f.Hub.ServiceAccountKubeconfig(ctx, Namespace, account)
	if err != nil || f.hubProxy == nil {
		return file, err
	}
	config, err := configOf(file)
	if err != nil {
		return "", err
	}
	file = filepath.Join(f.Dir, account+"-proxied.kubeconfig")
	return file, pki.WriteKubeconfig(file, f.Hub.Name, f.hubProxy.URL, f.hubProxy.CA, pki.User{Token: config.BearerToken})
}

// MetricsURL is where a component serves its metrics.
func (f *Fleet) MetricsURL(component string) string {
	return "https://" + f.metrics[component] + "/metrics"
}

// Template is what helm makes of the chart, with further arguments.
func (f *Fleet) Template(ctx context.Context, helmArgs ...string) (string, error) {
	return f.Command(ctx, "helm", append([]string{"template", "knative-addon", f.chart, "--namespace", Namespace}, helmArgs...)...)
}

// Enable enables add-ons on clusters with clusteradm. clusteradm reads an add-on that exists and updates the add-on without a retry:
// a report of OCM or of the manager in between is a conflict, after which Enable runs clusteradm again, as a user would.
func (f *Fleet) Enable(ctx context.Context, addOns, clusters []string) error {
	return retry.OnError(retry.DefaultBackoff, isConflictMessage, func() error {
		_, err := f.Command(ctx, "clusteradm", "addon", "enable",
			"--names", strings.Join(addOns, ","), "--clusters", strings.Join(clusters, ","))
		return err
	})
}

// isConflictMessage reports whether a program failed with the message of an API server's conflict.
func isConflictMessage(err error) bool {
	return strings.Contains(err.Error(), "the object has been modified")
}

// Disable disables add-ons on clusters with clusteradm. It does not wait.
func (f *Fleet) Disable(ctx context.Context, addOns, clusters []string) error {
	_, err := f.Command(ctx, "clusteradm", "addon", "disable",
		"--names", strings.Join(addOns, ","), "--clusters", strings.Join(clusters, ","))
	return err
}

// Command runs one of the lab's programs against the hub and returns the standard output of the program.
func (f *Fleet) Command(ctx context.Context, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, f.Bin.Path(program), args...) //nolint:gosec // a program of the lab
	cmd.Env = append(os.Environ(), "KUBECONFIG="+f.Hub.Kubeconfig, "HELM_CACHE_HOME="+filepath.Join(f.Dir, "helm"))
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w: %s%s", program, strings.Join(args, " "), err, out.String(), stderr.String())
	}
	return out.String(), nil
}

// LogTail is the end of a component's log.
func (f *Fleet) LogTail(component string) string {
	const most = 4000
	for _, c := range f.Components() {
		if c.Name != component {
			continue
		}
		content, err := os.ReadFile(c.Log)
		if err != nil {
			return err.Error()
		}
		return string(content[max(0, len(content)-most):])
	}
	return "no component " + component
}
