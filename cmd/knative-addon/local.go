// Copyright Contributors to the Open Cluster Management project

package main

import (
	"context"
	"os"
	"time"

	"github.com/spf13/cobra"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/clustercache"
	"open-cluster-management.io/knative-addon/pkg/controllers"
	"open-cluster-management.io/knative-addon/pkg/hub"
)

// localFlags are the flags of `knative-addon local-installs`.
type localFlags struct {
	processFlags
	render         renderFlags
	trust          trustFlags
	addOnNamespace string
	pollInterval   time.Duration
}

// newLocalInstallsCommand returns a command that runs with a ServiceAccount of its own: the ServiceAccount of the manager,
// which serves every tenant, has no rights to write to the hub.
func newLocalInstallsCommand() *cobra.Command {
	var f localFlags
	cmd := &cobra.Command{
		Use: "local-installs", Short: "Run the controllers that install Knative on the hub itself", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	f.addFlags(flags)
	f.render.add(flags)
	f.trust.add(flags)
	flags.StringVar(&f.addOnNamespace, "addon-namespace", os.Getenv("POD_NAMESPACE"), "namespace of the add-on; empty means the pod's own")
	flags.DurationVar(&f.pollInterval, "poll-interval", clustercache.DefaultPollInterval,
		"interval to poll the hub where the hub refuses watches; the default also replaces intervals below a second")
	return cmd
}

func (f *localFlags) run(ctx context.Context) error {
	logger := f.prepareProcess()
	trusted, err := f.trust.parsePolicy(f.addOnNamespace)
	if err != nil {
		return err
	}
	config, renderer, err := f.prepareRendering(logger, &f.render, trusted)
	if err != nil {
		return err
	}
	defer func() { _ = renderer.Close() }()

	mgr, err := f.createManager(config, "knative-addon-local")
	if err != nil {
		return err
	}
	h, err := hub.NewLocalForConfig(config, f.operatorNamespace)
	if err != nil {
		return err
	}
	if err := controllers.SetupLocalWithManager(mgr, h, renderer, controllers.LocalOptions{
		Render: f.render.buildOptions(api.ModeDirect), Trust: trusted, PollInterval: effectivePollInterval(f.pollInterval),
	}); err != nil {
		return err
	}
	return f.runWithHub(ctx, mgr, h)
}
