// Copyright Contributors to the Open Cluster Management project

package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/e2e/harness/memoryspoke"
	"open-cluster-management.io/knative-addon/test/e2e/harness/played"
	"open-cluster-management.io/knative-addon/test/lab"
)

const (
	// plugin is the access provider of the clusters without a work agent.
	plugin = "secretreader"
	// mixedNamespace has the ClusterProfiles and the resources of a mixed fleet.
	mixedNamespace = "fleet"
)

// mixedFleet is a fleet of managed clusters and clusters without a work agent, each with a KnativeServing of its own.
type mixedFleet struct {
	*fleet

	kube   kubernetes.Interface
	spokes []*memoryspoke.Spoke
	// writes are those on the clusters without a work agent, resources the KnativeServings.
	writes    played.Watchers[memoryspoke.Write]
	resources played.Watchers[*unstructured.Unstructured]
}

// mixed measures an edit of a mixed fleet with and without a KnativeFleet, on a hub of its own.
func mixed(ctx context.Context, opts options) ([]row, error) {
	return measureMixedFleet(ctx, opts, (*mixedFleet).compareEdits)
}

// measureMixedFleet starts a mixed fleet on a hub of its own, measures the fleet, and ends the fleet.
func measureMixedFleet(
	ctx context.Context, opts options, measure func(m *mixedFleet, ctx context.Context) ([]row, error),
) (rows []row, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l, err := lab.New(ctx, lab.Options{AuditLog: true, Log: os.Stderr})
	if err != nil {
		return nil, err
	}
	m := &mixedFleet{fleet: &fleet{opts: opts}}
	defer func() {
		cancel() // the played agents end before the lab
		if m.Fleet == nil {
			err = errors.Join(err, l.Close())
		} else {
			err = m.end(err)
		}
		m.closeSpokes() // after the manager, which connects again
	}()
	if err := m.start(ctx, l); err != nil {
		return nil, err
	}
	rows, err = measure(m, ctx)
	return rows, errors.Join(err, m.agents.Err())
}

func (m *mixedFleet) start(ctx context.Context, l *lab.Lab) error {
	providers, inventories := filepath.Join(l.Dir, "providers.json"), filepath.Join(l.Dir, "inventories.json")
	err := errors.Join(harness.WriteProviders(providers, harness.Provider(l, plugin)), harness.WriteInventories(inventories, harness.LabInventory(mixedNamespace)))
	if err != nil {
		return err
	}
	port, err := l.Port()
	if err != nil {
		return err
	}
	m.profiles = fmt.Sprintf("http://127.0.0.1:%d/debug/pprof/", port)
	flags := []string{"--clusterprofile-provider-file=" + providers, "--inventory-file=" + inventories, fmt.Sprintf("--pprof-port=%d", port)}
	if m.opts.watched >= 0 {
		flags = append(flags, fmt.Sprintf("--watched-clusters=%d", m.opts.watched))
	}
	if m.Fleet, err = harness.Install(ctx, l, harness.Options{Manager: flags}); err != nil {
		return err
	}
	config := rest.CopyConfig(l.Hub.Config)
	config.QPS, config.Burst = managerQPS, managerBurst
	var errs [2]error
	m.configs, errs[0] = dynamic.NewForConfig(config)
	m.kube, errs[1] = kubernetes.NewForConfig(config)
	if err := errors.Join(errs[:]...); err != nil {
		return fmt.Errorf("cannot create the hub's clients: %w", err)
	}
	if err := l.Hub.Apply(ctx, fmt.Appendf(nil, "apiVersion: v1\nkind: Namespace\nmetadata: {name: %s}\n", mixedNamespace)); err != nil {
		return err
	}
	if _, err := m.Command(ctx, "clusteradm", "clusterset", "bind", "default", "--namespace", mixedNamespace); err != nil {
		return err
	}
	if m.agents, err = played.StartAgents(ctx, m.Works); err != nil {
		return err
	}
	if err := errors.Join(m.watchAddOns(ctx), m.watchResources(ctx)); err != nil {
		return err
	}
	return m.join(ctx)
}

