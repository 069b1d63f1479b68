// Copyright Contributors to the Open Cluster Management project

package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/lab"
)

func profileResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "multicluster.x-k8s.io", Version: "v1alpha1", Resource: "clusterprofiles"}
}

const (
	plugin = "secretreader"
	// version is what both install: the newest that both have.
	version = "1.23"
)

// publish makes a ClusterProfile of a cluster, and the Secret that the plugin reads.
func (s *side) publish(ctx context.Context, c *lab.Cluster) error {
	_, err := s.kube.CoreV1().Secrets("default").Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: c.Name}, Data: map[string][]byte{"token": []byte(c.Credential.Token)},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("cannot create the Secret of %s: %w", c.Name, err)
	}
	profiles := s.dynamic.Resource(profileResource()).Namespace(fleetNamespace)
	_, err = profiles.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ClusterProfile", "metadata": map[string]any{"name": c.Name},
		"spec": map[string]any{"displayName": c.Name, "clusterManager": map[string]any{"name": "by-hand"}},
	}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("cannot create the ClusterProfile of %s: %w", c.Name, err)
	}
	status, err := json.Marshal(map[string]any{"status": map[string]any{
		"conditions": []any{map[string]any{
			"type": "ControlPlaneHealthy", "status": "True", "reason": "Seen", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
		}},
		"accessProviders": []any{map[string]any{"name": plugin, "cluster": map[string]any{
			"server": c.Credential.Server, "certificate-authority-data": base64.StdEncoding.EncodeToString(c.Credential.CA),
			"extensions": []any{map[string]any{
				"name": "client.authentication.k8s.io/exec", "extension": map[string]any{"clusterName": c.Name},
			}},
		}}},
	}})
	if err != nil {
		return err
	}
	if _, err := profiles.Patch(ctx, c.Name, types.MergePatchType, status, metav1.PatchOptions{}, "status"); err != nil {
		return fmt.Errorf("cannot set the status of the ClusterProfile of %s: %w", c.Name, err)
	}
	return nil
}

// apply creates the resource of a component for a cluster.
func (s *side) apply(ctx context.Context, component api.Component, c *lab.Cluster) error {
	spec := map[string]any{"version": version, "clusterProfileRef": map[string]any{"namespace": fleetNamespace, "name": c.Name}}
	if component == api.Serving {
		spec["ingress"] = map[string]any{"kourier": map[string]any{"enabled": true}}
		spec["config"] = map[string]any{"network": map[string]any{"ingress-class": "kourier.ingress.networking.knative.dev"}}
	}
	_, err := s.resources(component).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": api.Group + "/v1beta1", "kind": component.Kind(), "metadata": map[string]any{"name": c.Name}, "spec": spec,
	}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("cannot create the %s of %s: %w", component.Kind(), c.Name, err)
	}
	return nil
}

func (s *side) resources(component api.Component) dynamic.ResourceInterface {
	return s.dynamic.Resource(component.Resource()).Namespace(s.namespace(component))
}

// isReady tells whether a resource is Ready, and what it says.
func (s *side) isReady(ctx context.Context, component api.Component, name string) (ready bool, says string, err error) {
	u, err := s.resources(component).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return false, "", fmt.Errorf("cannot read the %s %q: %w", component.Kind(), name, err)
	}
	conditions, _, err := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, o := range conditions {
		if c, ok := o.(map[string]any); ok {
			if c["type"] == api.Ready && c["status"] == "True" {
				ready = true
			}
			says += fmt.Sprintf("%v=%v (%v: %v) ", c["type"], c["status"], c["reason"], c["message"])
		}
	}
	return ready, says, err
}

// becomes waits until all resources are Ready, or not, and tells how long that took.
func (s *side) becomes(ctx context.Context, want bool, component api.Component, names ...string) (time.Duration, error) {
	said := time.Now()
	return until(ctx, func(ctx context.Context) error {
		if time.Since(said) > heartbeat {
			progress("waiting for Ready=%t of %d, among them %s", want, len(names), names[0])
			said = time.Now()
		}
		for len(names) > 0 {
			name := names[0]
			ready, says, err := s.isReady(ctx, component, name)
			if err != nil {
				return err
			}
			if ready != want {
				return fmt.Errorf("%s: Ready of %s %q should be %t: %s", s.name, component.Kind(), name, want, says)
			}
			names = names[1:]
		}
		return nil
	})
}

// copyCRD applies a CRD of one cluster to another.
func copyCRD(ctx context.Context, from dynamic.Interface, to *lab.Cluster, name string) error {
	crds := from.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	crd, err := crds.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("cannot read the CRD %q: %w", name, err)
	}
	clean := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": crd.GetAPIVersion(), "kind": crd.GetKind(), "spec": crd.Object["spec"],
	}}
	clean.SetName(name)
	clean.SetAnnotations(crd.GetAnnotations())
	stream, err := json.Marshal(clean)
	if err != nil {
		return err
	}
	return to.Apply(ctx, stream)
}

// heartbeat is how often a long wait says what it waits for.
const heartbeat = 20 * time.Second

// poll is how often a state is looked at: the error of every time.
const poll = 20 * time.Millisecond

// until polls until done returns nil, and tells how long that took.
func until(ctx context.Context, done func(context.Context) error) (time.Duration, error) {
	start := time.Now()
	for {
		err := done(ctx)
		if err == nil {
			return time.Since(start), nil
		}
		if pause(ctx, poll) != nil {
			return time.Since(start), fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
}
