// Copyright Contributors to the Open Cluster Management project

package managedclusteraddon

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/manifests"
	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
)

// createdAfter has the work created some seconds after the ManagedCluster; a negative number is before.
func createdAfter(w *workv1.ManifestWork, seconds int) *workv1.ManifestWork {
	w.CreationTimestamp = metav1.NewTime(time.Unix(1000, 0).Add(time.Duration(seconds) * time.Second))
	return w
}

// installedBy is a foundation of a hub, which the agent of a cluster has applied.
func installedBy(t *testing.T, hub string) *workv1.ManifestWork {
	t.Helper()
	role, err := manifests.WorkAgentRole(api.Serving, "")
	if hub != "" {
		role, err = manifests.WorkAgentRole(api.Serving, hubUID)
		role = []byte(strings.ReplaceAll(string(role), `"`+hubUID+`"`, `"`+hub+`"`))
	}
	if err != nil {
		t.Fatal(err)
	}
	w := foundationWork()
	w.Finalizers = []string{workv1.ManifestWorkFinalizer}
	w.Annotations[api.FinishedJobsAnnotation] = "knative-serving/migrate"
	w.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: role}}}
	return w
}

// isNotReleased reports whether a work owns objects, belongs to a bundle, or waits for an agent.
func isNotReleased(w *workv1.ManifestWork) bool {
	return w.Annotations[api.DigestAnnotation] != "" || manifestwork.HasAgent(w) || !manifestwork.IsOrphaned(w) ||
		w.Spec.DeleteOption.PropagationPolicy != workv1.DeletePropagationPolicyTypeOrphan
}

// TestFormerWorks holds when works are of a cluster that had the name before, and that nothing of these works counts for the cluster
// that has the name now.
func TestFormerWorks(t *testing.T) {
	givenUp := []string{updateFoundation, updatePayload, deletePayload, deleteFoundation}
	for name, tc := range map[string]struct {
		reason string
		hub    *fakeHub
		want   []string // nil means that the works are not given up
	}{
		"works of a cluster that had the name before": {
			reason: "The new cluster may have another Knative, and no Job has run there.", want: givenUp,
			hub: newHub().with(createdAfter(installedBy(t, hubUID), -9), createdAfter(payload(), -5)),
		},
		"a probe of a cluster that had the name before": {
			reason: "The report is of another cluster.", want: []string{updateProbe, deleteProbe},
			hub: newHub().with(createdAfter(probeWork(t, "", nil), -9)),
		},
		"a foundation beside its probe": {
			reason: "The report is of another cluster, and must not count once the foundation is gone.",
			want:   []string{updateFoundation, updateProbe, deleteProbe, deleteFoundation},
			hub:    newHub().with(createdAfter(installedBy(t, hubUID), -9), createdAfter(probeWork(t, "", nil), -9)),
		},
		"a foundation that is being deleted": {
			reason: "The foundation is gone with its finalizer, and the next manager must find the other works.",
			want:   []string{updatePayload, deletePayload, updateFoundation},
			hub: func() *fakeHub {
				leaving := createdAfter(installedBy(t, hubUID), -9)
				leaving.DeletionTimestamp = new(metav1.Now())
				return newHub().with(leaving, createdAfter(payload(), -5))
			}(),
		},
		"works in a pause": {
			reason: "A pause is for the cluster before.", want: givenUp,
			hub: newHub().isPaused().with(createdAfter(installedBy(t, hubUID), -9), createdAfter(payload(), -5)),
		},
		"a payload alone that is older": {
			reason: "The foundation was written without a probe of the new cluster.", want: givenUp,
			hub: newHub().with(createdAfter(installedBy(t, hubUID), 4), createdAfter(payload(), -5)),
		},
		"works without an add-on": {
			reason: "The agent of the new cluster must not apply the works.", want: givenUp,
			hub: func() *fakeHub {
				h := newHub().with(createdAfter(installedBy(t, hubUID), -9), createdAfter(payload(), -5))
				h.noAddOn = true
				return h
			}(),
		},
		"works of the cluster": {
			reason: "The works are newer than the ManagedCluster.",
			hub:    newHub().with(createdAfter(installedBy(t, hubUID), 2), createdAfter(payload(), 5)),
		},
		"works of the second in which the ManagedCluster was created": {
			reason: "The works are not older.",
			hub:    newHub().with(createdAfter(installedBy(t, hubUID), 0), createdAfter(payload(), 0)),
		},
		"works that a backup has restored on another hub": {
			reason: "The order of a restore says nothing.",
			hub:    newHub().with(createdAfter(installedBy(t, "lost"), -9), createdAfter(payload(), -5)),
		},
		"works of an older manager, which named no hub": {
			reason: "Nothing proves that the hub is the same.",
			hub:    newHub().with(createdAfter(installedBy(t, ""), -9), createdAfter(payload(), -5)),
		},
		"a removal": {
			reason: "The removal would remove objects of the new cluster.", want: givenUp,
			hub: newHub().allowed().with(createdAfter(installedBy(t, hubUID), -9), createdAfter(payload(), -5)),
		},
		"no ManagedCluster": {
			reason: "No other cluster has the name.",
			hub: func() *fakeHub {
				h := newHub().with(createdAfter(installedBy(t, hubUID), -9), createdAfter(payload(), -5))
				h.cluster = nil
				return h
			}(),
		},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.hub.cluster != nil {
				tc.hub.cluster.CreationTimestamp = metav1.NewTime(time.Unix(1000, 0))
			}
			if err := tc.hub.reconcile(t); err != nil {
				t.Fatal(err)
			}
			given := slices.ContainsFunc(tc.hub.actions, func(a string) bool { return strings.HasPrefix(a, "delete manifestworks/") })
			if tc.want == nil && given || tc.want != nil && !slices.Equal(tc.hub.actions, tc.want) {
				t.Errorf("%s The requests are %q, want %q", tc.reason, tc.hub.actions, tc.want)
			}
			if tc.want != nil && slices.ContainsFunc(tc.hub.updated, isNotReleased) {
				t.Errorf("%s A ManifestWork owns objects, or waits for the agent: %v", tc.reason, tc.hub.updated)
			}
		})
	}
}

// TestFormerWorksFail holds that a work which an agent goes on writing is not deleted, because the agent would remove the objects; that a
// refused request is repeated; and that a work which is gone is no fault.
func TestFormerWorksFail(t *testing.T) {
	for name, tc := range map[string]struct {
		fault error
		fails bool
	}{
		"the work is gone":         {apierrors.NewNotFound(workv1.Resource("manifestworks"), "w"), false},
		"the request is refused":   {errors.New("no"), true},
		"an agent goes on writing": {apierrors.NewConflict(workv1.Resource("manifestworks"), "w", errors.New("changed")), false}, // repeated without an error
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub().with(createdAfter(installedBy(t, hubUID), -9))
			h.cluster.CreationTimestamp = metav1.NewTime(time.Unix(1000, 0))
			h.failUpdate = tc.fault
			if err := h.reconcile(t); (err != nil) != tc.fails || slices.Contains(h.actions, deleteFoundation) {
				t.Errorf("error %v, requests %q", err, h.actions)
			}
		})
	}
}
