// Copyright Contributors to the Open Cluster Management project

package manifestwork

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
)

func TestMayGo(t *testing.T) {
	manifest := func(status metav1.ConditionStatus, message string) workv1.ManifestCondition {
		return workv1.ManifestCondition{Conditions: []metav1.Condition{{Type: workv1.ManifestApplied, Status: status, Message: message}}}
	}
	applied := func(generation int64, manifests ...workv1.ManifestCondition) *workv1.ManifestWork {
		w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Generation: 2, Finalizers: []string{workv1.ManifestWorkFinalizer}}}
		w.Status.Conditions = []metav1.Condition{{Type: workv1.WorkApplied, ObservedGeneration: generation}}
		w.Status.ResourceStatus.Manifests = manifests
		return w
	}
	fine := manifest(metav1.ConditionTrue, "")
	for name, tc := range map[string]struct {
		reason string
		work   *workv1.ManifestWork
		want   bool
	}{
		"never seen": {
			reason: "Nothing of it is on the cluster.",
			work:   &workv1.ManifestWork{}, want: true,
		},
		"not applied since": {
			reason: "The agent still owns everything and would remove it.",
			work:   applied(1, fine),
		},
		"applied": {
			reason: "The agent owns nothing.",
			work:   applied(2, fine, fine), want: true,
		},
		"an object failed": {
			reason: "The agent may still own it.",
			work:   applied(2, fine, manifest(metav1.ConditionFalse, "forbidden")),
		},
		"a kind is missing": {
			reason: "There is no such object.",
			work:   applied(2, fine, manifest(metav1.ConditionFalse, `no matches for kind "Gateway" in version "v1"`)), want: true,
		},
		"an object without a result": {
			reason: "Nothing is known of it.",
			work:   applied(2, fine, workv1.ManifestCondition{}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := IsDeletable(tc.work); got != tc.want {
				t.Errorf("%s got %t", tc.reason, got)
			}
		})
	}
}

func TestOrphaned(t *testing.T) {
	w := &workv1.ManifestWork{
		ObjectMeta: metav1.ObjectMeta{Name: "w", Annotations: map[string]string{api.HandoverAnnotation: "[]"}, OwnerReferences: []metav1.OwnerReference{{UID: "u1"}}},
		Spec:       workv1.ManifestWorkSpec{DeleteOption: &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyTypeSelectivelyOrphan}},
	}
	before := w.DeepCopy()
	got := Orphaned(w)
	if diff := cmp.Diff(before, w); diff != "" {
		t.Errorf("the work was changed:\n%s", diff)
	}
	want := &workv1.ManifestWork{
		ObjectMeta: metav1.ObjectMeta{Name: "w", Annotations: map[string]string{api.OrphanedAnnotation: "true"}},
		Spec:       workv1.ManifestWorkSpec{DeleteOption: &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyTypeOrphan}},
	}
	if diff := cmp.Diff(want, got); diff != "" || !IsOrphaned(got) || IsOrphaned(w) {
		t.Errorf("orphaned (-want +got):\n%s", diff)
	}
}

// TestKeeping holds that a foundation which is to keep CRDs and Namespace after all says so as it did when it was made.
func TestKeeping(t *testing.T) { //nolint:gocognit // one story of several writes
	made, err := Foundation(bundle(t), &addonv1beta1.ManagedClusterAddOn{}, "h1")
	if err != nil {
		t.Fatal(err)
	}
	made.Finalizers = []string{workv1.ManifestWorkFinalizer}
	created := made.DeepCopy()
	if err := RecordCreated(created, reportedFoundation(t, nil), nil, "h1"); err != nil {
		t.Fatal(err)
	}
	owned, err := OwningCreated(created)
	if err != nil || owned == nil || owned.Spec.DeleteOption != nil {
		t.Fatalf("the agent owns %+v: %v", owned, err)
	}
	if again, err := OwningCreated(owned); again != nil || err != nil {
		t.Errorf("the work is written again: %v, %v", again, err)
	}
	made = created
	for name, changed := range map[string]*workv1.ManifestWork{"owned": owned, "orphaned": Orphaned(made)} {
		got, err := KeepCRDs(changed)
		if err != nil || got == nil {
			t.Fatalf("%s: got %v, %v", name, got, err)
		}
		if diff := cmp.Diff(made.Spec, got.Spec); diff != "" || IsOrphaned(got) || got.Annotations[api.KeptAnnotation] == "" {
			t.Errorf("%s: spec (-want +got):\n%s annotations: %v", name, diff, got.Annotations)
		}
		if again, err := KeepCRDs(got); again != nil || err != nil {
			t.Errorf("%s: it is written again: %v, %v", name, again, err)
		}
		if owning, err := OwningCreated(got); err != nil || owning.Annotations[api.KeptAnnotation] != "" {
			t.Errorf("%s: what is owned again is not kept: %v", name, err)
		}
	}
	owned.Finalizers = nil
	if got, err := KeepCRDs(owned); got != nil || err != nil {
		t.Errorf("an agent that never saw it need not be told: %v, %v", got, err)
	}
}

func TestContents(t *testing.T) {
	work := func(manifests ...string) *workv1.ManifestWork {
		w := &workv1.ManifestWork{}
		for _, m := range manifests {
			w.Spec.Workload.Manifests = append(w.Spec.Workload.Manifests, workv1.Manifest{RawExtension: runtime.RawExtension{Raw: []byte(m)}})
		}
		return w
	}
	got := Contents(
		work(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"b"}}`, `{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"a"}}`),
		work(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"ns"}}`, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"c"}}`),
	)
	if want := "4 objects, among them 1 CRDs, Namespace ns; workloads: a, b"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
