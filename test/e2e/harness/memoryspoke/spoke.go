// Copyright Contributors to the Open Cluster Management project

package memoryspoke

import (
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/version"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"open-cluster-management.io/knative-addon/test/e2e/harness/played"
)

// kubernetesVersion is the version that a Spoke reports.
const kubernetesVersion = "v1.35.4"

// Spoke is a cluster in memory.
type Spoke struct {
	Name string
	// URL and CA are the address and the certificate of the server. Token is the credential of an administrator.
	URL   string
	CA    []byte
	Token string

	// Watchers see every write of an object.
	*played.Watchers[Write]

	server *httptest.Server
	store  *store
	// requests counts the requests.
	requests atomic.Int64
}

// Write is an object that a client has created, updated or applied.
type Write struct {
	Spoke           string
	Resource        schema.GroupResource
	Namespace, Name string
	// Body is the body of the request.
	Body []byte
}

// Start starts a Spoke without objects but the namespaces default and kube-system. Several spokes may share the watchers.
func Start(name string, watchers *played.Watchers[Write]) *Spoke {
	s := &Spoke{Name: name, Token: rand.Text(), Watchers: watchers, store: newStore()}
	s.server = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.server.EnableHTTP2 = true
	s.server.StartTLS()
	s.URL = s.server.URL
	s.CA = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.server.Certificate().Raw})
	return s
}

// Close ends the server and all watches.
func (s *Spoke) Close() {
	s.server.CloseClientConnections()
	s.server.Close()
}

// CountObjects returns the number of objects.
func (s *Spoke) CountObjects() int {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	return len(s.store.objects)
}

// CountRequests returns the number of requests since the start. A watch is one request.
func (s *Spoke) CountRequests() int { return int(s.requests.Load()) }

// serve answers a request.
func (s *Spoke) serve(w http.ResponseWriter, r *http.Request) {
	s.requests.Add(1)
	body, err := readBody(r)
	if err != nil {
		writeError(w, apierrors.NewBadRequest(err.Error()))
		return
	}
	if r.Header.Get("Authorization") != "Bearer "+s.Token {
		writeError(w, apierrors.NewUnauthorized("Unauthorized"))
		return
	}
	if r.URL.Path == "/version" {
		writeJSON(w, http.StatusOK, version.Info{Major: "1", Minor: "35", GitVersion: kubernetesVersion})
		return
	}
	verb, path, ok := parseRequest(r)
	if !ok || verb != verbDiscover && !s.store.serves(path) {
		writeError(w, newUnservedError(path))
		return
	}
	switch verb {
	case verbDiscover:
		writeJSON(w, http.StatusOK, s.store.discover(path.GroupVersion()))
	case verbWatch:
		s.store.watch(w, r, path)
	case verbList:
		out, err := s.store.list(r, path)
		writeResult(w, out, err)
	default:
		out, err := s.store.answer(&request{verb: verb, path: path, body: body, fieldManager: r.URL.Query().Get("fieldManager")})
		if err == nil && (verb == verbCreate || verb == verbUpdate || verb == verbApply) {
			s.NotifyWatchers(Write{Spoke: s.Name, Resource: path.GroupResource(), Namespace: path.namespace, Name: out.GetName(), Body: body})
		}
		writeResult(w, selectFields(r, out), err)
	}
}

// readBody returns the body of a request as JSON. Clients of Kubernetes' own kinds send Protobuf.
func readBody(r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil || !strings.HasPrefix(r.Header.Get("Content-Type"), runtime.ContentTypeProtobuf) {
		return body, err
	}
	object, kind, err := clientgoscheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("cannot decode the body: %w", err)
	}
	object.GetObjectKind().SetGroupVersionKind(*kind)
	return json.Marshal(object)
}

func newUID() string { return string(uuid.NewUUID()) }

// newUnservedError is the error of an API server that does not know a path.
func newUnservedError(path objectPath) error {
	return apierrors.NewGenericServerResponse(http.StatusNotFound, "", path.GroupResource(), path.name, "404 page not found", 0, true)
}

func writeResult(w http.ResponseWriter, result any, err error) {
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, result)
}

func writeError(w http.ResponseWriter, err error) {
	status := apierrors.NewInternalError(err).ErrStatus
	if known := apierrors.APIStatus(nil); errors.As(err, &known) {
		status = known.Status()
	}
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	writeJSON(w, int(status.Code), status)
}

func writeJSON(w http.ResponseWriter, code int, content any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(content) // a client that is gone needs no response
}
