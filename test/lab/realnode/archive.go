// Copyright Contributors to the Open Cluster Management project

package realnode

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"os"
	"runtime"
	"strings"
)

// file is an entry of an image: a program of the machine, a link or an empty directory that everybody may write.
type file struct {
	path string
	from string // a program of the machine
	link string // the target of a link
}

// image is what writeArchive makes an archive of.
type image struct {
	name       string
	user       string
	entrypoint string
	files      []file
}

// writeArchive writes an image as `docker save` does, so that containerd can import the image. The layer is written twice, once for
// its digest, so that no program has to fit into memory.
func writeArchive(out io.Writer, i image) error {
	digest := &countingHash{Hash: sha256.New()}
	if err := writeLayer(digest, i.files); err != nil {
		return err
	}
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"User": i.user, "Entrypoint": []string{i.entrypoint}, "Env": []string{"PATH=/usr/local/bin:/usr/bin:/bin"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(digest.Sum(nil))}},
	})
	if err != nil {
		return err
	}
	const configFile, layerFile = "config.json", "layer.tar"
	manifest, err := json.Marshal([]map[string]any{{"Config": configFile, "RepoTags": []string{i.name}, "Layers": []string{layerFile}}})
	if err != nil {
		return err
	}
	w := tar.NewWriter(out)
	for name, content := range map[string][]byte{configFile: config, "manifest.json": manifest} {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content))}); err != nil {
			return err
		}
		if _, err := w.Write(content); err != nil {
			return err
		}
	}
	if err := w.WriteHeader(&tar.Header{Name: layerFile, Mode: 0o644, Size: digest.size}); err != nil {
		return err
	}
	if err := writeLayer(w, i.files); err != nil {
		return err
	}
	return w.Close()
}

// countingHash is a hash that knows how many bytes it has.
type countingHash struct {
	hash.Hash

	size int64
}

func (c *countingHash) Write(p []byte) (int, error) {
	c.size += int64(len(p))
	return c.Hash.Write(p)
}

func writeLayer(out io.Writer, files []file) error {
	w := tar.NewWriter(out)
	for _, f := range files {
		if err := f.write(w); err != nil {
			return fmt.Errorf("cannot write %s of an image: %w", f.path, err)
		}
	}
	return w.Close()
}

func (f file) write(w *tar.Writer) error {
	header := &tar.Header{Name: strings.TrimPrefix(f.path, "/"), Mode: 0o755}
	switch {
	case f.link != "":
		header.Typeflag, header.Linkname = tar.TypeSymlink, f.link
		return w.WriteHeader(header)
	case f.from == "":
		header.Typeflag, header.Mode = tar.TypeDir, 0o1777
		return w.WriteHeader(header)
	}
	content, err := os.Open(f.from)
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }()
	info, err := content.Stat()
	if err != nil {
		return err
	}
	header.Size = info.Size()
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.Copy(w, content)
	return err
}
