// Copyright Contributors to the Open Cluster Management project

package knative

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// What a reconcile asks of the hub.
const (
	patchSelf   = "patch knativeservings/self"
	patchStatus = "patch knativeservings/status/self"
	getAddOn    = "get managedclusteraddons/knative-serving"
	createAddOn = "create managedclusteraddons/knative-serving"
	patchAddOn  = "patch managedclusteraddons/knative-serving"
	deleteAddOn = "delete managedclusteraddons/knative-serving"
)

// reconcileCase is what the first reconcile of a resource asks for.
type reconcileCase struct {
	reason string
	// self is the resource unless it is as usual; others are there besides.
	self   *unstructured.Unstructured
	others []*unstructured.Unstructured
	addOn  *addonv1beta1.ManagedClusterAddOn
	change func(*fakeHub)
	want   []string
	// target is what the resource then says of TargetClusterResolved, and installed of InstallSucceeded.
	target, installed string
}

func (tc *reconcileCase) hub(t *testing.T) *fakeHub {
	t.Helper()
	if tc.self == nil {
		tc.self = serving("self", 100)
	}
	h := newHub(t, append(tc.others, tc.self)...)
	if tc.addOn != nil {
		h.enabled(tc.addOn)
	}
	if tc.change != nil {
		tc.change(h)
	}
	return h
}

