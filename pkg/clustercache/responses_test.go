// Copyright Contributors to the Open Cluster Management project

package clustercache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/boundedhttp/boundedhttptest"
	"open-cluster-management.io/knative-addon/pkg/workload"
)

// hostileServer answers lists and watches of a TLS server as a test says. Nothing before the connection limits the answers.
type hostileServer struct {
	list, watch func(w http.ResponseWriter, r *http.Request)
	watches     atomic.Int32
}

func (h *hostileServer) connect(t *testing.T, options Options) (c *Cluster, changed <-chan api.Component) {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Get("watch") == "" {
			h.list(w, r)
			return
		}
		h.watches.Add(1)
		h.watch(w, r)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	events := make(chan api.Component, 1000)
	options.Changed = func(component api.Component) {
		select {
		case events <- component:
		default:
		}
	}
	c, err := Connect(&rest.Config{Host: server.URL, QPS: -1}, server.Client(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, events
}

// writeList writes a list with the names from one to before another, and a token for the next page if there is one.
func writeList(w io.Writer, from, to int, next string) {
	fmt.Fprintf(w, `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"9","continue":%q},"items":[`, next)
	for n := from; n < to; n++ {
		if n > from {
			_, _ = io.WriteString(w, ",")
		}
		_, _ = io.WriteString(w, metadataOf(n))
	}
	_, _ = io.WriteString(w, "]}")
}

func metadataOf(n int) string {
	return fmt.Sprintf(`{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"namespace":"team","name":"n%d","uid":"u%d","resourceVersion":"%d","labels":{%q:"serving"}}}`,
		n, n, n+10, api.ComponentLabel)
}

var inTeam = Place{configMaps(), "team"}

func TestListsAreReadInPages(t *testing.T) {
	var mu sync.Mutex
	var asked []string
	h := &hostileServer{list: func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		mu.Lock()
		asked = append(asked, q.Get("limit")+" "+q.Get("continue"))
		mu.Unlock()
		from, _ := strconv.Atoi(q.Get("continue"))
		next := strconv.Itoa(from + pageSize)
		if from == 2*pageSize {
			next = ""
		}
		writeList(w, from, from+pageSize, next)
	}, watch: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }}
	c, _ := h.connect(t, Options{})
	v, err := c.View(t.Context(), inTeam)
	if err != nil || len(v.List()) != 3*pageSize {
		t.Fatalf("got %v", err)
	}
	mu.Lock()
	defer mu.Unlock()
	if want := []string{"250 ", "250 250", "250 500"}; !slices.Equal(asked, want) {
		t.Errorf("asked for %q, want %q", asked, want)
	}
}

// TestListsWithoutEndAreRefused holds that a cluster which always has a next page, or one that ignores the limit, is told what
// is too much there.
func TestListsWithoutEndAreRefused(t *testing.T) {
	for name, list := range map[string]func(w http.ResponseWriter, r *http.Request){
		"always a next page":       func(w http.ResponseWriter, _ *http.Request) { writeList(w, 0, 0, "next") },
		"more than fits":           func(w http.ResponseWriter, _ *http.Request) { writeList(w, 0, MaxObjects+1, "") },
		"a token of two megabytes": func(w http.ResponseWriter, _ *http.Request) { writeList(w, 0, 1, strings.Repeat("z", 2<<20)) },
	} {
		t.Run(name, func(t *testing.T) {
			var lists atomic.Int32
			h := &hostileServer{list: func(w http.ResponseWriter, r *http.Request) {
				lists.Add(1)
				list(w, r)
			}}
			c, _ := h.connect(t, Options{})
			_, err := c.View(t.Context(), inTeam)
			if blocked, ok := errors.AsType[*BlockedError](WrapRefusal(err)); !ok || !strings.Contains(blocked.Error(), "cannot list configmaps") {
				t.Errorf("got %v", err)
			}
			if lists.Load() > MaxObjects/pageSize+1 {
				t.Errorf("%d lists", lists.Load())
			}
			if c.quota.reserved != 0 {
				t.Errorf("%d objects are kept", c.quota.reserved)
			}
		})
	}
}

func TestObjectsOfAllViewsAreBounded(t *testing.T) {
	h := &hostileServer{
		list:  func(w http.ResponseWriter, _ *http.Request) { writeList(w, 0, MaxObjects/2+1, "") },
		watch: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	}
	c, _ := h.connect(t, Options{})
	if _, err := c.View(t.Context(), inTeam); err != nil {
		t.Fatal(err)
	}
	if _, err := c.View(t.Context(), Place{configMaps(), "other"}); !IsBoundError(err) {
		t.Errorf("got %v", err)
	}
	if c.quota.reserved != MaxObjects/2+1 {
		t.Errorf("%d objects are kept", c.quota.reserved)
	}
}

