// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
)

// marker is a value that the changed configuration has and nothing else.
const marker = "7777s"

// TestRollout changes a configuration in place while OCM rolls out to one cluster at a time, and goes back. Works are watched
// from the beginning to the end: no cluster may ever have a spec that OCM has not given it.
func TestRollout(t *testing.T) {
	startRestStory(t)
	// Without a lease that a killed manager would keep for a while.
	f := ownFleet(t, lab.Options{ManagedClusters: 4, StatusSyncInterval: statusSync})
	m := newTeam(t, f, "platform")
	m.createPlacement(t)
	available(t, f, []api.Component{api.Serving}, f.Managed...)
	m.setInstallStrategy(t, api.Serving, fmt.Sprintf(
		`{"type":"Placements","placements":[{"namespace":%q,"name":%q,"rolloutStrategy":{"type":"Progressive","progressive":{"maxConcurrency":1,"minSuccessTime":"3s"}}}]}`,
		m.namespace, placementName))

	before := m.specHash(t)
	eventually(t, "all clusters have completed the first spec", 3*time.Minute, m.checkCompleted(before, len(f.Managed)))
	all := int32(len(f.Managed)) //nolint:gosec // four
	m.countsClusters(t, "the configuration counts every cluster as ready", metav1.ConditionTrue, func(s fleetv1alpha1.RolloutStatus) bool {
		return s.Total == all && s.Ready == all && len(s.Versions) == 1
	})
	w, status := watchWaves(t, m, before), watchReadyConfiguration(t, m)
	m.patchDefault(t, fmt.Sprintf(`{"spec":{"config":{"deployment":{"progress-deadline":%q}}}}`, marker))
	after := m.specHash(t)
	if after == before {
		t.Fatal("the change has no hash of its own")
	}
	eventually(t, "two clusters have the new spec", 5*time.Minute, w.checkCarrying(after, 2))
	m.countsClusters(t, "the configuration counts the clusters that wait", metav1.ConditionFalse, func(s fleetv1alpha1.RolloutStatus) bool {
		return s.Total == all && s.Updated >= 1 && s.Updated < all && s.Ready < all
	})
	m.replaceManager(t)
	if n := w.countClusters(after); n == len(f.Managed) {
		t.Error("the manager was restarted too late to prove anything")
	}
	eventually(t, "all clusters have completed the new spec", 15*time.Minute, m.checkCompleted(after, len(f.Managed)))
	w.checkObserved(t)
	m.countsClusters(t, "the configuration reports the end of the rollout", metav1.ConditionTrue, func(s fleetv1alpha1.RolloutStatus) bool {
		return s.Updated == all && s.Ready == all && len(s.Clusters) == 0
	})
	status.checkNoViolations(t)

	t.Run("a paused cluster is unchanged during a rollback of the other clusters", func(t *testing.T) { pausedRollback(t, m, w, before, after) })
	w.checkObserved(t)
	t.Run("a restart in the rollout of an AddOnDeploymentConfig loses no spec", func(t *testing.T) { deploymentRollout(t, m) })
}

func pausedRollback(t *testing.T, m team, w *specWatch, before, after string) {
	last := m.Managed[len(m.Managed)-1]
	m.annotate(t, last, api.PausedAnnotation, "true")
	untouched := workGenerations(t, m.Fleet, last)
	m.patchDefault(t, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, api.RollbackAnnotation, before))
	eventually(t, "the resource has the first spec again and no annotation", time.Minute, func(ctx context.Context) error {
		u, err := m.readDefault(ctx)
		if err != nil {
			return err
		}
		hash, err := hashOf(u)
		if _, ok := u.GetAnnotations()[api.RollbackAnnotation]; ok || hash != before {
			return fmt.Errorf("annotations are %v, error %w", u.GetAnnotations(), err)
		}
		return nil
	})
	eventually(t, "the other clusters go back", 15*time.Minute, m.checkCompleted(before, len(m.Managed)-1))
	eventually(t, "the rollout has come to the paused cluster", time.Minute, func(ctx context.Context) error {
		c, err := manifestApplied(ctx, m.Fleet, last)
		if err != nil || c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "paused by annotation") {
			return fmt.Errorf("ManifestApplied is %+v, error %w", c, err)
		}
		return nil
	})
	eventually(t, "only the paused cluster has the changed spec", time.Minute, func(context.Context) error { // the watch follows OCM
		if n := w.countClusters(after); n != 1 {
			return fmt.Errorf("%d clusters have the changed spec", n)
		}
		return nil
	})
	for name, generation := range workGenerations(t, m.Fleet, last) {
		if untouched[name] != generation {
			t.Errorf("work %s of the paused cluster went from generation %d to %d", name, untouched[name], generation)
		}
	}
	m.annotate(t, last, api.PausedAnnotation, "false")
	eventually(t, "the paused cluster follows", 5*time.Minute, m.checkCompleted(before, len(m.Managed)))
}

