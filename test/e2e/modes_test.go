// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
)

// way is a cluster with the way in which Knative comes there. Its ClusterProfile and its KnativeServing have its name.
type way struct {
	push
	spoke
	// unseen is the reason of TargetClusterResolved while the cluster is out of sight.
	unseen string
	// lose loses sight of the cluster, find has it back.
	lose, find func(t *testing.T)
	// publish brings a ClusterProfile of the cluster into a namespace of the hub, unpublish takes it away.
	publish, unpublish func(t *testing.T, m team)
}

// TestModes makes the same faults on a cluster with a work agent and on one without. Users have to see the same.
func TestModes(t *testing.T) {
	startRestStory(t)
	// Without admission policies, so that the conditions tell of what these would refuse.
	p := newPush(t, lab.Options{ManagedClusters: 1, Spokes: 1, StatusSyncInterval: statusSync},
		harness.Options{Helm: []string{"--set", "admissionPolicies.enabled=false"}, Manager: []string{"--metrics-per-cluster"}})
	for _, namespace := range []string{"green", "red"} {
		if _, err := p.Command(t.Context(), "kubectl", "create", "namespace", namespace); err != nil {
			t.Fatal(err)
		}
	}
	ways := []way{pulled(t, p, p.Managed[0]), pushed(t, p, p.Spokes[0])}
	for _, w := range ways {
		w.publish(t, w.team)
		w.apply(t, api.Serving, w.Name, kourier())
	}
	for _, w := range ways {
		w.shows(t, verdicts{})
	}
	settled(t, p.Fleet, api.Serving, p.Managed[0]) // the reports to OCM follow Ready
	t.Run("metrics count both installations", func(t *testing.T) { countsInstallations(t, p, ways[0].Name, ways[1].Name) })
	for _, f := range slices.Concat(specFaults(), clusterFaults(), hubFaults()) {
		t.Run(f.name, func(t *testing.T) { f.run(t, ways) })
	}
	t.Run("a manager whose archive lacks the running version observes the clusters", func(t *testing.T) { lackVersion(t, ways) })
	t.Run("a resource that is deleted with force-orphan and recreated owns the installation", func(t *testing.T) { forceOrphan(t, ways) })
	t.Run("a deletion waits for an unreachable cluster, and removes every object on request", func(t *testing.T) { leavesNothing(t, ways) })
	t.Run("OCM's own ClusterProfile asks for direct delivery", func(t *testing.T) { ocmDirect(t, ways[0]) })
}

// pulled is a cluster that OCM manages.
func pulled(t *testing.T, p push, c *lab.Cluster) way {
	t.Helper()
	shortLease(t, p.team, c.Name)
	return way{
		push: p, spoke: connect(t, c), unseen: api.ReasonManagedClusterUnavailable,
		lose:    func(t *testing.T) { t.Helper(); p.away(t, c) },
		find:    func(t *testing.T) { t.Helper(); p.back(t, c) },
		publish: func(t *testing.T, m team) { t.Helper(); m.bind(t) },
		unpublish: func(t *testing.T, m team) {
			t.Helper()
			err := m.Clusters.ClusterV1beta2().ManagedClusterSetBindings(m.namespace).Delete(t.Context(), "default", metav1.DeleteOptions{})
			if err != nil {
				t.Fatal(err)
			}
		},
	}
}

// pushed is a cluster that OCM does not manage.
func pushed(t *testing.T, p push, c *lab.Cluster) way {
	t.Helper()
	end := func(t *testing.T, do func(string) error) {
		t.Helper()
		if err := do(c.Name + "-apiserver"); err != nil {
			t.Fatal(err)
		}
	}
	return way{
		push: p, spoke: connect(t, c), unseen: api.ReasonRemoteClusterStale,
		lose: func(t *testing.T) { t.Helper(); end(t, p.Stop) },
		find: func(t *testing.T) { t.Helper(); end(t, p.Start) },
		publish: func(t *testing.T, m team) {
			t.Helper()
			there := p
			there.team = m
			there.token(t, c.Name, c, c.Credential.Token)
		},
		unpublish: func(t *testing.T, m team) {
			t.Helper()
			err := p.hub.dynamic.Resource(profileResource).Namespace(m.namespace).Delete(t.Context(), c.Name, metav1.DeleteOptions{})
			if err != nil {
				t.Fatal(err)
			}
		},
	}
}

