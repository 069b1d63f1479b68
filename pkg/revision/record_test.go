// Copyright Contributors to the Open Cluster Management project

package revision

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation"

	"open-cluster-management.io/addon-framework/pkg/utils"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// parsed is a resource as the hub's API server sends it.
func parsed(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

const meta = `"apiVersion":"operator.knative.dev/v1beta1","kind":"KnativeServing","metadata":{"namespace":"fleet","name":"default","uid":"u1","generation":1%s}`

func resource(t *testing.T, metadata, spec string) *unstructured.Unstructured {
	t.Helper()
	return parsed(t, "{"+fmt.Sprintf(meta, metadata)+spec+"}")
}

// TestHash holds the hash against what OCM's rollout is known to compare: SHA-256 of the JSON of everything but the object's
// kind, metadata and status, its keys sorted.
func TestHash(t *testing.T) {
	for name, tc := range map[string]struct{ metadata, rest, hashed string }{
		"a spec":           {"", `,"spec":{"version":"1.23"}`, `{"spec":{"version":"1.23"}}`},
		"no spec":          {"", ``, `{}`},
		"an empty spec":    {"", `,"spec":{}`, `{"spec":{}}`},
		"null":             {"", `,"spec":{"version":null}`, `{"spec":{"version":null}}`},
		"order":            {"", `,"spec":{"b":1,"a":[2,1]}`, `{"spec":{"a":[2,1],"b":1}}`},
		"numbers":          {"", `,"spec":{"a":9007199254740993,"b":1.5,"c":true}`, `{"spec":{"a":9007199254740993,"b":1.5,"c":true}}`},
		"HTML":             {"", `,"spec":{"a":"<&>"}`, `{"spec":{"a":"\u003c\u0026\u003e"}}`},
		"a reference":      {"", `,"spec":{"clusterProfileRef":{"name":"c1","namespace":"n"}}`, `{"spec":{"clusterProfileRef":{"name":"c1","namespace":"n"}}}`},
		"status":           {"", `,"spec":{},"status":{"version":"1.23.0"}`, `{"spec":{}}`},
		"annotations":      {`,"annotations":{"a":"b"}`, `,"spec":{}`, `{"spec":{}}`},
		"fields of others": {"", `,"spec":{},"more":{}`, `{"more":{},"spec":{}}`},
	} {
		t.Run(name, func(t *testing.T) {
			u := resource(t, tc.metadata, tc.rest)
			got, err := Hash(u)
			if err != nil {
				t.Fatal(err)
			}
			if want := fmt.Sprintf("%x", sha256.Sum256([]byte(tc.hashed))); got != want {
				t.Errorf("hash is %s, want %s", got, want)
			}
			ocm, err := utils.GetSpecHash(u)
			if err != nil || got != ocm {
				t.Errorf("hash is %s, and OCM's is %s (%v)", got, ocm, err)
			}
		})
	}
	if _, err := Hash(&unstructured.Unstructured{Object: map[string]any{"spec": func() {}}}); err == nil {
		t.Error("what is no JSON has a hash")
	}
}

func TestRoundTrip(t *testing.T) {
	u := resource(t, `,"annotations":{"knative.open-cluster-management.io/install-namespace":"kn","knative.open-cluster-management.io/pinned-version":"1.22.1","other":"x"},"labels":{"l":"v"},"finalizers":["f"]`,
		`,"spec":{"big":9007199254740993,"float":1.5,"list":[null,"<"],"clusterProfileRef":{"namespace":"n","name":"c"}},"status":{"version":"1.22.1"}`)
	r, err := New(api.Serving, u, 7)
	if err != nil {
		t.Fatal(err)
	}
	if r.Revision != 7 || r.Labels[api.RevisionLabel] != "knative-serving" || strings.Contains(string(r.Data.Raw), "status") {
		t.Errorf("revision is %+v", r)
	}
	if component, name, ok := ResourceOf(r); !ok || component != api.Serving || name != (types.NamespacedName{Namespace: "fleet", Name: "default"}) {
		t.Errorf("it is of %s %s (%t)", component, name, ok)
	}
	back, err := Restore(r)
	if err != nil {
		t.Fatal(err)
	}
	want := resource(t, "", "")
	want.SetUID("")
	want.SetGeneration(0)
	unstructured.RemoveNestedField(want.Object, "metadata", "uid")
	unstructured.RemoveNestedField(want.Object, "metadata", "generation")
	want.SetAnnotations(map[string]string{api.InstallNamespaceAnnotation: "kn", api.PinnedVersionAnnotation: "1.22.1"})
	want.Object["spec"] = u.Object["spec"]
	if diff := cmp.Diff(want.Object, back.Object); diff != "" {
		t.Errorf("restored (-want +got):\n%s", diff)
	}
	again, err := New(api.Serving, u, 9)
	if err != nil || again.Name != r.Name {
		t.Errorf("recorded twice it has names %q and %q (%v)", r.Name, again.Name, err)
	}
}

func TestRestoreRefuses(t *testing.T) {
	good, err := New(api.Serving, resource(t, "", `,"spec":{"version":"1.23"}`), 1)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*appsv1.ControllerRevision){
		"data of another spec": func(r *appsv1.ControllerRevision) { r.Data.Raw = []byte(`{"spec":{"version":"1.22"}}`) },
		"no data":              func(r *appsv1.ControllerRevision) { r.Data.Raw = nil },
		"no owner":             func(r *appsv1.ControllerRevision) { r.OwnerReferences = nil },
		"another owner":        func(r *appsv1.ControllerRevision) { r.OwnerReferences[0].Kind = "StatefulSet" },
		"no component":         func(r *appsv1.ControllerRevision) { r.Labels = nil },
	} {
		t.Run(name, func(t *testing.T) {
			r := good.DeepCopy()
			change(r)
			if u, err := Restore(r); err == nil {
				t.Errorf("it is restored as %v", u)
			}
		})
	}
}

