// Copyright Contributors to the Open Cluster Management project

package knative

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	clusterinventoryv1alpha1 "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"open-cluster-management.io/knative-addon/pkg/access"
	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/clustercache"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/target"
	"open-cluster-management.io/knative-addon/pkg/trust"
)

// probeServer is an API server that answers a probe with the function of set.
type probeServer struct {
	mu          sync.Mutex
	answerProbe http.HandlerFunc
}

func (b *probeServer) set(answerProbe http.HandlerFunc) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answerProbe = answerProbe
}

// ServeHTTP implements http.Handler.
func (b *probeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Path != "/api/v1/namespaces/kube-system" {
		_, _ = w.Write([]byte(`{"gitVersion":"v1.35.1"}`))
		return
	}
	b.mu.Lock()
	answerProbe := b.answerProbe
	b.mu.Unlock()
	answerProbe(w, r)
}

func confirmIdentity(w http.ResponseWriter, _ *http.Request) {
	_, _ = w.Write([]byte(`{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"kube-system","uid":"uid-1"}}`))
}

func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func forbid(w http.ResponseWriter, _ *http.Request) {
	refusal := apierrors.NewForbidden(schema.GroupResource{Resource: "namespaces"}, "kube-system", errors.New("no")).ErrStatus
	refusal.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	w.WriteHeader(http.StatusForbidden)
	_ = json.NewEncoder(w).Encode(refusal)
}

// openSessions returns sessions, and the ClusterProfile of a server with an access provider.
func openSessions(t *testing.T, b *probeServer) (*access.Sessions, *clusterinventoryv1alpha1.ClusterProfile) {
	t.Helper()
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	providers := filepath.Join(t.TempDir(), "providers.json")
	const credential = `{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"t"}}`
	data, err := json.Marshal(map[string]any{"providers": []any{map[string]any{"name": "echo", "execConfig": map[string]any{
		"apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/echo", "args": []string{credential},
	}}}})
	if err == nil {
		err = os.WriteFile(providers, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	sessions := access.NewSessions(access.OpenFile(providers, access.FileOptions{}), access.Options{AllowPlainHTTP: true, Inventories: loopback(t)})
	t.Cleanup(sessions.Close)
	return sessions, &clusterinventoryv1alpha1.ClusterProfile{
		ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "c1"},
		Status: clusterinventoryv1alpha1.ClusterProfileStatus{
			AccessProviders: []clusterinventoryv1alpha1.AccessProvider{{Name: "echo", Cluster: clientcmdv1.Cluster{Server: server.URL}}},
		},
	}
}

// connected returns a connection, through an access provider, to a cluster that has answered a probe.
func connected(t *testing.T, b *probeServer) *connection {
	t.Helper()
	sessions, profile := openSessions(t, b)
	session, err := sessions.For(profile)
	if err != nil {
		t.Fatal(err)
	}
	c := &connection{session: session, clock: clock.RealClock{}}
	c.cluster, err = clustercache.Connect(session.RESTConfig(), session.HTTPClient(), clustercache.Options{Changed: func(api.Component) {}, Log: logr.Discard()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.cluster.Close)
	b.set(confirmIdentity)
	if err := c.probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.liveness.recordAnswer(c.liveness.answeredAt.Add(-watchedProbeInterval)) // the next call sends a probe
	return c
}

// TestProbeDenied holds that the error names the permission that a credential lacks for a probe.
func TestProbeDenied(t *testing.T) {
	t.Parallel()
	b := &probeServer{}
	c := connected(t, b)
	b.set(forbid)
	err := c.probe(t.Context())
	if failure := (*access.Error)(nil); !errors.As(err, &failure) || failure.Reason != api.ReasonRemoteClientCreationFailed || !strings.Contains(failure.Message, "may not get Namespace kube-system") {
		t.Errorf("it says %v", err)
	}
}

// TestProbeOfProxy holds that a cluster counts as unreachable behind a proxy that answers each request itself, and as reachable after one error.
func TestProbeOfProxy(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusNotFound, http.StatusInternalServerError} {
		b := &probeServer{}
		c := connected(t, b)
		b.set(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
		if failure := (*access.Error)(nil); !errors.As(c.probe(t.Context()), &failure) {
			t.Errorf("after status %d the probe ends without a reason for the status of the resource", status)
		}
	}
	b := &probeServer{}
	c := connected(t, b)
	b.set(func(w http.ResponseWriter, _ *http.Request) {
		b.set(confirmIdentity)
		w.WriteHeader(http.StatusInternalServerError)
	})
	if err := c.probe(t.Context()); err != nil {
		t.Errorf("after one error the probe ends with %v", err)
	}
}

// TestProbeOfForeignAnswers holds that a cluster does not count as busy when its address answers, and not as an API server does, and that the status
// of the resource gets the reason.
func TestProbeOfForeignAnswers(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]struct{ media, body string }{
		"an object without metadata": {"application/json", "{}"},
		"an object of a gateway":     {"application/json", `{"message":"maintenance"}`},
		"an object of another kind":  {"application/json", `{"kind":"Page","apiVersion":"v1"}`},
		"a page as JSON":             {"application/json", "<html>Sign in</html>"},
		"a page":                     {"text/html; charset=utf-8", "<html>Sign in</html>"},
		"an object that is cut":      {"application/json", `{"kind":`},
	} {
		b := &probeServer{}
		c := connected(t, b)
		b.set(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", answer.media)
			_, _ = w.Write([]byte(answer.body))
		})
		if err := c.probe(t.Context()); !errors.As(err, new(*access.Error)) {
			t.Errorf("%s: the probe ends with %v, want an error with a reason", name, err)
		}
	}
}

