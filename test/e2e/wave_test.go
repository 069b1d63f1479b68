// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/lab"
)

// canaries is the decision group of the last two clusters.
const canaries = "canaries"

// TestWaves is about changes that never become ready, and how far they come: pods of the changed Deployment find no node,
// while the old ones go on running. Add-ons are watched from the beginning to the end: no cluster may ever be taken for
// complete with such a change.
func TestWaves(t *testing.T) {
	startRestStory(t)
	// Without a lease that a killed manager would keep for a while.
	f := ownFleet(t, lab.Options{ManagedClusters: 4, StatusSyncInterval: statusSync}, "--leader-elect=false")
	m := newTeam(t, f, "platform")
	for _, c := range f.Managed[2:] {
		_, err := f.Clusters.ClusterV1().ManagedClusters().Patch(t.Context(), c.Name, types.MergePatchType,
			[]byte(`{"metadata":{"labels":{"group":"`+canaries+`"}}}`), metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	m.createPlacement(t, clusterv1beta1.DecisionGroup{
		GroupName:       canaries,
		ClusterSelector: clusterv1beta1.GroupClusterSelector{LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"group": canaries}}},
	})
	available(t, f, []api.Component{api.Serving}, f.Managed...)
	good := m.specHash(t)
	eventually(t, "all clusters have completed the first spec", 3*time.Minute, m.checkCompleted(good, len(f.Managed)))
	w := watchCompletions(t, m)

	t.Run("a change that never becomes Ready stops in the first wave", func(t *testing.T) { failFirstWave(t, w) })
	t.Run("a rollout continues after as many failed clusters as maxFailures allows", func(t *testing.T) { passOverFailed(t, w) })
	t.Run("a wave waits for minSuccessTime of the wave before", func(t *testing.T) { waitMinSuccessTime(t, w) })
	t.Run("a failed mandatory decision group stops the rollout", func(t *testing.T) { failMandatoryGroup(t, w) })
	t.Run("a change of all clusters at once completes on no cluster", func(t *testing.T) { failAllAtOnce(t, w) })
	t.Run("a complete cluster whose workloads fail completes the spec anew", func(t *testing.T) { failComplete(t, w) })
	w.checkNoViolations(t)
}

// setRolloutStrategy sets the rollout strategy.
func (m team) setRolloutStrategy(t *testing.T, strategy string) {
	t.Helper()
	m.setInstallStrategy(t, api.Serving, fmt.Sprintf(`{"type":"Placements","placements":[{"namespace":%q,"name":%q,"rolloutStrategy":%s}]}`,
		m.namespace, placementName, strategy))
}

func failFirstWave(t *testing.T, w *completionWatch) {
	first, rest := w.m.Managed[:2], w.m.Managed[2:]
	w.m.setRolloutStrategy(t, `{"type":"Progressive","progressive":{"maxConcurrency":2,"minSuccessTime":"2s","progressDeadline":"15s","maxFailures":0}}`)
	good, before := w.m.specHash(t), w.m.written(t, rest)
	bad := w.breakDeployment(t, "first-wave")
	w.m.holds(t, bad, good, first...)
	w.m.awaitTimedOut(t, len(first))
	w.m.awaitNoWrites(t, first...)
	w.m.replaceManager(t)
	w.m.holds(t, bad, good, first...)
	w.m.only(t, bad, first...)
	if diff := cmp.Diff(before, w.m.written(t, rest)); diff != "" {
		t.Errorf("works of clusters after the first wave were written to (-before +after):\n%s", diff)
	}
	w.m.rollBack(t, good)
	if diff := cmp.Diff(before, w.m.written(t, rest)); diff != "" {
		t.Errorf("works of clusters after the first wave were written to on the way back (-before +after):\n%s", diff)
	}
}

func passOverFailed(t *testing.T, w *completionWatch) {
	w.m.setRolloutStrategy(t, `{"type":"Progressive","progressive":{"maxConcurrency":1,"minSuccessTime":"2s","progressDeadline":"5s","maxFailures":1}}`)
	good := w.m.specHash(t)
	bad := w.breakDeployment(t, "passed-over")
	w.m.awaitTimedOut(t, 2) // one is allowed, so that it takes a second to stop
	w.m.holds(t, bad, good, w.m.Managed[:2]...)
	w.m.only(t, bad, w.m.Managed[:2]...)
}

