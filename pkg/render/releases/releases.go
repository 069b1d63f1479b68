// Copyright Contributors to the Open Cluster Management project

package releases

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

const (
	// Module is the Go module that the manifests come from.
	Module = "knative.dev/operator"
	// Subdirectory is where the manifests are inside Module.
	Subdirectory = "cmd/operator/kodata"
	// ArchivePath is the archive's path below this package.
	ArchivePath = "archive/kodata.tar.gz"
	// SumPath is the path, below this package, of the committed sum.
	SumPath = "releases.sum"
)

// ErrMissing means that the program was built without the archive.
var ErrMissing = errors.New("the program was built without the Knative release manifests: run \"make releases\" and " +
	"build again, or set KO_DATA_PATH to a directory that holds them")

//go:embed all:archive
var embedded embed.FS

//go:embed releases.sum
var committed string

// Sum identifies the content of an archive.
type Sum struct {
	// Version is the version of Module that the archive was made from.
	Version string
	// SHA256 is the hex SHA-256 of the uncompressed tar stream.
	SHA256 string
}

// String returns the line of releases.sum.
func (s Sum) String() string { return fmt.Sprintf("%s %s sha256:%s\n", Module, s.Version, s.SHA256) }

// ParseSum reads the line that releases.sum holds.
func ParseSum(line string) (Sum, error) {
	f := strings.Fields(line)
	if len(f) != 3 || f[0] != Module || !strings.HasPrefix(f[2], "sha256:") {
		return Sum{}, fmt.Errorf("cannot read sum %q: want \"%s <version> sha256:<hex>\"", strings.TrimSpace(line), Module)
	}
	return Sum{Version: f[1], SHA256: strings.TrimPrefix(f[2], "sha256:")}, nil
}

// Committed returns the sum in releases.sum.
func Committed() (Sum, error) { return ParseSum(committed) }

// Unpack verifies the archive against the committed sum and writes the manifests below dir, which must exist and be empty.
// Callers must not use dir after an error: the sum is known only at the end.
func Unpack(dir string) (Sum, error) {
	want, err := Committed()
	if err != nil {
		return Sum{}, err
	}
	return want, unpackVerified(embedded, want, dir)
}

func unpackVerified(fsys fs.FS, want Sum, dir string) error {
	f, err := fsys.Open(ArchivePath)
	if errors.Is(err, fs.ErrNotExist) {
		return ErrMissing
	}
	if err != nil {
		return fmt.Errorf("cannot open archive %q: %w", ArchivePath, err)
	}
	defer f.Close() //nolint:errcheck // only read
	got, err := extractFiles(f, dir)
	if err != nil {
		return fmt.Errorf("cannot unpack archive %q: %w", ArchivePath, err)
	}
	if got != want.SHA256 {
		return fmt.Errorf("cannot verify archive %q: its SHA-256 is %s, releases.sum has %s (%s %s)",
			ArchivePath, got, want.SHA256, Module, want.Version)
	}
	return nil
}