// watchResources hands the KnativeServings of the fleet to the watchers.
func (m *mixedFleet) watchResources(ctx context.Context) error {
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(m.configs, 0, mixedNamespace, nil)
	changed := func(o any) {
		if u, ok := o.(*unstructured.Unstructured); ok {
			m.resources.NotifyWatchers(u)
		}
	}
	_, err := factory.ForResource(api.Serving.Resource()).Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: changed, UpdateFunc: func(_, o any) { changed(o) },
	})
	if err != nil {
		return fmt.Errorf("cannot watch KnativeServings: %w", err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return nil
}

// join starts the clusters of both kinds.
func (m *mixedFleet) join(ctx context.Context) error {
	m.registration = &played.Clusters{Client: m.Clusters, Kube: m.kube, ReportError: func(err error) { progress("%v", err) }}
	if m.opts.clusters > 0 {
		if err := m.registration.JoinHub(ctx, m.opts.clusters); err != nil {
			return err
		}
	}
	m.clusters = append(m.clusters, m.registration.Names()...)
	var spokes []string
	byName := map[string]*memoryspoke.Spoke{}
	for i := range m.opts.spokes {
		s := memoryspoke.Start(fmt.Sprintf("spoke%03d", i+1), &m.writes)
		m.spokes, spokes, byName[s.Name] = append(m.spokes, s), append(spokes, s.Name), s
	}
	m.clusters = append(m.clusters, spokes...)
	progress("%d managed clusters have joined, and %d clusters without a work agent run in memory", m.opts.clusters, len(spokes))
	return played.ForEachCluster(ctx, spokes, func(ctx context.Context, name string) error { return m.publish(ctx, byName[name]) })
}

func profileResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "multicluster.x-k8s.io", Version: "v1alpha1", Resource: "clusterprofiles"}
}

// publish creates the ClusterProfile of a cluster without a work agent, and the Secret that the plugin reads.
func (m *mixedFleet) publish(ctx context.Context, s *memoryspoke.Spoke) error {
	_, err := m.kube.CoreV1().Secrets("default").Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: s.Name}, Data: map[string][]byte{"token": []byte(s.Token)},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("cannot create the Secret of %s: %w", s.Name, err)
	}
	profiles := m.configs.Resource(profileResource()).Namespace(mixedNamespace)
	_, err = profiles.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ClusterProfile", "metadata": map[string]any{"name": s.Name},
		"spec": map[string]any{"displayName": s.Name, "clusterManager": map[string]any{"name": "by-hand"}},
	}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("cannot create the ClusterProfile of %s: %w", s.Name, err)
	}
	status, err := json.Marshal(map[string]any{"status": map[string]any{
		"conditions": []any{map[string]any{
			"type": "ControlPlaneHealthy", "status": "True", "reason": "Seen", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
		}},
		"accessProviders": []any{map[string]any{"name": plugin, "cluster": map[string]any{
			"server": s.URL, "certificate-authority-data": base64.StdEncoding.EncodeToString(s.CA),
			"extensions": []any{map[string]any{
				"name": "client.authentication.k8s.io/exec", "extension": map[string]any{"clusterName": s.Name},
			}},
		}}},
	}})
	if err != nil {
		return fmt.Errorf("cannot encode the status of ClusterProfile %s: %w", s.Name, err)
	}
	if _, err := profiles.Patch(ctx, s.Name, types.MergePatchType, status, metav1.PatchOptions{}, "status"); err != nil {
		return fmt.Errorf("cannot set the status of the ClusterProfile of %s: %w", s.Name, err)
	}
	return nil
}

func (m *mixedFleet) closeSpokes() {
	var wg sync.WaitGroup
	for _, s := range m.spokes {
		wg.Go(s.Close)
	}
	wg.Wait()
}

// calm waits until nothing changes any more, on the hub and on the clusters.
func (m *mixedFleet) calm(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		if err := m.fleet.calm(ctx); err != nil {
			return err
		}
		now := min(m.writes.QuietFor(), m.resources.QuietFor())
		if now >= quiet {
			return nil
		}
		if err := pause(ctx, quiet-now); err != nil {
			return fmt.Errorf("resources or objects on clusters do not stop changing: %w", err)
		}
	}
}