// TestLongNamesAreRefused holds that what is kept of an object is short, whatever the cluster calls it.
func TestLongNamesAreRefused(t *testing.T) {
	long := strings.Repeat("z", 300)
	for name, m := range map[string]metav1.ObjectMeta{
		"name": {Name: long}, "namespace": {Namespace: long}, "UID": {UID: types.UID(long)},
		"resource version": {ResourceVersion: long}, "label": {Labels: map[string]string{api.ComponentLabel: long}},
	} {
		if _, err := ReadObject(&metav1.PartialObjectMetadata{ObjectMeta: m}); !IsBoundError(err) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestWatchesAreCut holds that a cluster whose watches bring too much is listed instead, that this is logged, and that the
// views keep no more than there is room for.
func TestWatchesAreCut(t *testing.T) { //nolint:gocognit // one story of a server, a watch and a log
	flood := func(w http.ResponseWriter, r *http.Request, event func(n int) string) {
		for n := 0; r.Context().Err() == nil; n++ {
			if _, err := io.WriteString(w, event(n)); err != nil {
				return
			}
		}
	}
	added := func(n int) string { return `{"type":"ADDED","object":` + metadataOf(n) + "}\n" }
	for name, tc := range map[string]struct {
		event func(n int) string
		want  string
	}{
		"new objects without end": {added, "the cluster has more than 2000 objects"},
		"the same object without end": {func(n int) string {
			return fmt.Sprintf(`{"type":"MODIFIED","object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"namespace":"team","name":"a","uid":"u","resourceVersion":"%d"}}}`+"\n", n+10)
		}, "more than 5000 events"},
		"one event without end": {func(n int) string {
			if n == 0 {
				return `{"type":"ADDED","object":{"metadata":{"name":"`
			}
			return strings.Repeat("z", 1000)
		}, "an event of its watches is longer than 512 KiB"},
		"an event of empty entries": {func(n int) string {
			if n == 0 {
				return `{"type":"ADDED","object":{"metadata":{"managedFields":[`
			}
			return strings.Repeat("{},", 1000)
		}, "an event of its watches has more than 20000 values"},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			var logged []string
			log := funcr.New(func(_, args string) {
				mu.Lock()
				defer mu.Unlock()
				logged = append(logged, args)
			}, funcr.Options{})
			h := &hostileServer{
				list:  func(w http.ResponseWriter, _ *http.Request) { writeList(w, 0, 1, "") },
				watch: func(w http.ResponseWriter, r *http.Request) { flood(w, r, tc.event) },
			}
			c, changed := h.connect(t, Options{PollInterval: time.Hour, Log: log})
			v, err := c.View(t.Context(), inTeam)
			if err != nil {
				t.Fatal(err)
			}
			for c.WatchProblem() == "" {
				<-changed // it is told
			}
			for c.Watched() {
				time.Sleep(time.Millisecond) // the watch ends after the cluster has reported the problem
			}
			if !strings.Contains(c.WatchProblem(), tc.want) {
				t.Errorf("the problem is %q, want %q", c.WatchProblem(), tc.want)
			}
			if n := len(v.List()); n > MaxObjects {
				t.Errorf("%d objects are kept", n)
			}
			mu.Lock()
			defer mu.Unlock()
			if text := strings.Join(logged, "\n"); strings.Count(text, "watches are cut; listing instead") != 1 || !strings.Contains(text, tc.want) {
				t.Errorf("logged %q", text)
			}
			if n := h.watches.Load(); n != 1 {
				t.Errorf("%d watches", n)
			}
		})
	}
}

func TestWatchBudgetComesBack(t *testing.T) {
	now := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	b := newWatchBudget(now, nil)
	if err := b.countEvents(burstBytes, burstEvents, 0); err != nil {
		t.Fatal(err)
	}
	if err := b.countEvents(0, 1, 0); err == nil {
		t.Error("more events than allowed")
	}
	now.SetTime(now.Now().Add(time.Second))
	if err := b.countEvents(bytesPerSecond/2, eventsPerSecond/2, 0); err != nil {
		t.Error(err)
	}
	if err := b.countEvents(bytesPerSecond, 0, 0); err == nil {
		t.Error("more bytes than allowed")
	}
	now.SetTime(now.Now().Add(time.Hour))
	if err := b.countEvents(0, 0, maxLargeEvents+1); err == nil {
		t.Error("more large events than allowed")
	}
}

