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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	clusterv1 "open-cluster-management.io/api/cluster/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
)

// TestFaultsRemoval removes installations in ways that no controller of this project controls. Each way leaves webhook
// configurations with failurePolicy Fail on the cluster, and no webhook. The add-on must install Knative again without help on the
// cluster.
func TestFaultsRemoval(t *testing.T) {
	startNightlyStory(t)
	p := newPush(t, lab.Options{ManagedClusters: 2, Spokes: 1, StatusSyncInterval: statusSync}, harness.Options{})
	managed, detached, direct := p.Managed[0], p.Managed[1], p.Spokes[0]
	p.token(t, direct.Name, direct, direct.Credential.Token)
	p.apply(t, api.Serving, direct.Name, kourier())
	enabled(t, p.Fleet, []api.Component{api.Serving}, managed, detached)
	p.ready(t, api.Serving, direct.Name)

	t.Run("the foundation is deleted on the hub", func(t *testing.T) { p.deleteFoundation(t, managed) })
	t.Run("the payload is deleted on the hub", func(t *testing.T) { p.deletePayload(t, managed) })
	t.Run("the payload is deleted on the hub while the spec is refused", func(t *testing.T) { p.deleteRefusedPayload(t, managed) })
	t.Run("the install namespace is deleted on a managed cluster", func(t *testing.T) {
		p.deleteInstallNamespace(t, connect(t, managed), func() { available(t, p.Fleet, []api.Component{api.Serving}, managed) })
	})
	t.Run("the install namespace is deleted on a cluster without an agent", func(t *testing.T) {
		p.deleteInstallNamespace(t, connect(t, direct), func() { p.ready(t, api.Serving, direct.Name) })
	})
	t.Run("a cluster is detached while its add-on is paused", func(t *testing.T) { p.detachPaused(t, detached) })
	t.Run("a cluster is detached while its agent is stopped", func(t *testing.T) { p.detachAway(t, detached) })
}

// deploymentUIDs returns the UIDs of the Deployments in the install namespace; an error when there is none.
func (s spoke) deploymentUIDs(ctx context.Context) (map[string]types.UID, error) {
	list, err := s.kube.AppsV1().Deployments("knative-serving").List(ctx, metav1.ListOptions{})
	out := map[string]types.UID{}
	for _, d := range list.Items {
		out[d.Name] = d.UID
	}
	if err == nil && len(out) == 0 {
		err = fmt.Errorf("%s has no Deployments of Serving", s.Name)
	}
	return out, err
}

// guarded waits until every webhook configuration of Knative has a CA bundle and refuses requests when the webhook does not
// respond.
func (s spoke) guarded(t *testing.T) {
	t.Helper()
	eventually(t, "the webhook configurations of "+s.Name+" refuse requests without an answer", 3*time.Minute, func(ctx context.Context) error {
		mutating, err := s.kube.AdmissionregistrationV1().MutatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		validating, err := s.kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		found := 0
		check := func(name, policy string, bundle []byte) error {
			found++
			if policy != "Fail" || len(bundle) == 0 {
				return fmt.Errorf("webhook %s has failurePolicy %s and a CA bundle of %d bytes", name, policy, len(bundle))
			}
			return nil
		}
		for _, c := range mutating.Items {
			for _, w := range c.Webhooks {
				err = errors.Join(err, check(w.Name, string(*w.FailurePolicy), w.ClientConfig.CABundle))
			}
		}
		for _, c := range validating.Items {
			for _, w := range c.Webhooks {
				err = errors.Join(err, check(w.Name, string(*w.FailurePolicy), w.ClientConfig.CABundle))
			}
		}
		if err == nil && found < 3 {
			err = fmt.Errorf("%d webhooks are configured", found)
		}
		return err
	})
}

