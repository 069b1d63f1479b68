// Copyright Contributors to the Open Cluster Management project

package installations

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/revision"
)

// since is the time of every condition.
func since() metav1.Time { return metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)) }

// edit changes a resource of a test.
type edit func(*unstructured.Unstructured)

// serving returns a KnativeServing in namespace team.
func serving(name string, edits ...edit) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{"version": "1.23"}, "status": map[string]any{"observedGeneration": int64(1), "version": "1.23.0"},
	}}
	u.SetGroupVersionKind(api.Serving.Resource().GroupVersion().WithKind(api.Serving.Kind()))
	u.SetNamespace("team")
	u.SetName(name)
	u.SetGeneration(1)
	for _, e := range edits {
		e(u)
	}
	return u
}

// onCluster refers to ClusterProfile team/NAME.
func onCluster(name string) edit {
	return func(u *unstructured.Unstructured) {
		u.Object["spec"].(map[string]any)["clusterProfileRef"] = map[string]any{"namespace": "team", "name": name}
	}
}

// ofFleet makes KnativeFleet web the controller of a resource.
func ofFleet(u *unstructured.Unstructured) { controlledBy(u, "KnativeFleet") }

// ofDeployment makes Deployment web the controller of a resource.
func ofDeployment(u *unstructured.Unstructured) { controlledBy(u, "Deployment") }

func controlledBy(u *unstructured.Unstructured, kind string) {
	isController := true
	u.SetOwnerReferences([]metav1.OwnerReference{{Kind: kind, Name: "web", Controller: &isController}})
}

func withFinalizer(finalizer string) edit {
	return func(u *unstructured.Unstructured) { u.SetFinalizers([]string{finalizer}) }
}

func withGeneration(generation int64) edit {
	return func(u *unstructured.Unstructured) { u.SetGeneration(generation) }
}

func paused(u *unstructured.Unstructured) {
	u.SetAnnotations(map[string]string{api.PausedAnnotation: "true"})
}

func deleted(u *unstructured.Unstructured) {
	at := since()
	u.SetDeletionTimestamp(&at)
}

// withConditions sets conditions, each as "Type Status Reason message".
func withConditions(texts ...string) edit {
	return func(u *unstructured.Unstructured) {
		var conditions []any
		for _, c := range parseConditions(texts) {
			conditions = append(conditions, map[string]any{
				"type": c.Type, "status": string(c.Status), "reason": c.Reason, "message": c.Message, "lastTransitionTime": since().Format(time.RFC3339),
			})
		}
		u.Object["status"].(map[string]any)["conditions"] = conditions
	}
}

func parseConditions(texts []string) []metav1.Condition {
	var out []metav1.Condition
	for _, text := range texts {
		part := append(strings.SplitN(text, " ", 4), "")
		out = append(out, metav1.Condition{
			Type: part[0], Status: metav1.ConditionStatus(part[1]), Reason: part[2], Message: part[3], LastTransitionTime: since(),
		})
	}
	return out
}

const (
	ready     = "Ready True Ready"
	applied   = "InstallSucceeded True Applied"
	resolved  = "TargetClusterResolved True TargetResolved"
	delivered = "ManifestApplied True AddonManifestApplied"
	available = "Available True ProbeAvailable"
)

// hashOf returns the hash of the spec of a resource.
func hashOf(t testing.TB, u *unstructured.Unstructured) string {
	t.Helper()
	out, err := revision.Hash(u)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// addOn returns add-on knative-serving of a cluster that a resource configures. The cluster has completed the spec with the hash.
func addOn(t testing.TB, cluster string, config *unstructured.Unstructured, completed string, conditions ...string) *addonv1beta1.ManagedClusterAddOn {
	t.Helper()
	of := api.Serving.Resource()
	resource := addonv1beta1.ConfigGroupResource{Group: of.Group, Resource: of.Resource}
	referent := addonv1beta1.ConfigReferent{Namespace: config.GetNamespace(), Name: config.GetName()}
	return &addonv1beta1.ManagedClusterAddOn{
		TypeMeta:   metav1.TypeMeta{APIVersion: addonv1beta1.GroupVersion.String(), Kind: "ManagedClusterAddOn"},
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: api.Serving.AddOnName()},
		Spec:       addonv1beta1.ManagedClusterAddOnSpec{Configs: []addonv1beta1.AddOnConfig{{ConfigGroupResource: resource, ConfigReferent: referent}}},
		Status: addonv1beta1.ManagedClusterAddOnStatus{
			Conditions: parseConditions(conditions),
			ConfigReferences: []addonv1beta1.ConfigReference{{
				ConfigGroupResource: resource,
				DesiredConfig:       &addonv1beta1.ConfigSpecHash{ConfigReferent: referent, SpecHash: hashOf(t, config)},
				LastAppliedConfig:   &addonv1beta1.ConfigSpecHash{ConfigReferent: referent, SpecHash: completed},
			}},
		},
	}
}

