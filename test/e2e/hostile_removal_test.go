// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
)

const (
	executorNamespace, executorName = "open-cluster-management-agent-addon", "knative-installer"
	executorByHand                  = "installed-by-hand"
	payroll                         = "payroll"
)

// earlierObjects exist on a cluster before the add-on: the ServiceAccounts of executors, a foreign namespace with a
// ConfigMap, and a CRD of Knative.
const earlierObjects = `
apiVersion: v1
kind: Namespace
metadata: {name: open-cluster-management-agent-addon}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: knative-installer, namespace: open-cluster-management-agent-addon}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: installed-by-hand, namespace: open-cluster-management-agent-addon}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: executors}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects:
- {kind: ServiceAccount, name: knative-installer, namespace: open-cluster-management-agent-addon}
- {kind: ServiceAccount, name: installed-by-hand, namespace: open-cluster-management-agent-addon}
---
apiVersion: v1
kind: Namespace
metadata: {name: payroll, labels: {team: finance}, annotations: {cost-center: "7"}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: salaries, namespace: payroll}
data: {total: "42"}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: clusterdomainclaims.networking.internal.knative.dev}
spec:
  group: networking.internal.knative.dev
  names: {kind: ClusterDomainClaim, plural: clusterdomainclaims, singular: clusterdomainclaim}
  scope: Cluster
  versions:
  - {name: v1alpha1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`

// earlierClaim is a resource of a user of the kind that the earlier CRD defines.
const earlierClaim = `
apiVersion: networking.internal.knative.dev/v1alpha1
kind: ClusterDomainClaim
metadata: {name: mine.example.com}
spec: {namespace: default}
`

// TestHostileRemoval plays a tenant with permission to write resources of Knative, and nothing else. The tenant tries to
// delete resources of users, to enter, adopt and delete namespaces and CRDs of others, and to leave an installation behind.
// The work agent delivers with the permissions of an executor.
func TestHostileRemoval(t *testing.T) {
	startRestStory(t)
	p := newPush(t, lab.Options{ManagedClusters: 1, Spokes: 1, StatusSyncInterval: statusSync}, harness.Options{
		Helm:    []string{"--set", "works.executor.namespace=" + executorNamespace, "--set", "works.executor.name=" + executorName},
		Manager: []string{"--work-executor=" + executorNamespace + "/" + executorName},
	})
	for _, c := range []*lab.Cluster{p.Managed[0], p.Spokes[0]} {
		for _, manifests := range []string{earlierObjects, earlierClaim} {
			eventually(t, "what was there before is on "+c.Name, time.Minute, func(ctx context.Context) error {
				return c.Apply(ctx, []byte(manifests))
			})
		}
	}
	h := removalTenants{push: p, cluster: connect(t, p.Managed[0]), mallory: tenantOf(t, p.Fleet, "tenant"), trusted: tenantOf(t, p.Fleet, "blue")}
	h.mallory.bind(t)
	h.trusted.bind(t)
	t.Run("admission refuses an annotation that escalates", h.refuseAtAdmission)
	t.Run("an existing namespace is not used", h.enterExistingNamespace)
	t.Run("the manager ignores an annotation that no policy refuses", h.annotateWithoutPolicy)
	t.Run("an existing annotation may stay or be removed, and not change", h.restorePolicy)
	t.Run("works have the configured executor, and keep an executor of the administrator", h.keepExecutor)
	t.Run("an installation does not move into an existing namespace", h.moveInstallation)
	t.Run("a tenant's deletion policy deletes no user resources", func(t *testing.T) { h.keepUserResources(t, h.mallory, api.ReasonEscalationNotPermitted) })
	t.Run("a deletion policy ends with the binding", h.removeAfterUnbind)
	t.Run("existing objects survive an installation by the work agent", func(t *testing.T) { h.keepExistingNamespace(t, h.trusted, h.cluster, h.cluster.Name) })
	t.Run("existing objects survive a direct installation", h.keepExistingNamespaceDirectly)
}

// removalTenants is a hub with a tenant of an untrusted namespace and a tenant of a trusted namespace.
type removalTenants struct {
	push
	cluster          spoke
	mallory, trusted team
}

