// Copyright Contributors to the Open Cluster Management project

package knative

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
)

func foundationOf() *workv1.ManifestWork {
	return &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{
		Namespace: clusterName, Name: manifestwork.FoundationName(api.Serving),
		Labels: map[string]string{api.FoundationLabel: string(api.Serving)},
	}}
}

func payloadOf(name string, changes ...func(*workv1.ManifestWork)) *workv1.ManifestWork {
	w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{
		Namespace: clusterName, Name: name, Labels: map[string]string{addonv1beta1.AddonLabelKey: api.Serving.AddOnName()},
	}}
	for _, change := range changes {
		change(w)
	}
	return w
}

func TestRemove(t *testing.T) {
	handedOver := func(h *fakeHub) {
		h.works, h.handedOver = []*workv1.ManifestWork{foundationOf()}, true
	}
	for name, tc := range map[string]struct {
		reason string
		self   func(*unstructured.Unstructured)
		others []*unstructured.Unstructured
		addOn  *addonv1beta1.ManagedClusterAddOn
		change func(*fakeHub)
		want   []string
		// released tells that the resource is gone then.
		released bool
	}{
		"an installation": {
			reason: "The add-on is disabled, and the resource waits.", addOn: addOnOf("self"), want: []string{deleteAddOn, patchStatus},
		},
		"an add-on that is being removed": {
			reason: "The resource waits.", addOn: addOnOf("self", leavingAddOn), want: []string{patchStatus},
		},
		"no add-on any more": {
			reason: "The hub is asked, not only the cache.", want: []string{getAddOn, patchSelf}, released: true,
		},
		"no add-on, and a foundation that is left": {
			reason: "It belongs to nobody and waits for nobody.", change: func(h *fakeHub) { h.works = []*workv1.ManifestWork{foundationOf()} },
			want: []string{getAddOn, patchSelf}, released: true,
		},
		"between two add-ons": {
			reason: "The next one is the resource's again, and is removed then.", change: handedOver,
		},
		"handed over": {
			reason: "The next one is there.", change: handedOver, addOn: addOnOf("self"), want: []string{deleteAddOn, patchStatus},
		},
		"handed over to somebody else": {
			reason: "The installation is the other's.", change: handedOver, addOn: addOnOf("other"), others: []*unstructured.Unstructured{serving("other", 101)},
			want: []string{getAddOn, patchSelf}, released: true,
		},
		"a user's add-on": {
			reason: "It stays.", addOn: addOnOf("", byUser), want: []string{getAddOn, patchSelf}, released: true,
		},
		"another resource's add-on": {
			reason: "It stays.", addOn: addOnOf("other"), others: []*unstructured.Unstructured{serving("other", 101)},
			want: []string{getAddOn, patchSelf}, released: true,
		},
		"Placements": {
			reason: "These decide what becomes of the add-on; it loses this configuration only.", addOn: addOnOf("self"), change: (*fakeHub).placements,
			want: []string{patchAddOn},
		},
		"Placements, and the add-on is being removed": {
			reason: "It is on its way out with the configuration that it had.", addOn: addOnOf("self", leavingAddOn), change: (*fakeHub).placements,
			want: []string{patchStatus},
		},
		"no profile, and no cluster": {
			reason: "The add-on is found by name.", addOn: addOnOf("self"), change: func(h *fakeHub) { h.profiles, h.cluster = nil, nil },
			want: []string{deleteAddOn, patchStatus},
		},
		"no consent any more": {
			reason: "Whoever installed may remove.", addOn: addOnOf("self"), change: func(h *fakeHub) { h.bindings = nil },
			want: []string{deleteAddOn, patchStatus},
		},
		"no ClusterManagementAddOn": {
			reason: "It may be removed all the same.", addOn: addOnOf("self"), change: func(h *fakeHub) { h.definition = nil },
			want: []string{deleteAddOn, patchStatus},
		},
		"force-orphan": {
			reason: "The add-on has it before it is deleted.", addOn: addOnOf("self"), self: withAnnotation(api.ForceOrphanAnnotation, "true"),
			want: []string{patchAddOn, deleteAddOn, patchStatus},
		},
		"force-orphan while it is being removed": {
			reason: "It is passed on at any time.", addOn: addOnOf("self", leavingAddOn), self: withAnnotation(api.ForceOrphanAnnotation, "true"),
			want: []string{patchAddOn, patchStatus},
		},
		"a fleet configuration": {
			reason: "Somebody took the reference away, and there is no cluster to ask for.", self: refersToNothing, addOn: addOnOf("self"),
			want: []string{patchSelf}, released: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			self := serving("self", 100, finalized, beingDeleted)
			if tc.self != nil {
				tc.self(self)
			}
			h := (&reconcileCase{self: self, others: tc.others, addOn: tc.addOn, change: tc.change}).hub(t)
			if diff := cmp.Diff(tc.want, h.mustReconcile("self")); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
			if released := h.config("self") == nil; released != tc.released {
				t.Errorf("%s The resource is gone: %v, want %v", tc.reason, released, tc.released)
			}
			h.settle("self")
			if again := h.mustReconcile("self"); len(again) > 0 {
				t.Errorf("at rest it asks for %q", again)
			}
		})
	}
}

