// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
)

// directCluster is a hub with one cluster that OCM does not manage, and whose credential can be revoked.
type directCluster struct {
	push
	spoke
}

// TestPushLife disturbs the life of an installation without a work agent.
func TestPushLife(t *testing.T) {
	startRestStory(t)
	p := newPush(t, lab.Options{Spokes: 1}, harness.Options{LeaderElection: true})
	l := directCluster{push: p, spoke: connect(t, p.Spokes[0])}
	l.token(t, l.Name, l.Cluster, l.newToken(t))
	t.Run("the chart's test passes with its own permissions while a manager leads", func(t *testing.T) { checkInstall(t, p.Fleet) })
	t.Run("a foreign Knative is unchanged, and later adopted without a restart of pods", func(t *testing.T) { l.adoptInstallation(t) })
	t.Run("an invalid file of access providers changes nothing and is reported", func(t *testing.T) { l.breakProviderFile(t) })
	t.Run("a credential is revoked and replaced", func(t *testing.T) { l.revokeCredential(t) })
	t.Run("a version whose Job has failed cannot be skipped", func(t *testing.T) { l.skipFailedVersion(t) })
	t.Run("the next leader continues an installation and a removal", func(t *testing.T) { l.changeLeaders(t) })
	t.Run("a cluster without watches is polled", func(t *testing.T) { l.pollCluster(t) })
}

// checkInstall runs `helm test` as far as a hub without pods can.
func checkInstall(t *testing.T, f *harness.Fleet) {
	kubeconfig := applyHook(t, f, "install-check", "kind: Pod\n", "helm.sh/hook: test\n", "- install-check\n")
	if out, err := knativeAddOnWith(t.Context(), f, kubeconfig, "install-check", "--timeout=3m"); err != nil || !strings.Contains(out, "leads, and the hub has both add-ons") {
		t.Errorf("error is %v, the check says %q", err, out)
	}
}

const account = "fleet"

// newToken recreates the ServiceAccount of the fleet on the cluster and returns its token. The cluster refuses earlier tokens.
func (l directCluster) newToken(t *testing.T) string {
	t.Helper()
	accounts := l.kube.CoreV1().ServiceAccounts(metav1.NamespaceDefault)
	if _, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.kube.RbacV1().ClusterRoleBindings().Get(t.Context(), account, metav1.GetOptions{}); err != nil {
		l.may(t, "cluster-admin")
	}
	token, err := accounts.CreateToken(t.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return token.Status.Token
}

// may gives the account of the fleet a role on the cluster.
func (l directCluster) may(t *testing.T, role string) {
	t.Helper()
	_, err := l.kube.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: account},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: metav1.NamespaceDefault, Name: account}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// adoptInstallation has Knative installed by somebody else.
func (l directCluster) adoptInstallation(t *testing.T) {
	l.installByHand(t)
	before := runningPods(t, l.spoke)
	l.apply(t, api.Serving, l.Name, kourier())
	l.awaitUnresolved(t, api.Serving, l.Name, api.ReasonExistingInstallation, "Deployment knative-serving/activator", api.AdoptAnnotation)
	if ours := l.listOwned(t); len(ours) > 0 {
		t.Errorf("it was not left alone: %s", strings.Join(ours, ", "))
	}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"true"}}}`, api.AdoptAnnotation)
	if _, err := l.resources(api.Serving).Patch(t.Context(), l.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	l.ready(t, api.Serving, l.Name)
	if diff := cmp.Diff(before, runningPods(t, l.spoke)); diff != "" {
		t.Errorf("pods were restarted (-before +after):\n%s", diff)
	}
	if len(l.listOwned(t)) == 0 {
		t.Error("it was not taken over")
	}
}

// installByHand applies what the Knative Operator would, as somebody else.
func (l directCluster) installByHand(t *testing.T) {
	t.Helper()
	l.installByHandIn(t, api.Serving.InstallNamespace())
}

func (l directCluster) installByHandIn(t *testing.T, namespace string) {
	t.Helper()
	dir := kubectlDir(t)
	serving, manifests := filepath.Join(dir, "serving.yaml"), filepath.Join(dir, "manifests.yaml")
	err := os.WriteFile(serving, fmt.Appendf(nil, `
apiVersion: operator.knative.dev/v1beta1
kind: KnativeServing
metadata: {name: by-hand, namespace: %s, annotations: {%s: %s}}
spec:
  version: "1.23"
  ingress: {kourier: {enabled: true}}
  config: {network: {ingress-class: kourier.ingress.networking.knative.dev}}
