// Copyright Contributors to the Open Cluster Management project

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"

	"open-cluster-management.io/knative-addon/pkg/hub"
	"open-cluster-management.io/knative-addon/pkg/uninstall"
)

// listedBlockers is the number of objects that a refused uninstall names.
const listedBlockers = 20

// hubClients returns the clients of the hub of a kubeconfig; without a kubeconfig, of the pod's hub.
func hubClients(kubeconfig string) (hub.Clients, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).ClientConfig()
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
}

func newReleaseCommand() *cobra.Command {
	var f releaseFlags
	cmd := &cobra.Command{
		Use: "release", Args: cobra.NoArgs,
		Short: "Free the hub of this add-on without a manager; clusters keep Knative",
		Long: "Makes the clusters keep all objects of the add-on's ManifestWorks, and removes the add-on's finalizers from ManagedClusterAddOns, " +
			"KnativeServings and KnativeEventings. Afterwards no object of the hub waits for a manager. Run the command again when the work " +
			"agents have applied the change: then the command deletes the ManifestWorks.",
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
	leader, err := uninstall.FindLeader(ctx, clients.Kube, time.Now())
	if err != nil {
		return err
	}
	if leader != "" {
		return fmt.Errorf("cannot release while manager %q runs, which would undo the release: uninstall the chart, or scale its Deployments to 0", leader)
	}
	for _, step := range steps {
		if err := step.Run(ctx); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(out, "%s: done\n", step.Text); err != nil {
			return err
		}
	}
	return nil
}
