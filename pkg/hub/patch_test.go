// Copyright Contributors to the Open Cluster Management project

package hub

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	addonclient "open-cluster-management.io/api/client/addon/clientset/versioned/typed/addon/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// objectServer is an API server with one object. It merges patches under a lock, and refuses a patch with another resource
// version than the object's, as the API server does.
type objectServer struct {
	mu      sync.Mutex
	object  []byte
	patches []string
}

func (s *objectServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if r.Method == http.MethodPatch {
		patch, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		s.patches = append(s.patches, path.Base(r.URL.Path)+" "+string(patch))
		if status := s.merge(patch); status != nil {
			w.WriteHeader(int(status.Code))
			_ = json.NewEncoder(w).Encode(status)
			return
		}
	}
	_, _ = w.Write(s.object)
}

func (s *objectServer) merge(patch []byte) *metav1.Status {
	var have, changed metav1.PartialObjectMetadata
	merged, err := jsonpatch.MergePatch(s.object, patch)
	for _, err := range []error{err, json.Unmarshal(s.object, &have), json.Unmarshal(patch, &changed)} {
		if err != nil {
			return &apierrors.NewBadRequest(err.Error()).ErrStatus
		}
	}
	if asked := changed.ResourceVersion; asked != "" && asked != have.ResourceVersion {
		return &apierrors.NewConflict(schema.GroupResource{Resource: "objects"}, have.Name, io.ErrUnexpectedEOF).ErrStatus
	}
	var object map[string]any
	if err := json.Unmarshal(merged, &object); err != nil {
		return &apierrors.NewBadRequest(err.Error()).ErrStatus
	}
	version, _ := strconv.Atoi(have.ResourceVersion)
	_ = unstructured.SetNestedField(object, strconv.Itoa(version+1), "metadata", "resourceVersion")
	s.object, _ = json.Marshal(object)
	return nil
}