// waitMinSuccessTime fixes the configuration that the stage before left, on clusters with that configuration and without.
func waitMinSuccessTime(t *testing.T, w *completionWatch) {
	const concurrency, minimum = 2, 4 * time.Second
	w.m.setRolloutStrategy(t, fmt.Sprintf(`{"type":"Progressive","progressive":{"maxConcurrency":%d,"minSuccessTime":%q,"progressDeadline":"5m","maxFailures":0}}`, concurrency, minimum))
	w.m.patchDefault(t, `{"spec":{"workloads":null,"config":{"deployment":{"progress-deadline":"7001s"}}}}`)
	hash := w.m.specHash(t)
	eventually(t, "all clusters have the mended spec", 5*time.Minute, w.m.checkCompleted(hash, len(w.m.Managed)))
	w.m.awaitRolloutMessage(t, "completed with no errors")
	w.awaitTimes(t, hash)
	w.mu.Lock()
	defer w.mu.Unlock()
	for cluster, began := range w.began[hash] {
		var busy []string
		for other, otherBegan := range w.began[hash] {
			end, ok := w.ended[hash][other]
			if other != cluster && !otherBegan.After(began) && (!ok || end.Add(minimum).After(began)) {
				busy = append(busy, other)
			}
		}
		if len(busy) >= concurrency {
			t.Errorf("%s began at %s while %v were not complete for %s", cluster, began.Format(time.TimeOnly), busy, minimum)
		}
	}
}

func failMandatoryGroup(t *testing.T, w *completionWatch) {
	first, rest := w.m.Managed[2:], w.m.Managed[:2]
	w.m.setRolloutStrategy(t, `{"type":"ProgressivePerGroup","progressivePerGroup":{"minSuccessTime":"2s","progressDeadline":"10s","maxFailures":"100%","mandatoryDecisionGroups":[{"groupName":"`+canaries+`"}]}}`)
	good, before := w.m.specHash(t), w.m.written(t, rest)
	bad := w.breakDeployment(t, "canaries")
	w.m.holds(t, bad, good, first...)
	w.m.awaitTimedOut(t, len(first))
	w.m.only(t, bad, first...)
	if diff := cmp.Diff(before, w.m.written(t, rest)); diff != "" {
		t.Errorf("works of clusters after the mandatory group were written to (-before +after):\n%s", diff)
	}
	w.m.patchDefault(t, `{"spec":{"workloads":null,"config":{"deployment":{"progress-deadline":"7002s"}}}}`)
	mended := w.m.specHash(t)
	eventually(t, "all clusters have the mended spec", 5*time.Minute, w.m.checkCompleted(mended, len(w.m.Managed)))
	w.m.awaitRolloutMessage(t, "completed with no errors")
	w.awaitTimes(t, mended)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range rest {
		for _, canary := range first {
			if began, ended := w.began[mended][c.Name], w.ended[mended][canary.Name]; began.Before(ended) {
				t.Errorf("%s began at %s, before %s of the mandatory group was complete at %s", c.Name, began, canary.Name, ended)
			}
		}
	}
}

func failAllAtOnce(t *testing.T, w *completionWatch) {
	w.m.setRolloutStrategy(t, `{"type":"All","all":{"progressDeadline":"5s"}}`)
	good := w.m.specHash(t)
	bad := w.breakDeployment(t, "all")
	w.m.holds(t, bad, good, w.m.Managed...)
	w.m.awaitTimedOut(t, len(w.m.Managed))
	w.m.rollBack(t, good)
}

// failComplete stops pods of a complete cluster: OCM has to count minSuccessTime anew, and nothing is written until the pods run again.
func failComplete(t *testing.T, w *completionWatch) {
	c, hash := w.m.Managed[0], w.m.specHash(t)
	s := connect(t, c)
	cordon(t, s, true)
	if err := s.kube.CoreV1().Pods(servingNamespace).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "app=controller"}); err != nil {
		t.Fatal(err)
	}
	w.m.holds(t, hash, hash, c)
	w.m.awaitNoWrites(t, c)
	cordon(t, s, false)
	eventually(t, c.Name+" is complete again", 3*time.Minute, func(ctx context.Context) error {
		a, err := w.m.current(ctx, c)
		if err != nil || a == nil {
			return fmt.Errorf("the add-on is %v, error %w", a, err)
		}
		progressing := apimeta.FindStatusCondition(a.Status.Conditions, addonv1beta1.ManagedClusterAddOnConditionProgressing)
		if progressing == nil || progressing.Reason != addonv1beta1.ProgressingReasonCompleted {
			return fmt.Errorf("condition Progressing is %+v", progressing)
		}
		return nil
	})
}

