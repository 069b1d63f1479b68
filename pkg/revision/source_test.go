// Copyright Contributors to the Open Cluster Management project

package revision

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render"
)

func source(t *testing.T, objects ...*unstructured.Unstructured) (*Source, cache.Indexer) {
	t.Helper()
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	for _, o := range objects {
		if err := indexer.Add(o); err != nil {
			t.Fatal(err)
		}
	}
	resource := schema.GroupResource{Group: api.Group, Resource: "knativeservings"}
	return NewSource(map[api.Component]cache.GenericLister{api.Serving: cache.NewGenericLister(indexer, resource)}, revisions(t)), indexer
}

// revisions is the cache of ControllerRevisions.
func revisions(t *testing.T, all ...*appsv1.ControllerRevision) cache.Indexer {
	t.Helper()
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, Indexers())
	for _, r := range all {
		if err := indexer.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	return indexer
}

func revisionsWithoutIndex() cache.Indexer {
	return cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
}

func serving(generation int64, version string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": api.Group + "/v1beta1", "kind": "KnativeServing",
		"metadata": map[string]any{"namespace": "fleet", "name": "default", "generation": generation},
		"spec":     map[string]any{"version": version},
	}}
}

func addOn(refs ...addonv1beta1.ConfigReference) *addonv1beta1.ManagedClusterAddOn {
	a := &addonv1beta1.ManagedClusterAddOn{
		ObjectMeta: metav1.ObjectMeta{Namespace: "cluster1", Name: api.Serving.AddOnName()},
		Status:     addonv1beta1.ManagedClusterAddOnStatus{ConfigReferences: refs},
	}
	for _, ref := range refs {
		if ref.DesiredConfig != nil {
			a.Spec.Configs = append(a.Spec.Configs, addonv1beta1.AddOnConfig{ConfigGroupResource: ref.ConfigGroupResource, ConfigReferent: ref.DesiredConfig.ConfigReferent})
		}
	}
	return a
}

func reference(resource, name string) addonv1beta1.ConfigReference {
	return addonv1beta1.ConfigReference{
		ConfigGroupResource: addonv1beta1.ConfigGroupResource{Group: api.Group, Resource: resource},
		DesiredConfig: &addonv1beta1.ConfigSpecHash{
			ConfigReferent: addonv1beta1.ConfigReferent{Namespace: "fleet", Name: name},
		},
	}
}

func TestInstallErrors(t *testing.T) {
	s, _ := source(t, serving(1, "1.23"))
	undesired := reference("knativeservings", "default")
	undesired.DesiredConfig = nil
	for name, tc := range map[string]struct {
		addOn  *addonv1beta1.ManagedClusterAddOn
		reason render.Reason
		want   []string
	}{
		"no reference yet":           {addOn(), api.FaultConfigPending, []string{"KnativeServing", "cluster1", "Configured"}},
		"reference of another kind":  {addOn(reference("knativeeventings", "default")), api.FaultConfigPending, []string{"KnativeServing"}},
		"reference without a config": {addOn(undesired), api.FaultConfigPending, []string{"KnativeServing"}},
		"object does not exist": {
			addOn(reference("knativeservings", "gone")), api.ReasonConfigNotFound, []string{`"fleet/gone"`, "cluster1", "create it"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.Install(tc.addOn)
			if got := render.ReasonOf(err); got != tc.reason {
				t.Fatalf("reason is %q (%v), want %q", got, err, tc.reason)
			}
			for _, w := range tc.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q is not in: %v", w, err)
				}
			}
		})
	}
}

func TestInstallIsDecodedOncePerVersion(t *testing.T) {
	s, indexer := source(t, serving(1, "1.22"))
	a := addOn(reference("knativeservings", "default"))
	first, err := s.Install(a)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := s.Install(a); err != nil || again != first {
		t.Errorf("an unchanged object is decoded again (error %v)", err)
	}
	reported := serving(1, "1.22")
	reported.SetResourceVersion("2")
	if err := indexer.Update(reported); err != nil {
		t.Fatal(err)
	}
	if again, err := s.Install(a); err != nil || again != first {
		t.Errorf("an object whose status has changed is decoded again (error %v)", err)
	}
	if err := indexer.Update(serving(2, "1.23")); err != nil {
		t.Fatal(err)
	}
	changed, err := s.Install(a)
	if err != nil {
		t.Fatal(err)
	}
	if got := changed.SpecVersion(); got != "1.23" {
		t.Errorf("version is %q, want that of the changed object", got)
	}
}

func TestInstallIsPinned(t *testing.T) {
	for version, want := range map[string]string{"": "1.22.1", "1.21": "1.21", "latest": "latest"} {
		u := serving(1, version)
		u.SetAnnotations(map[string]string{api.PinnedVersionAnnotation: "1.22.1"})
		s, _ := source(t, u)
		install, err := s.Install(addOn(reference("knativeservings", "default")))
		if err != nil {
			t.Fatal(err)
		}
		if got := install.SpecVersion(); got != want {
			t.Errorf("spec.version %q with a pin is %q, want %q", version, got, want)
		}
	}
}

// TestOldPins holds that the pin of a revision from an earlier time does not count for a cluster without a work agent that has another version.
func TestOldPins(t *testing.T) {
	pinned := serving(1, "")
	pinned.SetAnnotations(map[string]string{api.PinnedVersionAnnotation: "1.22.1"})
	recorded, err := New(api.Serving, pinned, 1)
	if err != nil {
		t.Fatal(err)
	}
	for delivered, want := range map[string]string{"1.22.1": "1.22.1", "1.23.0": ""} {
		live := serving(2, "")
		live.SetFinalizers([]string{api.DirectFinalizer})
		live.Object["status"] = map[string]any{"version": delivered}
		if got := liveAnnotations(live, recorded)[api.PinnedVersionAnnotation]; got != want {
			t.Errorf("with version %s on the cluster, the pin is %q, want %q", delivered, got, want)
		}
	}
	if got := liveAnnotations(serving(2, ""), recorded)[api.PinnedVersionAnnotation]; got != "1.22.1" {
		t.Errorf("with a work agent, the pin is %q", got)
	}
}
