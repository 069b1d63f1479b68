// Copyright Contributors to the Open Cluster Management project

package knative

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"open-cluster-management.io/knative-addon/pkg/addon"
	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/clustercache"
	"open-cluster-management.io/knative-addon/pkg/reconciler"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/resolve"
	"open-cluster-management.io/knative-addon/pkg/target"
	"open-cluster-management.io/knative-addon/pkg/values"
)

const hubUID, spokeUID = types.UID("hub-1"), types.UID("spoke-1")

// directFixture is a hub with one resource, and the cluster that it installs on. The cluster only answers with what it is given.
type directFixture struct {
	t       *testing.T
	configs *dynamicfake.FakeDynamicClient
	events  *events.FakeRecorder
	r       *Reconciler
	d       *Direct

	bundle       *render.Bundle
	bundleError  error // of Bundles
	specError    error // of Bundles, for the present spec only
	clusterError error // of Clusters
	probing      bool  // whether a probe of the cluster is pending
	unserved     bool
	values       *values.Cluster // of the cluster
	refused      bool            // no annotation counts
	conflict     resolve.Result  // with the Knative Operator
	place        addon.Place     // that a bundle was asked for

	mu       sync.Mutex
	answers  map[string]any // by path, objects or errors; what is not here is not found
	requests []string       // to the cluster, and "hub: verb resource/subresource"
}

func newDirectFixture(t *testing.T, config *unstructured.Unstructured) *directFixture {
	t.Helper()
	w := &directFixture{
		t: t, events: events.NewFakeRecorder(100), answers: map[string]any{}, bundle: &render.Bundle{Component: api.Serving, Version: "1.23.0", Namespace: "knative-serving"},
		configs: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
			map[schema.GroupVersionResource]string{api.Serving.Resource(): "KnativeServingList"}, config),
	}
	w.configs.PrependReactor("patch", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		w.note(strings.TrimSuffix("hub: patch "+a.GetResource().Resource+"/"+a.GetSubresource(), "/"))
		return false, nil, nil
	})
	for path, kind := range map[string]string{
		"/api/v1/configmaps": "ConfigMapList", "/apis/apps/v1/namespaces/knative-serving/deployments": "List",
		"/apis/apps/v1/deployments": "List", "/apis/apps/v1/statefulsets": "List",
		"/apis/apps/v1/namespaces/knative-serving/statefulsets": "List",
	} {
		w.answers[path] = map[string]any{"kind": kind, "apiVersion": "v1", "items": []any{}}
	}
	server := httptest.NewServer(w)
	t.Cleanup(server.Close)
	cluster, err := clustercache.Connect(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON}}, &http.Client{},
		clustercache.Options{Changed: func(api.Component) {}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	clock := testclock.NewFakePassiveClock(time.Unix(10000, 0))
	w.d = &Direct{
		Component: api.Serving, Bundles: w, Clusters: &clusters{w, cluster}, ConfigClient: w.configs, Events: w.events, Clock: clock,
	}
	w.r = &Reconciler{
		Component: api.Serving, Finder: w, Deliveries: []Delivery{w.d},
		Status: &StatusWriter{Component: api.Serving, Client: w.configs, Events: w.events, Clock: clock},
	}
	return w
}

func (w *directFixture) note(request string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.requests = append(w.requests, request)
}

// setAnswer makes the cluster answer requests at a path with an object or an error. Caches of the fixture may read answers meanwhile.
func (w *directFixture) setAnswer(path string, answer any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answers[path] = answer
}

// written is what was asked for that changes something.
func (w *directFixture) written() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, r := range w.requests {
		if !strings.HasPrefix(r, http.MethodGet) {
			out = append(out, r)
		}
	}
	return out
}

// ServeHTTP is the cluster.
func (w *directFixture) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	w.note(r.Method + " " + r.URL.Path)
	w.mu.Lock()
	defer w.mu.Unlock()
	answer, ok := w.answers[r.URL.Path]
	if o, isObject := answer.(map[string]any); isObject && r.Method == http.MethodDelete { // something holds it
		if m, hasMeta := o["metadata"].(map[string]any); hasMeta {
			m["deletionTimestamp"] = "2020-01-01T00:00:00Z"
		}
	}
	out.Header().Set("Content-Type", "application/json")
	gv, isCore := strings.CutPrefix(r.URL.Path, "/api/")
	if !isCore {
		gv = strings.TrimPrefix(r.URL.Path, "/apis/")
	}
	switch {
	case ok:
	case strings.Count(r.URL.Path, "/") == 3 && !isCore, isCore && gv == "v1": // discovery: the cluster serves no other resource
		answer = map[string]any{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": gv, "resources": []any{}}
	default:
		answer = apierrors.NewNotFound(schema.GroupResource{Resource: "things"}, path.Base(r.URL.Path))
	}
	if refusal, isRefusal := answer.(*apierrors.StatusError); isRefusal {
		status := refusal.ErrStatus
		status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
		out.WriteHeader(int(status.Code))
		answer = status
	}
	if err := json.NewEncoder(out).Encode(answer); err != nil {
		w.t.Error(err)
	}
}

