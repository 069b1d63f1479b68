// Copyright Contributors to the Open Cluster Management project

package realnode

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// HelloImage is the image of a program that answers HTTP, for a user's Service.
const HelloImage = "dev.local/hello:v1"

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

// releasedImages returns the names of the images in the release manifests of a directory, by the last part of their repository.
func releasedImages(directory string) (map[string][]string, error) {
	out := map[string][]string{}
	err := filepath.WalkDir(directory, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for _, name := range releasedImage.FindAllString(string(content), -1) {
			repository, _, _ := strings.Cut(path.Base(name), "@")
			repository, _, _ = strings.Cut(repository, ":")
			if !slices.Contains(out[repository], name) {
				out[repository] = append(out[repository], name)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read the images of a release: %w", err)
	}
	return out, nil
}

// knativePrograms are the programs of Knative Serving and of Kourier's controller, by the last part of their image's repository.
func knativePrograms() []string {
	return []string{"activator", "autoscaler", "autoscaler-hpa", "controller", "webhook", "queue", "cleanup", "migrate", "kourier"}
}

// images lists what a node has: the images of the lab, and those that the release manifests name.
func (n *Node) images() map[*image][]string {
	out := map[*image][]string{
		n.newImage("pause", "", pauseImage, "/pause"):             nil,
		n.newImage("coredns", "", coreDNSImage, "/coredns"):       nil,
		n.newImage("hello", nonRoot, HelloImage, "/ko-app/hello"): nil,
	}
	for _, program := range knativePrograms() {
		out[n.newImage(program, nonRoot, "lab.local/"+program+":v1", "/ko-app/"+program)] = n.released[program]
	}
	gateway := n.newImage("gateway", nobody, "lab.local/gateway:v1", "/usr/local/bin/envoy")
	gateway.files = append(gateway.files, file{path: "/bin/sh", link: gateway.entrypoint}, file{path: "/tmp/"})
	out[gateway] = n.released["envoy"]
	return out
}

func (n *Node) newImage(program, user, name, entrypoint string) *image {
	i := &image{name: name, user: user, entrypoint: entrypoint, files: []file{{path: entrypoint, from: n.Program(program)}}}
	if _, err := os.Stat(certificates); err == nil {
		i.files = append(i.files, file{path: certificates, from: certificates})
	}
	return i
}

// importImages gives containerd every image, under the names of the releases too: containerd finds images by name.
func (n *Node) importImages(ctx context.Context) error {
	for i, names := range n.images() {
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

// runCtr runs containerd's own client in the node's namespaces.
func (n *Node) runCtr(ctx context.Context, in io.Reader, args ...string) error {
	enter := n.enter(append([]string{"ctr", "--namespace", "k8s.io"}, args...)...)
	cmd := exec.CommandContext(ctx, enter[0], enter[1:]...) //nolint:gosec // our own arguments
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = in, &stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("ctr %s: %w: %s", strings.Join(args, " "), err, stderr.String())
	}
	return nil
}
