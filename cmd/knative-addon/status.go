// Copyright Contributors to the Open Cluster Management project

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"open-cluster-management.io/knative-addon/pkg/installations"
)

const statusExample = `  # List Knative on all clusters:
  knative-addon status

  # List the installations that are not ready, with object and message:
  knative-addon status --not-ready --output wide

  # List Serving on the clusters with a label, and then print a line for each change:
  knative-addon status --component serving --selector region=eu --watch

  # Print the installations of two clusters as JSON:
  knative-addon status cluster1 team/edge-7 --output json`

// statusCommand holds the flags of `knative-addon status`.
type statusCommand struct {
	selectionFlags
	output          string
	notReady, watch bool
}

func newStatusCommand() *cobra.Command {
	var c statusCommand
	cmd := &cobra.Command{
		Use: "status [CLUSTER...]", Short: "List Knative on the clusters of the hub",
		Long: "Lists each component on each cluster, in both delivery modes, with version, revision and the condition that decides. A CLUSTER is the name of a " +
			"ManagedCluster, of a ClusterProfile or of a KnativeServing or KnativeEventing; the latter two with or without namespace. A value a->b means that " +
			"the cluster runs a, and b is to follow. `knative-addon explain REASON` explains a reason.",
		Example: statusExample,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.runStatus(cmd, args)
		},
	}
	c.add(cmd)
	cmd.ValidArgsFunction = c.completeClustersAndResources
	flags := cmd.Flags()
	flags.BoolVar(&c.notReady, "not-ready", false, "list only installations that are not ready")
	flags.StringVarP(&c.output, "output", "o", "", "format: empty for a table, wide, json or yaml; with --watch, json prints one object a line")
	registerFlagValues(cmd, "output", "wide", "json", "yaml")
	flags.BoolVarP(&c.watch, "watch", "w", false, "after the list, print a line for each change; on a terminal, also show the progress of each component")
	return cmd
}

func (c *statusCommand) runStatus(cmd *cobra.Command, names []string) error {
	formats := []string{"", "wide", "json", "yaml"}
	if c.watch {
		formats = []string{"", "wide", "json"}
	}
	if !slices.Contains(formats, c.output) {
		return fmt.Errorf("cannot use --output=%q: use one of%s", c.output, strings.Join(formats, " "))
	}
	s, err := c.parse(cmd, names)
	if err != nil {
		return err
	}
	s.filter.NotReady = c.notReady
	if c.watch {
		return c.runWatch(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), s)
	}
	objects, failed := s.hub.List(cmd.Context(), s.query)
	incomplete := checkLists(failed)
	if installations.IsUnanswered(incomplete) {
		return incomplete
	}
	printListErrors(cmd.ErrOrStderr(), failed)
	selected, unknown := s.filter.Select(installations.Compose(objects))
	if err := printInstallations(cmd.OutOrStdout(), c.output, selected, time.Now()); err != nil {
		return err
	}
	switch {
	case incomplete != nil:
		return errors.New("the list is incomplete: see the warnings")
	case len(unknown) > 0:
		return fmt.Errorf("cannot find an installation of %s for %s on %s: `knative-addon status` without a name lists all clusters, ClusterProfiles and resources",
			describeComponents(s.query.Components), strings.Join(unknown, ", "), s.hub.Name)
	}
	return nil
}

// printInstallations prints installations and their summary.
func printInstallations(out io.Writer, format string, selected []installations.Installation, now time.Time) error {
	summary := installations.Summarize(selected)
	if format == "json" || format == "yaml" {
		return printDocument(out, format, struct {
			Items   []installations.Installation `json:"items"`
			Summary installations.Summary        `json:"summary"`
		}{append([]installations.Installation{}, selected...), summary})
	}
	if len(selected) > 0 {
		if err := installations.WriteTable(out, selected, format == "wide", now); err != nil {
			return fmt.Errorf("cannot print the installations: %w", err)
		}
	}
	_, err := fmt.Fprintln(out, summary.Text(now))
	return err
}

// printDocument prints a value as indented JSON or as YAML.
func printDocument(out io.Writer, format string, value any) error {
	data, err := json.MarshalIndent(value, "", "  ")
	if err == nil && format == "yaml" {
		data, err = yaml.JSONToYAML(data)
	}
	if err != nil {
		return fmt.Errorf("cannot print the installations: %w", err)
	}
	_, err = fmt.Fprintln(out, strings.TrimSuffix(string(data), "\n"))
	return err
}

// runWatch prints the installations and then each change until the command is interrupted.
func (c *statusCommand) runWatch(ctx context.Context, out, warnings io.Writer, s *selection) error {
	watcher, failed := s.hub.Watch(ctx, s.query)
	if err := checkLists(failed); err != nil {
		return err
	}
	printListErrors(warnings, failed)
	showProgress := func([]installations.Installation) {}
	if isTerminal(out) && c.output != "json" {
		bars := newProgressBars(out, s.query.Components)
		defer bars.Close()
		out, showProgress = bars, bars.update
	}
	every := s.filter
	every.NotReady = false // an installation that becomes ready is a change, and no deletion
	var last []installations.Installation
	lastFailure := ""
	isFirst := true
	err := watcher.Run(ctx, func(objects installations.Objects) (bool, error) {
		failure := ""
		if err := errors.Join(watcher.Failures()...); err != nil {
			failure = err.Error()
		}
		if failure != "" && failure != lastFailure {
			fmt.Fprintln(warnings, "warning: this state may be old:", failure)
		}
		lastFailure = failure
		all, _ := every.Select(installations.Compose(objects))
		showProgress(all)
		changes := c.findChanges(last, all)
		last = all
		if isFirst && c.output != "json" {
			isFirst = false
			selected, _ := s.filter.Select(all)
			return false, printInstallations(out, c.output, selected, time.Now())
		}
		return false, c.printChanges(out, changes)
	})
	if errors.Is(err, context.Canceled) {
		return nil // the user has interrupted the command
	}
	return err
}

// findChanges returns the changes to print: with --not-ready, the changes of installations that are not ready before or after the change.
func (c *statusCommand) findChanges(before, after []installations.Installation) []installations.Change {
	changes := installations.Diff(before, after)
	if !c.notReady {
		return changes
	}
	return slices.DeleteFunc(changes, func(change installations.Change) bool { return !concernsNotReady(change, before) })
}

// concernsNotReady reports whether the installation of a change is not ready before or after the change.
func concernsNotReady(change installations.Change, before []installations.Installation) bool {
	of := change.Object
	return of.Ready != metav1.ConditionTrue || slices.ContainsFunc(before, func(i installations.Installation) bool {
		return i.Ready != metav1.ConditionTrue && i.Cluster == of.Cluster && i.Component == of.Component && i.Object == of.Object
	})
}

func (c *statusCommand) printChanges(out io.Writer, changes []installations.Change) error {
	for _, change := range changes {
		line := time.Now().Format(time.TimeOnly) + " " + change.Text()
		if c.output == "json" {
			data, err := json.Marshal(change)
			if err != nil {
				return fmt.Errorf("cannot print a change: %w", err)
			}
			line = string(data)
		}
		if _, err := fmt.Fprintln(out, line); err != nil {
			return err
		}
	}
	return nil
}