// newAddOnServer serves one ManagedClusterAddOn, and returns a client of its namespace.
func newAddOnServer(t *testing.T) (*objectServer, addonclient.ManagedClusterAddOnInterface) {
	t.Helper()
	object, err := json.Marshal(&addonv1beta1.ManagedClusterAddOn{
		TypeMeta: metav1.TypeMeta{APIVersion: addonv1beta1.GroupVersion.String(), Kind: "ManagedClusterAddOn"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "c1", Name: "knative-serving", ResourceVersion: "7", UID: "u1", Finalizers: []string{"theirs"}, Labels: map[string]string{"a": "b"},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	server := &objectServer{object: object}
	http := httptest.NewServer(server)
	t.Cleanup(http.Close)
	client, err := addonclient.NewForConfig(&rest.Config{Host: http.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	return server, client.ManagedClusterAddOns("c1")
}

// TestPatchKeepsUnknown holds that a patch through the client of a kind keeps what only a newer manager, or a newer version of the kind,
// knows: annotations, labels, finalizers, and fields of spec and status.
func TestPatchKeepsUnknown(t *testing.T) {
	server, addOns := newAddOnServer(t)
	unknown := map[string]any{"newer": map[string]any{"a": []any{"b"}}}
	added, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{api.Prefix + "newer": "a"}, "finalizers": []any{"theirs", api.Prefix + "newer"}},
		"spec":     unknown, "status": unknown,
	})
	if err != nil {
		t.Fatal(err)
	}
	if server.object, err = jsonpatch.MergePatch(server.object, added); err != nil {
		t.Fatal(err)
	}
	read, err := addOns.Get(t.Context(), "knative-serving", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range []func(*addonv1beta1.ManagedClusterAddOn){
		func(a *addonv1beta1.ManagedClusterAddOn) { controllerutil.AddFinalizer(a, "ours") },
		func(a *addonv1beta1.ManagedClusterAddOn) { metav1.SetMetaDataAnnotation(&a.ObjectMeta, "x", "y") },
		func(a *addonv1beta1.ManagedClusterAddOn) { a.Spec.Configs = []addonv1beta1.AddOnConfig{{}} },
	} {
		if read, err = Patch(t.Context(), addOns, read, change); err != nil {
			t.Fatal(err)
		}
	}
	if _, err = Patch(t.Context(), addOns, read, func(a *addonv1beta1.ManagedClusterAddOn) { a.Status.Namespace = "ns" }, "status"); err != nil {
		t.Fatal(err)
	}
	if again, err := jsonpatch.MergePatch(server.object, added); err != nil || !jsonpatch.Equal(dropFinalizers(t, again), dropFinalizers(t, server.object)) {
		t.Errorf("the object has lost unknown content (error %v): %s", err, server.object)
	}
	for _, want := range []string{"theirs", api.Prefix + "newer", "ours"} {
		if !strings.Contains(string(server.object), `"`+want+`"`) {
			t.Errorf("%q is not in: %s", want, server.object)
		}
	}
}

// dropFinalizers returns the object without its finalizers, which a merge patch replaces as a whole.
func dropFinalizers(t *testing.T, object []byte) []byte {
	t.Helper()
	out, err := jsonpatch.MergePatch(object, []byte(`{"metadata":{"finalizers":null}}`))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestPatchWrites holds which fields a patch has: those that differ, with the resource version.
func TestPatchWrites(t *testing.T) {
	for name, tc := range map[string]struct {
		reason   string
		change   func(*addonv1beta1.ManagedClusterAddOn)
		resource []string
		want     string
	}{
		"a finalizer":  {"The list replaces the list, so the lock is needed.", func(a *addonv1beta1.ManagedClusterAddOn) { controllerutil.AddFinalizer(a, "ours") }, nil, `knative-serving {"metadata":{"finalizers":["theirs","ours"],"resourceVersion":"7"}}`},
		"no finalizer": {"Null removes the list.", func(a *addonv1beta1.ManagedClusterAddOn) { controllerutil.RemoveFinalizer(a, "theirs") }, nil, `knative-serving {"metadata":{"finalizers":null,"resourceVersion":"7"}}`},
		"an annotation": {"The other labels are not written.", func(a *addonv1beta1.ManagedClusterAddOn) {
			a.Annotations = map[string]string{"x": "y"}
			delete(a.Labels, "a")
		}, nil, `knative-serving {"metadata":{"annotations":{"x":"y"},"labels":null,"resourceVersion":"7"}}`},
		"the status": {"It is a subresource.", func(a *addonv1beta1.ManagedClusterAddOn) { a.Status.Namespace = "ns" }, []string{"status"}, `status {"metadata":{"resourceVersion":"7"},"status":{"namespace":"ns"}}`},
		"nothing":    {"There is no request.", func(*addonv1beta1.ManagedClusterAddOn) {}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			server, addOns := newAddOnServer(t)
			read, err := addOns.Get(t.Context(), "knative-serving", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			stored, err := Patch(t.Context(), addOns, read, tc.change, tc.resource...)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, strings.Join(server.patches, "\n")); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
			if wrote := stored.ResourceVersion != read.ResourceVersion; wrote != (tc.want != "") {
				t.Errorf("the returned object has resource version %s", stored.ResourceVersion)
			}
		})
	}
}

// TestEncodeWork holds that the patch of a work is the patch of the whole work, although parts that are equal are left out of the comparison.
func TestEncodeWork(t *testing.T) {
	read := &workv1.ManifestWork{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "c1", Name: "w", ResourceVersion: "7", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d", "e": "f"},
		},
		Spec: workv1.ManifestWorkSpec{
			Workload:     workv1.ManifestsTemplate{Manifests: []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: []byte(`{"kind":"ConfigMap"}`)}}}},
			DeleteOption: &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyTypeOrphan},
		},
		Status: workv1.ManifestWorkStatus{Conditions: []metav1.Condition{{Type: workv1.WorkApplied}}},
	}
	for name, change := range map[string]func(*workv1.ManifestWork){
		"an annotation":        func(w *workv1.ManifestWork) { w.Annotations["c"] = "x" },
		"the last label":       func(w *workv1.ManifestWork) { delete(w.Labels, "a") },
		"manifests":            func(w *workv1.ManifestWork) { w.Spec.Workload.Manifests[0].Raw = []byte(`{"kind":"Secret"}`) },
		"a part of the spec":   func(w *workv1.ManifestWork) { w.Spec.DeleteOption = nil },
		"the status":           func(w *workv1.ManifestWork) { w.Status.Conditions[0].Reason = "x" },
		"metadata and spec":    func(w *workv1.ManifestWork) { delete(w.Annotations, "e"); w.Spec.Workload.Manifests = nil },
		"an empty label map":   func(w *workv1.ManifestWork) { w.Labels = map[string]string{} },
		"an empty owners list": func(w *workv1.ManifestWork) { w.OwnerReferences = []metav1.OwnerReference{} },
	} {
		t.Run(name, func(t *testing.T) {
			desired := read.DeepCopy()
			change(desired)
			for locked, whole := range map[bool]client.Patch{
				false: client.MergeFrom(read), true: client.MergeFromWithOptions(read, client.MergeFromWithOptimisticLock{}),
			} {
				want, err := whole.Data(desired)
				if err != nil {
					t.Fatal(err)
				}
				if slices.Contains([]string{"{}", `{"metadata":{"resourceVersion":"7"}}`}, string(want)) {
					want = nil
				}
				got, err := difference[*workv1.ManifestWork]{read: read, locked: locked}.encode(desired)
				if diff := cmp.Diff(string(want), string(got)); err != nil || diff != "" || (got == nil) != (want == nil) {
					t.Errorf("locked %t: error %v (-want +got):\n%s", locked, err, diff)
				}
			}
		})
	}
}