// tenantOf acts with the token of the tenant of a namespace.
func tenantOf(t *testing.T, f *harness.Fleet, namespace string) team {
	t.Helper()
	config, err := f.Tenant(t.Context(), namespace)
	if err != nil {
		t.Fatal(err)
	}
	configs, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return team{Fleet: f, namespace: namespace, configs: configs}
}

// servingWith is a KnativeServing for the cluster with annotations.
func (m team) servingWith(cluster string, annotations map[string]string) *unstructured.Unstructured {
	spec := kourier()
	spec["clusterProfileRef"] = map[string]any{"namespace": m.namespace, "name": cluster}
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": api.Group + "/v1beta1", "kind": api.Serving.Kind(),
		"metadata": map[string]any{"name": cluster, "namespace": m.namespace}, "spec": spec,
	}}
	u.SetAnnotations(annotations)
	return u
}

func (m team) createServing(ctx context.Context, u *unstructured.Unstructured) error {
	_, err := m.resources(api.Serving).Create(ctx, u, metav1.CreateOptions{})
	return err
}

// annotateServing sets an annotation of a KnativeServing, or removes the annotation when the value is nil. metav1.DryRunAll stores nothing.
func (m team) annotateServing(ctx context.Context, name, annotation string, value any, dryRun ...string) error {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, annotation)
	if text, ok := value.(string); ok {
		patch = fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, annotation, text)
	}
	_, err := m.resources(api.Serving).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{DryRun: dryRun})
	return err
}

// checkRefusal holds that the API server has refused a write and says what to do.
func checkRefusal(err error, annotation string) error {
	if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
		return fmt.Errorf("%s is not refused: %w", annotation, err)
	}
	for _, want := range []string{annotation, "tenant", "rendering.trustedNamespaces"} {
		if !strings.Contains(err.Error(), want) {
			return fmt.Errorf("%q is not in: %w", want, err)
		}
	}
	return nil
}

