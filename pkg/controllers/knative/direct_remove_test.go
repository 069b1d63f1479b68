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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/status"
)

// records puts an anchor on the cluster that records a Namespace, a CRD and, on request, a user's resource of its kind.
func (w *directFixture) records(users ...any) {
	w.anchored("knative-serving/self", hubUID)
	anchor := "/api/v1/namespaces/knative-serving/configmaps/knativeserving-self-root-owner"
	labels := map[string]any{api.ComponentLabel: string(api.Serving)}
	w.answers[anchor].(map[string]any)["data"] = map[string]any{"inventory": `
		{"group":"apiextensions.k8s.io","version":"v1","resource":"customresourcedefinitions","kind":"CustomResourceDefinition","name":"images.x.dev"}
		{"version":"v1","resource":"secrets","kind":"Secret","namespace":"knative-serving","name":"gone"}`}
	w.answers["/apis/apiextensions.k8s.io/v1/customresourcedefinitions/images.x.dev"] = map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "images.x.dev", "labels": labels},
		"spec": map[string]any{
			"group": "x.dev", "names": map[string]any{"plural": "images"}, "versions": []any{map[string]any{"name": "v1", "storage": true}},
		},
	}
	w.answers["/apis/x.dev/v1/images"] = map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", "items": users}
	w.answers["/apis/x.dev/v1/namespaces/team/images/mine"] = map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Success"}
}

func usersImage() any {
	return map[string]any{"apiVersion": "x.dev/v1", "kind": "Image", "metadata": map[string]any{"namespace": "team", "name": "mine"}}
}

const (
	deleteAnchor = "DELETE /api/v1/namespaces/knative-serving/configmaps/knativeserving-self-root-owner"
	updateAnchor = "PUT /api/v1/namespaces/knative-serving/configmaps/knativeserving-self-root-owner"
	deleteCRD    = "DELETE /apis/apiextensions.k8s.io/v1/customresourcedefinitions/images.x.dev"
	deleteUsers  = "DELETE /apis/x.dev/v1/namespaces/team/images/mine"
)

// TestDirectRemove holds what each deletion policy removes, and when the resource may go.
func TestDirectRemove(t *testing.T) {
	policy := func(p string) func(*unstructured.Unstructured) {
		return withAnnotation(api.DeletionPolicyAnnotation, p)
	}
	none := func(*unstructured.Unstructured) {}
	for name, tc := range map[string]struct {
		reason   string
		annotate func(*unstructured.Unstructured)
		users    []any
		want     []string
		waits    string
	}{
		"no policy":        {"CRDs stay.", none, nil, []string{deleteAnchor, directPatchSelf}, ""},
		"an unknown one":   {"It is none.", policy("Everything"), nil, []string{deleteAnchor, directPatchSelf}, ""},
		"users, no policy": {"They keep working.", none, []any{usersImage()}, []string{deleteAnchor, directPatchSelf}, ""},
		"Delete":           {"CRDs go.", policy(api.DeletionPolicyDelete), nil, []string{deleteCRD, updateAnchor, directPatchStatus}, "CustomResourceDefinition.apiextensions.k8s.io images.x.dev"},
		"Delete, users":    {"Nothing goes.", policy(api.DeletionPolicyDelete), []any{usersImage()}, []string{directPatchStatus}, "1 images.x.dev"},
		"DeleteUserResources": {
			"They go first.", policy(api.DeletionPolicyDeleteUserResources), []any{usersImage()}, []string{deleteUsers, directPatchStatus}, "to be gone: 1 images.x.dev",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newDirectFixture(t, localServing(directFinalized, beingDeleted, tc.annotate))
			w.records(tc.users...)
			result, err := w.reconcile()
			if err != nil {
				t.Fatal(err)
			}
			if got := w.written(); !slices.Equal(got, tc.want) {
				t.Errorf("%s Written is %q", tc.reason, got)
			}
			if waits := result.RequeueAfter == removalRetry; waits != (tc.waits != "") {
				t.Errorf("%s It waits: %t", tc.reason, waits)
			}
			if tc.waits == "" {
				w.mustBeReleased(tc.reason)
				return
			}
			ready := w.condition(api.Ready)
			if ready.Reason != api.ReasonRemoving || !strings.Contains(ready.Message, tc.waits) || !strings.Contains(ready.Message, "from the hub") {
				t.Errorf("%s It says %+v", tc.reason, ready)
			}
		})
	}
}

// TestRepeatedRelease holds that a refused write of the finalizer repeats, and that no Event then says that nothing was installed.
func TestRepeatedRelease(t *testing.T) {
	w := newDirectFixture(t, localServing(directFinalized, beingDeleted))
	w.records()
	refused := 0
	w.configs.PrependReactor("patch", "knativeservings", func(clienttesting.Action) (bool, runtime.Object, error) {
		refused++
		return refused == 1, nil, apierrors.NewConflict(schema.GroupResource{Resource: "knativeservings"}, "self", errors.New("changed"))
	})
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	w.mustEmit("Removed")
	delete(w.answers, "/api/v1/namespaces/knative-serving/configmaps/knativeserving-self-root-owner")
	w.hasNoObjects()
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	w.mustBeReleased("The removal has ended.")
	w.mustEmit("Removed")
}

