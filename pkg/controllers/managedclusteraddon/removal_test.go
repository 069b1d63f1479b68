// Copyright Contributors to the Open Cluster Management project

package managedclusteraddon

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
)

// TestReconcileRemoval holds the order of a removal, and what a removal waits for.
func TestReconcileRemoval(t *testing.T) {
	foreign := newHub().deleting().with(payload())
	foreign.addOn.Finalizers = []string{"example.com/other"}
	gone := newHub().deleting().with(payload(), foundationWork())
	gone.cluster = nil
	keeping := foundationWork()
	owned := foundationWork()
	owned.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: []byte(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"knative-serving"}}`)}}}
	owned.Finalizers = []string{workv1.ManifestWorkFinalizer}
	kept, err := manifestwork.KeepCRDs(owned)
	if err != nil {
		t.Fatal(err)
	}
	keptAndApplied := kept.DeepCopy()
	keptAndApplied.Status.Conditions = []metav1.Condition{{Type: workv1.WorkApplied, Status: metav1.ConditionTrue}}
	seen := manifestwork.Orphaned(payload())
	seen.Finalizers = []string{workv1.ManifestWorkFinalizer}
	justDeleted := payload()
	justDeleted.Finalizers, justDeleted.DeletionTimestamp = []string{workv1.ManifestWorkFinalizer}, &metav1.Time{Time: passTime}
	terminating := payload()
	terminating.Finalizers, terminating.DeletionTimestamp = []string{workv1.ManifestWorkFinalizer}, new(metav1.Now())
	keeping.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{
		Raw: []byte(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"knative-serving","annotations":{"` + api.CreatedByHubAnnotation + `":"h1"}}}`),
	}}}
	keeping.Spec.DeleteOption = &workv1.DeleteOption{
		PropagationPolicy: workv1.DeletePropagationPolicyTypeSelectivelyOrphan,
		SelectivelyOrphan: &workv1.SelectivelyOrphan{OrphaningRules: []workv1.OrphaningRule{{Resource: "namespaces", Name: "knative-serving"}}},
	}
	refused := newHub().allowed().annotated(api.DeletionPolicyAnnotation, api.DeletionPolicyDeleteUserResources).with(keeping)
	refused.permits.refuses = true
	createdFoundation := foundationWork()
	createdFoundation.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{
		Raw: []byte(`{"kind":"Namespace","metadata":{"name":"knative-serving","annotations":{"` + api.CreatedByHubAnnotation + `":"h1"}}}`),
	}}}
	workloads := payload()
	workloads.Name += "1"
	workloads.Finalizers = []string{workv1.ManifestWorkFinalizer}
	workloads.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{
		Raw: []byte(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"knative-serving","name":"activator"},"spec":{"replicas":1}}`),
	}}}
	for name, tc := range map[string]struct {
		reason string
		hub    *fakeHub
		want   []string
	}{
		"removal of a probe": {
			reason: "Nothing was written on the cluster: the removal needs no permission and no agent.",
			hub:    newHub().deleting().unreachable().with(probeWork(t, "", nil)), want: []string{patchAddOn},
		},
		"removal begins with the payload": {
			reason: "The CRDs and the agent's permissions outlive what needs them.",
			hub:    newHub().allowed().with(payload(), foundationWork()), want: []string{patchStatus, deletePayload},
		},
		"removal of a payload that the agent applies": {
			reason: "A pass of the agent that is under way would create deleted objects again.",
			hub:    newHub().allowed().with(reclaimedPayload(t), foundationWork()), want: []string{patchStatus, updatePayload},
		},
		"removal of a payload that the agent only reads": {
			reason: "No pass of the agent writes objects.",
			hub:    newHub().allowed().with(readOnlyPayload(t), foundationWork()), want: []string{patchStatus, deletePayload},
		},
		"removal of several payloads": {
			reason: "The workloads of one payload need the permissions of the other until the workloads have stopped.",
			hub:    newHub().allowed().with(reclaimedPayload(t), workloads, foundationWork()), want: []string{patchStatus, updatePayload + "1"},
		},
		"removal waits for a cluster out of reach": {
			reason: "The work is deleted, and its finalizer waits for the agent; the add-on is not released.",
			hub:    newHub().allowed().unreachable().with(payload(), foundationWork()), want: []string{patchStatus, deletePayload},
		},
		"removal of the foundation": {
			reason: "The foundation goes when no payload is left.",
			hub:    newHub().allowed().with(foundationWork()), want: []string{patchStatus, deleteFoundation},
		},
		"removal ends": {
			reason: "The add-on is released when nothing is left.",
			hub:    newHub().allowed(), want: []string{patchStatus, patchAddOn},
		},
		"removal that was not allowed": {
			reason: "Package guard decides whether anything is removed.",
			hub:    newHub().deleting().with(payload(), foundationWork()), want: []string{patchStatus},
		},
		"removal by force": {
			reason: "The works lose their owner first: a deletion must wait until the agent has applied that.",
			hub:    newHub().deleting().annotated(api.ForceOrphanAnnotation, "true").with(payload(), foundationWork()),
			want:   []string{updatePayload, updateFoundation},
		},
		"end of a removal by force": {
			reason: "The add-on goes when its works have no owner; the works stay.",
			hub:    newHub().deleting().annotated(api.ForceOrphanAnnotation, "true").with(manifestwork.Orphaned(payload()), manifestwork.Orphaned(foundationWork())),
			want:   []string{patchAddOn},
		},
		"orphaned works that the agent has not applied": {
			reason: "The agent would remove everything.",
			hub:    (&fakeHub{noAddOn: true, addOn: newHub().addOn}).with(seen, foundationWork()),
		},
		"orphaned works of an agent that never was": {
			reason: "Nothing goes with them. A work that was not orphaned is none of these.",
			hub:    (&fakeHub{noAddOn: true, addOn: newHub().addOn}).with(manifestwork.Orphaned(payload()), foundationWork()),
			want:   []string{deletePayload},
		},
		"an orphaned foundation beside a payload that the agent has not applied": {
			reason: "An add-on that takes over the payload needs the foundation's records.",
			hub:    (&fakeHub{noAddOn: true, addOn: newHub().addOn}).with(seen, manifestwork.Orphaned(foundationWork())),
		},
		"an orphaned foundation alone": {
			reason: "Nothing else is left.",
			hub:    (&fakeHub{noAddOn: true, addOn: newHub().addOn}).with(manifestwork.Orphaned(foundationWork())),
			want:   []string{deleteFoundation},
		},
		"CRDs are to go without user resources": {
			reason: "The hub cannot see user resources.",
			hub:    newHub().allowed().annotated(api.DeletionPolicyAnnotation, api.DeletionPolicyDelete).with(createdFoundation),
			want:   []string{patchStatus},
		},
		"CRDs are to go without user resources, and the payload runs": {
			reason: "The controllers of the payload remove the finalizers of user resources, should the administrator decide so.",
			hub:    newHub().allowed().annotated(api.DeletionPolicyAnnotation, api.DeletionPolicyDelete).with(payload(), createdFoundation),
			want:   []string{patchStatus},
		},
		"CRDs are to go without user resources, and the cluster had all before": {
			reason: "Nobody has to decide.",
			hub:    newHub().allowed().annotated(api.DeletionPolicyAnnotation, api.DeletionPolicyDelete).with(payload(), foundationWork()),
			want:   []string{patchStatus, deletePayload},
		},
		"CRDs are to go, and the cluster had all before": {
			reason: "The policy deletes nothing, so that nobody has to decide.",
			hub:    newHub().allowed().annotated(api.DeletionPolicyAnnotation, api.DeletionPolicyDelete).with(foundationWork()),
			want:   []string{patchStatus, deleteFoundation},
		},
		"CRDs are to go with user resources": {
			reason: "The agent removes what it has applied as its own.",
			hub:    newHub().allowed().annotated(api.DeletionPolicyAnnotation, api.DeletionPolicyDeleteUserResources).with(keeping),
			want:   []string{patchStatus, updateFoundation},
		},
		"CRDs are to go, and the annotation does not count": {
			reason: "They stay, and the rest goes.",
			hub:    refused, want: []string{patchStatus, deleteFoundation},
		},
		"CRDs are to stay after all": {
			reason: "The agent owns them, and has to be told before the foundation goes.",
			hub:    newHub().allowed().with(owned), want: []string{patchStatus, updateFoundation},
		},
		"CRDs are to stay, and the agent has not applied that": {
			reason: "It would remove them.",
			hub:    newHub().allowed().with(kept), want: []string{patchStatus},
		},
		"CRDs stay": {
			reason: "The agent no longer owns them.",
			hub:    newHub().allowed().with(keptAndApplied), want: []string{patchStatus, deleteFoundation},
		},
		"unknown deletion policy": {
			reason: "What is not understood keeps CRDs.",
			hub:    newHub().allowed().annotated(api.DeletionPolicyAnnotation, "delete").with(keeping),
			want:   []string{patchStatus, deleteFoundation},
		},
		"removal while paused": {
			reason: "It waits, and says what for.",
			hub:    newHub().allowed().isPaused().with(payload(), foundationWork()), want: []string{patchStatus},
		},
		"removal by force while paused": {
			reason: "Force-orphan changes nothing on the cluster.",
			hub:    newHub().deleting().isPaused().annotated(api.ForceOrphanAnnotation, "true").with(payload()),
			want:   []string{updatePayload},
		},
		"finalizer of another controller": {
			reason: "An add-on that we do not hold is not ours to clean up.",
			hub:    foreign,
		},
		"cluster leaves out of reach": {
			reason: "Nobody can remove anything: OCM deletes the works next, and an agent that returns must keep the objects.",
			hub:    newHub().deleting().unreachable().detaching().with(payload(), foundationWork()), want: []string{updatePayload, updateFoundation},
		},
		"cluster has left out of reach": {
			reason: "The works wait for no agent, and nothing may be stuck for ever.",
			hub:    newHub().deleting().unreachable().detaching().with(manifestwork.Orphaned(payload()), manifestwork.Orphaned(foundationWork())),
			want:   []string{patchAddOn},
		},
		"cluster leaves out of reach, and its agent would delay the deletion": {
			reason: "Force-orphan came before the detachment.",
			hub:    newHub().deleting().unreachable().detaching().with(seen, manifestwork.Orphaned(foundationWork())), want: []string{updatePayload},
		},
		"cluster leaves out of reach, and its agent removes the payload": {
			reason: "Half of an installation blocks the cluster: the agent goes on after the return.",
			hub:    newHub().allowed().unreachable().detaching().with(terminating, foundationWork()), want: []string{patchStatus},
		},
		"cluster is detached, and OCM refuses its lease": {
			reason: "The agent may be connected, and removes the installation in order.",
			hub:    newHub().allowed().detaching().lostAfterDetachment().with(payload(), foundationWork()), want: []string{patchStatus, deletePayload},
		},
		"cluster is detached while paused, and OCM refuses its lease": {
			reason: "A removal that waits for a user ends with no time.",
			hub:    newHub().allowed().detaching().lostAfterDetachment().isPaused().silentFor(time.Hour).with(payload(), foundationWork()),
			want:   []string{patchStatus},
		},
		"cluster is detached, and the agent begins no removal": {
			reason: "A cluster that was destroyed never returns.",
			hub:    newHub().allowed().detaching().lostAfterDetachment().silentFor(longestSilence).with(payload(), foundationWork()),
			want:   []string{updatePayload, updateFoundation},
		},
		"cluster is detached, and the agent has not applied the orphaned works": {
			reason: "OCM deletes the works as soon as the add-on is gone, and the agent would remove objects in any order.",
			hub: newHub().deleting().detaching().lostAfterDetachment().annotated(api.ForceOrphanAnnotation, "true").
				with(seen, manifestwork.Orphaned(foundationWork())),
		},
		"cluster is detached, and the agent never applies the orphaned works": {
			reason: "No work may hold a detachment for ever.",
			hub: newHub().deleting().detaching().lostAfterDetachment().silentFor(longestSilence).annotated(api.ForceOrphanAnnotation, "true").
				with(seen, manifestwork.Orphaned(foundationWork())),
			want: []string{updatePayload},
		},
		"deleted works of an agent that did not begin the removal": {
			reason: "The agent was lost before the add-on went.",
			hub: (&fakeHub{noAddOn: true, addOn: newHub().addOn, cluster: newHub().detaching().lostAfterDetachment().cluster}).
				silentFor(longestSilence).with(justDeleted),
			want: []string{updatePayload},
		},
		"deleted works of an agent that may return": {
			reason: "The agent has time to remove the objects that the work owns.",
			hub:    (&fakeHub{noAddOn: true, addOn: newHub().addOn, cluster: newHub().detaching().lostAfterDetachment().cluster}).with(justDeleted),
		},
		"cluster is gone": {
			reason: "No agent can go on.",
			hub:    gone, want: []string{updatePayload, updateFoundation},
		},
		"deleted works of an agent that is gone": {
			reason: "Only the manager can release the works.",
			hub:    (&fakeHub{noAddOn: true, addOn: newHub().addOn}).with(terminating), want: []string{updatePayload},
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

// TestRemovalNamesTheWayOut holds what the add-on of an unavailable cluster says about the agent.
func TestRemovalNamesTheWayOut(t *testing.T) {
	for text, h := range map[string]*fakeHub{
		"is not connected, and continues when the cluster returns": newHub().allowed().unreachable(),
		"may be connected and continue":                            newHub().allowed().detaching().lostAfterDetachment(),
	} {
		if err := h.with(payload(), foundationWork()).reconcile(t); err != nil {
			t.Fatal(err)
		}
		c := apimeta.FindStatusCondition(h.stored.Status.Conditions, api.RemovalHeld)
		if c == nil || !strings.Contains(c.Message, text) || !strings.Contains(c.Message, api.ForceOrphanAnnotation) {
			t.Errorf("the condition is %+v, want %q and the annotation", c, text)
		}
	}
}

// lostAfterDetachment makes the cluster unavailable after the begin of the detachment, as OCM does although the agent is connected.
func (h *fakeHub) lostAfterDetachment() *fakeHub {
	h.cluster.Status.Conditions[0].Status = metav1.ConditionUnknown
	h.cluster.Status.Conditions[0].LastTransitionTime = metav1.NewTime(h.cluster.DeletionTimestamp.Add(time.Minute))
	return h
}

// silentFor lets an earlier pass have waited for the agent of the cluster.
func (h *fakeHub) silentFor(d time.Duration) *fakeHub {
	h.silentSince = passTime.Add(-d)
	return h
}

// reclaimedPayload returns a payload whose objects the agent has applied as their owner, without a workload.
func reclaimedPayload(t *testing.T) *workv1.ManifestWork {
	t.Helper()
	w := payload()
	w.Finalizers = []string{workv1.ManifestWorkFinalizer}
	w.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{
		Raw: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"knative-serving","name":"config-network"}}`),
	}}}
	w.Status.Conditions = []metav1.Condition{
		{Type: workv1.WorkApplied, Status: metav1.ConditionTrue}, {Type: workv1.WorkAvailable, Status: metav1.ConditionTrue},
	}
	w.Status.ResourceStatus.Manifests = []workv1.ManifestCondition{{
		ResourceMeta: workv1.ManifestResourceMeta{Kind: "ConfigMap", Resource: "configmaps", Namespace: "knative-serving", Name: "config-network"},
	}}
	return takeRemovalStep(t, w, manifestwork.Reclaim)
}

