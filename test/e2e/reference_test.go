// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
)

// ownFleet is a fleet for one story.
func ownFleet(t *testing.T, opts lab.Options, managerArgs ...string) *harness.Fleet {
	t.Helper()
	opts.Log = os.Stderr
	l := ownLab(t, opts)
	f, err := harness.Install(t.Context(), l, harness.Options{Manager: managerArgs, Trusted: []string{"blue"}})
	if err != nil {
		t.Fatal(err)
	}
	logManagerOnFailure(t, f)
	return f
}

// team is a namespace on the hub with resources that refer to clusters.
type team struct {
	*harness.Fleet
	namespace string
	configs   dynamic.Interface
}

// newTeam makes a namespace that OCM publishes the ClusterProfiles of the default set in.
func newTeam(t *testing.T, f *harness.Fleet, namespace string) team {
	t.Helper()
	configs, err := dynamic.NewForConfig(f.Hub.Config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Command(t.Context(), "kubectl", "create", "namespace", namespace); err != nil {
		t.Fatal(err)
	}
	out := team{Fleet: f, namespace: namespace, configs: configs}
	out.bind(t)
	return out
}

func (m team) bind(t *testing.T) {
	t.Helper()
	if _, err := m.Command(t.Context(), "clusteradm", "clusterset", "bind", "default", "--namespace", m.namespace); err != nil {
		t.Fatal(err)
	}
}

func (m team) resources(c api.Component) dynamic.ResourceInterface {
	return m.configs.Resource(c.Resource()).Namespace(m.namespace)
}

// apply makes a resource of the component for the cluster, as in Knative's documentation.
func (m team) apply(t *testing.T, c api.Component, cluster string, spec map[string]any) {
	t.Helper()
	spec["clusterProfileRef"] = map[string]any{"namespace": m.namespace, "name": cluster}
	_, err := m.resources(c).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": api.Group + "/v1beta1", "kind": c.Kind(),
		"metadata": map[string]any{"name": cluster, "namespace": m.namespace}, "spec": spec,
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// seen is what a resource says of itself.
type seen struct {
	version    string
	conditions map[string]metav1.Condition
	current    bool
}

func (m team) read(ctx context.Context, c api.Component, name string) (seen, error) {
	u, err := m.resources(c).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return seen{}, err
	}
	out := seen{conditions: map[string]metav1.Condition{}}
	out.version, _, _ = unstructured.NestedString(u.Object, "status", "version")
	generation, _, _ := unstructured.NestedInt64(u.Object, "status", "observedGeneration")
	out.current = generation == u.GetGeneration()
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, o := range conditions {
		c := o.(map[string]any) //nolint:forcetypeassert // of the API server
		text := func(key string) string { s, _ := c[key].(string); return s }
		out.conditions[text("type")] = metav1.Condition{
			Type: text("type"), Status: metav1.ConditionStatus(text("status")), Reason: text("reason"), Message: text("message"),
		}
	}
	return out, nil
}

// conditionState is what a condition should be; an empty reason is any.
type conditionState struct {
	condition string
	status    metav1.ConditionStatus
	reason    string
}

// becomes waits until the resource has the condition at its generation, with a message that holds the texts.
func (m team) becomes(t *testing.T, c api.Component, name string, want conditionState, says ...string) metav1.Condition {
	t.Helper()
	var got metav1.Condition
	eventually(t, fmt.Sprintf("%s %s/%s is %v", c.Kind(), m.namespace, name, want), 3*time.Minute,
		func(ctx context.Context) error {
			s, err := m.read(ctx, c, name)
			if err != nil {
				return err
			}
			got = s.conditions[want.condition]
			if got.Status != want.status || want.reason != "" && got.Reason != want.reason || !s.current {
				return fmt.Errorf("conditions are %v", s.conditions)
			}
			return checkSays(got.Message, says)
		})
	return got
}

// checkSays returns an error that names the texts that are not in the message.
func checkSays(message string, texts []string) error {
	missing := slices.DeleteFunc(slices.Clone(texts), func(text string) bool { return strings.Contains(message, text) })
	if len(missing) > 0 {
		return fmt.Errorf("%q are not in the message %q", missing, message)
	}
	return nil
}

func (m team) ready(t *testing.T, c api.Component, name string) {
	t.Helper()
	m.becomes(t, c, name, conditionState{api.Ready, metav1.ConditionTrue, ""})
}

// TestReference is the life of a KnativeServing with spec.clusterProfileRef. While its cluster has to be at rest, the other
// cluster has stories.
func TestReference(t *testing.T) {
	startMainStory(t)
	f := ownFleet(t, lab.Options{ManagedClusters: 2, StatusSyncInterval: statusSync})
	blue, green := newTeam(t, f, "blue"), newTeam(t, f, "green")
	one, two := f.Managed[0], f.Managed[1]

	t.Run("a missing kind is reported, and a removal leaves nothing", func(t *testing.T) { lacking(t, blue, one) })
	t.Run("a resource becomes Ready", func(t *testing.T) { installReference(t, blue, one.Name) })
	rested := watchNoWrites(t, blue, api.Serving, one.Name)
	t.Run("a forged ClusterProfile resolves to no cluster", func(t *testing.T) { forgeProfile(t, green, two) })
	t.Run("the oldest resource owns the cluster", func(t *testing.T) { checkConflict(t, blue, green, two) })
	t.Run("an add-on of a user is unchanged", func(t *testing.T) { enableByUser(t, green, two) })
	t.Run("a revoked binding stops updates and removes nothing", func(t *testing.T) { revokeBinding(t, green, two) })
	t.Run("a fleet configuration counts its add-ons", func(t *testing.T) { fleetConfiguration(t, blue, two) })
	t.Run("nothing is written without a change", rested)
	t.Run("the Knative Operator on the hub is reported and keeps its resources", func(t *testing.T) { runOperatorOnHub(t, blue, one) })
	t.Run("a ManagedCluster that is deleted first blocks no removal", func(t *testing.T) { deleteManagedClusterFirst(t, green, two) })
}

// TestReferenceFaults is about a KnativeServing with spec.clusterProfileRef whose cluster refuses objects, or is away.
func TestReferenceFaults(t *testing.T) {
	startRestStory(t)
	f := ownFleet(t, lab.Options{ManagedClusters: 1, StatusSyncInterval: statusSync})
	blue, one := newTeam(t, f, "blue"), f.Managed[0]
	installReference(t, blue, one.Name)

	t.Run("a refused object is named with the cause", func(t *testing.T) { denyConfigMap(t, blue, one) })
	t.Run("the permissions of the work agent are restored", func(t *testing.T) { deleteAgentRole(t, blue, one) })
	t.Run("an unavailable workload is named", func(t *testing.T) { unavailable(t, blue, one) })
	t.Run("a resource of an unreachable cluster keeps the last observation", func(t *testing.T) { loseCluster(t, blue, one) })
	t.Run("the removal from an unreachable cluster waits", func(t *testing.T) { deleteWhileUnreachable(t, blue, one) })
	t.Run("a first installation begins when the cluster returns", func(t *testing.T) { installWhileUnreachable(t, blue, one) })
	t.Run("a resource is deleted with force-orphan", func(t *testing.T) { deleteWithForceOrphan(t, blue, one) })
}

// fleetConfiguration enables Serving with the chart's default, which tells of it, and disables it.
func fleetConfiguration(t *testing.T, m team, c *lab.Cluster) {
	defaults := team{Fleet: m.Fleet, namespace: harness.Namespace, configs: m.configs}
	says := func(want string) {
		t.Helper()
		eventually(t, "the default configuration is "+want, 2*time.Minute, func(ctx context.Context) error {
			s, err := defaults.read(ctx, api.Serving, "default")
			if err == nil && s.conditions[api.TargetClusterResolved].Message != want {
				err = fmt.Errorf("conditions are %v", s.conditions)
			}
			return err
		})
	}
	says("used by 0 add-ons, 0 ready")
	defaults.ready(t, api.Serving, "default")
	if err := m.Enable(t.Context(), []string{api.Serving.AddOnName()}, []string{c.Name}); err != nil {
		t.Fatal(err)
	}
	says("used by 1 add-ons, 1 ready")
	defaults.ready(t, api.Serving, "default")
	if err := m.Disable(t.Context(), []string{api.Serving.AddOnName()}, []string{c.Name}); err != nil {
		t.Fatal(err)
	}
	says("used by 0 add-ons, 0 ready")
}

// lacking installs with Knative's default ingress, Istio, which is not on the cluster.
func lacking(t *testing.T, m team, c *lab.Cluster) {
	m.apply(t, api.Serving, c.Name, map[string]any{"version": "1.23"})
	m.becomes(t, api.Serving, c.Name, conditionState{api.DependenciesInstalled, metav1.ConditionFalse, api.ReasonKindMissing},
		"PeerAuthentication knative-serving/webhook")
	m.becomes(t, api.Serving, c.Name, conditionState{api.InstallSucceeded, metav1.ConditionFalse, api.ReasonApplyFailed},
		"Gateway knative-serving/knative-ingress-gateway", `namespaces "istio-system" not found`)
	// What can run does, so that there is something to remove.
	m.becomes(t, api.Serving, c.Name, conditionState{api.DeploymentsAvailable, metav1.ConditionTrue, api.ReasonWorkloadsAvailable})
	m.remove(t, api.Serving, c)
}

// kourier is a spec that a lab's cluster has everything for.
func kourier() map[string]any {
	return map[string]any{
		"version": "1.23", "ingress": map[string]any{"kourier": map[string]any{"enabled": true}},
		"config": map[string]any{"network": map[string]any{"ingress-class": "kourier.ingress.networking.knative.dev"}},
	}
}

func installReference(t *testing.T, m team, cluster string) {
	m.apply(t, api.Serving, cluster, kourier())
	m.ready(t, api.Serving, cluster)
	s, err := m.read(t.Context(), api.Serving, cluster)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(s.version, "1.23.") {
		t.Errorf("status.version is %q", s.version)
	}
	var types []string
	for name, c := range s.conditions {
		types = append(types, name)
		if c.Status != metav1.ConditionTrue {
			t.Errorf("condition %v", c)
		}
	}
	want := slices.Sorted(slices.Values(api.ConditionTypes()))
	if diff := cmp.Diff(want, slices.Sorted(slices.Values(types))); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	a, err := m.AddOns.AddonV1beta1().ManagedClusterAddOns(cluster).Get(t.Context(), api.Serving.AddOnName(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := a.Annotations[api.InstalledForAnnotation], m.namespace+"/"+cluster; got != want {
		t.Errorf("the add-on says that it was made for %q, want %q", got, want)
	}
	eventually(t, "the add-on resolves its cluster too", time.Minute, func(ctx context.Context) error {
		if a := m.addOn(ctx, t, api.Serving, cluster); a == nil || !apimeta.IsStatusConditionTrue(a.Status.Conditions, api.TargetClusterResolved) {
			return fmt.Errorf("the add-on is %v", a)
		}
		return nil
	})
}

// remove deletes the resource and holds that nothing is left on the cluster but CRDs and Namespaces.
func (m team) remove(t *testing.T, c api.Component, cluster *lab.Cluster) {
	t.Helper()
	if err := m.resources(c).Delete(t.Context(), cluster.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	m.gone(t, c, cluster.Name)
	connect(t, cluster).emptied(t)
}

// gone waits until the resource is.
func (m team) gone(t *testing.T, c api.Component, name string) {
	t.Helper()
	eventually(t, fmt.Sprintf("%s %s/%s is gone", c.Kind(), m.namespace, name), 3*time.Minute, func(ctx context.Context) error {
		list, err := m.resources(c).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
		if err != nil {
			return err
		}
		if len(list.Items) > 0 {
			return errors.New(fmt.Sprint(list.Items[0].Object["status"]))
		}
		return nil
	})
}
