// Copyright Contributors to the Open Cluster Management project

package installations

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// apiServer plays the lists of a hub's API server, in pages.
type apiServer struct {
	// items are the objects of each resource; add-ons by resource and name.
	items map[string][]json.RawMessage
	// forbidden are the resources that the user may not list.
	forbidden map[string]bool

	mu       sync.Mutex
	requests []string
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests = append(s.requests, r.URL.String())
	s.mu.Unlock()
	resource := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	w.Header().Set("Content-Type", "application/json")
	if s.forbidden[resource] {
		status := apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", fmt.Errorf("no permission")).Status()
		w.WriteHeader(http.StatusForbidden)
		_ = json.NewEncoder(w).Encode(status)
		return
	}
	query := r.URL.Query()
	items := s.items[resource+strings.TrimPrefix(query.Get("fieldSelector"), "metadata.name")]
	first, _ := strconv.Atoi(query.Get("continue")) // 0 without a text
	limit, _ := strconv.Atoi(query.Get("limit"))
	if limit == 0 {
		limit = len(items)
	}
	page := items[first:min(len(items), first+limit)]
	metadata := map[string]any{"resourceVersion": "1"}
	if next := first + len(page); next < len(items) {
		metadata["continue"] = strconv.Itoa(next)
	}
	group, kind := "operator.knative.dev/v1beta1", "List"
	if strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadataList") {
		group, kind = "meta.k8s.io/v1", "PartialObjectMetadataList"
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": group, "kind": kind, "metadata": metadata, "items": page})
}

func encode(t testing.TB, object any) json.RawMessage {
	t.Helper()
	out, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// newFleetServer returns an API server of 1,000 clusters, half of them with a work agent.
func newFleetServer(t testing.TB) *apiServer {
	t.Helper()
	out := &apiServer{items: map[string][]json.RawMessage{}, forbidden: map[string]bool{}}
	fleet := serving("default")
	add := func(resource string, object any) {
		out.items[resource] = append(out.items[resource], encode(t, object))
	}
	add("knativeservings", fleet)
	for n := range 500 {
		cluster := fmt.Sprintf("c-%03d", n)
		add("managedclusteraddons=knative-serving", addOn(t, cluster, fleet, hashOf(t, fleet), resolved, delivered, available))
		work := foundation(cluster, "1.23.0")
		work.TypeMeta = metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"}
		add("manifestworks", work)
		add("knativeservings", serving(cluster, onCluster(cluster), withFinalizer(api.DirectFinalizer), withConditions(ready, applied)))
	}
	return out
}

// connectTo returns a hub with the server.
func connectTo(t testing.TB, s http.Handler) *Hub {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	hub, err := Connect(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return hub
}

// TestListCost holds that a list of 1,000 clusters needs pages alone, and no request for a single cluster.
func TestListCost(t *testing.T) {
	server := newFleetServer(t)
	hub := connectTo(t, server)
	objects, failed := hub.List(t.Context(), Query{Components: api.Components()})
	if len(failed) > 0 {
		t.Fatal(failed)
	}
	all := Compose(objects)
	if s := Summarize(all); s.Total != 1000 || s.Ready != 1000 {
		t.Errorf("summary is %+v, want 1000 of 1000", s)
	}
	if all[0].Version != "1.23.0" {
		t.Errorf("the first installation lacks the version of its ManifestWork: %+v", all[0])
	}
	// 501 resources are 2 pages, and every other list, of which two are empty, is 1 page.
	if len(server.requests) != 9 {
		t.Errorf("the list needed %d requests, want 9:\n%s", len(server.requests), strings.Join(server.requests, "\n"))
	}
	for _, request := range server.requests {
		if !strings.Contains(request, "limit=500") || strings.Contains(request, "c-0") {
			t.Errorf("request %s is not a page of all clusters", request)
		}
	}
}

// TestForbiddenList holds that a list that the hub refuses hides neither the other lists nor its own name.
func TestForbiddenList(t *testing.T) {
	server := newFleetServer(t)
	server.forbidden["managedclusteraddons"], server.forbidden["manifestworks"] = true, true
	hub := connectTo(t, server)
	objects, failed := hub.List(t.Context(), Query{Components: []api.Component{api.Serving}})
	if got := len(Compose(objects)); got != 500 {
		t.Errorf("%d installations, want the 500 without a work agent", got)
	}
	if len(failed) != 2 || failed[0].IsOptional || !failed[1].IsOptional {
		t.Fatalf("errors are %v, want those of add-ons and, as an optional list, of works", failed)
	}
	for n, resource := range []string{"managedclusteraddons.addon.open-cluster-management.io", "manifestworks.work.open-cluster-management.io"} {
		text := failed[n].Error()
		if failed[n].Resource != resource || !apierrors.IsForbidden(failed[n]) || !strings.Contains(text, hub.Name) || !strings.Contains(text, "--namespace") {
			t.Errorf("error is %q for %s, want list, hub and next step for %s", text, failed[n].Resource, resource)
		}
	}
}

func TestListOfANamespace(t *testing.T) {
	server := newFleetServer(t)
	hub := connectTo(t, server)
	if _, failed := hub.List(t.Context(), Query{Namespace: "team", Components: api.Components()}); len(failed) > 0 {
		t.Fatal(failed)
	}
	for _, request := range server.requests {
		if !strings.Contains(request, "/namespaces/team/") {
			t.Errorf("request %s is not for the namespace", request)
		}
	}
}

func TestSelectClusters(t *testing.T) {
	server := newFleetServer(t)
	for resource, namespace := range map[string]string{"managedclusters": "", "clusterprofiles": "team"} {
		server.items[resource] = []json.RawMessage{encode(t, &metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"},
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "eu"},
		})}
	}
	clusters, failed := connectTo(t, server).SelectClusters(t.Context(), Query{}, "region=eu")
	if len(failed) > 0 || !clusters.HasAll("eu", "team/eu") || len(clusters) != 2 {
		t.Errorf("clusters are %v, errors %v", clusters, failed)
	}
	for _, request := range server.requests {
		if !strings.Contains(request, "labelSelector=region%3Deu") {
			t.Errorf("request %s lacks the selector", request)
		}
	}
}

// TestUnansweredList holds that an address without a server is not taken for a hub without installations.
func TestUnansweredList(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	hub, err := Connect(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	_, failed := hub.List(t.Context(), Query{Components: api.Components()})
	if len(failed) != 7 || !IsUnanswered(failed[0]) || !strings.Contains(failed[0].Error(), server.URL) || !strings.Contains(failed[0].Error(), "--context") {
		t.Errorf("errors are %v", failed)
	}
	if IsUnanswered(runtime.NewNotRegisteredErrForKind("", schema.GroupVersionKind{})) != true || IsUnanswered(nil) {
		t.Error("an error without an answer of the API server is not recognized")
	}
}

// BenchmarkList measures a list of 1,000 clusters with its rows.
func BenchmarkList(b *testing.B) {
	hub := connectTo(b, newFleetServer(b))
	b.ReportAllocs()
	for b.Loop() {
		objects, failed := hub.List(b.Context(), Query{Components: api.Components()})
		if len(failed) > 0 || len(Compose(objects)) != 1000 {
			b.Fatal(failed)
		}
	}
}
