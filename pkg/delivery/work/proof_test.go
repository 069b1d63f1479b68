// Copyright Contributors to the Open Cluster Management project

package work

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/render"
)

// TestProofBringsWhatThePayloadWaitsFor holds that both mean the same object, and that the agent takes none of it for the
// payload's own.
func TestProofBringsWhatThePayloadWaitsFor(t *testing.T) {
	for _, digest := range []string{"d1", "0123456789abcdef0123456789abcdef"} {
		b := bundle(t)
		b.Digest = digest
		addOn := &addonv1beta1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Name: "knative-serving", Namespace: "cluster1", UID: "u1"}}
		proof, payload := Proof(b, installed(), addOn), Payload(b, installed())
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON(proof.Spec.Workload.Manifests[0].Raw); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(runtime.Object(u), payload[len(payload)-1]); diff != "" || len(proof.Spec.Workload.Manifests) != 1 {
			t.Errorf("the payload waits for something else (-brought +waited for):\n%s", diff)
		}
		o := render.Object{Unstructured: u}
		o.Resource.Resource = "configmaps"
		if got := strategyOf(o); got != workv1.UpdateStrategyTypeReadOnly {
			t.Errorf("%s is kept by %s", u.GetName(), got)
		}
		if _, labelled := proof.Labels[addonv1beta1.AddonLabelKey]; labelled {
			t.Error("OCM would wait for the proof, and addon-framework would delete it")
		}
		if proof.OwnerReferences[0].UID != addOn.UID {
			t.Errorf("the proof is owned by %q", proof.OwnerReferences[0].UID)
		}
	}
}

// TestProofIsOfOneInstallation holds that what is on a cluster for another bundle, another hub or an installation before says
// nothing.
func TestProofIsOfOneInstallation(t *testing.T) {
	b := bundle(t)
	for name, tc := range map[string]struct {
		reason string
		change func(proof *workv1.ManifestWork, b *render.Bundle, foundation *workv1.ManifestWork)
		want   bool
	}{
		"as it was made": {"It is about this bundle.", func(*workv1.ManifestWork, *render.Bundle, *workv1.ManifestWork) {}, true},
		"handed over": {
			"The foundation keeps its UID.",
			func(proof *workv1.ManifestWork, _ *render.Bundle, foundation *workv1.ManifestWork) {
				proof.OwnerReferences, foundation.OwnerReferences = nil, nil
			}, true,
		},
		"of another bundle": {
			"It does not run yet.", func(_ *workv1.ManifestWork, b *render.Bundle, _ *workv1.ManifestWork) { b.Digest = "d0" }, false,
		},
		"of another installation": {
			"It may be another hub's.", func(_ *workv1.ManifestWork, _ *render.Bundle, f *workv1.ManifestWork) { f.UID = "4d5e6f70-0000" }, false,
		},
		"on its way out": {
			"Its ConfigMap may be found before it is gone.",
			func(proof *workv1.ManifestWork, _ *render.Bundle, _ *workv1.ManifestWork) {
				proof.DeletionTimestamp = new(metav1.Now())
			}, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			foundation, other := installed(), *b
			proof := Proof(b, foundation, &addonv1beta1.ManagedClusterAddOn{})
			before := evidenceName(b, foundation)
			tc.change(proof, &other, foundation)
			if got := Proves(proof, &other, foundation); got != tc.want {
				t.Errorf("%s Proves is %v", tc.reason, got)
			}
			if same := evidenceName(&other, foundation) == before; same != (tc.want || proof.DeletionTimestamp != nil) {
				t.Errorf("%s It looks for the same ConfigMap: %v", tc.reason, same)
			}
		})
	}
	if Proves(Proof(b, installed(), &addonv1beta1.ManagedClusterAddOn{}), b, nil) {
		t.Error("a proof that was left proves what is not installed")
	}
}

func TestRuns(t *testing.T) {
	rolledOut := map[string]int64{
		generationValue: 2, observedValue: 2, desiredValue: 1, totalValue: 1, updatedValue: 1, availableValue: 1,
	}
	stuck := map[string]int64{
		generationValue: 2, observedValue: 2, desiredValue: 1, totalValue: 2, updatedValue: 1, availableValue: 1,
	}
	complete := workv1.ManifestCondition{
		ResourceMeta: workv1.ManifestResourceMeta{Kind: "Job", Namespace: ns, Name: "cleanup"},
		Conditions:   []metav1.Condition{{Type: workv1.ManifestComplete, Status: metav1.ConditionTrue}},
	}
	for name, tc := range map[string]struct {
		reason  string
		payload func(b *render.Bundle) []workv1.ManifestCondition
		want    bool
	}{
		"everything runs": {
			reason: "There is nothing more to wait for.", want: true,
			payload: func(b *render.Bundle) []workv1.ManifestCondition {
				return []workv1.ManifestCondition{deploymentStatus(rolledOut), complete, looked(b)}
			},
		},
		"old pods serve": {
			reason: "The Deployment is Available, and its new pods are not.",
			payload: func(b *render.Bundle) []workv1.ManifestCondition {
				return []workv1.ManifestCondition{deploymentStatus(stuck), complete, looked(b)}
			},
		},
		"the Job is running": {
			reason: "It may fail.",
			payload: func(b *render.Bundle) []workv1.ManifestCondition {
				return []workv1.ManifestCondition{deploymentStatus(rolledOut), looked(b)}
			},
		},
		"an object was refused": {
			reason: "The cluster does not have what it should.",
			payload: func(b *render.Bundle) []workv1.ManifestCondition {
				return []workv1.ManifestCondition{deploymentStatus(rolledOut), complete, looked(b), notApplied("ConfigMap", ns, "config", "denied")}
			},
		},
		"what was there before ran": {
			reason: "The agent has not looked since it has applied the bundle.",
			payload: func(*render.Bundle) []workv1.ManifestCondition {
				return []workv1.ManifestCondition{deploymentStatus(rolledOut), complete}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := bundle(t)
			b.Workloads = []render.Workload{{Kind: "Deployment", Namespace: ns, Name: "webhook"}}
			b.Jobs = []render.JobRef{{Namespace: ns, Name: "cleanup"}}
			d := deliver(t, b)
			report(d.payloads[0], tc.payload(b)...)
			if got := Runs(b, d.foundation, d.payloads); got != tc.want {
				t.Errorf("%s Runs is %v, want %v", tc.reason, got, tc.want)
			}
		})
	}
}

