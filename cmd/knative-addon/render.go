// Copyright Contributors to the Open Cluster Management project

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// offlineCommand are the commands that need no cluster.
type offlineCommand struct {
	flags  renderFlags
	trust  trustFlags
	target clusterFlags
	file   string
	mode   api.DeliveryMode
	output string
	// addOnNamespace is the namespace of the chart's release, which the manager trusts by default.
	addOnNamespace string
	// version replaces spec.version of every resource; empty replaces nothing.
	version string
}

// read reads the file.
func (o *offlineCommand) read(cmd *cobra.Command) ([]*render.Install, error) {
	var data []byte
	var err error
	if o.file == "-" {
		data, err = io.ReadAll(cmd.InOrStdin())
	} else {
		data, err = os.ReadFile(o.file)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read --filename: %w", err)
	}
	return render.DecodeYAML(data)
}

// renderInstall renders one resource, and prints warnings to stderr.
func (o *offlineCommand) renderInstall(cmd *cobra.Command, r *render.Renderer, install *render.Install) (*render.Bundle, error) {
	var bundle *render.Bundle
	if o.version != "" {
		install = install.WithVersion(o.version)
	}
	placed, err := o.target.applyTo(install)
	if err == nil {
		bundle, err = r.Render(context.WithoutCancel(cmd.Context()), placed, o.flags.buildOptions(o.mode))
	}
	if err != nil {
		return nil, fmt.Errorf("%s \"%s/%s\": %w", install.Component().Kind(), install.Namespace(), install.Name(), err)
	}
	for _, w := range bundle.Warnings {
		fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s\n", w)
	}
	return bundle, nil
}

// forEach renders every KnativeServing and KnativeEventing of the file.
func (o *offlineCommand) forEach(cmd *cobra.Command, visit func(*render.Bundle) error) error {
	installs, err := o.read(cmd)
	if err != nil {
		return err
	}
	return o.withRenderer(func(r *render.Renderer) error {
		for _, install := range installs {
			bundle, err := o.renderInstall(cmd, r, install)
			if err != nil {
				return err
			}
			if err := visit(bundle); err != nil {
				return err
			}
		}
		return nil
	})
}

func (o *offlineCommand) withRenderer(use func(*render.Renderer) error) error {
	policy, err := o.trust.parsePolicy(o.addOnNamespace)
	if err != nil {
		return err
	}
	r, err := render.New(o.flags.buildConfig(policy))
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	return use(r)
}

func (o *offlineCommand) addFlags(cmd *cobra.Command) {
	o.addInput(cmd)
	cmd.Flags().StringVar((*string)(&o.mode), "mode", string(api.ModeManifestWork), "delivery mode: ManifestWork or Direct")
	registerFlagValues(cmd, "mode", string(api.ModeManifestWork), string(api.ModeDirect))
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if o.mode != api.ModeManifestWork && o.mode != api.ModeDirect {
			return fmt.Errorf("--mode is %q: use %s or %s", o.mode, api.ModeManifestWork, api.ModeDirect)
		}
		return nil
	}
}

func (o *offlineCommand) addInput(cmd *cobra.Command) {
	o.addRendering(cmd)
	cmd.Flags().StringVarP(&o.file, "filename", "f", "", "KnativeServings and KnativeEventings as YAML or JSON; - is standard input")
	_ = cmd.MarkFlagRequired("filename") // the command has the flag
}

// addRendering adds the flags of the rendering without the file.
func (o *offlineCommand) addRendering(cmd *cobra.Command) {
	o.flags.add(cmd.Flags())
	o.trust.add(cmd.Flags())
	cmd.Flags().StringVar(&o.addOnNamespace, "addon-namespace", "knative-addon",
		"namespace of the add-on, whose resources are trusted unless --trusted-namespaces names others")
	o.target.add(cmd.Flags())
}

func newRenderCommand() *cobra.Command {
	var o offlineCommand
	cmd := &cobra.Command{
		Use: "render", Short: "Print what the manager delivers for a KnativeServing or KnativeEventing", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			print, ok := map[string]func(io.Writer, *render.Bundle) error{
				"yaml": printYAML, "json": printJSON, "summary": render.WriteSummary,
			}[o.output]
			if !ok {
				return fmt.Errorf("--output is %q: use yaml, json or summary", o.output)
			}
			if o.mode == api.ModeDirect && o.output != "summary" {
				return o.forEach(cmd, func(b *render.Bundle) error { return printObjects(cmd.OutOrStdout(), o.output, directObjects(b)) })
			}
			return o.forEach(cmd, func(b *render.Bundle) error { return print(cmd.OutOrStdout(), b) })
		},
	}
	o.addFlags(cmd)
	cmd.Flags().StringVarP(&o.output, "output", "o", "yaml", "yaml, json (one object a line) or summary")
	return cmd
}

func printYAML(w io.Writer, b *render.Bundle) error { return printPulled(w, "yaml", b) }
func printJSON(w io.Writer, b *render.Bundle) error { return printPulled(w, "json", b) }

// printPulled prints the objects of foundation and payload in the order of their ManifestWorks.
func printPulled(w io.Writer, format string, b *render.Bundle) error {
	objects, err := manifestwork.Objects(b)
	if err != nil {
		return err
	}
	return printObjects(w, format, objects)
}

func directObjects(b *render.Bundle) [][]byte {
	var out [][]byte
	for _, o := range b.Objects() {
		out = append(out, o.JSON)
	}
	return out
}

func printObjects(w io.Writer, format string, objects [][]byte) error {
	for _, o := range objects {
		if format == "json" {
			if _, err := fmt.Fprintf(w, "%s\n", o); err != nil {
				return err
			}
			continue
		}
		text, err := yaml.JSONToYAML(o)
		if err != nil {
			return fmt.Errorf("cannot print an object as YAML: %w", err)
		}
		if _, err := fmt.Fprintf(w, "---\n%s", text); err != nil {
			return err
		}
	}
	return nil
}

func newVersionsCommand() *cobra.Command {
	var o offlineCommand
	cmd := &cobra.Command{
		Use: "versions", Short: "Print the versions of Knative that this program can deliver", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.withRenderer(func(r *render.Renderer) error {
				for _, c := range api.Components() {
					fmt.Fprintf(cmd.OutOrStdout(), "%s\t%s\n", c, strings.Join(r.Versions(c), " "))
				}
				fmt.Fprintf(cmd.OutOrStdout(), "source\t%s\n", r.Source())
				return nil
			})
		},
	}
	o.flags.addReleases(cmd.Flags())
	return cmd
}
