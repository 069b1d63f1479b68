// Copyright Contributors to the Open Cluster Management project

package memoryspoke

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// bookmarkInterval is the interval of the bookmarks of a watch, as an API server sends bookmarks.
const bookmarkInterval = time.Minute

// serves reports whether Kubernetes has the group, or a CustomResourceDefinition defines the resource.
func (s *store) serves(path objectPath) bool {
	if isBuiltIn(path.Group) {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects[crdPath(path.GroupResource().String())] != nil
}

func crdPath(name string) objectPath {
	return objectPath{GroupVersionResource: schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	}, name: name}
}

// discover returns the kinds of a group and version that CustomResourceDefinitions define.
func (s *store) discover(gv schema.GroupVersion) *metav1.APIResourceList {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := &metav1.APIResourceList{
		TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: gv.String(), APIResources: []metav1.APIResource{},
	}
	for path, o := range s.objects {
		group, _, _ := unstructured.NestedString(o.Object, "spec", "group")
		if path != crdPath(path.name) || group != gv.Group {
			continue
		}
		kind, _, _ := unstructured.NestedString(o.Object, "spec", "names", "kind")
		plural, _, _ := unstructured.NestedString(o.Object, "spec", "names", "plural")
		out.APIResources = append(out.APIResources, metav1.APIResource{Name: plural, Kind: kind})
	}
	return out
}

// matches reports whether an object is one of the path, and has the labels.
func (p objectPath) matches(other objectPath, o *unstructured.Unstructured, selector labels.Selector) bool {
	return other.GroupVersionResource == p.GroupVersionResource && (p.namespace == "" || p.namespace == other.namespace) &&
		selector.Matches(labels.Set(o.GetLabels()))
}

// list returns the objects of a path, in one page.
func (s *store) list(r *http.Request, path objectPath) (map[string]any, error) {
	selector, err := labels.Parse(r.URL.Query().Get("labelSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	items := []any{}
	kind, version := "List", path.GroupVersion().String()
	for other, o := range s.objects {
		if path.matches(other, o, selector) {
			kind = o.GetKind() + "List"
			items = append(items, selectFields(r, o))
		}
	}
	if wantsMetadata(r) {
		kind, version = "PartialObjectMetadataList", metav1.SchemeGroupVersion.String()
	}
	return map[string]any{
		"kind": kind, "apiVersion": version, "metadata": map[string]any{"resourceVersion": strconv.Itoa(s.version)}, "items": items,
	}, nil
}

// watch delivers the changes since the version of the request until the client ends the request.
func (s *store) watch(w http.ResponseWriter, r *http.Request, path objectPath) {
	query := r.URL.Query()
	selector, err := labels.Parse(query.Get("labelSelector"))
	from, versionErr := strconv.Atoi(query.Get("resourceVersion"))
	if err := errors.Join(err, versionErr); err != nil || query.Get("sendInitialEvents") != "" {
		writeError(w, apierrors.NewBadRequest("a watch needs a resourceVersion, and has no initial events"))
		return
	}
	changed := make(chan struct{}, 1)
	s.mu.Lock()
	s.changed[changed] = struct{}{}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.changed, changed)
	}()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	stream := json.NewEncoder(w)
	bookmarks := time.NewTicker(bookmarkInterval)
	defer bookmarks.Stop()
	for {
		events, version := s.listChanges(path, selector, from)
		from = version
		for _, c := range events {
			if stream.Encode(map[string]any{"type": c.eventType, "object": selectFields(r, c.object)}) != nil {
				return
			}
		}
		if http.NewResponseController(w).Flush() != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-changed:
		case <-bookmarks.C:
			if stream.Encode(map[string]any{"type": "BOOKMARK", "object": newBookmark(r, path, version)}) != nil {
				return
			}
		}
	}
}

// listChanges returns the changes of objects of the path after a version, and the present version.
func (s *store) listChanges(path objectPath, selector labels.Selector, after int) (out []change, version int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first, _ := slices.BinarySearchFunc(s.history, after+1, func(c change, version int) int { return c.version - version })
	for _, c := range s.history[first:] {
		if path.matches(c.path, c.object, selector) {
			out = append(out, c)
		}
	}
	return out, s.version
}

func newBookmark(r *http.Request, path objectPath, version int) any {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": path.GroupVersion().String(), "kind": "Bookmark"}}
	o.SetResourceVersion(strconv.Itoa(version))
	return selectFields(r, o)
}

func wantsMetadata(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata")
}

// selectFields returns an object, or only its metadata when the request asks for metadata.
func selectFields(r *http.Request, o *unstructured.Unstructured) any {
	if o == nil {
		return nil
	}
	if !wantsMetadata(r) {
		return o.Object
	}
	return map[string]any{"kind": "PartialObjectMetadata", "apiVersion": metav1.SchemeGroupVersion.String(), "metadata": o.Object["metadata"]}
}
