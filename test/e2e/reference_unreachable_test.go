// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	clusterv1 "open-cluster-management.io/api/cluster/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/manifests"
	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
)

// payload is the work of the component's payload on the cluster.
func (m team) payload(t *testing.T, c api.Component, cluster string) workv1.ManifestWork {
	t.Helper()
	list, err := m.Works.WorkV1().ManifestWorks(cluster).List(t.Context(), metav1.ListOptions{LabelSelector: harness.Payloads(c)})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 1 {
		t.Fatalf("%s has %d payloads on %s, want 1", c, len(list.Items), cluster)
	}
	return list.Items[0]
}

func (m team) cluster(name string) *lab.Cluster {
	i := slices.IndexFunc(m.Managed, func(c *lab.Cluster) bool { return c.Name == name })
	return m.Managed[i]
}

// noWriteTime is the time without writes while nothing changes.
const noWriteTime = 2 * time.Minute

// watchNoWrites watches the resource of a component, the add-on and the works. The returned function waits until noWriteTime is over
// and fails the test for every write in that time.
func watchNoWrites(t *testing.T, m team, c api.Component, cluster string) func(t *testing.T) {
	t.Helper()
	available(t, m.Fleet, []api.Component{c}, m.cluster(cluster))
	settled(t, m.Fleet, c, m.cluster(cluster))
	awaitRest(t, "what the hub says of "+cluster, func(ctx context.Context) (map[string]string, error) { // OCM reports last
		return m.readHubVersions(ctx, c, cluster)
	})
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), noWriteTime)
	var watches []*harness.WriteWatch
	add := func(resource dynamic.ResourceInterface, selector metav1.ListOptions) {
		w, err := harness.WatchWrites(ctx, resource, selector)
		if err != nil {
			cancel()
			t.Fatal(err)
		}
		watches = append(watches, w)
	}
	add(m.resources(c), metav1.ListOptions{FieldSelector: "metadata.name=" + cluster})
	add(m.configs.Resource(addOnResource).Namespace(cluster), metav1.ListOptions{FieldSelector: "metadata.name=" + c.AddOnName()})
	works := m.configs.Resource(workResource).Namespace(cluster)
	add(works, metav1.ListOptions{LabelSelector: harness.Payloads(c)})
	add(works, metav1.ListOptions{LabelSelector: api.FoundationLabel + "=" + string(c)})
	return func(t *testing.T) {
		t.Helper()
		defer cancel()
		for _, w := range watches {
			if writes := w.Wait(); len(writes) > 0 {
				t.Errorf("written while nothing changed:\n%s", strings.Join(writes, "\n"))
			}
		}
	}
}

// readHubVersions reads the resource versions of the resource of a component, of its add-on and of the works of its cluster.
func (m team) readHubVersions(ctx context.Context, c api.Component, cluster string) (map[string]string, error) {
	u, err := m.resources(c).Get(ctx, cluster, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	a, err := m.AddOns.AddonV1beta1().ManagedClusterAddOns(cluster).Get(ctx, c.AddOnName(), metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	works, err := m.ComponentWorks(ctx, c, cluster)
	out := map[string]string{"resource": u.GetResourceVersion(), "add-on": a.ResourceVersion}
	for i := range works {
		out[works[i].Name] = works[i].ResourceVersion
	}
	return out, err
}

// unavailable has a workload that cannot run: the cluster's nodes take no pods, and the one that runs is deleted.
func unavailable(t *testing.T, m team, c *lab.Cluster) {
	s := connect(t, c)
	cordon(t, s, true)
	pods := s.kube.CoreV1().Pods("knative-serving")
	err := pods.DeleteCollection(t.Context(), metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}, metav1.ListOptions{LabelSelector: "app=autoscaler"})
	if err != nil {
		t.Fatal(err)
	}
	notReady := m.becomes(t, api.Serving, c.Name, conditionState{api.DeploymentsAvailable, metav1.ConditionFalse, api.ReasonWorkloadsNotReady},
		"Deployment knative-serving/autoscaler: ")
	if !strings.HasPrefix(notReady.Message, "Deployment ") || strings.Contains(notReady.Message, ";") {
		t.Errorf("the message is %q, want one that names the autoscaler alone", notReady.Message)
	}
	m.becomes(t, api.Serving, c.Name, conditionState{api.Ready, metav1.ConditionFalse, api.ReasonWorkloadsNotReady})
	cordon(t, s, false)
	m.ready(t, api.Serving, c.Name)
}

// denialText is the message of policy denial.
const denialText = "policy no-defaults denies the change"

// checkDenied returns an error unless a request has failed with the text: a webhook that does not answer fails a request too.
func checkDenied(err error, text string) error {
	if err == nil || !strings.Contains(err.Error(), text) {
		return fmt.Errorf("the request ends with %v, want %q", err, text) //nolint:errorlint // the error may be nil
	}
	return nil
}

const denial = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: no-defaults}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [UPDATE], resources: [configmaps], resourceNames: [config-defaults]}
  validations:
  - {expression: "!has(object.data) || has(oldObject.data) && object.data == oldObject.data", message: ` + denialText + `}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: no-defaults}
