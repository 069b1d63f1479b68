// Copyright Contributors to the Open Cluster Management project

package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/controllers"
	"open-cluster-management.io/knative-addon/pkg/controllers/removalguard"
	"open-cluster-management.io/knative-addon/pkg/controllers/rendering"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/hub"
)

// managerFlags are the flags of `knative-addon manager`.
type managerFlags struct {
	processFlags
	render       renderFlags
	references   referenceFlags
	trust        trustFlags
	maxRemoval   string
	workExecutor string
	direct       directFlags
	// renderingRollout is a rollout strategy of OCM as JSON.
	renderingRollout string
	// clusterMetrics adds metrics with the names of clusters.
	clusterMetrics bool
}

// defaultRenderingRollout gives a new rendering to a quarter of the clusters at a time, and stops at the first cluster that fails.
const defaultRenderingRollout = `{"type":"Progressive","progressive":{"maxConcurrency":"25%","minSuccessTime":"30s","progressDeadline":"10m","maxFailures":0}}`

func newManagerCommand() *cobra.Command {
	var f managerFlags
	cmd := &cobra.Command{
		Use: "manager", Short: "Run the add-on on a hub", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	f.render.add(flags)
	f.references.add(flags)
	f.trust.add(flags)
	f.direct.add(flags)
	f.addFlags(flags)
	flags.StringVar(&f.maxRemoval, "max-removal", "10%",
		"how many clusters, as a number or a percentage, may lose an add-on through Placements within an hour without confirmation")
	flags.StringVar(&f.renderingRollout, "rendering-rollout", defaultRenderingRollout,
		"rollout strategy of OCM, as JSON, by which clusters get what a new manager renders differently, unless a Placement of the ClusterManagementAddOn or a KnativeFleet selects the cluster")
	flags.StringVar(&f.workExecutor, "work-executor", "",
		"ServiceAccount of managed clusters, as NAMESPACE/NAME, with whose permissions the work agent applies ManifestWorks that name no executor; empty means the agent's own permissions")
	flags.BoolVar(&f.clusterMetrics, "metrics-per-cluster", false,
		"serve metric knative_addon_cluster_condition, which has series for each cluster, for at most 1000 clusters")
	return cmd
}

func (f *managerFlags) run(ctx context.Context) error {
	logger := f.prepareProcess()
	references, err := f.references.parsePolicy()
	if err != nil {
		return err
	}
	trusted, err := f.trust.parsePolicy(f.references.addOnNamespace)
	if err != nil {
		return err
	}
	inventories, err := f.direct.readInventories(f.references.addOnNamespace)
	if err != nil {
		return err
	}
	maxRemoval, err := removalguard.ParseMaxRemoval(f.maxRemoval)
	if err != nil {
		return fmt.Errorf("--max-removal: %w", err)
	}
	renderingRollout, err := rendering.ParseStrategy(f.renderingRollout)
	if err != nil {
		return fmt.Errorf("--rendering-rollout: %w", err)
	}
	executor, err := parseExecutor(f.workExecutor)
	if err != nil {
		return err
	}
	config, renderer, err := f.prepareRendering(logger, &f.render, trusted)
	if err != nil {
		return err
	}
	defer func() { _ = renderer.Close() }()
	logger.Info("clusters of ClusterProfiles are watched up to a number and polled beyond it, or where watching is refused",
		"inventories", inventories.Namespaces(), "watched", f.direct.watched, "pollInterval", effectivePollInterval(f.direct.pollInterval))

	mgr, err := f.createManager(config, "knative-addon")
	if err != nil {
		return err
	}
	h, err := hub.NewForConfig(config, f.operatorNamespace)
	if err != nil {
		return err
	}
	//nolint:contextcheck // the filter of add-ons that addon-framework calls takes no context
	if err := controllers.SetupWithManager(mgr, h, renderer, controllers.Options{
		Render: f.render.buildOptions(api.ModeManifestWork), References: references, Trust: trusted, Executor: executor, MaxRemoval: maxRemoval, RenderingRollout: renderingRollout,
		Direct: f.direct.buildOptions(inventories, logger), RenderDirect: f.render.buildOptions(api.ModeDirect), ClusterMetrics: f.clusterMetrics,
	}); err != nil {
		return err
	}
	return f.runWithHub(ctx, mgr, h)
}

// parseExecutor reads --work-executor; the empty text names no executor.
func parseExecutor(text string) (*workv1.ManifestWorkExecutor, error) {
	if text == "" {
		return nil, nil
	}
	namespace, name, ok := strings.Cut(text, "/")
	if !ok || len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return nil, fmt.Errorf("cannot use --work-executor=%q: it has to be the NAMESPACE/NAME of a ServiceAccount", text)
	}
	return manifestwork.Executor(namespace, name), nil
}
