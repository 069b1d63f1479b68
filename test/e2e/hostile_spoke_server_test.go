// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"compress/gzip"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/lab"
	"open-cluster-management.io/knative-addon/test/lab/faultproxy"
)

// hostileServer is as much of an API server as an installation needs, with TLS, and answers some requests in a way that is to
// stop the manager.
type hostileServer struct {
	*httptest.Server
	// uid is that of Namespace kube-system.
	uid string
	// attack answers a request, or returns false.
	attack func(w http.ResponseWriter, r *http.Request) bool
	// attacks counts the requests that were answered so.
	attacks atomic.Int32

	mu       sync.Mutex
	version  int
	objects  map[string]map[string]any
	resource map[string][]any // kinds that CRDs define, by group and version
}

func newHostileServer(t *testing.T, uid string, attack func(w http.ResponseWriter, r *http.Request) bool) *hostileServer {
	t.Helper()
	h := &hostileServer{uid: uid, attack: attack, objects: map[string]map[string]any{}, resource: map[string][]any{}}
	h.Server = httptest.NewUnstartedServer(h)
	h.Config.ErrorLog = log.New(io.Discard, "", 0) // clients that break off are what the test is about
	h.EnableHTTP2 = true
	h.StartTLS()
	t.Cleanup(func() { faultproxy.CloseServer(h.Server) })
	return h
}

// cluster is how a profile tells where the server is.
func (h *hostileServer) cluster() *lab.Cluster {
	return &lab.Cluster{URL: h.URL, CA: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw})}
}

// ServeHTTP implements http.Handler.
func (h *hostileServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if h.attack(w, r) {
		h.attacks.Add(1)
		return
	}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if parts[0] == "api" {
		parts = append([]string{"apis", ""}, parts[1:]...)
	}
	isList := len(parts) == 4 || len(parts) == 6 && parts[3] == "namespaces"
	switch {
	case r.URL.Path == "/version":
		_, _ = io.WriteString(w, `{"major":"1","minor":"35","gitVersion":"v1.35.4"}`)
	case strings.HasSuffix(r.URL.Path, "/namespaces/kube-system"):
		h.reply(w, r, map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "kube-system", "uid": h.uid}})
	case len(parts) == 3:
		h.discover(w, parts[1]+"/"+parts[2])
	case r.URL.Query().Get("watch") != "":
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	case r.Method == http.MethodGet && isList:
		h.list(w, r)
	case r.Method == http.MethodGet:
		h.mu.Lock()
		o := h.objects[r.URL.Path]
		h.mu.Unlock()
		h.reply(w, r, o)
	default:
		h.write(w, r)
	}
}

// reply writes an object as the client wants it; nil is one that does not exist.
func (h *hostileServer) reply(w http.ResponseWriter, r *http.Request, o map[string]any) {
	switch {
	case o == nil:
		w.WriteHeader(http.StatusNotFound)
		o = map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404, "details": map[string]any{"name": path.Base(r.URL.Path)}}
	case strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata"):
		o = map[string]any{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": o["metadata"]}
	}
	_ = json.NewEncoder(w).Encode(o)
}

func (h *hostileServer) discover(w http.ResponseWriter, groupVersion string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	_ = json.NewEncoder(w).Encode(map[string]any{"kind": "APIResourceList", "groupVersion": groupVersion, "resources": h.resource[groupVersion]})
}

func (h *hostileServer) list(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	items := []any{}
	resource := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	for path, o := range h.objects {
		of := path[:strings.LastIndex(path, "/")]
		ours := !strings.Contains(r.URL.Query().Get("labelSelector"), "!")
		if ours && (of == r.URL.Path || !strings.Contains(r.URL.Path, "/namespaces/") && strings.HasSuffix(of, "/"+resource)) {
			items = append(items, o)
		}
	}
	kind, version := "List", "v1"
	switch {
	case strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadataList"):
		kind, version = "PartialObjectMetadataList", "meta.k8s.io/v1"
	case resource == "configmaps":
		kind = "ConfigMapList"
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"kind": kind, "apiVersion": version, "items": items, "metadata": map[string]any{"resourceVersion": fmt.Sprint(h.version + 100)},
	})
}

