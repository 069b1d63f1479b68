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
	"github.com/google/go-containerregistry/pkg/v1/types"
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
	builderURI := flags.String("builder", "", "URI of the builder, such as the workflow, for a provenance of each image; needs a checkout without changes")
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
	b := builder{out: out, source: *source, directory: filepath.Dir(*output), repository: tag.Context(), build: build{builder: *builderURI, version: *version}}
	if b.build.builder != "" {
		if b.build.revision, err = readRevision(ctx, b.source); err != nil {
			return err
		}
	}
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
	fmt.Fprintf(out, "pushed %s@%s, and the documents of each platform\n", tag, digest)
	return nil
}

// builder builds the program of one version. The builder prints its steps to out, and writes the documents into the directory.
type builder struct {
	out               io.Writer
	source, directory string
	repository        name.Repository
	// build describes the builds. Without a URI of the builder, images have no provenance.
	build build
}

// document is a document that refers to an image.
type document struct {
	mediaType types.MediaType
	content   []byte
}

// buildImages builds an image and its documents for each platform, in the order of the platforms.
func (b builder) buildImages(ctx context.Context, platforms []v1.Platform) (images []v1.Image, documents [][]document, err error) {
	directory, err := os.MkdirTemp("", "knative-addon-image-")
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = os.RemoveAll(directory) }()
	for _, platform := range platforms {
		program := filepath.Join(directory, "knative-addon-"+platform.OS+"-"+platform.Architecture)
		fmt.Fprintf(b.out, "building knative-addon %s for %s\n", b.build.version, platform)
		if err := buildProgram(ctx, b.source, program, b.build.version, &platform); err != nil {
			return nil, nil, err
		}
		image, err := assembleImage(program, b.build.version, &platform)
		if err != nil {
			return nil, nil, err
		}
		described, err := b.writeDocuments(program, image, platform)
		if err != nil {
			return nil, nil, err
		}
		images, documents = append(images, image), append(documents, described)
	}
	return images, documents, nil
}

// pushAll pushes the index with all images, and the documents of each image.
func pushAll(ctx context.Context, tag name.Tag, index v1.ImageIndex, images []v1.Image, documents [][]document) error {
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	if err := remote.WriteIndex(tag, index, options...); err != nil {
		return fmt.Errorf("cannot push %s: %w", tag, err)
	}
	for i, image := range images {
		for _, d := range documents[i] {
			if err := pushDocument(tag.Context(), d, image, options...); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeDocuments writes the bill of materials of a program and, when the builder is known, the provenance of its image, and returns both.
func (b builder) writeDocuments(program string, image v1.Image, platform v1.Platform) ([]document, error) {
	materials, err := describeProgram(program, b.build.version)
	if err != nil {
		return nil, err
	}
	name := filepath.Join(b.directory, filepath.Base(program))
	out := []document{{spdxMediaType, materials}}
	if err := b.writeDocument(name+".spdx.json", "lists the modules of "+filepath.Base(program), materials); err != nil || b.build.builder == "" {
		return out, err
	}
	described := b.build
	described.platform = platform
	origin, err := describeBuild(b.repository, image, described)
	if err != nil {
		return nil, err
	}
	return append(out, document{intotoMediaType, origin}), b.writeDocument(name+".provenance.json", "has the provenance of the image", origin)
}

func (b builder) writeDocument(path, meaning string, content []byte) error {
	if err := os.MkdirAll(b.directory, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path, content, 0o644); err != nil {
		return err
	}
	fmt.Fprintf(b.out, "%s %s\n", path, meaning)
	return nil
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
