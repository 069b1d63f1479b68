// Copyright Contributors to the Open Cluster Management project

package manifestwork

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/workload"
)

// delivered is a cluster on which a bundle has arrived: its works, each as the agent has reported on it.
type delivered struct {
	bundle     *render.Bundle
	foundation *workv1.ManifestWork
	payloads   []*workv1.ManifestWork
}

func deliver(t *testing.T, b *render.Bundle) *delivered {
	t.Helper()
	foundation, err := Foundation(b, &addonv1beta1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Name: "knative-serving", Namespace: "cluster1"}}, "h1")
	if err != nil {
		t.Fatal(err)
	}
	foundation.UID = installed().UID
	report(foundation)
	payload := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: "payload-0", Generation: 3}}
	for _, o := range b.Payload {
		payload.Spec.Workload.Manifests = append(payload.Spec.Workload.Manifests, manifest(o.JSON))
	}
	payload.Spec.Workload.Manifests = append(payload.Spec.Workload.Manifests, manifest(encodeJSON(bundleMark(b))))
	report(payload, looked(b))
	return &delivered{bundle: b, foundation: foundation, payloads: []*workv1.ManifestWork{payload}}
}

// installed is the foundation of the installation that the tests are about.
func installed() *workv1.ManifestWork {
	return &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{UID: "0a1b2c3d-0000"}}
}

// looked is what the agent says of the mark of a bundle when it has looked.
func looked(b *render.Bundle) workv1.ManifestCondition {
	return workv1.ManifestCondition{
		ResourceMeta: workv1.ManifestResourceMeta{Kind: "ConfigMap", Resource: "configmaps", Namespace: b.Namespace, Name: markName(b)},
		Conditions: []metav1.Condition{
			{Type: workv1.ManifestApplied, Status: metav1.ConditionTrue}, {Type: workv1.ManifestAvailable, Status: metav1.ConditionTrue},
		},
	}
}

func manifest(raw []byte) workv1.Manifest {
	return workv1.Manifest{RawExtension: runtime.RawExtension{Raw: raw}}
}

func (d *delivered) observe() delivery.Observation {
	return Observe(d.bundle, d.foundation, d.payloads)
}

// split puts each manifest of the payload into a work of its own.
func (d *delivered) split() {
	whole := d.payloads[0]
	d.payloads = nil
	for i, m := range whole.Spec.Workload.Manifests {
		p := whole.DeepCopy()
		p.Name = "payload-" + string(rune('0'+i))
		p.Spec.Workload.Manifests = []workv1.Manifest{m}
		d.payloads = append(d.payloads, p)
	}
}

func notApplied(kind, namespace, name, message string) workv1.ManifestCondition {
	return workv1.ManifestCondition{
		ResourceMeta: workv1.ManifestResourceMeta{Kind: kind, Namespace: namespace, Name: name},
		Conditions:   []metav1.Condition{{Type: workv1.ManifestApplied, Status: metav1.ConditionFalse, Message: message}},
	}
}

// older makes a condition of the work one of the generation before.
func older(w *workv1.ManifestWork, condition string) {
	for i := range w.Status.Conditions {
		if w.Status.Conditions[i].Type == condition {
			w.Status.Conditions[i].ObservedGeneration--
		}
	}
}

