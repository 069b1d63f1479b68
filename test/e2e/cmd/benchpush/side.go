// Copyright Contributors to the Open Cluster Management project

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/trust"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
	"open-cluster-management.io/knative-addon/test/lab/tools"
)

// side is one of the two that are compared: a manager and its hub.
type side struct {
	name string
	lab  *lab.Lab
	hub  *lab.Cluster
	// component is the manager among the lab's components.
	component string
	// namespace is where the resources of a component have to be.
	namespace func(api.Component) string
	dynamic   dynamic.Interface
	kube      kubernetes.Interface
}

// fleetNamespace has the ClusterProfiles.
const fleetNamespace = "fleet"

// settle is how long a manager is left alone after its start and after its work, so that nothing is under way.
const settle = 5 * time.Second

// startOurs installs the chart on the lab's hub and runs the manager under the chart's own ServiceAccount.
func startOurs(ctx context.Context, l *lab.Lab) (*side, error) {
	s := &side{
		name: "ours", lab: l, hub: l.Hub, component: harness.Manager,
		namespace: func(api.Component) string { return fleetNamespace },
	}
	providers, err := s.provider()
	if err != nil {
		return nil, err
	}
	inventories, err := s.inventory()
	if err != nil {
		return nil, err
	}
	if _, err := harness.Install(ctx, l, harness.Options{
		Manager: []string{"--clusterprofile-provider-file=" + providers, "--inventory-file=" + inventories},
	}); err != nil {
		return nil, err
	}
	return s, s.prepare(ctx, fleetNamespace)
}

// startTheirs runs the Knative Operator as administrator of a hub of its own, which needs no more than an API server.
func startTheirs(ctx context.Context, l *lab.Lab) (*side, error) {
	operator, err := harness.BuildKnativeOperator(ctx)
	if err != nil {
		return nil, err
	}
	hubs, err := l.AddLightSpokes(ctx, 1)
	if err != nil {
		return nil, err
	}
	s := &side{name: "the Knative Operator", lab: l, hub: hubs[0], component: tools.KnativeOperator, namespace: api.Component.InstallNamespace}
	if err := operator.Apply(ctx, s.hub); err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(l.Hub.Config)
	if err != nil {
		return nil, err
	}
	if err := copyCRD(ctx, client, s.hub, profileResource().GroupResource().String()); err != nil {
		return nil, err
	}
	if err := s.prepare(ctx, fleetNamespace, api.Serving.InstallNamespace(), api.Eventing.InstallNamespace()); err != nil {
		return nil, err
	}
	providers, err := s.provider()
	if err != nil {
		return nil, err
	}
	return s, operator.Run(ctx, l, s.hub, providers)
}

// provider writes the file of access providers: cluster-inventory-api's plugin that reads a token from a Secret.
func (s *side) provider() (string, error) {
	data, err := json.Marshal(map[string]any{"providers": []any{map[string]any{"name": plugin, "execConfig": map[string]any{
		"apiVersion": "client.authentication.k8s.io/v1", "command": s.lab.Bin.Path(plugin), "provideClusterInfo": true,
		"env": []any{map[string]any{"name": "KUBECONFIG", "value": s.hub.Kubeconfig}},
	}}}})
	if err != nil {
		return "", err
	}
	file := filepath.Join(s.lab.Dir, s.hub.Name+"-providers.json")
	return file, os.WriteFile(file, data, 0o600)
}

// inventory writes the file of inventories: the namespace of the ClusterProfiles with all clusters of the lab.
func (s *side) inventory() (string, error) {
	data, err := json.Marshal(map[string]any{"inventories": []trust.Inventory{{
		Namespace: fleetNamespace, SecretNamespace: "default", Providers: []string{plugin}, Servers: []string{"127.0.0.0/8"}, Secrets: []string{trust.Everything},
	}}})
	if err != nil {
		return "", err
	}
	file := filepath.Join(s.lab.Dir, s.hub.Name+"-inventories.json")
	return file, os.WriteFile(file, data, 0o600)
}

// prepare makes namespaces and the clients of the hub.
func (s *side) prepare(ctx context.Context, namespaces ...string) error {
	for _, n := range namespaces {
		if err := s.hub.Apply(ctx, fmt.Appendf(nil, "apiVersion: v1\nkind: Namespace\nmetadata: {name: %s}\n", n)); err != nil {
			return err
		}
	}
	var err error
	if s.dynamic, err = dynamic.NewForConfig(s.hub.Config); err != nil {
		return err
	}
	s.kube, err = kubernetes.NewForConfig(s.hub.Config)
	return err
}

// end closes a lab. When something has failed it keeps the logs.
func end(l *lab.Lab, failed error) error {
	if failed != nil {
		failed = errors.Join(failed, keepLogs(l))
	}
	return errors.Join(failed, l.Close())
}

// keepLogs keeps the logs of a lab, and says where.
func keepLogs(l *lab.Lab) error {
	dir, err := l.KeepLogs()
	if err == nil {
		progress("the logs of the lab's components are in %s", dir)
	}
	return err
}

// pause waits, unless ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
