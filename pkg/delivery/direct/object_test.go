// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/clustercache"
	"open-cluster-management.io/knative-addon/pkg/inventory"
	"open-cluster-management.io/knative-addon/pkg/render"
)

func TestDigest(t *testing.T) {
	b := bundleOf(t)
	was := desiredObjects(b, "anchor")
	changed := bundleOf(t, func(b *render.Bundle) { b.Payload[0].JSON = []byte(`{}`) })
	for name, tc := range map[string]struct {
		now     []desiredObject
		differs func(render.ObjectID) bool
	}{
		"the same":         {desiredObjects(bundleOf(t), "anchor"), func(render.ObjectID) bool { return false }},
		"another anchor":   {desiredObjects(b, "other"), func(render.ObjectID) bool { return true }},
		"no anchor":        {desiredObjects(b, ""), func(render.ObjectID) bool { return true }},
		"another object":   {desiredObjects(changed, "anchor"), func(id render.ObjectID) bool { return id == b.Payload[0].ID() }},
		"component before": {desiredObjects(bundleOf(t, func(b *render.Bundle) { b.Component = api.Eventing }), "anchor"), func(render.ObjectID) bool { return true }},
	} {
		t.Run(name, func(t *testing.T) {
			for n, it := range tc.now {
				if differs := it.digest != was[n].digest; differs != tc.differs(it.id) {
					t.Errorf("the digest of %s differs: %t", it.id, differs)
				}
			}
		})
	}
	if clustercache.Digest([]byte("ab"), []byte("c")) == clustercache.Digest([]byte("a"), []byte("bc")) {
		t.Error("parts run into each other")
	}
}

// TestObject holds what is added to an object, and that the bundle's, which all installations share, stays as it is.
func TestObject(t *testing.T) {
	a := &inventory.Anchor{ConfigMap: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: installed, Name: "root", UID: "uid"}}}
	labels := map[string]string{"app": "x"}
	labelled := func(where, what string) render.Object {
		o := rendered(t, where, what, nil)
		o.SetLabels(labels)
		return o
	}
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "root", UID: "uid"}
	for name, tc := range map[string]struct {
		object render.Object
		anchor *inventory.Anchor
		labels map[string]string
		owners []metav1.OwnerReference
	}{
		"with labels":             {labelled(inSecrets, "Secret knative-serving/x"), a, map[string]string{"app": "x", api.ComponentLabel: "knative-serving"}, []metav1.OwnerReference{owner}},
		"without labels":          {rendered(t, inSecrets, "Secret knative-serving/x", nil), a, map[string]string{api.ComponentLabel: "knative-serving"}, []metav1.OwnerReference{owner}},
		"in another namespace":    {rendered(t, inSecrets, "Secret kourier-system/x", nil), a, map[string]string{api.ComponentLabel: "knative-serving"}, nil},
		"in no namespace":         {rendered(t, inBindings, "ClusterRoleBinding x", nil), a, map[string]string{api.ComponentLabel: "knative-serving"}, nil},
		"before there is any one": {rendered(t, inSecrets, "Secret knative-serving/x", nil), nil, map[string]string{api.ComponentLabel: "knative-serving"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			before := tc.object.DeepCopy()
			it := &desiredObject{Object: tc.object, id: tc.object.ID()}
			out := it.manifest(api.Serving, tc.anchor)
			if diff := cmp.Diff(tc.labels, out.GetLabels()); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.owners, out.GetOwnerReferences()); diff != "" {
				t.Errorf("owners (-want +got):\n%s", diff)
			}
			out.SetName("changed")
			out.SetLabels(nil)
			if diff := cmp.Diff(before.Object, tc.object.Object); diff != "" {
				t.Errorf("the bundle's object has changed:\n%s", diff)
			}
		})
	}
}