func TestWaiting(t *testing.T) {
	const carriesCRDs = `waiting for ManifestWork "knative-serving-foundation", which carries the CRDs`
	for name, tc := range map[string]struct {
		reason string
		change func(*delivered)
		want   string
	}{
		"everything has arrived": {
			reason: "The cluster has reported on exactly this.", change: func(*delivered) {},
		},
		"no foundation": {
			reason: "It comes first.", change: func(d *delivered) { d.foundation = nil }, want: carriesCRDs + ", to be created",
		},
		"nothing at all": {
			reason: "It comes first.", change: func(d *delivered) { d.foundation, d.payloads = nil, nil }, want: carriesCRDs + ", to be created",
		},
		"a foundation that is being removed": {
			reason: "It is an earlier one.", change: func(d *delivered) { d.foundation.DeletionTimestamp = new(metav1.Unix(1, 0)) },
			want: carriesCRDs + ", to be created",
		},
		"the foundation of another bundle": {
			reason: "Its digest says so.", change: func(d *delivered) { d.foundation.Annotations[api.DigestAnnotation] = "d0" },
			want: carriesCRDs + ", to be updated",
		},
		"a foundation that the agent has not seen": {
			reason: "The payload follows it.", change: func(d *delivered) { d.foundation.Status.Conditions = nil },
			want: carriesCRDs + ": the work agent has not applied the work yet",
		},
		"a foundation that the agent has seen before": {
			reason: "What it says is of an older generation.", change: func(d *delivered) { older(d.foundation, workv1.WorkApplied) },
			want: carriesCRDs + ": the work agent has not applied the work yet",
		},
		"a foundation that failed": {
			reason: "The cause is what users need.",
			change: func(d *delivered) {
				d.foundation.Status.Conditions[0].Status = metav1.ConditionFalse
				d.foundation.Status.ResourceStatus.Manifests = []workv1.ManifestCondition{notApplied("CustomResourceDefinition", "", "services", "forbidden")}
			},
			want: carriesCRDs + `: CustomResourceDefinition services: forbidden`,
		},
		"no payload": {
			reason: "addon-framework has not written it.", change: func(d *delivered) { d.payloads = nil },
			want: "waiting for the ManifestWork of the payload to be written",
		},
		"another payload": {
			reason: "addon-framework has not updated it.",
			change: func(d *delivered) { d.payloads[0].Spec.Workload.Manifests[0] = manifest([]byte(`{"kind":"Other"}`)) },
			want:   "waiting for the ManifestWork of the payload to be written",
		},
		"a payload that the agent has not seen": {
			reason: "It is there, and that is all.", change: func(d *delivered) { d.payloads[0].Status.Conditions = nil },
			want: `waiting for the work agent to apply ManifestWork "payload-0"`,
		},
		"a payload that the agent has seen before": {
			reason: "What it says is of an older generation.", change: func(d *delivered) { d.payloads[0].Generation++ },
			want: `waiting for the work agent to apply ManifestWork "payload-0"`,
		},
		"a payload that the agent has applied": {
			reason: "It looks at the result next.", change: func(d *delivered) { older(d.payloads[0], workv1.WorkAvailable) },
			want: `waiting for the work agent to report on ManifestWork "payload-0"`,
		},
		"a payload of which the agent has reported what was there before": {
			reason: "It looks before it applies, too.",
			change: func(d *delivered) { report(d.payloads[0]) },
			want:   "waiting for the work agent to report on the applied objects",
		},
		"a payload after another, of which the agent has reported what was there before": {
			reason: "What is said of the mark is of another bundle.",
			change: func(d *delivered) { other := *d.bundle; other.Digest = "d0"; report(d.payloads[0], looked(&other)) },
			want:   "waiting for the work agent to report on the applied objects",
		},
		"a payload that failed": {
			reason: "The agent has tried, and has looked: there is nothing to wait for.",
			change: func(d *delivered) { d.payloads[0].Status.Conditions[0].Status = metav1.ConditionFalse },
		},
		"a payload of several works, one of which the agent has not seen": {
			reason: "All count, and the first by name is told whatever their order.",
			change: func(d *delivered) {
				d.split()
				for _, p := range d.payloads {
					p.Status.Conditions = nil
				}
				slices.Reverse(d.payloads)
			},
			want: `waiting for the work agent to apply ManifestWork "payload-0"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := deliver(t, bundle(t))
			tc.change(d)
			if got := d.observe().Waiting; got != tc.want {
				t.Errorf("%s Observe waits for %q, want %q", tc.reason, got, tc.want)
			}
		})
	}
}

func TestObserve(t *testing.T) {
	applied := metav1.Condition{Type: workv1.ManifestApplied, Status: metav1.ConditionTrue}
	jobStatus := func(name string, conditions ...metav1.Condition) workv1.ManifestCondition {
		return workv1.ManifestCondition{ResourceMeta: workv1.ManifestResourceMeta{Kind: "Job", Namespace: ns, Name: name}, Conditions: conditions}
	}
	complete := metav1.Condition{Type: workv1.ManifestComplete, Status: metav1.ConditionTrue}
	finished := metav1.Condition{Type: jobFinishedCondition, Status: metav1.ConditionTrue}
	hasFailed := metav1.Condition{Type: jobFailedCondition, Status: metav1.ConditionTrue}
	stateful := deploymentStatus("webhook", map[string]int64{generationValue: 1, desiredValue: 2}, applied)
	stateful.ResourceMeta.Kind, stateful.ResourceMeta.Resource = "StatefulSet", "statefulsets"
	running := delivery.WorkloadState{WorkloadKey: delivery.WorkloadKey{Kind: "Deployment", Namespace: ns, Name: "webhook"}, State: workload.State{Generation: 1, Desired: 1}}
	for name, tc := range map[string]struct {
		reason              string
		foundation, payload []workv1.ManifestCondition
		old                 bool
		finished            string
		want                delivery.Observation
	}{
		"nothing went wrong": {
			reason:  "What was applied has not failed; what nobody has tried yet neither.",
			payload: []workv1.ManifestCondition{{Conditions: []metav1.Condition{applied}}, {}},
		},
		"failures of both works": {
			reason:     "The foundation can fail too, and objects have a namespace or none.",
			foundation: []workv1.ManifestCondition{notApplied("CustomResourceDefinition", "", "services", "forbidden")},
			payload:    []workv1.ManifestCondition{notApplied("ConfigMap", ns, "config", "denied"), {Conditions: []metav1.Condition{applied}}},
			want: delivery.Observation{Failed: []delivery.Failure{
				{Object: "ConfigMap " + ns + "/config", Cause: "denied"}, {Object: "CustomResourceDefinition services", Cause: "forbidden"},
			}},
		},
		"failures of an older generation": {
			reason:  "They may be mended.",
			old:     true,
			payload: []workv1.ManifestCondition{notApplied("ConfigMap", ns, "config", "denied")},
			want:    delivery.Observation{Waiting: `waiting for the work agent to apply ManifestWork "payload-0"`},
		},
		"a kind that the cluster does not know": {
			reason:  "The dependency is what is missing.",
			payload: []workv1.ManifestCondition{notApplied("Gateway", ns, "a", `the server doesn't have a resource type "Gateway"`)},
			want: delivery.Observation{Failed: []delivery.Failure{
				{Object: "Gateway " + ns + "/a", Cause: `the server doesn't have a resource type "Gateway"`, KindMissing: true},
			}},
		},
		"an object without a name": {
			reason:  "The agent could not read it.",
			payload: []workv1.ManifestCondition{notApplied("", "", "", "no kind")},
			want:    delivery.Observation{Failed: []delivery.Failure{{Cause: "no kind"}}},
		},
		"workloads": {
			reason:  "Their states are what the agent feeds back.",
			payload: []workv1.ManifestCondition{deploymentStatus("webhook", map[string]int64{generationValue: 1, desiredValue: 1}, applied), stateful},
			want: delivery.Observation{Workloads: []delivery.WorkloadState{running, {
				WorkloadKey: delivery.WorkloadKey{Kind: "StatefulSet", Namespace: ns, Name: "webhook"},
				State:       workload.State{Generation: 1, Desired: 2},
			}}},
		},
		"a workload that is gone": {
			reason:  "What the agent fed back of it before is not so any more.",
			payload: []workv1.ManifestCondition{deploymentStatus("webhook", map[string]int64{generationValue: 1, desiredValue: 1}, applied, gone)},
		},
		"a workload that the agent has not fed back": {
			reason:  "No pods wanted and no pods there is not the same as not looked at.",
			payload: []workv1.ManifestCondition{deploymentStatus("webhook", nil, applied)},
		},
		"a foundation's objects": {
			reason:     "There is no workload among them.",
			foundation: []workv1.ManifestCondition{deploymentStatus("webhook", map[string]int64{generationValue: 1}, applied)},
		},
		"Jobs": {
			reason:   "A failed Job has not finished, and payloads of older managers report Complete.",
			payload:  []workv1.ManifestCondition{jobStatus("running"), jobStatus("failed", hasFailed), jobStatus("complete", complete), jobStatus("removed", finished, gone)},
			finished: ns + "/cleanup," + ns + "/migration",
			want: delivery.Observation{
				Waiting: "waiting for the ManifestWork of the payload to be written",
				Jobs: []delivery.JobState{
					{JobRef: workload.JobRef{Namespace: ns, Name: "running"}},
					{JobRef: workload.JobRef{Namespace: ns, Name: "failed"}, Failed: true},
					{JobRef: workload.JobRef{Namespace: ns, Name: "complete"}, Complete: true},
					{JobRef: workload.JobRef{Namespace: ns, Name: "removed"}, Complete: true},
				},
				FinishedJobs: []workload.JobRef{{Namespace: ns, Name: "cleanup"}, {Namespace: ns, Name: "migration"}},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := deliver(t, bundle(t))
			report(d.foundation, tc.foundation...)
			report(d.payloads[0], append(tc.payload, looked(d.bundle))...)
			if tc.old {
				d.payloads[0].Generation++
			}
			if tc.finished != "" {
				d.foundation.Annotations[api.FinishedJobsAnnotation] = tc.finished
			}
			if diff := cmp.Diff(tc.want, d.observe()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// TestObserveDoesNotDependOnOrder holds that the same works make the same observation in whatever order a cache has them,
// and that the caller's list stays as it is.
func TestObserveDoesNotDependOnOrder(t *testing.T) {
	d := deliver(t, bundle(t))
	d.split()
	for i, p := range d.payloads {
		report(p, notApplied("ConfigMap", ns, p.Name, "denied"), deploymentStatus("webhook", map[string]int64{generationValue: int64(i + 1)}))
	}
	want := d.observe()
	for range 20 {
		rand.Shuffle(len(d.payloads), func(i, j int) { d.payloads[i], d.payloads[j] = d.payloads[j], d.payloads[i] })
		before := slices.Clone(d.payloads)
		if diff := cmp.Diff(want, d.observe()); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
		if !slices.Equal(before, d.payloads) {
			t.Fatal("the caller's list was changed")
		}
	}
}

func TestKindMissing(t *testing.T) {
	for message, want := range map[string]bool{
		`no matches for kind "Gateway" in version "networking.istio.io/v1beta1"`: true,
		`the server doesn't have a resource type "Gateway"`:                      true,
		"the server could not find the requested resource":                       true,
		`namespaces "istio-system" not found`:                                    false,
		`gateways.networking.istio.io is forbidden: User cannot create resource`: false,
		"": false,
	} {
		if got := saysKindMissing(message); got != want {
			t.Errorf("kindMissing(%q) is %v, want %v", message, got, want)
		}
		if long := strings.Repeat("x ", 500) + message; saysKindMissing(long) != want {
			t.Errorf("%q is not found at the end of a long message", message)
		}
	}
}