// verdicts are conditions, each as "Status Reason". Those that are not named are as on a cluster where all is well, and
// Ready is as the others say.
type verdicts map[string]string

// unseen stands for the reason of a cluster that is out of sight, which is the only one that the ways do not share.
const unseen = "False <unseen>"

func (v verdicts) of(w way) map[string]string {
	out := map[string]string{
		api.TargetClusterResolved: "True TargetResolved", api.VersionMigrationEligible: "True Eligible",
		api.DependenciesInstalled: "True NothingMissing", api.InstallSucceeded: "True Applied",
		api.DeploymentsAvailable: "True WorkloadsAvailable",
	}
	for condition, verdict := range v {
		if verdict == unseen {
			verdict = "False " + w.unseen
		}
		out[condition] = verdict
	}
	out[api.Ready] = "True Ready"
	for _, status := range []string{"Unknown ", "False "} {
		for _, condition := range slices.Backward(api.ConditionTypes()[1:]) {
			if strings.HasPrefix(out[condition], status) {
				out[api.Ready] = out[condition]
			}
		}
	}
	return out
}

// untold are the verdicts on a resource of which nothing was seen on a cluster.
func untold(reason string) verdicts {
	const unknown = "Unknown TargetNotResolved"
	return verdicts{
		api.TargetClusterResolved: "False " + reason, api.VersionMigrationEligible: unknown, api.DependenciesInstalled: unknown,
		api.InstallSucceeded: unknown, api.DeploymentsAvailable: unknown,
	}
}

// unrendered are the verdicts on a spec that cannot be turned into objects, of a cluster that runs the spec before.
func unrendered(reason string) verdicts {
	const unknown = "Unknown NotRendered"
	return verdicts{
		api.VersionMigrationEligible: unknown, api.DependenciesInstalled: unknown, api.InstallSucceeded: "False " + reason,
	}
}

// leaving are the verdicts on a resource that is being deleted.
func leaving(target string) verdicts {
	const unknown = "Unknown Removing"
	return verdicts{
		api.TargetClusterResolved: target, api.VersionMigrationEligible: unknown, api.DependenciesInstalled: unknown,
		api.InstallSucceeded: unknown, api.DeploymentsAvailable: unknown,
	}
}

// shows waits until the resource has all of these conditions, and its Ready says all of that.
func (w way) shows(t *testing.T, want verdicts, says ...string) {
	t.Helper()
	eventually(t, "the conditions of "+w.namespace+"/"+w.Name, 3*time.Minute, func(ctx context.Context) error {
		s, err := w.read(ctx, api.Serving, w.Name)
		if err != nil {
			return err
		}
		got := map[string]string{}
		for condition, c := range s.conditions {
			got[condition] = string(c.Status) + " " + c.Reason
		}
		if diff := cmp.Diff(want.of(w), got); diff != "" || !s.current {
			return fmt.Errorf("of its generation: %t (-want +got):\n%s%v", s.current, diff, s.conditions)
		}
		for _, text := range says {
			if !strings.Contains(s.conditions[api.Ready].Message, text) {
				return fmt.Errorf("%q is not in %q", text, s.conditions[api.Ready].Message)
			}
		}
		return nil
	})
}

