// Copyright Contributors to the Open Cluster Management project

package main

import (
	"fmt"
	"net"
	"strconv"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/utils/clock"

	"open-cluster-management.io/knative-addon/docs"
	"open-cluster-management.io/knative-addon/pkg/dashboard"
	"open-cluster-management.io/knative-addon/pkg/explanation"
	"open-cluster-management.io/knative-addon/pkg/installations"
)

const dashboardExample = `  # Show all clusters at http://127.0.0.1:8700:
  knative-addon dashboard --port 8700

  # Show the resources of one namespace, for users who may not list all:
  knative-addon dashboard --namespace team`

// dashboardCommand holds the flags of `knative-addon dashboard`.
type dashboardCommand struct {
	selectionFlags
	port uint16
}

func newDashboardCommand() *cobra.Command {
	var c dashboardCommand
	cmd := &cobra.Command{
		Use: "dashboard", Args: cobra.NoArgs, Short: "Serve pages that show Knative on all clusters, on this machine alone",
		Long: "Serves pages on 127.0.0.1 until the command is interrupted: readiness, versions and the rollout of each component, why clusters are not ready, and " +
			"the objects of a cluster that are not in order. The pages show what the kubeconfig may list to every user of this machine, change nothing, and have " +
			"no scripts. /status.json is the output of `knative-addon status --output json`.",
		Example: dashboardExample,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.runDashboard(cmd)
		},
	}
	c.hubFlags.add(cmd, "show only objects of this namespace; empty means all namespaces")
	cmd.Flags().Uint16Var(&c.port, "port", 0, "port on 127.0.0.1; 0 means any free port")
	return cmd
}

func (c *dashboardCommand) runDashboard(cmd *cobra.Command) error {
	s, err := c.parse(cmd, nil)
	if err != nil {
		return err
	}
	book, err := explanation.Read(docs.Pages)
	if err != nil {
		return err
	}
	parallel, ctx := errgroup.WithContext(cmd.Context())
	watcher, failed := s.hub.Watch(ctx, s.query)
	if err := checkLists(failed); installations.IsUnanswered(err) {
		return err
	}
	pages := dashboard.New(s.hub, book, clock.RealClock{})
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(c.port))))
	if err != nil {
		return fmt.Errorf("cannot listen on --port=%d: %w", c.port, err)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "serving http://%s until interrupted\n", listener.Addr())
	parallel.Go(func() error { return pages.Serve(ctx, listener) })
	parallel.Go(func() error { return pages.Watch(ctx, watcher, failed) })
	if err := parallel.Wait(); cmd.Context().Err() == nil {
		return err
	}
	return nil // the user has interrupted the command
}
