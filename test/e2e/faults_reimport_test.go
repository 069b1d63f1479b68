// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
)

// TestReimported imports new clusters under the name of a lost cluster, while the hub still has the works of the lost cluster. A
// Knative of another installer is refused and stays unchanged; a new cluster gets the whole Knative, and all Jobs run. The lost cluster
// keeps its Knative when the lost cluster itself comes back.
func TestReimported(t *testing.T) {
	startNightlyStory(t)
	p := newPush(t, lab.Options{ManagedClusters: 1, Spokes: 3, StatusSyncInterval: statusSync}, harness.Options{})
	lost, foreign, empty, detached := p.Managed[0], p.Spokes[0], p.Spokes[1], p.Spokes[2]
	p.bind(t)
	w := way{push: p, spoke: connect(t, lost)}
	w.apply(t, api.Serving, w.Name, kourier())
	w.runs(t)
	w.removeJobs(t)

	t.Run("a cluster that is registered again keeps its Knative", func(t *testing.T) {
		agent := lost.Name + "-agent"
		w.createService(t)
		before := w.record(t)
		w.loseCluster(t, agent)
		if err := w.Start(agent); err != nil {
			t.Fatal(err)
		}
		w.clusterBecomes(t, w.Name, metav1.ConditionTrue)
		w.runs(t)
		if diff := cmp.Diff(before, w.record(t), cmp.AllowUnexported(clusterRecord{})); diff != "" {
			t.Errorf("objects were created again, or pods were restarted (-before +after):\n%s", diff)
		}
		w.removeJobs(t)
	})
	t.Run("a Knative of another installer is refused, and adopted on request", func(t *testing.T) {
		directCluster{push: p, spoke: connect(t, foreign)}.installByHand(t)
		before := connect(t, foreign).restingVersions(t)
		w.replaceCluster(t, lost.Name+"-agent")
		w = w.importBeforeGivingUp(t, foreign)
		w.shows(t, untold(api.ReasonExistingInstallation), "Deployment knative-serving/activator", api.AdoptAnnotation)
		if diff := cmp.Diff(before, resourceVersions(t, w.spoke)); diff != "" {
			t.Fatalf("the foreign Knative was changed (-before +after):\n%s", diff)
		}
		pods := runningPods(t, w.spoke)
		w.annotate(t, api.AdoptAnnotation, "true")
		w.runs(t)
		if diff := cmp.Diff(pods, runningPods(t, w.spoke)); diff != "" {
			t.Errorf("pods were restarted (-before +after):\n%s", diff)
		}
		w.removeJobs(t)
		w.patch(t, map[string]any{"metadata": map[string]any{"annotations": map[string]any{api.AdoptAnnotation: nil}}})
	})
	t.Run("an empty cluster gets the whole Knative, although the former cluster has finished the Jobs", func(t *testing.T) {
		w.loseCluster(t, foreign.Name+"-agent")
		w = w.importAs(t, empty)
		w.checkWhole(t)
	})
	t.Run("an empty cluster gets the whole Knative after OCM has detached the former cluster", func(t *testing.T) {
		shortLease(t, p.team, w.Name)
		w.detach(t, empty.Name+"-agent")
		w = w.importAs(t, detached)
		w.checkWhole(t)
	})
}

// loseCluster ends the agent, and registers a new ManagedCluster of the same name. The manager gives up the works before an agent
// connects, and looks for Knative.
func (w way) loseCluster(t *testing.T, agent string) {
	t.Helper()
	w.replaceCluster(t, agent)
	w.giveUpWorks(t)
}

// replaceCluster ends the agent, and registers a new ManagedCluster of the same name while neither OCM nor the manager runs: nothing is
// cleaned up, so that the works stay on the hub. The manager does not run afterwards.
func (w way) replaceCluster(t *testing.T, agent string) {
	t.Helper()
	const registration = "ocm-registration"
	clusters := w.Clusters.ClusterV1().ManagedClusters()
	replace := func() error {
		if err := clusters.Delete(t.Context(), w.Name, metav1.DeleteOptions{}); err != nil {
			return err
		}
		_, err := clusters.Patch(t.Context(), w.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		if err != nil {
			return err
		}
		_, err = clusters.Create(t.Context(), &clusterv1.ManagedCluster{
			ObjectMeta: metav1.ObjectMeta{Name: w.Name}, Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: true, LeaseDurationSeconds: 60},
		}, metav1.CreateOptions{})
		return err
	}
	if err := errors.Join(w.Stop(agent), w.Stop(harness.Manager), w.Pause(registration), replace()); err != nil {
		t.Fatal(err)
	}
	works, err := w.ComponentWorks(t.Context(), api.Serving, w.Name)
	if err != nil || len(works) < 3 {
		t.Fatalf("the hub has %d works of the lost cluster, error %v", len(works), err)
	}
	if err := w.Resume(registration); err != nil {
		t.Fatal(err)
	}
}

