// Copyright Contributors to the Open Cluster Management project

package scores

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// workload is what the agent reports of a Deployment that has one pod, or none that is available.
func workload(name string, available int64) workv1.ManifestCondition {
	value := func(name string, n int64) workv1.FeedbackValue {
		return workv1.FeedbackValue{Name: name, Value: workv1.FieldValue{Type: workv1.Integer, Integer: &n}}
	}
	return workv1.ManifestCondition{
		ResourceMeta: workv1.ManifestResourceMeta{Kind: "Deployment", Resource: "deployments", Namespace: "knative-serving", Name: name},
		StatusFeedbacks: workv1.StatusFeedbackResult{Values: []workv1.FeedbackValue{
			value("Generation", 1), value("ObservedGeneration", 1), value("SpecReplicas", 1), value("Replicas", 1), value("UpdatedReplicas", 1),
			value("AvailableReplicas", available),
		}},
	}
}

func config(desired, applied string) addonv1beta1.ConfigReference {
	out := addonv1beta1.ConfigReference{DesiredConfig: &addonv1beta1.ConfigSpecHash{SpecHash: desired}}
	if applied != "" {
		out.LastAppliedConfig = &addonv1beta1.ConfigSpecHash{SpecHash: applied}
	}
	return out
}

// complete is Serving of the newest version on cluster1, with workloads of which three of four are available.
func complete() componentState {
	payload := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{
		Namespace: "cluster1", Name: "payload", Labels: map[string]string{addonv1beta1.AddonLabelKey: api.Serving.AddOnName()},
	}}
	payload.Status.ResourceStatus.Manifests = []workv1.ManifestCondition{
		workload("activator", 1), workload("autoscaler", 1), workload("controller", 1), workload("webhook", 0),
		{ResourceMeta: workv1.ManifestResourceMeta{Kind: "ConfigMap", Name: "config-network"}},
	}
	return componentState{
		component: api.Serving, versions: []string{"1.23.0", "1.22.1", "1.22.0", "1.21.2", "1.20.3"},
		addOn: &addonv1beta1.ManagedClusterAddOn{
			ObjectMeta: metav1.ObjectMeta{Namespace: "cluster1", Name: api.Serving.AddOnName()},
			Status:     addonv1beta1.ManagedClusterAddOnStatus{ConfigReferences: []addonv1beta1.ConfigReference{config("a", "a")}},
		},
		foundation: &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{
			Namespace: "cluster1", Name: "knative-serving-foundation", Annotations: map[string]string{api.VersionAnnotation: "1.23.0"},
		}},
		payloads: []*workv1.ManifestWork{payload},
	}
}

func items(ready, version, rollout int32) []clusterv1alpha1.AddOnPlacementScoreItem {
	return []clusterv1alpha1.AddOnPlacementScoreItem{
		{Name: "serving-ready", Value: ready}, {Name: "serving-version", Value: version}, {Name: "serving-rollout", Value: rollout},
	}
}

