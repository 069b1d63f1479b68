// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"open-cluster-management.io/knative-addon/manifests"
	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
)

// sharedCluster are the two ways in which a hub reaches the cluster that it shares with another one.
type sharedCluster struct{ pull, push way }

// TestTwoHubs has two hubs install on one cluster, in either way. The second one touches nothing, says why, and goes on by
// itself when the first one is gone.
func TestTwoHubs(t *testing.T) {
	startNightlyStory(t)
	p := newPush(t, lab.Options{ManagedClusters: 1, StatusSyncInterval: statusSync}, harness.Options{})
	q := newPush(t, lab.Options{StatusSyncInterval: statusSync}, harness.Options{})
	c := p.Managed[0]
	if err := q.Join(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	checkShared(t, q.Lab, c)
	token := directCluster{push: p, spoke: connect(t, c)}.newToken(t)
	one, two := shareCluster(t, p, c, token), shareCluster(t, q, c, token)

	t.Run("the work agent of one hub, then the other hub in either delivery mode", func(t *testing.T) {
		one.pull.installResource(t)
		two.push.refused(t, "AppliedManifestWork", "Deployment knative-serving/activator")
		two.push.leaves(t)
		two.enableByUser(t)
		two.pull.refused(t, "AppliedManifestWork", "Deployment knative-serving/activator", "another hub, whose namespace kube-system has UID")
		one.pull.leaves(t)
		two.pull.runs(t)
	})
	t.Run("the work agent of one hub, then the other hub directly", func(t *testing.T) {
		one.push.refused(t, "AppliedManifestWork")
		two.pull.leaves(t)
		one.push.shows(t, verdicts{})
	})
	t.Run("one hub directly, then the other hub in either delivery mode", func(t *testing.T) {
		two.push.refused(t, "of another hub")
		two.push.leaves(t)
		two.pull.refused(t, "Direct delivery", "Deployment knative-serving/activator")
		one.push.leaves(t)
		two.pull.shows(t, verdicts{})
		two.pull.leaves(t)
	})
	t.Run("a Knative of no hub is unchanged and later adopted without a restart of pods", func(t *testing.T) { one.pull.adoptForeign(t) })
}

// shareCluster is how a hub reaches the cluster.
func shareCluster(t *testing.T, p push, c *lab.Cluster, token string) sharedCluster {
	t.Helper()
	p.bind(t)
	s := connect(t, c)
	shared := *c
	shared.Name = "direct" // OCM's ClusterProfile has the cluster's name
	out := sharedCluster{pull: way{push: p, spoke: s}, push: way{push: p, spoke: s}}
	out.push.Cluster = &shared
	p.token(t, shared.Name, &shared, token)
	return out
}

func (w way) installResource(t *testing.T) {
	t.Helper()
	w.apply(t, api.Serving, w.Name, kourier())
	w.runs(t)
}

// runs waits until the work agent has nothing more to write.
func (w way) runs(t *testing.T) {
	t.Helper()
	w.shows(t, verdicts{})
	settled(t, w.Fleet, api.Serving, w.Cluster)
}

func (w way) leaves(t *testing.T) {
	t.Helper()
	w.delete(t)
	w.gone(t, api.Serving, w.Name)
}

// refused makes the resource on a cluster that is somebody else's.
func (w way) refused(t *testing.T, says ...string) {
	t.Helper()
	before := w.restingVersions(t)
	w.apply(t, api.Serving, w.Name, kourier())
	w.shows(t, untold(api.ReasonTargetConflict), append(says, w.Name)...)
	if diff := cmp.Diff(before, resourceVersions(t, w.spoke)); diff != "" {
		t.Errorf("the second hub has touched the cluster (-before +after):\n%s", diff)
	}
}

// enableByUser enables the add-on without a resource of its own, and disables it.
func (h sharedCluster) enableByUser(t *testing.T) {
	t.Helper()
	w, name := h.pull, api.Serving.AddOnName()
	before := w.restingVersions(t)
	if err := w.Enable(t.Context(), []string{name}, []string{w.Name}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the add-on tells of the conflict", time.Minute, func(ctx context.Context) error {
		a, err := w.AddOns.AddonV1beta1().ManagedClusterAddOns(w.Name).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		c := apimeta.FindStatusCondition(a.Status.Conditions, api.TargetClusterResolved)
		if c == nil || c.Status != metav1.ConditionFalse || c.Reason != api.ReasonTargetConflict || !strings.Contains(c.Message, "AppliedManifestWork") {
			return fmt.Errorf("it says %v", c)
		}
		return nil
	})
	if diff := cmp.Diff(before, resourceVersions(t, w.spoke)); diff != "" {
		t.Errorf("the add-on has touched the cluster (-before +after):\n%s", diff)
	}
	if err := w.Disable(t.Context(), []string{name}, []string{w.Name}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the add-on and its probe are gone", time.Minute, func(ctx context.Context) error {
		_, err := w.AddOns.AddonV1beta1().ManagedClusterAddOns(w.Name).Get(ctx, name, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("the add-on is there (error %w)", err)
		}
		works, err := w.ComponentWorks(ctx, api.Serving, w.Name)
		if err == nil && len(works) > 0 {
			err = errors.New("there is a work")
		}
		return err
	})
}

