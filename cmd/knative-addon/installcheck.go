// Copyright Contributors to the Open Cluster Management project

package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/hub"
	"open-cluster-management.io/knative-addon/pkg/uninstall"
)

// installCheckInterval is the interval between two reads of the installation.
const installCheckInterval = 2 * time.Second

func newInstallCheckCommand() *cobra.Command {
	var kubeconfig, namespace string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "install-check", Short: "Fail unless a manager leads and the hub has both add-ons: `helm test` runs this command", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			clients, err := hubClients(kubeconfig)
			if err != nil {
				return err
			}
			var leader string
			var fault error
			err = wait.PollUntilContextTimeout(cmd.Context(), installCheckInterval, timeout, true, func(ctx context.Context) (bool, error) {
				leader, fault = checkInstallation(ctx, clients, namespace, time.Now())
				return fault == nil, nil
			})
			if err != nil {
				return cmp.Or(fault, err)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "manager %q leads, and the hub has both add-ons\n", leader)
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig of the hub; empty means KUBECONFIG, or the pod's service account")
	flags.StringVar(&namespace, "addon-namespace", "knative-addon", "namespace of the add-on, with the Lease of the manager")
	flags.DurationVar(&timeout, "timeout", time.Minute, "how long the command waits for a manager")
	return cmd
}

// checkInstallation returns the name of the manager that leads. The error names the missing object and the next step.
func checkInstallation(ctx context.Context, clients hub.Clients, namespace string, now time.Time) (leader string, err error) {
	for _, component := range api.Components() {
		name := component.AddOnName()
		if _, err := clients.AddOns.AddonV1beta1().ClusterManagementAddOns().Get(ctx, name, metav1.GetOptions{}); err != nil {
			return "", fmt.Errorf("cannot read ClusterManagementAddOn %q, which the chart creates: %w", name, err)
		}
	}
	lease := types.NamespacedName{Namespace: namespace, Name: uninstall.ManagerLease}
	leader, err = uninstall.FindHolder(ctx, clients.Kube, lease, now)
	if err == nil && leader == "" {
		err = fmt.Errorf("no manager holds Lease %q: see `kubectl get pods --namespace %s` and the log of Deployment knative-addon-manager", lease, namespace)
	}
	return leader, err
}