// giveUpWorks starts the manager, and waits until the works of the lost cluster are given up.
func (w way) giveUpWorks(t *testing.T) {
	t.Helper()
	if err := w.Start(harness.Manager); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the works of the lost cluster are given up", time.Minute, func(ctx context.Context) error {
		works, err := w.ComponentWorks(ctx, api.Serving, w.Name)
		if err == nil && (len(works) != 1 || !manifestwork.IsProbe(&works[0])) {
			err = fmt.Errorf("the hub has %d works", len(works))
		}
		return err
	})
}

// importBeforeGivingUp imports a new cluster under the name of the lost cluster. The agent connects while the hub has the works of the
// lost cluster, and an administrator approves the certificate of the agent after the works are given up.
func (w way) importBeforeGivingUp(t *testing.T, c *lab.Cluster) way {
	t.Helper()
	imported, approve, err := w.ReimportUnapproved(t.Context(), c, w.Name)
	if err != nil {
		t.Fatal(err)
	}
	w.giveUpWorks(t)
	if err := approve(t.Context()); err != nil {
		t.Fatal(err)
	}
	return way{push: w.push, spoke: connect(t, imported)}
}

// detach ends the agent, and deletes the ManagedCluster as an administrator does.
func (w way) detach(t *testing.T, agent string) {
	t.Helper()
	clusters := w.Clusters.ClusterV1().ManagedClusters()
	if err := w.Stop(agent); err != nil {
		t.Fatal(err)
	}
	w.clusterBecomes(t, w.Name, metav1.ConditionUnknown)
	if err := clusters.Delete(t.Context(), w.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "ManagedCluster "+w.Name+" is gone", 3*time.Minute, func(ctx context.Context) error {
		mc, err := clusters.Get(ctx, w.Name, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("finalizers %v, conditions %v, error %w", mc.Finalizers, mc.Status.Conditions, err)
		}
		return nil
	})
	w.becomes(t, api.Serving, w.Name, conditionState{api.TargetClusterResolved, metav1.ConditionFalse, ""})
}

// importAs imports a new cluster under the name of the lost cluster.
func (w way) importAs(t *testing.T, c *lab.Cluster) way {
	t.Helper()
	imported, err := w.Reimport(t.Context(), c, w.Name)
	if err != nil {
		t.Fatal(err)
	}
	return way{push: w.push, spoke: connect(t, imported)}
}

// removeJobs deletes the completed Jobs on the cluster, and waits until the hub has recorded the Jobs as finished.
func (w way) removeJobs(t *testing.T) {
	t.Helper()
	w.awaitJobs(t)
	background := metav1.DeletePropagationBackground
	err := w.kube.BatchV1().Jobs(api.Serving.InstallNamespace()).DeleteCollection(t.Context(),
		metav1.DeleteOptions{PropagationPolicy: &background}, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the hub has recorded the finished Jobs of "+w.Name, 3*time.Minute, func(ctx context.Context) error {
		f, err := w.Works.WorkV1().ManifestWorks(w.Name).Get(ctx, manifestwork.FoundationName(api.Serving), metav1.GetOptions{})
		if err == nil && f.Annotations[api.FinishedJobsAnnotation] == "" {
			err = fmt.Errorf("annotations are %v", f.Annotations)
		}
		return err
	})
}

// awaitJobs waits until the cluster has Jobs, and each Job has completed.
func (w way) awaitJobs(t *testing.T) {
	t.Helper()
	eventually(t, "the Jobs of "+w.Name+" have completed", time.Minute, func(ctx context.Context) error {
		list, err := w.kube.BatchV1().Jobs(api.Serving.InstallNamespace()).List(ctx, metav1.ListOptions{})
		if err == nil && len(list.Items) == 0 {
			err = errors.New("no Job exists")
		}
		if err != nil {
			return err
		}
		for i := range list.Items {
			if j := &list.Items[i]; j.Status.CompletionTime == nil {
				return fmt.Errorf("Job %s has status %+v", j.Name, j.Status)
			}
		}
		return nil
	})
}

// checkWhole holds that the cluster has the whole Knative: workloads, Jobs, and webhooks that refuse.
func (w way) checkWhole(t *testing.T) {
	t.Helper()
	w.runs(t)
	w.awaitJobs(t)
	w.guarded(t)
}