// anchored puts an anchor on the cluster that says whose the installation is.
func (w *directFixture) anchored(owner string, hub types.UID) {
	m := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{
		"namespace": "knative-serving", "name": "knativeserving-self-root-owner",
		"annotations": map[string]any{api.InstalledForAnnotation: owner, api.HubAnnotation: string(hub), "operator.knative.dev/anchor": "true"},
	}}
	w.setAnswer("/api/v1/namespaces/knative-serving/configmaps/knativeserving-self-root-owner", m)
}

// Conflict implements Finder.
func (w *directFixture) Conflict() (resolve.Result, bool) { return w.conflict, w.conflict.Reason != "" }

// Annotations implements Finder.
func (w *directFixture) Annotations(config *unstructured.Unstructured) (target.Annotations, error) {
	if w.refused {
		return target.Annotations{Reason: api.ReasonEscalationNotPermitted, Message: "no trust"}, nil
	}
	return target.Annotations{Permitted: config.GetAnnotations()}, nil
}

// OfConfigFrom implements Bundles.
func (w *directFixture) OfConfigFrom(_ context.Context, _ api.Component, _ types.NamespacedName, place addon.Place) (*render.Bundle, error) {
	w.place = place
	if w.bundleError != nil {
		return nil, w.bundleError
	}
	if w.specError != nil && place.Revision == "" {
		return nil, w.specError
	}
	return w.bundle, nil
}

// clusters implements Clusters.
type clusters struct {
	w       *directFixture
	cluster *clustercache.Cluster
}

func (c *clusters) InstallsDirectly(*unstructured.Unstructured) bool { return !c.w.unserved }

func (c *clusters) FindCluster(context.Context, *unstructured.Unstructured) (*ReachableCluster, error) {
	if c.w.clusterError != nil || c.w.probing {
		return nil, c.w.clusterError
	}
	return &ReachableCluster{Cluster: c.cluster, UID: spokeUID, HubUID: hubUID, Values: c.w.values}, nil
}

func (c *clusters) InstallNamespace(config *unstructured.Unstructured) string {
	return requestedNamespace(componentOf(config), config)
}

func (c *clusters) DisplayName(*unstructured.Unstructured) string { return "the hub" }

func (c *clusters) Forget(api.Component, types.NamespacedName) {}

// reconcile runs one reconcile with a cache that is up to date.
func (w *directFixture) reconcile() (reconcile.Result, error) {
	w.t.Helper()
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	if c := w.config(); c != nil {
		if err := indexer.Add(c); err != nil {
			w.t.Fatal(err)
		}
	}
	w.r.Configs = cache.NewGenericLister(indexer, api.Serving.Resource().GroupResource())
	return reconciler.Wrap(w.r, reconciler.OfComponent(api.Serving)).Reconcile(w.t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "knative-serving", Name: "self"}})
}

func (w *directFixture) config() *unstructured.Unstructured {
	w.t.Helper()
	o, err := w.configs.Tracker().Get(api.Serving.Resource(), "knative-serving", "self")
	if apierrors.IsNotFound(err) {
		return nil
	}
	c, ok := o.(*unstructured.Unstructured)
	if err != nil || !ok {
		w.t.Fatalf("the resource is %T: %v", o, err)
	}
	return c
}

func (w *directFixture) condition(name string) metav1.Condition {
	w.t.Helper()
	s, err := readStatus(w.config())
	if err != nil {
		w.t.Fatal(err)
	}
	if c := apimeta.FindStatusCondition(s.Conditions, name); c != nil {
		return *c
	}
	return metav1.Condition{}
}

var errLost = errors.New("no connection")

// localServing is a KnativeServing knative-serving/self.
func localServing(changes ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	c := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": api.Group + "/v1beta1", "kind": api.Serving.Kind(), "spec": map[string]any{},
		"metadata": map[string]any{"namespace": "knative-serving", "name": "self", "uid": "uid", "generation": int64(1), "resourceVersion": "1"},
	}}
	for _, change := range changes {
		change(c)
	}
	return c
}

// directFinalized is held, and installed on the cluster that is there.
func directFinalized(c *unstructured.Unstructured) {
	c.SetFinalizers([]string{"others/x", api.DirectFinalizer})
	withAnnotation(api.InstalledOnAnnotation, string(spokeUID))(c)
}

func withAnnotation(key, value string) func(*unstructured.Unstructured) {
	return func(c *unstructured.Unstructured) {
		annotations := map[string]string{key: value}
		for k, v := range c.GetAnnotations() {
			if k != key {
				annotations[k] = v
			}
		}
		c.SetAnnotations(annotations)
	}
}
