// Copyright Contributors to the Open Cluster Management project

package manifestwork

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/delivery"
)

const ns = "knative-serving"

// webhookManifests are a webhook as Knative ships it: its configuration, the Service that this calls, and the Deployment
// behind that; and a Deployment that has nothing to do with it.
func webhookManifests() []map[string]any {
	labels := map[string]any{"role": "webhook"}
	return []map[string]any{
		{
			"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "webhook", "namespace": ns},
			"spec": map[string]any{"selector": labels},
		},
		{
			"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "webhook", "namespace": ns},
			"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{"labels": labels}}},
		},
		{
			"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "controller", "namespace": ns},
			"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"role": "controller"}}}},
		},
		{
			"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": map[string]any{"name": "config"},
			"webhooks": []any{map[string]any{"name": "config", "clientConfig": map[string]any{"service": map[string]any{"name": "webhook", "namespace": ns}}}},
		},
	}
}

func payloadWork(t *testing.T, manifests []map[string]any) *workv1.ManifestWork {
	t.Helper()
	w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: "payload", Generation: 1, Finalizers: []string{workv1.ManifestWorkFinalizer}}}
	for _, m := range manifests {
		raw, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		w.Spec.Workload.Manifests = append(w.Spec.Workload.Manifests, workv1.Manifest{RawExtension: runtime.RawExtension{Raw: raw}})
	}
	w.Spec.ManifestConfigs = PayloadConfigs()
	return w
}