func (m team) readDefault(ctx context.Context) (*unstructured.Unstructured, error) {
	return m.configs.Resource(api.Serving.Resource()).Namespace(harness.Namespace).Get(ctx, "default", metav1.GetOptions{})
}

func (m team) patchDefault(t *testing.T, patch string) {
	t.Helper()
	_, err := m.configs.Resource(api.Serving.Resource()).Namespace(harness.Namespace).Patch(
		t.Context(), "default", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// specHash is OCM's hash of what the configuration says now.
func (m team) specHash(t *testing.T) string {
	t.Helper()
	u, err := m.readDefault(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	hash, err := hashOf(u)
	if err != nil {
		t.Fatal(err)
	}
	return hash
}

func hashOf(u *unstructured.Unstructured) (string, error) {
	spec, err := json.Marshal(map[string]any{"spec": u.Object["spec"]})
	return fmt.Sprintf("%x", sha256.Sum256(spec)), err
}

// specHashesOf is which specs a cluster is to have and has completed.
func (m team) specHashesOf(ctx context.Context, cluster string) (desired, completed string, err error) {
	a, err := m.AddOns.AddonV1beta1().ManagedClusterAddOns(cluster).Get(ctx, api.Serving.AddOnName(), metav1.GetOptions{})
	if err != nil {
		return "", "", err
	}
	for _, ref := range a.Status.ConfigReferences {
		if ref.Resource != api.Serving.Resource().Resource {
			continue
		}
		if ref.DesiredConfig != nil {
			desired = ref.DesiredConfig.SpecHash
		}
		if ref.LastAppliedConfig != nil {
			completed = ref.LastAppliedConfig.SpecHash
		}
	}
	return desired, completed, nil
}

// checkCompleted tells whether that many clusters are to have the spec, and have completed it.
func (m team) checkCompleted(hash string, want int) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		var missing []string
		for _, c := range m.Managed {
			desired, completed, err := m.specHashesOf(ctx, c.Name)
			if err != nil {
				return err
			}
			if desired != hash || completed != hash {
				missing = append(missing, fmt.Sprintf("%s is to have %.8s and has completed %.8s", c.Name, desired, completed))
			}
		}
		if len(m.Managed)-len(missing) < want {
			return fmt.Errorf("want %.8s: %v", hash, missing)
		}
		return nil
	}
}

// specWatch watches which spec each cluster's works carry.
type specWatch struct {
	watchedViolations

	m             team
	before, after string            // hashes of the specs without and with the marker
	payload       map[string]string // hash by cluster
	digest        map[string]string // of the foundation, by cluster
	digestOf      map[string]string // by hash
	changes       int
}

// watchWaves begins to watch clusters that have the spec with the hash before.
func watchWaves(t *testing.T, m team, before string) *specWatch {
	t.Helper()
	w := newSpecWatch(m, before)
	w.followWatch(t, w.start, w.see)
	eventually(t, "the watch shows every cluster", time.Minute, w.checkCarrying(before, len(m.Managed)))
	return w
}

func newSpecWatch(m team, before string) *specWatch {
	return &specWatch{m: m, before: before, payload: map[string]string{}, digest: map[string]string{}, digestOf: map[string]string{}}
}

func (w *specWatch) start(ctx context.Context) (watch.Interface, error) {
	return w.m.Works.WorkV1().ManifestWorks(metav1.NamespaceAll).Watch(ctx, metav1.ListOptions{})
}

func (w *specWatch) see(ctx context.Context, e watch.Event) {
	o, ok := e.Object.(*workv1.ManifestWork)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case e.Type == watch.Error:
		w.violations = append(w.violations, fmt.Sprintf("the watch has failed: %v", e.Object))
	case !ok:
	case o.Name == manifestwork.FoundationName(api.Serving):
		w.observeFoundation(ctx, o)
	case o.Labels[addonv1beta1.AddonLabelKey] == api.Serving.AddOnName() && o.Name != manifestwork.GateName(api.Serving):
		w.observePayload(ctx, o)
	}
}

