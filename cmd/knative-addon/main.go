// Copyright Contributors to the Open Cluster Management project

// Command knative-addon installs and runs Knative on a fleet of clusters from an Open Cluster Management hub.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"
)

// version is set by the build.
var version = "devel"

func main() {
	name := invokedName(os.Args[0])
	cmd, err := newRootCommand(name).ExecuteContextC(ctrl.SetupSignalHandler())
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %s\n", name, nameCommands(err.Error(), name))
		os.Exit(exitCodeOf(cmd, err))
	}
}

// newRootCommand returns the program under a name.
func newRootCommand(name string) *cobra.Command {
	cmd := &cobra.Command{
		Use: programName, Short: "Knative Serving and Eventing on a fleet of clusters", Version: version,
		SilenceUsage: true, SilenceErrors: true,
	}
	cmd.AddCommand(newManagerCommand(), newLocalInstallsCommand(), newRenderCommand(), newRBACCommand(), newImagesCommand(), newVersionsCommand(),
		newRegisterCommand(), newUnregisterCommand(), newUninstallCheckCommand(), newReleaseCommand(), newInstallCheckCommand(), newCopyFilesCommand(),
		newStatusCommand(), newWaitCommand(), newExplainCommand(), newTreeCommand(), newDiffCommand(), newBundleCommand(), newDashboardCommand(), newPauseCommand(),
		newResumeCommand(), newRollbackCommand(), newRemovalCommand())
	applyName(cmd, name)
	return cmd
}
