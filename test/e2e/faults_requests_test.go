// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"flag"
	"fmt"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
	"open-cluster-management.io/knative-addon/test/lab/faultproxy"
)

// seedFlag repeats the faults of an earlier run, as far as the same requests come in the same order.
var seedFlag = flag.Uint64("seed", 0, "the seed of random faults; 0 takes the time")

// drawSeed returns the seed of random faults and logs the seed.
func drawSeed(t *testing.T) uint64 {
	t.Helper()
	s := *seedFlag
	if s == 0 {
		s = uint64(time.Now().UnixNano()) //nolint:gosec // positive
	}
	t.Logf("the random faults have -seed=%d", s)
	return s
}

// faultyShare is the share of requests with a fault.
const faultyShare = 0.2

// faultyFleet is a hub with a managed cluster and a cluster that OCM does not manage, with proxies in front of the hub and of the
// second cluster.
type faultyFleet struct {
	push
	hubProxy, edgeProxy *faultproxy.Proxy
	// clusters are the clusters by the name of their ClusterProfile.
	clusters map[string]*lab.Cluster
}

func newFaultyFleet(t *testing.T) faultyFleet {
	t.Helper()
	l := ownLab(t, lab.Options{ManagedClusters: 1, Spokes: 1, StatusSyncInterval: statusSync})
	f := faultyFleet{hubProxy: startProxy(t, l.Hub), edgeProxy: startProxy(t, l.Spokes[0])}
	f.push = installDeliveryHub(t, l, harness.Options{HubProxy: f.hubProxy})
	f.bind(t)
	f.token(t, "edge", &lab.Cluster{URL: f.edgeProxy.URL, CA: f.edgeProxy.CA}, l.Spokes[0].Credential.Token)
	f.clusters = map[string]*lab.Cluster{l.Managed[0].Name: l.Managed[0], "edge": l.Spokes[0]}
	return f
}

// applyAll creates a KnativeServing for each cluster.
func (f faultyFleet) applyAll(t *testing.T, version string) {
	t.Helper()
	for name := range f.clusters {
		spec := kourier()
		spec["version"] = version
		f.apply(t, api.Serving, name, spec)
	}
}

// deleteAll deletes the KnativeServings of all clusters.
func (f faultyFleet) deleteAll(t *testing.T) {
	t.Helper()
	for name := range f.clusters {
		if err := f.resources(api.Serving).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// readVersions returns the resource versions of the KnativeServings of all clusters.
func (f faultyFleet) readVersions(ctx context.Context) (map[string]string, error) {
	list, err := f.resources(api.Serving).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, u := range list.Items {
		out[u.GetName()] = u.GetResourceVersion()
	}
	return out, nil
}

// allGone returns an error as long as there is a KnativeServing.
func (f faultyFleet) allGone(ctx context.Context) error {
	list, err := f.resources(api.Serving).List(ctx, metav1.ListOptions{})
	if err == nil && len(list.Items) > 0 {
		err = fmt.Errorf("%d resources are there; one has %v", len(list.Items), list.Items[0].Object["status"])
	}
	return err
}

// TestFaultyRequests has a share of all requests to the hub and to a cluster fail, take long, or lose their answer, and watches
// end. Everything goes through nevertheless, and an installation that runs stays Ready.
func TestFaultyRequests(t *testing.T) {
	startNightlyStory(t)
	f := newFaultyFleet(t)
	s := drawSeed(t)
	inject := func() {
		f.hubProxy.Inject(faultproxy.Random(s, faultyShare))
		f.edgeProxy.Inject(faultproxy.Random(s+1, faultyShare))
	}
	inject()
	f.applyAll(t, "1.22")
	eventually(t, "everything is installed", 6*time.Minute, f.allInstalled(f.clusters, "1.22", ""))
	f.patchAll(t, f.clusters, `{"spec":{"version":"1.23","config":{"defaults":{"revision-timeout-seconds":"123"}}}}`)
	eventually(t, "everything is upgraded", 6*time.Minute, f.allInstalled(f.clusters, "1.23", "123"))
	t.Run("faults of the hub change no condition", func(t *testing.T) {
		f.edgeProxy.Inject(nil)
		eventually(t, "everything is Ready", time.Minute, f.allInstalled(f.clusters, "1.23", "123"))
		awaitRest(t, "the status of all resources", f.readVersions) // the proxy of the hub delays writes of the steps before
		f.checkStaysReady(t, watchTime, func() { f.hubProxy.Inject(faultproxy.Random(s, 0.5)) })
	})
	inject()
	f.deleteAll(t)
	eventually(t, "everything is removed", 6*time.Minute, f.allGone)
	for _, c := range f.clusters {
		connect(t, c).emptied(t)
	}
}

// TestSlowHub has half of all requests to the hub fail, take up to two seconds, or lose their answer, and watches end, for ten minutes. No
// resource stops being Ready, and an edit reaches both clusters.
func TestSlowHub(t *testing.T) {
	startNightlyStory(t)
	f := newFaultyFleet(t)
	s := drawSeed(t)
	f.applyAll(t, "1.23")
	eventually(t, "everything is installed", 6*time.Minute, f.allInstalled(f.clusters, "1.23", ""))
	f.checkStaysReady(t, slowHubTime, func() { f.hubProxy.Inject(faultproxy.Random(s, 0.5)) })
	f.patchAll(t, f.clusters, `{"spec":{"config":{"defaults":{"revision-timeout-seconds":"123"}}}}`)
	eventually(t, "everything is edited", 6*time.Minute, f.allInstalled(f.clusters, "1.23", "123"))
}

const (
	// watchTime is how long a story watches that nothing changes.
	watchTime = 30 * time.Second
	// slowHubTime is how long the hub is slow.
	slowHubTime = 10 * time.Minute
)

// checkStaysReady holds that no resource stops being Ready during faults of the hub.
func (f faultyFleet) checkStaysReady(t *testing.T, duration time.Duration, inject func()) {
	t.Helper()
	watched, err := f.resources(api.Serving).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	inject()
	ended := make(chan struct{})
	var events sync.WaitGroup
	events.Go(func() {
		for event := range watched.ResultChan() {
			if u, isObject := event.Object.(*unstructured.Unstructured); isObject && event.Type != watch.Added && !isReady(u) {
				t.Errorf("%s %s: %v", event.Type, u.GetName(), u.Object["status"])
			}
		}
		select {
		case <-ended:
		default:
			t.Error("the watch has ended early")
		}
	})
	time.Sleep(duration)
	close(ended)
	watched.Stop()
	events.Wait()
}

// isReady reports whether condition Ready of a resource is True.
func isReady(u *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, o := range conditions {
		c, _ := o.(map[string]any)
		if c["type"] == api.Ready {
			return c["status"] == string(metav1.ConditionTrue)
		}
	}
	return false
}