// patch merges a patch into the resource.
func (w way) patch(t *testing.T, patch map[string]any) {
	t.Helper()
	data, err := json.Marshal(patch)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.resources(api.Serving).Patch(t.Context(), w.Name, types.MergePatchType, data, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// spec merges a patch into the spec.
func (w way) spec(t *testing.T, spec map[string]any) {
	t.Helper()
	w.patch(t, map[string]any{"spec": spec})
}

func (w way) annotate(t *testing.T, annotation, value string) {
	t.Helper()
	w.patch(t, map[string]any{"metadata": map[string]any{"annotations": map[string]any{annotation: value}}})
}

func (w way) delete(t *testing.T) {
	t.Helper()
	if err := w.resources(api.Serving).Delete(t.Context(), w.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// in is the same cluster as seen from another namespace of the hub.
func (w way) in(namespace string) way {
	w.namespace = namespace
	return w
}

// runningPods are the pods of Serving's Deployments by UID, with how often their containers were restarted. A namespace without pods fails the
// test: a comparison with no pods proves nothing.
func runningPods(t *testing.T, s spoke) []string {
	t.Helper()
	return runningPodsIn(t, s, api.Serving.InstallNamespace())
}

func runningPodsIn(t *testing.T, s spoke, namespace string) []string {
	t.Helper()
	pods, err := s.kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "!job-name"})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, pod := range pods.Items {
		restarts := int32(0)
		for _, c := range pod.Status.ContainerStatuses {
			restarts += c.RestartCount
		}
		out = append(out, fmt.Sprintf("%s %s, %d restarts", pod.Name, pod.UID, restarts))
	}
	if len(out) == 0 {
		t.Fatalf("namespace %s of %s has no pods", namespace, s.Name)
	}
	slices.Sort(out)
	return out
}

// forceOrphan deletes resources of unavailable clusters with the annotation force-orphan, and recreates the resources.
func forceOrphan(t *testing.T, ways []way) {
	before := map[string][]string{}
	for _, w := range ways {
		before[w.Name] = runningPods(t, w.spoke)
		w.lose(t)
	}
	for _, w := range ways {
		w.shows(t, verdicts{api.TargetClusterResolved: unseen})
		w.delete(t)
		w.annotate(t, api.ForceOrphanAnnotation, "true")
		w.gone(t, api.Serving, w.Name)
		w.find(t)
	}
	for _, w := range ways {
		w.apply(t, api.Serving, w.Name, kourier())
	}
	for _, w := range ways {
		w.shows(t, verdicts{})
		if diff := cmp.Diff(before[w.Name], runningPods(t, w.spoke)); diff != "" {
			t.Errorf("%s: pods were restarted (-before +after):\n%s", w.Name, diff)
		}
		if w.addOn(t.Context(), t, api.Serving, w.Name) != nil {
			settled(t, w.Fleet, api.Serving, w.Cluster) // Ready comes before the agent has applied that the works own the objects again
		}
	}
}

// leavesNothing deletes the resources while their clusters are away, with CRDs and Namespaces. They go when the clusters
// are back.
func leavesNothing(t *testing.T, ways []way) {
	for _, w := range ways {
		w.lose(t)
	}
	for _, w := range ways {
		w.shows(t, verdicts{api.TargetClusterResolved: unseen})
		requestRemoval(t, w.Lab, w.Cluster)
		w.annotate(t, api.DeletionPolicyAnnotation, api.DeletionPolicyDeleteUserResources)
		w.delete(t)
		w.shows(t, leaving(unseen))
		for _, want := range []string{w.Name, api.ForceOrphanAnnotation} {
			eventually(t, "the message says "+want, time.Minute, func(ctx context.Context) error {
				s, err := w.read(ctx, api.Serving, w.Name)
				if got := s.conditions[api.InstallSucceeded].Message; err == nil && !strings.Contains(got, want) {
					err = fmt.Errorf("%s says %q", w.Name, got)
				}
				return err
			})
		}
	}
	for _, w := range ways {
		w.find(t)
	}
	var checks []func()
	for _, w := range ways {
		checks = append(checks, w.watchPermissions(t))
	}
	for _, w := range ways {
		w.gone(t, api.Serving, w.Name)
		w.bare(t)
	}
	for _, check := range checks {
		check()
	}
}

// watchPermissions watches the ClusterRoleBindings of Knative. check waits for the deletion of a binding, ends the watch, and fails the story
// when a binding was deleted while a pod in the namespace of Knative ran and was not being deleted. The pods of finished Jobs need no
// permissions, and wait for the garbage collector of the cluster.
func (w way) watchPermissions(t *testing.T) (check func()) {
	t.Helper()
	var events watch.Interface
	eventually(t, "a watch of "+w.Name, time.Minute, func(context.Context) (err error) {
		events, err = w.kube.RbacV1().ClusterRoleBindings().Watch(t.Context(), metav1.ListOptions{}) //nolint:contextcheck // the watch lasts longer than the wait
		return err
	})
	var deleted atomic.Int32
	var violations []string
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range events.ResultChan() {
			o, isBinding := e.Object.(*rbacv1.ClusterRoleBinding)
			if e.Type != watch.Deleted || !isBinding || !strings.Contains(o.Name, "knative") {
				continue
			}
			deleted.Add(1)
			pods, err := w.kube.CoreV1().Pods("knative-serving").List(t.Context(), metav1.ListOptions{})
			if err != nil {
				violations = append(violations, err.Error())
				continue
			}
			for i := range pods.Items {
				phase := pods.Items[i].Status.Phase
				if pods.Items[i].DeletionTimestamp == nil && phase != corev1.PodSucceeded && phase != corev1.PodFailed {
					violations = append(violations, fmt.Sprintf("ClusterRoleBinding %s is deleted, and pod %s runs", o.Name, pods.Items[i].Name))
				}
			}
		}
	}()
	return func() {
		t.Helper()
		eventually(t, "the watch of "+w.Name+" shows the deletion of a ClusterRoleBinding", time.Minute, func(context.Context) error {
			if deleted.Load() == 0 {
				return errors.New("the watch has shown none")
			}
			return nil
		})
		events.Stop()
		<-done
		for _, v := range violations {
			t.Errorf("%s: %s", w.Name, v)
		}
	}
}

// bare waits until the cluster has nothing of Knative, neither its CRDs nor its Namespace.
func (w way) bare(t *testing.T) {
	t.Helper()
	eventually(t, "nothing of Knative is left on "+w.Name, time.Minute, func(ctx context.Context) error {
		for resource, group := range map[string]string{
			"namespaces": "", "customresourcedefinitions": "apiextensions.k8s.io", "clusterroles": "rbac.authorization.k8s.io",
			"clusterrolebindings": "rbac.authorization.k8s.io", "validatingwebhookconfigurations": "admissionregistration.k8s.io",
			"mutatingwebhookconfigurations": "admissionregistration.k8s.io",
		} {
			items, err := w.listed(ctx, schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource})
			if err != nil {
				return err
			}
			for _, o := range items {
				if strings.Contains(o.GetName(), "knative") {
					return fmt.Errorf("%s %s is there", resource, o.GetName())
				}
			}
		}
		return nil
	})
}

