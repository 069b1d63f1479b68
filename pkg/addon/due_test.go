// Copyright Contributors to the Open Cluster Management project

package addon

import (
	"encoding/json"
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/work"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// rest is an add-on with the works that addon-framework has nothing to do with.
type rest struct {
	addOn   *addonv1beta1.ManagedClusterAddOn
	gate    *workv1.ManifestWork
	payload *workv1.ManifestWork
	bundle  *render.Bundle
	paused  pausedBy
	failed  error // of the bundle
}

func atRest(t *testing.T) *rest {
	t.Helper()
	b, err := testBundle()
	if err != nil {
		t.Fatal(err)
	}
	for i := range b.Payload {
		if b.Payload[i].JSON, err = json.Marshal(b.Payload[i].Object); err != nil {
			t.Fatal(err)
		}
	}
	addOn := configuredBy("h1")
	addOn.UID = "u1"
	addOn.Status.Conditions = []metav1.Condition{{Type: addonv1beta1.ManagedClusterAddOnManifestApplied, Status: metav1.ConditionTrue}}
	p := payloadOf("addon-knative-serving-deploy-0", "h1")
	p.OwnerReferences = []metav1.OwnerReference{{UID: addOn.UID, Controller: new(true)}}
	p.Spec.ManifestConfigs = work.PayloadConfigs()
	p.Status.Conditions = []metav1.Condition{{Type: workv1.WorkApplied, Status: metav1.ConditionTrue}}
	for _, o := range work.Payload(b, foundation()) {
		raw, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		p.Spec.Workload.Manifests = append(p.Spec.Workload.Manifests, workv1.Manifest{RawExtension: runtime.RawExtension{Raw: raw}})
	}
	return &rest{addOn: addOn, gate: gate("h1", false), payload: p, bundle: b}
}

func (r *rest) due(t *testing.T) bool {
	t.Helper()
	ours, payloads := []*workv1.ManifestWork{foundation()}, []*workv1.ManifestWork{}
	if r.gate != nil {
		ours = append(ours, r.gate)
	}
	if r.payload != nil {
		payloads = append(payloads, r.payload)
	}
	bundles := bundlesFunc(func() (*render.Bundle, error) { return r.bundle, r.failed })
	listed := Works{Foundations: lister(t, ours...), Payloads: lister(t, payloads...)}
	return New(api.Serving, bundles, permitted, r.paused, listed).Due(t.Context(), r.addOn)
}

func TestDue(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		change func(r *rest)
		want   bool
	}{
		"at rest":                {reason: "There is nothing to do.", change: func(*rest) {}},
		"label of a repair":      {reason: "It is ours.", change: func(r *rest) { r.payload.Labels[api.RepairLabel] = "1" }},
		"gate of another config": {reason: "It is closed first.", change: func(r *rest) { r.gate = gate("h0", false) }},
		"no gate":                {reason: "It is made first.", change: func(r *rest) { r.gate = nil }},
		"gate is going":          {reason: "It is made anew first.", change: func(r *rest) { leaving(r.gate) }},
		"payload is gone":        {reason: "It is written anew.", change: func(r *rest) { r.payload = nil }, want: true},
		"payload is going":       {reason: "It is written anew.", change: func(r *rest) { leaving(r.payload) }, want: true},
		"not applied": {
			reason: "The add-on says so.", change: func(r *rest) { r.payload.Status.Conditions[0].Status = metav1.ConditionFalse }, want: true,
		},
		"not said to be applied": {reason: "The add-on is to say so.", change: func(r *rest) { r.addOn.Status.Conditions = nil }, want: true},
		"other label":            {reason: "It is taken away.", change: func(r *rest) { r.payload.Labels["a"] = "b" }, want: true},
		"other annotation":       {reason: "It is taken away.", change: func(r *rest) { r.payload.Annotations["a"] = "b" }, want: true},
		"other owner":            {reason: "It goes with the add-on.", change: func(r *rest) { r.addOn.UID = "u2" }, want: true},
		"other strategies": {
			reason: "A newer manager has others.", change: func(r *rest) { r.payload.Spec.ManifestConfigs[0].UpdateStrategy = nil }, want: true,
		},
		"other way of deletion": {reason: "It is taken back.", change: func(r *rest) { r.payload.Spec.DeleteOption = &workv1.DeleteOption{} }, want: true},
		"executor":              {reason: "It is taken back.", change: func(r *rest) { r.payload.Spec.Executor = &workv1.ManifestWorkExecutor{} }, want: true},
		"other manifests":       {reason: "They are written.", change: func(r *rest) { r.bundle.Digest = "d3" }, want: true},
		"other configuration": {
			reason: "It is delivered.", want: true,
			change: func(r *rest) {
				r.addOn.Status.ConfigReferences[0].DesiredConfig.SpecHash = "h2"
				r.gate = gate("h1", true)
			},
		},
		"bad configuration": {reason: "The add-on says so.", change: func(r *rest) { r.failed = errors.New("bad") }, want: true},
		"paused":            {reason: "The add-on may have to say so.", change: func(r *rest) { r.paused = "somebody" }, want: true},
		"leaving":           {reason: "It is removed.", change: func(r *rest) { r.addOn.DeletionTimestamp = new(metav1.Now()) }, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := atRest(t)
			tc.change(r)
			if got := r.due(t); got != tc.want {
				t.Errorf("%s Due is %t", tc.reason, got)
			}
		})
	}
}
