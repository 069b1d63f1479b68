// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
)

// hostileHub is a hub that installs on itself, with a tenant who may write resources of one namespace only.
type hostileHub struct {
	team   // of a namespace that is bound to a cluster
	admin  spoke
	tenant *rest.Config
}

const tenantNamespace = "tenant"

// TestHostileHub plays tenants of a hub that installs Knative on itself.
func TestHostileHub(t *testing.T) {
	startRestStory(t)
	started := ownLab(t, lab.Options{ManagedClusters: 1, StatusSyncInterval: statusSync})
	f, err := harness.Install(t.Context(), started, harness.Options{LocalInstalls: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the manager's log:\n%s\nand of what installs on the hub:\n%s", f.LogTail(harness.Manager), f.LogTail(harness.LocalInstalls))
		}
	})
	h := hostileHub{team: newTeam(t, f, "blue"), admin: connect(t, f.Hub)}
	if h.tenant, err = f.Tenant(t.Context(), tenantNamespace); err != nil {
		t.Fatal(err)
	}
	t.Run("a tenant does not become admin of the hub", func(t *testing.T) { h.checkNoEscalation(t) })
	t.Run("the manager lacks the permissions of the local installations", func(t *testing.T) { h.checkSeparatePermissions(t) })
	t.Run("a tenant's Deployment with the name of the Knative Operator stops nothing", func(t *testing.T) { h.checkTenantDeployment(t) })
	t.Run("only readers of metrics get metrics", func(t *testing.T) { h.checkMetricsReaders(t) })
	t.Run("pods comply with the restricted profile", func(t *testing.T) { h.checkPodSecurity(t) })
	t.Run("a forged revision is replaced", func(t *testing.T) { h.replaceForgedRevision(t) })
	t.Run("every resource reports the Knative Operator", func(t *testing.T) { h.reportOperator(t) })
}

// checkNoEscalation holds that the namespace of a tenant is never installed into, whatever the resource asks.
func (h hostileHub) checkNoEscalation(t *testing.T) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: harness.Namespace, Name: "treasure"}}
	if _, err := h.admin.kube.CoreV1().Secrets(harness.Namespace).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	configs, err := dynamic.NewForConfig(h.tenant)
	if err != nil {
		t.Fatal(err)
	}
	subject := fmt.Sprintf(`{"subjects":[{"kind":"ServiceAccount","namespace":%q,"name":%q}]}`, tenantNamespace, harness.TenantAccount)
	patches := []any{map[string]any{
		"target": map[string]any{
			"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "name": "knative-serving-controller-admin",
		},
		"patch": map[string]any{"type": "merge", "content": subject},
	}}
	for _, namespace := range []string{tenantNamespace, "knative-serving", harness.Namespace} {
		// The policy of the chart may refuse patches, so that the program for the hub sees no such resource.
		for name, spec := range map[string]map[string]any{
			"into-" + namespace: {"version": "1.23"}, "patched-into-" + namespace: {"version": "1.23", "patches": patches},
		} {
			_, err = configs.Resource(api.Serving.Resource()).Namespace(tenantNamespace).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": api.Group + "/v1beta1", "kind": api.Serving.Kind(), "spec": spec,
				"metadata": map[string]any{
					"name": name, "namespace": tenantNamespace, "annotations": map[string]any{api.InstallNamespaceAnnotation: namespace},
				},
			}}, metav1.CreateOptions{})
			if apierrors.IsForbidden(err) && spec["patches"] != nil {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			// A resource of a tenant is the configuration of a fleet: the manager has seen the resource, and nothing else will.
			h.inNamespace(tenantNamespace).becomes(t, api.Serving, name, conditionState{api.TargetClusterResolved, metav1.ConditionTrue, api.ReasonFleetConfiguration})
		}
	}
	tenant := "system:serviceaccount:" + tenantNamespace + ":" + harness.TenantAccount
	if h.isAllowed(t, tenant, authorizationv1.ResourceAttributes{Verb: "*", Group: "*", Resource: "*"}) {
		t.Error("the tenant is admin of the hub")
	}
	kube, err := kubernetes.NewForConfig(h.tenant)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kube.CoreV1().Secrets(harness.Namespace).Get(t.Context(), "treasure", metav1.GetOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("the tenant reads a Secret of namespace %s: %v", harness.Namespace, err)
	}
	for _, gvr := range []string{"clusterrolebindings", "clusterroles"} {
		for _, o := range h.admin.list(t, "rbac.authorization.k8s.io", "v1", gvr) {
			if o.GetLabels()[api.ComponentLabel] != "" {
				t.Errorf("%s %s is on the hub", gvr, o.GetName())
			}
		}
	}
	for _, o := range h.admin.list(t, "apps", "v1", "deployments") {
		if o.GetNamespace() == tenantNamespace {
			t.Errorf("Deployment %s is in the namespace of the tenant", o.GetName())
		}
	}
}