func TestScores(t *testing.T) {
	deleted := &metav1.Time{Time: time.Unix(1000000, 0)}
	for name, tc := range map[string]struct {
		reason string
		change func(*componentState)
		want   []clusterv1alpha1.AddOnPlacementScoreItem
	}{
		"one of four workloads fails": {reason: "Readiness is a share.", want: items(75, 100, 100)},
		"no work yet": {
			reason: "It is not installed.",
			change: func(i *componentState) { i.foundation, i.payloads = nil, nil }, want: items(0, 0, 0),
		},
		"nothing reported yet": {
			reason: "What nobody has seen is not ready.",
			change: func(i *componentState) { i.payloads[0].Status.ResourceStatus.Manifests = nil }, want: items(0, 100, 100),
		},
		"a workload is gone": {
			reason: "What was fed back of it before does not count.",
			change: func(i *componentState) {
				i.payloads[0].Status.ResourceStatus.Manifests[0].Conditions = []metav1.Condition{{
					Type: workv1.ManifestAvailable, Status: metav1.ConditionFalse, Reason: "ResourceNotAvailable",
				}}
			},
			want: items(50, 100, 100),
		},
		"two minor versions behind": {
			reason: "Patch versions do not count.",
			change: func(i *componentState) { i.foundation.Annotations[api.VersionAnnotation] = "1.21.0" }, want: items(75, 50, 100),
		},
		"far behind": {
			reason: "No score is below 0.",
			change: func(i *componentState) {
				i.foundation.Annotations[api.VersionAnnotation] = "1.10.0"
				i.versions = append(i.versions, "1.19.0", "1.18.0")
			},
			want: items(75, 0, 100),
		},
		"a version of its own": {
			reason: "What is no version is not new.",
			change: func(i *componentState) { i.foundation.Annotations[api.VersionAnnotation] = "latest" }, want: items(75, 0, 100),
		},
		"in the middle of a rollout": {
			reason: "The desired revision is not there.",
			change: func(i *componentState) {
				i.addOn.Status.ConfigReferences = []addonv1beta1.ConfigReference{config("b", "a")}
			}, want: items(75, 100, 0),
		},
		"first rollout": {
			reason: "No revision was completed.",
			change: func(i *componentState) {
				i.addOn.Status.ConfigReferences = []addonv1beta1.ConfigReference{config("a", "")}
			}, want: items(75, 100, 0),
		},
		"the add-on is held": {
			reason: "What is installed stays.",
			change: func(i *componentState) { i.addOn.DeletionTimestamp = deleted }, want: items(75, 100, 100),
		},
		"the removal is allowed": {
			reason: "It is on its way out.",
			change: func(i *componentState) {
				i.addOn.DeletionTimestamp = deleted
				i.addOn.Annotations = map[string]string{api.RemovalAllowedAnnotation: "1"}
			},
			want: items(0, 0, 0),
		},
		"the payload is being deleted": {
			reason: "It is on its way out.",
			change: func(i *componentState) { i.payloads[0].DeletionTimestamp = deleted }, want: items(0, 0, 0),
		},
		"between two add-ons": {
			reason: "Nothing changes on the cluster.",
			change: func(i *componentState) { i.addOn = nil }, want: items(75, 100, 100),
		},
		"orphaned": {
			reason: "Nobody looks after it.",
			change: func(i *componentState) {
				i.addOn = nil
				i.foundation.Annotations[api.OrphanedAnnotation] = "true"
			},
			want: items(0, 0, 0),
		},
	} {
		t.Run(name, func(t *testing.T) {
			i := complete()
			if tc.change != nil {
				tc.change(&i)
			}
			if diff := cmp.Diff(tc.want, i.computeScores()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// TestTrend feeds values a second apart and holds how often something is written.
func TestTrend(t *testing.T) {
	const good, bad, worse = 100, 80, 60
	flat := func(value int32) func(int) int32 { return func(int) int32 { return value } }
	for name, tc := range map[string]struct {
		reason  string
		written int32
		seen    func(second int) int32
		seconds int
		want    []int32
	}{
		"at rest": {reason: "Nothing is written.", written: good, seen: flat(good), seconds: 3600},
		"a pod was replaced": {
			reason: "It is over before anybody should move.", written: good, seconds: 600,
			seen: func(s int) int32 {
				if s >= 10 && s < 20 {
					return bad
				}
				return good
			},
		},
		"it fails": {reason: "It is written once.", written: good, seen: flat(bad), seconds: 3600, want: []int32{bad}},
		"it fails more": {
			reason: "What is known to fail is written at once.", written: good, seconds: 600,
			seen: func(s int) int32 {
				if s < 30 {
					return bad
				}
				return worse
			}, want: []int32{bad, worse},
		},
		"it recovers": {
			reason: "It has to last.", written: bad, seconds: 600, want: []int32{good},
			seen: func(s int) int32 {
				if s < 10 {
					return bad
				}
				return good
			},
		},
		"it flaps": {
			reason: "It stays down.", written: good, seconds: 3600, want: []int32{bad},
			seen: func(s int) int32 {
				if s%20 < 10 {
					return good
				}
				return bad
			},
		},
		"noise": {
			reason: "The worst of it counts.", written: good, seconds: 3600, want: []int32{bad, worse},
			seen: func(s int) int32 { return []int32{good, bad, worse}[s%3] },
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []int32
			var tr trend
			written, start := tc.written, time.Unix(1000000, 0)
			for s := range tc.seconds {
				seen := tc.seen(s)
				write, _ := tr.determineWrite(items(written, 100, 100), items(seen, 100, 100), start.Add(time.Duration(s)*time.Second))
				if write {
					got, written = append(got, seen), seen
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// TestTrendWakesUp holds that nobody needs an event to be written in time.
func TestTrendWakesUp(t *testing.T) {
	at := time.Unix(1000000, 0)
	for name, tc := range map[string]struct {
		written, seen int32
		want          time.Duration
	}{
		"worse":  {written: 100, seen: 80, want: worseDelay},
		"better": {written: 80, seen: 100, want: betterDelay},
	} {
		t.Run(name, func(t *testing.T) {
			var tr trend
			if write, wait := tr.determineWrite(items(tc.written, 0, 0), items(tc.seen, 0, 0), at); write || wait != tc.want {
				t.Errorf("write %t, wait %s, want %s", write, wait, tc.want)
			}
			if write, _ := tr.determineWrite(items(tc.written, 0, 0), items(tc.seen, 0, 0), at.Add(tc.want)); !write {
				t.Error("it is not written then")
			}
		})
	}
}

func TestRenewal(t *testing.T) {
	at := time.Unix(1000000, 0)
	until := at.Add(validity)
	seen := map[time.Duration]bool{}
	for _, cluster := range []string{"cluster1", "cluster2", "cluster3", "edge-berlin", "edge-oslo"} {
		in := renewalDelay(cluster, until, at)
		if in < validity-renewalLead-renewalSpread/2 || in > validity-renewalLead+renewalSpread/2 {
			t.Errorf("%s is renewed after %s", cluster, in)
		}
		if again := renewalDelay(cluster, until, at.Add(in)); again != 0 {
			t.Errorf("%s is to be renewed then, not %s later", cluster, again)
		}
		seen[in] = true
	}
	if len(seen) < 4 {
		t.Errorf("clusters are renewed at the same time: %v", seen)
	}
}
