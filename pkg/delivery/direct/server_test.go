// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/clustercache"
)

// apiServer is as much of an API server as this package needs: it keeps objects, counts their versions, honours
// preconditions and finalizers, knows who applied what, serves the kinds of its CRDs only, and can be watched. It notes
// what it is asked, and fails when it is told to.
type apiServer struct {
	t    *testing.T
	host string
	// awaitsWrites makes a client that is cancelled wait for the answers to the writes that the client has begun.
	awaitsWrites atomic.Bool
	// before is asked before each request whether it fails; the request is as in "apply deployments/ns/name".
	before func(request string) error

	mu       sync.Mutex
	grown    *sync.Cond
	version  int
	objects  map[path]*unstructured.Unstructured
	history  []change
	requests []string
	deletes  []metav1.DeleteOptions
}

// path is where an object is.
type path struct {
	resource        schema.GroupVersionResource
	namespace, name string
}

type change struct {
	version int
	kind    string
	path    path
	object  *unstructured.Unstructured
}

// newServer serves until the test ends.
func newServer(t *testing.T) *apiServer {
	t.Helper()
	s := &apiServer{t: t, version: 1000, objects: map[path]*unstructured.Unstructured{}}
	s.grown = sync.NewCond(&s.mu)
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	s.host = h.URL
	return s
}

// connect makes a connection that ends with the test. seen has an event for each change that a watch has delivered.
func (s *apiServer) connect() (c *clustercache.Cluster, seen <-chan struct{}) {
	s.t.Helper()
	return s.connectWith(clustercache.Options{})
}

// connectWith is connect with a say in how is seen what changes.
func (s *apiServer) connectWith(options clustercache.Options) (c *clustercache.Cluster, seen <-chan struct{}) {
	s.t.Helper()
	events := make(chan struct{}, 1)
	options.Changed = func(api.Component) {
		select {
		case events <- struct{}{}:
		default:
		}
	}
	c, err := clustercache.Connect(&rest.Config{Host: s.host, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON}}, &http.Client{Transport: s}, options)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(c.Close)
	return c, events
}

// RoundTrip implements http.RoundTripper for the clients of the server.
func (s *apiServer) RoundTrip(r *http.Request) (*http.Response, error) {
	if s.awaitsWrites.Load() && r.Method != http.MethodGet {
		if err := r.Context().Err(); err != nil {
			return nil, err
		}
		r = r.WithContext(context.WithoutCancel(r.Context()))
	}
	return http.DefaultTransport.RoundTrip(r)
}

// disturb sets what is asked before each request; nil ends that.
func (s *apiServer) disturb(before func(request string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = before
}

// asked returns what was asked since it was called last, without what only reads.
func (s *apiServer) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := slices.DeleteFunc(s.requests, func(r string) bool {
		return strings.HasPrefix(r, "get ") || strings.HasPrefix(r, "list ") || strings.HasPrefix(r, "watch ")
	})
	s.requests = nil
	return out
}

// names are the objects that there are, as "resource/namespace/name", sorted.
func (s *apiServer) names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for p := range s.objects {
		out = append(out, p.String())
	}
	slices.Sort(out)
	return out
}

func (p path) String() string {
	return strings.TrimSuffix(strings.ReplaceAll(p.resource.Resource+"/"+p.namespace+"/"+p.name, "//", "/"), "/")
}

// find is the object at "resource/namespace/name"; nil when there is none.
func (s *apiServer) find(name string) *unstructured.Unstructured {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p, o := range s.objects {
		if p.String() == name {
			return o.DeepCopy()
		}
	}
	return nil
}

// edit does what somebody on the cluster does to an object. What was applied of it is theirs then.
func (s *apiServer) edit(name string, edit func(*unstructured.Unstructured)) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for p, o := range s.objects {
		if p.String() != name {
			continue
		}
		o = o.DeepCopy()
		edit(o)
		if fields := o.GetManagedFields(); len(fields) > 0 {
			fields[0].FieldsV1 = &metav1.FieldsV1{Raw: []byte(`{"f:taken":{}}`)}
			o.SetManagedFields(fields)
		}
		s.put("MODIFIED", p, o)
		return
	}
	s.t.Fatalf("there is no %s", name)
}

// add puts objects on the cluster that somebody else has made.
func (s *apiServer) add(gvr schema.GroupVersionResource, objects ...*unstructured.Unstructured) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range objects {
		s.create(path{gvr, o.GetNamespace(), o.GetName()}, o.DeepCopy())
	}
}

// lose deletes an object as somebody on the cluster does.
func (s *apiServer) lose(name string) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for p, o := range s.objects {
		if p.String() == name {
			s.drop(p, o)
			return
		}
	}
	s.t.Fatalf("there is no %s", name)
}

// put, drop and create need the lock.
func (s *apiServer) put(kind string, p path, o *unstructured.Unstructured) {
	s.version++
	o.SetResourceVersion(strconv.Itoa(s.version))
	s.objects[p] = o
	s.history = append(s.history, change{s.version, kind, p, o})
	s.grown.Broadcast()
}

func (s *apiServer) drop(p path, o *unstructured.Unstructured) {
	s.put("DELETED", p, o.DeepCopy())
	delete(s.objects, p)
}

func (s *apiServer) create(p path, o *unstructured.Unstructured) {
	o.SetUID("uid-" + typesUID(s.version))
	s.put("ADDED", p, o)
}