func TestProofOnTheCluster(t *testing.T) {
	b := bundle(t)
	found := looked(b)
	found.Conditions = []metav1.Condition{{Type: workv1.ManifestAvailable, Status: metav1.ConditionTrue}}
	for name, tc := range map[string]struct {
		reason        string
		change        func(*workv1.ManifestWork)
		arrived, lost bool
	}{
		"not applied": {reason: "It is on its way.", change: func(*workv1.ManifestWork) {}},
		"applied, not looked at": {
			reason: "The next report says more.",
			change: func(w *workv1.ManifestWork) { report(w); w.Status.Conditions = w.Status.Conditions[:1] },
		},
		"found": {reason: "It is there.", change: func(w *workv1.ManifestWork) { report(w, found) }, arrived: true},
		"gone": {
			reason: "Somebody on the cluster has deleted it.", lost: true,
			change: func(w *workv1.ManifestWork) {
				report(w, looked(b))
				w.Status.Conditions[1].Status = metav1.ConditionFalse
			},
		},
		"of an older generation": {reason: "It may have changed.", change: func(w *workv1.ManifestWork) { report(w, found); w.Generation++ }},
	} {
		t.Run(name, func(t *testing.T) {
			w := Proof(b, installed(), &addonv1beta1.ManagedClusterAddOn{})
			tc.change(w)
			if got := HasArrived(w); got != tc.arrived {
				t.Errorf("%s HasArrived is %v", tc.reason, got)
			}
			if _, got := LostSince(w); got != tc.lost {
				t.Errorf("%s LostSince is %v", tc.reason, got)
			}
		})
	}
}

func TestHealth(t *testing.T) {
	running := map[string]int64{generationValue: 1, observedValue: 1, desiredValue: 1, totalValue: 1, updatedValue: 1, availableValue: 1}
	starting := map[string]int64{generationValue: 1, observedValue: 1, desiredValue: 1, totalValue: 1, updatedValue: 1}
	lost := workv1.ManifestCondition{
		ResourceMeta: workv1.ManifestResourceMeta{Kind: "ConfigMap", Namespace: ns, Name: "config"}, Conditions: []metav1.Condition{gone},
	}
	removedJob := workv1.ManifestCondition{
		ResourceMeta: workv1.ManifestResourceMeta{Kind: "Job", Namespace: ns, Name: "cleanup"}, Conditions: []metav1.Condition{gone},
	}
	for name, tc := range map[string]struct {
		reason  string
		payload func(b *render.Bundle) []workv1.ManifestCondition
		want    []string
		unseen  bool
	}{
		"runs without a proof": {
			reason: "The proof is for OCM's rollout; the add-on works without.",
			payload: func(b *render.Bundle) []workv1.ManifestCondition {
				return []workv1.ManifestCondition{deploymentStatus(running), looked(b)}
			},
		},
		"a Job was removed": {
			reason: "It goes when it has finished.",
			payload: func(*render.Bundle) []workv1.ManifestCondition {
				return []workv1.ManifestCondition{deploymentStatus(running), removedJob}
			},
		},
		"pods are starting": {
			reason: "The message names what is waited for.",
			payload: func(*render.Bundle) []workv1.ManifestCondition {
				return []workv1.ManifestCondition{deploymentStatus(starting)}
			},
			want: []string{"Deployment " + ns + "/webhook: 0 of 1 pods are available"},
		},
		"a ConfigMap is gone": {
			reason: "Knative does not work without its objects.",
			payload: func(*render.Bundle) []workv1.ManifestCondition {
				return []workv1.ManifestCondition{deploymentStatus(running), lost}
			},
			want: []string{"ConfigMap " + ns + "/config: it is gone"},
		},
		"nothing is reported": {
			reason: "It is not known to be bad.", payload: func(*render.Bundle) []workv1.ManifestCondition { return nil },
			want: []string{"Deployment " + ns + "/webhook: not seen yet"}, unseen: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := bundle(t)
			b.Workloads = []render.Workload{{Kind: "Deployment", Namespace: ns, Name: "webhook"}}
			d := deliver(t, b)
			report(d.payloads[0], tc.payload(b)...)
			got, ok := Health(b, d.payloads)
			if diff := cmp.Diff(tc.want, got); diff != "" || ok == tc.unseen {
				t.Errorf("%s Something was seen: %v (-want +got):\n%s", tc.reason, ok, diff)
			}
		})
	}
}