// awaitTimes waits until the watch has seen every cluster begin and complete the spec with the hash.
func (w *completionWatch) awaitTimes(t *testing.T, hash string) {
	t.Helper()
	eventually(t, "the watch has seen every cluster begin and end", time.Minute, func(context.Context) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if all := len(w.m.Managed); len(w.began[hash]) != all || len(w.ended[hash]) != all {
			return fmt.Errorf("%d clusters were seen to begin, and %d to end", len(w.began[hash]), len(w.ended[hash]))
		}
		return nil
	})
}

// breakDeployment changes the configuration so that new pods of a Deployment find no node.
func (w *completionWatch) breakDeployment(t *testing.T, name string) (hash string) {
	t.Helper()
	w.m.patchDefault(t, fmt.Sprintf(`{"spec":{"workloads":[{"name":"controller","nodeSelector":{"story":%q}}]}}`, name))
	hash = w.m.specHash(t)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.never = append(w.never, hash)
	return hash
}

// holds waits until the clusters are to have a spec, have completed another, and say which workload they wait for.
func (m team) holds(t *testing.T, desired, completed string, clusters ...*lab.Cluster) {
	t.Helper()
	for _, c := range clusters {
		eventually(t, c.Name+" holds its wave and says why", 3*time.Minute, func(ctx context.Context) error {
			d, last, err := m.specHashesOf(ctx, c.Name)
			if err != nil || d != desired || last != completed {
				return fmt.Errorf("it is to have %.8s and has completed %.8s, want %.8s and %.8s, error %w", d, last, desired, completed, err)
			}
			a, err := m.current(ctx, c)
			if err != nil || a == nil {
				return fmt.Errorf("the add-on is %v, error %w", a, err)
			}
			why := apimeta.FindStatusCondition(a.Status.Conditions, addonv1beta1.ManagedClusterAddOnConditionAvailable)
			if !apimeta.IsStatusConditionTrue(a.Status.Conditions, addonv1beta1.ManagedClusterAddOnConditionProgressing) ||
				why == nil || why.Status != metav1.ConditionFalse || !strings.Contains(why.Message, "Deployment knative-serving/controller") {
				return fmt.Errorf("want Progressing, and not Available because of the controller: %+v", a.Status.Conditions)
			}
			return nil
		})
	}
}

// awaitNoWrites waits until nothing is written on the hub about the clusters, whose wave goes on being held. OCM reports on one work of
// an add-on, in no order, and may not have to say different things of two.
func (m team) awaitNoWrites(t *testing.T, clusters ...*lab.Cluster) {
	t.Helper()
	const rest = 10 * time.Second
	last, since := map[string]string{}, time.Now()
	eventually(t, "nothing is written about clusters that hold their wave", 2*time.Minute, func(ctx context.Context) error {
		now := map[string]string{}
		for _, c := range clusters {
			a, err := m.current(ctx, c)
			if err != nil || a == nil {
				return fmt.Errorf("the add-on is %v, error %w", a, err)
			}
			now[c.Name] = a.ResourceVersion
			works, err := m.ComponentWorks(ctx, api.Serving, c.Name)
			if err != nil {
				return err
			}
			for _, w := range works {
				now[c.Name+"/"+w.Name] = w.ResourceVersion
			}
		}
		if !maps.Equal(now, last) {
			last, since = now, time.Now()
		}
		if quiet := time.Since(since); quiet < rest {
			return fmt.Errorf("the last write is %s old", quiet)
		}
		return nil
	})
}

