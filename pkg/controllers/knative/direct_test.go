// Copyright Contributors to the Open Cluster Management project

package knative

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/clustercache"
	"open-cluster-management.io/knative-addon/pkg/inventory"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/status"
	"open-cluster-management.io/knative-addon/pkg/values"
)

const (
	directPatchSelf   = "hub: patch knativeservings"
	directPatchStatus = "hub: patch knativeservings/status"
)

// TestFirstWrites holds what a reconcile writes, and that the finalizer comes before all else.
func TestFirstWrites(t *testing.T) {
	for name, tc := range map[string]struct {
		reason     string
		config     *unstructured.Unstructured
		change     func(*directFixture)
		want       []string
		finalizers []string
	}{
		"a new one":            {"It is held before anything is written.", localServing(), func(*directFixture) {}, []string{directPatchSelf}, []string{api.DirectFinalizer}},
		"one that is not ours": {"It is left alone.", localServing(), func(w *directFixture) { w.unserved = true }, nil, nil},
		"one that is not ours any more": {
			"What is installed stays.", localServing(directFinalized), func(w *directFixture) { w.unserved = true }, nil, []string{"others/x", api.DirectFinalizer},
		},
		"one that leaves and holds nothing": {"There is nothing to remove.", localServing(beingDeleted), func(*directFixture) {}, nil, nil},
		"a fault of the bundle": {
			"Nothing is written but the status.", localServing(directFinalized),
			func(w *directFixture) {
				w.bundleError = fmt.Errorf("x: %w", &render.Error{Reason: api.ReasonInvalidSpec, Message: "spec.config is odd"})
			},
			[]string{directPatchStatus},
			[]string{"others/x", api.DirectFinalizer},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newDirectFixture(t, tc.config)
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

// TestFailedDownloadIsRepeated holds that a pass follows a configuration whose manifests could not be downloaded: no event tells that the server
// answers again.
func TestFailedDownloadIsRepeated(t *testing.T) {
	for reason, want := range map[render.Reason]time.Duration{api.ReasonRemoteManifestUnavailable: time.Minute, api.ReasonInvalidSpec: 0} {
		w := newDirectFixture(t, localServing(directFinalized))
		w.bundleError = &render.Error{Reason: reason, Message: "no bundle"}
		if result, err := w.reconcile(); err != nil || result.RequeueAfter != want {
			t.Errorf("%s: the next pass is after %s, want %s; %v", reason, result.RequeueAfter, want, err)
		}
	}
}

func TestFault(t *testing.T) {
	w := newDirectFixture(t, localServing(directFinalized))
	w.bundleError = &render.Error{Reason: api.ReasonInvalidSpec, Message: "spec.config is odd"}
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
	w := newDirectFixture(t, localServing(directFinalized))
	w.values = values.None("it has none")
	w.bundleError = &render.Error{Reason: api.ReasonValueMissing, Message: "no region"}
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

// TestUnreachableCluster holds what is said of a spec while its cluster is unreachable: whether it can be delivered is known on the
// hub, and nothing else is.
func TestUnreachableCluster(t *testing.T) {
	w := newDirectFixture(t, localServing(directFinalized))
	w.clusterError = &UnreachableError{Finding: status.Finding{Status: metav1.ConditionFalse, Reason: api.ReasonRemoteClusterStale}, Retry: time.Minute}
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
	w.bundleError = &render.Error{Reason: api.ReasonInvalidSpec, Message: "spec.config is odd"}
	says(api.InstallSucceeded, api.ReasonInvalidSpec, metav1.ConditionFalse)
	says(api.DeploymentsAvailable, api.ReasonNotRendered, metav1.ConditionUnknown)
	w.bundleError = nil
	says(api.InstallSucceeded, api.ReasonDelivering, metav1.ConditionUnknown)
}

// TestBadEdit holds that a bad edit does not stop the observation of what runs: by the last delivered spec, or by the anchor when that
// spec cannot be rendered either.
func TestBadEdit(t *testing.T) {
	fault := &render.Error{Reason: api.ReasonUnknownVersion, Message: "no version 9.9"}
	for name, tc := range map[string]struct {
		change   func(w *directFixture)
		revision string // that was rendered last
		want     string
	}{
		"the hub can render the delivered spec": {func(w *directFixture) { w.specError = fault }, "h0", api.ReasonWorkloadsAvailable},
		"the hub cannot render any spec":        {func(w *directFixture) { w.bundleError = fault }, "h0", api.ReasonWorkloadsAvailable},
		"nothing is installed":                  {func(w *directFixture) { w.bundleError = fault; clear(w.answers) }, "", api.ReasonNotRendered},
	} {
		t.Run(name, func(t *testing.T) {
			w := newDirectFixture(t, localServing(directFinalized))
			w.anchored("knative-serving/self", hubUID)
			anchor, _ := w.answers["/api/v1/namespaces/knative-serving/configmaps/knativeserving-self-root-owner"].(map[string]any)
			annotations, _, err := unstructured.NestedStringMap(anchor, "metadata", "annotations")
			if err != nil {
				t.Fatal(err)
			}
			annotations[api.VersionAnnotation], annotations[api.SpecHashAnnotation] = "1.23.0", "h0"
			if err := unstructured.SetNestedStringMap(anchor, annotations, "metadata", "annotations"); err != nil {
				t.Fatal(err)
			}
			tc.change(w)
			if _, err := w.reconcile(); err != nil {
				t.Fatal(err)
			}
			if w.place.Revision != tc.revision {
				t.Errorf("revision %q was rendered, want %q", w.place.Revision, tc.revision)
			}
			if got := w.condition(api.InstallSucceeded); got.Status != metav1.ConditionFalse || got.Reason != api.ReasonUnknownVersion {
				t.Errorf("it says %+v", got)
			}
			if got := w.condition(api.DeploymentsAvailable); got.Reason != tc.want {
				t.Errorf("it says %+v, want %s", got, tc.want)
			}
		})
	}
}

// TestRefusals holds what a resource says whose cluster has the component for somebody else.
func TestRefusals(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*directFixture)
		reason string
		words  []string
	}{
		"another resource": {func(w *directFixture) { w.anchored("knative-serving/first", hubUID) }, api.ReasonTargetConflict, []string{`the hub has knative-serving for KnativeServing "knative-serving/first", which came first`}},
		"another hub":      {func(w *directFixture) { w.anchored("knative-serving/self", "hub-2") }, api.ReasonTargetConflict, []string{"of another hub", "remove one of the two"}},
		"somebody else":    {func(w *directFixture) { w.anchored("", "") }, api.ReasonExistingInstallation, []string{"ConfigMap knative-serving/knativeserving-self-root-owner", "stays unchanged", api.AdoptAnnotation}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newDirectFixture(t, localServing(directFinalized))
			tc.change(w)
			if result, err := w.reconcile(); err != nil || result.RequeueAfter != refusalRetry { // nobody tells when it is free
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
			if written := w.written(); !slices.Equal(written, []string{directPatchStatus}) {
				t.Errorf("written is %q", written)
			}
		})
	}
}

func TestRefusal(t *testing.T) {
	many := &inventory.UnmanagedError{Objects: strings.Split("a b c d e f g", " ")}
	if f, _ := ownershipRefusal(many, "c1", api.Serving); !strings.Contains(f.Message, "a, b, c, d, e and 2 more") {
		t.Errorf("it says %q", f.Message)
	}
	for _, namespaces := range [][]string{{"one"}, {"one", "two"}} {
		for _, err := range []error{
			&inventory.UnmanagedError{OtherNamespaces: namespaces}, &inventory.OwnershipError{WorkAgent: true, OtherNamespaces: namespaces},
		} {
			f, _ := ownershipRefusal(err, "c1", api.Serving)
			for _, want := range append([]string{api.InstallNamespaceAnnotation, api.AdoptAnnotation}, namespaces...) {
				if !strings.Contains(f.Message, want) {
					t.Errorf("%q is not in %q", want, f.Message)
				}
			}
		}
	}
	if f, refused := ownershipRefusal(errLost, "c1", api.Serving); refused {
		t.Errorf("%v is a refusal: %+v", errLost, f)
	}
}

// TestErrors holds that what is no finding is an error, which is tried again, and that old caches are none.
func TestErrors(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{}, "self", nil)
	for name, tc := range map[string]struct {
		change func(*directFixture)
		want   error
		result reconcile.Result
	}{
		"no target":                 {func(w *directFixture) { w.clusterError = errLost }, errLost, reconcile.Result{}},
		"no bundle":                 {func(w *directFixture) { w.bundleError = errLost }, errLost, reconcile.Result{}},
		"a conflict":                {func(w *directFixture) { w.bundleError = fmt.Errorf("x: %w", conflict) }, nil, reconcile.Result{RequeueAfter: staleRetry}},
		"made by somebody meantime": {func(w *directFixture) { w.bundleError = apierrors.NewAlreadyExists(schema.GroupResource{}, "x") }, nil, reconcile.Result{RequeueAfter: staleRetry}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newDirectFixture(t, localServing(directFinalized))
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
	w := newDirectFixture(t, localServing(directFinalized))
	one, other := &ReachableCluster{Cluster: &clustercache.Cluster{}, HubUID: hubUID}, &ReachableCluster{Cluster: &clustercache.Cluster{}, HubUID: hubUID}
	i := w.d.installationOf(localServing(), one)
	if w.d.installationOf(localServing(), one) != i {
		t.Error("it is forgotten")
	}
	if w.d.installationOf(localServing(), other) == i {
		t.Error("it is remembered of another connection")
	}
	if err := w.configs.Tracker().Delete(api.Serving.Resource(), "knative-serving", "self"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.reconcile(); err != nil || len(w.d.installations) > 0 {
		t.Errorf("%v; it is remembered after the end: %v", err, w.d.installations)
	}
}

// As long as the bundle is being rendered, nothing is written, also not to a status, and the resource is requeued.
func TestDirectPending(t *testing.T) {
	for name, change := range map[string]func(*directFixture){
		"reachable":   func(*directFixture) {},
		"unreachable": func(w *directFixture) { w.clusterError = &UnreachableError{Retry: time.Minute} },
	} {
		t.Run(name, func(t *testing.T) {
			w := newDirectFixture(t, localServing(directFinalized))
			w.bundleError = &render.Error{Reason: api.FaultRenderPending, Message: "wait"}
			change(w)
			result, err := w.reconcile()
			if err != nil || result.RequeueAfter == 0 {
				t.Errorf("%v, %v; want a requeue", result, err)
			}
			if got := w.written(); len(got) > 0 {
				t.Errorf("written is %q", got)
			}
		})
	}
}