func TestName(t *testing.T) {
	long := strings.Repeat("a", 39) + ".-" + strings.Repeat("b", 200)
	names := map[string]bool{}
	for _, component := range api.Components() {
		for _, resource := range []string{"a", "a-b", "a.b", strings.Repeat("x", 253), long, long + "c"} {
			for _, hash := range []string{"", "1", "2"} {
				name := Name(component, resource, hash)
				if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 || len(name) > 80 {
					t.Errorf("name %q: %v", name, problems)
				}
				if names[name] {
					t.Errorf("name %q is given twice", name)
				}
				names[name] = true
			}
		}
	}
}

func TestLabels(t *testing.T) {
	for _, resource := range []string{"a", "a.b-c", strings.Repeat("x", 253), strings.Repeat("x", 61) + ".-y"} {
		for name, label := range Labels(api.Eventing, resource) {
			if problems := validation.IsValidLabelValue(label); len(problems) > 0 || label == "" {
				t.Errorf("label %s=%q: %v", name, label, problems)
			}
		}
	}
}

func TestHistory(t *testing.T) {
	config := resource(t, "", `,"spec":{}`)
	of := func(number int64, name string) *appsv1.ControllerRevision {
		c := config.DeepCopy()
		c.SetName(name)
		c.Object["spec"] = map[string]any{"version": fmt.Sprint(number)}
		r, err := New(api.Serving, c, number)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	foreign := of(9, "default")
	foreign.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "default"}}
	foreign.Name = "foreign"
	history, err := History(revisions(t, of(2, "default"), of(11, "default"), of(3, "default"), of(4, "other"), foreign), api.Serving,
		types.NamespacedName{Namespace: "fleet", Name: "default"})
	if err != nil {
		t.Fatal(err)
	}
	var got []int64
	for _, r := range history {
		got = append(got, r.Revision)
	}
	if diff := cmp.Diff([]int64{11, 3, 2}, got); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
	if _, err := History(revisionsWithoutIndex(), api.Serving, types.NamespacedName{}); err == nil {
		t.Error("a cache without the index is no error")
	}
}

func TestAnnotationsAreThoseThatCount(t *testing.T) {
	all := map[string]string{api.InstallNamespaceAnnotation: "a", api.PinnedVersionAnnotation: "", api.PausedAnnotation: "true", api.VerificationAnnotation: "Service", "other": "x"}
	want := map[string]string{api.InstallNamespaceAnnotation: "a", api.PinnedVersionAnnotation: "", api.VerificationAnnotation: "Service"}
	if got := Annotations(all); !maps.Equal(got, want) {
		t.Errorf("annotations are %v, want %v", got, want)
	}
}
