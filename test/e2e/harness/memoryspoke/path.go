// Copyright Contributors to the Open Cluster Management project

package memoryspoke

import (
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// objectPath names an object, or all objects of a resource when the name is empty.
type objectPath struct {
	schema.GroupVersionResource
	namespace, name string
}

// verbs of requests, as Kubernetes names the verbs; patch is a server-side apply.
const (
	verbDiscover = "discover"
	verbGet      = "get"
	verbList     = "list"
	verbWatch    = "watch"
	verbCreate   = "create"
	verbUpdate   = "update"
	verbApply    = "apply"
	verbDelete   = "delete"
)

// parseRequest returns the verb and the path of a request; ok is false for a request that a Spoke does not serve.
func parseRequest(r *http.Request) (verb string, path objectPath, ok bool) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if parts[0] == "api" {
		parts = append([]string{"apis", ""}, parts[1:]...)
	}
	if len(parts) < 3 || parts[0] != "apis" {
		return "", path, false
	}
	path.Group, path.Version, parts = parts[1], parts[2], parts[3:]
	if len(parts) == 0 {
		return verbDiscover, path, r.Method == http.MethodGet
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		path.namespace, parts = parts[1], parts[2:]
	}
	path.Resource = parts[0]
	if len(parts) > 1 {
		path.name = parts[1]
	}
	verb = verbOf(r, path)
	return verb, path, verb != "" && len(parts) <= 2 // no subresource is served
}

func verbOf(r *http.Request, path objectPath) string {
	isObject := path.name != ""
	switch {
	case r.Method == http.MethodGet && r.URL.Query().Get("watch") != "":
		return verbWatch
	case r.Method == http.MethodGet && isObject:
		return verbGet
	case r.Method == http.MethodGet:
		return verbList
	case r.Method == http.MethodPost && !isObject:
		return verbCreate
	case r.Method == http.MethodPut && isObject:
		return verbUpdate
	case r.Method == http.MethodPatch && isObject && strings.HasPrefix(r.Header.Get("Content-Type"), "application/apply-patch"):
		return verbApply
	case r.Method == http.MethodDelete && isObject:
		return verbDelete
	}
	return ""
}

// isBuiltIn reports whether Kubernetes itself serves a group.
func isBuiltIn(group string) bool {
	return !strings.Contains(group, ".") || strings.HasSuffix(group, ".k8s.io")
}