// hasMarker reports whether a work delivers the changed configuration.
func hasMarker(w *workv1.ManifestWork) bool {
	return slices.ContainsFunc(w.Spec.Workload.Manifests, func(m workv1.Manifest) bool { return bytes.Contains(m.Raw, []byte(marker)) })
}

func (w *specWatch) observePayload(ctx context.Context, o *workv1.ManifestWork) {
	marked := hasMarker(o)
	cluster, was := o.Namespace, w.payload[o.Namespace]
	if was == "" && !marked { // the first look
		w.payload[cluster] = w.before
		return
	}
	if marked == (was != w.before) {
		return
	}
	w.changes++
	desired := w.desiredSpec(ctx, cluster)
	if marked && w.after == "" {
		w.after = desired
	}
	carried := w.before
	if marked {
		carried = w.after
	}
	if desired != carried || marked && desired == w.before {
		w.violations = append(w.violations, fmt.Sprintf("%s has the spec %.8s (changed: %t) and is to have %.8s", cluster, carried, marked, desired))
	}
	w.payload[cluster] = carried
	w.checkOneAtATime(ctx, carried)
}

// observeFoundation holds that a foundation changes with its cluster's spec too; it has a digest of the whole bundle.
func (w *specWatch) observeFoundation(ctx context.Context, o *workv1.ManifestWork) {
	digest := o.Annotations[api.DigestAnnotation]
	was := w.digest[o.Namespace]
	if digest == was {
		return
	}
	w.digest[o.Namespace] = digest
	desired := w.before
	if was != "" {
		desired = w.desiredSpec(ctx, o.Namespace)
	}
	if known := w.digestOf[desired]; known != "" && known != digest {
		w.violations = append(w.violations, fmt.Sprintf("%s has a foundation of another spec than %.8s, which it is to have", o.Namespace, desired))
	}
	w.digestOf[desired] = digest
}

func (w *specWatch) desiredSpec(ctx context.Context, cluster string) string {
	desired, _, err := w.m.specHashesOf(ctx, cluster)
	for deadline := time.Now().Add(time.Minute); err != nil && ctx.Err() == nil && time.Now().Before(deadline); {
		time.Sleep(100 * time.Millisecond) // the API server may have stopped after the watch has shown the work
		desired, _, err = w.m.specHashesOf(ctx, cluster)
	}
	if err != nil && ctx.Err() == nil {
		w.violations = append(w.violations, fmt.Sprintf("cannot read the add-on of %s: %v", cluster, err))
	}
	return desired
}

func (w *specWatch) checkOneAtATime(ctx context.Context, hash string) {
	var moving []string
	for _, c := range w.m.Managed {
		if desired, completed, err := w.m.specHashesOf(ctx, c.Name); err == nil && desired == hash && completed != hash {
			moving = append(moving, c.Name)
		}
	}
	if len(moving) > 1 {
		w.violations = append(w.violations, fmt.Sprintf("%v are moved to %.8s at a time", moving, hash))
	}
}

func (w *specWatch) countClusters(hash string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, carried := range w.payload {
		if carried == hash {
			n++
		}
	}
	return n
}

func (w *specWatch) checkCarrying(hash string, want int) func(context.Context) error {
	return func(context.Context) error {
		if n := w.countClusters(hash); n < want {
			return fmt.Errorf("%d clusters have it, want %d", n, want)
		}
		return nil
	}
}

// checkObserved waits until the watch has seen every payload change, and holds what the watch has seen so far.
func (w *specWatch) checkObserved(t *testing.T) {
	t.Helper()
	eventually(t, "the watch has seen the payloads change", time.Minute, func(context.Context) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.changes < len(w.m.Managed) {
			return fmt.Errorf("%d payloads have changed, want %d at least", w.changes, len(w.m.Managed))
		}
		return nil
	})
	w.checkNoViolations(t)
}
