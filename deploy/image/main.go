// Copyright Contributors to the Open Cluster Management project

// Command image builds the manager's image as an OCI archive, without a container engine and without a base image.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// run builds the program for each platform, and writes the archive. What happens is printed to out.
func run(ctx context.Context, out io.Writer, args []string) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	source := flags.String("source", ".", "directory of the module with ./cmd/knative-addon")
	version := flags.String("version", "devel", "version that the program reports")
	reference := flags.String("name", "", "name of the image, as registry/repository:tag")
	output := flags.String("output", "", "file of the OCI archive")
	push := flags.Bool("push", false, "push the image to its registry, with the credentials of ~/.docker/config.json")
	platforms := flags.String("platforms", "linux/amd64,linux/arm64", "platforms, separated by commas")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *reference == "" || *output == "" || flags.NArg() > 0 {
		return fmt.Errorf("-name and -output are needed, and no arguments; got -name=%q -output=%q and %q", *reference, *output, flags.Args())
	}
	tag, err := name.NewTag(*reference)
	if err != nil {
		return fmt.Errorf("cannot parse -name: %w", err)
	}
	var list []v1.Platform
	for p := range strings.SplitSeq(*platforms, ",") {
		platform, err := v1.ParsePlatform(p)
		if err != nil {
			return fmt.Errorf("cannot parse platform %q: %w", p, err)
		}
		list = append(list, *platform)
	}
	b := builder{out: out, source: *source, version: *version, directory: filepath.Dir(*output)}
	images, documents, err := b.buildImages(ctx, list)
	if err != nil {
		return err
	}
	index, err := assembleIndex(images)
	if err != nil {
		return err
	}
	digest, err := writeArchive(*output, tag, index)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s has %s@%s\n", *output, tag, digest)
	if !*push {
		return nil
	}
	if err := pushAll(ctx, tag, index, images, documents); err != nil {
		return err
	}
	fmt.Fprintf(out, "pushed %s@%s, and the bill of materials of each platform\n", tag, digest)
	return nil
}

// builder builds the program of one version. The builder prints its steps to out, and writes the bills of materials into the directory.
type builder struct {
	out                        io.Writer
	source, version, directory string
}

// buildImages builds an image and a bill of materials for each platform, in the order of the platforms.
func (b builder) buildImages(ctx context.Context, platforms []v1.Platform) (images []v1.Image, documents [][]byte, err error) {
	directory, err := os.MkdirTemp("", "knative-addon-image-")
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = os.RemoveAll(directory) }()
	for _, platform := range platforms {
		program := filepath.Join(directory, "knative-addon-"+platform.OS+"-"+platform.Architecture)
		fmt.Fprintf(b.out, "building knative-addon %s for %s\n", b.version, platform)
		if err := buildProgram(ctx, b.source, program, b.version, &platform); err != nil {
			return nil, nil, err
		}
		image, err := assembleImage(program, b.version, &platform)
		if err != nil {
			return nil, nil, err
		}
		document, err := b.writeDocument(program)
		if err != nil {
			return nil, nil, err
		}
		images, documents = append(images, image), append(documents, document)
	}
	return images, documents, nil
}

// pushAll pushes the index with all images, and the bill of materials of each image.
func pushAll(ctx context.Context, tag name.Tag, index v1.ImageIndex, images []v1.Image, documents [][]byte) error {
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	if err := remote.WriteIndex(tag, index, options...); err != nil {
		return fmt.Errorf("cannot push %s: %w", tag, err)
	}
	for i, image := range images {
		if err := pushDocument(tag.Context(), documents[i], image, options...); err != nil {
			return err
		}
	}
	return nil
}

// writeDocument writes the bill of materials of a program, and returns the document.
func (b builder) writeDocument(program string) ([]byte, error) {
	document, err := describeProgram(program, b.version)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(b.directory, 0o755); err != nil {
		return nil, err
	}
	path := filepath.Join(b.directory, filepath.Base(program)+".spdx.json")
	if err := os.WriteFile(path, document, 0o644); err != nil {
		return nil, err
	}
	fmt.Fprintf(b.out, "%s lists the modules of %s\n", path, filepath.Base(program))
	return document, nil
}

// buildProgram compiles the manager such that the same source yields the same bytes on every machine.
func buildProgram(ctx context.Context, source, output, version string, platform *v1.Platform) error {
	//nolint:gosec // the arguments come from the command line of the developer
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -X main.version="+version, "-o", output, "./cmd/knative-addon")
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=readonly", "GOOS="+platform.OS, "GOARCH="+platform.Architecture, "GOARM64=", "GOAMD64=")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("cannot build the program for %s: %w", platform, err)
	}
	return nil
}