// write takes whatever is written.
func (h *hostileServer) write(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r.Method == http.MethodDelete {
		delete(h.objects, r.URL.Path)
		h.reply(w, r, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Success"})
		return
	}
	o := h.decode(r)
	metadata, _ := o["metadata"].(map[string]any)
	if metadata == nil {
		w.WriteHeader(http.StatusUnsupportedMediaType)
		return
	}
	path := r.URL.Path
	if r.Method == http.MethodPost {
		path += "/" + fmt.Sprint(metadata["name"])
	}
	if before := h.objects[path]; before != nil && r.Method == http.MethodPatch {
		old, _ := before["metadata"].(map[string]any)
		merged := maps.Clone(before)
		maps.Copy(merged, o)
		kept := maps.Clone(old)
		maps.Copy(kept, metadata)
		metadata, merged["metadata"], o = kept, kept, merged
	}
	h.version++
	metadata["resourceVersion"] = fmt.Sprint(h.version + 100)
	if metadata["uid"] == nil {
		metadata["uid"] = fmt.Sprintf("uid-%d", h.version)
	}
	h.objects[path] = o
	h.storeCRD(o)
	if r.Method == http.MethodPost {
		w.WriteHeader(http.StatusCreated)
	}
	h.reply(w, r, o)
}

func (h *hostileServer) decode(r *http.Request) map[string]any {
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return nil
	}
	if strings.Contains(r.Header.Get("Content-Type"), "protobuf") {
		object, kind, err := clientgoscheme.Codecs.UniversalDeserializer().Decode(data, nil, nil)
		if err != nil {
			return nil
		}
		object.GetObjectKind().SetGroupVersionKind(*kind)
		if data, err = json.Marshal(object); err != nil {
			return nil
		}
	}
	var o map[string]any
	_ = json.Unmarshal(data, &o)
	return o
}

// storeCRD serves the kinds of a CRD.
func (h *hostileServer) storeCRD(o map[string]any) {
	var crd struct {
		Spec struct {
			Group    string                  `json:"group"`
			Names    map[string]any          `json:"names"`
			Versions []struct{ Name string } `json:"versions"`
		} `json:"spec"`
	}
	data, err := json.Marshal(o)
	if err != nil || o["kind"] != "CustomResourceDefinition" || json.Unmarshal(data, &crd) != nil {
		return
	}
	for _, v := range crd.Spec.Versions {
		groupVersion := crd.Spec.Group + "/" + v.Name
		h.resource[groupVersion] = append(h.resource[groupVersion], map[string]any{"name": crd.Spec.Names["plural"], "kind": crd.Spec.Names["kind"]})
	}
}

const (
	// flooded is how many bytes an answer has that is to fill the memory of the manager.
	flooded = 60 << 20
	// emptyList is the beginning of a list.
	emptyList = `{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[`
)

// floodResponse writes a text again and again.
func floodResponse(w io.Writer, begin, text string, bytes int) {
	_, _ = io.WriteString(w, begin)
	chunk := strings.Repeat(text, 1<<16/len(text))
	for sent := 0; sent < bytes; sent += len(chunk) {
		if _, err := io.WriteString(w, chunk); err != nil {
			return
		}
	}
}

func isList(r *http.Request) bool {
	return r.Method == http.MethodGet && r.URL.Query().Get("labelSelector") != "" && r.URL.Query().Get("watch") == ""
}

// floodList answers every list with 60 MiB of empty items.
func floodList(w http.ResponseWriter, r *http.Request) bool {
	if isList(r) {
		floodResponse(w, emptyList, "{},", flooded)
	}
	return isList(r)
}

// bombList answers every list with a few kilobytes that become 60 MiB.
func bombList(w http.ResponseWriter, r *http.Request) bool {
	if isList(r) {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		floodResponse(z, emptyList+`{"a":"`, "zzzzzzzz", flooded)
		_ = z.Close()
	}
	return isList(r)
}

// dribbleList answers every list with a byte in a while.
func dribbleList(w http.ResponseWriter, r *http.Request) bool {
	if !isList(r) {
		return false
	}
	for r.Context().Err() == nil {
		_, _ = io.WriteString(w, " ")
		_ = http.NewResponseController(w).Flush()
		select {
		case <-time.After(100 * time.Millisecond):
		case <-r.Context().Done():
		}
	}
	return true
}

// floodVersion answers the first request with 60 MiB.
func floodVersion(w http.ResponseWriter, r *http.Request) bool {
	if r.URL.Path == "/version" {
		floodResponse(w, `{"gitVersion":"`, "zzzzzzzz", flooded)
	}
	return r.URL.Path == "/version"
}

// floodFailure refuses to say what is installed, with a text that no terminal should get.
func floodFailure(w http.ResponseWriter, r *http.Request) bool {
	if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, "/configmaps/") {
		return false
	}
	w.WriteHeader(http.StatusForbidden)
	floodResponse(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"\u001b[2J\u0007`, "zzzzzzzz", 100<<10)
	_, _ = io.WriteString(w, `"}`)
	return true
}

// floodWatch answers every watch with new objects without end.
func floodWatch(w http.ResponseWriter, r *http.Request) bool {
	if r.URL.Query().Get("watch") == "" {
		return false
	}
	for n := 0; r.Context().Err() == nil; n++ {
		_, err := fmt.Fprintf(w, `{"type":"ADDED","object":{"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadata","metadata":`+
			`{"name":"n%d","namespace":"knative-serving","uid":"u%d","resourceVersion":"%d","labels":{%q:"serving"}}}}`+"\n", n, n, n+10_000, api.ComponentLabel)
		if err != nil {
			break
		}
	}
	return true
}
