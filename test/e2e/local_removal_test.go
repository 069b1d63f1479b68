// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// left is what should be gone from the hub and is not.
func (l localInstalls) left(t *testing.T) []string {
	t.Helper()
	return slices.DeleteFunc(listLeftovers(t, l.spoke), func(o string) bool { return strings.Contains(o, " knative-addon") })
}

// awaitRemoved waits until nothing is left that should be gone: the pods of finished Jobs wait for the garbage collector of the hub.
func (l localInstalls) awaitRemoved(t *testing.T) {
	t.Helper()
	l.awaitRemovedExcept(t, " knative-addon")
}

func (l localInstalls) removes(t *testing.T) {
	crds := len(l.list(t, "apiextensions.k8s.io", "v1", "customresourcedefinitions"))
	l.delete(t, "second")
	l.gone(t, api.Serving, "second")
	l.ready(t, api.Serving, "first") // what is not its own stays

	l.own(t, "third", kourier())
	l.becomes(t, api.Serving, "third", conditionState{api.TargetClusterResolved, metav1.ConditionFalse, api.ReasonTargetConflict})
	l.delete(t, "first")
	l.gone(t, api.Serving, "first")
	l.ready(t, api.Serving, "third")
	l.delete(t, "third")
	l.gone(t, api.Serving, "third")
	l.awaitRemoved(t)
	if now := len(l.list(t, "apiextensions.k8s.io", "v1", "customresourcedefinitions")); now != crds {
		t.Errorf("there are %d CRDs, before there were %d", now, crds)
	}
}

func (l localInstalls) keepUserResources(t *testing.T) {
	l.own(t, "first", kourier())
	l.ready(t, api.Serving, "first")
	services := l.dynamic.Resource(schema.GroupVersionResource{Group: "serving.knative.dev", Version: "v1", Resource: "services"}).Namespace("default")
	eventually(t, "the cluster accepts a user's Service", time.Minute, func(ctx context.Context) error {
		_, err := services.Create(ctx, newService("hello"), metav1.CreateOptions{})
		return err
	})
	requestRemoval(t, l.Lab, l.Hub)
	l.annotate(t, "first", api.DeletionPolicyAnnotation, api.DeletionPolicyDelete)
	l.delete(t, "first")
	c := l.becomes(t, api.Serving, "first", conditionState{api.Ready, metav1.ConditionUnknown, api.ReasonRemoving}, "1 services.serving.knative.dev")
	if left := l.left(t); len(left) < 50 {
		t.Errorf("things are removed while a user's resource is there (%s): only %d are left", c.Message, len(left))
	}
	if err := services.Delete(t.Context(), "hello", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	l.gone(t, api.Serving, "first")
	for _, d := range l.list(t, "apps", "v1", "deployments") {
		if d.GetNamespace() == "knative-serving" {
			t.Errorf("Deployment %s is left", d.GetName())
		}
	}
	for _, crd := range l.list(t, "apiextensions.k8s.io", "v1", "customresourcedefinitions") {
		if strings.HasSuffix(crd.GetName(), "serving.knative.dev") {
			t.Errorf("CRD %s is left", crd.GetName())
		}
	}
	if _, err := l.kube.CoreV1().Namespaces().Get(t.Context(), "knative-serving", metav1.GetOptions{}); err != nil {
		t.Errorf("the namespace, which was there before, is gone: %v", err)
	}
}

func (l localInstalls) adoptForeign(t *testing.T) {
	l.own(t, "first", kourier())
	l.ready(t, api.Serving, "first")
	// As somebody else would have installed it: without an anchor and without our label.
	l.annotate(t, "first", api.ForceOrphanAnnotation, "true")
	l.delete(t, "first")
	l.gone(t, api.Serving, "first")
	event(t, l.team, "Orphaned", "stay on the hub", "lists the objects")
	l.removeOwnership(t)
	before := l.pods(t)

	l.own(t, "heir", kourier())
	l.becomes(t, api.Serving, "heir", conditionState{api.TargetClusterResolved, metav1.ConditionFalse, api.ReasonExistingInstallation},
		"Deployment knative-serving/activator")
	if diff := cmp.Diff(before, l.pods(t)); diff != "" {
		t.Errorf("it was not left alone:\n%s", diff)
	}
	l.annotate(t, "heir", api.AdoptAnnotation, "true")
	l.ready(t, api.Serving, "heir")
	if diff := cmp.Diff(before, l.pods(t)); diff != "" {
		t.Errorf("pods were restarted by an adoption:\n%s", diff)
	}
	l.delete(t, "heir")
	l.gone(t, api.Serving, "heir")
	l.awaitRemoved(t)
}

// removeOwnership takes our label and owner from everything that is installed, and then the anchor away.
func (l localInstalls) removeOwnership(t *testing.T) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:null},"ownerReferences":null}}`, api.ComponentLabel)
	for _, gvr := range []schema.GroupVersionResource{
		{Group: "apps", Version: "v1", Resource: "deployments"},
		{Version: "v1", Resource: "services"},
		{Version: "v1", Resource: "serviceaccounts"},
		{Version: "v1", Resource: "secrets"},
		{Version: "v1", Resource: "configmaps"},
		{Group: "batch", Version: "v1", Resource: "jobs"},
		{Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"},
		{Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"},
		{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"},
		{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"},
		{Group: "caching.internal.knative.dev", Version: "v1alpha1", Resource: "images"},
		{Group: "networking.internal.knative.dev", Version: "v1alpha1", Resource: "certificates"},
	} {
		for _, o := range l.list(t, gvr.Group, gvr.Version, gvr.Resource) {
			if o.GetLabels()[api.ComponentLabel] == "" || strings.HasSuffix(o.GetName(), "-root-owner") {
				continue
			}
			_, err := l.dynamic.Resource(gvr).Namespace(o.GetNamespace()).Patch(t.Context(), o.GetName(), types.MergePatchType, patch, metav1.PatchOptions{})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := l.kube.CoreV1().ConfigMaps("knative-serving").Delete(t.Context(), "knativeserving-first-root-owner", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// pods are the UIDs of Knative's pods.
func (l localInstalls) pods(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, p := range l.list(t, "", "v1", "pods") {
		if p.GetNamespace() == "knative-serving" && !strings.Contains(p.GetName(), "storage-version") && !strings.Contains(p.GetName(), "cleanup") {
			out = append(out, p.GetName()+" "+string(p.GetUID()))
		}
	}
	if len(out) == 0 {
		t.Fatal("the hub has no pods of Knative")
	}
	slices.Sort(out)
	return out
}
