// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
)

// hostileTenant is a tenant who may only write KnativeServings, KnativeEventings and ClusterProfiles of his namespace, and the
// fleet whose clusters he wants.
type hostileTenant struct {
	*harness.Fleet
	namespace string
	// as has the token of the tenant, admin the rights of the hub's administrator.
	as, admin dynamic.Interface
	cluster   *kubernetes.Clientset
}

// TestHostileTenant plays a tenant who wants to become administrator of a managed cluster by the content of his resources.
func TestHostileTenant(t *testing.T) {
	startRestStory(t)
	l := ownLab(t, lab.Options{ManagedClusters: 1, StatusSyncInterval: statusSync})
	f, err := harness.Install(t.Context(), l, harness.Options{}) // the release's namespace is the one that is trusted
	if err != nil {
		t.Fatal(err)
	}
	h := newHostileTenant(t, f, "tenant")
	t.Run("a tenant may not use the binding of the add-on's namespace", h.refersToAddOnNamespace)
	if _, err := f.Command(t.Context(), "clusteradm", "clusterset", "bind", "default", "--namespace", h.namespace); err != nil {
		t.Fatal(err)
	}
	t.Run("admission refuses an escalation that the resource shows", h.isRefusedAtAdmission)
	h.removeAdmission(t)
	t.Run("the manager refuses every other escalation", h.isRefusedByManager)
	t.Run("the tenant gets Knative only", h.getsKnativeOnly)
	t.Run("a refused change keeps the installation", h.keepsInstallation)
	t.Run("a refused resource can be deleted", h.removesRefused)
}

func newHostileTenant(t *testing.T, f *harness.Fleet, namespace string) *hostileTenant {
	t.Helper()
	config, err := f.Tenant(t.Context(), namespace)
	if err != nil {
		t.Fatal(err)
	}
	h := &hostileTenant{Fleet: f, namespace: namespace}
	if h.as, err = dynamic.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	if h.admin, err = dynamic.NewForConfig(f.Hub.Config); err != nil {
		t.Fatal(err)
	}
	if h.cluster, err = kubernetes.NewForConfig(f.Managed[0].Config); err != nil {
		t.Fatal(err)
	}
	return h
}

// resource is a resource of the tenant with a reference and a spec in YAML.
func (h *hostileTenant) resource(t *testing.T, c api.Component, name, profiles, spec string) *unstructured.Unstructured {
	t.Helper()
	fields := map[string]any{}
	if err := yaml.Unmarshal([]byte(spec), &fields); err != nil {
		t.Fatalf("cannot read the test's spec: %v\n%s", err, spec)
	}
	fields["clusterProfileRef"] = map[string]any{"namespace": profiles, "name": h.Managed[0].Name}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": api.Group + "/v1beta1", "kind": c.Kind(),
		"metadata": map[string]any{"name": name, "namespace": h.namespace}, "spec": fields,
	}}
}

func (h *hostileTenant) createResource(ctx context.Context, c api.Component, u *unstructured.Unstructured, dryRun ...string) error {
	_, err := h.as.Resource(c.Resource()).Namespace(h.namespace).Create(ctx, u, metav1.CreateOptions{DryRun: dryRun})
	return err
}

// mayDoAnything reports whether the cluster lets the subjects of the attacks do everything.
func (h *hostileTenant) mayDoAnything(ctx context.Context) (bool, error) {
	for _, user := range []string{harness.TenantAccount, "system:serviceaccount:" + h.namespace + ":" + harness.TenantAccount} {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:               user,
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "*", Group: "*", Resource: "*"},
		}}
		review, err := h.cluster.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil || review.Status.Allowed {
			return review.Status.Allowed, err
		}
	}
	return false, nil
}

func (h *hostileTenant) checkPowerless(t *testing.T) {
	t.Helper()
	allowed, err := h.mayDoAnything(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if allowed {
		t.Fatal("the tenant may do everything on the cluster")
	}
}

const (
	kourierSpec = "version: \"1.23\"\ningress: {kourier: {enabled: true}}\nconfig: {network: {ingress-class: kourier.ingress.networking.knative.dev}}\n"
	// takeEventing and takeServing are the patches of the finding.
	takeEventing = `version: "1.23"
patches:
- target: {apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, name: eventing-controller}
  patch: {type: merge, content: '{"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"},"subjects":[{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"mallory"}]}'}
`
	takeServing = kourierSpec + `patches:
- target: {apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, name: knative-serving-controller-admin}
  patch: {type: merge, content: '{"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"},"subjects":[{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"mallory"}]}'}
`
)

// refersToAddOnNamespace is the finding as reported: a set is bound to the add-on's namespace for Placements.
func (h *hostileTenant) refersToAddOnNamespace(t *testing.T) {
	if _, err := h.Command(t.Context(), "clusteradm", "clusterset", "bind", "default", "--namespace", harness.Namespace); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a reference to the add-on's namespace is refused at admission", 2*time.Minute, func(ctx context.Context) error {
		err := h.createResource(ctx, api.Eventing, h.resource(t, api.Eventing, "ev", harness.Namespace, `version: "1.23"`), metav1.DryRunAll)
		if !refused(err) || !strings.Contains(err.Error(), "references.allowed") {
			return fmt.Errorf("not refused: %w", err)
		}
		return nil
	})
}

