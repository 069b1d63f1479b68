// Copyright Contributors to the Open Cluster Management project

package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

const (
	// user and group are those of nonroot in distroless images, which Kubernetes accepts for runAsNonRoot.
	user       = 65532
	entrypoint = "/knative-addon"
	// certificatesFile is the first file that crypto/x509 reads on Linux.
	certificatesFile = "/etc/ssl/certs/ca-certificates.crt"
	accounts         = "root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n"
)

// assembleImage returns an image of the program, which runs as a user without privileges, and of Mozilla's root certificates. The
// image depends on its inputs only: no file and no history entry has a time.
func assembleImage(program, version string, platform *v1.Platform) (v1.Image, error) {
	content, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	layers, err := packLayers([]file{
		{name: "/etc/passwd", mode: 0o644, content: []byte(accounts)},
		{name: certificatesFile, mode: 0o644, content: encodeCertificates()},
		{name: "/tmp", mode: 0o1777, isDirectory: true},
	}, []file{{name: entrypoint, mode: 0o555, content: content}})
	if err != nil {
		return nil, err
	}
	image, err := mutate.ConfigFile(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON), &v1.ConfigFile{
		Architecture: platform.Architecture, OS: platform.OS, RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{
			User: fmt.Sprintf("%d:%d", user, user), Entrypoint: []string{entrypoint}, WorkingDir: "/",
			Labels: map[string]string{
				"org.opencontainers.image.title":    "knative-addon",
				"org.opencontainers.image.licenses": "Apache-2.0",
				"org.opencontainers.image.version":  version,
			},
		},
	})
	if err != nil {
		return nil, err
	}
	return mutate.AppendLayers(image, layers...)
}

// file is an entry of a layer. The name is absolute.
type file struct {
	name        string
	mode        int64
	isDirectory bool
	content     []byte
}

// packLayers returns one layer for each list of files. Files that rarely change belong in the first layer.
func packLayers(lists ...[]file) ([]v1.Layer, error) {
	var out []v1.Layer
	for _, files := range lists {
		archive, err := packFiles(files)
		if err != nil {
			return nil, err
		}
		layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive)), nil }, tarball.WithMediaType(types.OCILayer))
		if err != nil {
			return nil, fmt.Errorf("cannot compress a layer: %w", err)
		}
		out = append(out, layer)
	}
	return out, nil
}

// packFiles returns a tar archive of files and their directories that belong to root.
func packFiles(files []file) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	known := map[string]bool{".": true}
	write := func(f file) error {
		path := strings.TrimPrefix(f.name, "/")
		if known[path] {
			return nil
		}
		known[path] = true
		header := &tar.Header{Typeflag: tar.TypeReg, Name: path, Mode: f.mode, Size: int64(len(f.content)), Format: tar.FormatPAX}
		if f.isDirectory {
			header.Typeflag, header.Name = tar.TypeDir, path+"/"
		}
		if err := w.WriteHeader(header); err != nil {
			return err
		}
		_, err := w.Write(f.content)
		return err
	}
	for _, f := range files {
		for _, parent := range parentsOf(f.name) {
			if err := write(file{name: parent, mode: 0o755, isDirectory: true}); err != nil {
				return nil, err
			}
		}
		if err := write(f); err != nil {
			return nil, err
		}
	}
	err := w.Close() // writes the end of the archive
	return out.Bytes(), err
}

// parentsOf returns the directories above a file, the outermost first.
func parentsOf(path string) []string {
	var out []string
	for dir := filepath.Dir(path); dir != "/"; dir = filepath.Dir(dir) {
		out = append([]string{dir}, out...)
	}
	return out
}

// encodeCertificates returns the root certificates that programs may use without a restriction, as PEM.
func encodeCertificates() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			out.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
		}
	}
	return out.Bytes()
}

// writeArchive writes an OCI layout with the index as one tar file, and returns the digest of the index: the digest by which
// Kubernetes pulls the image after a push.
func writeArchive(output string, tag name.Tag, index v1.ImageIndex) (v1.Hash, error) {
	digest, err := index.Digest()
	if err != nil {
		return v1.Hash{}, err
	}
	directory, err := os.MkdirTemp("", "knative-addon-image-layout-")
	if err != nil {
		return v1.Hash{}, err
	}
	defer func() { _ = os.RemoveAll(directory) }()
	path, err := layout.Write(directory, empty.Index)
	if err != nil {
		return v1.Hash{}, fmt.Errorf("cannot write the OCI layout: %w", err)
	}
	// containerd reads the first annotation, podman and skopeo the second.
	annotations := map[string]string{"io.containerd.image.name": tag.Name(), "org.opencontainers.image.ref.name": tag.TagStr()}
	if err := path.AppendIndex(index, layout.WithAnnotations(annotations)); err != nil {
		return v1.Hash{}, fmt.Errorf("cannot write the index: %w", err)
	}
	return digest, packDirectory(directory, output)
}

// assembleIndex returns an index with one image for each platform.
func assembleIndex(images []v1.Image) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, image := range images {
		config, err := image.ConfigFile()
		if err != nil {
			return nil, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: config.OS, Architecture: config.Architecture}},
		})
	}
	return index, nil
}

// packDirectory writes the files of a directory as one tar file, in the order of their names.
func packDirectory(directory, output string) error {
	var files []file
	if err := filepath.WalkDir(directory, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		relative, err := filepath.Rel(directory, path)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		files = append(files, file{name: "/" + filepath.ToSlash(relative), mode: 0o644, content: content})
		return err
	}); err != nil {
		return fmt.Errorf("cannot read the OCI layout: %w", err)
	}
	archive, err := packFiles(files)
	if err != nil {
		return fmt.Errorf("cannot pack the OCI layout: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(output), 0o755); err != nil {
		return err
	}
	return os.WriteFile(output, archive, 0o644)
}
