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
	"open-cluster-management.io/knative-addon/pkg/delivery/work"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
)

// marker is a value that the changed configuration has and nothing else.
const marker = "7777s"

// TestRollout changes a configuration in place while OCM rolls out to one cluster at a time, and goes back. Works are watched
// from the beginning to the end: no cluster may ever have a spec that OCM has not given it.
func TestRollout(t *testing.T) {
	t.Parallel()
	// Without a lease that a killed manager would keep for a while.
	f := ownFleet(t, lab.Options{ManagedClusters: 6, StatusSyncInterval: 2 * time.Second})
	m := newTeam(t, f, "platform")
	m.place(t)
	available(t, f, []api.Component{api.Serving}, f.Managed...)
	m.strategy(t, api.Serving, fmt.Sprintf(
		`{"type":"Placements","placements":[{"namespace":%q,"name":%q,"rolloutStrategy":{"type":"Progressive","progressive":{"maxConcurrency":1,"minSuccessTime":"3s"}}}]}`,
		m.namespace, placementName))

	before := m.specHash(t)
	eventually(t, "all clusters have completed the first spec", 3*time.Minute, m.completed(before, len(f.Managed)))
	w := watchWaves(t, m, before)
	m.patchDefault(t, fmt.Sprintf(`{"spec":{"config":{"deployment":{"progress-deadline":%q}}}}`, marker))
	after := m.specHash(t)
	if after == before {
		t.Fatal("the change has no hash of its own")
	}
	eventually(t, "two clusters have the new spec", 5*time.Minute, w.carrying(after, 2))
	m.restart(t)
	if n := w.count(after); n == len(f.Managed) {
		t.Error("the manager was restarted too late to prove anything")
	}
	eventually(t, "all clusters have completed the new spec", 15*time.Minute, m.completed(after, len(f.Managed)))
	w.proven(t)

	t.Run("a paused cluster stays as it is while the others go back", func(t *testing.T) { pausedRollback(t, m, w, before, after) })
	w.proven(t)
}

func pausedRollback(t *testing.T, m team, w *waves, before, after string) {
	last := m.Managed[len(m.Managed)-1]
	m.annotate(t, last, api.PausedAnnotation, "true")
	untouched := generations(t, m.Fleet, last)
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
	eventually(t, "the other clusters go back", 15*time.Minute, m.completed(before, len(m.Managed)-1))
	eventually(t, "the rollout has come to the paused cluster", time.Minute, func(ctx context.Context) error {
		c, err := manifestApplied(ctx, m.Fleet, last)
		if err != nil || c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "paused by annotation") {
			return fmt.Errorf("ManifestApplied is %+v, error %w", c, err)
		}
		return nil
	})
	if n := w.count(after); n != 1 {
		t.Errorf("%d clusters have the changed spec, want the paused one", n)
	}
	for name, generation := range generations(t, m.Fleet, last) {
		if untouched[name] != generation {
			t.Errorf("work %s of the paused cluster went from generation %d to %d", name, untouched[name], generation)
		}
	}
	m.annotate(t, last, api.PausedAnnotation, "false")
	eventually(t, "the paused cluster follows", 5*time.Minute, m.completed(before, len(m.Managed)))
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

