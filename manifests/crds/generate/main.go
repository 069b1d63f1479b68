// Copyright Contributors to the Open Cluster Management project

// Command generate writes the CustomResourceDefinitions of KnativeServing, KnativeEventing and KnativeFleet into the chart, and the
// deep copies of KnativeFleet into its package.
//
// controller-gen, as pinned in go.tools.mod, derives the schemas from the Go types of module knative.dev/operator and of
// pkg/api/fleet/v1alpha1. amendCRD lists the additions to the former for a hub.
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

	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
)

const (
	types      = "knative.dev/operator/pkg/apis/operator/v1beta1"
	fleetTypes = "./pkg/api/fleet/v1alpha1"
	target     = "charts/knative-addon/crds"
)

// header starts with a separator because `helm show crds` puts none between files.
const header = `---
# Copyright Contributors to the Open Cluster Management project
#
# Generated from the Go types of knative.dev/operator: change manifests/crds/generate and run "make generate".
`

const fleetHeader = `---
# Copyright Contributors to the Open Cluster Management project
#
# Generated from pkg/api/fleet/v1alpha1: change the Go types and run "make generate".
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
	if err := controllerGen(ctx, root, types, upstream); err != nil {
		return err
	}
	if err := controllerGen(ctx, root, fleetTypes, upstream); err != nil {
		return err
	}
	if _, err := runCommand(ctx, root, "go", "tool", "-modfile=go.tools.mod", "controller-gen", "object", "paths="+fleetTypes); err != nil {
		return err
	}
	const fleets = fleetv1alpha1.Group + "_knativefleets.yaml"
	fleetCRD, err := readCRD(filepath.Join(upstream, fleets))
	if err != nil {
		return err
	}
	rollout, err := rolloutSchema(fleetCRD)
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", fleets, err)
	}
	amendWithRollout := func(crd map[string]any) error { return amendCRD(crd, rollout) }
	for _, resource := range []string{"knativeservings", "knativeeventings"} {
		name := "operator.knative.dev_" + resource + ".yaml"
		if err := convertCRD(filepath.Join(upstream, name), filepath.Join(root, target, name), header, amendWithRollout); err != nil {
			return fmt.Errorf("cannot convert %s: %w", name, err)
		}
	}
	if err := convertCRD(filepath.Join(upstream, fleets), filepath.Join(root, target, fleets), fleetHeader, amendFleetCRD); err != nil {
		return fmt.Errorf("cannot convert %s: %w", fleets, err)
	}
	return nil
}

// controllerGen runs controller-gen with the options of the Knative Operator.
func controllerGen(ctx context.Context, root, types, out string) error {
	_, err := runCommand(ctx, root, "go", "tool", "-modfile=go.tools.mod", "controller-gen",
		"crd:allowDangerousTypes=true,ignoreUnexportedFields=true", "paths="+types, "output:crd:dir="+out)
	return err
}

func readCRD(file string) (map[string]any, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var crd map[string]any
	return crd, yaml.Unmarshal(data, &crd)
}

func convertCRD(from, to, header string, amend func(map[string]any) error) error {
	crd, err := readCRD(from)
	if err != nil {
		return err
	}
	if err := amend(crd); err != nil {
		return err
	}
	data, err := yaml.Marshal(crd)
	if err != nil {
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
