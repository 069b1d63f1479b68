// Copyright Contributors to the Open Cluster Management project

// Command generate writes the CustomResourceDefinitions of KnativeServing and KnativeEventing into the chart.
//
// Their schema comes from the Go types of module knative.dev/operator, by controller-gen as pinned in go.tools.mod.
// What a hub needs beyond that is added here; function amend lists it.
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
	defer os.RemoveAll(upstream) //nolint:errcheck // a directory below the system's temporary one
	if err := controllerGen(ctx, root, upstream); err != nil {
		return err
	}
	for _, resource := range []string{"knativeservings", "knativeeventings"} {
		name := "operator.knative.dev_" + resource + ".yaml"
		if err := convert(filepath.Join(upstream, name), filepath.Join(root, target, name)); err != nil {
			return fmt.Errorf("cannot convert %s: %w", name, err)
		}
	}
	return nil
}

// controllerGen runs it with the options of the Knative Operator.
func controllerGen(ctx context.Context, root, out string) error {
	_, err := output(ctx, root, "go", "tool", "-modfile=go.tools.mod", "controller-gen",
		"crd:allowDangerousTypes=true,ignoreUnexportedFields=true", "paths="+types, "output:crd:dir="+out)
	return err
}

func convert(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	var crd map[string]any
	if err := yaml.Unmarshal(data, &crd); err != nil {
		return err
	}
	if err := amend(crd); err != nil {
		return err
	}
	if data, err = yaml.Marshal(crd); err != nil {
		return err
	}
	return os.WriteFile(to, append([]byte(header), data...), 0o644)
}

func moduleRoot(ctx context.Context) (string, error) {
	out, err := output(ctx, "", "go", "list", "-m", "-f", "{{.Dir}}")
	return string(bytes.TrimSpace(out)), err
}

func output(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil, fmt.Errorf("cannot run %q: %w: %s", cmd.String(), err, bytes.TrimSpace(exit.Stderr))
	}
	return out, err
}
