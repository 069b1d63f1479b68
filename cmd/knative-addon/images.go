// Copyright Contributors to the Open Cluster Management project

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/spf13/cobra"

	"open-cluster-management.io/knative-addon/pkg/imageregistry"
	"open-cluster-management.io/knative-addon/pkg/message"
	"open-cluster-management.io/knative-addon/pkg/render"
)

const imagesExample = `  # Print the images of a file, one a line, for a mirror:
  knative-addon images --filename knative.yaml

  # Before an edit, check that the registries have every image of the file:
  knative-addon images --filename knative.yaml --check

  # Check the images of another version, for nodes of two architectures, with the mirrors of an AddOnDeploymentConfig:
  knative-addon images --filename knative.yaml --version 1.23 --check --platform linux/amd64,linux/arm64 --addon-deployment-config mirrors.yaml`

// Exit codes of `knative-addon images --check`, besides 0 when the registries have every image.
const (
	exitImageMissing     = 1
	exitImagesNotChecked = 2
)

// imagesCommand holds the flags of `knative-addon images`.
type imagesCommand struct {
	offlineCommand
	check     bool
	timeout   time.Duration
	platforms []string
}

func newImagesCommand() *cobra.Command {
	var c imagesCommand
	cmd := &cobra.Command{
		Use: "images --filename FILE", Short: "Print, or check, every image that a KnativeServing or KnativeEventing needs", Args: cobra.NoArgs,
		Long: "Prints every image that the resources of a file need, as a cluster pulls the image: after spec.registry and the mirrors of --addon-deployment-config.\n\n" +
			"With --check, the command asks the registries for the manifest of each image, with the credentials of `docker login`, and prints the images that are " +
			"missing or could not be checked. The command ends with exit code 0 when every image exists, 1 when an image is missing, and 2 when no image is known " +
			"to be missing and a registry did not answer the question, or for another error. The result is that of this machine: a cluster may " +
			"have other credentials, networks and mirrors.",
		Example:     imagesExample,
		Annotations: map[string]string{exitCodeAnnotation: strconv.Itoa(exitImagesNotChecked)},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.runImages(cmd)
		},
	}
	c.addFlags(cmd)
	flags := cmd.Flags()
	flags.StringVarP(&c.output, "output", "o", "text", "text (one reference a line) or json (with the objects that use the image; one object a line)")
	registerFlagValues(cmd, "output", "text", "json")
	flags.StringVar(&c.version, "version", "", "version of Knative instead of spec.version of the resources")
	flags.BoolVar(&c.check, "check", false, "check that the registry of each image has the image")
	flags.StringSliceVar(&c.platforms, "platform", nil, "with --check, platforms that each image must have, such as linux/arm64; none by default")
	flags.DurationVar(&c.timeout, "timeout", 30*time.Second, "with --check, the time for the check of one image")
	return cmd
}

func (c *imagesCommand) runImages(cmd *cobra.Command) error {
	if c.output != "text" && c.output != "json" {
		return fmt.Errorf("cannot use --output=%q: use text or json", c.output)
	}
	if c.check && c.timeout <= 0 {
		return fmt.Errorf("cannot use --timeout=%s: use a positive time", c.timeout)
	}
	if !c.check {
		return c.forEach(cmd, func(b *render.Bundle) error { return c.printImages(cmd.OutOrStdout(), render.Images(b)) })
	}
	var all []render.Image
	if err := c.forEach(cmd, func(b *render.Bundle) error {
		all = mergeImages(all, render.Images(b))
		return nil
	}); err != nil {
		return err
	}
	checked, err := c.checkImages(cmd.Context(), all)
	if err != nil {
		return err
	}
	return c.printChecked(cmd.OutOrStdout(), checked)
}

func (c *imagesCommand) printImages(out io.Writer, images []render.Image) error {
	for _, i := range images {
		if c.output == "json" {
			if err := printLine(out, i); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintln(out, i.Reference)
	}
	return nil
}

func printLine(out io.Writer, image any) error {
	line, err := json.Marshal(image)
	if err != nil {
		return fmt.Errorf("cannot print an image: %w", err)
	}
	fmt.Fprintf(out, "%s\n", line)
	return nil
}

// mergeImages returns the images of both lists by reference, each once and with all objects that use the image.
func mergeImages(a, b []render.Image) []render.Image {
	for _, image := range b {
		n := slices.IndexFunc(a, func(i render.Image) bool { return i.Reference == image.Reference })
		if n < 0 {
			a = append(a, image)
			continue
		}
		a[n].UsedBy = append(slices.Clone(a[n].UsedBy), image.UsedBy...)
		slices.Sort(a[n].UsedBy)
		a[n].UsedBy = slices.Compact(a[n].UsedBy)
	}
	slices.SortFunc(a, func(x, y render.Image) int { return strings.Compare(x.Reference, y.Reference) })
	return a
}

// checkedImage is an image with the answer of its registry.
type checkedImage struct {
	render.Image

	State imageregistry.State
	// Error is the reason for a State other than Exists.
	Error string `json:",omitempty"`
}

func (c *imagesCommand) checkImages(ctx context.Context, all []render.Image) ([]checkedImage, error) {
	checker, err := imageregistry.New(imageregistry.Options{
		Keychain: authn.DefaultKeychain, UserAgent: "knative-addon/" + version, Timeout: c.timeout, Platforms: c.platforms,
	})
	if err != nil {
		return nil, err
	}
	references := make([]string, len(all))
	for n := range all {
		references[n] = all[n].Reference
	}
	out := make([]checkedImage, len(all))
	for n, result := range checker.Check(ctx, references) {
		out[n] = checkedImage{Image: all[n], State: result.State}
		if result.Err != nil {
			out[n].Error = message.OneLine(result.Err.Error(), message.MaxNote)
		}
	}
	return out, nil
}

// printChecked prints the images that do not exist, or all images as JSON, and returns the error of the exit code.
func (c *imagesCommand) printChecked(out io.Writer, all []checkedImage) error {
	count := map[imageregistry.State]int{}
	for _, i := range all {
		count[i.State]++
		if c.output == "json" {
			if err := printLine(out, i); err != nil {
				return err
			}
			continue
		}
		if i.State != imageregistry.Exists {
			fmt.Fprintln(out, i.describe())
		}
	}
	missing, notChecked := count[imageregistry.Missing], count[imageregistry.NotChecked]
	summary := fmt.Sprintf("%d images: %d exist, %d missing, %d not checked", len(all), count[imageregistry.Exists], missing, notChecked)
	switch {
	case missing > 0:
		return &exitError{errors.New(summary), exitImageMissing}
	case notChecked > 0:
		return &exitError{errors.New(summary), exitImagesNotChecked}
	case c.output != "json":
		fmt.Fprintln(out, summary)
	}
	return nil
}

// describe returns the line of an image that does not exist or was not checked.
func (i *checkedImage) describe() string {
	state := "missing"
	if i.State == imageregistry.NotChecked {
		state = "not checked"
	}
	return fmt.Sprintf("%s: %s: %s; used by %s", state, i.Reference, i.Error, strings.Join(i.UsedBy, ", "))
}