// TestEndOfRemoval holds that the Event at the end says that the objects stay when an administrator has let the add-on go: the resource
// has no annotation then.
func TestEndOfRemoval(t *testing.T) {
	for event, works := range map[string][]*workv1.ManifestWork{
		"Normal Removed": nil, "Warning Orphaned": {manifestwork.Orphaned(foundationOf())},
	} {
		h := (&reconcileCase{
			self: serving("self", 100, finalized, beingDeleted), change: func(h *fakeHub) { h.works = works },
		}).hub(t)
		h.settle("self")
		if told := h.told(); len(told) != 1 || !strings.HasPrefix(told[0], event) {
			t.Errorf("at the end the Events are %q, want %s", told, event)
		}
	}
}

// TestRemovalToTheEnd walks an installation to its end.
func TestRemovalToTheEnd(t *testing.T) {
	h := newHub(t, serving("self", 100))
	h.settle("self")
	h.changeAddOn(func(a *addonv1beta1.ManagedClusterAddOn) { a.Finalizers = []string{api.FoundationFinalizer} })
	h.delivered()
	h.settle("self")
	h.told()
	h.delete("self")
	h.settle("self")
	if got := h.conditions("self"); got[0] != "Ready Unknown Removing" || got[1] != "TargetClusterResolved True TargetResolved" {
		t.Errorf("while it is removed it says %q", got)
	}
	says := func(want string) {
		t.Helper()
		h.settle("self")
		if h.config("self") == nil {
			t.Fatal("the resource was released while its add-on exists")
		}
		if text := h.message("self", api.InstallSucceeded); text != `removing the installation from cluster "c1"`+want {
			t.Errorf("it says %q, want %q", text, want)
		}
	}
	says(": the work agent never saw the work")
	h.works = []*workv1.ManifestWork{
		h.works[0], payloadOf("b"), payloadOf("a", func(w *workv1.ManifestWork) { w.DeletionTimestamp = new(metav1.Unix(5000, 0)) }),
	}
	for range 20 { // a cache has them in any order
		slices.Reverse(h.works)
		says(": the work agent removes the objects")
	}
	h.works = []*workv1.ManifestWork{payloadOf("broken", func(w *workv1.ManifestWork) {
		w.Finalizers, w.Spec.Workload.Manifests = []string{workv1.ManifestWorkFinalizer}, []workv1.Manifest{{}}
	})}
	says("")
	leaving := foundationOf()
	leaving.DeletionTimestamp = new(metav1.Unix(5000, 0))
	leaving.Status.ResourceStatus.Manifests = []workv1.ManifestCondition{{ResourceMeta: workv1.ManifestResourceMeta{
		Kind: "CustomResourceDefinition", Resource: "customresourcedefinitions", Name: "services.serving.knative.dev",
	}}}
	h.works = []*workv1.ManifestWork{leaving}
	says(": waiting for these to be gone: CustomResourceDefinition services.serving.knative.dev; an object with a finalizer keeps its CustomResourceDefinition and its Namespace")
	h.works = []*workv1.ManifestWork{foundationOf()}
	says(": the work agent's permissions are removed last")
	h.changeAddOn(heldBack(metav1.ConditionTrue))
	says(": somebody has to answer")
	h.changeAddOn(heldBack(metav1.ConditionFalse))
	says(": the work agent's permissions are removed last")
	h.works = nil
	says("")
	if told := h.told(); len(told) > 0 {
		t.Errorf("while it is removed %q is told", told)
	}
	h.cleaned()
	if diff := cmp.Diff([]string{getAddOn, patchSelf}, h.mustReconcile("self")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if h.config("self") != nil {
		t.Error("the resource is still there")
	}
	if told := h.told(); len(told) != 1 || !strings.HasPrefix(told[0], "Normal Removed") {
		t.Errorf("at the end %q is told", told)
	}
}

func heldBack(held metav1.ConditionStatus) func(*addonv1beta1.ManagedClusterAddOn) {
	return func(a *addonv1beta1.ManagedClusterAddOn) {
		a.Status.Conditions = nil
		says(api.RemovalHeld, held)(a)
	}
}

// TestNeverReleasedBeforeItsAddOn holds that a cache that does not know the add-on yet leaves none behind.
func TestNeverReleasedBeforeItsAddOn(t *testing.T) {
	for name, before := range map[string]*addonv1beta1.ManagedClusterAddOn{"just enabled": nil, "just taken over": addOnOf("gone")} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t, serving("self", 100))
			if before != nil {
				h.enabled(before)
			}
			h.sync()
			h.behind = true
			if asked := h.mustReconcile("self"); len(asked) != 3 {
				t.Fatalf("asked for %q", asked)
			}
			h.delete("self")
			result, err := h.reconcile("self")
			if err != nil || result.RequeueAfter != staleRetry {
				t.Errorf("result is %v with error %v, want a requeue after %s", result, err, staleRetry)
			}
			if diff := cmp.Diff([]string{getAddOn}, h.asked()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			h.behind = false
			if asked := h.mustReconcile("self"); !slices.Contains(asked, deleteAddOn) {
				t.Errorf("asked for %q", asked)
			}
		})
	}
	h := newHub(t, serving("self", 100, finalized, beingDeleted))
	errDown := errors.New("the hub is down")
	h.fail = func(string) error { return errDown }
	if _, err := h.reconcile("self"); !errors.Is(err, errDown) || h.config("self") == nil {
		t.Errorf("error is %v: an unknown state must keep the finalizer", err)
	}
}

