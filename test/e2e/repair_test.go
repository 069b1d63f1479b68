// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
)

// repairWorkloads deletes and scales a workload by hand. The work agent must be asked to apply again, so that nobody waits for
// its resync.
func repairWorkloads(t *testing.T, f *harness.Fleet) {
	cluster := f.Managed[1]
	enabled(t, f, []api.Component{api.Serving}, cluster)
	s := connect(t, cluster)
	deployments := s.kube.AppsV1().Deployments("knative-serving")

	t.Run("a deleted Deployment", func(t *testing.T) {
		var deleted types.UID
		awaitRepair(t, f, cluster, func(ctx context.Context) error {
			d, err := deployments.Get(ctx, "autoscaler", metav1.GetOptions{})
			if err != nil {
				return err
			}
			deleted = d.UID
			return deployments.Delete(ctx, d.Name, metav1.DeleteOptions{})
		}, func(ctx context.Context) error {
			d, err := deployments.Get(ctx, "autoscaler", metav1.GetOptions{})
			if err == nil && d.UID == deleted {
				err = errors.New("it is still there")
			}
			return err
		})
	})
	t.Run("a scaled Deployment", func(t *testing.T) {
		awaitRepair(t, f, cluster, func(ctx context.Context) error { return s.scale(ctx, "autoscaler", 3) }, func(ctx context.Context) error {
			d, err := deployments.Get(ctx, "autoscaler", metav1.GetOptions{})
			if err == nil && *d.Spec.Replicas != 1 {
				err = fmt.Errorf("it has %d replicas", *d.Spec.Replicas)
			}
			return err
		})
	})
}

// awaitRepair changes something on a cluster and waits until it is as before. The agent's resync, which is frequent in these
// tests, may come first; then the change is made again, until it was the agent that was asked.
func awaitRepair(t *testing.T, f *harness.Fleet, c *lab.Cluster, change, restored func(context.Context) error) {
	t.Helper()
	var changes int
	for began := time.Now(); time.Since(began) < loadFactor*2*time.Minute; changes++ {
		available(t, f, []api.Component{api.Serving}, c)
		awaitIdleAgent(t, f, c)
		asked, start := repairRequests(t, f, c), time.Now()
		if err := change(t.Context()); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the change is undone", time.Minute, restored)
		if wasAsked(t, f, c, asked) {
			t.Logf("undone after %s", time.Since(start).Round(10*time.Millisecond))
			return
		}
	}
	t.Errorf("the agent was not asked to repair any of %d changes", changes)
}

// wasAsked reports whether the agent was asked to repair Serving since the requests were read. The manager emits the Event of a repair after
// the request.
func wasAsked(t *testing.T, f *harness.Fleet, c *lab.Cluster, before []string) bool {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, loadFactor*3*time.Second, true, func(context.Context) (bool, error) {
		return !slices.Equal(repairRequests(t, f, c), before), nil //nolint:contextcheck // the function uses the context of the test
	})
	return err == nil
}

// awaitIdleAgent waits until the agent writes nothing about Serving. As long as it does, such as while a Job is not complete, each of its
// writes has it apply everything again, and it undoes any change before it tells of it.
func awaitIdleAgent(t *testing.T, f *harness.Fleet, c *lab.Cluster) {
	t.Helper()
	const rest = 3 * time.Second
	last, since := "", time.Now()
	eventually(t, "the agent is at rest", 2*time.Minute, func(ctx context.Context) error {
		p, err := payload(ctx, f, c)
		if err != nil {
			return err
		}
		if p.ResourceVersion != last {
			last, since = p.ResourceVersion, time.Now()
		}
		if quiet := time.Since(since); quiet < rest {
			return fmt.Errorf("its last write is %s old", quiet)
		}
		return nil
	})
}

// payload is the work of Serving.
func payload(ctx context.Context, f *harness.Fleet, c *lab.Cluster) (*workv1.ManifestWork, error) {
	list, err := f.Works.WorkV1().ManifestWorks(c.Name).List(ctx, metav1.ListOptions{
		LabelSelector: harness.Payloads(api.Serving),
	})
	if err != nil {
		return nil, err
	}
	if len(list.Items) != 1 {
		return nil, fmt.Errorf("there are %d payloads, want 1", len(list.Items))
	}
	return &list.Items[0], nil
}

// repairRequests lists the Events of repairs of Serving by the agent. The label of the payload is no proof of a repair: the manager also sets
// the label, without an Event, when the agent skips a payload, and addon-framework removes the label.
func repairRequests(t *testing.T, f *harness.Fleet, c *lab.Cluster) []string {
	t.Helper()
	var out []string
	events, err := connect(t, f.Hub).kube.EventsV1().Events(c.Name).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events.Items {
		if e.Reason == "DriftRepaired" || e.Reason == "DriftLoop" {
			out = append(out, fmt.Sprint(e.UID, e.Series))
		}
	}
	slices.Sort(out)
	return out
}
