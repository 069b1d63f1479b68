// Copyright Contributors to the Open Cluster Management project

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/comparison"
	"open-cluster-management.io/knative-addon/pkg/installations"
	"open-cluster-management.io/knative-addon/pkg/render"
)

const diffExample = `  # Print the changes of all clusters that a file would cause:
  knative-addon diff --filename knative.yaml

  # Print the names of the objects that change on one cluster:
  knative-addon diff cluster1 --filename knative.yaml --output name

  # Before an upgrade, run the new program: print what a manager of this version would change without any change of the hub:
  knative-addon diff --installed

  # In a pipeline, fail for an invalid file, and continue for any difference:
  knative-addon diff --filename knative.yaml || test $? -eq 1`

// Exit codes of `knative-addon diff`, as of `kubectl diff`, besides 0 for no difference.
const (
	exitDifference = 1
	exitDiffFailed = 2
)

// errDifference ends a comparison with a difference.
var errDifference = errors.New("clusters change")

// diffCommand holds the flags of `knative-addon diff`.
type diffCommand struct {
	selectionFlags
	rendering      renderFlags
	trust          trustFlags
	addOnNamespace string
	file, output   string
	// installed compares the resources of the hub instead of those of a file.
	installed bool
}

func newDiffCommand() *cobra.Command {
	var c diffCommand
	cmd := &cobra.Command{
		Use: "diff {--filename FILE | --installed} [CLUSTER...]", Short: "Print what a file, or a manager of this version, would change on each cluster",
		Long: "Compares the KnativeServings, KnativeEventings, KnativeFleets and AddOnDeploymentConfigs of a file with the clusters that use these objects: with the " +
			"ManifestWorks of managed clusters, and with the objects of the hub's resource for clusters without a work agent. Clusters with equal changes are " +
			"printed once. A KnativeFleet is compared on the clusters that have its children.\n\nWith --installed, the command compares the resources of the hub, as " +
			"this version of the program renders them, with what the clusters have: run the program of a release before you upgrade the manager to the release. " +
			"A managed cluster is compared with its ManifestWorks. Of a cluster without a work agent the hub records only version and rendering, so that the " +
			"command reports whether the objects change, and not which.\n\nThe rendering flags have to be those of the manager. The command " +
			"ends with exit code 0 without a difference, 1 with a difference, and 2 for an error. The command sends requests to the hub alone, and writes nothing.",
		Example:     diffExample,
		Annotations: map[string]string{exitCodeAnnotation: strconv.Itoa(exitDiffFailed)},
		RunE: func(cmd *cobra.Command, args []string) error {
			err := c.runDiff(cmd, args)
			if errors.Is(err, errDifference) {
				return &exitError{err, exitDifference}
			}
			return err
		},
	}
	c.add(cmd)
	cmd.ValidArgsFunction = c.completeClustersAndResources
	flags := cmd.Flags()
	flags.Lookup("namespace").Usage = "namespace of the objects of the file that name none"
	c.rendering.add(flags)
	c.trust.add(flags)
	flags.StringVar(&c.addOnNamespace, "addon-namespace", "knative-addon",
		"namespace of the add-on, whose resources are trusted unless --trusted-namespaces names others")
	flags.StringVarP(&c.file, "filename", "f", "", "resources as YAML or JSON; - is standard input")
	flags.BoolVar(&c.installed, "installed", false, "instead of a file, compare what this version of the program renders from the resources of the hub")
	flags.StringVarP(&c.output, "output", "o", "", "format: empty for unified differences, name for the names of the objects, json or yaml")
	registerFlagValues(cmd, "output", "name", "json", "yaml")
	return cmd
}

func (c *diffCommand) runDiff(cmd *cobra.Command, names []string) error {
	if !slices.Contains([]string{"", "name", "json", "yaml"}, c.output) {
		return fmt.Errorf("cannot use --output=%q: use name, json or yaml", c.output)
	}
	if c.installed == (c.file != "") {
		return errors.New("cannot compare: use either --filename or --installed")
	}
	var file *comparison.File
	if !c.installed {
		var err error
		if file, err = c.readFile(cmd); err != nil {
			return err
		}
	}
	selected := c.selectionFlags
	selected.namespace = "" // ManagedClusterAddOns are in the namespaces of the clusters
	s, err := selected.parse(cmd, names)
	if err != nil {
		return err
	}
	s.query.InstalledOnly = true
	objects, failed := s.hub.List(cmd.Context(), s.query)
	if len(failed) > 0 {
		return failed[0]
	}
	policy, err := c.trust.parsePolicy(c.addOnNamespace)
	if err != nil {
		return err
	}
	renderer, err := render.New(c.rendering.buildConfig(policy))
	if err != nil {
		return err
	}
	defer func() { _ = renderer.Close() }()
	comparer := &comparison.Comparer{
		Hub: s.hub, Renderer: renderer, Options: func(mode api.DeliveryMode) render.Options { return c.rendering.buildOptions(mode) },
	}
	var groups []comparison.Group
	if c.installed {
		groups, err = compareInstalled(cmd, comparer, objects, &s.filter)
	} else {
		groups, err = compareFile(cmd, comparer, file, objects, &s.filter)
	}
	if err != nil {
		return err
	}
	if err := c.printGroups(cmd.OutOrStdout(), groups); err != nil {
		return err
	}
	return checkGroups(groups)
}

// compareFile compares a file with the installations, and warns of objects that no cluster uses.
func compareFile(
	cmd *cobra.Command, comparer *comparison.Comparer, file *comparison.File, objects installations.Objects, filter *installations.Filter,
) ([]comparison.Group, error) {
	groups, unused, err := comparer.Compare(cmd.Context(), file, objects, filter)
	for _, name := range unused {
		fmt.Fprintf(cmd.ErrOrStderr(), "warning: no cluster uses %s\n", name)
	}
	return groups, err
}

// compareInstalled compares the renderings of this program with the installations, and warns of installations that are left out.
func compareInstalled(cmd *cobra.Command, comparer *comparison.Comparer, objects installations.Objects, filter *installations.Filter) ([]comparison.Group, error) {
	groups, omitted, err := comparer.CompareInstalled(cmd.Context(), objects, filter)
	for _, o := range omitted {
		fmt.Fprintf(cmd.ErrOrStderr(), "warning: not compared, because %s: %s\n", o.Reason, strings.Join(o.Installations, ", "))
	}
	if err == nil && len(groups)+len(omitted) == 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "warning: the hub has no installation that the flags select")
	}
	return groups, err
}

// readFile reads the file.
func (c *diffCommand) readFile(cmd *cobra.Command) (*comparison.File, error) {
	var data []byte
	var err error
	if c.file == "-" {
		data, err = io.ReadAll(cmd.InOrStdin())
	} else {
		data, err = os.ReadFile(c.file)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read --filename: %w", err)
	}
	return comparison.ReadFile(data, c.namespace)
}

func (c *diffCommand) printGroups(out io.Writer, groups []comparison.Group) error {
	if c.output == "json" || c.output == "yaml" {
		return printDocument(out, c.output, struct {
			Groups []comparison.Group `json:"groups"`
		}{append([]comparison.Group{}, groups...)})
	}
	return comparison.Write(out, groups, c.output == "name")
}

// checkGroups returns the error of the exit code.
func checkGroups(groups []comparison.Group) error {
	switch {
	case comparison.HasProblem(groups):
		return errors.New("clusters cannot be compared: see the output")
	case comparison.HasDifference(groups):
		return errDifference
	default:
		return nil
	}
}