// awaitRolloutMessage waits until OCM says that of the rollout.
func (m team) awaitRolloutMessage(t *testing.T, message string) {
	t.Helper()
	eventually(t, "the rollout is: "+message, 3*time.Minute, func(ctx context.Context) error {
		d, err := m.AddOns.AddonV1beta1().ClusterManagementAddOns().Get(ctx, api.Serving.AddOnName(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(d.Status.InstallProgressions) != 1 {
			return fmt.Errorf("there are %d Placements", len(d.Status.InstallProgressions))
		}
		c := apimeta.FindStatusCondition(d.Status.InstallProgressions[0].Conditions, addonv1beta1.ManagedClusterAddOnConditionProgressing)
		if c == nil || !strings.Contains(c.Message, message) {
			return fmt.Errorf("it is %+v", c)
		}
		return nil
	})
}

// awaitTimedOut waits until OCM counts so many clusters as failed. OCM says so when it has decided who is next.
func (m team) awaitTimedOut(t *testing.T, clusters int) {
	t.Helper()
	m.awaitRolloutMessage(t, fmt.Sprintf(" %d timeout", clusters))
}

// only holds that no other clusters are to have the spec.
func (m team) only(t *testing.T, hash string, clusters ...*lab.Cluster) {
	t.Helper()
	for _, c := range m.Managed {
		desired, _, err := m.specHashesOf(t.Context(), c.Name)
		if err != nil {
			t.Fatal(err)
		}
		if has := desired == hash; has != slices.Contains(clusters, c) {
			t.Errorf("%s is to have the change: %t", c.Name, has)
		}
	}
}

// written is the works of the clusters with their resourceVersions, when nobody writes to the works any more.
func (m team) written(t *testing.T, clusters []*lab.Cluster) map[string]string {
	t.Helper()
	settled(t, m.Fleet, api.Serving, clusters...)
	return awaitRest(t, "the works", func(ctx context.Context) (map[string]string, error) {
		out := map[string]string{}
		for _, c := range clusters {
			works, err := m.ComponentWorks(ctx, api.Serving, c.Name)
			if err != nil {
				return nil, err
			}
			for _, w := range works {
				out[c.Name+"/"+w.Name] = w.ResourceVersion
			}
		}
		return out, nil
	})
}

// rollBack goes back to what was last known to be good, and waits until all clusters have.
func (m team) rollBack(t *testing.T, good string) {
	t.Helper()
	m.patchDefault(t, fmt.Sprintf(`{"metadata":{"annotations":{%q:"last-known-good"}}}`, api.RollbackAnnotation))
	eventually(t, "the resource says again what was good", time.Minute, func(ctx context.Context) error {
		u, err := m.readDefault(ctx)
		if err != nil {
			return err
		}
		if hash, err := hashOf(u); err != nil || hash != good {
			return fmt.Errorf("it says %.8s, want %.8s, error %w", hash, good, err)
		}
		return nil
	})
	eventually(t, "all clusters have gone back", 5*time.Minute, m.checkCompleted(good, len(m.Managed)))
	available(t, m.Fleet, []api.Component{api.Serving}, m.Managed...)
	m.awaitRolloutMessage(t, "completed with no errors")
}

// completionWatch watches when clusters are to have a spec, and when they have completed it.
type completionWatch struct {
	watchedViolations

	m            team
	began, ended map[string]map[string]time.Time // by hash and cluster
	never        []string                        // hashes that no cluster may complete
}

func watchCompletions(t *testing.T, m team) *completionWatch {
	t.Helper()
	w := &completionWatch{m: m, began: map[string]map[string]time.Time{}, ended: map[string]map[string]time.Time{}}
	w.followWatch(t, func(ctx context.Context) (watch.Interface, error) {
		return m.AddOns.AddonV1beta1().ManagedClusterAddOns(metav1.NamespaceAll).Watch(ctx, metav1.ListOptions{})
	}, func(_ context.Context, e watch.Event) {
		if a, ok := e.Object.(*addonv1beta1.ManagedClusterAddOn); ok {
			w.see(a)
		}
	})
	return w
}

func (w *completionWatch) see(a *addonv1beta1.ManagedClusterAddOn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	progressing := apimeta.FindStatusCondition(a.Status.Conditions, addonv1beta1.ManagedClusterAddOnConditionProgressing)
	for _, ref := range a.Status.ConfigReferences {
		if ref.Resource != api.Serving.Resource().Resource || ref.DesiredConfig == nil {
			continue
		}
		once(w.began, ref.DesiredConfig.SpecHash, a.Namespace, time.Now())
		if ref.LastAppliedConfig == nil {
			continue
		}
		if completed := ref.LastAppliedConfig.SpecHash; slices.Contains(w.never, completed) {
			w.violations = append(w.violations, fmt.Sprintf("%s has completed %.8s", a.Namespace, completed))
		}
		if progressing != nil && progressing.Reason == addonv1beta1.ProgressingReasonCompleted {
			once(w.ended, ref.LastAppliedConfig.SpecHash, a.Namespace, progressing.LastTransitionTime.Time)
		}
	}
}

func once(times map[string]map[string]time.Time, hash, cluster string, now time.Time) {
	if times[hash] == nil {
		times[hash] = map[string]time.Time{}
	}
	if _, ok := times[hash][cluster]; !ok {
		times[hash][cluster] = now
	}
}
