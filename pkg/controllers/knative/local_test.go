// Copyright Contributors to the Open Cluster Management project

package knative

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/target"
)

// TestLocalInstallsDirectly holds which resources are installed on the hub.
func TestLocalInstallsDirectly(t *testing.T) {
	in := func(namespace string) func(*unstructured.Unstructured) {
		return func(c *unstructured.Unstructured) { c.SetNamespace(namespace) }
	}
	refers := func(c *unstructured.Unstructured) {
		c.Object["spec"] = map[string]any{"clusterProfileRef": map[string]any{"name": "c1"}}
	}
	kind := func(kind string) func(*unstructured.Unstructured) {
		return func(c *unstructured.Unstructured) { c.SetKind(kind) }
	}
	for name, tc := range map[string]struct {
		config   *unstructured.Unstructured
		conflict bool
		want     bool
	}{
		"in its namespace":                {localServing(), false, true},
		"beside the Knative Operator":     {localServing(), true, false},
		"of another cluster":              {localServing(refers), false, false},
		"of the fleet":                    {localServing(in("open-cluster-management")), false, false},
		"in a namespace of its choice":    {localServing(in("team"), withAnnotation(api.InstallNamespaceAnnotation, "team")), false, false},
		"of a tenant for the hub's":       {localServing(in("team"), withAnnotation(api.InstallNamespaceAnnotation, "knative-serving")), false, false},
		"for another namespace":           {localServing(withAnnotation(api.InstallNamespaceAnnotation, "team")), false, true},
		"eventing in its namespace":       {localServing(kind("KnativeEventing"), in("knative-eventing")), false, true},
		"eventing in serving's namespace": {localServing(kind("KnativeEventing")), false, false},
		"something else":                  {localServing(kind("Other")), false, false},
		"something without namespace":     {localServing(kind("Other"), in("")), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			operator := map[bool]string{true: "Deployment"}[tc.conflict]
			l := &Local{Finder: &target.Finder{Operator: func() string { return operator }}}
			if got := l.InstallsDirectly(tc.config); got != tc.want {
				t.Errorf("it is served: %t", got)
			}
			if got := IsLocal(tc.config); got != (tc.want || tc.conflict) {
				t.Errorf("it is left to another manager: %t", got)
			}
		})
	}
}

// TestLocalNamespace holds that an annotation does not choose where Knative comes on the hub, and that the author is told.
func TestLocalNamespace(t *testing.T) {
	kube := fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: hubUID}})
	l := &Local{Hub: &HubIdentity{Kube: kube}}
	for name, tc := range map[string]struct {
		config *unstructured.Unstructured
		told   bool
	}{
		"without annotation":                {localServing(), false},
		"annotation with its own namespace": {localServing(withAnnotation(api.InstallNamespaceAnnotation, "knative-serving")), false},
		"annotation with another namespace": {localServing(withAnnotation(api.InstallNamespaceAnnotation, "payroll")), true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := l.InstallNamespace(tc.config); got != "knative-serving" {
				t.Errorf("the namespace is %q", got)
			}
			got, err := l.FindCluster(t.Context(), tc.config)
			if err != nil {
				t.Fatal(err)
			}
			if told := strings.Contains(got.Note, api.InstallNamespaceAnnotation); told != tc.told {
				t.Errorf("the note is %q", got.Note)
			}
		})
	}
}

// TestNoLocalInstalls holds that a manager without rights on the hub says what a removal waits for.
func TestNoLocalInstalls(t *testing.T) {
	r := &Remote{}
	if r.InstallsDirectly(localServing()) {
		t.Error("the manager installs on the hub")
	}
	_, err := r.FindCluster(t.Context(), localServing())
	unreachable := (*UnreachableError)(nil)
	if !errors.As(err, &unreachable) || unreachable.Finding.Reason != api.ReasonLocalInstallsDisabled {
		t.Errorf("the error is %v", err)
	}
}

// TestLocalCluster holds that a hub is known by its namespace kube-system, which is read once.
func TestLocalCluster(t *testing.T) {
	kube := fake.NewClientset()
	l := &Local{Hub: &HubIdentity{Kube: kube}}
	if _, err := l.FindCluster(t.Context(), localServing()); !apierrors.IsNotFound(err) {
		t.Errorf("without a namespace: %v", err)
	}
	if err := kube.Tracker().Add(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: hubUID}}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got, err := l.FindCluster(t.Context(), localServing()); err != nil || cmp.Diff(hubUID, got.HubUID) != "" {
			t.Errorf("got %+v, %v", got, err)
		}
	}
	if n := len(kube.Actions()); n != 2 {
		t.Errorf("there were %d requests", n)
	}
}

// TestLocalUsers holds that a change on the hub enqueues the resources that are installed there, until they are gone.
func TestLocalUsers(t *testing.T) {
	kube := fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: hubUID}})
	l := &Local{Hub: &HubIdentity{Kube: kube}}
	if _, err := l.FindCluster(t.Context(), localServing()); err != nil {
		t.Fatal(err)
	}
	for component, want := range map[api.Component]int{api.Serving: 1, "": 1, api.Eventing: 0} {
		if got := l.users.usersOf(types.NamespacedName{}, component); len(got) != want {
			t.Errorf("a change of component %q enqueues %v", component, got)
		}
	}
	l.Forget(api.Serving, client.ObjectKeyFromObject(localServing()))
	if got := l.users.usersOf(types.NamespacedName{}, ""); len(got) > 0 {
		t.Errorf("after the end a change enqueues %v", got)
	}
}