// TestPassOn holds which annotations of the resource the add-on gets, and that it keeps its own.
func TestPassOn(t *testing.T) {
	destructive := map[string]string{api.DeletionPolicyAnnotation: api.DeletionPolicyDeleteUserResources, api.ForceOrphanAnnotation: "true"}
	passedOn := map[string]string{
		api.DeletionPolicyAnnotation: api.DeletionPolicyDeleteUserResources, api.PassedOnAnnotation: api.DeletionPolicyAnnotation,
	}
	for name, tc := range map[string]struct {
		reason      string
		self, addOn map[string]string
		change      func(*fakeHub)
		want        map[string]string
		// told is the reason of the Event about annotations that do not count.
		told string
	}{
		"nothing": {reason: "Nothing is asked for."},
		"in a namespace that is not trusted": {
			reason: "A tenant may neither delete nor orphan user resources.", change: func(h *fakeHub) { h.trusted = nil },
			self: destructive, told: api.ReasonEscalationNotPermitted,
		},
		"passed on before the trust was taken away": {
			reason: "What a manager has passed on before is taken back.", change: func(h *fakeHub) { h.trusted = nil },
			self: destructive, addOn: passedOn, told: api.ReasonEscalationNotPermitted,
		},
		"the administrator's, in a namespace that is not trusted": {
			reason: "Tenants cannot write there.", change: func(h *fakeHub) { h.trusted = nil },
			self: destructive, addOn: map[string]string{api.DeletionPolicyAnnotation: api.DeletionPolicyDelete},
			want: map[string]string{api.DeletionPolicyAnnotation: api.DeletionPolicyDelete}, told: api.ReasonEscalationNotPermitted,
		},
		"values that request nothing, in a namespace that is not trusted": {
			reason: "A tenant does not replace the administrator's values.", change: func(h *fakeHub) { h.trusted = nil },
			self:  map[string]string{api.DeletionPolicyAnnotation: "x", api.ForceOrphanAnnotation: "false"},
			addOn: map[string]string{api.DeletionPolicyAnnotation: api.DeletionPolicyDelete, api.ForceOrphanAnnotation: "true"},
			want:  map[string]string{api.DeletionPolicyAnnotation: api.DeletionPolicyDelete, api.ForceOrphanAnnotation: "true"},
		},
		"after the binding was taken away": {
			reason: "A namespace without permission deletes nothing on the cluster; force-orphan is harmless.",
			change: func(h *fakeHub) { h.bindings = nil }, self: destructive,
			want: map[string]string{api.ForceOrphanAnnotation: "true", api.PassedOnAnnotation: api.ForceOrphanAnnotation},
			told: api.ReasonTargetNotResolved,
		},
		"passed on before the profile was deleted": {
			reason: "It is taken back.", change: func(h *fakeHub) { h.profiles = nil },
			self: map[string]string{api.DeletionPolicyAnnotation: api.DeletionPolicyDeleteUserResources}, addOn: passedOn,
			told: api.ReasonTargetNotResolved,
		},
		"while the cluster is unreachable": {
			reason: "It is permitted, and waits.", change: (*fakeHub).unavailable,
			self: map[string]string{api.DeletionPolicyAnnotation: api.DeletionPolicyDeleteUserResources}, want: passedOn,
		},
		"both": {
			reason: "Both are for whoever removes.",
			self:   map[string]string{api.ForceOrphanAnnotation: "true", api.DeletionPolicyAnnotation: api.DeletionPolicyDelete, "other": "a"},
			want: map[string]string{
				api.ForceOrphanAnnotation: "true", api.DeletionPolicyAnnotation: api.DeletionPolicyDelete,
				api.PassedOnAnnotation: api.DeletionPolicyAnnotation + "," + api.ForceOrphanAnnotation,
			},
		},
		"another value": {
			reason: "The resource has the last word where it says something.",
			self:   map[string]string{api.DeletionPolicyAnnotation: api.DeletionPolicyDelete},
			addOn:  map[string]string{api.DeletionPolicyAnnotation: api.DeletionPolicyDeleteUserResources},
			want:   map[string]string{api.DeletionPolicyAnnotation: api.DeletionPolicyDelete, api.PassedOnAnnotation: api.DeletionPolicyAnnotation},
		},
		"taken away": {
			reason: "What was passed on goes with it; what the add-on alone has stays.",
			addOn: map[string]string{
				api.DeletionPolicyAnnotation: api.DeletionPolicyDeleteUserResources, api.ForceOrphanAnnotation: "false",
				api.PassedOnAnnotation: api.DeletionPolicyAnnotation,
			},
			want: map[string]string{api.ForceOrphanAnnotation: "false"},
		},
		"asked for on the add-on": {
			reason: "docs/conditions.md says that one may.",
			addOn:  map[string]string{api.ForceOrphanAnnotation: "true", api.DeletionPolicyAnnotation: api.DeletionPolicyDelete},
			want:   map[string]string{api.ForceOrphanAnnotation: "true", api.DeletionPolicyAnnotation: api.DeletionPolicyDelete},
		},
		"the same": {
			reason: "Nothing is written.",
			self:   map[string]string{api.ForceOrphanAnnotation: "true"}, addOn: map[string]string{api.ForceOrphanAnnotation: "true"},
			want: map[string]string{api.ForceOrphanAnnotation: "true"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t, serving("self", 100, finalized, beingDeleted, func(c *unstructured.Unstructured) { c.SetAnnotations(tc.self) }))
			h.enabled(addOnOf("self", func(a *addonv1beta1.ManagedClusterAddOn) { a.Annotations = tc.addOn }))
			if tc.change != nil {
				tc.change(h)
				h.start()
			}
			asked := h.mustReconcile("self")
			told := strings.Join(h.told(), "\n")
			if got := strings.Contains(told, "without effect"); got != (tc.told != "") || !strings.Contains(told, tc.told) {
				t.Errorf("%s It tells %q", tc.reason, told)
			}
			if diff := cmp.Diff(tc.want, h.addOn().Annotations, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
			if wrote := slices.Contains(asked, patchAddOn); wrote == cmp.Equal(tc.want, tc.addOn) {
				t.Errorf("%s It asks for %q", tc.reason, asked)
			}
		})
	}
}

