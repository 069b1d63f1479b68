// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render"
)

func TestStageOf(t *testing.T) {
	for s, kinds := range map[stage][]schema.GroupKind{
		foundationStage: {{Kind: "Namespace"}, {Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}},
		permissionStage: {{Kind: "ServiceAccount"}, {Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}},
		configStage:     {{Kind: "ConfigMap"}, {Kind: "Secret"}, {Kind: "Service"}},
		workloadStage:   {{Group: "apps", Kind: "Deployment"}, {Group: "policy", Kind: "PodDisruptionBudget"}, {Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}},
		jobStage:        {{Group: "batch", Kind: "Job"}},
		webhookStage:    {{Group: "admissionregistration.k8s.io", Kind: "ValidatingWebhookConfiguration"}},
		dependentStage:  {{Group: "caching.internal.knative.dev", Kind: "Image"}, {Kind: "Pod"}, {Group: "x", Kind: "Namespace"}},
	} {
		for _, gk := range kinds {
			if got := stageOf(gk); got != s {
				t.Errorf("%s is of stage %d, want %d", gk, got, s)
			}
		}
	}
}

// TestRemovalOrder holds that all but the foundation goes once, in an order that does not block the cluster.
func TestRemovalOrder(t *testing.T) {
	order := removalOrder()
	for s := range stages {
		count := len(slices.DeleteFunc(slices.Clone(order), func(o stage) bool { return o != s }))
		if want := map[bool]int{true: 0, false: 1}[s == foundationStage]; count != want {
			t.Errorf("stage %d is removed %d times, want %d", s, count, want)
		}
	}
	if slices.Index(order, webhookStage) > slices.Index(order, workloadStage) {
		t.Error("webhooks outlive those who answer")
	}
	if order[len(order)-1] != permissionStage {
		t.Error("permissions go before those who need them")
	}
}

func TestDigest(t *testing.T) {
	b := bundleOf(t)
	was := items(b, "anchor")
	changed := bundleOf(t, func(b *render.Bundle) { b.Payload[0].JSON = []byte(`{}`) })
	for name, tc := range map[string]struct {
		now     []item
		differs func(render.ObjectID) bool
	}{
		"the same":         {items(bundleOf(t), "anchor"), func(render.ObjectID) bool { return false }},
		"another anchor":   {items(b, "other"), func(render.ObjectID) bool { return true }},
		"no anchor":        {items(b, ""), func(render.ObjectID) bool { return true }},
		"another object":   {items(changed, "anchor"), func(id render.ObjectID) bool { return id == b.Payload[0].ID() }},
		"component before": {items(bundleOf(t, func(b *render.Bundle) { b.Component = api.Eventing }), "anchor"), func(render.ObjectID) bool { return true }},
	} {
		t.Run(name, func(t *testing.T) {
			for n, it := range tc.now {
				if differs := it.digest != was[n].digest; differs != tc.differs(it.id) {
					t.Errorf("the digest of %s differs: %t", it.id, differs)
				}
			}
		})
	}
	if digestOf([]byte("ab"), []byte("c")) == digestOf([]byte("a"), []byte("bc")) {
		t.Error("parts run into each other")
	}
}

// TestObject holds what is added to an object, and that the bundle's, which all installations share, stays as it is.
func TestObject(t *testing.T) {
	a := &anchor{ConfigMap: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: installed, Name: "root", UID: "uid"}}}
	labels := map[string]string{"app": "x"}
	labelled := func(where, what string) render.Object {
		o := rendered(t, where, what, nil)
		o.SetLabels(labels)
		return o
	}
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "root", UID: "uid", Controller: new(true)}
	for name, tc := range map[string]struct {
		object render.Object
		anchor *anchor
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
			it := &item{Object: tc.object, id: tc.object.ID()}
			out := it.object(api.Serving, tc.anchor)
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