// TestWorkloadsAreReadInPart holds that only fields that are needed are decoded: 3 bytes of JSON are a container of 700.
func TestWorkloadsAreReadInPart(t *testing.T) {
	u := &unstructured.Unstructured{Object: map[string]any{
		"kind": "Deployment", "metadata": map[string]any{"namespace": "a", "name": "b", "generation": int64(3)},
		"spec":   map[string]any{"replicas": int64(2), "template": "no template", "selector": []any{}},
		"status": map[string]any{"observedGeneration": int64(2), "replicas": int64(4), "updatedReplicas": int64(1), "availableReplicas": int64(3)},
	}}
	s, err := readWorkload(u)
	if err != nil {
		t.Fatal(err)
	}
	want := workload.State{
		Generation: 3, ObservedGeneration: 2, Desired: 2, Total: 4, Updated: 1, Available: 3,
	}
	if *s.Workload != want {
		t.Errorf("got %+v, want %+v", *s.Workload, want)
	}
}

// TestServicesAreReadInPart holds which fields of a Service of Knative the cache keeps, and that texts of a cluster are bounded.
func TestServicesAreReadInPart(t *testing.T) {
	ready := map[string]any{"type": "Ready", "status": "False", "reason": "RevisionFailed", "message": strings.Repeat("x", 1<<20)}
	service := func(conditions any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "serving.knative.dev/v1", "kind": "Service", "metadata": map[string]any{"namespace": "a", "name": "b", "generation": int64(3)},
			"spec":   map[string]any{"template": map[string]any{"metadata": map[string]any{"annotations": map[string]any{api.VerifiesAnnotation: "r1"}}}},
			"status": map[string]any{"observedGeneration": int64(2), "conditions": conditions},
		}}
	}
	s, err := readWorkload(service([]any{"no condition", ready, map[string]any{"type": "RoutesReady", "status": "True"}}))
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Service.Message) > maxServiceText {
		t.Errorf("the cache keeps %d bytes of a message", len(s.Service.Message))
	}
	s.Service.Message = ""
	want := workload.ServiceState{Verifies: "r1", Generation: 3, ObservedGeneration: 2, Ready: "False", Reason: "RevisionFailed"}
	if *s.Service != want {
		t.Errorf("got %+v, want %+v", *s.Service, want)
	}
	if s, err = readWorkload(service("no conditions")); err != nil || s.Service.Ready != "" {
		t.Errorf("a Service without conditions is %+v, error %v", s.Service, err)
	}
}

// FuzzSpokeAnswers decodes what a cluster answers, through every client and as every kind of answer. Nothing may panic, take
// more than the limits say, or have a cause that is no text for a condition.
func FuzzSpokeAnswers(f *testing.F) { //nolint:gocognit // every client and every kind of answer, one after the other
	f.Add(200, []byte(`{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"9"},"items":[`+metadataOf(1)+`,{},null]}`))
	f.Add(200, []byte(`{"kind":"DeploymentList","apiVersion":"apps/v1","metadata":{},"items":[{"kind":"Deployment","metadata":{"name":"a"},"spec":{"replicas":1},"status":{"replicas":99999999999}}]}`))
	f.Add(200, []byte(`{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"continue":"x"},"items":[{"metadata":{"annotations":{"operator.knative.dev/anchor":"true"}}}]}`))
	f.Add(200, []byte(`{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"a","kind":"B"}]}`))
	f.Add(403, []byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"\u0007\u001b[2J","details":{"causes":[{}]}}`))
	f.Add(200, []byte(`{"type":"ADDED","object":`+metadataOf(2)+"}\n"+`{"type":"ERROR","object":{"kind":"Status","code":410}}`))
	f.Add(200, []byte(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","uid":"b"},"data":{"inventory":"{\"version\":\"v1\",\"resource\":\"a\",\"kind\":\"b\",\"name\":\"c\"}"}}`))
	f.Add(200, []byte(strings.Repeat(`{"items":[`, 20)))
	f.Add(200, []byte(`{"items":[`+strings.Repeat("{},", 100)))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		if status < 200 || status > 599 {
			return
		}
		server := boundedhttptest.NewServer(status, body)
		c, err := Connect(&rest.Config{Host: "http://spoke", QPS: -1}, &http.Client{Transport: server}, Options{Changed: func(api.Component) {}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for _, gvr := range []schema.GroupVersionResource{configMaps(), {Group: "apps", Version: "v1", Resource: "deployments"}} {
			at := Place{gvr, "knative-serving"}
			before := server.ReadBytes()
			objects, version, err := c.listObjects(ctx, at, metav1.ListOptions{}, nil)
			boundedhttptest.CheckError(t, err)
			if len(objects) > MaxObjects || len(version) > maxVersionBytes {
				t.Errorf("%d objects of version %.80q", len(objects), version)
			}
			if read := server.ReadBytes() - before; read > int64(MaxObjects/pageSize+1)*(boundedhttptest.Limits().Bytes+32<<10) {
				t.Errorf("%d bytes were read", read)
			}
			w, err := c.watchObjects(ctx, at, metav1.ListOptions{})
			boundedhttptest.CheckError(t, err)
			if err == nil {
				for e := range w.ResultChan() {
					_, err := ReadObject(e.Object)
					boundedhttptest.CheckError(t, err)
				}
				w.Stop()
			}
		}
		_, err = c.UID(ctx)
		boundedhttptest.CheckError(t, err)
	})
}

