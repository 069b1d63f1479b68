// Copyright Contributors to the Open Cluster Management project

package metrics

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/revision"
)

// bundled plays the versions of a renderer: the same for both components.
type bundled []string

func (b bundled) Versions(api.Component) []string { return b }

func (b bundled) ResolveVersion(_ api.Component, version string) (string, error) {
	for _, exact := range b {
		if exact == version || strings.HasPrefix(exact, version+".") {
			return exact, nil
		}
	}
	return "", fmt.Errorf("no version %q", version)
}

// fleet holds the caches of a hub.
type fleet struct{ Sources }

func newFleet() fleet {
	indexer := func() cache.Indexer { return cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}) }
	return fleet{Sources{
		Configs: map[api.Component]cache.Indexer{api.Serving: indexer(), api.Eventing: indexer()},
		AddOns:  indexer(), Foundations: indexer(), Deployments: indexer(), Fleets: indexer(), Versions: bundled{"1.23.0", "1.22.1"},
	}}
}

// resource is a KnativeServing for tests.
type resource struct {
	name, finalizer, cluster, version string
	annotations                       map[string]string
	// conditions are "Type Status Reason".
	conditions []string
	generation int64
}

const since = "2026-01-02T03:04:05Z"

func (f fleet) addResource(t testing.TB, r resource) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}, "status": map[string]any{"observedGeneration": int64(1)}}}
	u.SetGroupVersionKind(api.Serving.Resource().GroupVersion().WithKind(api.Serving.Kind()))
	u.SetNamespace("team")
	u.SetName(r.name)
	u.SetUID(types.UID(r.name))
	u.SetGeneration(max(1, r.generation))
	u.SetAnnotations(r.annotations)
	if r.finalizer != "" {
		u.SetFinalizers([]string{"another", r.finalizer})
	}
	set := func(value any, path ...string) {
		if err := unstructured.SetNestedField(u.Object, value, path...); err != nil {
			t.Fatal(err)
		}
	}
	if r.cluster != "" {
		set(map[string]any{"namespace": "fleet", "name": r.cluster}, "spec", "clusterProfileRef")
	}
	if r.version != "" {
		set(r.version, "spec", "version")
		set(r.version, "status", "version")
	}
	var conditions []any
	for _, text := range r.conditions {
		part := strings.Fields(text)
		conditions = append(conditions, map[string]any{
			"type": part[0], "status": part[1], "reason": strings.Join(part[2:], " "), "message": "text of the cluster", "lastTransitionTime": since,
		})
	}
	set(conditions, "status", "conditions")
	if err := f.Configs[api.Serving].Add(u); err != nil {
		t.Fatal(err)
	}
	return u
}

// addAddOn adds the add-on of a cluster that the resource configures. specHash is the hash of the spec that the cluster runs.
func (f fleet) addAddOn(t testing.TB, cluster string, config *unstructured.Unstructured, specHash string, conditions ...string) *addonv1beta1.ManagedClusterAddOn {
	t.Helper()
	gvr := api.Serving.Resource()
	resource := addonv1beta1.ConfigGroupResource{Group: gvr.Group, Resource: gvr.Resource}
	referent := addonv1beta1.ConfigReferent{Namespace: config.GetNamespace(), Name: config.GetName()}
	a := &addonv1beta1.ManagedClusterAddOn{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: api.Serving.AddOnName()},
		Spec:       addonv1beta1.ManagedClusterAddOnSpec{Configs: []addonv1beta1.AddOnConfig{{ConfigGroupResource: resource, ConfigReferent: referent}}},
		Status: addonv1beta1.ManagedClusterAddOnStatus{ConfigReferences: []addonv1beta1.ConfigReference{{
			ConfigGroupResource: resource,
			DesiredConfig:       &addonv1beta1.ConfigSpecHash{ConfigReferent: referent, SpecHash: "some"},
			LastAppliedConfig:   &addonv1beta1.ConfigSpecHash{ConfigReferent: referent, SpecHash: specHash},
		}}},
	}
	for _, text := range conditions {
		part := strings.Fields(text)
		a.Status.Conditions = append(a.Status.Conditions, metav1.Condition{Type: part[0], Status: metav1.ConditionStatus(part[1]), Reason: strings.Join(part[2:], " ")})
	}
	if err := f.AddOns.Add(a); err != nil {
		t.Fatal(err)
	}
	return a
}

func (f fleet) addFoundation(t testing.TB, cluster, version, running string) {
	t.Helper()
	err := f.Foundations.Add(&workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{
		Namespace: cluster, Name: "foundation", Labels: map[string]string{api.FoundationLabel: string(api.Serving)},
		Annotations: map[string]string{api.VersionAnnotation: version, api.RunningVersionAnnotation: running},
	}})
	if err != nil {
		t.Fatal(err)
	}
}

func hash(t testing.TB, config *unstructured.Unstructured) string {
	t.Helper()
	out, err := revision.Hash(config)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

const (
	resolved  = "TargetClusterResolved True TargetResolved"
	isReady   = "Ready True Ready"
	available = "Available True ProbeAvailable"
)

// installed are the conditions of a resource whose installation works, with changes.
func installed(changes ...string) []string {
	out := []string{isReady, resolved, "InstallSucceeded True Applied", "DeploymentsAvailable True WorkloadsAvailable"}
	for _, change := range changes {
		condition, _, _ := strings.Cut(change, " ")
		out = slices.DeleteFunc(out, func(c string) bool { return strings.HasPrefix(c, condition+" ") })
		out = append(out, change)
	}
	return out
}
