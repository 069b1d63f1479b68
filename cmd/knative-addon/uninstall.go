// Copyright Contributors to the Open Cluster Management project

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"open-cluster-management.io/knative-addon/pkg/hub"
	"open-cluster-management.io/knative-addon/pkg/uninstall"
)

// listedBlockers is the number of objects or steps that an error names.
const listedBlockers = 20

// hubClients returns the clients of the hub of a kubeconfig; without a kubeconfig, of the pod's hub.
func hubClients(kubeconfig string) (hub.Clients, error) {
	config, err := load(kubeconfig, "").ClientConfig()
	if err != nil {
		return hub.Clients{}, fmt.Errorf("cannot read the hub's kubeconfig: %w", err)
	}
	config.QPS = -1 // the API server's fairness limits the requests of a large release
	return hub.NewClients(config)
}

func newUninstallCheckCommand() *cobra.Command {
	var kubeconfig string
	cmd := &cobra.Command{
		Use: "uninstall-check", Short: "Fail while an add-on or a resource of the hub needs the manager for its removal", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			clients, err := hubClients(kubeconfig)
			if err != nil {
				return err
			}
			blockers, err := uninstall.ListBlockers(cmd.Context(), clients.AddOns, clients.Configs)
			if err != nil {
				return err
			}
			return refuseUninstall(blockers)
		},
	}
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig of the hub; empty means KUBECONFIG, or the pod's service account")
	return cmd
}

// refuseUninstall returns an error that names the objects and the next steps, or nil without objects.
func refuseUninstall(blockers []string) error {
	if len(blockers) == 0 {
		return nil
	}
	listed := blockers[:min(len(blockers), listedBlockers)]
	if more := len(blockers) - len(listed); more > 0 {
		listed = append(listed[:len(listed):len(listed)], fmt.Sprintf("and %d more", more))
	}
	return fmt.Errorf("cannot uninstall: without the manager the removal of these objects never ends:\n  %s\n"+
		"To remove Knative from the clusters, delete the KnativeFleets and then the KnativeServings and KnativeEventings with spec.clusterProfileRef, set the installStrategy of the "+
		"ClusterManagementAddOns to Manual, run `clusteradm addon disable`, and uninstall when `kubectl get managedclusteraddons -A` shows no "+
		"add-on of Knative. To leave Knative on the clusters, run `helm uninstall --no-hooks`, and then `knative-addon release`. "+
		"To keep the release, run `helm rollback` with the release and its last revision, because Helm upgrades no release whose uninstall was refused",
		strings.Join(listed, "\n  "))
}

// releaseFlags are the flags of `knative-addon release`.
type releaseFlags struct {
	kubeconfig        string
	dryRun, confirmed bool
	clock             clock.Clock
}

func newReleaseCommand() *cobra.Command {
	f := releaseFlags{clock: clock.RealClock{}}
	cmd := &cobra.Command{
		Use: "release", Args: cobra.NoArgs,
		Short: "Free the hub of this add-on without a manager; clusters keep Knative",
		Long: "Makes the clusters keep all objects of the add-on's ManifestWorks, and removes the add-on's finalizers from ManagedClusterAddOns, " +
			"KnativeServings and KnativeEventings. Afterwards no object of the hub waits for a manager. Run the command again when the work " +
			"agents have applied the change: then the command deletes the ManifestWorks. The command refuses to run beside a manager: when a Lease has a " +
			"holder, the command waits for the duration of the Lease, which a manager that runs renews. A step that fails keeps the later steps of the same add-on or " +
			"KnativeFleet from running; the command carries out all other steps, lists what is left, and ends with exit code 1.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			clients, err := hubClients(f.kubeconfig)
			if err != nil {
				return err
			}
			return f.runRelease(cmd.Context(), cmd.OutOrStdout(), clients)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig of the hub; empty means KUBECONFIG, or ~/.kube/config")
	flags.BoolVar(&f.dryRun, "dry-run", false, "print the steps, and change nothing")
	flags.BoolVar(&f.confirmed, "yes", false, "confirm the steps")
	return cmd
}

func (f *releaseFlags) runRelease(ctx context.Context, out io.Writer, clients hub.Clients) error {
	steps, err := uninstall.PlanRelease(ctx, clients)
	if err != nil {
		return err
	}
	if len(steps) == 0 {
		_, err := fmt.Fprintln(out, "there is nothing to release: no object has a finalizer of this add-on, and each ManifestWork that is left waits for its work agent or is being deleted")
		return err
	}
	if f.dryRun || !f.confirmed {
		for _, step := range steps {
			if _, err := fmt.Fprintf(out, "would %s\n", step.Text); err != nil {
				return err
			}
		}
		if f.dryRun {
			return nil
		}
		return errors.New("nothing was changed: confirm with --yes")
	}
	r := releaseRun{out: out, kube: clients.Kube, clock: f.clock}
	if err := r.awaitLeases(ctx); err != nil {
		return err
	}
	return r.runSteps(ctx, steps)
}

const (
	// leaderCheckSteps is the number of steps between two reads of the Leases: a manager may start during a release.
	leaderCheckSteps = 100
	// maxParallelGroups is the number of groups whose steps run at a time. The latency of each request would otherwise decide on the duration of
	// the release: 1,000 clusters with both components need 14,000 requests.
	maxParallelGroups = 10
)

// releaseRun carries out the steps of a release.
type releaseRun struct {
	out    io.Writer
	kube   kubernetes.Interface
	clock  clock.Clock
	leases uninstall.Leases
}

// awaitLeases waits for the duration of the Leases that have a holder, and returns an error when a manager runs.
func (r *releaseRun) awaitLeases(ctx context.Context) (err error) {
	if r.leases, err = uninstall.ListLeases(ctx, r.kube); err != nil {
		return err
	}
	duration := r.leases.LongestDuration()
	if duration == 0 {
		return nil
	}
	if _, err := fmt.Fprintf(r.out, "waiting for %s, the duration of the Lease: a manager that runs renews the Lease in this time\n", duration); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-r.clock.After(duration):
	}
	return r.refuseLeader(ctx)
}