func TestReconcile(t *testing.T) {
	for name, tc := range map[string]reconcileCase{
		"a new resource": {
			reason: "The finalizer is there before the add-on is.", want: []string{patchSelf, createAddOn, patchStatus},
			target: "True TargetResolved", installed: "Unknown Delivering",
		},
		"a new resource and a cluster unreachable": {
			reason: "The works wait for it.", change: (*fakeHub).unavailable, want: []string{patchSelf, createAddOn, patchStatus},
			target: "False ManagedClusterUnavailable", installed: "Unknown Delivering",
		},
		"a cluster that is not accepted": {
			reason: "Nothing is made for it.", change: func(h *fakeHub) { h.cluster.Spec.HubAcceptsClient = false }, want: []string{patchStatus},
			target: "False ManagedClusterNotAccepted", installed: "Unknown TargetNotResolved",
		},
		"a cluster that is being detached": {
			reason: "OCM waits until its add-ons are gone.", change: func(h *fakeHub) { h.cluster.DeletionTimestamp = new(metav1.Unix(5000, 0)) },
			want: []string{patchStatus}, target: "False ManagedClusterUnavailable", installed: "Unknown TargetNotResolved",
		},
		"a cluster that is being detached, and an add-on of a resource that is gone": {
			reason: "It is not taken over either.", change: func(h *fakeHub) { h.cluster.DeletionTimestamp = new(metav1.Unix(5000, 0)) },
			addOn: addOnOf("gone"), want: []string{patchStatus}, target: "False ManagedClusterUnavailable", installed: "Unknown TargetNotResolved",
		},
		"no cluster": {
			reason: "There is nothing to install on.", change: func(h *fakeHub) { h.cluster = nil }, want: []string{patchStatus},
			target: "False ManagedClusterNotFound", installed: "Unknown TargetNotResolved",
		},
		"no profile": {
			reason: "The target is not known.", change: func(h *fakeHub) { h.profiles = nil }, want: []string{patchStatus},
			target: "False ClusterProfileNotFound", installed: "Unknown TargetNotResolved",
		},
		"no profile any more": {
			reason: "What is installed stays, and is still told.", addOn: addOnOf("self"), self: serving("self", 100, finalized),
			change: func(h *fakeHub) { h.profiles = nil }, want: []string{patchStatus}, target: "False ClusterProfileNotFound", installed: "Unknown Delivering",
		},
		"no consent": {
			reason: "Nothing is made without it.", change: func(h *fakeHub) { h.bindings = nil }, want: []string{patchStatus},
			target: "False ReferenceNotPermitted", installed: "Unknown TargetNotResolved",
		},
		"Direct delivery": {
			reason: "There is no add-on for that.", change: (*fakeHub).direct, want: []string{patchStatus},
			target: "False MulticlusterDisabled", installed: "Unknown TargetNotResolved",
		},
		"no ClusterManagementAddOn": {
			reason: "Nobody would take care of the add-on.", change: func(h *fakeHub) { h.definition = nil }, want: []string{patchStatus},
			target: "True TargetResolved", installed: "False AddOnMissing",
		},
		"Placements": {
			reason: "They decide which clusters have the add-on.", change: (*fakeHub).placements, want: []string{patchStatus},
			target: "False PlacementManaged", installed: "Unknown TargetNotResolved",
		},
		"Placements since": {
			reason: "What is there stays, and is still told.", change: (*fakeHub).placements, addOn: addOnOf("self"), self: serving("self", 100, finalized),
			want: []string{patchStatus}, target: "False PlacementManaged", installed: "Unknown Delivering",
		},
		"a user's add-on": {
			reason: "It stays as it is.", addOn: addOnOf("", byUser), want: []string{patchStatus},
			target: "False TargetConflict", installed: "Unknown TargetNotResolved",
		},
		"an older resource": {
			reason: "It comes first.", others: []*unstructured.Unstructured{serving("old", 99)}, want: []string{patchStatus},
			target: "False TargetConflict", installed: "Unknown TargetNotResolved",
		},
		"an older incumbent": {
			reason: "It has the cluster.", others: []*unstructured.Unstructured{serving("old", 99)}, addOn: addOnOf("old"), want: []string{patchStatus},
			target: "False TargetConflict", installed: "Unknown TargetNotResolved",
		},
		"a younger resource": {
			reason: "It has to wait.", others: []*unstructured.Unstructured{serving("young", 101)}, want: []string{patchSelf, createAddOn, patchStatus},
			target: "True TargetResolved", installed: "Unknown Delivering",
		},
		"an installation that passes to the next add-on": {
			reason: "The removal guard creates the add-on again for its owner.",
			change: func(h *fakeHub) { h.works, h.handedOver = append(h.works, foundationOf()), true },
			want:   []string{patchStatus}, target: "True TargetResolved", installed: "Unknown Delivering",
		},
		"a younger incumbent": {
			reason: "The oldest takes over.", others: []*unstructured.Unstructured{serving("young", 101)}, addOn: addOnOf("young"),
			want: []string{patchSelf, patchAddOn, patchStatus}, target: "True TargetResolved", installed: "Unknown Delivering",
		},
		"an add-on of a resource that is gone": {
			reason: "It is taken over, with nothing written on the cluster.", addOn: addOnOf("gone"),
			want: []string{patchSelf, patchAddOn, patchStatus}, target: "True TargetResolved", installed: "Unknown Delivering",
		},
		"an add-on of its own": {
			reason: "It is as it should be.", self: serving("self", 100, finalized), addOn: addOnOf("self"), want: []string{patchStatus},
			target: "True TargetResolved", installed: "Unknown Delivering",
		},
		"an add-on of its own, and no finalizer": {
			reason: "Somebody took it away.", addOn: addOnOf("self"), want: []string{patchSelf, patchStatus},
			target: "True TargetResolved", installed: "Unknown Delivering",
		},
		"an add-on of its own, and no record": {
			reason: "It would be taken for a user's when the resource is gone.", self: serving("self", 100, finalized), addOn: addOnOf("self", byUser),
			want: []string{patchAddOn, patchStatus}, target: "True TargetResolved", installed: "Unknown Delivering",
		},
		"an add-on of its own that is being removed": {
			reason: "Another one follows.", self: serving("self", 100, finalized), addOn: addOnOf("self", leavingAddOn), want: []string{patchStatus},
			target: "True TargetResolved", installed: "Unknown Delivering",
		},
		"being deleted without our finalizer": {
			reason: "There is nothing of ours.", self: serving("self", 100, beingDeleted, func(c *unstructured.Unstructured) { c.SetFinalizers([]string{"other"}) }),
		},
		"a fault": {
			reason: "It is told, and nothing else is done.", self: serving("self", 100, finalized), addOn: addOnOf("self"),
			change: func(h *fakeHub) {
				h.bundleErr = &render.Error{Reason: api.ReasonInvalidSpec, Message: "spec is wrong"}
			},
			want: []string{patchStatus}, target: "True TargetResolved", installed: "False InvalidSpec",
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := tc.hub(t)
			if diff := cmp.Diff(tc.want, h.mustReconcile("self")); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
			if tc.target != "" {
				got := h.conditions("self")
				if got[1] != api.TargetClusterResolved+" "+tc.target || got[4] != api.InstallSucceeded+" "+tc.installed {
					t.Errorf("%s It says %q, want %q and %q", tc.reason, got, tc.target, tc.installed)
				}
			}
			h.settle("self")
			h.told()
			if again := h.mustReconcile("self"); len(again) > 0 || len(h.told()) > 0 {
				t.Errorf("at rest it asks for %q", again)
			}
		})
	}
}

