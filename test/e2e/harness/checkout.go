// Copyright Contributors to the Open Cluster Management project

package harness

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Checkout is a directory with the chart and the built program of a revision of this repository.
type Checkout struct{ dir string }

// BuildRevision writes the files of a git revision of this repository into a directory, and builds bin/knative-addon there.
func BuildRevision(ctx context.Context, revision, dir string) (*Checkout, error) {
	root, err := Repository()
	if err != nil {
		return nil, err
	}
	if err := requireRevision(ctx, root, revision); err != nil {
		return nil, err
	}
	files := filepath.Join(dir, "files.tar")
	for _, command := range []struct {
		in   string
		args []string
	}{
		{root, []string{"git", "archive", "--format=tar", "--output=" + files, revision}},
		{dir, []string{"tar", "-xf", files}},
		{dir, []string{"go", "run", "./pkg/render/releases/generate"}},
		{dir, []string{"go", "build", "-buildvcs=false", "-ldflags", "-X main.version=" + revision, "-o", "bin/knative-addon", "./cmd/knative-addon"}},
	} {
		if err := runIn(ctx, command.in, command.args...); err != nil {
			return nil, fmt.Errorf("cannot build revision %s: %w", revision, err)
		}
	}
	return &Checkout{dir: dir}, os.Remove(files)
}

// requireRevision returns an error of one line unless the history of the repository has the commit.
func requireRevision(ctx context.Context, root, revision string) error {
	if runIn(ctx, root, "git", "cat-file", "-e", revision+"^{commit}") == nil {
		return nil
	}
	return fmt.Errorf("the git history of %s has no commit %s, which this test builds: the history is shallow or missing, run `git fetch --unshallow`", root, revision)
}

func (c *Checkout) binary() string { return filepath.Join(c.dir, "bin", "knative-addon") }

func (c *Checkout) chart() string { return filepath.Join(c.dir, "charts", "knative-addon") }

// runIn runs a program in a directory.
func runIn(ctx context.Context, dir string, args ...string) error {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...) //nolint:gosec // programs of this file
	cmd.Dir = dir
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", args[0], err, bytes.TrimSpace(out.Bytes()))
	}
	return nil
}

// Upgrade installs the CustomResourceDefinitions and the chart of this checkout, and replaces the running manager by the manager of this
// checkout, with further arguments.
func (f *Fleet) Upgrade(ctx context.Context, args ...string) error {
	root, err := Repository()
	if err != nil {
		return err
	}
	f.useCheckout(&Checkout{dir: root})
	if _, err := f.Command(ctx, "kubectl", "apply", "--server-side", "--force-conflicts", "--filename", filepath.Join(f.chart, "crds")); err != nil {
		return err
	}
	return f.replaceRelease(ctx, args...)
}

// Downgrade replaces the chart and the manager by those of the checkout. The CustomResourceDefinitions stay.
func (f *Fleet) Downgrade(ctx context.Context, c *Checkout) error {
	f.useCheckout(c)
	return f.replaceRelease(ctx)
}

// replaceRelease installs the chart over the installed chart, and runs a manager in place of the manager that runs.
func (f *Fleet) replaceRelease(ctx context.Context, args ...string) error {
	if _, err := f.Command(ctx, "helm", f.helmArgs...); err != nil {
		return err
	}
	if err := f.Kill(Manager); err != nil {
		return err
	}
	return f.RunManager(ctx, Manager, args...)
}

// useCheckout makes the fleet install the chart and run the program of the checkout.
func (f *Fleet) useCheckout(c *Checkout) {
	f.Binary, f.chart = c.binary(), c.chart()
	f.helmArgs[chartArg] = f.chart
}
