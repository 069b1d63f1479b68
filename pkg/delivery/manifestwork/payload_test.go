// Copyright Contributors to the Open Cluster Management project

package manifestwork

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// reencoded is JSON as an API server may give it back: other order of keys, other escapes, other space.
func reencoded(t *testing.T, raw []byte) []byte {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var o map[string]any
	if err := decoder.Decode(&o); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	keys := make([]string, 0, len(o))
	for k := range o {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	slices.Reverse(keys)
	for i, k := range keys {
		out.WriteString(map[bool]string{true: "{", false: ","}[i == 0] + "\n \"" + k + "\" : ")
		if err := encoder.Encode(o[k]); err != nil {
			t.Fatal(err)
		}
	}
	out.WriteString("}")
	return out.Bytes()
}

func TestMatchBundle(t *testing.T) {
	job := ns + "/cleanup"
	for name, tc := range map[string]struct {
		reason   string
		change   func(t *testing.T, d *delivered)
		finished []string
		want     bool
	}{
		"as it was written": {
			reason: "It is the bundle.", change: func(*testing.T, *delivered) {}, want: true,
		},
		"in another order": {
			reason: "Which work has what is addon-framework's business.",
			change: func(_ *testing.T, d *delivered) { slices.Reverse(d.payloads[0].Spec.Workload.Manifests) }, want: true,
		},
		"in several works": {
			reason: "Which work has what is addon-framework's business.",
			change: func(_ *testing.T, d *delivered) { d.split(); slices.Reverse(d.payloads) }, want: true,
		},
		"as an API server gives it back": {
			reason: "The hub may encode objects differently.",
			change: func(t *testing.T, d *delivered) {
				t.Helper()
				for i, m := range d.payloads[0].Spec.Workload.Manifests {
					d.payloads[0].Spec.Workload.Manifests[i] = manifest(reencoded(t, m.Raw))
				}
			},
			want: true,
		},
		"one more": {
			reason: "It is from an earlier bundle, and is on its way out.",
			change: func(_ *testing.T, d *delivered) {
				d.payloads[0].Spec.Workload.Manifests = append(d.payloads[0].Spec.Workload.Manifests, manifest([]byte(`{"kind":"Other"}`)))
			},
		},
		"one less": {
			reason: "It is on its way.", change: func(_ *testing.T, d *delivered) {
				d.payloads[0].Spec.Workload.Manifests = d.payloads[0].Spec.Workload.Manifests[1:]
			},
		},
		"one twice": {
			reason: "Two works with one object would fight for it.",
			change: func(_ *testing.T, d *delivered) {
				m := d.payloads[0].Spec.Workload.Manifests
				d.payloads[0].Spec.Workload.Manifests = append(m, m[0])
			},
		},
		"one changed": {
			reason: "A value differs.",
			change: func(_ *testing.T, d *delivered) {
				m := &d.payloads[0].Spec.Workload.Manifests[0]
				m.Raw = bytes.Replace(m.Raw, []byte("é"), []byte("e"), 1)
			},
		},
		"a large number changed": {
			reason: "No number is so large that it may be rounded.",
			change: func(_ *testing.T, d *delivered) {
				m := &d.payloads[0].Spec.Workload.Manifests[0]
				m.Raw = bytes.Replace(m.Raw, []byte("9007199254740993"), []byte("9007199254740992"), 1)
			},
		},
		"one that cannot be read": {
			reason: "It is none of the bundle's.", change: func(_ *testing.T, d *delivered) { d.payloads[0].Spec.Workload.Manifests[0] = manifest([]byte(`{`)) },
		},
		"without a finished Job": {
			reason: "It is left out once it has finished and is gone.",
			change: func(_ *testing.T, d *delivered) {
				d.payloads[0].Spec.Workload.Manifests = slices.Delete(d.payloads[0].Spec.Workload.Manifests, 1, 2)
			}, finished: []string{job},
			want: true,
		},
		"with a Job that has finished": {
			reason: "addon-framework has yet to leave it out.", change: func(*testing.T, *delivered) {}, finished: []string{job},
		},
		"without a Job that has not finished": {
			reason: "It is on its way.",
			change: func(_ *testing.T, d *delivered) {
				d.payloads[0].Spec.Workload.Manifests = slices.Delete(d.payloads[0].Spec.Workload.Manifests, 1, 2)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := bundle(t)
			b.Payload[0].Object["data"] = map[string]any{"key": "a<b & \u2028 é", "n": int64(9007199254740993)}
			raw, err := json.Marshal(b.Payload[0].Object)
			if err != nil {
				t.Fatal(err)
			}
			b.Payload[0].JSON = raw
			d := deliver(t, b)
			tc.change(t, d)
			d.foundation.Annotations[api.FinishedJobsAnnotation] = strings.Join(tc.finished, ",")
			if got := MatchBundle(d.payloads, b, d.foundation); got != tc.want {
				t.Errorf("%s MatchBundle is %v, want %v", tc.reason, got, tc.want)
			}
		})
	}
}

func TestPayloadLeavesOutFinishedJobs(t *testing.T) {
	b := bundle(t)
	const marks = 1
	recorded := func(jobs string) *workv1.ManifestWork {
		f := installed()
		f.Annotations = map[string]string{api.FinishedJobsAnnotation: jobs}
		return f
	}
	if got := len(Payload(b, installed())) - marks; got != 2 {
		t.Errorf("payload has %d objects, want all 2", got)
	}
	if got := len(Payload(b, recorded(ns+"/cleanup"))) - marks; got != 1 {
		t.Errorf("payload has %d objects, want 1 without the finished Job", got)
	}
	if got := len(Payload(b, recorded(ns+"/config-leader-election"))) - marks; got != 2 {
		t.Errorf("payload has %d objects: only Jobs may be left out", got)
	}
}

func TestRemovedJobs(t *testing.T) {
	complete := metav1.Condition{Type: jobFinishedCondition, Status: metav1.ConditionTrue}
	job := func(name string, conditions ...metav1.Condition) workv1.ManifestCondition {
		return workv1.ManifestCondition{ResourceMeta: workv1.ManifestResourceMeta{Kind: "Job", Namespace: ns, Name: name}, Conditions: conditions}
	}
	w := &workv1.ManifestWork{}
	w.Status.ResourceStatus.Manifests = []workv1.ManifestCondition{
		job("removed", complete, gone), job("a-removed", gone, complete),
		job("finished", complete), job("never-there", gone), job("running"),
	}
	if diff := cmp.Diff([]string{ns + "/a-removed", ns + "/removed"}, RemovedJobs(w)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