// refuseLeader returns an error when a manager has taken or renewed a Lease since the last read. A running manager would undo a release.
func (r *releaseRun) refuseLeader(ctx context.Context) (err error) {
	earlier := r.leases
	if r.leases, err = uninstall.ListLeases(ctx, r.kube); err != nil {
		return err
	}
	if leader := r.leases.FindLeader(earlier); leader != "" {
		return fmt.Errorf("cannot release while manager %q runs, which would undo the release: uninstall the chart, or scale its Deployments to 0", leader)
	}
	return nil
}

// runSteps carries out the steps in batches. A step that fails ends the steps of its group alone.
func (r *releaseRun) runSteps(ctx context.Context, steps []uninstall.Step) error {
	failed := map[string]bool{}
	var left []error
	for begin := 0; begin < len(steps); begin += leaderCheckSteps {
		err := ctx.Err()
		if err == nil && begin > 0 {
			err = r.refuseLeader(ctx)
		}
		if err != nil {
			return errors.Join(err, describeLeftSteps(left, len(steps)-begin))
		}
		batch := steps[begin:min(begin+leaderCheckSteps, len(steps))]
		for n, err := range runBatch(ctx, batch, failed) {
			line := batch[n].Text + ": done"
			if err != nil {
				failed[batch[n].Group], left, line = true, append(left, err), err.Error()
			}
			if _, err := fmt.Fprintln(r.out, line); err != nil {
				return err
			}
		}
	}
	return describeLeftSteps(left, 0)
}

// runBatch carries out steps, those of a group in order and those of different groups at the same time, and returns the error of each step.
// failed are the groups of which an earlier step failed.
func runBatch(ctx context.Context, steps []uninstall.Step, failed map[string]bool) []error {
	groups := map[string][]int{}
	for n, step := range steps {
		groups[step.Group] = append(groups[step.Group], n)
	}
	out := make([]error, len(steps))
	var parallel errgroup.Group
	parallel.SetLimit(maxParallelGroups)
	for group, numbers := range groups {
		parallel.Go(func() error {
			hasFailed := failed[group]
			for _, n := range numbers {
				if hasFailed {
					out[n] = fmt.Errorf("skipped: %s, because an earlier step of %s failed", steps[n].Text, group)
				} else {
					out[n] = steps[n].Run(ctx)
				}
				hasFailed = hasFailed || out[n] != nil
			}
			return nil
		})
	}
	_ = parallel.Wait() // out has the errors
	return out
}

// describeLeftSteps returns an error that names the steps that failed or were skipped, or nil when no step is left.
func describeLeftSteps(left []error, notBegun int) error {
	if len(left)+notBegun == 0 {
		return nil
	}
	text := fmt.Sprintf("cannot release all objects: %d steps failed or were skipped, and %d steps were not begun; correct the causes, and run the command again",
		len(left), notBegun)
	listed := append([]error{errors.New(text)}, left[:min(len(left), listedBlockers)]...)
	if more := len(left) - listedBlockers; more > 0 {
		listed = append(listed, fmt.Errorf("and %d more, which the output lists", more))
	}
	return errors.Join(listed...)
}