// TestRequestsThatShortenPolls holds that a write of the manager counts as a change of the cluster.
func TestRequestsThatShortenPolls(t *testing.T) {
	h := &hostileServer{list: func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/kube-system") {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		writeList(w, 0, 1, "")
	}}
	c, _ := h.connect(t, Options{Limit: NewWatchLimit(0)})
	for name, tc := range map[string]struct {
		request func() error
		want    bool
	}{
		"a list":          {func() error { _, _, err := c.listObjects(t.Context(), inTeam, metav1.ListOptions{}, nil); return err }, false},
		"a write":         {func() error { return c.Core.ConfigMaps("team").Delete(t.Context(), "n1", metav1.DeleteOptions{}) }, true},
		"a probe in vain": {func() error { _, _ = c.UID(t.Context()); return nil }, false},
	} {
		c.poller.mu.Lock()
		c.poller.changedAt = time.Time{}
		c.poller.mu.Unlock()
		if err := tc.request(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		c.poller.mu.Lock()
		if got := !c.poller.changedAt.IsZero(); got != tc.want {
			t.Errorf("%s: counts as a change: %t, want %t", name, got, tc.want)
		}
		c.poller.mu.Unlock()
	}
}

// TestUnchangedObjectsStay holds that a list decodes only objects that have changed since the view cached the objects.
func TestUnchangedObjectsStay(t *testing.T) {
	object := func(uid, version string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "a", UID: types.UID(uid), ResourceVersion: version}}
	}
	v := newView(func(api.Component) {})
	have, err := v.readObject(object("u", "5"))
	if err != nil {
		t.Fatal(err)
	}
	v.replaceObjects([]*Object{have}, "5")
	for name, tc := range map[string]struct {
		object *metav1.PartialObjectMetadata
		stays  bool
	}{
		"the same version": {object("u", "5"), true}, "another version": {object("u", "6"), false}, "another object": {object("x", "5"), false},
	} {
		if got, err := v.readObject(tc.object); err != nil || (got == have) != tc.stays {
			t.Errorf("%s: the cached object stays: %t, error %v", name, got == have, err)
		}
	}
}

// TestWatchesOfWorkloadsSuffice holds that a cluster without a slot of the limit counts as watched when the watches of workloads are live: such
// a watch ends when the cluster is silent, and no frequent probe is necessary.
func TestWatchesOfWorkloadsSuffice(t *testing.T) {
	h := &hostileServer{
		list: func(w http.ResponseWriter, _ *http.Request) { writeList(w, 0, 0, "") },
		watch: func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		},
	}
	c, _ := h.connect(t, Options{Limit: NewWatchLimit(0), PollInterval: time.Hour})
	if _, err := c.Views(t.Context(), "a", []Place{inTeam}); err != nil || c.Watched() {
		t.Errorf("a cluster with ConfigMaps counts as watched: %t, error %v", c.Watched(), err)
	}
	if _, err := c.Views(t.Context(), "a", []Place{inTeam, deployments()}); err != nil {
		t.Fatal(err)
	}
	for !c.Watched() {
		time.Sleep(time.Millisecond) // the watch of Deployments begins after the first list
	}
	if n := h.watches.Load(); n != 1 {
		t.Errorf("%d watches, want that of Deployments", n)
	}
	c.Close()
	if c.Watched() {
		t.Error("a closed connection counts as watched")
	}
}