// specsOf is which specs a cluster is to have and has completed.
func (m team) specsOf(ctx context.Context, cluster string) (desired, completed string, err error) {
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

// completed tells whether that many clusters are to have the spec, and have completed it.
func (m team) completed(hash string, want int) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		var missing []string
		for _, c := range m.Managed {
			desired, completed, err := m.specsOf(ctx, c.Name)
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

// waves watches which spec each cluster's works carry.
type waves struct {
	observed

	m             team
	before, after string            // hashes of the specs without and with the marker
	payload       map[string]string // hash by cluster
	digest        map[string]string // of the foundation, by cluster
	digestOf      map[string]string // by hash
	changes       int
}

// watchWaves begins to watch clusters that have the spec with the hash before.
func watchWaves(t *testing.T, m team, before string) *waves {
	t.Helper()
	w := &waves{m: m, before: before, payload: map[string]string{}, digest: map[string]string{}, digestOf: map[string]string{}}
	w.follow(t, func(ctx context.Context) (watch.Interface, error) {
		return m.Works.WorkV1().ManifestWorks(metav1.NamespaceAll).Watch(ctx, metav1.ListOptions{})
	}, w.see)
	eventually(t, "the watch shows every cluster", time.Minute, w.carrying(before, len(m.Managed)))
	return w
}

func (w *waves) see(ctx context.Context, e watch.Event) {
	o, ok := e.Object.(*workv1.ManifestWork)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case e.Type == watch.Error:
		w.violations = append(w.violations, fmt.Sprintf("the watch has failed: %v", e.Object))
	case !ok:
	case o.Name == work.FoundationName(api.Serving):
		w.seeFoundation(ctx, o)
	case o.Labels[addonv1beta1.AddonLabelKey] == api.Serving.AddOnName() && o.Name != work.GateName(api.Serving):
		w.seePayload(ctx, o)
	}
}

func (w *waves) seePayload(ctx context.Context, o *workv1.ManifestWork) {
	marked := slices.ContainsFunc(o.Spec.Workload.Manifests, func(m workv1.Manifest) bool { return bytes.Contains(m.Raw, []byte(marker)) })
	cluster, was := o.Namespace, w.payload[o.Namespace]
	if was == "" && !marked { // the first look
		w.payload[cluster] = w.before
		return
	}
	if marked == (was != w.before) {
		return
	}
	w.changes++
	desired := w.desired(ctx, cluster)
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
	w.oneAtATime(ctx, carried)
}

// seeFoundation holds that a foundation changes with its cluster's spec too; it has a digest of the whole bundle.
func (w *waves) seeFoundation(ctx context.Context, o *workv1.ManifestWork) {
	digest := o.Annotations[api.DigestAnnotation]
	was := w.digest[o.Namespace]
	if digest == was {
		return
	}
	w.digest[o.Namespace] = digest
	desired := w.before
	if was != "" {
		desired = w.desired(ctx, o.Namespace)
	}
	if known := w.digestOf[desired]; known != "" && known != digest {
		w.violations = append(w.violations, fmt.Sprintf("%s has a foundation of another spec than %.8s, which it is to have", o.Namespace, desired))
	}
	w.digestOf[desired] = digest
}

func (w *waves) desired(ctx context.Context, cluster string) string {
	desired, _, err := w.m.specsOf(ctx, cluster)
	if err != nil && ctx.Err() == nil {
		w.violations = append(w.violations, fmt.Sprintf("cannot read the add-on of %s: %v", cluster, err))
	}
	return desired
}

func (w *waves) oneAtATime(ctx context.Context, hash string) {
	var moving []string
	for _, c := range w.m.Managed {
		if desired, completed, err := w.m.specsOf(ctx, c.Name); err == nil && desired == hash && completed != hash {
			moving = append(moving, c.Name)
		}
	}
	if len(moving) > 1 {
		w.violations = append(w.violations, fmt.Sprintf("%v are moved to %.8s at a time", moving, hash))
	}
}

func (w *waves) count(hash string) int {
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

func (w *waves) carrying(hash string, want int) func(context.Context) error {
	return func(context.Context) error {
		if n := w.count(hash); n < want {
			return fmt.Errorf("%d clusters have it, want %d", n, want)
		}
		return nil
	}
}

// proven holds what the watch has seen so far.
func (w *waves) proven(t *testing.T) {
	t.Helper()
	w.clean(t)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.changes < len(w.m.Managed) {
		t.Errorf("%d payloads have changed, want %d at least", w.changes, len(w.m.Managed))
	}
}
