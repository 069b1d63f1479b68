// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
)

const servingNamespace = "knative-serving"

// TestPayloadFaults installs Serving where the work agent cannot apply the whole payload at first, and has a work agent find the
// payload complete.
func TestPayloadFaults(t *testing.T) {
	startRestStory(t)
	f := ownFleet(t, lab.Options{ManagedClusters: 1, StatusSyncInterval: statusSync})
	m, c := team{Fleet: f}, f.Managed[0]

	t.Run("a quota delays the ConfigMaps", func(t *testing.T) { delayByQuota(t, m, c) })
	t.Run("commands show and change the fleet", func(t *testing.T) { commandFleet(t, m, c) })
	t.Run("a complete payload is applied again", func(t *testing.T) { reapplyComplete(t, m, c) })
	t.Run("a complete payload is removed", func(t *testing.T) { removeComplete(t, m, c) })
}

// delayByQuota enables Serving in a Namespace of the cluster whose quota refuses new ConfigMaps until the Jobs have finished.
func delayByQuota(t *testing.T, m team, c *lab.Cluster) {
	s := connect(t, c)
	before := s.createNamespace(t)
	quotas := s.kube.CoreV1().ResourceQuotas(servingNamespace)
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "few"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/configmaps": resource.MustParse("0")}},
	}
	if _, err := quotas.Create(t.Context(), quota, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the quota is in force", time.Minute, func(ctx context.Context) error {
		q, err := quotas.Get(ctx, quota.Name, metav1.GetOptions{})
		if err == nil && len(q.Status.Hard) == 0 {
			err = errors.New("it has no status")
		}
		return err
	})
	if err := m.Enable(t.Context(), []string{api.Serving.AddOnName()}, []string{c.Name}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the agent reports finished Jobs and refused ConfigMaps", 3*time.Minute, func(ctx context.Context) error {
		p, err := payload(ctx, m.Fleet, c)
		if err != nil {
			return err
		}
		return checkHalfApplied(p)
	})
	operator{m.Fleet}.showRefusedObjects(t, c)
	if err := quotas.Delete(t.Context(), quota.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	available(t, m.Fleet, []api.Component{api.Serving}, c)
	if diff := cmp.Diff(before, s.namespaceMetadata(t, servingNamespace)); diff != "" {
		t.Errorf("Namespace %s was there before, and was changed (-before +after):\n%s", servingNamespace, diff)
	}
}

// checkHalfApplied returns an error unless all Jobs of the payload have finished and a ConfigMap is refused.
func checkHalfApplied(p *workv1.ManifestWork) error {
	jobs, refused := 0, 0
	for _, m := range p.Status.ResourceStatus.Manifests {
		switch m.ResourceMeta.Kind {
		case "Job":
			if !apimeta.IsStatusConditionTrue(m.Conditions, "Finished") {
				return fmt.Errorf("Job %s: %+v", m.ResourceMeta.Name, m.Conditions)
			}
			jobs++
		case "ConfigMap":
			if apimeta.IsStatusConditionFalse(m.Conditions, workv1.ManifestApplied) {
				refused++
			}
		}
	}
	if jobs == 0 || refused == 0 {
		return fmt.Errorf("%d Jobs, %d refused ConfigMaps", jobs, refused)
	}
	return nil
}

// createNamespace creates the install namespace with a label of its own and a label of Knative, and returns its metadata.
func (s spoke) createNamespace(t *testing.T) namespaceMetadata {
	t.Helper()
	_, err := s.kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name:        servingNamespace,
		Labels:      map[string]string{"team": "platform", "app.kubernetes.io/name": "ours"},
		Annotations: map[string]string{"cost-center": "7"},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s.namespaceMetadata(t, servingNamespace)
}

// namespaceMetadata are the parts of a Namespace that an installation could change.
type namespaceMetadata struct{ Labels, Annotations map[string]string }

func (s spoke) namespaceMetadata(t *testing.T, name string) namespaceMetadata {
	t.Helper()
	n, err := s.kube.CoreV1().Namespaces().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return namespaceMetadata{n.Labels, n.Annotations}
}

