// Copyright Contributors to the Open Cluster Management project

package realnode

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"open-cluster-management.io/knative-addon/test/lab/tools"
)

// HelloImage is the image of a program that answers HTTP, for a user's Service.
const HelloImage = "dev.local/hello:v1"

// SinkImage is the image of a program that receives events on port 8080, and answers GET with a line for each event.
const SinkImage = "dev.local/sink:v1"

const (
	pauseImage   = "lab.local/pause:v1"
	coreDNSImage = "lab.local/coredns:v1"
	certificates = "/etc/ssl/certs/ca-certificates.crt"
	// nonRoot is the user of Knative's images, nobody that of Envoy's.
	nonRoot = "65532"
	nobody  = "65534"
)

// releasedImage matches the images of Knative's release manifests that a node can run.
var releasedImage = regexp.MustCompile(`(?:gcr\.io/knative-releases/knative\.dev|docker\.io/envoyproxy)/[\w./-]+(?:@sha256:[0-9a-f]{64}|:[\w.-]+)`)

// releasedImages returns the names of the images in the release manifests of directories, by the path of their repository.
func releasedImages(directories ...string) (map[string][]string, error) {
	out := map[string][]string{}
	for _, directory := range directories {
		if err := readReleasedImages(directory, out); err != nil {
			return nil, fmt.Errorf("cannot read the images of a release: %w", err)
		}
	}
	return out, nil
}

// readReleasedImages adds the names of the images in the release manifests of a directory.
func readReleasedImages(directory string, out map[string][]string) error {
	return filepath.WalkDir(directory, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for _, name := range releasedImage.FindAllString(string(content), -1) {
			repository, _, _ := strings.Cut(name, "@")
			repository, _, _ = strings.Cut(repository, ":")
			repository = strings.TrimPrefix(repository, knativeRegistry)
			if !slices.Contains(out[repository], name) {
				out[repository] = append(out[repository], name)
			}
		}
		return nil
	})
}

const (
	// knativeRegistry begins the names of Knative's images.
	knativeRegistry = "gcr.io/knative-releases/knative.dev/"
	migrateImage    = "pkg/apiextensions/storageversion/cmd/migrate"
	envoyImage      = "docker.io/envoyproxy/envoy"
)

// servingPrograms returns the repositories of the images of Knative Serving and of Kourier's controller, by the lab's name of the program.
func servingPrograms() map[string]string {
	return map[string]string{
		"activator": "serving/cmd/activator", "autoscaler": "serving/cmd/autoscaler", "autoscaler-hpa": "serving/cmd/autoscaler-hpa",
		"controller": "serving/cmd/controller", "webhook": "serving/cmd/webhook", "queue": "serving/cmd/queue",
		"cleanup": "serving/pkg/cleanup/cmd/cleanup", "kourier": "net-kourier/cmd/kourier",
	}
}

// eventingPrograms returns the repositories of the images of Knative Eventing, by the lab's name of the program.
func eventingPrograms() map[string]string {
	out := map[string]string{}
	for _, command := range tools.EventingCommands() {
		out[tools.EventingProgram(command)] = "eventing/cmd/" + command
	}
	return out
}

// images lists the images of a node with their further names: the images of the lab, and the images in the release manifests of the node's
// components.
func (n *Node) images() (map[*image][]string, error) {
	out := map[*image][]string{
		n.newImage("pause", "", pauseImage, "/pause"):       nil,
		n.newImage("coredns", "", coreDNSImage, "/coredns"): nil,
	}
	programs, files := map[string]string{}, []string{}
	if n.Serving {
		maps.Copy(programs, servingPrograms())
		files = append(files, n.Program("release-files"))
		out[n.newImage("hello", nonRoot, HelloImage, "/ko-app/hello")] = nil
	}
	if n.Eventing {
		maps.Copy(programs, eventingPrograms())
		files = append(files, n.Program("eventing-release-files"))
		out[n.newImage("sink", nonRoot, SinkImage, "/ko-app/sink")] = nil
	}
	released, err := releasedImages(files...)
	if err != nil || len(files) == 0 {
		return out, err
	}
	programs["migrate"] = migrateImage
	for program, repository := range programs {
		out[n.newImage(program, nonRoot, "lab.local/"+program+":v1", "/ko-app/"+path.Base(repository))] = released[repository]
	}
	gateway := n.newImage("gateway", nobody, "lab.local/gateway:v1", "/usr/local/bin/envoy")
	gateway.files = append(gateway.files, file{path: "/bin/sh", link: gateway.entrypoint}, file{path: "/tmp/"})
	out[gateway] = released[envoyImage]
	return out, nil
}

// newImage returns an image with one of the lab's programs.
func (n *Node) newImage(program, user, name, entrypoint string) *image {
	return newProgramImage(n.Program(program), user, name, entrypoint)
}

func newProgramImage(program, user, name, entrypoint string) *image {
	i := &image{name: name, user: user, entrypoint: entrypoint, files: []file{{path: entrypoint, from: program}}}
	if _, err := os.Stat(certificates); err == nil {
		i.files = append(i.files, file{path: certificates, from: certificates})
	}
	return i
}

// importImages gives containerd every image, under the names of the releases too: containerd finds images by name.
func (n *Node) importImages(ctx context.Context) error {
	images, err := n.images()
	if err != nil {
		return err
	}
	for i, names := range images {
		if err := n.importImage(ctx, *i, names); err != nil {
			return err
		}
	}
	return nil
}

func (n *Node) importImage(ctx context.Context, i image, names []string) error {
	in, out := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := writeArchive(out, i)
		_ = out.CloseWithError(err)
		written <- err
	}()
	err := n.runCtr(ctx, in, "images", "import", "-")
	_ = in.CloseWithError(err) // ends the writer if ctr has not read everything
	if written := <-written; err != nil || written != nil && !errors.Is(written, io.ErrClosedPipe) {
		return fmt.Errorf("cannot import image %s: %w", i.name, errors.Join(err, written))
	}
	if len(names) == 0 {
		return nil
	}
	return n.runCtr(ctx, nil, append([]string{"images", "tag", "--force", i.name}, names...)...)
}

// ImportArchive imports the images of an archive of OCI.
func (n *Node) ImportArchive(ctx context.Context, file string) error {
	archive, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = archive.Close() }()
	return n.runCtr(ctx, archive, "images", "import", "-")
}

// ImportProgram imports an image with one program, which is the entrypoint.
func (n *Node) ImportProgram(ctx context.Context, name, entrypoint, program string) error {
	return n.importImage(ctx, *newProgramImage(program, nonRoot, name, entrypoint), nil)
}

// runCtr runs containerd's own client in the node's namespaces.
func (n *Node) runCtr(ctx context.Context, in io.Reader, args ...string) error {
	enter := n.enter(append([]string{n.Program("ctr"), "--namespace", "k8s.io"}, args...)...)
	cmd := exec.CommandContext(ctx, enter[0], enter[1:]...) //nolint:gosec // our own arguments
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = in, &stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("ctr %s: %w: %s", strings.Join(args, " "), err, stderr.String())
	}
	return nil
}