// resourceVersions are the resource versions of what belongs to Knative on the cluster. The ClusterRole of a probe does not: the role gives
// a permission to the work agent.
func resourceVersions(t *testing.T, s spoke) map[string]string {
	t.Helper()
	out := map[string]string{}
	for resource, group := range map[string]string{
		"namespaces": "", "configmaps": "", "services": "", "serviceaccounts": "", "secrets": "", "deployments": "apps",
		"clusterroles": "rbac.authorization.k8s.io", "clusterrolebindings": "rbac.authorization.k8s.io",
		"customresourcedefinitions":       "apiextensions.k8s.io",
		"validatingwebhookconfigurations": "admissionregistration.k8s.io", "mutatingwebhookconfigurations": "admissionregistration.k8s.io",
	} {
		for _, o := range s.list(t, group, "v1", resource) {
			name := resource + " " + o.GetNamespace() + "/" + o.GetName()
			if strings.Contains(name, "knative") && o.GetName() != manifests.ProbeRoleName(api.Serving) {
				out[name] = o.GetResourceVersion()
			}
		}
	}
	return out
}

// restingVersions waits until nobody writes to the Knative of a cluster any more, and returns the resource versions.
func (s spoke) restingVersions(t *testing.T) map[string]string {
	t.Helper()
	s.awaitWebhooksWritten(t)
	return awaitRest(t, "the Knative of "+s.Name, func(context.Context) (map[string]string, error) {
		return resourceVersions(t, s), nil //nolint:contextcheck // the function uses the context of the test
	})
}

// restingSpecs waits until nobody writes to the Knative of a cluster any more, and returns what specs returns.
func (s spoke) restingSpecs(t *testing.T) map[string]string {
	t.Helper()
	return restingSpecsOf(t, s)[s.Name]
}

// restingSpecsOf waits until nobody writes to the Knative of any of the clusters any more, and returns what specs returns, by cluster.
func restingSpecsOf(t *testing.T, spokes ...spoke) map[string]map[string]string {
	t.Helper()
	var clusters []string
	for _, s := range spokes {
		s.awaitWebhooksWritten(t)
		clusters = append(clusters, s.Name)
	}
	var last map[string]map[string]string
	awaitRest(t, "the Knative of "+strings.Join(clusters, ", "), func(context.Context) (map[string]string, error) {
		last = map[string]map[string]string{}
		all := map[string]string{}
		for _, s := range spokes {
			last[s.Name] = specs(t, s) //nolint:contextcheck // the function uses the context of the test
			for name, version := range last[s.Name] {
				all[s.Name+" "+name] = version
			}
		}
		return all, nil
	})
	return last
}

// adoptForeign has Knative installed by somebody else.
func (w way) adoptForeign(t *testing.T) {
	directCluster{push: w.push, spoke: w.spoke}.installByHand(t)
	before, pods := w.restingVersions(t), runningPods(t, w.spoke)
	w.apply(t, api.Serving, w.Name, kourier())
	w.shows(t, untold(api.ReasonExistingInstallation), "Deployment knative-serving/activator", api.AdoptAnnotation)
	if diff := cmp.Diff(before, resourceVersions(t, w.spoke)); diff != "" {
		t.Errorf("it was not left alone (-before +after):\n%s", diff)
	}
	w.annotate(t, api.AdoptAnnotation, "true")
	w.shows(t, verdicts{})
	if diff := cmp.Diff(pods, runningPods(t, w.spoke)); diff != "" {
		t.Errorf("pods were restarted (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(before, resourceVersions(t, w.spoke)); diff == "" {
		t.Error("it was not taken over")
	}
}

// awaitWebhooksWritten waits until the webhooks of Knative have written their CA into each webhook configuration and CRD that leads to the webhooks.
func (s spoke) awaitWebhooksWritten(t *testing.T) {
	t.Helper()
	eventually(t, "Knative has written its webhook configurations", time.Minute, func(ctx context.Context) error {
		configs, err := s.readWebhooks(ctx)
		if err != nil {
			return err
		}
		if _, found := configs["webhook.serving.knative.dev"]; !found {
			return errors.New("the cluster has no webhook configuration of Serving")
		}
		for name, config := range configs {
			service := config.Service
			isLab := service != nil && strings.HasPrefix(service.Namespace, "knative-") && (service.Name == "webhook" || service.Name == "eventing-webhook")
			if isLab && len(config.CABundle) == 0 { // the lab runs the programs of these two Services
				return fmt.Errorf("%s has no CA", name)
			}
		}
		return nil
	})
}

// readWebhooks returns how the cluster's API server reaches webhooks, by the name of the webhook configuration or CRD.
func (s spoke) readWebhooks(ctx context.Context) (map[string]admissionregistrationv1.WebhookClientConfig, error) {
	out := map[string]admissionregistrationv1.WebhookClientConfig{}
	validating, err := s.kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, c := range validating.Items {
		out[c.Name] = c.Webhooks[0].ClientConfig
	}
	mutating, err := s.kube.AdmissionregistrationV1().MutatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, c := range mutating.Items {
		out[c.Name] = c.Webhooks[0].ClientConfig
	}
	crds, err := s.dynamic.Resource(crdResource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, u := range crds.Items {
		var crd struct {
			Spec struct {
				Conversion struct {
					Webhook struct {
						ClientConfig admissionregistrationv1.WebhookClientConfig `json:"clientConfig"`
					} `json:"webhook"`
				} `json:"conversion"`
			} `json:"spec"`
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &crd); err != nil {
			return nil, err
		}
		out[u.GetName()] = crd.Spec.Conversion.Webhook.ClientConfig
	}
	return out, nil
}
