// Copyright Contributors to the Open Cluster Management project

// Command generate writes the CustomResourceDefinitions of KnativeServing and KnativeEventing into the chart.
//
// controller-gen, as pinned in go.tools.mod, derives the schema from the Go types of module knative.dev/operator. amendCRD lists
// the additions for a hub.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

const (
	types  = "knative.dev/operator/pkg/apis/operator/v1beta1"
	target = "charts/knative-addon/crds"
)

// header starts with a separator because `helm show crds` puts none between files.
const header = `---
# Copyright Contributors to the Open Cluster Management project
#
# Generated from the Go types of knative.dev/operator: change manifests/crds/generate and run "make generate".
`

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}
	upstream, err := os.MkdirTemp("", "crds")
	if err != nil {
		return err
	}
	defer os.RemoveAll(upstream) //nolint:errcheck // a directory below the system's temporary directory
	if err := controllerGen(ctx, root, upstream); err != nil {
		return err
	}
	for _, resource := range []string{"knativeservings", "knativeeventings"} {
		name := "operator.knative.dev_" + resource + ".yaml"
		if err := convertCRD(filepath.Join(upstream, name), filepath.Join(root, target, name)); err != nil {
			return fmt.Errorf("cannot convert %s: %w", name, err)
		}
	}
	return nil
}

// controllerGen runs controller-gen with the options of the Knative Operator.
func controllerGen(ctx context.Context, root, out string) error {
	_, err := runCommand(ctx, root, "go", "tool", "-modfile=go.tools.mod", "controller-gen",
		"crd:allowDangerousTypes=true,ignoreUnexportedFields=true", "paths="+types, "output:crd:dir="+out)
	return err
}

func convertCRD(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	var crd map[string]any
	if err := yaml.Unmarshal(data, &crd); err != nil {
		return err
	}
	if err := amendCRD(crd); err != nil {
		return err
	}
	if data, err = yaml.Marshal(crd); err != nil {
		return err
	}
	return os.WriteFile(to, append([]byte(header), data...), 0o644)
}

func moduleRoot(ctx context.Context) (string, error) {
	out, err := runCommand(ctx, "", "go", "list", "-m", "-f", "{{.Dir}}")
	return string(bytes.TrimSpace(out)), err
}

func runCommand(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil, fmt.Errorf("cannot run %q: %w: %s", cmd.String(), err, bytes.TrimSpace(exit.Stderr))
	}
	return out, err
}
