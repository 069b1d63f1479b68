// Copyright Contributors to the Open Cluster Management project

package managedclusteraddon

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
)

const (
	createCRDs = "create manifestworks/knative-serving-crds"
	updateCRDs = "update manifestworks/knative-serving-crds"
	deleteCRDs = "delete manifestworks/knative-serving-crds"
)

// createdCRD returns the manifest of a CRD that the hub has created.
func createdCRD() workv1.Manifest {
	return workv1.Manifest{RawExtension: runtime.RawExtension{Raw: fmt.Appendf(nil,
		`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"services.serving.knative.dev","annotations":{%q:"h1"}}}`,
		api.CreatedByHubAnnotation)}}
}

// appliedWork returns the work with the finalizer and the report of an agent that has applied the work.
func appliedWork(w *workv1.ManifestWork, manifests ...workv1.Manifest) *workv1.ManifestWork {
	w.Finalizers = []string{workv1.ManifestWorkFinalizer}
	w.Spec.Workload.Manifests = manifests
	w.Status.Conditions = []metav1.Condition{{Type: workv1.WorkApplied, Status: metav1.ConditionTrue}}
	return w
}

// crdsWork returns the work with the CRDs of a removal, which the agent has applied.
func crdsWork() *workv1.ManifestWork {
	w := foundationWork()
	w.Name, w.Annotations = manifestwork.CRDsName(api.Serving), nil
	return appliedWork(w, createdCRD())
}

// TestRemoveCRDs holds the order in which a removal with the resources of users deletes the CRDs.
func TestRemoveCRDs(t *testing.T) {
	withUsers := func(works ...*workv1.ManifestWork) *fakeHub {
		return newHub().allowed().annotated(api.DeletionPolicyAnnotation, api.DeletionPolicyDeleteUserResources).with(works...)
	}
	full := func() *workv1.ManifestWork { return appliedWork(foundationWork(), createdCRD()) }
	stripped := func() *workv1.ManifestWork { return appliedWork(foundationWork()) }
	unapplied := func(w *workv1.ManifestWork) *workv1.ManifestWork {
		w.Status = workv1.ManifestWorkStatus{}
		return w
	}
	deleted := crdsWork()
	deleted.DeletionTimestamp = new(metav1.Now())
	for name, tc := range map[string]struct {
		reason string
		hub    *fakeHub
		want   []string
	}{
		"begin": {
			reason: "The work that owns the CRDs is there before the foundation gives up the CRDs.",
			hub:    withUsers(payload(), full()), want: []string{patchStatus, createCRDs},
		},
		"the agent has not applied the work": {
			reason: "A deletion would leave the CRDs.",
			hub:    withUsers(payload(), full(), unapplied(crdsWork())), want: []string{patchStatus},
		},
		"the foundation has the CRDs": {
			reason: "The agent would create the CRDs again.",
			hub:    withUsers(payload(), full(), crdsWork()), want: []string{patchStatus, updateFoundation},
		},
		"the agent has not applied the foundation": {
			reason: "The agent would create the CRDs again.",
			hub:    withUsers(payload(), unapplied(stripped()), crdsWork()), want: []string{patchStatus},
		},
		"the CRDs go": {
			reason: "The payload stays, with the controllers.",
			hub:    withUsers(payload(), stripped(), crdsWork()), want: []string{patchStatus, deleteCRDs},
		},
		"the CRDs are going": {
			reason: "The payload stays, with the controllers.",
			hub:    withUsers(payload(), stripped(), deleted), want: []string{patchStatus},
		},
		"the CRDs are gone": {
			reason: "The payload follows.",
			hub:    withUsers(payload(), stripped()), want: []string{patchStatus, deletePayload},
		},
		"CRDs of others": {
			reason: "The policy deletes no CRD that the cluster had before.",
			hub: withUsers(payload(), appliedWork(foundationWork(), workv1.Manifest{RawExtension: runtime.RawExtension{
				Raw: []byte(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"services.serving.knative.dev"}}`),
			}})), want: []string{patchStatus, deletePayload},
		},
		"the policy was withdrawn": {
			reason: "The agent has to give up the CRDs before the work is deleted.",
			hub:    newHub().allowed().with(payload(), stripped(), crdsWork()), want: []string{patchStatus, updateCRDs},
		},
		"the policy was withdrawn, and the agent keeps the CRDs": {
			reason: "A deletion removes nothing.",
			hub:    newHub().allowed().with(payload(), stripped(), manifestwork.Orphaned(crdsWork())),
			want:   []string{patchStatus, deleteCRDs},
		},
		"the policy counts again": {
			reason: "A deletion of the orphaned work would keep the CRDs.",
			hub:    withUsers(payload(), stripped(), manifestwork.Orphaned(crdsWork())), want: []string{patchStatus, updateCRDs},
		},
		"the removal was given up": {
			reason: "The add-on is requested again, and the work is a rest of the removal.",
			hub:    newHub().adopting().with(probeWork(t, "", nil), manifestwork.Orphaned(crdsWork())),
			want:   []string{patchStatus, deleteCRDs, patchAddOn, createFoundation, createGate},
		},
		"the add-on is requested again while CRDs go": {
			reason: "The agent would delete what the next installation creates.",
			hub:    newHub().adopting().with(probeWork(t, "", nil), deleted), want: []string{patchStatus},
		},
		"force-orphan": {
			reason: "The agent gives up all objects.",
			hub:    newHub().deleting().annotated(api.ForceOrphanAnnotation, "true").with(payload(), stripped(), crdsWork()),
			want:   []string{updatePayload, updateFoundation, updateCRDs},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := tc.hub.reconcile(t); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, tc.hub.actions); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}
