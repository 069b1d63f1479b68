// Copyright Contributors to the Open Cluster Management project

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"open-cluster-management.io/knative-addon/pkg/supportbundle"
)

const bundleExample = `  # Write the state of the fleet, with the ManifestWorks of clusters that are not ready, to knative-addon-bundle.tar.gz:
  knative-addon bundle

  # Write the archive with the ManifestWorks of two clusters:
  knative-addon bundle cluster1 cluster2 --file case-4711.tar.gz`

// bundleCommand holds the flags of `knative-addon bundle`.
type bundleCommand struct {
	hubFlags
	addOnNamespace, file string
	maxClusters          int
}

func newBundleCommand() *cobra.Command {
	var c bundleCommand
	cmd := &cobra.Command{
		Use: "bundle [CLUSTER...]", Short: "Write an archive for a support case, without credentials",
		Long: "Writes a tar.gz archive with the output of status and tree, the resources, fleets and add-ons, ManagedClusters and ClusterProfiles without " +
			"addresses and access providers, Events, the images of the manager, and the ManifestWorks of the named clusters. Without a name, the archive has " +
			"the ManifestWorks of clusters that are not ready. Manifests are present as names and digests. Values of environment variables and texts that look " +
			"like credentials are withheld; read the archive before sending the archive to others. The command reads neither Secrets nor ConfigMaps. When a " +
			"list fails, the command writes the other lists, and ends with exit code 1.",
		Example: bundleExample,
		RunE:    c.runBundle,
	}
	cmd.ValidArgsFunction = c.completeClusters
	flags := cmd.Flags()
	flags.StringVar(&c.kubeconfig, "kubeconfig", "", "kubeconfig of the hub; empty means KUBECONFIG, or ~/.kube/config")
	flags.StringVar(&c.context, "context", "", "context of --kubeconfig; empty means the current context")
	flags.StringVar(&c.addOnNamespace, "addon-namespace", "knative-addon", "namespace of the manager")
	flags.StringVar(&c.file, "file", "knative-addon-bundle.tar.gz", "file to create, which must not exist; - is standard output")
	flags.IntVar(&c.maxClusters, "max-clusters", 20, "largest number of clusters whose ManifestWorks the archive has")
	return cmd
}

func (c *bundleCommand) runBundle(cmd *cobra.Command, clusters []string) error {
	hub, err := c.connect()
	if err != nil {
		return err
	}
	var gaps supportbundle.Gaps
	write := func(out io.Writer) error {
		var err error
		gaps, err = supportbundle.Collect(cmd.Context(), hub, &supportbundle.Options{
			Version: version, AddOnNamespace: c.addOnNamespace, Clusters: clusters, MaxClusters: c.maxClusters, Now: time.Now(),
		}, out)
		for _, text := range gaps.Failures {
			fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s\n", text)
		}
		return err
	}
	if c.file == "-" {
		return errors.Join(write(cmd.OutOrStdout()), refuseGaps(gaps))
	}
	file, err := os.OpenFile(c.file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("cannot create --file: %w", err)
	}
	if err := errors.Join(write(file), file.Close()); err != nil {
		return errors.Join(err, os.Remove(c.file))
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "wrote %s\n", c.file)
	return errors.Join(err, refuseGaps(gaps))
}

// refuseGaps returns an error when the archive lacks a list that every hub of this add-on has.
func refuseGaps(gaps supportbundle.Gaps) error {
	if !gaps.IsIncomplete {
		return nil
	}
	return errors.New("the archive is incomplete: see the warnings, which failures.txt of the archive has too")
}