// TestRemovalSlowsDown holds that a removal that waits for users asks ever less often, and at once when something has changed.
func TestRemovalSlowsDown(t *testing.T) {
	w := newDirectFixture(t, localServing(directFinalized, beingDeleted, withAnnotation(api.DeletionPolicyAnnotation, api.DeletionPolicyDelete)))
	w.records(usersImage())
	var pauses []time.Duration
	for range 7 {
		result, err := w.reconcile()
		if err != nil {
			t.Fatal(err)
		}
		pauses = append(pauses, result.RequeueAfter/time.Second)
	}
	w.records(usersImage(), usersImage())
	result, err := w.reconcile()
	if err != nil {
		t.Fatal(err)
	}
	if pauses = append(pauses, result.RequeueAfter/time.Second); !slices.Equal(pauses, []time.Duration{1, 2, 4, 8, 16, 30, 30, 1}) {
		t.Errorf("the requeues are after %d s", pauses)
	}
}

// mustBeReleased holds that the resource may go as far as this package is concerned.
func (w *directFixture) mustBeReleased(reason string) {
	w.t.Helper()
	if got := w.config().GetFinalizers(); !slices.Equal(got, []string{"others/x"}) {
		w.t.Errorf("%s Its finalizers are %q", reason, got)
	}
	if len(w.d.installations) > 0 {
		w.t.Errorf("%s It is remembered", reason)
	}
}

// TestForceOrphan holds that what is installed is left as it is, without a request to the cluster.
func TestForceOrphan(t *testing.T) {
	w := newDirectFixture(t, localServing(directFinalized, beingDeleted, withAnnotation(api.ForceOrphanAnnotation, "true")))
	w.records()
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(w.requests, []string{directPatchSelf}) {
		t.Errorf("asked is %q", w.requests)
	}
	w.mustBeReleased("It is orphaned.")
	if event := <-w.events.Events; !strings.Contains(event, "Orphaned") || !strings.Contains(event, `"knativeserving-self-root-owner" in namespace "knative-serving"`) {
		t.Errorf("it tells %q", event)
	}
}

// TestRemoveOfOthers holds that a resource goes whose cluster has the component for somebody else, and takes nothing along.
func TestRemoveOfOthers(t *testing.T) {
	for name, owner := range map[string]string{"another resource": "knative-serving/first", "somebody else": ""} {
		t.Run(name, func(t *testing.T) {
			w := newDirectFixture(t, localServing(directFinalized, beingDeleted, withAnnotation(api.DeletionPolicyAnnotation, api.DeletionPolicyDeleteUserResources)))
			w.records(usersImage())
			w.anchored(owner, hubUID)
			if _, err := w.reconcile(); err != nil {
				t.Fatal(err)
			}
			if got := w.written(); !slices.Equal(got, []string{directPatchSelf}) {
				t.Errorf("written is %q", got)
			}
			w.mustBeReleased("It has nothing.")
		})
	}
}

// TestRemoveFails holds that a resource stays as long as its cluster cannot be asked.
func TestRemoveFails(t *testing.T) {
	w := newDirectFixture(t, localServing(directFinalized, beingDeleted))
	w.clusterError = errLost
	if _, err := w.reconcile(); err == nil {
		t.Error("there is no error")
	}
	w.clusterError = nil
	w.setAnswer("/api/v1/configmaps", apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, "")) // nobody can tell whose things are there
	if _, err := w.reconcile(); err == nil || !strings.Contains(fmt.Sprint(err), "cannot list ConfigMaps") {
		t.Errorf("got %v", err)
	}
	if got := w.written(); len(got) > 0 || len(w.config().GetFinalizers()) != 2 {
		t.Errorf("written is %q", got)
	}
}

// TestRefusedAnnotations holds that an annotation that does not count is none, and that this is told.
func TestRefusedAnnotations(t *testing.T) {
	for name, annotate := range map[string]func(*unstructured.Unstructured){
		"Delete":              withAnnotation(api.DeletionPolicyAnnotation, api.DeletionPolicyDelete),
		"DeleteUserResources": withAnnotation(api.DeletionPolicyAnnotation, api.DeletionPolicyDeleteUserResources),
		"force-orphan":        withAnnotation(api.ForceOrphanAnnotation, "true"),
	} {
		t.Run(name, func(t *testing.T) {
			w := newDirectFixture(t, localServing(directFinalized, beingDeleted, annotate))
			w.refused = true
			w.records(usersImage())
			if _, err := w.reconcile(); err != nil {
				t.Fatal(err)
			}
			if got := w.written(); !slices.Equal(got, []string{deleteAnchor, directPatchSelf}) {
				t.Errorf("written is %q", got)
			}
			w.mustBeReleased("The installation is removed, and CRDs stay.")
			if event := <-w.events.Events; !strings.Contains(event, api.ReasonEscalationNotPermitted) || !strings.Contains(event, "no trust") {
				t.Errorf("it tells %q", event)
			}
		})
	}
	w := newDirectFixture(t, localServing(directFinalized, beingDeleted))
	w.refused, w.clusterError = true, &UnreachableError{Finding: status.Finding{Status: metav1.ConditionFalse, Reason: api.ReasonRemoteClusterStale}}
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	if c := w.condition(api.AnnotationsPermitted); c.Status != metav1.ConditionFalse || c.Reason != api.ReasonEscalationNotPermitted {
		t.Errorf("while it waits it says %+v", c)
	}
}
