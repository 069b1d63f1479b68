// Copyright Contributors to the Open Cluster Management project

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/work"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// offline are the commands that need no cluster.
type offline struct {
	flags  renderFlags
	target clusterFlags
	file   string
	mode   string
	output string
}

// read reads the file.
func (o *offline) read(cmd *cobra.Command) ([]*render.Install, error) {
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

// render renders one of them, and tells of its warnings.
func (o *offline) render(cmd *cobra.Command, r *render.Renderer, install *render.Install) (*render.Bundle, error) {
	var bundle *render.Bundle
	placed, err := o.target.on(install)
	if err == nil {
		bundle, err = r.Render(context.WithoutCancel(cmd.Context()), placed, o.flags.options(render.Mode(o.mode)))
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
func (o *offline) forEach(cmd *cobra.Command, visit func(*render.Bundle) error) error {
	installs, err := o.read(cmd)
	if err != nil {
		return err
	}
	return o.with(func(r *render.Renderer) error {
		for _, install := range installs {
			bundle, err := o.render(cmd, r, install)
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

func (o *offline) with(use func(*render.Renderer) error) error {
	r, err := render.New(o.flags.config())
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	return use(r)
}

func (o *offline) addFlags(cmd *cobra.Command) {
	o.addInput(cmd)
	cmd.Flags().StringVar(&o.mode, "for", string(render.Pull), "pull (ManifestWork) or push (direct)")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if o.mode != string(render.Pull) && o.mode != string(render.Push) {
			return fmt.Errorf("--for is %q: use pull or push", o.mode)
		}
		return nil
	}
}

func (o *offline) addInput(cmd *cobra.Command) {
	o.flags.add(cmd.Flags())
	o.target.add(cmd.Flags())
	cmd.Flags().StringVarP(&o.file, "filename", "f", "", "KnativeServings and KnativeEventings as YAML or JSON; - is standard input")
	_ = cmd.MarkFlagRequired("filename") // the flag is there
}

func newRender() *cobra.Command {
	var o offline
	cmd := &cobra.Command{
		Use: "render", Short: "Print what the manager delivers for a KnativeServing or KnativeEventing", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			print, ok := map[string]func(io.Writer, *render.Bundle) error{
				"yaml": printYAML, "json": printJSON, "summary": render.WriteSummary,
			}[o.output]
			if !ok {
				return fmt.Errorf("--output is %q: use yaml, json or summary", o.output)
			}
			if o.mode == string(render.Push) && o.output != "summary" {
				return o.forEach(cmd, func(b *render.Bundle) error { return printObjects(cmd.OutOrStdout(), o.output, pushed(b)) })
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

// printPulled prints the objects of foundation and payload in the order of their works.
func printPulled(w io.Writer, format string, b *render.Bundle) error {
	objects, err := work.Objects(b)
	if err != nil {
		return err
	}
	return printObjects(w, format, objects)
}

func pushed(b *render.Bundle) [][]byte {
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

func newImages() *cobra.Command {
	var o offline
	cmd := &cobra.Command{
		Use: "images", Short: "Print every image that a KnativeServing or KnativeEventing needs, for a mirror", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.forEach(cmd, func(b *render.Bundle) error {
				for _, i := range render.Images(b) {
					if o.output == "json" {
						line, err := json.Marshal(i)
						if err != nil {
							return fmt.Errorf("cannot print an image: %w", err)
						}
						fmt.Fprintf(cmd.OutOrStdout(), "%s\n", line)
						continue
					}
					fmt.Fprintln(cmd.OutOrStdout(), i.Reference)
				}
				return nil
			})
		},
	}
	o.addFlags(cmd)
	cmd.Flags().StringVarP(&o.output, "output", "o", "text", "text (one reference a line) or json (with the objects that use it)")
	return cmd
}

func newVersions() *cobra.Command {
	var o offline
	return &cobra.Command{
		Use: "versions", Short: "Print the versions of Knative that this program can deliver", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.with(func(r *render.Renderer) error {
				for _, c := range api.Components() {
					fmt.Fprintf(cmd.OutOrStdout(), "%s\t%s\n", c, strings.Join(r.Versions(c), " "))
				}
				fmt.Fprintf(cmd.OutOrStdout(), "source\t%s\n", r.Source())
				return nil
			})
		},
	}
}
