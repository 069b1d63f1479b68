// Copyright Contributors to the Open Cluster Management project

package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/installations"
)

const treeExample = `  # Print the objects of Knative on a cluster, from the resource to the objects that are not applied:
  knative-addon tree cluster1

  # Print the objects of Serving on a cluster without a work agent:
  knative-addon tree team/edge-7 serving`

func newTreeCommand() *cobra.Command {
	var f hubFlags
	cmd := &cobra.Command{
		Use: "tree CLUSTER [COMPONENT]", Args: cobra.RangeArgs(1, 2),
		Short: "Print the objects of Knative on a cluster that are not in order",
		Long: "Prints the resource, the ManagedClusterAddOn and the ManifestWorks of each component on a cluster, with the conditions that report a problem, and " +
			"with the objects that the work agent could not apply, or that are not available. Without a work agent, the conditions of the resource name the " +
			"workloads that are not ready. The command reads the hub alone.",
		Example: treeExample,
		RunE:    f.runTree,
	}
	cmd.ValidArgsFunction = f.completeTree
	f.add(cmd, "list only objects of this namespace; empty means all namespaces")
	return cmd
}

func (f *hubFlags) runTree(cmd *cobra.Command, args []string) error {
	component := ""
	if len(args) > 1 {
		component = args[1]
	}
	components, err := installations.ParseComponents(component)
	if err != nil {
		return err
	}
	hub, err := f.connect()
	if err != nil {
		return err
	}
	objects, failed := hub.List(cmd.Context(), installations.Query{Namespace: f.namespace, Components: components})
	incomplete := checkLists(failed)
	if installations.IsUnanswered(incomplete) {
		return incomplete
	}
	printListErrors(cmd.ErrOrStderr(), failed)
	filter := installations.Filter{Names: args[:1]}
	selected, _ := filter.Select(installations.Compose(objects))
	if len(selected) == 0 {
		return fmt.Errorf("cannot find an installation of %s for %s on %s: `knative-addon status` lists all clusters", describeComponents(components), args[0], hub.Name)
	}
	for _, i := range selected {
		var works []workv1.ManifestWork
		if i.Mode == api.ModeManifestWork {
			if works, err = hub.ListWorks(cmd.Context(), i.Cluster); err != nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "warning: %v\n", err)
				incomplete = err
			}
		}
		node := installations.Tree(&i, objects, works)
		if err := node.Write(cmd.OutOrStdout()); err != nil {
			return fmt.Errorf("cannot print the objects: %w", err)
		}
	}
	if incomplete != nil {
		return errors.New("the tree is incomplete: see the warnings")
	}
	return nil
}