spec: {policyName: no-defaults, validationActions: [Deny]}
`

// denyConfigMap changes the configuration of a ConfigMap that an admission policy of the cluster protects, and removes the policy.
func denyConfigMap(t *testing.T, m team, c *lab.Cluster) {
	policy := filepath.Join(kubectlDir(t), "policy.yaml")
	if err := os.WriteFile(policy, []byte(denial), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Command(t.Context(), "kubectl", "--kubeconfig", c.Kubeconfig, "apply", "--filename", policy); err != nil {
		t.Fatal(err)
	}
	s := connect(t, c)
	eventually(t, "the policy is in force", time.Minute, func(ctx context.Context) error {
		_, err := s.kube.CoreV1().ConfigMaps("knative-serving").Patch(ctx, "config-defaults", types.MergePatchType,
			[]byte(`{"data":{"x":"y"}}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return checkDenied(err, denialText)
	})
	patch := `{"spec":{"config":{"defaults":{"revision-timeout-seconds":"301"}}}}`
	if _, err := m.resources(api.Serving).Patch(t.Context(), c.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	m.becomes(t, api.Serving, c.Name, conditionState{api.InstallSucceeded, metav1.ConditionFalse, api.ReasonApplyFailed},
		"ConfigMap knative-serving/config-defaults: ", denialText)
	if _, err := m.Command(t.Context(), "kubectl", "--kubeconfig", c.Kubeconfig, "delete", "--filename", policy); err != nil {
		t.Fatal(err)
	}
	m.ready(t, api.Serving, c.Name)
}

// deleteAgentRole deletes the ClusterRole that permits the work agent to apply Serving. The agent restores the role, and delivers the next edit.
func deleteAgentRole(t *testing.T, m team, c *lab.Cluster) {
	roles := connect(t, c).kube.RbacV1().ClusterRoles()
	before, err := roles.Get(t.Context(), manifests.WorkAgentRoleName(api.Serving), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := roles.Delete(t.Context(), before.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the role of the work agent is back", 3*time.Minute, func(ctx context.Context) error {
		now, err := roles.Get(ctx, before.Name, metav1.GetOptions{})
		if err == nil && (now.UID == before.UID || !equality.Semantic.DeepEqual(now.Rules, before.Rules)) {
			err = fmt.Errorf("the role has rules %v", now.Rules)
		}
		return err
	})
	patch := `{"spec":{"config":{"defaults":{"revision-timeout-seconds":"302"}}}}`
	if _, err := m.resources(api.Serving).Patch(t.Context(), c.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the cluster has the edit", 3*time.Minute, func(ctx context.Context) error {
		defaults, err := connect(t, c).kube.CoreV1().ConfigMaps("knative-serving").Get(ctx, "config-defaults", metav1.GetOptions{})
		if err == nil && defaults.Data["revision-timeout-seconds"] != "302" {
			err = fmt.Errorf("ConfigMap config-defaults has %v", defaults.Data)
		}
		return err
	})
	m.ready(t, api.Serving, c.Name)
}

// shortLease makes the hub report an unreachable cluster within seconds.
func shortLease(t *testing.T, m team, cluster string) {
	t.Helper()
	setLease(t, m, cluster, 2)
}

// usualLease sets OCM's default, with which a short stall of the agent keeps the cluster reachable.
func usualLease(t *testing.T, m team, cluster string) {
	t.Helper()
	setLease(t, m, cluster, 60)
}

