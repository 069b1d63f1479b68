// Copyright Contributors to the Open Cluster Management project

package hub

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	clusterinventoryv1alpha1 "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"
	profilefake "sigs.k8s.io/cluster-inventory-api/client/clientset/versioned/fake"
	profileinformers "sigs.k8s.io/cluster-inventory-api/client/informers/externalversions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// discoveryHub is a hub that counts the requests for its served kinds.
type discoveryHub struct {
	discovery.DiscoveryInterface

	client *profilefake.Clientset
	asked  atomic.Int32
	answer atomic.Pointer[answer]
}

type answer struct {
	resources []string
	err       error
}

func (a *discoveryHub) ServerResourcesForGroupVersion(groupVersion string) (*metav1.APIResourceList, error) {
	a.asked.Add(1)
	now := a.answer.Load()
	if now.err != nil {
		return nil, now.err
	}
	out := &metav1.APIResourceList{GroupVersion: groupVersion}
	for _, name := range now.resources {
		out.APIResources = append(out.APIResources, metav1.APIResource{Name: name})
	}
	return out, nil
}

var (
	errDown   = errors.New("the hub is down")
	notServed = answer{err: apierrors.NewNotFound(schema.GroupResource{}, "multicluster.x-k8s.io/v1alpha1")}
	served    = answer{resources: []string{"placementdecisions", "clusterprofiles"}}
)

var name = types.NamespacedName{Namespace: "team", Name: "c1"}

// newServed are profiles of a hub that answers like that and has one ClusterProfile, and the lists that were asked of it.
func newServed(t *testing.T, first answer) (*ClusterProfiles, *discoveryHub, *atomic.Int32) {
	t.Helper()
	hub, lists := &discoveryHub{}, &atomic.Int32{}
	hub.answer.Store(&first)
	client := profilefake.NewSimpleClientset(&clusterinventoryv1alpha1.ClusterProfile{
		ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "a"}}},
	})
	client.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		lists.Add(1)
		return false, nil, nil
	})
	hub.client = client
	return newClusterProfilesOf(hub, profileinformers.NewSharedInformerFactory(client, resync)), hub, lists
}

func noMatch(t *testing.T, p *ClusterProfiles) {
	t.Helper()
	if profile, err := p.Get(name); profile != nil || !apimeta.IsNoMatchError(err) {
		t.Errorf("Get is %v with error %v, want that there is no such kind", profile, err)
	}
}

func found(t *testing.T, p *ClusterProfiles) {
	t.Helper()
	if profile, err := p.Get(name); err != nil || profile == nil || profile.Name != name.Name {
		t.Errorf("Get is %v with error %v", profile, err)
	}
	if profile, err := p.Get(types.NamespacedName{Namespace: "team", Name: "c2"}); profile != nil || err != nil {
		t.Errorf("Get of another is %v with error %v, want nothing", profile, err)
	}
}

// inBubble runs a test whose time is its own; what it starts ends with it.
func inBubble(t *testing.T, test func(t *testing.T, ctx context.Context)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		test(t, ctx)
		cancel()
		synctest.Wait()
	})
}

func TestProfilesServed(t *testing.T) {
	inBubble(t, func(t *testing.T, ctx context.Context) {
		t.Helper()
		p, hub, _ := newServed(t, served)
		noMatch(t, p)
		synced, err := p.start(ctx)
		if err != nil || synced == nil {
			t.Fatalf("start says nothing of when the cache is full (error %v)", err)
		}
		if !cache.WaitForCacheSync(ctx.Done(), synced) {
			t.Fatal("the cache does not fill")
		}
		found(t, p)
		time.Sleep(10 * servedPoll)
		if n := hub.asked.Load(); n != 1 {
			t.Errorf("the hub was asked %d times", n)
		}
	})
}

func TestProfilesServedLater(t *testing.T) {
	for name, first := range map[string]answer{"no group": notServed, "no such kind in the group": {resources: []string{"placementdecisions"}}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, ctx context.Context) {
				t.Helper()
				p, hub, lists := newServed(t, first)
				synced, err := p.start(ctx)
				if err != nil || synced != nil {
					t.Fatalf("the manager waits for what may never come (error %v)", err)
				}
				time.Sleep(10*servedPoll + time.Second)
				noMatch(t, p)
				hub.answer.Store(&answer{err: errDown})
				time.Sleep(3 * servedPoll)
				noMatch(t, p)
				if n := lists.Load(); n != 0 {
					t.Errorf("%d lists were asked of a kind that the hub does not have", n)
				}
				if n := hub.asked.Load(); n != 14 {
					t.Errorf("the hub was asked %d times, want once and then every %s", n, servedPoll)
				}
				hub.answer.Store(&served)
				time.Sleep(servedPoll)
				synctest.Wait()
				found(t, p)
				asked := hub.asked.Load()
				time.Sleep(10 * servedPoll)
				if n := hub.asked.Load(); n != asked {
					t.Errorf("once it is served the hub was asked %d times more", n-asked)
				}
			})
		})
	}
}