// contentCase is content that a policy of the chart refuses, or that only the manager refuses.
type contentCase struct {
	component api.Component
	spec      string
	want      string
	// rendered says that the manager alone can tell.
	rendered bool
}

func podPatchOf(content string) string {
	return kourierSpec + "patches:\n- target: {apiVersion: apps/v1, kind: Deployment, name: controller}\n  patch: {type: strategic, content: '" + content + "'}\n"
}

func contentCases() map[string]contentCase {
	patch := func(apiVersion, kind, name, content string) string {
		return fmt.Sprintf("%spatches:\n- target: {apiVersion: %s, kind: %s, name: %s}\n  patch: {type: merge, content: '%s'}\n", kourierSpec, apiVersion, kind, name, content)
	}
	return map[string]contentCase{
		"eventings-binding": {api.Eventing, takeEventing, "ClusterRoleBinding", false},
		"servings-binding":  {api.Serving, takeServing, "ClusterRoleBinding", false},
		"beta-binding": {
			api.Serving, patch("rbac.authorization.k8s.io/v1beta1", "ClusterRoleBinding", "knative-serving-controller-admin", "{}"), "ClusterRoleBinding", false,
		},
		"service-account": {api.Serving, patch("v1", "ServiceAccount", "controller", `{"metadata":{"annotations":{"a":"b"}}}`), "ServiceAccount", false},
		"pod-security":    {api.Serving, patch("v1", "Namespace", "knative-serving", `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"privileged"}}}`), "Namespace", false},
		"namespace-label": {api.Serving, kourierSpec + "namespace: {labels: {pod-security.kubernetes.io/enforce: privileged}}", "spec.namespace", false},
		"webhook": {
			api.Serving, patch("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", "webhook.serving.knative.dev", `{"webhooks":[]}`), "MutatingWebhookConfiguration", false,
		},
		"crd": {
			api.Serving, patch("apiextensions.k8s.io/v1", "CustomResourceDefinition", "services.serving.knative.dev", `{"spec":{"conversion":{"strategy":"None"}}}`), "CustomResourceDefinition", false,
		},
		"own-manifests":    {api.Serving, "version: 1.23.0\nmanifests: [{URL: https://example.com/a.yaml}]", "spec.manifests", false},
		"registry":         {api.Serving, kourierSpec + "registry: {default: 'evil.example.com/${NAME}:v1'}", "evil.example.com", false},
		"image":            {api.Serving, kourierSpec + "registry: {override: {activator: 'evil.example.com/a:v1'}}", "evil.example.com", false},
		"sidecar":          {api.Serving, strings.Replace(kourierSpec, "config: {", "config: {deployment: {queue-sidecar-image: evil.example.com/q}, ", 1), "evil.example.com", false},
		"host-network":     {api.Serving, kourierSpec + "deployments: [{name: controller, hostNetwork: true}]", "hostNetwork", false},
		"variable":         {api.Serving, kourierSpec + "workloads: [{name: controller, env: [{container: controller, envVars: [{name: SYSTEM_NAMESPACE, value: kube-system}]}]}]", "spec.workloads", false},
		"service-selector": {api.Serving, kourierSpec + "services: [{name: webhook, selector: {app: mine}}]", "spec.services", false},
		"host-path":        {api.Serving, strings.Replace(kourierSpec, "config: {", "config: {features: {kubernetes.podspec-volumes-hostpath: Enabled}, ", 1), "kubernetes.podspec-volumes-hostpath", false},
		"istio":            {api.Serving, "version: \"1.23\"\ningress: {istio: {enabled: true, knative-ingress-gateway: {selector: {istio: theirs}}}}", "spec.ingress", false},
		"bootstrap":        {api.Serving, "version: \"1.23\"\ningress: {kourier: {enabled: true, bootstrap-configmap: mine}}", "spec.ingress", false},
		"command":          {api.Serving, podPatchOf(`{"spec":{"template":{"spec":{"containers":[{"name":"controller","command":["/bin/sh"]}]}}}}`), "command", true},
		"privileged":       {api.Serving, podPatchOf(`{"spec":{"template":{"spec":{"containers":[{"name":"controller","securityContext":{"privileged":true}}]}}}}`), "securityContext.privileged", true},
		"volume":           {api.Serving, podPatchOf(`{"spec":{"template":{"spec":{"volumes":[{"name":"host","hostPath":{"path":"/"}}]}}}}`), "volumes", true},
		"account":          {api.Serving, podPatchOf(`{"spec":{"template":{"spec":{"serviceAccountName":"other"}}}}`), "serviceAccountName", true},
		"image-patch":      {api.Serving, podPatchOf(`{"spec":{"template":{"spec":{"containers":[{"name":"controller","image":"evil.example.com/c"}]}}}}`), "evil.example.com", true},
		"config-by-half":   {api.Serving, strings.Replace(kourierSpec, "config: {", "config: {'-bootstrap': {envoy-bootstrap.yaml: a}, ", 1), "kourier-bootstrap", true},
	}
}

