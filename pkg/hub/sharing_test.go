// Copyright Contributors to the Open Cluster Management project

package hub

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// appliedAt is the time at which the agents of the tests have applied everything.
var appliedAt = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// reportedWork returns a work of a cluster with manifests for which the agent reports the usual state.
func reportedWork(cluster string, manifests ...string) *workv1.ManifestWork {
	w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{
		Namespace: cluster, Name: "addon-knative-serving-deploy-0", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}},
	}}
	for _, raw := range manifests {
		w.Spec.Workload.Manifests = append(w.Spec.Workload.Manifests, workv1.Manifest{RawExtension: k8sruntime.RawExtension{Raw: []byte(raw)}})
	}
	w.Spec.ManifestConfigs = manifestwork.PayloadConfigs()
	reportState(w, appliedAt)
	return w
}

// reportState gives a work the status that an agent reports. Objects become available within four seconds.
func reportState(w *workv1.ManifestWork, applied time.Time) {
	condition := func(kind string, second int) metav1.Condition {
		return metav1.Condition{
			Type: kind, Status: metav1.ConditionTrue, Reason: kind + "Complete", Message: "The state of the manifest is " + kind,
			LastTransitionTime: metav1.NewTime(applied.Add(time.Duration(second) * time.Second)),
		}
	}
	w.Status.Conditions = []metav1.Condition{condition(workv1.WorkApplied, 0), condition(workv1.WorkAvailable, 4)}
	for i, m := range w.Spec.Workload.Manifests {
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(m.Raw); err != nil {
			panic(err)
		}
		kind := object.GroupVersionKind()
		reported := workv1.ManifestCondition{
			ResourceMeta: workv1.ManifestResourceMeta{
				Ordinal: int32(i), Group: kind.Group, Version: kind.Version, Kind: kind.Kind, Resource: kind.Kind, //nolint:gosec // a work has hundreds
				Namespace: object.GetNamespace(), Name: object.GetName(),
			},
			Conditions: []metav1.Condition{
				condition(workv1.ManifestApplied, 0), condition(workv1.ManifestAvailable, i%4), condition("StatusFeedbackSynced", i%4),
			},
		}
		if kind.Kind == "Job" {
			notFailed := condition("Failed", i%4)
			notFailed.Status = metav1.ConditionFalse
			reported.Conditions = append(reported.Conditions, notFailed)
		}
		if kind.Kind == "Deployment" {
			for _, name := range []string{"Generation", "ObservedGeneration", "SpecReplicas", "Replicas", "UpdatedReplicas", "AvailableReplicas"} {
				reported.StatusFeedbacks.Values = append(reported.StatusFeedbacks.Values,
					workv1.FeedbackValue{Name: name, Value: workv1.FieldValue{Type: workv1.Integer, Integer: new(int64)}})
			}
		}
		w.Status.ResourceStatus.Manifests = append(w.Status.ResourceStatus.Manifests, reported)
	}
}

func transformed(t *testing.T, s *workSharing, w *workv1.ManifestWork) *workv1.ManifestWork {
	t.Helper()
	out, err := s.transform(w)
	work, ok := out.(*workv1.ManifestWork)
	if err != nil || !ok {
		t.Fatalf("the transformation returns %v with error %v", out, err)
	}
	return work
}

// dropUnreadTimes removes the only part of a report that the caches lack.
func dropUnreadTimes(w *workv1.ManifestWork) {
	for _, m := range w.Status.ResourceStatus.Manifests {
		for i, c := range m.Conditions {
			if c.Type != workv1.ManifestApplied || c.Status == metav1.ConditionTrue {
				m.Conditions[i].LastTransitionTime = metav1.Time{}
			}
		}
	}
}