// ServeHTTP implements http.Handler.
func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Errorf("cannot read the body of %s %s: %v", r.Method, r.URL, err)
	}
	p, discovery := parse(r.URL.Path)
	verb := verbOf(r, p)
	request := verb + " " + p.String()
	s.mu.Lock()
	s.requests = append(s.requests, request)
	before := s.before
	s.mu.Unlock()
	if before != nil {
		err = before(request)
	}
	switch {
	case err != nil:
		refuse(w, err)
	case discovery:
		s.discover(w, p.resource.GroupVersion())
	case verb == "watch":
		s.watch(w, r, p)
	default:
		s.mu.Lock()
		defer s.mu.Unlock()
		out, err := s.answer(verb, p, r, body)
		if err != nil {
			refuse(w, err)
			return
		}
		if verb != "list" {
			out = partial(r, out)
		}
		reply(w, out)
	}
}

func parse(url string) (p path, discovery bool) {
	parts := strings.Split(strings.Trim(url, "/"), "/")
	if parts[0] == "api" {
		parts = append([]string{"apis", ""}, parts[1:]...)
	}
	p.resource.Group, p.resource.Version, parts = parts[1], parts[2], parts[3:]
	if len(parts) > 2 && parts[0] == "namespaces" {
		p.namespace, parts = parts[1], parts[2:]
	}
	if len(parts) == 0 {
		return p, true
	}
	p.resource.Resource = parts[0]
	if len(parts) > 1 {
		p.name = parts[1]
	}
	return p, false
}

func verbOf(r *http.Request, p path) string {
	switch {
	case r.URL.Query().Get("watch") != "":
		return "watch"
	case r.Method == http.MethodGet && p.name == "":
		return "list"
	case r.Method == http.MethodPatch && strings.HasPrefix(r.Header.Get("Content-Type"), "application/apply-patch"):
		return "apply"
	}
	return map[string]string{"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}[r.Method]
}

// answer needs the lock.
func (s *apiServer) answer(verb string, p path, r *http.Request, body []byte) (map[string]any, error) {
	if !s.serves(p.resource) {
		return nil, unserved(p)
	}
	if verb == "list" {
		return s.list(p, r)
	}
	in := &unstructured.Unstructured{}
	if len(body) > 0 && verb != "delete" {
		if err := json.Unmarshal(body, &in.Object); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	if verb == "create" {
		p.name = in.GetName()
	}
	have, exists := s.objects[p]
	switch {
	case verb == "create" && exists:
		return nil, apierrors.NewAlreadyExists(p.resource.GroupResource(), p.name)
	case !exists && verb != "create" && verb != "apply":
		return nil, apierrors.NewNotFound(p.resource.GroupResource(), p.name)
	case verb == "get":
		return have.Object, nil
	case verb == "delete":
		return have.Object, s.delete(p, have, body)
	case verb == "update" && in.GetResourceVersion() != have.GetResourceVersion():
		return nil, apierrors.NewConflict(p.resource.GroupResource(), p.name, fmt.Errorf("it has changed"))
	case verb == "update":
		s.put("MODIFIED", p, in)
		return in.Object, nil
	}
	out := in
	if exists {
		out = &unstructured.Unstructured{Object: merge(have.DeepCopy().Object, in.Object)}
		if !reflect.DeepEqual(have.Object["spec"], out.Object["spec"]) {
			out.SetGeneration(have.GetGeneration() + 1)
		}
	}
	if verb == "apply" {
		out.SetManagedFields([]metav1.ManagedFieldsEntry{{
			Manager: r.URL.Query().Get("fieldManager"), Operation: metav1.ManagedFieldsOperationApply, FieldsType: "FieldsV1",
			FieldsV1: &metav1.FieldsV1{Raw: fmt.Appendf(nil, `{"f:%s":{}}`, clustercache.Digest([]byte(strings.Join(fieldPaths("", in.Object), " "))))},
		}})
	}
	if exists {
		s.put("MODIFIED", p, out)
	} else {
		s.create(p, out)
	}
	return out.Object, nil
}

// fieldPaths lists the paths of the fields of an object: managed fields have no values.
func fieldPaths(path string, value any) []string {
	object, ok := value.(map[string]any)
	if !ok {
		return []string{path}
	}
	var out []string
	for _, key := range slices.Sorted(maps.Keys(object)) {
		out = append(out, fieldPaths(path+"/"+key, object[key])...)
	}
	return out
}

func (s *apiServer) delete(p path, have *unstructured.Unstructured, body []byte) error {
	var options metav1.DeleteOptions
	if err := json.Unmarshal(body, &options); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	s.deletes = append(s.deletes, options)
	if u := options.Preconditions; u != nil && u.UID != nil && *u.UID != have.GetUID() {
		return apierrors.NewConflict(p.resource.GroupResource(), p.name, fmt.Errorf("its UID is %s", have.GetUID()))
	}
	if len(have.GetFinalizers()) == 0 {
		s.drop(p, have)
		return nil
	}
	leaving := have.DeepCopy()
	leaving.SetDeletionTimestamp(new(metav1.Unix(5000, 0)))
	s.put("MODIFIED", p, leaving)
	return nil
}

// merge is RFC 7386 for objects.
func merge(into, patch map[string]any) map[string]any {
	into = maps.Clone(into)
	for k, v := range patch {
		p, isMap := v.(map[string]any)
		have, _ := into[k].(map[string]any)
		switch {
		case v == nil:
			delete(into, k)
		case isMap && have != nil:
			into[k] = merge(have, p)
		default:
			into[k] = v
		}
	}
	return into
}
