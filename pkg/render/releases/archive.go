// Copyright Contributors to the Open Cluster Management project

package releases

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

const (
	maxFiles = 4096
	maxBytes = 256 << 20
)

// Pack writes every *.yaml file of root to w as a compressed tar archive and returns the hex SHA-256 of the
// uncompressed stream. Neither times, owners nor modes of the files get into the archive, and their order is fixed.
func Pack(w io.Writer, root fs.FS) (string, error) {
	gz, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	tw := tar.NewWriter(io.MultiWriter(gz, hash))
	files := 0
	err = fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(name) != ".yaml" {
			return err
		}
		files++
		return addFile(tw, root, name)
	})
	if err != nil {
		return "", fmt.Errorf("cannot pack release manifests: %w", err)
	}
	if files == 0 {
		return "", errors.New("cannot pack release manifests: there is no *.yaml file")
	}
	if err := errors.Join(tw.Close(), gz.Close()); err != nil {
		return "", fmt.Errorf("cannot pack release manifests: %w", err)
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

func addFile(tw *tar.Writer, root fs.FS, name string) error {
	data, err := fs.ReadFile(root, name)
	if err != nil {
		return err
	}
	h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(data)), Format: tar.FormatUSTAR}
	if err := tw.WriteHeader(h); err != nil {
		return err
	}
	_, err = tw.Write(data)
	return err
}

// ReadSum returns the hex SHA-256 of the uncompressed tar stream of the archive in r.
func ReadSum(r io.Reader) (string, error) {
	gz, err := gzip.NewReader(r)
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, io.LimitReader(gz, maxBytes)); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// extractFiles writes the files of the archive in r below dir and returns the SHA-256 of the uncompressed stream.
func extractFiles(r io.Reader, dir string) (string, error) {
	gz, err := gzip.NewReader(r)
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	stream := io.TeeReader(io.LimitReader(gz, maxBytes), hash)
	tr := tar.NewReader(stream)
	for files := 0; ; files++ {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return "", err
		}
		if files >= maxFiles {
			return "", fmt.Errorf("it has more than %d files", maxFiles)
		}
		if err := writeFile(dir, h, tr); err != nil {
			return "", err
		}
	}
	// The padding after the last entry belongs to the stream that was summed.
	if _, err := io.Copy(io.Discard, stream); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

func writeFile(dir string, h *tar.Header, r io.Reader) error {
	name := filepath.FromSlash(h.Name)
	if h.Typeflag != tar.TypeReg || !filepath.IsLocal(name) {
		return fmt.Errorf("entry %q is not a plain file below the archive's root", h.Name)
	}
	target := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close())
}
