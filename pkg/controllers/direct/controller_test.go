// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/direct"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/status"
	"open-cluster-management.io/knative-addon/pkg/values"
)

const (
	patchSelf   = "hub: patch knativeservings"
	patchStatus = "hub: patch knativeservings/status"
)

// TestFirstWrites holds what a reconcile writes, and that the finalizer comes before all else.
func TestFirstWrites(t *testing.T) {
	for name, tc := range map[string]struct {
		reason     string
		config     *unstructured.Unstructured
		change     func(*world)
		want       []string
		finalizers []string
	}{
		"a new one":            {"It is held before anything is written.", serving(), func(*world) {}, []string{patchSelf}, []string{api.DirectFinalizer}},
		"one that is not ours": {"It is left alone.", serving(), func(w *world) { w.unserved = true }, nil, nil},
		"one that is not ours any more": {
			"What is installed stays.", serving(finalized), func(w *world) { w.unserved = true }, nil, []string{"others/x", api.DirectFinalizer},
		},
		"one that leaves and holds nothing": {"There is nothing to remove.", serving(leaving), func(*world) {}, nil, nil},
		"a fault of the bundle": {
			"Nothing is written but the status.", serving(finalized),
			func(w *world) {
				w.err = fmt.Errorf("x: %w", &render.Error{Reason: render.ReasonInvalidSpec, Message: "spec.config is odd"})
			},
			[]string{patchStatus},
			[]string{"others/x", api.DirectFinalizer},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tc.config)
			tc.change(w)
			if result, err := w.reconcile(); err != nil || result != (reconcile.Result{}) {
				t.Fatalf("%v, %v", result, err)
			}
			if got := w.written(); !slices.Equal(tc.want, got) {
				t.Errorf("%s Written is %q", tc.reason, got)
			}
			if got := w.config().GetFinalizers(); !slices.Equal(tc.finalizers, got) {
				t.Errorf("%s Its finalizers are %q", tc.reason, got)
			}
		})
	}
}

func TestFault(t *testing.T) {
	w := newWorld(t, serving(finalized))
	w.err = &render.Error{Reason: render.ReasonInvalidSpec, Message: "spec.config is odd"}
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	got := w.condition(api.InstallSucceeded)
	if got.Status != metav1.ConditionFalse || !strings.Contains(got.Message, "spec.config is odd") {
		t.Errorf("it says %+v", got)
	}
	if got := w.condition(api.TargetClusterResolved); got.Status != metav1.ConditionTrue {
		t.Errorf("the cluster is said to be %+v", got)
	}
}

// TestMissingValue holds that a resource is rendered with the values of its cluster, and what it says when one is missing.
func TestMissingValue(t *testing.T) {
	w := newWorld(t, serving(finalized))
	w.values = values.None("it has none")
	w.err = &render.Error{Reason: render.ReasonValueMissing, Message: "no region"}
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	if w.place.Values != w.values {
		t.Error("the resource is rendered with other values than those of its cluster")
	}
	if got := w.condition(api.InstallSucceeded); got.Status != metav1.ConditionFalse || got.Reason != api.ReasonValueMissing || got.Message != "no region" {
		t.Errorf("it says %+v", got)
	}
}

// TestUnseen holds what is said of a spec while its cluster is out of sight: whether it can be delivered is known on the
// hub, and nothing else is.
func TestUnseen(t *testing.T) {
	w := newWorld(t, serving(finalized))
	w.target = &UnreachableError{Finding: status.Finding{Status: metav1.ConditionFalse, Reason: api.ReasonRemoteClusterStale}, Retry: time.Minute}
	says := func(condition, reason string, want metav1.ConditionStatus) {
		t.Helper()
		if result, err := w.reconcile(); err != nil || result.RequeueAfter != time.Minute {
			t.Fatalf("%v, %v", result, err)
		}
		if got := w.condition(condition); got.Status != want || got.Reason != reason {
			t.Errorf("it says %+v", got)
		}
	}
	says(api.TargetClusterResolved, api.ReasonRemoteClusterStale, metav1.ConditionFalse)
	says(api.InstallSucceeded, api.ReasonDelivering, metav1.ConditionUnknown)
	says(api.DeploymentsAvailable, api.ReasonDelivering, metav1.ConditionUnknown)
	w.err = &render.Error{Reason: render.ReasonInvalidSpec, Message: "spec.config is odd"}
	says(api.InstallSucceeded, string(render.ReasonInvalidSpec), metav1.ConditionFalse)
	says(api.DeploymentsAvailable, api.ReasonNotRendered, metav1.ConditionUnknown)
	w.err = nil
	says(api.InstallSucceeded, api.ReasonDelivering, metav1.ConditionUnknown)
}

// TestRefusals holds what a resource says whose cluster has the component for somebody else.
func TestRefusals(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*world)
		reason string
		words  []string
	}{
		"another resource": {func(w *world) { w.anchored("knative-serving/first", hubUID) }, api.ReasonTargetConflict, []string{`the hub has knative-serving for KnativeServing "knative-serving/first", which came first`}},
		"another hub":      {func(w *world) { w.anchored("knative-serving/self", "hub-2") }, api.ReasonTargetConflict, []string{"of another hub", "delete one of the two"}},
		"somebody else":    {func(w *world) { w.anchored("", "") }, api.ReasonExistingInstallation, []string{"ConfigMap knative-serving/knativeserving-self-root-owner", "left alone", api.AdoptAnnotation}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, serving(finalized))
			tc.change(w)
			if result, err := w.reconcile(); err != nil || result.RequeueAfter != refusedRetry { // nobody tells when it is free
				t.Fatalf("%v, %v", result, err)
			}
			got := w.condition(api.TargetClusterResolved)
			if got.Status != metav1.ConditionFalse || got.Reason != tc.reason {
				t.Errorf("it says %+v", got)
			}
			for _, word := range tc.words {
				if !strings.Contains(got.Message, word) {
					t.Errorf("it does not say %q: %s", word, got.Message)
				}
			}
			if written := w.written(); !slices.Equal(written, []string{patchStatus}) {
				t.Errorf("written is %q", written)
			}
		})
	}
}