// deleteFoundation deletes the foundation on the hub. The next foundation has the record of the deleted one: the hub has created the
// Namespace and the CRDs, which a deletion policy may delete.
func (p push) deleteFoundation(t *testing.T, c *lab.Cluster) {
	s, works, name := connect(t, c), p.Works.WorkV1().ManifestWorks(c.Name), manifestwork.FoundationName(api.Serving)
	settled(t, p.Fleet, api.Serving, c)
	before, err := s.deploymentUIDs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	deleted, err := works.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if kept, err := manifestwork.NotCreated(deleted); err != nil || len(kept) > 0 {
		t.Fatalf("the hub has not created %q, error %v", kept, err)
	}
	if err := works.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	var next *workv1.ManifestWork
	eventually(t, "the agent has applied another foundation", 5*time.Minute, func(ctx context.Context) error {
		if next, err = works.Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err
		}
		if applied, why := manifestwork.Applied(next); next.UID == deleted.UID || manifestwork.IsProbe(next) || !applied {
			return fmt.Errorf("UID %s, before %s; annotations %v; %s", next.UID, deleted.UID, next.Annotations, why)
		}
		return nil
	})
	if kept, err := manifestwork.NotCreated(next); err != nil || len(kept) > 0 {
		t.Errorf("the foundation has lost the record of %q, error %v", kept, err)
	}
	want := string(manifestwork.HubOf(deleted))
	if got := s.namespaceMetadata(t, servingNamespace).Annotations[api.CreatedByHubAnnotation]; got != want {
		t.Errorf("Namespace %s says that hub %q has created it, want %q", servingNamespace, got, want)
	}
	settled(t, p.Fleet, api.Serving, c)
	available(t, p.Fleet, []api.Component{api.Serving}, c)
	after, err := s.deploymentUIDs(t.Context())
	if diff := cmp.Diff(before, after); err != nil || diff != "" {
		t.Errorf("Deployments were recreated (-before +after), error %v:\n%s", err, diff)
	}
}

// deletePayload deletes the payload on the hub: the work agent deletes Knative, except for the webhook configurations.
func (p push) deletePayload(t *testing.T, c *lab.Cluster) {
	p.reinstallPayload(t, c)
	event(t, p.team, "WebhooksUnblocked", "ConfigMap knative-serving/config-")
}

// reinstallPayload deletes the payload on the hub, and waits until the cluster has Knative again.
func (p push) reinstallPayload(t *testing.T, c *lab.Cluster) {
	t.Helper()
	s := connect(t, c)
	before, err := s.deploymentUIDs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	work, err := payload(t.Context(), p.Fleet, c)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Works.WorkV1().ManifestWorks(c.Name).Delete(t.Context(), work.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.reinstalled(t, before)
	available(t, p.Fleet, []api.Component{api.Serving}, c)
	s.guarded(t)
}

// deleteRefusedPayload deletes the payload on the hub while the spec of the fleet is refused. The cluster gets the former spec again, and OCM
// does not count the cluster as complete. The repaired spec, which is the former spec, changes no payload.
func (p push) deleteRefusedPayload(t *testing.T, c *lab.Cluster) {
	settled(t, p.Fleet, api.Serving, c)
	before, err := payload(t.Context(), p.Fleet, c)
	if err != nil {
		t.Fatal(err)
	}
	p.version(t, "9.9")
	config, err := p.readDefault(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	refused, err := hashOf(config)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the add-on is Degraded, and OCM wants the refused spec", time.Minute, func(ctx context.Context) error {
		degraded := apimeta.FindStatusCondition(p.addOn(ctx, t, api.Serving, c.Name).Status.Conditions, api.Degraded)
		desired, _, err := p.specHashesOf(ctx, c.Name)
		if err == nil && (desired != refused || degraded == nil || !strings.Contains(degraded.Message, "9.9")) {
			err = fmt.Errorf("OCM wants spec %.8s, not %.8s; the condition is %+v", desired, refused, degraded)
		}
		return err
	})
	p.reinstallPayload(t, c)
	again, err := payload(t.Context(), p.Fleet, c)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(manifestwork.ConfigsOf(before), manifestwork.ConfigsOf(again)); diff != "" || again.UID == before.UID {
		t.Errorf("the payload with UID %s, before %s, has another mark (-before +after):\n%s", again.UID, before.UID, diff)
	}
	if _, completed, err := p.specHashesOf(t.Context(), c.Name); err != nil || completed == refused {
		t.Errorf("OCM has taken the cluster for complete, error %v", err)
	}
	p.version(t, "1.23")
	eventually(t, "the fleet's resource is Ready", 2*time.Minute, p.checkFleetReady(metav1.ConditionTrue, ""))
	settled(t, p.Fleet, api.Serving, c)
	repaired, err := payload(t.Context(), p.Fleet, c)
	if err != nil || repaired.UID != again.UID || repaired.Generation != again.Generation {
		t.Errorf("the repaired spec has changed the payload from generation %d of %s to generation %d of %s, error %v",
			again.Generation, again.UID, repaired.Generation, repaired.UID, err)
	}
}

