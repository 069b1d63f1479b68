// Copyright Contributors to the Open Cluster Management project

package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/installations"
)

// resourceKinds returns the kinds of the resources and of KnativeFleets, and then more kinds.
func resourceKinds(more ...string) []string {
	return append([]string{api.Serving.Kind(), api.Eventing.Kind(), installations.FleetKind}, more...)
}

// requestCommand holds the flags of a command that annotates an object.
type requestCommand struct {
	hubFlags
	dryRun  string
	request installations.Request
	kinds   []string
}

// add adds the flags. --dry-run without a value means client.
func (c *requestCommand) add(cmd *cobra.Command) *cobra.Command {
	c.hubFlags.add(cmd, "namespace of the object; the cluster for a ManagedClusterAddOn")
	cmd.Flags().StringVar(&c.dryRun, "dry-run", string(installations.DryRunNone),
		"none writes; client reads the object and writes nothing; server has the API server check the write without storing it")
	cmd.ValidArgsFunction = c.completeObjects
	registerFlagValues(cmd, "dry-run", string(installations.DryRunNone), string(installations.DryRunClient), string(installations.DryRunServer))
	cmd.Flags().Lookup("dry-run").NoOptDefVal = string(installations.DryRunClient)
	return cmd
}

// run writes the annotation, and prints what was written.
func (c *requestCommand) run(cmd *cobra.Command, object string) error {
	dryRun := installations.DryRun(c.dryRun)
	if dryRun != installations.DryRunNone && dryRun != installations.DryRunClient && dryRun != installations.DryRunServer {
		return fmt.Errorf("cannot use --dry-run=%q: use none, client or server", c.dryRun)
	}
	var err error
	if c.request.Object, err = installations.ParseObject(object, c.namespace, c.kinds...); err != nil {
		return err
	}
	hub, err := c.connect()
	if err != nil {
		return err
	}
	isChanged, err := hub.Apply(cmd.Context(), c.request, dryRun)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("%s: annotated %s", c.request.Object, c.request.Text())
	if !isChanged {
		text = fmt.Sprintf("%s: unchanged, %s is in force already", c.request.Object, c.request.Text())
	}
	if dryRun != installations.DryRunNone {
		text += fmt.Sprintf(" (dry run: %s)", dryRun)
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), text)
	return err
}

func newPauseCommand() *cobra.Command {
	c := requestCommand{
		request: installations.Request{Annotation: api.PausedAnnotation, Value: "true"}, kinds: resourceKinds(installations.AddOnKind),
	}
	return c.add(&cobra.Command{
		Use: "pause KIND/NAME --namespace NAMESPACE", Args: cobra.ExactArgs(1),
		Short: "Pause one cluster, or every cluster of a resource",
		Long: "Sets annotation " + api.PausedAnnotation + ": the manifests of the clusters stay unchanged until `knative-addon resume`. KIND is " +
			strings.ToLower(strings.Join(c.kinds, ", ")) + ".",
		Example: `  # Pause every cluster of a configuration:
  knative-addon pause knativeserving/default --namespace knative-addon

  # Pause every cluster of a KnativeFleet:
  knative-addon pause knativefleet/web --namespace team

  # Pause one managed cluster:
  knative-addon pause managedclusteraddon/knative-serving --namespace cluster1`,
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd, args[0]) },
	})
}

func newResumeCommand() *cobra.Command {
	c := requestCommand{request: installations.Request{Annotation: api.PausedAnnotation}, kinds: resourceKinds(installations.AddOnKind)}
	return c.add(&cobra.Command{
		Use: "resume KIND/NAME --namespace NAMESPACE", Args: cobra.ExactArgs(1),
		Short: "End the pause of one cluster, or of every cluster of a resource",
		Long: "Removes annotation " + api.PausedAnnotation + " of one object. A cluster stays paused as long as its resource or its ManagedClusterAddOn has the annotation. " +
			"The pause of a KnativeFleet ends for the resources that the KnativeFleet has paused.",
		Example: "  knative-addon resume managedclusteraddon/knative-serving --namespace cluster1",
		RunE:    func(cmd *cobra.Command, args []string) error { return c.run(cmd, args[0]) },
	})
}

func newRollbackCommand() *cobra.Command {
	c := requestCommand{request: installations.Request{Annotation: api.RollbackAnnotation}, kinds: resourceKinds()}
	cmd := c.add(&cobra.Command{
		Use: "rollback KIND/NAME --namespace NAMESPACE --to REVISION", Args: cobra.ExactArgs(1),
		Short: "Return a resource to an earlier revision of its spec",
		Long: "Sets annotation " + api.RollbackAnnotation + ". The manager writes the spec of the revision into the resource, or the templates of the revision into the " +
			"KnativeFleet, and removes the annotation. Event RolledBack or RollbackRefused of the object reports the result.",
		Example: `  # Return to the newest revision that a cluster has completed:
  knative-addon rollback knativeserving/default --namespace knative-addon --to last-known-good

  # Try what would be written:
  knative-addon rollback knativeserving/default --namespace knative-addon --to 3 --dry-run`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if c.request.Value == "" {
				return fmt.Errorf("cannot roll back without --to: name a revision number, eight digits of a spec hash, or %s", api.RollbackLastKnownGood)
			}
			return c.run(cmd, args[0])
		},
	})
	cmd.Flags().StringVar(&c.request.Value, "to", "", "revision number, spec hash, at least eight digits of a hash, or "+api.RollbackLastKnownGood)
	return cmd
}

func newRemovalCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "removal", Short: "Confirm or cancel removals that wait for a decision",
		Long: "Answers removals with reason MassRemoval, PlacementUndecided or AwaitingReplacement, and of a KnativeFleet also SelectionEmpty: see " +
			"docs/troubleshooting.md, A removal waits.",
	}
	for _, answer := range []struct{ verb, value, short string }{
		{"confirm", api.RemovalConfirm, "Let held removals continue: Knative is removed from the clusters"},
		{"cancel", api.RemovalCancel, "Keep the installations of held removals"},
	} {
		c := requestCommand{
			request: installations.Request{Annotation: api.RemovalAnnotation, Value: answer.value, NeedsDeletion: true},
			kinds:   []string{installations.AddOnKind, installations.DefinitionKind, installations.FleetKind},
		}
		cmd.AddCommand(c.add(&cobra.Command{
			Use: answer.verb + " KIND/NAME", Args: cobra.ExactArgs(1), Short: answer.short,
			Long: "Sets annotation " + api.RemovalAnnotation + ": " + answer.value + " on one ManagedClusterAddOn, or on the ClusterManagementAddOn for all removals " +
				"that have reason MassRemoval. A KnativeFleet knows the confirmation of all its removals that wait, and no cancellation: select the clusters again instead. " +
				"The command refuses an object without a removal that waits, because the annotation would count later.",
			Example: "  knative-addon removal " + answer.verb + " managedclusteraddon/knative-serving --namespace cluster1\n" +
				"  knative-addon removal " + answer.verb + " clustermanagementaddon/knative-serving",
			RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd, args[0]) },
		}))
	}
	return cmd
}