// completePayload stops the manager and makes the agent report the payload as complete, as the payload of an older manager could be.
func completePayload(t *testing.T, m team, c *lab.Cluster) {
	t.Helper()
	if err := m.Stop(harness.Manager); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the payload has a rule for Complete", time.Minute, func(ctx context.Context) error {
		p, err := payload(ctx, m.Fleet, c)
		if err != nil {
			return err
		}
		for i, config := range p.Spec.ManifestConfigs {
			if config.ResourceIdentifier.Resource == "jobs" {
				p.Spec.ManifestConfigs[i].ConditionRules = []workv1.ConditionRule{{Type: workv1.WellKnownConditionsType, Condition: workv1.ManifestComplete}}
			}
		}
		_, err = m.Works.WorkV1().ManifestWorks(c.Name).Update(ctx, p, metav1.UpdateOptions{})
		return err
	})
	eventually(t, "the agent reports the payload as complete", time.Minute, func(ctx context.Context) error {
		p, err := payload(ctx, m.Fleet, c)
		if err == nil && !apimeta.IsStatusConditionTrue(p.Status.Conditions, workv1.WorkComplete) {
			err = fmt.Errorf("%+v", p.Status.Conditions)
		}
		return err
	})
}

// startManager starts the manager that completePayload has stopped.
func startManager(t *testing.T, m team) {
	t.Helper()
	if err := m.Start(harness.Manager); err != nil {
		t.Fatal(err)
	}
}

// reapplyComplete has the manager find a complete payload, in which the agent repairs nothing.
func reapplyComplete(t *testing.T, m team, c *lab.Cluster) {
	completePayload(t, m, c)
	deployments := connect(t, c).kube.AppsV1().Deployments(servingNamespace)
	if err := deployments.Delete(t.Context(), "autoscaler", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	startManager(t, m)
	eventually(t, "the agent recreates the Deployment", 3*time.Minute, func(ctx context.Context) error {
		_, err := deployments.Get(ctx, "autoscaler", metav1.GetOptions{})
		return err
	})
	available(t, m.Fleet, []api.Component{api.Serving}, c)
}

// removeComplete has the manager find a complete payload whose add-on is being deleted.
func removeComplete(t *testing.T, m team, c *lab.Cluster) {
	completePayload(t, m, c)
	deleted := watchDeletedWebhooks(t, connect(t, c))
	m.disable(t, c)
	startManager(t, m)
	m.removed(t, c)
	checkFailuresIgnored(t, deleted())
}

// watchDeletedWebhooks collects the last versions of deleted validating webhook configurations. The returned function waits until the watch
// has shown the deletion of every configuration of Knative, and ends the watch.
func watchDeletedWebhooks(t *testing.T, s spoke) (stop func() []admissionregistrationv1.ValidatingWebhookConfiguration) {
	t.Helper()
	configurations := s.kube.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	list, err := configurations.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	watched, err := configurations.Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var deleted []admissionregistrationv1.ValidatingWebhookConfiguration
	var events sync.WaitGroup
	events.Go(func() {
		for event := range watched.ResultChan() {
			if c, isConfiguration := event.Object.(*admissionregistrationv1.ValidatingWebhookConfiguration); isConfiguration && event.Type == watch.Deleted {
				mu.Lock()
				deleted = append(deleted, *c)
				mu.Unlock()
			}
		}
	})
	isDeleted := func(name string) bool {
		mu.Lock()
		defer mu.Unlock()
		return slices.ContainsFunc(deleted, func(c admissionregistrationv1.ValidatingWebhookConfiguration) bool { return c.Name == name })
	}
	return func() []admissionregistrationv1.ValidatingWebhookConfiguration {
		t.Helper()
		eventually(t, "the watch shows the deletion of the webhook configurations", time.Minute, func(context.Context) error {
			for _, c := range list.Items {
				if strings.Contains(c.Name, "knative") && !isDeleted(c.Name) {
					return fmt.Errorf("the watch has not shown the deletion of %s", c.Name)
				}
			}
			return nil
		})
		watched.Stop()
		events.Wait()
		return deleted
	}
}

// checkFailuresIgnored holds that no webhook could refuse a request to the cluster after the end of the webhook process.
func checkFailuresIgnored(t *testing.T, deleted []admissionregistrationv1.ValidatingWebhookConfiguration) {
	t.Helper()
	if len(deleted) == 0 {
		t.Error("no webhook configuration was deleted")
	}
	for _, c := range deleted {
		for _, w := range c.Webhooks {
			if w.FailurePolicy == nil || *w.FailurePolicy != admissionregistrationv1.Ignore {
				t.Errorf("when ValidatingWebhookConfiguration %q was deleted, a failure of webhook %q refused requests", c.Name, w.Name)
			}
		}
	}
}