const (
	deployment = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"n","name":"a"}}`
	job        = `{"apiVersion":"batch/v1","kind":"Job","metadata":{"namespace":"n","name":"a"}}`
	configMap  = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"n","name":"a"}}`
	otherMap   = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"n","name":"b"}}`
)

// TestSharing holds that works of several clusters keep their content, and hold equal content once.
func TestSharing(t *testing.T) {
	s := newWorkSharing()
	first := transformed(t, s, reportedWork("c1", deployment, configMap))
	for name, manifests := range map[string][]string{
		"equal": {deployment, configMap}, "in another order": {configMap, deployment}, "another manifest": {deployment, otherMap}, "none": nil,
	} {
		t.Run(name, func(t *testing.T) {
			want := reportedWork("c2", manifests...)
			want.ManagedFields = nil
			dropUnreadTimes(want)
			got := transformed(t, s, reportedWork("c2", manifests...))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("the cached work differs from the work of the hub:\n%s", diff)
			}
			for i, m := range got.Spec.Workload.Manifests {
				j := slices.IndexFunc(first.Spec.Workload.Manifests, func(f workv1.Manifest) bool { return string(f.Raw) == string(m.Raw) })
				if j >= 0 && &m.Raw[0] != &first.Spec.Workload.Manifests[j].Raw[0] {
					t.Errorf("manifest %d is in memory twice", i)
				}
			}
			if &got.Spec.ManifestConfigs[0] != &first.Spec.ManifestConfigs[0] {
				t.Error("the options are in memory twice")
			}
			if name == "equal" && &got.Status.ResourceStatus.Manifests[0] != &first.Status.ResourceStatus.Manifests[0] {
				t.Error("the reports of the agent are in memory twice")
			}
		})
	}
}

// TestSharingTimes holds that clusters which reached the same state at different times have their reports in memory once, also where a
// condition is False in the usual state.
func TestSharingTimes(t *testing.T) {
	s := newWorkSharing()
	first := transformed(t, s, reportedWork("c1", deployment, job))
	later := reportedWork("c2", deployment, job)
	later.Status = workv1.ManifestWorkStatus{}
	reportState(later, appliedAt.Add(time.Hour))
	if got := transformed(t, s, later); &got.Status.ResourceStatus.Manifests[0] != &first.Status.ResourceStatus.Manifests[0] {
		t.Error("the reports of the agent are in memory twice")
	}
}

// TestSharingStatus holds that a report which differs from the report of another cluster in one value keeps the value.
func TestSharingStatus(t *testing.T) {
	s := newWorkSharing()
	transformed(t, s, reportedWork("c1", deployment))
	for name, change := range map[string]func(*workv1.ManifestCondition){
		"time of a failure": func(m *workv1.ManifestCondition) {
			m.Conditions[0].Status, m.Conditions[0].LastTransitionTime = metav1.ConditionFalse, metav1.NewTime(appliedAt.Add(time.Hour))
		},
		"status":     func(m *workv1.ManifestCondition) { m.Conditions[1].Status = metav1.ConditionFalse },
		"generation": func(m *workv1.ManifestCondition) { m.Conditions[1].ObservedGeneration = 7 },
		"message":    func(m *workv1.ManifestCondition) { m.Conditions[2].Message = "refused" },
		"feedback":   func(m *workv1.ManifestCondition) { *m.StatusFeedbacks.Values[5].Value.Integer = 3 },
		"name":       func(m *workv1.ManifestCondition) { m.ResourceMeta.Name = "other" },
	} {
		t.Run(name, func(t *testing.T) {
			want, got := reportedWork("c2", deployment), reportedWork("c2", deployment)
			change(&want.Status.ResourceStatus.Manifests[0])
			change(&got.Status.ResourceStatus.Manifests[0])
			want.ManagedFields = nil
			dropUnreadTimes(want)
			if diff := cmp.Diff(want, transformed(t, s, got)); diff != "" {
				t.Errorf("the cached work differs from the work of the hub:\n%s", diff)
			}
		})
	}
}

// TestSharingOther holds that objects other than works pass, among them the tombstones of informers.
func TestSharingOther(t *testing.T) {
	addOn := &addonv1beta1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	if out, err := newWorkSharing().transform(addOn); out != any(addOn) || err != nil {
		t.Errorf("the transformation returns %v with error %v", out, err)
	}
}

// TestSharedValuesLimit holds that content which clusters report does not fill the memory, and that sharing goes on afterwards.
func TestSharedValuesLimit(t *testing.T) {
	const limit = 100 * entrySize
	v := newSharedValues[string](limit)
	share := func(content, value string) string {
		return v.share(sha256.Sum256([]byte(content)), len(content), value)
	}
	for i := range 1000 {
		share(fmt.Sprintf("message %d", i), "value")
		if v.size > limit || len(v.known) > limit/entrySize {
			t.Fatalf("%d bytes in %d values are remembered, want at most %d bytes", v.size, len(v.known), limit)
		}
	}
	share("again", "first")
	if got := share("again", "second"); got != "first" {
		t.Errorf("the value is %q, want the first", got)
	}
	if got := share(strings.Repeat("x", limit+1), "large"); got != "large" || v.size > limit {
		t.Errorf("a large value is %q, and %d bytes are remembered", got, v.size)
	}
}

// TestSharedManifestsLimit holds that manifests which differ on every cluster do not fill the memory: a list of manifests counts with its
// content.
func TestSharedManifestsLimit(t *testing.T) {
	s := newWorkSharing()
	for i := range 1000 {
		manifest := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c%d"},"data":{"key":"%s"}}`, i, strings.Repeat("x", 64<<10))
		if _, err := s.transform(reportedWork("cluster1", manifest)); err != nil {
			t.Fatal(err)
		}
	}
	size := 0
	for _, manifests := range s.workloads.known {
		for i := range manifests {
			size += len(manifests[i].Raw)
		}
	}
	if size > maxSharedLists {
		t.Errorf("lists of manifests with %d bytes are remembered, want at most %d bytes", size, maxSharedLists)
	}
}