// TestUndecodableAnswers holds that the status names an answer that cannot be decoded after several passes, and no error of another kind.
func TestUndecodableAnswers(t *testing.T) {
	t.Parallel()
	b := &probeServer{}
	c := connected(t, b)
	b.set(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<html>Sign in</html>"))
	})
	_, page := c.cluster.UID(t.Context())
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"a page":                    {page, true},
		"a request without answer":  {&url.Error{Op: "Get", Err: errLost}, false},
		"a pass that has ended":     {context.Canceled, false},
		"a bundle that is rendered": {&render.Error{Reason: api.FaultRenderPending, Message: "wait"}, false},
		"a cluster that is lost":    {&access.Error{}, false},
		"no error":                  {nil, false},
	} {
		i := &installation{}
		for range reportedFailures - 1 {
			if i.reportsFailure(tc.err) {
				t.Errorf("%s is reported too early: %v", name, tc.err)
			}
		}
		if got := i.reportsFailure(tc.err); got != tc.want {
			t.Errorf("%s is reported: %t, %v", name, got, tc.err)
		}
	}
}

// TestProbeOfOverloadedCluster holds that a cluster that puts off every request counts as silent, and not as busy.
func TestProbeOfOverloadedCluster(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		b := &probeServer{}
		c := connected(t, b)
		b.set(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(status)
		})
		if err := c.probe(t.Context()); err == nil {
			t.Errorf("status %d counts as an answer of a busy cluster", status)
		}
	}
}

