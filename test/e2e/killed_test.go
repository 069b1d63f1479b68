// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
	"open-cluster-management.io/knative-addon/test/lab/faultproxy"
)

// startProxy starts a proxy in front of the cluster's API server. The faults of the proxy end with the story, and the proxy ends after
// the checks of the invariants.
func startProxy(t *testing.T, c *lab.Cluster) *faultproxy.Proxy {
	t.Helper()
	proxy, err := faultproxy.Start(c.URL, c.CA)
	if err != nil {
		t.Fatal(err)
	}
	closeAfterInvariants(t, c, proxy.Close)
	t.Cleanup(func() { proxy.Inject(nil) })
	return proxy
}

// mostKills is how often the manager is killed at writes of one kind: before the API server has a write, and when the same write
// comes again, after the API server has served the write.
const mostKills = 2

// writeKiller kills the add-on's programs at their writes.
type writeKiller struct {
	fleet *harness.Fleet
	// due has the write that waits for the end of its program.
	due chan string
	// held counts the writes that wait.
	held sync.WaitGroup

	mu    sync.Mutex
	kills map[string]int
	// stopped forwards every write.
	stopped bool
}

func newWriteKiller() *writeKiller {
	return &writeKiller{due: make(chan string), kills: map[string]int{}}
}

// fault kills at writes of the hub, one kind for each object.
func (k *writeKiller) fault(w http.ResponseWriter, r *http.Request, forward http.Handler) {
	k.serve(r.Method+" "+r.URL.Path, w, r, forward)
}

// faultOnSpoke kills at writes of a cluster, one kind for each resource: an installation has a hundred objects.
func (k *writeKiller) faultOnSpoke(w http.ResponseWriter, r *http.Request, forward http.Handler) {
	collection := r.URL.Path
	if r.Method != http.MethodPost {
		collection = path.Dir(collection)
	}
	k.serve("cluster: "+r.Method+" "+collection, w, r, forward)
}

func (k *writeKiller) serve(kind string, w http.ResponseWriter, r *http.Request, forward http.Handler) {
	n := k.count(kind, r)
	if n == 0 {
		forward.ServeHTTP(w, r)
		return
	}
	defer k.held.Done()
	moment := "before"
	if n%2 == 0 {
		moment = "after"
		faultproxy.Serve(r, forward)
	}
	select {
	case k.due <- moment + " " + kind:
	case <-r.Context().Done():
	}
	<-r.Context().Done()
	panic(http.ErrAbortHandler)
}