// ocmDirect has a ClusterProfile that OCM publishes and that asks for direct delivery, with an access provider.
func ocmDirect(t *testing.T, w way) {
	w.provide(t, "secretreader", "kubeconfig-secretreader")
	w.kubeconfigSecret(t, "admin", w.Cluster)
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, api.DeliveryAnnotation, api.DeliveryDirect)
	profiles := w.hub.dynamic.Resource(profileResource).Namespace(w.namespace)
	if _, err := profiles.Patch(t.Context(), w.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	w.apply(t, api.Serving, w.Name, kourier())
	w.shows(t, untold(api.ReasonAccessProviderNotConfigured), "status.accessProviders")
	w.profileStatus(t, w.Name, map[string]any{"accessProviders": accessProviders(w.Cluster, "kubeconfig-secretreader", kubeconfigOf("admin"))})
	w.shows(t, verdicts{})
	w.withoutWorks(t)

	w.lose(t)
	w.shows(t, verdicts{api.TargetClusterResolved: "False " + api.ReasonManagedClusterUnavailable})
	w.find(t)
	w.shows(t, verdicts{})
	w.delete(t)
	w.gone(t, api.Serving, w.Name)
	w.emptied(t)
	w.withoutWorks(t)
}

// withoutWorks holds that OCM has nothing to do with the installation.
func (w way) withoutWorks(t *testing.T) {
	t.Helper()
	if a := w.addOn(t.Context(), t, api.Serving, w.Name); a != nil {
		t.Errorf("there is a ManagedClusterAddOn: %v", a)
	}
	works, err := w.ComponentWorks(t.Context(), api.Serving, w.Name)
	if err != nil {
		t.Fatal(err)
	}
	if len(works) > 0 {
		t.Errorf("there are %d ManifestWorks", len(works))
	}
}
