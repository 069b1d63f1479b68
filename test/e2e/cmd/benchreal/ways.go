// Copyright Contributors to the Open Cluster Management project

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
)

// byAddOn installs with the add-on.
type byAddOn struct{ *bench }

func (a *byAddOn) name() string { return "the add-on" }

func (a *byAddOn) install(ctx context.Context, version string) error {
	patch, err := json.Marshal(map[string]any{"spec": harness.SmallServing(version)})
	if err != nil {
		return err
	}
	servings := a.hub.Resource(api.Serving.Resource()).Namespace(harness.Namespace)
	if _, err := servings.Patch(ctx, "default", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return err
	}
	_, err = a.AddOns.AddonV1beta1().ManagedClusterAddOns(a.cluster.Name).Get(ctx, api.Serving.AddOnName(), metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		return err
	}
	return a.Enable(ctx, []string{api.Serving.AddOnName()}, []string{a.cluster.Name})
}

func (a *byAddOn) remove(ctx context.Context) error {
	if err := a.Disable(ctx, []string{api.Serving.AddOnName()}, []string{a.cluster.Name}); err != nil {
		return err
	}
	err := await(ctx, "the end of the add-on", func(ctx context.Context) error {
		_, err := a.AddOns.AddonV1beta1().ManagedClusterAddOns(a.cluster.Name).Get(ctx, api.Serving.AddOnName(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("the add-on exists"), err)
	})
	if err != nil {
		return err
	}
	return (&byKubectl{a.bench}).remove(ctx) // the CRDs stay without this, and the other way would find the CRDs
}

// byKubectl applies the manifests that the add-on renders, as a user does without the add-on.
type byKubectl struct{ *bench }

func (k *byKubectl) name() string { return "kubectl" }

// manifests writes what the add-on renders for a version, and returns the file.
func (k *byKubectl) manifests(ctx context.Context, version string) (string, error) {
	serving, err := json.Marshal(map[string]any{
		"apiVersion": api.Group + "/v1beta1", "kind": api.Serving.Kind(),
		"metadata": map[string]any{"name": "default", "namespace": harness.Namespace}, "spec": harness.SmallServing(version),
	})
	if err != nil {
		return "", err
	}
	spec, rendered := filepath.Join(k.Dir, "serving.json"), filepath.Join(k.Dir, "rendered.yaml")
	if err := os.WriteFile(spec, serving, 0o600); err != nil {
		return "", err
	}
	out, err := exec.CommandContext(ctx, k.Binary, "render", "--mode=Direct", "--filename", spec).Output() //nolint:gosec // our own program
	if err != nil {
		return "", fmt.Errorf("cannot render Serving %s: %w", version, err)
	}
	return rendered, os.WriteFile(rendered, out, 0o600)
}

// install applies the manifests until kubectl succeeds: the first time, kubectl does not know the kinds of the CRDs that it applies.
func (k *byKubectl) install(ctx context.Context, version string) error {
	file, err := k.manifests(ctx, version)
	if err != nil {
		return err
	}
	return await(ctx, "kubectl apply", func(ctx context.Context) error {
		return k.kubectl(ctx, "apply", "--server-side", "--force-conflicts", "--filename", file)
	})
}

func (k *byKubectl) remove(ctx context.Context) error {
	file, err := k.manifests(ctx, lastVersion)
	if err != nil {
		return err
	}
	return await(ctx, "kubectl delete", func(ctx context.Context) error {
		return k.kubectl(ctx, "delete", "--ignore-not-found", "--filename", file)
	})
}

func (k *byKubectl) kubectl(ctx context.Context, args ...string) error {
	_, err := k.Command(ctx, "kubectl", append([]string{"--kubeconfig", k.cluster.Kubeconfig}, args...)...)
	return err
}
