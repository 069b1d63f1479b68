// Copyright Contributors to the Open Cluster Management project

// Command generate makes the archive of Knative release manifests from the module that go.mod pins.
//
// The command does nothing when the archive matches releases.sum, and fails when the module's manifests differ from
// releases.sum. With -update the command writes releases.sum instead, which a change of the pin needs.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"open-cluster-management.io/knative-addon/pkg/render/releases"
)

const packagePath = "open-cluster-management.io/knative-addon/pkg/render/releases"

func main() {
	update := flag.Bool("update", false, "write releases.sum from the pinned module instead of comparing with it")
	flag.Parse()
	if err := run(context.Background(), *update); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, update bool) error {
	dir, err := packageDir(ctx)
	if err != nil {
		return err
	}
	version, err := goList(ctx, "-m", "-f", "{{.Version}}", releases.Module)
	if err != nil {
		return err
	}
	want, err := readSum(filepath.Join(dir, releases.SumPath))
	if err != nil && !update {
		return err
	}
	if !update && want.Version != version {
		return fmt.Errorf("go.mod pins %s %s, %s is for %s: run with -update and review what changed",
			releases.Module, version, releases.SumPath, want.Version)
	}
	archive := filepath.Join(dir, filepath.FromSlash(releases.ArchivePath))
	if !update && isUpToDate(archive, want) {
		return nil
	}
	data, sum, err := packModule(ctx, version)
	if err != nil {
		return err
	}
	if update {
		if err := os.WriteFile(filepath.Join(dir, releases.SumPath), []byte(sum.String()), 0o644); err != nil {
			return err
		}
	} else if sum != want {
		return fmt.Errorf("the manifests of %s %s have SHA-256 %s, %s has %s",
			releases.Module, version, sum.SHA256, releases.SumPath, want.SHA256)
	}
	return replaceFile(archive, data)
}

// packageDir returns the directory of package releases.
func packageDir(ctx context.Context) (string, error) {
	return goList(ctx, "-f", "{{.Dir}}", packagePath)
}

func readSum(path string) (releases.Sum, error) {
	line, err := os.ReadFile(path)
	if err != nil {
		return releases.Sum{}, err
	}
	return releases.ParseSum(string(line))
}

func isUpToDate(archive string, want releases.Sum) bool {
	f, err := os.Open(archive)
	if err != nil {
		return false
	}
	defer f.Close() //nolint:errcheck // only read
	sum, err := releases.ReadSum(f)
	return err == nil && sum == want.SHA256
}

func packModule(ctx context.Context, version string) ([]byte, releases.Sum, error) {
	module, err := moduleDir(ctx, version)
	if err != nil {
		return nil, releases.Sum{}, err
	}
	var buf bytes.Buffer
	sum, err := releases.Pack(&buf, os.DirFS(filepath.Join(module, filepath.FromSlash(releases.Subdirectory))))
	return buf.Bytes(), releases.Sum{Version: version, SHA256: sum}, err
}

// moduleDir returns the directory of the module's files after downloading missing files.
func moduleDir(ctx context.Context, version string) (string, error) {
	out, err := runGo(ctx, "mod", "download", "-json", releases.Module+"@"+version)
	if err != nil {
		return "", err
	}
	var m struct{ Dir string }
	if err := json.Unmarshal(out, &m); err != nil {
		return "", fmt.Errorf("cannot read what go mod download says: %w", err)
	}
	if m.Dir == "" {
		return "", fmt.Errorf("cannot find module %s %s: %w", releases.Module, version, fs.ErrNotExist)
	}
	return m.Dir, nil
}

// replaceFile writes path in one step, so that no reader and no interrupted run sees half an archive.
func replaceFile(path string, data []byte) error {
	tmp := path + ".new"
	if err := os.WriteFile(tmp, data, 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

func goList(ctx context.Context, args ...string) (string, error) {
	out, err := runGo(ctx, append([]string{"list"}, args...)...)
	return string(bytes.TrimSpace(out)), err
}

// runGo returns the output of the go command.
func runGo(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil, fmt.Errorf("cannot run %q: %w: %s", cmd.String(), err, bytes.TrimSpace(exit.Stderr))
	}
	return out, err
}
