// Copyright Contributors to the Open Cluster Management project

// Command ocm is the programs of Open Cluster Management in one file: its first argument picks one of registration,
// work, placement, addon and agent, webhooks (all admission and conversion webhooks of the hub in one process) or
// manifests (OCM's own manifests with their templates filled in).
package main

import (
	goflag "flag"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	utilflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/logs"

	ocmfeature "open-cluster-management.io/api/feature"
	"open-cluster-management.io/ocm/pkg/cmd/hub"
	"open-cluster-management.io/ocm/pkg/cmd/spoke"
	"open-cluster-management.io/ocm/pkg/features"
	"open-cluster-management.io/ocm/pkg/work/spoke/controllers/manifestcontroller"
)

// resyncEnv sets how often the work agent applies every manifest again. OCM has it fixed at 4 to 6 minutes; tests that
// look at what a resync does cannot wait that long.
const resyncEnv = "LAB_WORK_RESYNC_INTERVAL"

func main() {
	pflag.CommandLine.SetNormalizeFunc(utilflag.WordSepNormalizeFunc)
	pflag.CommandLine.AddGoFlagSet(goflag.CommandLine)
	logs.AddFlags(pflag.CommandLine)
	logs.InitLogs()
	defer logs.FlushLogs()
	if err := newCommand().Execute(); err != nil {
		fmt.Fprintf(os.Stderr, "%v\n", err)
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "ocm", SilenceUsage: true}
	switch arg := firstArg(); arg {
	case "registration":
		addHubGates(ocmfeature.DefaultHubRegistrationFeatureGates)
		cmd.AddCommand(renamed(hub.NewRegistrationController(), arg))
	case "work":
		addHubGates(ocmfeature.DefaultHubWorkFeatureGates)
		cmd.AddCommand(renamed(hub.NewWorkController(), arg))
	case "placement":
		cmd.AddCommand(renamed(hub.NewPlacementController(), arg))
	case "addon":
		cmd.AddCommand(renamed(hub.NewAddonManager(), arg))
	case "agent":
		setResyncInterval()
		cmd.AddCommand(renamed(spoke.NewKlusterletAgentCmd(), arg))
	default:
		cmd.AddCommand(newWebhooks(), newManifests())
	}
	return cmd
}

func firstArg() string {
	if len(os.Args) < 2 {
		return ""
	}
	return os.Args[1]
}

func renamed(cmd *cobra.Command, name string) *cobra.Command {
	cmd.Use = name
	return cmd
}

func addHubGates(gates map[featuregate.Feature]featuregate.FeatureSpec) {
	utilruntime.Must(features.HubMutableFeatureGate.Add(gates))
	features.HubMutableFeatureGate.AddFlag(pflag.CommandLine)
}

func setResyncInterval() {
	if v := os.Getenv(resyncEnv); v != "" {
		d, err := time.ParseDuration(v)
		if err != nil || d <= 0 {
			fmt.Fprintf(os.Stderr, "%s=%q is not a positive duration\n", resyncEnv, v)
			os.Exit(2)
		}
		manifestcontroller.ResyncInterval = d
	}
}
