// Copyright Contributors to the Open Cluster Management project

package manifestwork

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
)

func TestFoundation(t *testing.T) {
	addOn := &addonv1beta1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Name: "knative-serving", Namespace: "cluster1", UID: "u1"}}
	w, err := Foundation(bundle(t), addOn, "h1")
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, m := range w.Spec.Workload.Manifests {
		var o metav1.PartialObjectMetadata
		if err := json.Unmarshal(m.Raw, &o); err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, o.Kind)
	}
	if raw := string(w.Spec.Workload.Manifests[0].Raw); !strings.Contains(raw, `"`+api.HubAnnotation+`":"h1"`) {
		t.Errorf("the cluster cannot tell whose the installation is: %s", raw)
	}
	if diff := cmp.Diff([]string{"ClusterRole", "Namespace", "CustomResourceDefinition"}, kinds); diff != "" {
		t.Errorf("the agent needs its permissions first (-want +got):\n%s", diff)
	}
	want := []workv1.OrphaningRule{
		{Resource: "namespaces", Name: ns},
		{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions", Name: "services.serving.knative.dev"},
	}
	if diff := cmp.Diff(want, w.Spec.DeleteOption.SelectivelyOrphan.OrphaningRules); diff != "" {
		t.Errorf("CRDs and Namespaces stay, the role goes (-want +got):\n%s", diff)
	}
	if _, labelled := w.Labels[addonv1beta1.AddonLabelKey]; labelled {
		t.Error("addon-framework would delete a work with OCM's label")
	}
	if got := w.OwnerReferences[0].UID; got != addOn.UID {
		t.Errorf("the owner is %q, want the add-on", got)
	}
}

func TestApplied(t *testing.T) {
	w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Generation: 2}}
	if ok, why := Applied(w); ok || why == "" {
		t.Errorf("a work without status is applied (%v, %q)", ok, why)
	}
	w.Status.Conditions = []metav1.Condition{{Type: workv1.WorkApplied, Status: metav1.ConditionTrue, ObservedGeneration: 1}}
	if ok, why := Applied(w); ok || why == "" {
		t.Errorf("an older generation is applied (%v, %q)", ok, why)
	}
	w.Status.Conditions[0].ObservedGeneration = 2
	if ok, why := Applied(w); !ok {
		t.Errorf("the work is not applied: %s", why)
	}
	w.Status.Conditions[0].Status = metav1.ConditionFalse
	w.Status.ResourceStatus.Manifests = []workv1.ManifestCondition{{
		ResourceMeta: workv1.ManifestResourceMeta{Kind: "CustomResourceDefinition", Name: "services.serving.knative.dev"},
		Conditions:   []metav1.Condition{{Type: workv1.ManifestApplied, Status: metav1.ConditionFalse, Message: "forbidden"}},
	}}
	if ok, why := Applied(w); ok || why != `CustomResourceDefinition services.serving.knative.dev: forbidden` {
		t.Errorf("Applied is %v, %q: it must name the object and the cause", ok, why)
	}
}

func TestSameManifests(t *testing.T) {
	work := func(raws ...string) *workv1.ManifestWork {
		w := &workv1.ManifestWork{}
		for _, r := range raws {
			m := workv1.Manifest{}
			m.Raw = []byte(r)
			w.Spec.Workload.Manifests = append(w.Spec.Workload.Manifests, m)
		}
		return w
	}
	for name, tc := range map[string]struct {
		a, b *workv1.ManifestWork
		want bool
	}{
		"equal":                  {work(`{"a":1}`), work(`{"a":1}`), true},
		"other spelling":         {work(`{"a":1,"b":2}`), work(`{"b": 2, "a": 1}`), true},
		"other value":            {work(`{"a":1}`), work(`{"a":2}`), false},
		"other order of objects": {work(`{"a":1}`, `{"b":1}`), work(`{"b":1}`, `{"a":1}`), false},
		"one more":               {work(`{"a":1}`), work(`{"a":1}`, `{"b":1}`), false},
		"broken":                 {work(`{"a":1}`), work(`{"a":`), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := SameManifests(tc.a, tc.b); got != tc.want {
				t.Errorf("SameManifests is %v, want %v", got, tc.want)
			}
		})
	}
}
