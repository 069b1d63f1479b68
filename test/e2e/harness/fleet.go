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

	addonclient "open-cluster-management.io/api/client/addon/clientset/versioned"
	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned"
	workclient "open-cluster-management.io/api/client/work/clientset/versioned"

	"open-cluster-management.io/knative-addon/test/lab"
	"open-cluster-management.io/knative-addon/test/lab/process"
)

// Namespace is where the chart is installed.
const Namespace = "knative-addon"

// managerAccount is the chart's ServiceAccount.
const managerAccount = "knative-addon-manager"

// Manager is the name of the manager among the lab's components.
const Manager = "manager"

// Fleet is a lab with the add-on on its hub.
type Fleet struct {
	*lab.Lab

	AddOns   addonclient.Interface
	Works    workclient.Interface
	Clusters clusterclient.Interface
	// Binary is the file of knative-addon.
	Binary string
	chart  string
	args   []string
}

// Options say what Install runs.
type Options struct {
	// Helm and Manager are further arguments.
	Helm, Manager []string
	// LeaderElection lets several managers take turns. A manager that leads ends when the hub does not answer for ten seconds,
	// and nobody would start it again.
	LeaderElection bool
}

// Install installs the chart and runs the manager.
func Install(ctx context.Context, l *lab.Lab, opts Options) (*Fleet, error) {
	root, err := repository()
	if err != nil {
		return nil, err
	}
	f := &Fleet{
		Lab: l, Binary: filepath.Join(root, "bin", "knative-addon"), chart: filepath.Join(root, "charts", "knative-addon"),
		args: append([]string{fmt.Sprintf("--leader-elect=%t", opts.LeaderElection)}, opts.Manager...),
	}
	var errs [3]error
	f.AddOns, errs[0] = addonclient.NewForConfig(l.Hub.Config)
	f.Works, errs[1] = workclient.NewForConfig(l.Hub.Config)
	f.Clusters, errs[2] = clusterclient.NewForConfig(l.Hub.Config)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("cannot create the hub's clients: %w", err)
	}
	args := append([]string{
		"upgrade", "--install", "knative-addon", f.chart,
		"--namespace", Namespace, "--create-namespace", "--set", "replicaCount=0",
	}, opts.Helm...)
	if _, err := f.Command(ctx, "helm", args...); err != nil {
		return nil, err
	}
	return f, f.RunManager(ctx, Manager)
}

// repository is the root of the checkout that this file is in.
func repository() (string, error) {
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
	if _, err := os.Stat(f.Binary); err != nil {
		return fmt.Errorf("cannot run the manager: %w; `make build` makes it", err)
	}
	kubeconfig, err := f.Hub.ServiceAccountKubeconfig(ctx, Namespace, managerAccount)
	if err != nil {
		return err
	}
	var ports [2]int
	for i := range ports {
		if ports[i], err = f.Port(); err != nil {
			return err
		}
	}
	probes := fmt.Sprintf("127.0.0.1:%d", ports[0])
	p, err := f.Run(process.Spec{Name: name, Path: f.Binary, Dir: f.Dir, Args: append([]string{
		"manager", "--kubeconfig=" + kubeconfig, "--leader-election-namespace=" + Namespace, "--addon-namespace=" + Namespace,
		"--health-probe-bind-address=" + probes, fmt.Sprintf("--metrics-bind-address=127.0.0.1:%d", ports[1]),
	}, append(slices.Clone(f.args), args...)...)})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return p.WaitReady(ctx, func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+probes+"/readyz", http.NoBody)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("/readyz answers %s", resp.Status)
		}
		return nil
	})
}

// Template is what helm makes of the chart, with further arguments.
func (f *Fleet) Template(ctx context.Context, helmArgs ...string) (string, error) {
	return f.Command(ctx, "helm", append([]string{"template", "knative-addon", f.chart, "--namespace", Namespace}, helmArgs...)...)
}

// Enable enables add-ons on clusters with clusteradm.
func (f *Fleet) Enable(ctx context.Context, addOns, clusters []string) error {
	_, err := f.Command(ctx, "clusteradm", "addon", "enable",
		"--names", strings.Join(addOns, ","), "--clusters", strings.Join(clusters, ","))
	return err
}

// Disable disables add-ons on clusters with clusteradm. It does not wait.
func (f *Fleet) Disable(ctx context.Context, addOns, clusters []string) error {
	_, err := f.Command(ctx, "clusteradm", "addon", "disable",
		"--names", strings.Join(addOns, ","), "--clusters", strings.Join(clusters, ","))
	return err
}

// Command runs one of the lab's programs against the hub and returns what it prints.
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
