// Copyright Contributors to the Open Cluster Management project

package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"debug/buildinfo"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	provenance "github.com/in-toto/attestation/go/predicates/provenance/v1"
	intoto "github.com/in-toto/attestation/go/v1"
	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdxlib"
	"google.golang.org/protobuf/encoding/protojson"
)

const testName = "registry.example.com/team/knative-addon:v1.2.3"

// TestArchive reads back the archive of a program for two platforms.
func TestArchive(t *testing.T) {
	archive := filepath.Join(t.TempDir(), "bin", "image.tar")
	digest := buildArchive(t, archive)
	directory := filepath.Join(t.TempDir(), "layout")
	unpack(t, archive, directory)
	root, err := layout.ImageIndexFromPath(directory)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := root.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("the layout has %v, error %v, want one index", manifest, err)
	}
	entry := manifest.Manifests[0]
	if entry.Digest != digest || entry.Annotations["io.containerd.image.name"] != testName || entry.Annotations["org.opencontainers.image.ref.name"] != "v1.2.3" {
		t.Errorf("the index is %s with %v, want %s with the name", entry.Digest, entry.Annotations, digest)
	}
	index, err := root.ImageIndex(digest)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	images, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var platforms []string
	for _, m := range images.Manifests {
		platforms = append(platforms, m.Platform.String())
		image, err := index.Image(m.Digest)
		if err != nil {
			t.Fatal(err)
		}
		checkImage(t, image)
	}
	if want := []string{"linux/amd64", "linux/arm64"}; !slices.Equal(platforms, want) {
		t.Errorf("platforms are %v, want %v", platforms, want)
	}
}

// TestArchiveIsReproducible builds twice.
func TestArchiveIsReproducible(t *testing.T) {
	first, second := filepath.Join(t.TempDir(), "image.tar"), filepath.Join(t.TempDir(), "image.tar")
	if a, b := buildArchive(t, first), buildArchive(t, second); a != b {
		t.Errorf("digests are %s and %s", a, b)
	}
	a, err := os.ReadFile(first)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(second); err != nil || !slices.Equal(a, b) {
		t.Errorf("the files differ, error %v", err)
	}
}

// TestPackFiles looks for the end of the archive, without which tar reports a truncated archive.
func TestPackFiles(t *testing.T) {
	archive, err := packFiles([]file{{name: "/a/b", mode: 0o644, content: []byte("content")}})
	if err != nil {
		t.Fatal(err)
	}
	end := make([]byte, 1024)
	if len(archive)%512 != 0 || !bytes.HasSuffix(archive, end) {
		t.Errorf("the archive of %d bytes has no end", len(archive))
	}
}

func TestBadArguments(t *testing.T) {
	output := "-output=" + filepath.Join(t.TempDir(), "image.tar")
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"no name":                     {args: []string{output}, want: "-name"},
		"an argument":                 {args: []string{output, "-name=" + testName, "linux"}, want: "linux"},
		"a name without a repository": {args: []string{output, "-name=UPPER CASE"}, want: "UPPER CASE"},
		"an unknown platform":         {args: []string{output, "-name=" + testName, "-platforms=a/b/c/d"}, want: "a/b/c/d"},
		"a source without revision":   {args: []string{output, "-name=" + testName, "-source=" + t.TempDir(), "-builder=https://example.com"}, want: "cannot read the revision"},
		"a source without module":     {args: []string{output, "-name=" + testName, "-source=" + t.TempDir()}, want: "cannot build the program for linux/amd64"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := run(t.Context(), io.Discard, tc.args); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error is %v, want one with %q", err, tc.want)
			}
		})
	}
}