// TestPatchRefusesStale holds that a patch of an object that has changed is a Conflict and writes nothing.
func TestPatchRefusesStale(t *testing.T) {
	server, addOns := newAddOnServer(t)
	read, err := addOns.Get(t.Context(), "knative-serving", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	first := func(a *addonv1beta1.ManagedClusterAddOn) { controllerutil.AddFinalizer(a, "first") }
	second := func(a *addonv1beta1.ManagedClusterAddOn) { controllerutil.AddFinalizer(a, "second") }
	if _, err := Patch(t.Context(), addOns, read, first); err != nil {
		t.Fatal(err)
	}
	_, err = Patch(t.Context(), addOns, read, second)
	if !apierrors.IsConflict(err) || !strings.HasPrefix(err.Error(), `cannot patch ManagedClusterAddOn "c1/knative-serving": `) {
		t.Errorf("the error is %v, want a Conflict with the object's name", err)
	}
	if got := string(server.object); !strings.Contains(got, `"finalizers":["theirs","first"]`) {
		t.Errorf("the object is %s", got)
	}
	read.ResourceVersion = ""
	if _, err := Patch(t.Context(), addOns, read, second); err == nil {
		t.Error("a patch of an object without a resource version would have no lock")
	}
}

// TestPatchRace holds that writers of one list who read again after a Conflict lose no entry of each other.
func TestPatchRace(t *testing.T) {
	_, addOns := newAddOnServer(t)
	const writers = 8
	want := []string{"theirs"}
	var all sync.WaitGroup
	for i := range writers {
		finalizer := fmt.Sprintf("writer-%d", i)
		want = append(want, finalizer)
		all.Go(func() {
			for {
				read, err := addOns.Get(t.Context(), "knative-serving", metav1.GetOptions{})
				if err != nil {
					t.Error(err)
					return
				}
				_, err = Patch(t.Context(), addOns, read, func(a *addonv1beta1.ManagedClusterAddOn) { controllerutil.AddFinalizer(a, finalizer) })
				if apierrors.IsConflict(err) {
					continue
				}
				if err != nil {
					t.Error(err)
				}
				return
			}
		})
	}
	all.Wait()
	got, err := addOns.Get(t.Context(), "knative-serving", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(got.Finalizers)
	if diff := cmp.Diff(want, got.Finalizers); diff != "" {
		t.Errorf("finalizers (-want +got):\n%s", diff)
	}
}

// TestPatchUnlocked holds that an unlocked patch of a label passes over another writer's change, and keeps the change.
func TestPatchUnlocked(t *testing.T) {
	server, addOns := newAddOnServer(t)
	read, err := addOns.Get(t.Context(), "knative-serving", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	other := func(a *addonv1beta1.ManagedClusterAddOn) { a.Annotations = map[string]string{"x": "y"} }
	desired := func(a *addonv1beta1.ManagedClusterAddOn) { a.Labels[api.RepairLabel] = "1" }
	if _, err := Patch(t.Context(), addOns, read, other); err != nil {
		t.Fatal(err)
	}
	stored, err := PatchUnlocked(t.Context(), addOns, read, desired)
	if err != nil || stored.Annotations["x"] != "y" || stored.Labels[api.RepairLabel] != "1" {
		t.Errorf("the object is %v with error %v", stored, err)
	}
	if got, want := server.patches[1], `knative-serving {"metadata":{"labels":{"`+api.RepairLabel+`":"1"}}}`; got != want {
		t.Errorf("the patch is %s, want %s", got, want)
	}
}