// TestInstall walks a resource to the end.
func TestInstall(t *testing.T) {
	h := newHub(t, serving("self", 100))
	h.settle("self")
	a := h.addOn()
	if diff := cmp.Diff(addOnOf("self").Spec.Configs, a.Spec.Configs); diff != "" {
		t.Errorf("spec.configs (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{api.InstalledForAnnotation: "team/self"}, a.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{api.InstallFinalizer}, h.config("self").GetFinalizers()); diff != "" {
		t.Errorf("finalizers (-want +got):\n%s", diff)
	}
	h.clock.SetTime(h.clock.Now().Add(time.Minute))
	h.delivered()
	h.settle("self")
	if diff := cmp.Diff([]string{
		"Ready True Ready", "TargetClusterResolved True TargetResolved", "VersionMigrationEligible True Eligible",
		"DependenciesInstalled True NothingMissing", "InstallSucceeded True Applied", "DeploymentsAvailable True WorkloadsAvailable",
	}, h.conditions("self")); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	r, err := readStatus(h.config("self"))
	if err != nil {
		t.Fatal(err)
	}
	if r.Version != "1.23.0" || r.ObservedGeneration != 1 {
		t.Errorf("version is %q, observed generation %d", r.Version, r.ObservedGeneration)
	}
	for _, c := range r.Conditions {
		before := c.Type == api.TargetClusterResolved || c.Type == api.VersionMigrationEligible
		if changed := c.LastTransitionTime.Unix() == h.clock.Now().Unix(); changed == before {
			t.Errorf("%s has been so since %s", c.Type, c.LastTransitionTime)
		}
	}
}

// TestTakeOver holds what becomes of the add-on of another resource.
func TestTakeOver(t *testing.T) {
	other := addonv1beta1.AddOnConfig{
		ConfigGroupResource: addonv1beta1.ConfigGroupResource{Group: "addon.open-cluster-management.io", Resource: "addondeploymentconfigs"},
		ConfigReferent:      addonv1beta1.ConfigReferent{Namespace: "any", Name: "proxy"},
	}
	h := newHub(t, serving("self", 100), serving("young", 101, finalized)).enabled(addOnOf("young", func(a *addonv1beta1.ManagedClusterAddOn) {
		a.Spec.Configs = append(a.Spec.Configs, other)
		a.Annotations["keep"] = "this"
	}))
	h.settle("young")
	uid := h.addOn().UID
	h.settle("self")
	a := h.addOn()
	if diff := cmp.Diff([]addonv1beta1.AddOnConfig{other, addOnOf("self").Spec.Configs[0]}, a.Spec.Configs); diff != "" {
		t.Errorf("spec.configs (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{api.InstalledForAnnotation: "team/self", "keep": "this"}, a.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	if a.UID != uid {
		t.Error("the add-on was created again")
	}
	h.asked()
	h.settle("young")
	if got := h.conditions("young")[1]; got != "TargetClusterResolved False TargetConflict" {
		t.Errorf("the younger one says %q", got)
	}
	if text := h.message("young", api.TargetClusterResolved); !strings.Contains(text, `"team/self"`) {
		t.Errorf("the younger one does not say who has the cluster: %q", text)
	}
	h.told()
	h.delete("young")
	if diff := cmp.Diff([]string{getAddOn, "patch knativeservings/young"}, h.mustReconcile("young")); diff != "" {
		t.Errorf("whoever has nothing may go (-want +got):\n%s", diff)
	}
	if told := h.told(); len(told) > 0 || h.addOn().DeletionTimestamp != nil {
		t.Errorf("nothing was removed, and %q is told", told)
	}
}

// TestVanishedResource holds that nothing is made for a resource that is gone by the time that it gets its finalizer.
func TestVanishedResource(t *testing.T) {
	for name, addOn := range map[string]*addonv1beta1.ManagedClusterAddOn{"to be enabled": nil, "to be taken over": addOnOf("gone")} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t, serving("self", 100))
			if addOn != nil {
				h.enabled(addOn)
			}
			h.fail = func(request string) error {
				if request == patchSelf {
					h.delete("self")
				}
				return nil
			}
			before := h.addOn()
			_, err := h.reconcile("self")
			if err == nil || len(h.asked()) != 1 {
				t.Errorf("error is %v", err)
			}
			if diff := cmp.Diff(before, h.addOn()); diff != "" {
				t.Errorf("the add-on was changed (-before +after):\n%s", diff)
			}
			if again := h.mustReconcile("self"); len(again) > 0 {
				t.Errorf("then it asks for %q", again)
			}
		})
	}
}