// buildArchive writes an archive of a program for two platforms, and returns the digest.
func buildArchive(t *testing.T, output string) v1.Hash {
	t.Helper()
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var images []v1.Image
	for _, architecture := range []string{"amd64", "arm64"} {
		image, err := assembleImage(program, "v1.2.3", &v1.Platform{OS: "linux", Architecture: architecture})
		if err != nil {
			t.Fatal(err)
		}
		images = append(images, image)
	}
	index, err := assembleIndex(images)
	if err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag(testName)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := writeArchive(output, tag, index)
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

// TestPush builds a small module for one platform, and pushes the image to a registry.
func TestPush(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0)), registry.WithReferrersSupport(true)))
	t.Cleanup(server.Close)
	source := t.TempDir()
	for path, content := range map[string]string{"go.mod": "module m\n\ngo 1.26.0\n", "cmd/knative-addon/main.go": "package main\n\nfunc main() {}\n"} {
		file := filepath.Join(source, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	revision := commitAll(t, source)
	reference := strings.TrimPrefix(server.URL, "http://") + "/team/knative-addon:v1.2.3"
	args := []string{"-push", "-source=" + source, "-builder=https://example.com/builder", "-platforms=linux/arm64", "-name=" + reference, "-output=" + filepath.Join(t.TempDir(), "image.tar")}
	if err := run(t.Context(), io.Discard, args); err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag(reference)
	if err != nil {
		t.Fatal(err)
	}
	image, err := remote.Image(tag, remote.WithPlatform(v1.Platform{OS: "linux", Architecture: "arm64"}))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Image(image); err != nil {
		t.Error(err)
	}
	if config, err := image.ConfigFile(); err != nil || config.Architecture != "arm64" {
		t.Errorf("the registry has %+v, error %v", config, err)
	}
	checkMaterials(t, readReferrer(t, tag, image, spdxMediaType))
	checkProvenance(t, readReferrer(t, tag, image, intotoMediaType), image, revision)
	if err := os.WriteFile(filepath.Join(source, "later.go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), io.Discard, args); err == nil || !strings.Contains(err.Error(), "later.go") {
		t.Errorf("a checkout with changes: error is %v", err)
	}
}

// commitAll commits the files of a directory, and returns the commit.
func commitAll(t *testing.T, directory string) string {
	t.Helper()
	for _, args := range [][]string{{"init", "--quiet"}, {"add", "."}, {"-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "--quiet", "-m", "x"}} {
		if _, err := runGit(t.Context(), directory, args...); err != nil {
			t.Fatal(err)
		}
	}
	revision, err := readRevision(t.Context(), directory)
	if err != nil || len(revision) != 40 {
		t.Fatalf("the revision is %q, error %v", revision, err)
	}
	return revision
}

// checkProvenance holds that the provenance of an image names the image, the commit and the builder.
func checkProvenance(t *testing.T, content []byte, image v1.Image, revision string) {
	t.Helper()
	digest, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	statement := &intoto.Statement{}
	if err := errors.Join(protojson.Unmarshal(content, statement), statement.Validate()); err != nil {
		t.Fatal(err)
	}
	predicate, err := protojson.Marshal(statement.Predicate)
	described := &provenance.Provenance{}
	if err = errors.Join(err, protojson.Unmarshal(predicate, described), described.Validate()); err != nil {
		t.Fatal(err)
	}
	sources := described.BuildDefinition.ResolvedDependencies
	if len(statement.Subject) != 1 || statement.Subject[0].Digest["sha256"] != digest.Hex || len(sources) != 1 || sources[0].Digest["gitCommit"] != revision ||
		described.RunDetails.Builder.Id != "https://example.com/builder" || statement.PredicateType != predicateType ||
		described.BuildDefinition.ExternalParameters.AsMap()["platform"] != "linux/arm64" {
		t.Errorf("the provenance of %s at %s is %s", digest, revision, content)
	}
}

// readReferrer reads the document of a type that the registry lists for an image.
func readReferrer(t *testing.T, tag name.Tag, image v1.Image, mediaType types.MediaType) []byte {
	t.Helper()
	digest, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	index, err := remote.Referrers(tag.Context().Digest(digest.String()))
	if err != nil {
		t.Fatal(err)
	}
	referrers, err := index.IndexManifest()
	if err != nil || len(referrers.Manifests) != 2 {
		t.Fatalf("the referrers are %+v, error %v, want two", referrers, err)
	}
	of := slices.IndexFunc(referrers.Manifests, func(d v1.Descriptor) bool { return d.ArtifactType == string(mediaType) })
	if of < 0 {
		t.Fatalf("the referrers are %+v, none is of type %s", referrers.Manifests, mediaType)
	}
	artifact, err := remote.Image(tag.Context().Digest(referrers.Manifests[of].Digest.String()))
	if err != nil {
		t.Fatal(err)
	}
	layers, err := artifact.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("the artifact has %d layers, error %v", len(layers), err)
	}
	content, err := layers[0].Compressed()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = content.Close() }()
	out, err := io.ReadAll(content)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func checkMaterials(t *testing.T, content []byte) {
	t.Helper()
	document, err := json.Read(bytes.NewReader(content))
	if err != nil || len(document.Packages) != 2 || document.Packages[0].PackageName != "m" || document.Packages[1].PackageName != "stdlib" {
		t.Errorf("the bill of materials is %+v, error %v", document, err)
	}
}

// TestDescribeProgram holds that the bill of materials names every module of a program once, and that replaced modules are absent.
func TestDescribeProgram(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := describeProgram(program, "v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	document, err := json.Read(bytes.NewReader(encoded))
	if err != nil {
		t.Fatal(err)
	}
	if err := spdxlib.ValidateDocument(document); err != nil {
		t.Error(err)
	}
	names := map[string]string{}
	for _, p := range document.Packages {
		names[p.PackageName] = p.PackageVersion
	}
	if len(info.Deps) == 0 || len(document.Packages) != len(info.Deps)+2 || len(names) != len(document.Packages) || len(document.Relationships) != len(document.Packages) {
		t.Errorf("the document has %d packages and %d relationships; the program has %d modules", len(document.Packages), len(document.Relationships), len(info.Deps))
	}
	for _, m := range info.Deps {
		if names[m.Path] != m.Version {
			t.Errorf("module %s has version %q, want %s", m.Path, names[m.Path], m.Version)
		}
	}
	replaced := linkedModules(&debug.BuildInfo{Deps: []*debug.Module{{Path: "a", Version: "v1.0.0", Replace: &debug.Module{Path: "b", Version: "v2.0.0"}}}})
	if len(replaced) != 1 || replaced[0].Path != "b" {
		t.Errorf("the linked modules are %+v, want the replacement", replaced)
	}
	if _, err := describeProgram("image_test.go", "v1.2.3"); err == nil {
		t.Error("a file without modules has a bill of materials")
	}
}

// checkImage reads the files of an image, and how the image starts.
func checkImage(t *testing.T, image v1.Image) {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Config.User != "65532:65532" || !slices.Equal(config.Config.Entrypoint, []string{entrypoint}) || config.Config.Labels["org.opencontainers.image.version"] != "v1.2.3" {
		t.Errorf("the configuration is %+v", config.Config)
	}
	modes := map[string]int64{}
	readFiles(t, mutate.Extract(image), func(header *tar.Header, content []byte) {
		modes["/"+strings.TrimSuffix(header.Name, "/")] = header.Mode
		if header.Uid != 0 || !header.ModTime.IsZero() && header.ModTime.Unix() != 0 {
			t.Errorf("%s belongs to %d and has time %s", header.Name, header.Uid, header.ModTime)
		}
		if "/"+header.Name == certificatesFile {
			checkCertificates(t, content)
		}
	})
	for name, mode := range map[string]int64{entrypoint: 0o555, certificatesFile: 0o644, "/etc/passwd": 0o644, "/tmp": 0o1777} {
		if got, found := modes[name]; !found || got != mode {
			t.Errorf("%s has mode %o, found %t, want %o", name, got, found, mode)
		}
	}
}

func checkCertificates(t *testing.T, content []byte) {
	t.Helper()
	if pool := x509.NewCertPool(); !pool.AppendCertsFromPEM(content) || bytes.Count(content, []byte("BEGIN CERTIFICATE")) < 50 {
		t.Errorf("the %d bytes of certificates cannot be used", len(content))
	}
}

// readFiles reads an archive to its end.
func readFiles(t *testing.T, archive io.ReadCloser, use func(header *tar.Header, content []byte)) {
	t.Helper()
	defer func() { _ = archive.Close() }()
	for r := tar.NewReader(archive); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		use(header, content)
	}
}

func unpack(t *testing.T, archive, directory string) {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	readFiles(t, f, func(header *tar.Header, content []byte) {
		path := filepath.Join(directory, header.Name) //nolint:gosec // of the test's own archive
		if header.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, 0o755)
		} else {
			err = errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content, 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
	})
}