// count returns how often the program was to be killed at a write of the kind, or 0 for a request that the killer forwards. The caller
// calls held.Done for every other request.
func (k *writeKiller) count(kind string, r *http.Request) int {
	if r.Method == http.MethodGet || strings.HasSuffix(r.URL.Path, "/events") || strings.HasSuffix(r.URL.Path, "reviews") {
		return 0
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stopped || k.kills[kind] == mostKills {
		return 0
	}
	k.kills[kind]++
	k.held.Add(1)
	return k.kills[kind]
}

// run kills and starts the programs at each write until done, holds that the programs wrote at least so many kinds of objects, and
// returns how often the programs were killed.
func (k *writeKiller) run(t *testing.T, phase string, kinds int, done func(ctx context.Context) error) (kills int) {
	t.Helper()
	k.mu.Lock()
	k.kills, k.stopped = map[string]int{}, false
	k.mu.Unlock()
	ctx, cancel := context.WithTimeout(t.Context(), loadFactor*10*time.Minute)
	defer cancel()
	var killed []string
	err := errors.New("not read yet")
	for ; err != nil; err = done(ctx) {
		select {
		case <-ctx.Done():
			t.Fatalf("%s does not end: %v; killed %d times: %s", phase, err, len(killed), strings.Join(killed, ", "))
		case write := <-k.due:
			killed = append(killed, write)
			if err := restartKilled(k.fleet); err != nil {
				t.Fatal(err)
			}
		case <-time.After(300 * time.Millisecond):
		}
	}
	killed = append(killed, k.stop(t)...)
	k.mu.Lock()
	defer k.mu.Unlock()
	t.Logf("%s: killed %d times at %d kinds of writes: %s", phase, len(killed), len(k.kills), strings.Join(slices.Sorted(maps.Keys(k.kills)), ", "))
	if len(k.kills) < kinds {
		t.Errorf("%s: killed at %d kinds of writes, want at least %d", phase, len(k.kills), kinds)
	}
	return len(killed)
}

// stop ends the kills of a phase, and returns the writes that waited at its end: without a kill, such a write would wait for ever.
func (k *writeKiller) stop(t *testing.T) (killed []string) {
	t.Helper()
	k.mu.Lock()
	k.stopped = true
	k.mu.Unlock()
	released := make(chan struct{})
	go func() {
		k.held.Wait()
		close(released)
	}()
	for {
		select {
		case write := <-k.due:
			killed = append(killed, write)
			if err := restartKilled(k.fleet); err != nil {
				t.Fatal(err)
			}
		case <-released:
			return killed
		}
	}
}

// restartKilled kills the programs of the add-on, and starts the programs again.
func restartKilled(f *harness.Fleet) error {
	var errs []error
	for _, c := range f.Components() {
		if c.Name == harness.Manager || c.Name == harness.LocalInstalls {
			errs = append(errs, f.Kill(c.Name), f.Start(c.Name))
		}
	}
	return errors.Join(errs...)
}

// TestManagerKilled kills the manager before and after each write of an installation, an edit, an upgrade and a removal, in both
// modes. The next manager must go on.
func TestManagerKilled(t *testing.T) {
	startNightlyStory(t)
	f := newFaultyFleet(t)
	k := newWriteKiller()
	k.fleet = f.Fleet
	f.hubProxy.Inject(k.fault)
	f.edgeProxy.Inject(k.faultOnSpoke)
	f.applyAll(t, "1.22")
	k.run(t, "installation", 15, f.allInstalled(f.clusters, "1.22", ""))
	f.patchAll(t, f.clusters, `{"spec":{"config":{"defaults":{"revision-timeout-seconds":"123"}}}}`)
	k.run(t, "edit", 4, f.allInstalled(f.clusters, "1.22", "123"))
	f.patchAll(t, f.clusters, `{"spec":{"version":"1.23"}}`)
	k.run(t, "upgrade", 8, f.allInstalled(f.clusters, "1.23", "123"))
	f.deleteAll(t)
	k.run(t, "removal", 10, f.allGone)
	for _, c := range f.clusters {
		connect(t, c).emptied(t)
	}
	f.worksGone(t, f.Managed[0])
}

// patchAll patches the resources of the clusters.
func (m team) patchAll(t *testing.T, names map[string]*lab.Cluster, patch string) {
	t.Helper()
	for name := range names {
		if _, err := m.resources(api.Serving).Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// allInstalled returns a function that reports whether each resource is Ready with the minor version, and each cluster has the timeout
// in its configuration.
func (m team) allInstalled(names map[string]*lab.Cluster, version, timeout string) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		for name, c := range names {
			s, err := m.read(ctx, api.Serving, name)
			if err != nil {
				return err
			}
			if !s.current || s.conditions[api.Ready].Status != metav1.ConditionTrue || !strings.HasPrefix(s.version, version+".") {
				return fmt.Errorf("%s has version %q and conditions %v", name, s.version, s.conditions)
			}
			if err := hasTimeout(ctx, c, timeout); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		return nil
	}
}

// hasTimeout returns an error unless config-defaults of the cluster has the timeout; an empty timeout is that of the release.
func hasTimeout(ctx context.Context, c *lab.Cluster, timeout string) error {
	kube, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return err
	}
	m, err := kube.CoreV1().ConfigMaps("knative-serving").Get(ctx, "config-defaults", metav1.GetOptions{})
	if err == nil && m.Data["revision-timeout-seconds"] != timeout {
		err = fmt.Errorf("ConfigMap config-defaults has %v", m.Data)
	}
	return err
}
