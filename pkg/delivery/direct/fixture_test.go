// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"context"
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/clustercache"
	"open-cluster-management.io/knative-addon/pkg/inventory"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/workload"
)

const (
	installed = "knative-serving"
	hubUID    = types.UID("hub-1")
	// itemsKey is the key of an anchor that holds what is recorded.
	itemsKey = "inventory"
)

func ownerNamed(name string) inventory.Owner {
	return inventory.Owner{Component: api.Serving, Hub: hubUID, Name: types.NamespacedName{Namespace: installed, Name: name}}
}

// rendered makes an object of a bundle. where is "group/version/resource", and what "Kind namespace/name".
func rendered(t *testing.T, where, what string, fields map[string]any, class ...render.Class) render.Object {
	t.Helper()
	parts := strings.Split(where, "/")
	gvr := schema.GroupVersionResource{Group: parts[0], Version: parts[1], Resource: parts[2]}
	kind, name, _ := strings.Cut(what, " ")
	u := &unstructured.Unstructured{Object: map[string]any{}}
	maps.Copy(u.Object, fields)
	u.SetGroupVersionKind(gvr.GroupVersion().WithKind(kind))
	if ns, n, ok := strings.Cut(name, "/"); ok {
		u.SetNamespace(ns)
		name = n
	}
	u.SetName(name)
	o := render.Object{Unstructured: u, Class: render.Apply, Resource: gvr}
	if len(class) > 0 {
		o.Class = class[0]
	}
	var err error
	if o.JSON, err = json.Marshal(u.Object); err != nil {
		t.Fatal(err)
	}
	return o
}

// Where things are.
const (
	inNamespaces  = "/v1/namespaces"
	inConfigMaps  = "/v1/configmaps"
	inSecrets     = "/v1/secrets"
	inAccounts    = "/v1/serviceaccounts"
	inDeployments = "apps/v1/deployments"
	inJobs        = "batch/v1/jobs"
	inBindings    = "rbac.authorization.k8s.io/v1/clusterrolebindings"
	inCRDs        = "apiextensions.k8s.io/v1/customresourcedefinitions"
	inImages      = "caching.knative.dev/v1/images"
	inWebhooks    = "admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
)

// bundleOf has one object or two of each stage.
func bundleOf(t *testing.T, changes ...func(*render.Bundle)) *render.Bundle {
	t.Helper()
	b := &render.Bundle{
		Component: api.Serving, Version: "1.23.0", Namespace: installed,
		Foundation: []render.Object{
			rendered(t, inNamespaces, "Namespace "+installed, nil),
			rendered(t, inCRDs, "CustomResourceDefinition images.caching.knative.dev", map[string]any{"spec": map[string]any{
				"group": "caching.knative.dev", "names": map[string]any{"kind": "Image", "plural": "images"},
				"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true}},
			}}),
		},
		Payload: []render.Object{
			rendered(t, inAccounts, "ServiceAccount knative-serving/controller", nil, render.Update),
			rendered(t, inBindings, "ClusterRoleBinding controller", map[string]any{"roleRef": map[string]any{"name": "admin"}}, render.Update),
			rendered(t, inConfigMaps, "ConfigMap knative-serving/config-network", map[string]any{"data": map[string]any{"a": "b"}}),
			rendered(t, inSecrets, "Secret knative-serving/certs", nil, render.CreateOnly),
			rendered(t, inDeployments, "Deployment knative-serving/activator", map[string]any{"spec": map[string]any{"replicas": int64(1)}}),
			rendered(t, inWebhooks, "ValidatingWebhookConfiguration config.webhook", map[string]any{
				"webhooks": []any{map[string]any{"name": "config.webhook.serving.knative.dev"}},
			}),
			rendered(t, inJobs, "Job knative-serving/migrate", map[string]any{"spec": map[string]any{"suspend": false}}, render.OncePerVersion),
			rendered(t, inImages, "Image knative-serving/queue-proxy", nil),
		},
		Workloads: []workload.Expected{{Kind: "Deployment", Namespace: installed, Name: "activator"}},
		Jobs:      []workload.JobRef{{Namespace: installed, Name: "migrate"}},
	}
	for _, change := range changes {
		change(b)
	}
	return b
}

// without takes an object out of a bundle.
func without(kind string) func(*render.Bundle) {
	return func(b *render.Bundle) {
		for _, list := range []*[]render.Object{&b.Foundation, &b.Payload} {
			var kept []render.Object
			for _, o := range *list {
				if o.GetKind() != kind {
					kept = append(kept, o)
				}
			}
			*list = kept
		}
	}
}

// everything are the objects of an installation of bundleOf.
func everything() []string {
	return []string{
		"clusterrolebindings/controller", "configmaps/knative-serving/config-network", "configmaps/knative-serving/knativeserving-self-root-owner",
		"customresourcedefinitions/images.caching.knative.dev", "deployments/knative-serving/activator", "images/knative-serving/queue-proxy",
		"jobs/knative-serving/migrate", "namespaces/knative-serving", "secrets/knative-serving/certs", "serviceaccounts/knative-serving/controller",
		"validatingwebhookconfigurations/config.webhook",
	}
}

// clusterFixture is an API server with an installation.
type clusterFixture struct {
	*apiServer
	*Installation
	clock *testclock.FakePassiveClock
	seen  <-chan struct{}
}

func newClusterFixture(t *testing.T) *clusterFixture {
	t.Helper()
	s := &clusterFixture{apiServer: newServer(t), clock: testclock.NewFakePassiveClock(time.Unix(10000, 0))}
	s.restart()
	return s
}

// restart makes an Installation that remembers nothing.
func (s *clusterFixture) restart() {
	var c *clustercache.Cluster
	c, s.seen = s.connect()
	s.Installation = NewInstallation(c, ownerNamed("self"), s.clock)
}

// pass does one pass, with views that have come as far as the cluster.
func (s *clusterFixture) pass(t *testing.T, b *render.Bundle) Outcome {
	t.Helper()
	s.catchUp(t)
	out, err := s.Sync(t.Context(), b, SyncOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.catchUp(t)
	return out
}

// settle passes until nothing is written any more.
func (s *clusterFixture) settle(t *testing.T, b *render.Bundle) Outcome {
	t.Helper()
	for range 10 {
		s.asked()
		if out := s.pass(t, b); len(s.asked()) == 0 {
			return out
		}
	}
	t.Fatal("it does not come to rest")
	return Outcome{}
}

// catchUp waits until all views have seen what happened on the cluster.
func (s *clusterFixture) catchUp(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for s.behind() {
		select {
		case <-s.seen:
		case <-ctx.Done():
			t.Fatal("the views do not catch up")
		}
	}
}

func (s *clusterFixture) behind() bool {
	views := s.cluster.StartedViews()
	s.apiServer.mu.Lock()
	defer s.apiServer.mu.Unlock()
	for at, v := range views {
		for _, c := range s.history {
			if c.path.resource == at.GroupVersionResource && c.path.namespace == at.Namespace && c.object.GetLabels()[api.ComponentLabel] != "" && v.IsBehind(c.object.GetResourceVersion()) {
				return true
			}
		}
	}
	return false
}