// installedWorks returns the works of a cluster with both components as JSON, as the hub sends the works.
func installedWorks(tb testing.TB) [][]byte {
	tb.Helper()
	renderer, err := render.New(render.Config{})
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = renderer.Close() }()
	var out [][]byte
	for _, c := range api.Components() {
		in, err := render.Decode(&unstructured.Unstructured{Object: map[string]any{
			"apiVersion": api.Group + "/v1beta1", "kind": c.Kind(), "metadata": map[string]any{"name": "a", "namespace": "b"},
		}})
		if err != nil {
			tb.Fatal(err)
		}
		b, err := renderer.Render(tb.Context(), in, render.DefaultOptions(api.ModeManifestWork))
		if err != nil {
			tb.Fatal(err)
		}
		foundation, err := manifestwork.Foundation(b, &addonv1beta1.ManagedClusterAddOn{}, "hub")
		if err != nil {
			tb.Fatal(err)
		}
		payload := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: "addon-" + c.AddOnName() + "-deploy-0"}}
		payload.Spec.ManifestConfigs = manifestwork.PayloadConfigs()
		for _, o := range b.Payload {
			payload.Spec.Workload.Manifests = append(payload.Spec.Workload.Manifests, workv1.Manifest{RawExtension: k8sruntime.RawExtension{Raw: o.JSON}})
		}
		for _, w := range []*workv1.ManifestWork{foundation, payload} {
			reportState(w, appliedAt)
			raw, err := json.Marshal(w)
			if err != nil {
				tb.Fatal(err)
			}
			out = append(out, raw)
		}
	}
	return out
}

// minuteFormat is the part of a time of a condition that differs between the clusters of fleetMemory.
const minuteFormat = "2006-01-02T15:04:"

// fleetMemory returns the bytes of heap that the works of a cluster take in a fleet of that many clusters. The clusters apply
// their works at different times.
func fleetMemory(tb testing.TB, works [][]byte, clusters int, transform func(any) (any, error)) float64 {
	tb.Helper()
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	cached := make([]any, 0, clusters*len(works))
	for i := range clusters {
		minute := []byte(appliedAt.Add(time.Duration(i) * time.Minute).Format(minuteFormat))
		for _, raw := range works {
			w := &workv1.ManifestWork{}
			if err := json.Unmarshal(bytes.ReplaceAll(raw, []byte(appliedAt.Format(minuteFormat)), minute), w); err != nil {
				tb.Fatal(err)
			}
			o, err := transform(w)
			if err != nil {
				tb.Fatal(err)
			}
			cached = append(cached, o)
		}
	}
	after := heap()
	runtime.KeepAlive(cached)
	return float64(after-before) / float64(clusters)
}

// maxWorkMemory is the number of bytes of heap that the works of a cluster with both components may take.
const maxWorkMemory = 20_000

// BenchmarkWorkCache measures the memory of the works of a cluster with both components, in a fleet of 1,000 clusters.
func BenchmarkWorkCache(b *testing.B) {
	works := installedWorks(b)
	for b.Loop() {
		plain := fleetMemory(b, works, 100, stripManagedFields)
		shared := fleetMemory(b, works, 1000, newWorkSharing().transform)
		b.ReportMetric(plain, "B/cluster-plain")
		b.ReportMetric(shared, "B/cluster")
		b.ReportMetric(plain/shared, "times-less")
		if shared > maxWorkMemory {
			b.Errorf("the works of a cluster take %.0f bytes, want at most %d", shared, maxWorkMemory)
		}
	}
}