`, namespace, api.InstallNamespaceAnnotation, namespace), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), l.Binary, "render", "--mode", "Direct", "--filename", serving).Output() //nolint:gosec // our own program
	if err == nil {
		err = os.WriteFile(manifests, out, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	// What a CRD defines, and what a webhook has to admit, is refused at first.
	eventually(t, "everything is applied", 2*time.Minute, func(ctx context.Context) error {
		_, err := l.Command(ctx, "kubectl", "--kubeconfig", l.Kubeconfig, "apply", "--server-side", "--force-conflicts",
			"--field-manager", "somebody", "--filename", manifests)
		return err
	})
	eventually(t, "it is available", time.Minute, func(ctx context.Context) error {
		list, err := l.kube.AppsV1().Deployments(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(list.Items) == 0 {
			return errors.New("there are no Deployments")
		}
		for _, d := range list.Items {
			if d.Status.AvailableReplicas != *d.Spec.Replicas {
				return fmt.Errorf("Deployment %s has %d available pods", d.Name, d.Status.AvailableReplicas)
			}
		}
		return nil
	})
}

// listOwned are the objects on the cluster that have our label.
func (l directCluster) listOwned(t *testing.T) []string {
	t.Helper()
	var out []string
	for resource, group := range map[string]string{
		"namespaces": "", "configmaps": "", "services": "", "serviceaccounts": "", "deployments": "apps",
		"clusterroles": "rbac.authorization.k8s.io", "customresourcedefinitions": "apiextensions.k8s.io",
		"validatingwebhookconfigurations": "admissionregistration.k8s.io",
	} {
		for _, o := range l.list(t, group, "v1", resource) {
			if o.GetLabels()[api.ComponentLabel] != "" {
				out = append(out, resource+" "+o.GetName())
			}
		}
	}
	return out
}

// breakProviderFile writes garbage over the file of access providers, and a good file with one more again.
func (l directCluster) breakProviderFile(t *testing.T) {
	if err := os.WriteFile(l.providers, []byte(`{"providers": [{"name": `), 0o600); err != nil {
		t.Fatal(err)
	}
	// One that the file before did not have either.
	l.kubeconfig(t, "other", l.Cluster)
	l.apply(t, api.Serving, "other", kourier())
	eventually(t, "the file is told of", time.Minute, func(ctx context.Context) error {
		s, err := l.read(ctx, api.Serving, "other")
		if err != nil {
			return err
		}
		c := s.conditions[api.TargetClusterResolved]
		for _, want := range []string{"kubeconfig-secretreader", "correct the file", "line 1"} {
			if c.Reason != api.ReasonAccessProviderNotConfigured || !strings.Contains(c.Message, want) {
				return fmt.Errorf("%s: %s", c.Reason, c.Message)
			}
		}
		return nil
	})
	eventually(t, "the log tells of the file", time.Minute, func(context.Context) error {
		return checkSays(l.log(t, harness.Manager), []string{"the access providers stay as they were"})
	})
	deployments := l.kube.AppsV1().Deployments("knative-serving")
	if err := deployments.Delete(t.Context(), "autoscaler", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the cluster is looked after all the same", time.Minute, func(ctx context.Context) error {
		d, err := deployments.Get(ctx, "autoscaler", metav1.GetOptions{})
		if err == nil && d.DeletionTimestamp != nil {
			err = errors.New("it is still there")
		}
		return err
	})
	l.ready(t, api.Serving, l.Name)

	l.provide(t, "secretreader", "kubeconfig-secretreader")
	l.awaitUnresolved(t, api.Serving, "other", api.ReasonTargetConflict) // it is the same cluster
	l.removeResourceOf(t, "other")
	l.ready(t, api.Serving, l.Name)
}

// removeResourceOf deletes a resource and waits until it is gone.
func (l directCluster) removeResourceOf(t *testing.T, name string) {
	t.Helper()
	if err := l.resources(api.Serving).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	l.gone(t, api.Serving, name)
}

func (l directCluster) log(t *testing.T, component string) string {
	t.Helper()
	for _, c := range l.Components() {
		if c.Name == component {
			content, err := os.ReadFile(c.Log)
			if err != nil {
				t.Fatal(err)
			}
			return string(content)
		}
	}
	t.Fatalf("there is no component %s", component)
	return ""
}

// revokeCredential takes the account away whose token the manager uses, and gives it a token of a new one.
func (l directCluster) revokeCredential(t *testing.T) {
	before := l.restingSpecs(t)
	if err := l.kube.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Delete(t.Context(), account, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	got := l.becomes(t, api.Serving, l.Name, conditionState{api.TargetClusterResolved, metav1.ConditionFalse, api.ReasonRemoteClientCreationFailed})
	t.Logf("%s: %s", got.Reason, got.Message)
	s, err := l.read(t.Context(), api.Serving, l.Name)
	if err != nil {
		t.Fatal(err)
	}
	if s.conditions[api.DeploymentsAvailable].Status != metav1.ConditionTrue || s.conditions[api.Ready].Status == metav1.ConditionTrue {
		t.Errorf("the last observation is not kept, or it is Ready: %v", s.conditions)
	}
	token := l.newToken(t)
	l.writeSecret(t, l.Name, map[string][]byte{"token": []byte(token)})
	l.ready(t, api.Serving, l.Name)
	if diff := cmp.Diff(before, specs(t, l.spoke)); diff != "" {
		t.Errorf("it was written to (-before +after):\n%s", diff)
	}
	l.checkNoSecrets(t, token)
}

// changeLeaders has two managers, and kills the one that leads in the middle of an installation, and then of its removal.
func (l directCluster) changeLeaders(t *testing.T) {
	l.removeResourceOf(t, l.Name)
	const second = harness.Manager + "-2"
	if err := l.RunManager(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	// A policy of the cluster keeps the installation half done for as long as it takes.
	l.policy(t, "apply")
	l.apply(t, api.Serving, l.Name, kourier())
	l.becomes(t, api.Serving, l.Name, conditionState{api.InstallSucceeded, metav1.ConditionFalse, api.ReasonApplyFailed})
	l.killLeader(t, harness.Manager)
	l.policy(t, "delete")
	l.ready(t, api.Serving, l.Name)
	if err := l.Start(harness.Manager); err != nil {
		t.Fatal(err)
	}

	// So does a finalizer the removal.
	l.setFinalizers(t, `["example.com/hold"]`)
	if err := l.resources(api.Serving).Delete(t.Context(), l.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	l.becomes(t, api.Serving, l.Name, conditionState{api.InstallSucceeded, metav1.ConditionUnknown, api.ReasonRemoving})
	eventually(t, "the removal has begun", time.Minute, func(ctx context.Context) error {
		d, err := l.kube.AppsV1().Deployments("knative-serving").Get(ctx, "activator", metav1.GetOptions{})
		if err == nil && d.DeletionTimestamp == nil {
			err = errors.New("the Deployment is not being deleted")
		}
		return err
	})
	l.killLeader(t, second)
	l.setFinalizers(t, "null")
	l.gone(t, api.Serving, l.Name)
	l.emptied(t)
}

// killLeader kills the manager that leads, and waits until another one does.
func (l directCluster) killLeader(t *testing.T, manager string) {
	t.Helper()
	leader := func(ctx context.Context) (string, error) {
		lease, err := l.hub.kube.CoordinationV1().Leases(harness.Namespace).Get(ctx, "knative-addon", metav1.GetOptions{})
		if err != nil || lease.Spec.HolderIdentity == nil {
			return "", err
		}
		return *lease.Spec.HolderIdentity, nil
	}
	before, err := leader(t.Context())
	if err == nil {
		err = l.Kill(manager)
	}
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	eventually(t, "another manager leads", time.Minute, func(ctx context.Context) error {
		now, err := leader(ctx)
		if err == nil && (now == "" || now == before) {
			err = fmt.Errorf("the leader is %q", now)
		}
		return err
	})
	t.Logf("led by another one after %s", time.Since(start).Round(10*time.Millisecond))
}

// setFinalizers sets the finalizers of a Deployment on the cluster.
func (l directCluster) setFinalizers(t *testing.T, finalizers string) {
	t.Helper()
	_, err := l.kube.AppsV1().Deployments("knative-serving").Patch(t.Context(), "activator", types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":`+finalizers+`}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

const noActivator = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: no-activator}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
    - {apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}
  validations:
  - {expression: "object.metadata.name != 'activator'", message: not now}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: no-activator}
spec: {policyName: no-activator, validationActions: [Deny]}
`

// policy applies or deletes a policy of the cluster that refuses a Deployment, and waits until that is so.
func (l directCluster) policy(t *testing.T, verb string) {
	t.Helper()
	file := filepath.Join(kubectlDir(t), "policy.yaml")
	if err := os.WriteFile(file, []byte(noActivator), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Command(t.Context(), "kubectl", "--kubeconfig", l.Kubeconfig, verb, "--filename", file); err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{"app": "activator"}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "activator"}, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "activator", Image: "example.com/activator"}}},
		},
	}}
	eventually(t, "it counts that the policy is there or not", time.Minute, func(ctx context.Context) error {
		_, err := l.kube.AppsV1().Deployments("default").Create(ctx, deployment, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if denied := err != nil && strings.Contains(err.Error(), "not now"); denied != (verb == "apply") {
			return fmt.Errorf("the answer is: %v", err) //nolint:errorlint // it may be nil
		}
		return nil
	})
}