// isRefusedAtAdmission tries each content as the tenant. Content that only the rendered objects show passes admission.
func (h *hostileTenant) isRefusedAtAdmission(t *testing.T) {
	for name, tc := range contentCases() {
		create := func(ctx context.Context) error {
			return h.createResource(ctx, tc.component, h.resource(t, tc.component, name, h.namespace, tc.spec), metav1.DryRunAll)
		}
		if tc.rendered {
			if err := create(t.Context()); err != nil {
				t.Errorf("%s: admission refuses what only rendering shows: %v", name, err)
			}
			continue
		}
		// The policy on content may come into force after the policy on references.
		eventually(t, name+" is refused", time.Minute, func(ctx context.Context) error {
			if err := create(ctx); !refused(err) || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "rendering.trustedNamespaces") {
				return fmt.Errorf("error %v, want a refusal with %q", err, tc.want) //nolint:errorlint // the error may be nil
			}
			return nil
		})
	}
	trusted := h.resource(t, api.Eventing, "trusted", harness.Namespace, takeEventing)
	trusted.SetNamespace(harness.Namespace)
	if _, err := h.admin.Resource(api.Eventing.Resource()).Namespace(harness.Namespace).Create(t.Context(), trusted, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Errorf("a trusted namespace is refused: %v", err)
	}
}

// removeAdmission takes the chart's policies out of force, as on a hub without them.
func (h *hostileTenant) removeAdmission(t *testing.T) {
	t.Helper()
	for _, name := range []string{"knative-addon-content", "knative-addon-references"} {
		if err := h.admin.Resource(policyBindings).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the policies are off", 2*time.Minute, func(ctx context.Context) error {
		if err := h.createResource(ctx, api.Eventing, h.resource(t, api.Eventing, "ev", h.namespace, takeEventing), metav1.DryRunAll); err != nil {
			return err
		}
		return h.createResource(ctx, api.Eventing, h.resource(t, api.Eventing, "ev", harness.Namespace, takeEventing), metav1.DryRunAll)
	})
}

// isRefusedByManager applies content as the tenant on a hub without policies: the finding's, and what only rendering shows.
// One resource follows the other, as a cluster has one installation of a component.
func (h *hostileTenant) isRefusedByManager(t *testing.T) {
	reference := h.resource(t, api.Eventing, "ev", harness.Namespace, takeEventing)
	h.applyRefused(t, api.Eventing, reference, refusedCondition{api.TargetClusterResolved, api.ReasonReferenceNotPermitted, "may not refer to"})
	for name, tc := range contentCases() {
		if finding := tc.spec == takeEventing || tc.spec == takeServing; !finding && !tc.rendered {
			continue // the unit tests of package render have every case
		}
		h.applyRefused(t, tc.component, h.resource(t, tc.component, name, h.namespace, tc.spec),
			refusedCondition{api.InstallSucceeded, api.ReasonEscalationNotPermitted, tc.want})
	}
	h.checkPowerless(t)
}

// refusedCondition is a condition that is False, with its reason and a part of its message.
type refusedCondition struct{ condition, reason, says string }

