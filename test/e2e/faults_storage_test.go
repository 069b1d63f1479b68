// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	workclient "open-cluster-management.io/api/client/work/clientset/versioned"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
)

// evictionTime is how long the agent of an evicted cluster keeps the objects of a work that the hub does not have.
const evictionTime = 20 * time.Second

// TestHubRebuilt destroys a hub and builds another hub at the same address, with the same resources. The new hub refuses each
// cluster until the annotation adopt permits the adoption, and then restarts no pod. A work agent that waits longer than its grace
// period removes the payload of a refused cluster, and keeps CRDs, Namespaces and the resources of users.
func TestHubRebuilt(t *testing.T) {
	startNightlyStory(t)
	s := newStorageStory(t)
	adopted, evicted, direct := s.ways[0], s.ways[1], s.ways[2]
	s.installAll(t, adopted, evicted, direct)
	before := s.record(t)

	if err := s.Stop(harness.Manager); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.RebuildHub(t.Context()), s.Reinstall(t.Context())); err != nil {
		t.Fatal(err)
	}
	evicted.EvictionGracePeriod = evictionTime
	for _, c := range s.Managed {
		if err := s.Rejoin(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Command(t.Context(), "kubectl", "create", "namespace", s.namespace); err != nil {
		t.Fatal(err)
	}
	s.bind(t)
	s.token(t, direct.Name, direct.Cluster, direct.Credential.Token)
	for _, w := range s.ways {
		w.apply(t, api.Serving, w.Name, kourier())
	}
	adopted.shows(t, untold(api.ReasonTargetConflict), adopted.Name, "another hub, whose namespace kube-system has UID", api.AdoptAnnotation)
	direct.shows(t, untold(api.ReasonTargetConflict), "of another hub", api.AdoptAnnotation)
	for _, w := range []way{adopted, direct} {
		if diff := cmp.Diff(before[w.Name].pods, runningPods(t, w.spoke)); diff != "" {
			t.Errorf("%s: pods of a refused cluster were restarted (-before +after):\n%s", w.Name, diff)
		}
		w.annotate(t, api.AdoptAnnotation, "true")
		w.shows(t, verdicts{})
	}
	settled(t, s.Fleet, api.Serving, adopted.Cluster)
	before.checkKept(t, adopted, direct)
	eventually(t, "the agent evicts nothing", 3*time.Minute, func(ctx context.Context) error { return checkNotEvicted(ctx, adopted) })

	evicted.shows(t, untold(api.ReasonTargetConflict))
	evicted.awaitEviction(t)
	evicted.annotate(t, api.AdoptAnnotation, "true")
	evicted.shows(t, verdicts{})
	settled(t, s.Fleet, api.Serving, evicted.Cluster)
	before.checkUserData(t, evicted)
}

// TestHubRestored restores the hub's etcd from a snapshot that lacks the works of a cluster, the record of an installation without a
// work agent, and an edit. The manager writes the works again before the agent evicts the objects, and no pod restarts.
func TestHubRestored(t *testing.T) {
	startNightlyStory(t)
	s := newStorageStory(t)
	early, late, direct := s.ways[0], s.ways[1], s.ways[2]
	s.installAll(t, early)
	if err := s.Stop(harness.Manager); err != nil {
		t.Fatal(err)
	}
	for _, w := range []way{late, direct} {
		w.apply(t, api.Serving, w.Name, kourier())
	}
	if err := errors.Join(s.SnapshotHub(t.Context()), s.Start(harness.Manager)); err != nil {
		t.Fatal(err)
	}
	for _, w := range []way{late, direct} {
		w.shows(t, verdicts{})
		w.createService(t)
	}
	early.spec(t, config("deployment", "progress-deadline", marker))
	eventually(t, "the edit is on "+early.Name, 3*time.Minute, early.checkDeadline(true))
	early.shows(t, verdicts{})
	settled(t, s.Fleet, api.Serving, s.Managed...)
	before := s.record(t)

	// An API server that has not read the permissions yet refuses requests. The paused manager finds a ready API server, and still has the
	// old caches.
	if err := errors.Join(s.Pause(harness.Manager), s.RestoreHub(t.Context()), s.Resume(harness.Manager)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the manager is ready", 3*time.Minute, func(ctx context.Context) error { return s.Probe(ctx, harness.Manager, "/readyz") })
	s.restartClients(t)
	for _, w := range s.ways {
		w.shows(t, verdicts{})
	}
	eventually(t, early.Name+" has the restored spec", 3*time.Minute, early.checkDeadline(false))
	settled(t, s.Fleet, api.Serving, s.Managed...)
	before.checkKept(t, s.ways...)
	for _, w := range []way{early, late} {
		eventually(t, "the agent of "+w.Name+" evicts nothing", 3*time.Minute, func(ctx context.Context) error { return checkNotEvicted(ctx, w) })
	}
}

// storageStory is a hub whose etcd can be replaced, with two clusters that have work agents, and one cluster without.
type storageStory struct {
	push
	ways []way
}

func newStorageStory(t *testing.T) storageStory {
	t.Helper()
	p := newPush(t, lab.Options{ManagedClusters: 2, Spokes: 1, StatusSyncInterval: statusSync, OwnHubEtcd: true}, harness.Options{})
	s := storageStory{push: p}
	for _, c := range p.Lab.Clusters() {
		s.ways = append(s.ways, way{push: p, spoke: connect(t, c)})
	}
	p.bind(t)
	p.token(t, p.Spokes[0].Name, p.Spokes[0], p.Spokes[0].Credential.Token)
	return s
}

// installAll installs Serving, and creates a Service of a user on each cluster.
func (s storageStory) installAll(t *testing.T, ways ...way) {
	t.Helper()
	for _, w := range ways {
		w.apply(t, api.Serving, w.Name, kourier())
	}
	for _, w := range ways {
		w.shows(t, verdicts{})
		w.createService(t)
		if w.Credential == nil {
			settled(t, s.Fleet, api.Serving, w.Cluster)
		}
	}
}

// restartClients restarts the programs whose caches hold newer resource versions than a restored hub: the manager, the controllers of
// OCM and the agents.
func (s storageStory) restartClients(t *testing.T) {
	t.Helper()
	for _, c := range s.Components() {
		if c.Name == harness.Manager || strings.HasPrefix(c.Name, "ocm-") || strings.HasSuffix(c.Name, "-agent") {
			if err := errors.Join(s.Stop(c.Name), s.Start(c.Name)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// clusterRecord holds the objects of a cluster that must stay.
type clusterRecord struct {
	pods []string
	// uids are the UIDs of all objects of Knative.
	uids map[string]string
	// service is the UID of the Service of a user.
	service types.UID
}

// storageRecords are the records of clusters, by name.
type storageRecords map[string]clusterRecord

func (s storageStory) record(t *testing.T) storageRecords {
	t.Helper()
	out := storageRecords{}
	for _, w := range s.ways {
		out[w.Name] = w.record(t)
	}
	return out
}

func (w way) record(t *testing.T) clusterRecord {
	t.Helper()
	out := clusterRecord{pods: runningPods(t, w.spoke), uids: map[string]string{}}
	for name, version := range specs(t, w.spoke) {
		if !strings.Contains(name, "-bundle-") { // the name ends with a digest of the spec
			out.uids[name], _, _ = strings.Cut(version, " ")
		}
	}
	for _, namespace := range w.list(t, "", "v1", "namespaces") {
		out.uids["namespace "+namespace.GetName()] = string(namespace.GetUID())
	}
	service, err := w.knativeServices().Get(t.Context(), "hello", metav1.GetOptions{})
	if err != nil {
		t.Fatalf("the user's Service of %s: %v", w.Name, err)
	}
	out.service = service.GetUID()
	return out
}

// checkKept holds that no pod was restarted and that no object was recreated.
func (r storageRecords) checkKept(t *testing.T, ways ...way) {
	t.Helper()
	for _, w := range ways {
		if diff := cmp.Diff(r[w.Name], w.record(t), cmp.AllowUnexported(clusterRecord{})); diff != "" {
			t.Errorf("%s (-before +after):\n%s", w.Name, diff)
		}
	}
}

// checkUserData holds that CRDs, Namespaces and the Service of the user were not recreated.
func (r storageRecords) checkUserData(t *testing.T, w way) {
	t.Helper()
	before, now := r[w.Name], w.record(t)
	if before.service != now.service {
		t.Errorf("%s: the user's Service was recreated", w.Name)
	}
	for name, uid := range before.uids {
		if kept := strings.HasPrefix(name, "customresourcedefinitions ") || strings.HasPrefix(name, "namespace "); kept && now.uids[name] != uid {
			t.Errorf("%s: %s has UID %q, was %q", w.Name, name, now.uids[name], uid)
		}
	}
}

// awaitEviction waits until the work agent has deleted the payload.
func (w way) awaitEviction(t *testing.T) {
	t.Helper()
	eventually(t, "the agent has deleted the payload of "+w.Name, 5*time.Minute, func(ctx context.Context) error {
		_, err := w.kube.AppsV1().Deployments(api.Serving.InstallNamespace()).Get(ctx, "activator", metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("Deployment activator is there (error %w)", err)
		}
		return nil
	})
}

// checkDeadline returns a check whether the ConfigMap of Deployments has the edited progress deadline.
func (w way) checkDeadline(edited bool) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		c, err := w.kube.CoreV1().ConfigMaps(api.Serving.InstallNamespace()).Get(ctx, "config-deployment", metav1.GetOptions{})
		if err == nil && (c.Data["progress-deadline"] == marker) != edited {
			err = fmt.Errorf("the progress deadline is %q", c.Data["progress-deadline"])
		}
		return err
	}
}

// checkNotEvicted returns an error when the agent of a cluster counts down to the eviction of a work.
func checkNotEvicted(ctx context.Context, w way) error {
	client, err := workclient.NewForConfig(w.Config)
	if err != nil {
		return err
	}
	list, err := client.WorkV1().AppliedManifestWorks().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if len(list.Items) == 0 {
		return errors.New("there is no AppliedManifestWork")
	}
	for _, a := range list.Items {
		if a.Status.EvictionStartTime != nil || a.DeletionTimestamp != nil {
			return fmt.Errorf("AppliedManifestWork %s: eviction since %v, deletion since %v", a.Name, a.Status.EvictionStartTime, a.DeletionTimestamp)
		}
	}
	return nil
}