func setLease(t *testing.T, m team, cluster string, seconds int) {
	t.Helper()
	_, err := m.Clusters.ClusterV1().ManagedClusters().Patch(t.Context(), cluster, types.MergePatchType,
		fmt.Appendf(nil, `{"spec":{"leaseDurationSeconds":%d}}`, seconds), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// away stops the agent of the cluster and waits until the hub reports the cluster as unreachable.
func (m team) away(t *testing.T, c *lab.Cluster) {
	t.Helper()
	if err := m.Stop(c.Name + "-agent"); err != nil {
		t.Fatal(err)
	}
	m.clusterBecomes(t, c.Name, metav1.ConditionUnknown)
}

func (m team) clusterBecomes(t *testing.T, cluster string, status metav1.ConditionStatus) {
	t.Helper()
	eventually(t, fmt.Sprintf("ManagedCluster %s is Available=%s", cluster, status), 3*time.Minute, func(ctx context.Context) error {
		mc, err := m.Clusters.ClusterV1().ManagedClusters().Get(ctx, cluster, metav1.GetOptions{})
		if err == nil && !apimeta.IsStatusConditionPresentAndEqual(mc.Status.Conditions, clusterv1.ManagedClusterConditionAvailable, status) {
			err = fmt.Errorf("conditions are %v", mc.Status.Conditions)
		}
		return err
	})
}

// back starts the agent of the cluster and waits until the hub reports the cluster as available.
func (m team) back(t *testing.T, c *lab.Cluster) {
	t.Helper()
	if err := m.Start(c.Name + "-agent"); err != nil {
		t.Fatal(err)
	}
	m.clusterBecomes(t, c.Name, metav1.ConditionTrue)
}

// loseCluster makes the cluster of a Ready resource unreachable, and reachable again.
func loseCluster(t *testing.T, m team, c *lab.Cluster) {
	m.ready(t, api.Serving, c.Name)
	before, err := m.read(t.Context(), api.Serving, c.Name)
	if err != nil {
		t.Fatal(err)
	}
	written := connect(t, c).restingSpecs(t)
	shortLease(t, m, c.Name)
	m.away(t, c)
	m.awaitUnresolved(t, api.Serving, c.Name, api.ReasonManagedClusterUnavailable)
	m.becomes(t, api.Serving, c.Name, conditionState{api.Ready, metav1.ConditionFalse, api.ReasonManagedClusterUnavailable})
	now, err := m.read(t.Context(), api.Serving, c.Name)
	if err != nil {
		t.Fatal(err)
	}
	for _, condition := range []string{api.InstallSucceeded, api.DeploymentsAvailable, api.DependenciesInstalled, api.VersionMigrationEligible} {
		if diff := cmp.Diff(before.conditions[condition], now.conditions[condition]); diff != "" {
			t.Errorf("the last observation is not kept (-before +now):\n%s", diff)
		}
	}
	if now.version != before.version {
		t.Errorf("status.version is %q, was %q", now.version, before.version)
	}
	eventually(t, "the add-on has the condition", time.Minute, func(ctx context.Context) error {
		if a := m.addOn(ctx, t, api.Serving, c.Name); !apimeta.IsStatusConditionFalse(a.Status.Conditions, api.TargetClusterResolved) {
			return fmt.Errorf("its conditions are %v", a.Status.Conditions)
		}
		return nil
	})
	m.back(t, c)
	m.ready(t, api.Serving, c.Name)
	if diff := cmp.Diff(written, specs(t, connect(t, c))); diff != "" {
		t.Errorf("the cluster was written to after it was unreachable (-before +after):\n%s", diff)
	}
}

// specs returns the resource version of each object of an installation, or the generation of an object with a status.
func specs(t *testing.T, s spoke) map[string]string {
	t.Helper()
	out := map[string]string{}
	add := func(group, resource string, mark func(o metav1.Object) string) {
		for _, o := range s.list(t, group, "v1", resource) {
			if strings.Contains(o.GetName()+o.GetNamespace(), "knative") {
				out[resource+" "+o.GetNamespace()+"/"+o.GetName()] = string(o.GetUID()) + " " + mark(&o)
			}
		}
	}
	byVersion := func(o metav1.Object) string { return o.GetResourceVersion() }
	byGeneration := func(o metav1.Object) string { return fmt.Sprint(o.GetGeneration()) }
	for _, resource := range []string{"configmaps", "services", "serviceaccounts"} {
		add("", resource, byVersion)
	}
	add("rbac.authorization.k8s.io", "clusterrolebindings", byVersion)
	add("rbac.authorization.k8s.io", "clusterroles", byVersion)
	add("apps", "deployments", byGeneration)
	add("apiextensions.k8s.io", "customresourcedefinitions", byGeneration)
	add("admissionregistration.k8s.io", "validatingwebhookconfigurations", byGeneration)
	add("admissionregistration.k8s.io", "mutatingwebhookconfigurations", byGeneration)
	return out
}

// deleteWhileUnreachable deletes a resource of an unreachable cluster; the removal ends after the return of the cluster.
func deleteWhileUnreachable(t *testing.T, m team, c *lab.Cluster) {
	shortLease(t, m, c.Name)
	m.away(t, c)
	if err := m.resources(api.Serving).Delete(t.Context(), c.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	m.becomes(t, api.Serving, c.Name, conditionState{api.InstallSucceeded, metav1.ConditionUnknown, api.ReasonRemoving}, c.Name, api.ForceOrphanAnnotation)
	m.back(t, c)
	m.gone(t, api.Serving, c.Name)
	connect(t, c).emptied(t)
}

// installWhileUnreachable applies a resource whose cluster is unreachable and has no installation. The installation begins on the return.
func installWhileUnreachable(t *testing.T, m team, c *lab.Cluster) {
	shortLease(t, m, c.Name)
	m.away(t, c)
	m.apply(t, api.Serving, c.Name, kourier())
	m.awaitUnresolved(t, api.Serving, c.Name, api.ReasonManagedClusterUnavailable)
	m.becomes(t, api.Serving, c.Name, conditionState{api.Ready, metav1.ConditionFalse, api.ReasonManagedClusterUnavailable})
	m.back(t, c)
	m.ready(t, api.Serving, c.Name)
}

// deleteWithForceOrphan deletes the resource of installWhileUnreachable with force-orphan while the cluster is unreachable; the installation stays.
func deleteWithForceOrphan(t *testing.T, m team, c *lab.Cluster) {
	shortLease(t, m, c.Name)
	m.away(t, c)
	before := specs(t, connect(t, c))
	if err := m.resources(api.Serving).Delete(t.Context(), c.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	m.becomes(t, api.Serving, c.Name, conditionState{api.InstallSucceeded, metav1.ConditionUnknown, api.ReasonRemoving})
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:"true"}}}`, api.ForceOrphanAnnotation)
	if _, err := m.resources(api.Serving).Patch(t.Context(), c.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	m.gone(t, api.Serving, c.Name)
	event(t, m, "Orphaned", fmt.Sprintf("stay on cluster %q", c.Name))
	event(t, m, "Orphaned", fmt.Sprintf("cluster %q keeps", c.Name), "activator")
	m.back(t, c)
	eventually(t, "the works are gone from the hub", 2*time.Minute, func(ctx context.Context) error {
		works, err := m.ComponentWorks(ctx, api.Serving, c.Name)
		if err == nil && len(works) > 0 {
			err = fmt.Errorf("%d are left", len(works))
		}
		return err
	})
	after := specs(t, connect(t, c))
	for name := range before {
		if after[name] == "" {
			t.Errorf("%s is gone from the cluster", name)
		}
	}
}

// event waits for an Event of that reason on the hub, with a message that holds the texts.
func event(t *testing.T, m team, reason string, says ...string) {
	t.Helper()
	s := connect(t, m.Hub)
	eventually(t, "Event "+reason, time.Minute, func(ctx context.Context) error {
		list, err := s.kube.CoreV1().Events("").List(ctx, metav1.ListOptions{FieldSelector: "reason=" + reason})
		if err != nil {
			return err
		}
		last := errors.New("there is none")
		for _, e := range list.Items {
			if last = checkSays(e.Message, says); last == nil {
				return nil
			}
		}
		return last
	})
}

// deleteManagedClusterFirst detaches a cluster that has an installation, and then deletes its resource.
func deleteManagedClusterFirst(t *testing.T, m team, c *lab.Cluster) {
	m.ready(t, api.Eventing, c.Name)
	if err := m.Clusters.ClusterV1().ManagedClusters().Delete(t.Context(), c.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the ManagedCluster is gone", 3*time.Minute, func(ctx context.Context) error {
		list, err := m.Clusters.ClusterV1().ManagedClusters().List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + c.Name})
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("its finalizers are %v, its conditions %v", list.Items[0].Finalizers, list.Items[0].Status.Conditions)
		}
		return err
	})
	m.becomes(t, api.Eventing, c.Name, conditionState{api.TargetClusterResolved, metav1.ConditionFalse, ""})
	if err := m.resources(api.Eventing).Delete(t.Context(), c.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	m.gone(t, api.Eventing, c.Name)
}
