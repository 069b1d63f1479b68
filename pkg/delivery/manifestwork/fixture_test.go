// Copyright Contributors to the Open Cluster Management project

package manifestwork

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render"
)

func object(t *testing.T, kind, name string, o render.Object) render.Object {
	t.Helper()
	apiVersion, kind := cutLast(kind)
	namespace, name := cutLast(name)
	o.Unstructured = &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind}}
	o.SetNamespace(namespace)
	o.SetName(name)
	raw, err := json.Marshal(o.Object)
	if err != nil {
		t.Fatal(err)
	}
	o.JSON = raw
	return o
}

// cutLast cuts s around its last slash; without one it is all after.
func cutLast(s string) (before, after string) {
	i := strings.LastIndex(s, "/")
	return s[:max(i, 0)], s[i+1:]
}

// bundle is a Namespace and a CRD, a ConfigMap and a Job.
func bundle(t *testing.T) *render.Bundle {
	t.Helper()
	return &render.Bundle{
		Component: api.Serving, Version: "1.23.0", Namespace: ns, Digest: "d1", FoundationDigest: "f1",
		Foundation: []render.Object{
			object(t, "v1/Namespace", ns, render.Object{Orphan: true, Resource: schema.GroupVersionResource{Resource: "namespaces"}}),
			object(t, "apiextensions.k8s.io/v1/CustomResourceDefinition", "services.serving.knative.dev", render.Object{
				Orphan: true, Resource: schema.GroupVersionResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"},
			}),
		},
		Payload: []render.Object{
			object(t, "v1/ConfigMap", ns+"/config-leader-election", render.Object{Class: render.Apply}),
			object(t, "batch/v1/Job", ns+"/"+"cleanup", render.Object{Class: render.OncePerVersion}),
		},
	}
}