// deployment returns an AddOnDeploymentConfig.
func deployment(name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"proxyConfig": map[string]any{"httpProxy": "http://proxy"}}}}
	u.SetNamespace("team")
	u.SetName(name)
	return u
}

// configureBy adds an AddOnDeploymentConfig to the configurations of an add-on. assigned is the hash of the spec that OCM wants for the cluster, and
// completed the hash of the spec that the cluster has completed.
func configureBy(a *addonv1beta1.ManagedClusterAddOn, config *unstructured.Unstructured, assigned, completed string) {
	gvr := revision.DeploymentConfig{}.Resource()
	resource := addonv1beta1.ConfigGroupResource{Group: gvr.Group, Resource: gvr.Resource}
	referent := addonv1beta1.ConfigReferent{Namespace: config.GetNamespace(), Name: config.GetName()}
	a.Spec.Configs = append(a.Spec.Configs, addonv1beta1.AddOnConfig{ConfigGroupResource: resource, ConfigReferent: referent})
	a.Status.ConfigReferences = append(a.Status.ConfigReferences, addonv1beta1.ConfigReference{
		ConfigGroupResource: resource,
		DesiredConfig:       &addonv1beta1.ConfigSpecHash{ConfigReferent: referent, SpecHash: assigned},
		LastAppliedConfig:   &addonv1beta1.ConfigSpecHash{ConfigReferent: referent, SpecHash: completed},
	})
}

// foundation returns the metadata of the foundation of Serving 1.23.0 on a cluster.
func foundation(cluster, running string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: "work.open-cluster-management.io/v1", Kind: "ManifestWork"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: cluster, Name: "knative-serving-foundation", Labels: map[string]string{api.FoundationLabel: string(api.Serving)},
			Annotations: map[string]string{api.RunningVersionAnnotation: running, api.VersionAnnotation: "1.23.0"},
		},
	}
}

// gate returns the metadata of the gate of Serving on cluster1, which records that the cluster runs a spec of a resource; an empty hash is a
// closed gate.
func gate(config *unstructured.Unstructured, specHash string) *metav1.PartialObjectMetadata {
	work := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{
		Namespace: "cluster1", Name: manifestwork.GateName(api.Serving),
		Labels: map[string]string{api.FoundationLabel: string(api.Serving), addonv1beta1.AddonLabelKey: api.Serving.AddOnName()},
	}}
	if specHash != "" {
		name := types.NamespacedName{Namespace: config.GetNamespace(), Name: config.GetName()}
		manifestwork.OpenGate(work, map[string]string{manifestwork.ConfigKey(api.Serving, name): specHash})
	}
	return &metav1.PartialObjectMetadata{ObjectMeta: work.ObjectMeta}
}

// knativeFleet returns KnativeFleet web of generation 1, whose status has the generation and the revision.
func knativeFleet(observed int64, revision string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{
		"status": map[string]any{"observedGeneration": observed, "rollout": map[string]any{"revision": revision}},
	}}
	u.SetNamespace("team")
	u.SetName("web")
	u.SetGeneration(1)
	return u
}

// withAnnotation sets one annotation.
func withAnnotation(key, value string) edit {
	return func(u *unstructured.Unstructured) { u.SetAnnotations(map[string]string{key: value}) }
}

// servings returns the objects of a hub with resources of Serving only.
func servings(list ...*unstructured.Unstructured) Objects {
	return Objects{Resources: map[api.Component][]*unstructured.Unstructured{api.Serving: list}}
}