// TestUnresolvedNeverDeletes holds that nothing that the hub can say of a target makes a resource that is there remove
// anything.
func TestUnresolvedNeverDeletes(t *testing.T) {
	for name, change := range map[string]func(*fakeHub){
		"no profile": func(h *fakeHub) { h.profiles = nil }, "no cluster": func(h *fakeHub) { h.cluster = nil }, "no binding": func(h *fakeHub) { h.bindings = nil },
		"unreachable": (*fakeHub).unavailable, "Direct": (*fakeHub).direct, "Placements": (*fakeHub).placements,
		"not accepted": func(h *fakeHub) { h.cluster.Spec.HubAcceptsClient = false }, "no definition": func(h *fakeHub) { h.definition = nil },
		"a label that lies": func(h *fakeHub) { h.profile().Labels = nil }, "another set": func(h *fakeHub) { h.cluster.Labels = nil },
		"detached": func(h *fakeHub) { h.cluster.DeletionTimestamp = new(metav1.Unix(5000, 0)) },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t, serving("self", 100))
			h.settle("self")
			h.delivered()
			h.settle("self")
			before := h.conditions("self")
			h.told()
			uid := h.addOn().UID
			change(h)
			for _, asked := range h.mustReconcile("self") {
				if asked != patchStatus {
					t.Errorf("it asks for %q", asked)
				}
			}
			h.settle("self")
			if a := h.addOn(); a == nil || a.UID != uid || a.DeletionTimestamp != nil || len(a.Spec.Configs) != 1 {
				t.Errorf("the add-on is not as it was: %v", a)
			}
			if got := h.conditions("self"); name != "no definition" && !cmp.Equal(got[2:], before[2:]) {
				t.Errorf("what was seen of the cluster is now %q, was %q", got[2:], before[2:])
			}
		})
	}
}