// TestProbeOfAnotherCluster holds that the connection to a cluster ends when another cluster answers at the address.
func TestProbeOfAnotherCluster(t *testing.T) {
	t.Parallel()
	b := &probeServer{}
	c := connected(t, b)
	b.set(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"kube-system","uid":"uid-2"}}`))
	})
	err := c.probe(t.Context())
	if failure := (*access.Error)(nil); !errors.As(err, &failure) || failure.Reason != api.ReasonRemoteClusterStale || !strings.Contains(failure.Message, "uid-2") {
		t.Errorf("it says %v", err)
	}
	if !c.replaced.Load() {
		t.Error("the connection stays")
	}
}

// TestReplacedConnectionReachesAllUsers holds that all resources of a cluster get a pass when a pass over one of them replaces the connection.
func TestReplacedConnectionReachesAllUsers(t *testing.T) {
	t.Parallel()
	sessions, profile := openSessions(t, &probeServer{})
	r := &Remote{Sessions: sessions, Clock: clock.RealClock{}, Requests: NewRequestSources(), WatchOptions: clustercache.Options{Log: logr.Discard()}}
	t.Cleanup(r.Close)
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	t.Cleanup(queue.ShutDown)
	if err := r.Requests[api.Eventing].Start(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	serving, other := localServing(), resourceID{api.Eventing, types.NamespacedName{Namespace: "team", Name: "a"}}
	connect := func() *connection {
		c, err := r.ensureConnection(serving, profile)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	first := connect()
	r.users.addUser(other, client.ObjectKeyFromObject(profile))
	if connect() != first || queue.Len() > 0 {
		t.Error("the connection is replaced without a reason")
	}
	first.replaced.Store(true)
	if connect() == first || queue.Len() != 1 {
		t.Errorf("%d resources are enqueued after another cluster has answered, want the other user", queue.Len())
	}
}

// TestLateProbe holds that a cluster that does not answer a probe in time is stale only if the cluster answers no other request.
func TestLateProbe(t *testing.T) {
	for name, busy := range map[string]bool{"another request is answered": true, "no request is answered": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &probeServer{}
			c := connected(t, b)
			b.set(func(w http.ResponseWriter, r *http.Request) {
				if busy {
					if err := version(r.Context(), c); err != nil {
						t.Error(err)
					}
				}
				hang(w, r)
			})
			err := c.probe(t.Context())
			if failure := (*access.Error)(nil); busy != (err == nil) || !busy && (!errors.As(err, &failure) || failure.Reason != api.ReasonRemoteClusterStale) {
				t.Errorf("it says %v", err)
			}
		})
	}
}

// version sends a request that is no probe.
func version(ctx context.Context, c *connection) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.session.RESTConfig().Host+"/version", http.NoBody)
	if err != nil {
		return err
	}
	answer, err := c.session.HTTPClient().Do(req)
	if err != nil {
		return err
	}
	return answer.Body.Close()
}

// loopback permits ClusterProfiles of namespace fleet the servers of tests.
func loopback(t *testing.T) trust.Inventories {
	t.Helper()
	out, err := trust.NewInventories([]trust.Inventory{{Namespace: "fleet", Providers: []string{"*"}, Servers: []string{"127.0.0.0/8"}}})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// oneProfile has one ClusterProfile.
type oneProfile struct {
	profile *clusterinventoryv1alpha1.ClusterProfile
}

func (o oneProfile) Get(types.NamespacedName) (*clusterinventoryv1alpha1.ClusterProfile, error) {
	return o.profile, nil
}

// TestValuesOfUnhealthyCluster holds that the values of a cluster are known while the cluster is unhealthy: a spec with values is the same
// spec, so that a rollout goes on awaiting the cluster.
func TestValuesOfUnhealthyCluster(t *testing.T) {
	profile := &clusterinventoryv1alpha1.ClusterProfile{ObjectMeta: metav1.ObjectMeta{Namespace: "knative-serving", Name: "c1"}}
	profile.Spec.ClusterManager.Name = "other"
	config := localServing()
	if err := unstructured.SetNestedStringMap(config.Object, map[string]string{"namespace": "knative-serving", "name": "c1"}, "spec", "clusterProfileRef"); err != nil {
		t.Fatal(err)
	}
	r := &Remote{Finder: &target.Finder{Profiles: oneProfile{profile}}}
	_, err := r.findProfile(config)
	unreachable := (*UnreachableError)(nil)
	if !errors.As(err, &unreachable) || unreachable.Values == nil || unreachable.Values.Name() != "c1" {
		t.Errorf("the error is %v, with values %+v", err, unreachable)
	}
}
