// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
)

// asked is what a request asks permission for. The name is empty where the API server does not know it then.
type asked struct{ verb, group, resource, namespace, name string }

// requests notes what is asked of a cluster and what it refuses.
type requests struct {
	next http.RoundTripper

	mu      sync.Mutex
	made    map[asked]bool
	refused map[asked]bool
	// old makes the cluster one that does not know lists by watching, as before Kubernetes 1.34.
	old bool
}

func (r *requests) RoundTrip(req *http.Request) (*http.Response, error) {
	a, ok := askedBy(req)
	if r.isOldServer() && req.URL.Query().Get("sendInitialEvents") != "" {
		return &http.Response{
			StatusCode: http.StatusUnprocessableEntity, Header: http.Header{"Content-Type": {"application/json"}}, Request: req,
			Body: io.NopCloser(strings.NewReader(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`)),
		}, nil
	}
	answer, err := r.next.RoundTrip(req)
	if err != nil || !ok {
		return answer, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.made[a] = true
	switch answer.StatusCode {
	case http.StatusForbidden:
		r.refused[a] = true
	case http.StatusCreated: // also by an apply, which has to be allowed to create then
		a.verb = "create"
		r.made[a] = true
	}
	return answer, nil
}

func (r *requests) isOldServer() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.old
}

func (r *requests) pretendOldServer(old bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.old = old
}

// takeRefusals are what was refused since the last call.
func (r *requests) takeRefusals() []asked {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []asked
	for a := range r.refused {
		out = append(out, a)
	}
	clear(r.refused)
	return out
}

// hasUsed tells whether something was asked that a permission in a namespace allows, or in the whole cluster.
func (r *requests) hasUsed(p permission, name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for a := range r.made {
		of := a.group == p.group && a.resource == p.resource && a.verb == p.verb && (name == "" || a.name == name)
		if of && (a.namespace == p.namespace || p.namespace == "" && a.resource == "namespaces") {
			return true
		}
	}
	return false
}

// askedBy reads a request as the API server does; not ok when it is not for objects.
func askedBy(req *http.Request) (a asked, ok bool) {
	parts := strings.Split(strings.Trim(req.URL.Path, "/"), "/")
	if parts[0] == "api" {
		parts = slices.Insert(parts, 1, "")
	}
	if len(parts) < 4 {
		return a, false
	}
	a.group, parts = parts[1], parts[3:]
	if parts[0] == "namespaces" && len(parts) > 2 {
		a.namespace, parts = parts[1], parts[2:]
	}
	a.resource = parts[0]
	if len(parts) > 1 {
		a.name = parts[1]
	}
	a.verb = map[string]string{
		http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete", http.MethodGet: "get",
	}[req.Method]
	if req.Method == http.MethodGet && a.name == "" {
		a.verb = "list"
		if req.URL.Query().Get("watch") != "" {
			a.verb = "watch"
		}
	}
	return a, true
}

// permission is one verb on one resource of a rule; the namespace is empty in a ClusterRole.
type permission struct {
	namespace, group, resource, verb string
	// names are of the rule; none is every object.
	names []string
}

func (p permission) String() string {
	where := "of the cluster"
	if p.namespace != "" {
		where = "in " + p.namespace
	}
	return strings.TrimSpace(p.verb + " " + strings.TrimSuffix(p.resource+"."+p.group, ".") + " " + where + " " + first(p.names))
}

// same tells whether the same may be done with the same names.
func (p permission) same(other permission) bool {
	return p.namespace == other.namespace && p.group == other.group && p.resource == other.resource && p.verb == other.verb &&
		slices.Equal(p.names, other.names)
}

func first(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return names[0]
}

// permissionsIn are all permissions of rules.
func permissionsIn(namespace string, rules []rbacv1.PolicyRule) []permission {
	var out []permission
	for _, rule := range rules {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				out = append(out, permission{namespace, rule.APIGroups[0], resource, verb, rule.ResourceNames})
			}
		}
	}
	return out
}

// without are the rules less one permission.
func without(rules []rbacv1.PolicyRule, p permission) []rbacv1.PolicyRule {
	var out []rbacv1.PolicyRule
	for _, rule := range rules {
		for _, other := range permissionsIn(p.namespace, []rbacv1.PolicyRule{rule}) {
			if other.same(p) {
				continue
			}
			out = append(out, rbacv1.PolicyRule{
				APIGroups: []string{other.group}, Resources: []string{other.resource}, ResourceNames: other.names, Verbs: []string{other.verb},
			})
		}
	}
	return out
}