// readOnlyPayload returns a payload whose objects the agent only reads.
func readOnlyPayload(t *testing.T) *workv1.ManifestWork {
	t.Helper()
	return takeRemovalStep(t, reclaimedPayload(t), manifestwork.StopApplying)
}

// takeRemovalStep returns the payload that a step of a removal writes.
func takeRemovalStep(t *testing.T, w *workv1.ManifestWork, want manifestwork.RemovalStep) *workv1.ManifestWork {
	t.Helper()
	r, err := manifestwork.NextRemoval(w, time.Now())
	if err != nil || r.Step != want {
		t.Fatalf("step is %s (%s), want %s, error %v", r.Step, r.Why, want, err)
	}
	return r.Payload
}

// TestAwaitDeletionPolicy holds that policy Delete stops no removal that has begun: half of an installation blocks the cluster.
func TestAwaitDeletionPolicy(t *testing.T) {
	created := foundationWork()
	created.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{
		Raw: []byte(`{"kind":"Namespace","metadata":{"name":"knative-serving","annotations":{"` + api.CreatedByHubAnnotation + `":"h1"}}}`),
	}}}
	terminating := payload()
	terminating.Finalizers, terminating.DeletionTimestamp = []string{workv1.ManifestWorkFinalizer}, new(metav1.Now())
	for name, tc := range map[string]struct {
		payloads []*workv1.ManifestWork
		awaits   bool
	}{
		"the payload runs":             {[]*workv1.ManifestWork{payload()}, true},
		"the payload is gone":          {nil, true},
		"the payload is being removed": {[]*workv1.ManifestWork{terminating}, false},
		"one payload is being removed": {[]*workv1.ManifestWork{payload(), terminating}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := &scope{deletionPolicy: api.DeletionPolicyDelete, foundation: created, payloads: tc.payloads}
			if got := s.awaitsDeletionPolicy(); got != tc.awaits {
				t.Errorf("got %t", got)
			}
		})
	}
}
