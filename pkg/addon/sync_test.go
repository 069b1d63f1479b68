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
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// syncFixture is an add-on with works that addon-framework need not change.
type syncFixture struct {
	addOn   *addonv1beta1.ManagedClusterAddOn
	gate    *workv1.ManifestWork
	payload *workv1.ManifestWork
	bundle  *render.Bundle
	paused  pausedBy
	failed  error // of the bundle
	// executor is the configured one.
	executor *workv1.ManifestWorkExecutor
}

func atRest(t *testing.T) *syncFixture {
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
	addOn.UID, addOn.Finalizers = "u1", []string{api.FoundationFinalizer}
	addOn.Status.Conditions = []metav1.Condition{{Type: addonv1beta1.ManagedClusterAddOnManifestApplied, Status: metav1.ConditionTrue}}
	p := payloadOf("addon-knative-serving-deploy-0", "h1")
	p.OwnerReferences = []metav1.OwnerReference{{UID: addOn.UID, Controller: new(true)}}
	p.Spec.ManifestConfigs = manifestwork.PayloadConfigs()
	p.Status.Conditions = []metav1.Condition{{Type: workv1.WorkApplied, Status: metav1.ConditionTrue}}
	for _, o := range manifestwork.Payload(b, foundation()) {
		raw, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		p.Spec.Workload.Manifests = append(p.Spec.Workload.Manifests, workv1.Manifest{RawExtension: runtime.RawExtension{Raw: raw}})
	}
	return &syncFixture{addOn: addOn, gate: openGate("h1"), payload: p, bundle: b}
}

func (r *syncFixture) needsSync(t *testing.T) bool {
	t.Helper()
	ours, payloads := []*workv1.ManifestWork{foundation()}, []*workv1.ManifestWork{}
	if r.gate != nil {
		ours = append(ours, r.gate)
	}
	if r.payload != nil {
		payloads = append(payloads, r.payload)
	}
	bundles := bundlesFunc(func() (*render.Bundle, error) { return r.bundle, r.failed })
	listed := Works{Foundations: lister(t, ours...), Payloads: lister(t, payloads...), Executor: r.executor}
	return New(api.Serving, bundles, permitted, r.paused, listed).NeedsSync(t.Context(), r.addOn)
}

func TestNeedsSync(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		change func(r *syncFixture)
		want   bool
	}{
		"at rest":            {reason: "There is nothing to do.", change: func(*syncFixture) {}},
		"label of a repair":  {reason: "It is ours.", change: func(r *syncFixture) { r.payload.Labels[api.RepairLabel] = "1" }},
		"gate without label": {reason: "The gate is labelled first.", change: func(r *syncFixture) { unlabelled(r.gate) }},
		"no gate":            {reason: "It is made first.", change: func(r *syncFixture) { r.gate = nil }},
		"gate is going":      {reason: "The gate is recreated first.", change: func(r *syncFixture) { leaving(r.gate) }},
		"payload is gone":    {reason: "The payload is recreated.", change: func(r *syncFixture) { r.payload = nil }, want: true},
		"payload is going":   {reason: "The payload is recreated.", change: func(r *syncFixture) { leaving(r.payload) }, want: true},
		"not applied": {
			reason: "The add-on's controller says so.", change: func(r *syncFixture) { r.payload.Status.Conditions[0].Status = metav1.ConditionFalse },
		},
		"not said to be applied": {reason: "The add-on's controller says so.", change: func(r *syncFixture) { r.addOn.Status.Conditions = nil }},
		"foundation is not applied": {
			reason: "A wait is no error.", change: func(r *syncFixture) { r.bundle.FoundationDigest = "d3" },
		},
		"other label":      {reason: "It is taken away.", change: func(r *syncFixture) { r.payload.Labels["a"] = "b" }, want: true},
		"other annotation": {reason: "It is taken away.", change: func(r *syncFixture) { r.payload.Annotations["a"] = "b" }, want: true},
		"other owner":      {reason: "It goes with the add-on.", change: func(r *syncFixture) { r.addOn.UID = "u2" }, want: true},
		"other strategies": {
			reason: "A newer manager has others.", change: func(r *syncFixture) { r.payload.Spec.ManifestConfigs[0].UpdateStrategy = nil }, want: true,
		},
		"other way of deletion": {reason: "It is taken back.", change: func(r *syncFixture) { r.payload.Spec.DeleteOption = &workv1.DeleteOption{} }, want: true},
		"executor":              {reason: "An administrator's stays.", change: func(r *syncFixture) { r.payload.Spec.Executor = &workv1.ManifestWorkExecutor{} }},
		"no executor":           {reason: "One is configured.", change: func(r *syncFixture) { r.executor = manifestwork.Executor("a", "b") }, want: true},
		"other manifests": {
			reason: "They are written.", change: func(r *syncFixture) { r.payload.Spec.Workload.Manifests = r.payload.Spec.Workload.Manifests[1:] }, want: true,
		},
		"other rendering": {reason: "The turn of the cluster has not come.", change: func(r *syncFixture) { r.bundle.Digest = "d3" }},
		"other rendering, and another owner": {
			reason: "The works belong to the add-on.", change: func(r *syncFixture) { r.bundle.Digest, r.addOn.UID = "d3", "u2" }, want: true,
		},
		"other configuration": {
			reason: "It is delivered.", want: true,
			change: func(r *syncFixture) {
				r.addOn.Status.ConfigReferences[0].DesiredConfig.SpecHash = "h2"
			},
		},
		"former configuration again": {
			reason: "The gate is closed first.",
			change: func(r *syncFixture) {
				r.addOn.Status.ConfigReferences[0].DesiredConfig.SpecHash = "h0"
				r.gate, r.bundle.Digest = openGate("h0"), "d3"
			},
		},
		"bad configuration": {
			reason: "The add-on's controller says so.", change: func(r *syncFixture) { r.failed = &render.Error{Reason: api.ReasonInvalidSpec, Message: "bad"} },
		},
		"an error of the hub": {reason: "The sync reports the error.", change: func(r *syncFixture) { r.failed = errors.New("bad") }, want: true},
		"still being rendered": {
			reason: "The add-on's controller triggers a sync later.", change: func(r *syncFixture) { r.failed = &render.Error{Reason: api.FaultRenderPending, Message: "x"} },
		},
		"paused": {reason: "The cluster has its configuration.", change: func(r *syncFixture) { r.paused = "somebody" }},
		"paused, and has another owner": {
			reason: "The works belong to the add-on.", change: func(r *syncFixture) { r.paused, r.addOn.UID = "somebody", "u2" }, want: true,
		},
		"paused before another configuration": {
			reason: "The add-on's controller says so.",
			change: func(r *syncFixture) {
				r.paused, r.addOn.Status.ConfigReferences[0].DesiredConfig.SpecHash = "somebody", "h2"
			},
		},
		"has another owner, and no finalizer": {
			reason: "The works would go with the add-on.", change: func(r *syncFixture) { r.addOn.UID, r.addOn.Finalizers = "u2", nil },
		},
		"leaving": {reason: "The add-on has no hooks.", change: func(r *syncFixture) { r.addOn.DeletionTimestamp = new(metav1.Now()) }},
	} {
		t.Run(name, func(t *testing.T) {
			r := atRest(t)
			tc.change(r)
			if got := r.needsSync(t); got != tc.want {
				t.Errorf("%s NeedsSync is %t", tc.reason, got)
			}
		})
	}
}