// next is the step of a payload, which it fails the test to have an error.
func next(t *testing.T, w *workv1.ManifestWork) Removal {
	t.Helper()
	r, err := NextRemoval(w, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// stopApplying takes a payload to the next generation, whose objects the agent only reads, and reports with the former status.
func stopApplying(t *testing.T, w *workv1.ManifestWork) *workv1.ManifestWork {
	t.Helper()
	r := next(t, w)
	if r.Step != StopApplying {
		t.Fatalf("step is %s (%s), want %s", r.Step, r.Why, StopApplying)
	}
	out := r.Payload
	out.Generation++
	for i := range out.Status.Conditions {
		out.Status.Conditions[i].ObservedGeneration = out.Generation
	}
	return out
}

// report is the agent's status of the present generation.
func report(w *workv1.ManifestWork, manifests ...workv1.ManifestCondition) {
	w.Status.Conditions = []metav1.Condition{
		{Type: workv1.WorkApplied, Status: metav1.ConditionTrue, ObservedGeneration: w.Generation},
		{Type: workv1.WorkAvailable, Status: metav1.ConditionTrue, ObservedGeneration: w.Generation},
	}
	w.Status.ResourceStatus.Manifests = manifests
}

// stoppedStatus is the status of a Deployment without pods.
func stoppedStatus(name string) workv1.ManifestCondition {
	return deploymentStatus(name, map[string]int64{generationValue: 2, observedValue: 2})
}

func deploymentStatus(name string, values map[string]int64, conditions ...metav1.Condition) workv1.ManifestCondition {
	m := workv1.ManifestCondition{
		ResourceMeta: workv1.ManifestResourceMeta{Kind: "Deployment", Resource: "deployments", Namespace: ns, Name: name},
		Conditions:   conditions,
	}
	for name, v := range values {
		m.StatusFeedbacks.Values = append(m.StatusFeedbacks.Values, workv1.FeedbackValue{
			Name: name, Value: workv1.FieldValue{Type: workv1.Integer, Integer: new(v)},
		})
	}
	return m
}

func configurationStatus(owned bool, conditions ...metav1.Condition) workv1.ManifestCondition {
	m := workv1.ManifestCondition{
		ResourceMeta: workv1.ManifestResourceMeta{Kind: "ValidatingWebhookConfiguration", Resource: "validatingwebhookconfigurations", Name: "config"},
		Conditions:   conditions,
	}
	if owned {
		m.StatusFeedbacks.Values = []workv1.FeedbackValue{{Name: ownerValue}}
	}
	return m
}

var gone = metav1.Condition{Type: workv1.ManifestAvailable, Status: metav1.ConditionFalse, Reason: "ResourceNotAvailable"}

// TestRemoval walks a payload through its removal as the hub would see it.
func TestRemoval(t *testing.T) {
	w := payloadWork(t, webhookManifests())
	r := next(t, w)
	if r.Step != StopWorkloads {
		t.Fatalf("first step is %s (%s), want %s", r.Step, r.Why, StopWorkloads)
	}
	w = r.Payload
	w.Generation++
	if diff := cmp.Diff([]int64{-1, 0, 0, -1}, replicasOf(t, w)); diff != "" {
		t.Errorf("each workload is stopped: replicas (-want +got):\n%s", diff)
	}
	expectBegun(t, w, false)

	w = withStopBegun(w, time.Now())
	for name, values := range map[string]map[string]int64{
		"nothing reported": {},
		"not observed":     {generationValue: 2, observedValue: 1},
		"pods left":        {generationValue: 2, observedValue: 2, totalValue: 1},
		"pods ending":      {generationValue: 2, observedValue: 2, terminatingValue: 1},
		"scaled up again":  {generationValue: 3, observedValue: 3, desiredValue: 1},
	} {
		for running, stopped := range map[string]string{"webhook": "controller", "controller": "webhook"} {
			report(w, deploymentStatus(running, values), stoppedStatus(stopped))
			r := next(t, w)
			step := map[bool]RemovalStep{false: AwaitStop, true: RetryStop}[values[desiredValue] > 0]
			if want := "waiting for the workloads of Knative to stop: Deployment knative-serving/" + running; r.Step != step || r.Why != want {
				t.Errorf("%s: step is %s (%s), want %s (%s)", name, r.Step, r.Why, step, want)
			}
		}
	}
	report(w, deploymentStatus("webhook", nil, gone), stoppedStatus("controller"))
	if r := next(t, w); r.Step != Reclaim {
		t.Errorf("a Deployment that is gone has stopped, but step is %s (%s)", r.Step, r.Why)
	}
	report(w, stoppedStatus("webhook"), stoppedStatus("controller"))
	r = next(t, w)
	if r.Step != Reclaim {
		t.Fatalf("step is %s (%s), want %s", r.Step, r.Why, Reclaim)
	}
	w = r.Payload
	w.Generation++
	if got := len(w.Spec.Workload.Manifests); got != 3 {
		t.Errorf("%d manifests are left, want all but the webhook's Deployment", got)
	}
	if diff := cmp.Diff([]string{"", "", "Ignore"}, failurePoliciesOf(t, w)); diff != "" {
		t.Errorf("only the webhook configuration ignores failures: policies (-want +got):\n%s", diff)
	}

	expectBegun(t, w, true) // the reclaim follows the report of the stop
	if r := next(t, w); r.Step != AwaitReclaim {
		t.Errorf("a status of an older generation says nothing, but step is %s (%s)", r.Step, r.Why)
	}
	report(w, configurationStatus(true), deploymentStatus("controller", map[string]int64{generationValue: 3, observedValue: 3, totalValue: 1}))
	if r := next(t, w); r.Step != AwaitStop {
		t.Errorf("a controller runs again, but step is %s (%s)", r.Step, r.Why)
	}
	report(w, configurationStatus(false), stoppedStatus("controller"))
	if r := next(t, w); r.Step != RetryReclaim {
		t.Errorf("the agent does not own the configuration, but step is %s (%s)", r.Step, r.Why)
	}
	report(w, configurationStatus(false, gone), stoppedStatus("controller"))
	if r := next(t, w); r.Step != StopApplying {
		t.Errorf("nobody needs to own a configuration that is gone, but step is %s (%s)", r.Step, r.Why)
	}
	report(w, configurationStatus(true), stoppedStatus("controller"))
	w = stopApplying(t, w)
	if r := next(t, w); r.Step != Delete {
		t.Errorf("step is %s (%s), want %s", r.Step, r.Why, Delete)
	}
	now := metav1.Now()
	w.DeletionTimestamp = &now
	if r := next(t, w); r.Step != AwaitDelete {
		t.Errorf("step is %s (%s), want %s", r.Step, r.Why, AwaitDelete)
	}
}

func expectBegun(t *testing.T, w *workv1.ManifestWork, want bool) {
	t.Helper()
	if begun, err := HasRemovalBegun(w); begun != want || err != nil {
		t.Errorf("the removal has begun: %t, want %t; error %v", begun, want, err)
	}
}

// TestRemovalWithPods holds that a removal waits for pods as long as delivery.LongestStop, and then does not wait again.
func TestRemovalWithPods(t *testing.T) {
	w := payloadWork(t, webhookManifests())
	w = next(t, w).Payload
	w.Generation++
	pods := deploymentStatus("controller", map[string]int64{generationValue: 2, observedValue: 2, totalValue: 1})
	if r, err := NextRemoval(w, time.Now().Add(time.Hour)); err != nil || r.Step != AwaitStop || r.Payload != nil {
		t.Errorf("while the agent is away the step is %s, error %v", r.Step, err)
	}
	report(w, stoppedStatus("webhook"), pods)
	ahead := withStopBegun(w, time.Now().Add(time.Hour))
	if r := next(t, ahead); r.Step != AwaitStop || r.Payload == nil {
		t.Errorf("with the time of another clock the step is %s, which writes %t", r.Step, r.Payload != nil)
	}
	w = next(t, w).Payload // records the time, without another generation
	r := next(t, w)
	if r.Step != AwaitStop || r.Payload != nil || r.Retry <= 0 || r.Retry > delivery.LongestStop {
		t.Errorf("step is %s with a retry after %s, want %s", r.Step, r.Retry, AwaitStop)
	}
	later := time.Now().Add(delivery.LongestStop)
	for _, want := range []RemovalStep{Reclaim, AwaitReclaim, StopApplying, AwaitStopApplying, Delete} {
		r, err := NextRemoval(w, later)
		if err != nil || r.Step != want {
			t.Fatalf("step is %s (%s), want %s, error %v", r.Step, r.Why, want, err)
		}
		if r.Payload != nil {
			w = r.Payload
			w.Generation++
			continue
		}
		report(w, configurationStatus(true), pods)
	}
}

func TestRemovalShortcuts(t *testing.T) {
	t.Run("a work that the agent never saw is deleted", func(t *testing.T) {
		w := payloadWork(t, webhookManifests())
		w.Finalizers = nil
		if r := next(t, w); r.Step != Delete {
			t.Errorf("step is %s (%s), want %s", r.Step, r.Why, Delete)
		}
	})
	t.Run("a payload without webhooks stops its workloads, asks for owners once and goes", func(t *testing.T) {
		w := payloadWork(t, webhookManifests()[2:3])
		r := next(t, w)
		if r.Step != StopWorkloads {
			t.Fatalf("step is %s (%s), want %s", r.Step, r.Why, StopWorkloads)
		}
		w = r.Payload
		if stopped, err := WorkloadsStopped(w); !stopped || err != nil {
			t.Errorf("stopped is %t, %v", stopped, err)
		}
		report(w, stoppedStatus("controller"))
		r = next(t, w)
		if r.Step != Reclaim {
			t.Fatalf("step is %s (%s), want %s", r.Step, r.Why, Reclaim)
		}
		w = r.Payload
		report(w, stoppedStatus("controller"))
		if r := next(t, stopApplying(t, w)); r.Step != Delete {
			t.Errorf("step is %s (%s), want %s", r.Step, r.Why, Delete)
		}
	})
	t.Run("what cannot be applied does not keep the rest from being removed", func(t *testing.T) {
		w := payloadWork(t, webhookManifests()[3:])
		w = next(t, w).Payload
		report(w, configurationStatus(true))
		w.Status.Conditions[0].Status = metav1.ConditionFalse
		if r := next(t, stopApplying(t, w)); r.Step != Delete {
			t.Errorf("step is %s (%s), want %s", r.Step, r.Why, Delete)
		}
	})
	t.Run("an object whose kind the cluster does not know leaves the work", func(t *testing.T) {
		w := payloadWork(t, webhookManifests()[2:])
		report(w, workv1.ManifestCondition{
			ResourceMeta: workv1.ManifestResourceMeta{Kind: "Deployment", Namespace: ns, Name: "controller"},
			Conditions: []metav1.Condition{{
				Type: workv1.ManifestApplied, Status: metav1.ConditionFalse, Message: `the server doesn't have a resource type "Deployment"`,
			}},
		})
		r := next(t, w)
		if r.Step != Reclaim || len(r.Payload.Spec.Workload.Manifests) != 1 {
			t.Errorf("step is %s with %d manifests, want %s with the other one", r.Step, len(r.Payload.Spec.Workload.Manifests), Reclaim)
		}
	})
	t.Run("a manifest that is no object is an error", func(t *testing.T) {
		w := payloadWork(t, webhookManifests())
		w.Spec.Workload.Manifests[0].Raw = []byte(`[]`)
		if r, err := NextRemoval(w, time.Now()); err == nil {
			t.Errorf("step is %s, want an error", r.Step)
		}
	})
}

// TestRemovalOfOlderManager holds that the removal of a manager that stopped only the webhooks stops the other workloads, too.
func TestRemovalOfOlderManager(t *testing.T) {
	w := payloadWork(t, webhookManifests()[2:])
	w.Spec.ManifestConfigs = append(ownershipFeedback(), w.Spec.ManifestConfigs...)
	report(w, configurationStatus(true))
	r := next(t, w)
	if r.Step != StopWorkloads {
		t.Fatalf("step is %s (%s), want %s", r.Step, r.Why, StopWorkloads)
	}
	report(r.Payload, configurationStatus(true), stoppedStatus("controller"))
	if r := next(t, stopApplying(t, r.Payload)); r.Step != Delete {
		t.Errorf("step is %s (%s), want %s", r.Step, r.Why, Delete)
	}
}

// TestRemovalOfGivenUp holds that the agent owns again what an add-on before had given up.
func TestRemovalOfGivenUp(t *testing.T) {
	t.Run("a whole payload", func(t *testing.T) {
		w := Orphaned(payloadWork(t, webhookManifests()))
		w = next(t, w).Payload
		if IsOrphaned(w) || w.Spec.DeleteOption != nil {
			t.Errorf("with webhooks stopped it is still given up: %v, %v", w.Annotations, w.Spec.DeleteOption)
		}
	})
	t.Run("a payload on its way out", func(t *testing.T) {
		w := Orphaned(next(t, payloadWork(t, webhookManifests()[3:])).Payload)
		configs := len(w.Spec.ManifestConfigs)
		report(w, configurationStatus(false))
		r := next(t, w)
		if r.Step != Reclaim {
			t.Fatalf("step is %s (%s), want %s", r.Step, r.Why, Reclaim)
		}
		if IsOrphaned(r.Payload) || r.Payload.Spec.DeleteOption != nil || len(r.Payload.Spec.ManifestConfigs) != configs {
			t.Errorf("it is still given up: %v", r.Payload)
		}
		report(r.Payload, configurationStatus(true))
		if r := next(t, stopApplying(t, r.Payload)); r.Step != Delete {
			t.Errorf("step is %s (%s), want %s", r.Step, r.Why, Delete)
		}
	})
}

func replicasOf(t *testing.T, w *workv1.ManifestWork) []int64 {
	t.Helper()
	var out []int64
	for _, m := range w.Spec.Workload.Manifests {
		var o struct{ Spec struct{ Replicas *int64 } }
		if err := json.Unmarshal(m.Raw, &o); err != nil {
			t.Fatal(err)
		}
		if o.Spec.Replicas == nil {
			out = append(out, -1)
			continue
		}
		out = append(out, *o.Spec.Replicas)
	}
	return out
}

// failurePoliciesOf returns the failurePolicy of the first webhook of each manifest; of other manifests, the empty string.
func failurePoliciesOf(t *testing.T, w *workv1.ManifestWork) []string {
	t.Helper()
	var out []string
	for _, m := range w.Spec.Workload.Manifests {
		var o struct {
			Webhooks []struct{ FailurePolicy string }
		}
		if err := json.Unmarshal(m.Raw, &o); err != nil {
			t.Fatal(err)
		}
		policy := ""
		if len(o.Webhooks) > 0 {
			policy = o.Webhooks[0].FailurePolicy
		}
		out = append(out, policy)
	}
	return out
}

func TestDescribeDeletion(t *testing.T) {
	object := func(kind, resource, namespace, name string, gone bool) workv1.ManifestCondition {
		c := metav1.Condition{Type: workv1.ManifestAvailable, Status: metav1.ConditionTrue, Reason: "ResourceAvailable"}
		if gone {
			c.Status, c.Reason = metav1.ConditionFalse, "ResourceNotAvailable"
		}
		return workv1.ManifestCondition{
			ResourceMeta: workv1.ManifestResourceMeta{Kind: kind, Resource: resource, Namespace: namespace, Name: name}, Conditions: []metav1.Condition{c},
		}
	}
	crd := object("CustomResourceDefinition", "customresourcedefinitions", "", "services.serving.knative.dev", false)
	namespace := object("Namespace", "namespaces", "", ns, false)
	keepNamespace := keepOption([]workv1.OrphaningRule{{Resource: "namespaces", Name: ns}})
	for name, tc := range map[string]struct {
		objects []workv1.ManifestCondition
		option  *workv1.DeleteOption
		want    string
	}{
		"an agent that reports nothing": {want: "the work agent removes the objects"},
		"objects that are gone": {
			objects: []workv1.ManifestCondition{object("ConfigMap", "configmaps", ns, "config", true)}, want: "the work agent removes the objects",
		},
		"objects that exist are sorted": {
			objects: []workv1.ManifestCondition{crd, object("ConfigMap", "configmaps", ns, "config", false)},
			want:    "waiting for these to be gone: ConfigMap knative-serving/config, CustomResourceDefinition services.serving.knative.dev",
		},
		"only a CRD and a Namespace are left": {
			objects: []workv1.ManifestCondition{namespace, crd},
			want: "waiting for these to be gone: CustomResourceDefinition services.serving.knative.dev, Namespace knative-serving" +
				"; an object with a finalizer keeps its CustomResourceDefinition and its Namespace",
		},
		"an object that the work keeps": {
			objects: []workv1.ManifestCondition{namespace}, option: keepNamespace, want: "the work agent removes the objects",
		},
		"a work that keeps all objects": {
			objects: []workv1.ManifestCondition{namespace, crd}, want: "the work agent removes the objects",
			option: &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyTypeOrphan},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := &workv1.ManifestWork{Spec: workv1.ManifestWorkSpec{DeleteOption: tc.option}}
			w.Status.ResourceStatus.Manifests = tc.objects
			if diff := cmp.Diff(tc.want, DescribeDeletion(w)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