func TestRefusal(t *testing.T) {
	many := &direct.ForeignError{Objects: strings.Split("a b c d e f g", " ")}
	if f, _ := refusal(many, "c1", api.Serving); !strings.Contains(f.Message, "a, b, c, d, e and 2 more") {
		t.Errorf("it says %q", f.Message)
	}
	if f, refused := refusal(errLost, "c1", api.Serving); refused {
		t.Errorf("%v is a refusal: %+v", errLost, f)
	}
}

// TestErrors holds that what is no finding is an error, which is tried again, and that old caches are none.
func TestErrors(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{}, "self", nil)
	for name, tc := range map[string]struct {
		change func(*world)
		want   error
		result reconcile.Result
	}{
		"no target":                 {func(w *world) { w.target = errLost }, errLost, reconcile.Result{}},
		"no bundle":                 {func(w *world) { w.err = errLost }, errLost, reconcile.Result{}},
		"a conflict":                {func(w *world) { w.err = fmt.Errorf("x: %w", conflict) }, nil, reconcile.Result{RequeueAfter: staleRetry}},
		"made by somebody meantime": {func(w *world) { w.err = apierrors.NewAlreadyExists(schema.GroupResource{}, "x") }, nil, reconcile.Result{RequeueAfter: staleRetry}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, serving(finalized))
			tc.change(w)
			result, err := w.reconcile()
			if !errors.Is(err, tc.want) || result != tc.result {
				t.Errorf("got %v, %v", result, err)
			}
			if written := w.written(); len(written) > 0 {
				t.Errorf("written is %q", written)
			}
		})
	}
}

// TestMemory holds that repairs are remembered for as long as the connection and the resource are the same.
func TestMemory(t *testing.T) {
	w := newWorld(t, serving(finalized))
	one, other := &Target{Cluster: &direct.Cluster{}, Hub: hubUID}, &Target{Cluster: &direct.Cluster{}, Hub: hubUID}
	i := w.r.installationOf(serving(), one)
	if w.r.installationOf(serving(), one) != i {
		t.Error("it is forgotten")
	}
	if w.r.installationOf(serving(), other) == i {
		t.Error("it is remembered of another connection")
	}
	if err := w.configs.Tracker().Delete(api.Serving.Resource(), "knative-serving", "self"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.reconcile(); err != nil || len(w.r.installations) > 0 {
		t.Errorf("%v; it is remembered after the end: %v", err, w.r.installations)
	}
}

func TestSoonest(t *testing.T) {
	for _, tc := range []struct{ a, b, want time.Duration }{
		{0, 0, 0},
		{0, 2, 2},
		{2, 0, 2},
		{1, 2, 1},
		{2, 1, 1},
		{2, 2, 2},
	} {
		if got := soonest(tc.a, tc.b); got != tc.want {
			t.Errorf("the sooner of %d and %d is %d, want %d", tc.a, tc.b, got, tc.want)
		}
	}
}

// TestServes holds which resources are installed on the hub.
func TestServes(t *testing.T) {
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
		config             *unstructured.Unstructured
		disabled, conflict bool
		want               bool
	}{
		"in its namespace":                 {serving(), false, false, true},
		"not enabled":                      {serving(), true, false, false},
		"beside the Knative Operator":      {serving(), false, true, false},
		"of another cluster":               {serving(refers), false, false, false},
		"of the fleet":                     {serving(in("open-cluster-management")), false, false, false},
		"in a namespace of its choice":     {serving(in("team"), annotated(api.InstallNamespaceAnnotation, "team")), false, false, true},
		"for another namespace":            {serving(annotated(api.InstallNamespaceAnnotation, "team")), false, false, false},
		"eventing in its namespace":        {serving(kind("KnativeEventing"), in("knative-eventing")), false, false, true},
		"eventing in serving's namespace":  {serving(kind("KnativeEventing")), false, false, false},
		"something else without namespace": {serving(kind("Other")), false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := &Local{Enabled: !tc.disabled, Conflict: func() bool { return tc.conflict }}
			if got := l.Serves(tc.config); got != tc.want {
				t.Errorf("it is served: %t", got)
			}
		})
	}
}

// TestLocalOf holds that a hub is known by its namespace kube-system, which is read once.
func TestLocalOf(t *testing.T) {
	kube := fake.NewClientset()
	l := &Local{Hub: &Hub{Kube: kube}}
	if _, err := l.Of(t.Context(), nil); !apierrors.IsNotFound(err) {
		t.Errorf("without a namespace: %v", err)
	}
	if err := kube.Tracker().Add(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: hubUID}}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got, err := l.Of(t.Context(), nil); err != nil || cmp.Diff(hubUID, got.Hub) != "" {
			t.Errorf("got %+v, %v", got, err)
		}
	}
	if n := len(kube.Actions()); n != 2 {
		t.Errorf("there were %d requests", n)
	}
}