// checkSeparatePermissions holds that what the program for the hub may do, the manager may not.
func (h hostileHub) checkSeparatePermissions(t *testing.T) {
	account := func(name string) string { return "system:serviceaccount:" + harness.Namespace + ":" + name }
	for _, of := range []authorizationv1.ResourceAttributes{
		{Verb: "create", Group: "rbac.authorization.k8s.io", Resource: "clusterrolebindings"},
		{Verb: "escalate", Group: "rbac.authorization.k8s.io", Resource: "clusterroles"},
		{Verb: "bind", Group: "rbac.authorization.k8s.io", Resource: "clusterroles"},
		{Verb: "create", Group: "apps", Resource: "deployments", Namespace: harness.Namespace},
		{Verb: "get", Resource: "secrets", Namespace: harness.Namespace},
		{Verb: "list", Resource: "secrets", Namespace: "kube-system"},
		{Verb: "create", Resource: "serviceaccounts", Namespace: "kube-system"},
		{Verb: "patch", Resource: "namespaces"},
		{Verb: "create", Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"},
		{Verb: "create", Group: "admissionregistration.k8s.io", Resource: "mutatingwebhookconfigurations"},
	} {
		if h.isAllowed(t, account(harness.ManagerAccount), of) {
			t.Errorf("the manager may %s %s", of.Verb, of.Resource)
		}
		if !h.isAllowed(t, account(harness.LocalAccount), of) {
			t.Errorf("the program for the hub may not %s %s", of.Verb, of.Resource)
		}
	}
}

// isAllowed asks the hub whether a user has a permission.
func (h hostileHub) isAllowed(t *testing.T, user string, what authorizationv1.ResourceAttributes) bool {
	t.Helper()
	review, err := h.admin.kube.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user, Groups: []string{"system:authenticated", "system:serviceaccounts"}, ResourceAttributes: &what,
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return review.Status.Allowed
}

// inNamespace is the same hub with another namespace.
func (h hostileHub) inNamespace(namespace string) team {
	out := h.team
	out.namespace = namespace
	return out
}

// checkTenantDeployment holds that a Deployment with the name of the Knative Operator in a namespace of a tenant neither stops a new
// installation nor a change.
func (h hostileHub) checkTenantDeployment(t *testing.T) {
	if _, err := h.Command(t.Context(), "kubectl", "create", "deployment", "knative-operator", "-n", tenantNamespace, "--image=example.com/x:1"); err != nil {
		t.Fatal(err)
	}
	c := h.Managed[0]
	h.apply(t, api.Serving, c.Name, kourier())
	h.ready(t, api.Serving, c.Name)
	before := h.payload(t, api.Serving, c.Name)
	patch := `{"spec":{"config":{"deployment":{"progress-deadline":"300s"}}}}`
	if _, err := h.resources(api.Serving).Patch(t.Context(), c.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the change is delivered", 3*time.Minute, func(context.Context) error {
		if now := h.payload(t, api.Serving, c.Name); now.Generation == before.Generation { //nolint:contextcheck // payload uses the context of the test
			return errors.New("the payload is what it was")
		}
		return nil
	})
	h.ready(t, api.Serving, c.Name)
}

// reportOperator holds that every resource of the hub says that the Knative Operator has it, also one that was Ready, and
// goes on afterwards.
func (h hostileHub) reportOperator(t *testing.T) {
	const namespace = "knative-operator"
	for _, args := range [][]string{
		{"create", "namespace", namespace},
		{"create", "namespace", "knative-serving"},
		{"create", "deployment", "knative-operator", "-n", namespace, "--image=example.com/x:1"},
	} {
		if _, err := h.Command(t.Context(), "kubectl", args...); err != nil {
			t.Fatal(err)
		}
	}
	conflict := conditionState{api.TargetClusterResolved, metav1.ConditionFalse, api.ReasonConflict}
	h.becomes(t, api.Serving, h.Managed[0].Name, conflict)
	h.becomes(t, api.Serving, h.Managed[0].Name, conditionState{api.Ready, metav1.ConditionFalse, api.ReasonConflict})
	h.inNamespace(harness.Namespace).becomes(t, api.Serving, "default", conflict)
	// A resource that is installed on the hub itself.
	local := localInstalls{team: h.inNamespace("knative-serving"), spoke: h.admin}
	local.own(t, "self", map[string]any{"version": "1.23"})
	local.becomes(t, api.Serving, "self", conflict)
	t.Run("the manager writes its own objects only", func(t *testing.T) { h.checkForeignObjects(t) })
	local.delete(t, "self")
	local.gone(t, api.Serving, "self")

	if err := h.admin.kube.AppsV1().Deployments(namespace).Delete(t.Context(), "knative-operator", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	h.ready(t, api.Serving, h.Managed[0].Name)
	h.inNamespace(harness.Namespace).becomes(t, api.Serving, "default", conditionState{api.TargetClusterResolved, metav1.ConditionTrue, api.ReasonFleetConfiguration})
}