func (h removalTenants) refuseAtAdmission(t *testing.T) {
	refused := map[string]string{
		api.AdoptAnnotation: "true", api.ForceOrphanAnnotation: "true", api.DeletionPolicyAnnotation: api.DeletionPolicyDelete,
		api.InstallNamespaceAnnotation: "kube-system",
	}
	for annotation, value := range refused {
		eventually(t, annotation+" is refused in a new resource", 2*time.Minute, func(ctx context.Context) error {
			err := h.mallory.createServing(ctx, h.mallory.servingWith("fresh", map[string]string{annotation: value}))
			if err == nil { // the policy is not in force yet
				_ = h.mallory.resources(api.Serving).Delete(ctx, "fresh", metav1.DeleteOptions{})
			}
			return checkRefusal(err, annotation)
		})
	}
	harmless := map[string]string{api.AdoptAnnotation: "false", api.DeletionPolicyAnnotation: "Keep", api.InstallNamespaceAnnotation: "knative-serving", "mine": "true"}
	eventually(t, "values that ask for nothing are accepted", time.Minute, func(ctx context.Context) error {
		return h.mallory.createServing(ctx, h.mallory.servingWith("fresh", harmless))
	})
	for annotation, value := range refused {
		if err := checkRefusal(h.mallory.annotateServing(t.Context(), "fresh", annotation, value), annotation); err != nil {
			t.Errorf("in a resource that is there: %v", err)
		}
	}
	if err := h.mallory.annotateServing(t.Context(), "fresh", api.AdoptAnnotation, nil); err != nil {
		t.Errorf("an annotation is not removed: %v", err)
	}
	if err := h.trusted.createServing(t.Context(), h.trusted.servingWith("fresh", refused)); err != nil {
		t.Errorf("in a trusted namespace: %v", err)
	}
	for _, m := range []team{h.mallory, h.trusted} {
		if err := m.resources(api.Serving).Delete(t.Context(), "fresh", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		m.gone(t, api.Serving, "fresh")
	}
}

// enterExistingNamespace has the tenant install into a namespace that both clusters had before. The manager writes nothing.
func (h removalTenants) enterExistingNamespace(t *testing.T) {
	direct := h.push
	direct.namespace = h.mallory.namespace
	direct.token(t, "edge", h.Spokes[0], h.Spokes[0].Credential.Token)
	for name, s := range map[string]spoke{h.cluster.Name: h.cluster, "edge": connect(t, h.Spokes[0])} {
		if err := h.mallory.createServing(t.Context(), h.mallory.servingWith(name, map[string]string{api.InstallNamespaceAnnotation: payroll})); err != nil {
			t.Fatal(err)
		}
		h.mallory.awaitUnresolved(t, api.Serving, name, api.ReasonEscalationNotPermitted,
			payroll, api.InstallNamespaceAnnotation, "rendering.trustedNamespaces")
		namespace, err := s.kube.CoreV1().Namespaces().Get(t.Context(), payroll, metav1.GetOptions{})
		if err != nil || namespace.Labels[api.ComponentLabel] != "" || len(namespace.Annotations) != 1 {
			t.Errorf("%s: namespace %v, error %v", name, namespace, err)
		}
		if err := h.mallory.resources(api.Serving).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		h.mallory.gone(t, api.Serving, name)
	}
}

const annotationsBinding = "knative-addon-annotations"

// annotateWithoutPolicy has the tenant annotate where the administrator has taken the policy away.
func (h removalTenants) annotateWithoutPolicy(t *testing.T) {
	if _, err := h.Command(t.Context(), "kubectl", "delete", "validatingadmissionpolicybinding", annotationsBinding); err != nil {
		t.Fatal(err)
	}
	annotations := map[string]string{
		api.AdoptAnnotation: "true", api.DeletionPolicyAnnotation: api.DeletionPolicyDeleteUserResources, api.ForceOrphanAnnotation: "true",
	}
	eventually(t, "no policy refuses the annotations", 2*time.Minute, func(ctx context.Context) error {
		return h.mallory.createServing(ctx, h.mallory.servingWith(h.cluster.Name, annotations))
	})
	refused := conditionState{api.AnnotationsPermitted, metav1.ConditionFalse, api.ReasonEscalationNotPermitted}
	h.mallory.becomes(t, api.Serving, h.cluster.Name, refused, slices.Collect(maps.Keys(annotations))...)
	h.mallory.ready(t, api.Serving, h.cluster.Name)
}

// restorePolicy brings the policy back.
func (h removalTenants) restorePolicy(t *testing.T) {
	manifests, err := h.Template(t.Context(), "--set", "rendering.trustedNamespaces={blue}", "--show-only", "templates/admission-annotations.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Hub.Apply(t.Context(), []byte(manifests)); err != nil {
		t.Fatal(err)
	}
	name := h.cluster.Name
	eventually(t, "a changed annotation is refused again", 2*time.Minute, func(ctx context.Context) error {
		err := h.mallory.annotateServing(ctx, name, api.DeletionPolicyAnnotation, api.DeletionPolicyDelete, metav1.DryRunAll)
		return checkRefusal(err, api.DeletionPolicyAnnotation)
	})
	if err := h.mallory.annotateServing(t.Context(), name, "mine", "true"); err != nil {
		t.Errorf("what has nothing to do with them: %v", err)
	}
	if err := h.mallory.annotateServing(t.Context(), name, api.AdoptAnnotation, nil); err != nil {
		t.Errorf("one of them is removed: %v", err)
	}
}

// keepExecutor sets another executor on the payload, and has something new delivered.
func (h removalTenants) keepExecutor(t *testing.T) {
	works, err := h.ComponentWorks(t.Context(), api.Serving, h.cluster.Name)
	if err != nil {
		t.Fatal(err)
	}
	if len(works) < 3 {
		t.Fatalf("the installation is %d works, want foundation, payload and gate", len(works))
	}
	for _, w := range works {
		if e := w.Spec.Executor; e == nil || e.Subject.ServiceAccount == nil || e.Subject.ServiceAccount.Name != executorName {
			t.Errorf("ManifestWork %s has executor %+v", w.Name, e)
		}
		patch := fmt.Appendf(nil, `{"spec":{"executor":{"subject":{"serviceAccount":{"name":%q}}}}}`, executorByHand)
		if _, err := h.Works.WorkV1().ManifestWorks(w.Namespace).Patch(t.Context(), w.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	_, err = h.mallory.resources(api.Serving).Patch(t.Context(), h.cluster.Name, types.MergePatchType,
		[]byte(`{"spec":{"config":{"defaults":{"revision-timeout-seconds":"123"}}}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the change is on the cluster", 2*time.Minute, func(ctx context.Context) error {
		m, err := h.cluster.kube.CoreV1().ConfigMaps("knative-serving").Get(ctx, "config-defaults", metav1.GetOptions{})
		if err == nil && m.Data["revision-timeout-seconds"] != "123" {
			err = fmt.Errorf("the ConfigMap has %v", m.Data)
		}
		return err
	})
	if works, err = h.ComponentWorks(t.Context(), api.Serving, h.cluster.Name); err != nil {
		t.Fatal(err)
	}
	for _, w := range works {
		if e := w.Spec.Executor; e == nil || e.Subject.ServiceAccount == nil || e.Subject.ServiceAccount.Name != executorByHand {
			t.Errorf("ManifestWork %s has executor %+v, which was set by hand", w.Name, e)
		}
	}
}

// moveInstallation has the tenant annotate an installation with a namespace that the cluster had before, and take that back.
func (h removalTenants) moveInstallation(t *testing.T) {
	name := h.cluster.Name
	if err := h.mallory.annotateServing(t.Context(), name, api.InstallNamespaceAnnotation, payroll); err != nil {
		t.Fatal(err)
	}
	h.mallory.awaitUnresolved(t, api.Serving, name, api.ReasonEscalationNotPermitted)
	if err := h.mallory.annotateServing(t.Context(), name, api.InstallNamespaceAnnotation, nil); err != nil {
		t.Fatal(err)
	}
	h.mallory.ready(t, api.Serving, name)
	list, err := h.cluster.kube.AppsV1().Deployments(payroll).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) > 0 {
		t.Errorf("namespace %s has %d Deployments, error %v", payroll, len(list.Items), err)
	}
}

// knativeServices are the Services of Knative in namespace default.
func (s spoke) knativeServices() dynamic.ResourceInterface {
	return s.dynamic.Resource(schema.GroupVersionResource{Group: "serving.knative.dev", Version: "v1", Resource: "services"}).Namespace("default")
}

// keepUserResources has a user's Service on the cluster, and deletes the tenant's resource, whose annotations do not count.
func (h removalTenants) keepUserResources(t *testing.T, m team, reason string) {
	eventually(t, "a user's Service is there", time.Minute, func(ctx context.Context) error {
		_, err := h.cluster.knativeServices().Create(ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "serving.knative.dev/v1", "kind": "Service", "metadata": map[string]any{"name": "hello"},
			"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"image": "hello"}}}}},
		}}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
	if err := m.resources(api.Serving).Delete(t.Context(), h.cluster.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	m.gone(t, api.Serving, h.cluster.Name)
	h.cluster.awaitRemovedExcept(t, "hello")
	if service, err := h.cluster.knativeServices().Get(t.Context(), "hello", metav1.GetOptions{}); err != nil || service.GetDeletionTimestamp() != nil {
		t.Errorf("the user's Service is %v: %v", service, err)
	}
	namespace, err := h.cluster.kube.CoreV1().Namespaces().Get(t.Context(), "knative-serving", metav1.GetOptions{})
	if err != nil || namespace.DeletionTimestamp != nil {
		t.Errorf("the install namespace is %v: %v", namespace, err)
	}
	eventually(t, "an Event of the removal names the annotation", time.Minute, func(ctx context.Context) error {
		list, err := connect(t, m.Hub).kube.CoreV1().Events(m.namespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=" + reason})
		if err != nil {
			return err
		}
		for _, e := range list.Items {
			if e.Action == "Remove" && strings.Contains(e.Message, api.DeletionPolicyAnnotation) {
				return nil
			}
		}
		return fmt.Errorf("there are %d other Events", len(list.Items))
	})
}

// removeAfterUnbind is S8: an administrator removes the binding, the tenant asks for the deletion of users' resources, and deletes
// the resource. The namespace is trusted, so that only the reference protects the users of the cluster.
func (h removalTenants) removeAfterUnbind(t *testing.T) {
	h.trusted.apply(t, api.Serving, h.cluster.Name, kourier())
	h.trusted.ready(t, api.Serving, h.cluster.Name)
	if _, err := h.Command(t.Context(), "clusteradm", "clusterset", "unbind", "default", "--namespace", h.trusted.namespace); err != nil {
		t.Fatal(err)
	}
	h.trusted.becomes(t, api.Serving, h.cluster.Name, conditionState{api.TargetClusterResolved, metav1.ConditionFalse, ""})
	err := h.trusted.annotateServing(t.Context(), h.cluster.Name, api.DeletionPolicyAnnotation, api.DeletionPolicyDeleteUserResources)
	if err != nil {
		t.Fatal(err)
	}
	h.trusted.becomes(t, api.Serving, h.cluster.Name, conditionState{api.AnnotationsPermitted, metav1.ConditionFalse, api.ReasonTargetNotResolved})
	h.keepUserResources(t, h.trusted, api.ReasonTargetNotResolved)
}

// keepExistingNamespace installs into a namespace that the cluster had before, with the permission of a trusted namespace, and deletes
// the installation with the resources of users. Objects that the add-on has created go; older objects stay.
func (h removalTenants) keepExistingNamespace(t *testing.T, m team, s spoke, profile string) {
	m.bind(t)
	annotations := map[string]string{
		api.InstallNamespaceAnnotation: payroll, api.DeletionPolicyAnnotation: api.DeletionPolicyDeleteUserResources,
	}
	before := s.namespaceMetadata(t, payroll)
	requestRemoval(t, m.Lab, s.Cluster)
	if err := m.createServing(t.Context(), m.servingWith(profile, annotations)); err != nil {
		t.Fatal(err)
	}
	m.ready(t, api.Serving, profile)
	if diff := cmp.Diff(before, s.namespaceMetadata(t, payroll)); diff != "" {
		t.Errorf("Namespace %s was there before, and was changed (-before +after):\n%s", payroll, diff)
	}
	if err := m.resources(api.Serving).Delete(t.Context(), profile, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	m.gone(t, api.Serving, profile)
	crds := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	eventually(t, "the CRDs that the add-on has brought are gone", 2*time.Minute, func(ctx context.Context) error {
		_, err := s.dynamic.Resource(crds).Get(ctx, "services.serving.knative.dev", metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("the CRD of Services: %w", err)
		}
		return nil
	})
	namespace, err := s.kube.CoreV1().Namespaces().Get(t.Context(), payroll, metav1.GetOptions{})
	if err != nil || namespace.DeletionTimestamp != nil {
		t.Errorf("namespace %s is %v: %v", payroll, namespace, err)
	}
	if m, err := s.kube.CoreV1().ConfigMaps(payroll).Get(t.Context(), "salaries", metav1.GetOptions{}); err != nil || m.Data["total"] != "42" {
		t.Errorf("the ConfigMap is %v: %v", m, err)
	}
	claims := schema.GroupVersionResource{Group: "networking.internal.knative.dev", Version: "v1alpha1", Resource: "clusterdomainclaims"}
	for what, resource := range map[string]struct {
		gvr  schema.GroupVersionResource
		name string
	}{
		"the CRD that was there before": {crds, "clusterdomainclaims.networking.internal.knative.dev"},
		"a user's resource of it":       {claims, "mine.example.com"},
	} {
		if u, err := s.dynamic.Resource(resource.gvr).Get(t.Context(), resource.name, metav1.GetOptions{}); err != nil || u.GetDeletionTimestamp() != nil {
			t.Errorf("%s is %v: %v", what, u, err)
		}
	}
}

func (h removalTenants) keepExistingNamespaceDirectly(t *testing.T) {
	h.token(t, "edge", h.Spokes[0], h.Spokes[0].Credential.Token)
	h.keepExistingNamespace(t, h.trusted, connect(t, h.Spokes[0]), "edge")
}
