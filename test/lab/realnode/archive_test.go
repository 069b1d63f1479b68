// Copyright Contributors to the Open Cluster Management project

package realnode

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// TestArchiveIsConsistent reads an archive as containerd does: the digest of the configuration is the one of the layer.
func TestArchiveIsConsistent(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("content"), 0o700); err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	err := writeArchive(&archive, image{name: "lab.local/program:v1", user: "65532", entrypoint: "/program", files: []file{
		{path: "/program", from: program}, {path: "/bin/sh", link: "/program"}, {path: "/tmp/"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	files := untar(t, archive.Bytes())
	var manifest []struct {
		Config           string
		RepoTags, Layers []string
	}
	var config struct {
		Config struct{ User string }
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		}
	}
	if err := errors.Join(json.Unmarshal(files["manifest.json"], &manifest), json.Unmarshal(files["config.json"], &config)); err != nil {
		t.Fatal(err)
	}
	layer := files[manifest[0].Layers[0]]
	sum := sha256.Sum256(layer)
	if got, want := config.RootFS.DiffIDs[0], "sha256:"+hex.EncodeToString(sum[:]); got != want {
		t.Errorf("the configuration has layer %s, the archive has %s", got, want)
	}
	if config.Config.User != "65532" || manifest[0].RepoTags[0] != "lab.local/program:v1" {
		t.Errorf("the user is %q, the name %q", config.Config.User, manifest[0].RepoTags[0])
	}
	content := untar(t, layer)
	if _, hasLink := content["bin/sh"]; string(content["program"]) != "content" || !hasLink {
		t.Errorf("the layer has %q", content)
	}
}

func untar(t *testing.T, archive []byte) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if out[header.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}