// reinstalled waits until the cluster has every Deployment with another UID.
func (s spoke) reinstalled(t *testing.T, before map[string]types.UID) {
	t.Helper()
	eventually(t, "every Deployment of "+s.Name+" is a new one", 5*time.Minute, func(ctx context.Context) error {
		now, err := s.deploymentUIDs(ctx)
		if err != nil {
			return err
		}
		for name, uid := range before {
			if now[name] == "" || now[name] == uid {
				return fmt.Errorf("Deployment %s has UID %q and had UID %q", name, now[name], uid)
			}
		}
		return nil
	})
}

// deleteInstallNamespace deletes the install namespace on the cluster.
func (p push) deleteInstallNamespace(t *testing.T, s spoke, ready func()) {
	before, err := s.deploymentUIDs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.kube.CoreV1().Namespaces().Delete(t.Context(), "knative-serving", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.reinstalled(t, before)
	ready()
	s.guarded(t)
}

// detachPaused deletes the ManagedCluster of a cluster whose agent runs and whose add-on is paused. OCM refuses the Lease of the agent after the
// deletion, and reports the cluster as unavailable: the removal waits for the user all the same, and then goes in order.
func (p push) detachPaused(t *testing.T, c *lab.Cluster) {
	settled(t, p.Fleet, api.Serving, c)
	shortLease(t, p.team, c.Name)
	p.annotate(t, c, api.PausedAnnotation, "true")
	before := p.readInstallation(t, c)
	clusters := p.Clusters.ClusterV1().ManagedClusters()
	if err := clusters.Delete(t.Context(), c.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.clusterBecomes(t, c.Name, metav1.ConditionUnknown)
	p.untouched(t, c, before)
	p.annotate(t, c, api.PausedAnnotation, "false")
	p.detached(t, c.Name)
	p.removed(t, c)
	p.rejoin(t, c)
}

// detached waits until the ManagedCluster is gone.
func (p push) detached(t *testing.T, cluster string) {
	t.Helper()
	eventually(t, "ManagedCluster "+cluster+" is gone", 3*time.Minute, func(ctx context.Context) error {
		mc, err := p.Clusters.ClusterV1().ManagedClusters().Get(ctx, cluster, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("finalizers %v, conditions %v, error %w", mc.Finalizers, mc.Status.Conditions, err)
		}
		return nil
	})
}

// rejoin lets a detached cluster join again, and enables the add-on.
func (p push) rejoin(t *testing.T, c *lab.Cluster) {
	t.Helper()
	_, err := p.Clusters.ClusterV1().ManagedClusters().Create(t.Context(), &clusterv1.ManagedCluster{
		ObjectMeta: metav1.ObjectMeta{Name: c.Name}, Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: true, LeaseDurationSeconds: 60},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	p.clusterBecomes(t, c.Name, metav1.ConditionTrue)
	enabled(t, p.Fleet, []api.Component{api.Serving}, c)
}

// detachAway deletes the ManagedCluster of a cluster whose agent is away, lets the cluster join again, and enables the add-on.
func (p push) detachAway(t *testing.T, c *lab.Cluster) {
	s := connect(t, c)
	settled(t, p.Fleet, api.Serving, c)
	before, err := s.deploymentUIDs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	shortLease(t, p.team, c.Name)
	p.away(t, c)
	if err := p.Clusters.ClusterV1().ManagedClusters().Delete(t.Context(), c.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.detached(t, c.Name)
	p.worksGone(t, c)
	event(t, p.team, "Orphaned", c.Name, "leaves the hub", "activator")
	if err := p.Start(c.Name + "-agent"); err != nil {
		t.Fatal(err)
	}
	p.rejoin(t, c)
	now, err := s.deploymentUIDs(t.Context())
	if diff := cmp.Diff(before, now); err != nil || diff != "" {
		t.Errorf("Knative did not stay on %s (-before +after), error %v:\n%s", c.Name, err, diff)
	}
	s.guarded(t)
	p.disable(t, c)
	p.removed(t, c)
}