// TestConflictsAreNoFaults holds that a cache that is behind makes the reconcile wait, without an error.
func TestConflictsAreNoFaults(t *testing.T) {
	for name, tc := range map[string]struct {
		self  *unstructured.Unstructured
		addOn *addonv1beta1.ManagedClusterAddOn
		at    string
		meet  func(*fakeHub)
	}{
		"somebody made the add-on": {at: createAddOn, meet: func(h *fakeHub) { h.enabled(addOnOf("", byUser)) }},
		"somebody wrote the resource": {at: patchSelf, meet: func(h *fakeHub) {
			h.changeConfig("self", withAnnotation("a", "b"))
		}},
		"somebody made the resource again": {at: patchSelf, meet: func(h *fakeHub) {
			h.changeConfig("self", func(c *unstructured.Unstructured) { c.SetUID("another") })
		}},
		"somebody wrote the status": {at: patchStatus, meet: func(h *fakeHub) {
			h.changeConfig("self", withAnnotation("a", "b"))
		}},
		"somebody wrote the add-on": {addOn: addOnOf("gone"), at: patchAddOn, meet: func(h *fakeHub) { h.changeAddOn(byUser) }},
		"somebody made the add-on again": {
			self: serving("self", 100, finalized, beingDeleted), addOn: addOnOf("self"), at: deleteAddOn,
			meet: func(h *fakeHub) { h.changeAddOn(func(a *addonv1beta1.ManagedClusterAddOn) { a.UID = "another" }) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.self == nil {
				tc.self = serving("self", 100)
			}
			h := newHub(t, tc.self)
			if tc.addOn != nil {
				h.enabled(tc.addOn)
			}
			met := false
			h.fail = func(request string) error {
				if request == tc.at && !met {
					met = true
					tc.meet(h)
				}
				return nil
			}
			result, err := h.reconcile("self")
			if err != nil || result.RequeueAfter != staleRetry || !met {
				t.Errorf("result is %v with error %v, want a requeue after %s", result, err, staleRetry)
			}
			if told := h.told(); len(told) > 0 {
				t.Errorf("%q is told", told)
			}
			h.settle("self")
		})
	}
}

// TestErrorsAreReturned holds that a failure of the hub is one of the reconcile, and that nothing comes after it.
func TestErrorsAreReturned(t *testing.T) {
	errQuota := apierrors.NewForbidden(addOnResource.GroupResource(), "knative-serving", errors.New("quota"))
	h := newHub(t, serving("self", 100))
	for _, at := range []string{patchSelf, createAddOn, patchStatus} {
		h.fail = func(request string) error {
			if request == at {
				return errQuota
			}
			return nil
		}
		_, err := h.reconcile("self")
		if !errors.Is(err, errQuota) {
			t.Errorf("at %s the error is %v", at, err)
		}
		if asked := h.asked(); asked[len(asked)-1] != at {
			t.Errorf("after %s it asks for %q", at, asked)
		}
		if told := h.told(); len(told) > 0 {
			t.Errorf("what was not written is told: %q", told)
		}
	}
	h.fail = nil
	h.bundleErr = errors.New("cannot read a cache")
	if _, err := h.reconcile("self"); !errors.Is(err, h.bundleErr) {
		t.Errorf("error is %v, want %v", err, h.bundleErr)
	}
}

// As long as a bundle is being rendered, what was reported stays, and the resource is requeued.
func TestPending(t *testing.T) {
	wait := &render.Error{Reason: api.FaultRenderPending, Message: "wait"}
	for name, change := range map[string]func(*fakeHub){
		"the bundle of the cluster": func(h *fakeHub) { h.bundleErr = wait },
		"the latest one of a paused cluster": func(h *fakeHub) {
			h.pausedBy, h.currentErr = "somebody", wait
		},
		"a fleet configuration": func(h *fakeHub) {
			h.changeConfig("self", func(c *unstructured.Unstructured) {
				unstructured.RemoveNestedField(c.Object, "spec", "clusterProfileRef")
			})
			h.currentErr = wait
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t, serving("self", 100, finalized))
			h.enabled(addOnOf("self"))
			change(h)
			result, err := h.reconcile("self")
			if err != nil || result.RequeueAfter == 0 {
				t.Errorf("%v, %v; want a requeue", result, err)
			}
			if asked := h.asked(); len(asked) > 0 {
				t.Errorf("it asks for %q", asked)
			}
		})
	}
}
