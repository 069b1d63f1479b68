// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
)

// foreignObject is an object that the manager has no business with.
type foreignObject struct {
	resource  schema.GroupVersionResource
	kind      string
	namespace string
	content   map[string]any // besides the metadata
	// later are the verbs that the permissions of the manager allow on such an object beyond create.
	later []string
}

// foreignObjects are those that the permissions of the manager alone would allow to be written.
func (h hostileHub) foreignObjects() []foreignObject {
	cluster := h.Managed[0].Name
	configMap := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "x", "namespace": "default"}}
	group := func(group, version, resource string) schema.GroupVersionResource {
		return schema.GroupVersionResource{Group: group, Version: version, Resource: resource}
	}
	return []foreignObject{
		{
			group("work.open-cluster-management.io", "v1", "manifestworks"), "ManifestWork", cluster,
			map[string]any{"spec": map[string]any{"workload": map[string]any{"manifests": []any{configMap}}}},
			[]string{"patch", "delete"},
		},
		{group("addon.open-cluster-management.io", "v1alpha1", "managedclusteraddons"), "ManagedClusterAddOn", cluster, map[string]any{"spec": map[string]any{}}, nil},
		{group("apps", "v1", "controllerrevisions"), "ControllerRevision", tenantNamespace, map[string]any{"revision": int64(1), "data": map[string]any{"a": "b"}}, []string{"update", "patch", "delete"}},
		{group("coordination.k8s.io", "v1", "leases"), "Lease", harness.Namespace, map[string]any{"spec": map[string]any{}}, nil},
		{group("cluster.open-cluster-management.io", "v1alpha1", "addonplacementscores"), "AddOnPlacementScore", cluster, nil, nil},
		{api.Serving.Resource(), "KnativeServing", tenantNamespace, map[string]any{"spec": map[string]any{}}, []string{"delete"}},
	}
}

// checkForeignObjects holds that the token of the manager writes nothing that is not of this add-on, whatever its permissions say:
// a permission to create has no name.
func (h hostileHub) checkForeignObjects(t *testing.T) {
	config, err := h.Account(t.Context(), harness.ManagerAccount)
	if err != nil {
		t.Fatal(err)
	}
	manager, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range h.foreignObjects() {
		t.Run(o.kind, func(t *testing.T) {
			content := map[string]any{
				"apiVersion": o.resource.GroupVersion().String(), "kind": o.kind,
				"metadata": map[string]any{"namespace": o.namespace, "name": "foreign"},
			}
			maps.Copy(content, o.content)
			object := &unstructured.Unstructured{Object: content}
			_, err := manager.Resource(o.resource).Namespace(o.namespace).Create(t.Context(), object, metav1.CreateOptions{})
			mustBeDenied(t, "create", err)
			if len(o.later) == 0 {
				return
			}
			if _, err := h.admin.dynamic.Resource(o.resource).Namespace(o.namespace).Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			for _, verb := range o.later {
				switch verb {
				case "delete":
					err = manager.Resource(o.resource).Namespace(o.namespace).Delete(t.Context(), "foreign", metav1.DeleteOptions{})
				case "update":
					_, err = manager.Resource(o.resource).Namespace(o.namespace).Update(t.Context(), object, metav1.UpdateOptions{})
				default:
					_, err = manager.Resource(o.resource).Namespace(o.namespace).Patch(
						t.Context(), "foreign", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
				}
				mustBeDenied(t, verb, err)
			}
		})
	}
	t.Run("a resource of the hub itself", func(t *testing.T) {
		_, err := manager.Resource(api.Serving.Resource()).Namespace("knative-serving").Patch(
			t.Context(), "self", types.MergePatchType, []byte(`{"spec":{"version":"1.22"}}`), metav1.PatchOptions{})
		mustBeDenied(t, "patch", err)
	})
}

// replaceForgedRevision holds that another spec under the name of a revision does not become what clusters get.
func (h hostileHub) replaceForgedRevision(t *testing.T) {
	revisions := h.admin.kube.AppsV1().ControllerRevisions(h.namespace)
	list, err := revisions.List(t.Context(), metav1.ListOptions{LabelSelector: api.RevisionLabel + "=" + string(api.Serving)})
	if err != nil || len(list.Items) == 0 {
		t.Fatalf("%d revisions, error %v", len(list.Items), err)
	}
	newest := slices.MaxFunc(list.Items, func(a, b appsv1.ControllerRevision) int { return cmp.Compare(a.Revision, b.Revision) })
	if err := h.Stop(harness.Manager); err != nil {
		t.Fatal(err)
	}
	if err := revisions.Delete(t.Context(), newest.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	forged := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Name: newest.Name}, Data: runtime.RawExtension{Raw: []byte(`{"spec":{"version":"1.20"}}`)}, Revision: newest.Revision,
	}
	if _, err := revisions.Create(t.Context(), forged, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := h.Start(harness.Manager); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the revision holds the spec again", time.Minute, func(ctx context.Context) error {
		now, err := revisions.Get(ctx, newest.Name, metav1.GetOptions{})
		if err == nil && !bytes.Equal(now.Data.Raw, newest.Data.Raw) {
			err = fmt.Errorf("it holds %s", now.Data.Raw)
		}
		return err
	})
	// A label that is gone hides the revision from the manager.
	if _, err := revisions.Patch(t.Context(), newest.Name, types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{%q:null}}}`, api.RevisionLabel), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the revision has its label again", time.Minute, func(ctx context.Context) error {
		now, err := revisions.Get(ctx, newest.Name, metav1.GetOptions{})
		if err == nil && now.Labels[api.RevisionLabel] == "" {
			err = errors.New("it has not")
		}
		return err
	})
}

// mustBeDenied holds that the admission policy has refused a request, not the permissions.
func mustBeDenied(t *testing.T, verb string, err error) {
	t.Helper()
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "the manager of chart knative-addon may not") {
		t.Errorf("%s: the error is %v", verb, err)
	}
}