// applyRefused applies a resource as the tenant, waits for the reason of the refusal, and deletes the resource.
func (h *hostileTenant) applyRefused(t *testing.T, c api.Component, u *unstructured.Unstructured, want refusedCondition) {
	t.Helper()
	if err := h.createResource(t.Context(), c, u); err != nil {
		t.Fatalf("%s: %v", u.GetName(), err)
	}
	eventually(t, u.GetName()+" is refused", 3*time.Minute, func(ctx context.Context) error {
		return h.hasReason(ctx, c, u.GetName(), want)
	})
	removeForGood(t, h.as.Resource(c.Resource()).Namespace(h.namespace), u.GetName())
}

func (h *hostileTenant) hasReason(ctx context.Context, c api.Component, name string, want refusedCondition) error {
	says, err := team{configs: h.as, namespace: h.namespace}.read(ctx, c, name)
	if err != nil {
		return err
	}
	got := says.conditions[want.condition]
	if got.Status != metav1.ConditionFalse || got.Reason != want.reason || !strings.Contains(got.Message, want.says) {
		return fmt.Errorf("%s is %s, %s: %s; want %s with %q", want.condition, got.Status, got.Reason, got.Message, want.reason, want.says)
	}
	return nil
}

// getsKnativeOnly installs what a set that is bound to the tenant's namespace permits.
func (h *hostileTenant) getsKnativeOnly(t *testing.T) {
	spec := kourierSpec + "high-availability: {replicas: 1}\nworkloads: [{name: controller, resources: [{container: controller, limits: {memory: 2Gi}}]}]\n"
	if err := h.createResource(t.Context(), api.Serving, h.resource(t, api.Serving, "mine", h.namespace, spec)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "an ordinary KnativeServing is Ready", 10*time.Minute, h.isReady)
	h.checkPowerless(t)
}

func (h *hostileTenant) isReady(ctx context.Context) error {
	says, err := team{configs: h.as, namespace: h.namespace}.read(ctx, api.Serving, "mine")
	if err != nil {
		return err
	}
	if ready := says.conditions["Ready"]; ready.Status != metav1.ConditionTrue || !says.current {
		return fmt.Errorf("Ready is %s, %s: %s", ready.Status, ready.Reason, ready.Message)
	}
	return nil
}

// keepsInstallation changes the ordinary resource to the finding's content, and back.
func (h *hostileTenant) keepsInstallation(t *testing.T) {
	before, err := h.cluster.AppsV1().Deployments("knative-serving").Get(t.Context(), "controller", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	h.replaceSpec(t, takeServing)
	eventually(t, "the change is refused", 3*time.Minute, func(ctx context.Context) error {
		return h.hasReason(ctx, api.Serving, "mine", refusedCondition{api.InstallSucceeded, api.ReasonEscalationNotPermitted, "ClusterRoleBinding"})
	})
	after, err := h.cluster.AppsV1().Deployments("knative-serving").Get(t.Context(), "controller", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if after.UID != before.UID || after.Generation != before.Generation {
		t.Errorf("Deployment controller has generation %d, want %d", after.Generation, before.Generation)
	}
	h.checkPowerless(t)
	h.replaceSpec(t, kourierSpec)
	eventually(t, "the resource is Ready again", 5*time.Minute, h.isReady)
}

// removesRefused deletes a resource whose namespace lost trust after the installation, as after an upgrade.
func (h *hostileTenant) removesRefused(t *testing.T) {
	h.replaceSpec(t, takeServing)
	eventually(t, "the change is refused", 3*time.Minute, func(ctx context.Context) error {
		return h.hasReason(ctx, api.Serving, "mine", refusedCondition{api.InstallSucceeded, api.ReasonEscalationNotPermitted, "ClusterRoleBinding"})
	})
	resources := h.as.Resource(api.Serving.Resource()).Namespace(h.namespace)
	if err := resources.Delete(t.Context(), "mine", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the resource and its workloads are gone", 5*time.Minute, func(ctx context.Context) error {
		list, err := resources.List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		workloads, err := h.cluster.AppsV1().Deployments("knative-serving").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if left := len(list.Items) + len(workloads.Items); left > 0 {
			return fmt.Errorf("%d objects are left", left)
		}
		return nil
	})
}

func (h *hostileTenant) replaceSpec(t *testing.T, spec string) {
	t.Helper()
	resources := h.as.Resource(api.Serving.Resource()).Namespace(h.namespace)
	eventually(t, "the spec is replaced", time.Minute, func(ctx context.Context) error {
		u, err := resources.Get(ctx, "mine", metav1.GetOptions{})
		if err != nil {
			return err
		}
		u.Object["spec"] = h.resource(t, api.Serving, "mine", h.namespace, spec).Object["spec"]
		_, err = resources.Update(ctx, u, metav1.UpdateOptions{})
		return err
	})
}
