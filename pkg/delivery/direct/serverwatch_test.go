// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// The part of apiServer that lists and watches, and that tells what is served.

func (s *apiServer) list(p path, r *http.Request) (map[string]any, error) {
	selector, err := labels.Parse(r.URL.Query().Get("labelSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	items := []any{}
	for at, o := range s.objects {
		if at.resource == p.resource && (p.namespace == "" || at.namespace == p.namespace) && selector.Matches(labels.Set(o.GetLabels())) {
			items = append(items, o.Object)
		}
	}
	kind, version := "List", p.resource.GroupVersion().String()
	if strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadataList") {
		kind, version = "PartialObjectMetadataList", metav1.SchemeGroupVersion.String()
	}
	if p.resource == configMapResource() {
		kind = "ConfigMapList"
	}
	return map[string]any{
		"kind": kind, "apiVersion": version, "items": items, "metadata": map[string]any{"resourceVersion": strconv.Itoa(s.version)},
	}, nil
}

// watch delivers what has changed since the version that is asked for. Clients that want a list by watching are refused,
// after which they list.
func (s *apiServer) watch(w http.ResponseWriter, r *http.Request, p path) {
	query := r.URL.Query()
	if query.Get("sendInitialEvents") != "" {
		refuse(w, apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil))
		return
	}
	selector, err := labels.Parse(query.Get("labelSelector"))
	from, versionErr := strconv.Atoi(query.Get("resourceVersion"))
	if err := errors.Join(err, versionErr); err != nil {
		refuse(w, apierrors.NewBadRequest(err.Error()))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	http.NewResponseController(w).Flush() //nolint:errcheck // a client that is gone is seen below
	go func() {
		<-r.Context().Done()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.grown.Broadcast()
	}()
	s.mu.Lock()
	defer s.mu.Unlock()
	for next := 0; r.Context().Err() == nil; s.grown.Wait() {
		for ; next < len(s.history); next++ {
			c := s.history[next]
			if c.version <= from || c.path.resource != p.resource || p.namespace != "" && c.path.namespace != p.namespace || !selector.Matches(labels.Set(c.object.GetLabels())) {
				continue
			}
			event := map[string]any{"type": c.kind, "object": partial(r, c.object.Object)}
			if json.NewEncoder(w).Encode(event) != nil {
				return
			}
		}
		http.NewResponseController(w).Flush() //nolint:errcheck // as above
	}
}

// partial is an object as the client wants it.
func partial(r *http.Request, o map[string]any) map[string]any {
	if !strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata") {
		return o
	}
	return map[string]any{"kind": "PartialObjectMetadata", "apiVersion": metav1.SchemeGroupVersion.String(), "metadata": o["metadata"]}
}

// serves tells whether a resource is built in or has a CRD.
func (s *apiServer) serves(gvr schema.GroupVersionResource) bool {
	if !strings.HasSuffix(gvr.Group, ".dev") {
		return true
	}
	for p := range s.objects {
		if p.resource.Resource == "customresourcedefinitions" && p.name == gvr.GroupResource().String() {
			return true
		}
	}
	return false
}

func (s *apiServer) discover(w http.ResponseWriter, gv schema.GroupVersion) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := metav1.APIResourceList{GroupVersion: gv.String(), APIResources: []metav1.APIResource{}}
	for p, o := range s.objects {
		if p.resource.GroupVersion() == gv {
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: p.resource.Resource, Kind: o.GetKind()})
		}
		group, _, _ := unstructured.NestedString(o.Object, "spec", "group")
		if kind, found, _ := unstructured.NestedString(o.Object, "spec", "names", "kind"); found && group == gv.Group {
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: p.name, Kind: kind})
		}
	}
	reply(w, list)
}

// unserved is the answer of a real API server to a path that it does not know.
func unserved(p path) error {
	return apierrors.NewGenericServerResponse(http.StatusNotFound, "", p.resource.GroupResource(), p.name, "404 page not found", 0, true)
}

func refuse(w http.ResponseWriter, err error) {
	status := apierrors.NewInternalError(err).ErrStatus
	if known := apierrors.APIStatus(nil); errors.As(err, &known) {
		status = known.Status()
	}
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(status.Code))
	json.NewEncoder(w).Encode(status) //nolint:errcheck,errchkjson // the client sees it
}

func reply(w http.ResponseWriter, o any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(o) //nolint:errcheck,errchkjson // the client sees it
}

func typesUID(n int) types.UID { return types.UID(strconv.Itoa(n)) }
