// Copyright Contributors to the Open Cluster Management project

package removalguard

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
)

func TestReconcile(t *testing.T) {
	mass := massRemovalDecision(api.Serving)
	over := decision{reason: api.ReasonHandedOver, message: determineDecision(&input{desired: true, settled: true}).message}
	told := func(i int) string {
		return fmt.Sprintf("patch managedclusteraddons/status c%d/knative-serving conditions", i)
	}
	patched := func(i int, what string) string {
		return fmt.Sprintf("patch managedclusteraddons c%d/knative-serving %s", i, what)
	}
	definition := "patch clustermanagementaddons knative-serving "
	allowed := `{"annotations":{"removal-allowed":"1000000"}}`
	between := newHub(1).freed()
	between.addOns = nil
	blue := addonv1beta1.AddOnConfig{
		ConfigGroupResource: addonv1beta1.ConfigGroupResource{Group: api.Group, Resource: "knativeservings"},
		ConfigReferent:      addonv1beta1.ConfigReferent{Namespace: "blue", Name: "c0"},
	}
	configured := newHub(1).recorded(blue)
	configured.addOns = nil
	forged := newHub(1)
	forged.addOns = nil
	forged.foundations[0].Annotations = map[string]string{api.HandoverAnnotation: `[{"group":"operator.knative.dev","resource":"knativeservings","namespace":"blue","name":"c0"}]`}
	reregistered := newHub(1).recorded(blue)
	reregistered.addOns = nil
	reregistered.clusters[0].UID = "another"
	replaced := newHub(1).deleted(1).held(1, over)
	replaced.addOns[0].Annotations[api.ClusterUIDAnnotation] = "another"
	replaced.addOns[0].Spec.Configs = []addonv1beta1.AddOnConfig{blue}
	outdated := newHub(1).deleted(1).held(1, over).recorded(blue)
	workless := newHub(1).freed()
	workless.addOns, workless.foundations = nil, nil
	configured.configs = []*unstructured.Unstructured{serving("c0")}
	leaves := newHub(1).freed()
	leaves.addOns = nil
	leaves.clusters[0].DeletionTimestamp = &metav1.Time{Time: now}
	givenUp := newHub(1).freed()
	givenUp.addOns = nil
	givenUp.foundations[0].Annotations = map[string]string{api.OrphanedAnnotation: "true"}
	orphan := newHub(3).deleted(3).unselected()
	orphan.definition = nil
	stale := newHub(3).deleted(3).unselected()
	stale.placement = nil
	stale.selects("c0")
	young := newHub(3).deleted(1).unselected()
	young.addOns[0].DeletionTimestamp = &metav1.Time{Time: now.Add(-2 * time.Second)}
	killed := newHub(3).deleted(1).unselected()
	killed.definition.Annotations[api.RemovalsAnnotation] = removalTimes{"uid00000": now}.String()
	conflicting := newHub(3).deleted(1).unselected()
	conflicting.conflict = "patch clustermanagementaddons"
	unfinished := newHub(3).deleted(2).unselected().held(2, mass).confirmed(api.RemovalConfirm)
	unfinished.conflict = "patch clustermanagementaddons"
	for _, a := range unfinished.addOns[:2] {
		a.Annotations[api.RemovalAnnotation] = api.RemovalConfirm
	}
	disabled := newHub(3).manual().deleted(3)
	kept := newHub(1).manual().deleted(1)
	kept.configs = []*unstructured.Unstructured{serving("c0")}
	kept.addOns[0].Spec.Configs = []addonv1beta1.AddOnConfig{blue}
	moving := newHub(3).deleted(1).arriving(now.Add(-time.Minute))
	moved := newHub(3).deleted(1).arriving(now.Add(-time.Minute))
	moved.addOns[2].Status.Conditions = []metav1.Condition{{Type: addonv1beta1.ManagedClusterAddOnConditionAvailable, Status: metav1.ConditionTrue}}
	made := newHub(3).deleted(1).arriving(now)
	made.addOns = made.addOns[:2]
	broken := newHub(3).deleted(1).arriving(now.Add(-3 * time.Minute))
	late := newHub(3).deleted(1).arriving(now)
	late.addOns[0].DeletionTimestamp = &metav1.Time{Time: now.Add(-replacementTimeout)}
	insisted := newHub(3).deleted(1).arriving(now)
	insisted.addOns[0].Annotations[api.RemovalAnnotation] = api.RemovalConfirm
	counted := newHub(3).deleted(1).arriving(now)
	counted.definition.Annotations[api.RemovalsAnnotation] = removalTimes{"uid00000": now}.String()
	for name, tc := range map[string]struct {
		reason string
		hub    *fakeHub
		want   []string
		event  string
		wait   time.Duration
	}{
		"at rest": {
			reason: "Nothing is written.",
			hub:    newHub(3),
		},
		"one that is not selected": {
			reason: "It is counted before it is allowed.",
			hub:    newHub(3).deleted(1).unselected(),
			want:   []string{definition + `{"annotations":{"removals":"16666:uid00000"}}`, patched(0, allowed)},
			event:  "Normal RemovalAllowed",
		},
		"killed after it was counted": {
			reason: "It is not counted twice.",
			hub:    killed, want: []string{patched(0, allowed)},
			event: "Normal RemovalAllowed",
		},
		"the count has changed": {
			reason: "Nothing is allowed that was not counted.",
			hub:    conflicting, want: []string{definition + `{"annotations":{"removals":"16666:uid00000"}}`}, wait: staleRetry,
		},
		"the Placement is emptied": {
			reason: "All are held, in one Event.",
			hub:    newHub(3).deleted(3).unselected(), want: []string{told(0), told(1), told(2)},
			event: "Warning RemovalHeld MassRemoval: knative-serving stays on 3 clusters (c0, c1, c2)",
		},
		"the Placement is deleted": {
			reason: "What is left of its decisions selects nothing.",
			hub:    stale, want: []string{told(0), told(1), told(2)}, event: "Warning RemovalHeld",
		},
		"the ClusterManagementAddOn is deleted": {
			reason: "It takes all add-ons with it.",
			hub:    orphan, want: []string{told(0), told(1), told(2)}, event: "Warning RemovalHeld",
		},
		"held": {
			reason: "Nothing is written as long as nothing changes.",
			hub:    newHub(3).deleted(3).unselected().held(3, mass),
		},
		"a batch arrives": {
			reason: "The budget waits for the last of it.",
			hub:    young, want: []string{told(0)}, wait: time.Second,
		},
		"confirmed for all": {
			reason: "The confirmation goes to the held add-ons, and is removed.",
			hub:    newHub(3).deleted(2).unselected().held(2, mass).confirmed(api.RemovalConfirm),
			want: []string{
				patched(0, `{"annotations":{"removal":"Confirm"}}`), patched(1, `{"annotations":{"removal":"Confirm"}}`), definition + `{"annotations":null}`,
			},
			event: "Normal RemovalConfirmed knative-serving is removed from 2 clusters (c0, c1)",
		},
		"the confirmation cannot be removed": {
			reason: "Nothing is removed before: the confirmation would apply to the next mass removal.",
			hub:    unfinished, want: []string{definition + `{"annotations":null}`}, wait: staleRetry,
		},
		"confirmed when nothing is held": {
			reason: "It may not confirm the next mass removal.",
			hub:    newHub(3).confirmed(api.RemovalConfirm), want: []string{definition + `{"annotations":null}`},
			event: "Warning NothingHeld",
		},
		"unknown confirmation": {
			reason: "It is told.",
			hub:    newHub(3).confirmed("yes"), event: "Warning UnknownAnswer",
		},
		"disabled by hand": {
			reason: "Each was asked for by name.",
			hub:    disabled, want: []string{patched(0, allowed), patched(1, allowed), patched(2, allowed)},
			event: "Normal RemovalAllowed",
		},
		"replaced by one that is not Available": {
			reason: "It stays, and is not counted yet.",
			hub:    moving, want: []string{told(0)}, wait: replacementTimeout - time.Minute,
		},
		"replaced by one that has no add-on yet": {
			reason: "OCM makes it in a moment.",
			hub:    made, want: []string{told(0)}, wait: replacementTimeout - time.Minute,
		},
		"replaced by one that is Available": {
			reason: "Now it may go.",
			hub:    moved, want: []string{definition + `{"annotations":{"removals":"16666:uid00000"}}`, patched(0, allowed)},
			event: "Normal RemovalAllowed",
		},
		"another one has not been Available for long": {
			reason: "It was not selected in the place of this one.",
			hub:    broken, want: []string{definition + `{"annotations":{"removals":"16666:uid00000"}}`, patched(0, allowed)},
			event: "Normal RemovalAllowed",
		},
		"the replacement does not become Available": {
			reason: "A cluster under maintenance does not wait for ever.",
			hub:    late, want: []string{definition + `{"annotations":{"removals":"16666:uid00000"}}`, patched(0, allowed)},
			event: "Normal RemovalAllowed",
		},
		"confirmed while it is being replaced": {
			reason: "The administrator knows.",
			hub:    insisted, want: []string{patched(0, allowed)},
			event: "Normal RemovalAllowed",
		},
		"killed after it was counted, and one arrives": {
			reason: "What was decided is decided.",
			hub:    counted, want: []string{patched(0, allowed)},
			event: "Normal RemovalAllowed",
		},
		"requested again: told first": {
			reason: "The add-on is seen to be handed over before its works are touched.",
			hub:    newHub(1).deleted(1), want: []string{told(0)},
		},
		"requested again: the hub records the configuration": {
			reason: "The cluster may write its works, and no ControllerRevisions. No work is touched before the record is seen.",
			hub:    newHub(1).deleted(1).held(1, over),
			want:   []string{"create controllerrevisions c0/knative-serving-handover [] map[] {\"configs\":[]}"},
		},
		"requested again: a record of another configuration": {
			reason: "The data of a ControllerRevision cannot change.",
			hub:    outdated, want: []string{"delete controllerrevisions c0/knative-serving-handover"},
		},
		"requested again on a recreated ManagedCluster": {
			reason: "It gets the works, and not the configuration of the cluster that had the name.",
			hub:    replaced, want: []string{"create controllerrevisions c0/knative-serving-handover [] map[] {\"configs\":[]}"},
		},
		"requested again: the works lose their owner": {
			reason: "What the new add-on gets is recorded.",
			hub:    newHub(1).deleted(1).held(1, over).recorded(),
			want: []string{
				`patch manifestworks c0/knative-serving-foundation {"ownerReferences":null}`,
				`patch manifestworks c0/payload {"ownerReferences":null}`,
			},
		},
		"requested again: the gate loses its owner too": {
			reason: "The cluster goes on running what it runs.",
			hub:    newHub(1).deleted(1).held(1, over).freed().gated(),
			want:   []string{`patch manifestworks c0/knative-serving-gate {"ownerReferences":null}`},
		},
		"requested again: the verification loses its owner too": {
			reason: "The new add-on continues the verification.",
			hub:    newHub(1).deleted(1).held(1, over).freed().verifying(),
			want:   []string{`patch manifestworks c0/knative-serving-verification {"ownerReferences":null}`},
		},
		"requested again: the add-on goes last": {
			reason: "Works of an owner that is gone are garbage. Finalizers of others stay.",
			hub:    newHub(1).deleted(1).held(1, over).freed(),
			want:   []string{patched(0, `{"finalizers":["somebody/else"]}`)},
		},
		"requested again by a resource": {
			reason: "The resource that the add-on was made for is still there.",
			hub:    kept, want: []string{told(0)},
		},
		"between two add-ons": {
			reason: "Works never stay without an add-on, and the new one is held from the start.",
			hub:    between, want: []string{"create managedclusteraddons c0/knative-serving [foundation] map[]"},
		},
		"between two add-ons of a resource": {
			reason: "The new one says for whom it is.",
			hub:    configured, want: []string{"create managedclusteraddons c0/knative-serving [foundation] map[installed-for:blue/c0]"},
		},
		"between two add-ons of a cluster that leaves": {
			reason: "OCM removes the works, and would wait for a new add-on.",
			hub:    leaves,
		},
		"between two add-ons, and given up": {
			reason: "Force-orphan released the new add-on before the handover of the works.",
			hub:    givenUp, want: []string{"delete controllerrevisions c0/knative-serving-handover"},
		},
		"an annotation of the foundation": {
			reason: "The cluster may have written it.",
			hub:    forged,
		},
		"between two add-ons of a recreated ManagedCluster": {
			reason: "The record is of the cluster that had the name.",
			hub:    reregistered, want: []string{"delete controllerrevisions c0/knative-serving-handover"},
		},
		"between two add-ons without works": {
			reason: "There is nothing to hand over any more.",
			hub:    workless, want: []string{"delete controllerrevisions c0/knative-serving-handover"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.hub.reconcile(t)
			if diff := cmp.Diff(tc.want, tc.hub.actions); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
			if tc.hub.wait != tc.wait {
				t.Errorf("waits %s, want %s", tc.hub.wait, tc.wait)
			}
			if got := strings.Join(tc.hub.events, "\n"); !strings.HasPrefix(got, tc.event) || tc.event == "" && got != "" {
				t.Errorf("events are %q, want %q", got, tc.event)
			}
		})
	}
}

// serving refers to the cluster of its name.
func serving(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"namespace": "blue", "name": name},
		"spec":     map[string]any{"clusterProfileRef": map[string]any{"namespace": "blue", "name": name}},
	}}
}