// TestProfilesNotListed holds that a hub which serves ClusterProfiles and does not let the manager list them is not taken for a hub
// without the kind, and that the manager goes on when the list is permitted.
func TestProfilesNotListed(t *testing.T) {
	inBubble(t, func(t *testing.T, ctx context.Context) {
		t.Helper()
		p, hub, _ := newServed(t, notServed)
		var permitted atomic.Bool
		hub.client.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
			if permitted.Load() {
				return false, nil, nil
			}
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "clusterprofiles"}, "", errors.New("no role"))
		})
		queue := newErrorQueue(t, ctx, p)
		if _, err := p.start(ctx); err != nil {
			t.Fatal(err)
		}
		noMatch(t, p)
		queue.holds(t, 0, "before the hub serves the kind")
		hub.answer.Store(&served)
		time.Sleep(2 * servedPoll)
		queue.holds(t, 1, "after the first refused list")
		time.Sleep(2 * time.Minute)
		queue.holds(t, 0, "after further refused lists")
		profile, err := p.Get(name)
		if profile != nil || !apierrors.IsForbidden(err) || apimeta.IsNoMatchError(err) { // package resolve reports ClusterProfileUnavailable
			t.Errorf("Get is %v with error %v", profile, err)
		}
		permitted.Store(true)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		found(t, p)
		queue.holds(t, 1, "after the end of the error")
		time.Sleep(resync)
		queue.holds(t, 0, "at rest")
	})
}

// errorQueue is a queue with the requests of an error source.
type errorQueue struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
}

func newErrorQueue(t *testing.T, ctx context.Context, p *ClusterProfiles) errorQueue {
	t.Helper()
	queue := errorQueue{workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())}
	context.AfterFunc(ctx, queue.ShutDown)
	requests := func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: name}}
	}
	if err := p.NewErrorSource(requests).Start(ctx, queue); err != nil {
		t.Fatal(err)
	}
	return queue
}

// holds takes all requests from the queue.
func (q errorQueue) holds(t *testing.T, want int, when string) {
	t.Helper()
	synctest.Wait()
	if n := q.Len(); n != want {
		t.Errorf("%s the queue holds %d requests, want %d", when, n, want)
	}
	for q.Len() > 0 {
		request, _ := q.Get()
		q.Done(request)
	}
}

// TestProfilesNeverServed holds that nothing goes on when the manager stops.
func TestProfilesNeverServed(t *testing.T) {
	inBubble(t, func(t *testing.T, ctx context.Context) {
		t.Helper()
		p, _, lists := newServed(t, notServed)
		stopped, stop := context.WithCancel(ctx)
		if _, err := p.start(stopped); err != nil {
			t.Fatal(err)
		}
		stop()
		time.Sleep(10 * servedPoll)
		noMatch(t, p)
		if n := lists.Load(); n != 0 {
			t.Errorf("%d lists were asked after the end", n)
		}
	})
}

// TestProfilesUnknown holds that a hub that does not answer is not one without ClusterProfiles, and is asked again.
func TestProfilesUnknown(t *testing.T) {
	inBubble(t, func(t *testing.T, ctx context.Context) {
		t.Helper()
		p, hub, _ := newServed(t, answer{err: errDown})
		time.AfterFunc(time.Minute, func() { hub.answer.Store(&served) })
		synced, err := p.start(ctx)
		if err != nil || synced == nil {
			t.Fatalf("a hub that answers after a minute is taken for a hub without ClusterProfiles (error %v)", err)
		}
		if !cache.WaitForCacheSync(ctx.Done(), synced) {
			t.Fatal("the cache does not fill")
		}
		found(t, p)
	})
}

func TestNewClusterProfiles(t *testing.T) {
	noMatch(t, newClusterProfiles(profilefake.NewSimpleClientset()))
}

func TestNewClients(t *testing.T) {
	if _, err := NewClients(&rest.Config{Host: "127.0.0.1:1"}); err != nil {
		t.Error(err)
	}
	if _, err := NewClients(&rest.Config{Host: "://"}); err == nil {
		t.Error("a configuration that leads nowhere is an error")
	}
}
