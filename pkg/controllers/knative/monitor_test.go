// Copyright Contributors to the Open Cluster Management project

package knative

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	testclock "k8s.io/utils/clock/testing"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/direct"
	"open-cluster-management.io/knative-addon/pkg/target"
)

// TestSlowCluster holds that a pass that takes too long pauses the next pass, and is no proof that the cluster cannot be reached.
func TestSlowCluster(t *testing.T) {
	for name, tc := range map[string]struct {
		config *unstructured.Unstructured
		pass   func(d *Direct, ctx context.Context, resource *Resource) (Outcome, error)
		text   func(out Outcome) string
		want   string
	}{
		"installation": {
			localServing(directFinalized), (*Direct).Ensure, func(out Outcome) string { return out.Installation.Observation.Waiting },
			"the hub is slow: 2m0s were not enough, and the delivery continues",
		},
		"removal": {
			localServing(directFinalized, beingDeleted), (*Direct).Remove, func(out Outcome) string { return out.Installation.Removing },
			"the hub is slow: 2m0s were not enough, and the removal continues",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newDirectFixture(t, tc.config)
			w.d.Clusters = monitoredClusters{Clusters: w.d.Clusters}
			clock := testclock.NewFakePassiveClock(time.Unix(10000, 0))
			w.d.Clock = clock
			resource := &Resource{Config: tc.config, Annotations: target.Annotations{Permitted: tc.config.GetAnnotations()}}
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(direct.ErrPassTimeout)
			for _, pause := range []time.Duration{firstPassPause, 2 * firstPassPause} {
				out, err := tc.pass(w.d, ctx, resource)
				if err != nil {
					t.Fatal(err)
				}
				if out.RequeueAfter != pause || !strings.Contains(tc.text(out), tc.want) || out.Installation.Target.Reason != api.ReasonTargetResolved {
					t.Errorf("the next pass begins after %s, want %s: %+v", out.RequeueAfter, pause, out.Installation)
				}
				w.requests = nil
				out, err = tc.pass(w.d, t.Context(), resource)
				if err != nil || out.RequeueAfter != pause || out.Installation != nil || len(w.requests) > 0 {
					t.Errorf("during the pause: %+v, %v, requests %q", out, err, w.requests)
				}
				clock.SetTime(clock.Now().Add(pause))
			}
		})
	}
}

// TestPassTimeout holds that the context of a pass ends after passTimeout without a deadline of its own, so that interrupted requests do not
// count as requests without an answer.
func TestPassTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &ReachableCluster{NextProbe: time.Second, Monitor: answeringMonitor{}}
		passCtx, stop := c.watchLiveness(t.Context())
		defer stop()
		time.Sleep(passTimeout - time.Second/2)
		if passCtx.Err() != nil || isSlow(passCtx) {
			t.Fatalf("the context has ended early: %v", context.Cause(passCtx))
		}
		time.Sleep(time.Second)
		if !errors.Is(passCtx.Err(), context.Canceled) || !isSlow(passCtx) {
			t.Errorf("got %v because of %v", passCtx.Err(), context.Cause(passCtx))
		}
		if unreachable, ok := c.unreachableError(passCtx, errLost); ok {
			t.Errorf("the cluster counts as unreachable: %v", unreachable)
		}
	})
}

// answeringMonitor is a Monitor of a cluster that answers every probe. Every error means that the cluster cannot be reached.
type answeringMonitor struct {
	// identity is the error of ConfirmIdentity.
	identity error
}

func (answeringMonitor) Probe(context.Context) error { return nil }

func (m answeringMonitor) ConfirmIdentity(context.Context) error { return m.identity }

func (answeringMonitor) UnreachableError(error) (*UnreachableError, bool) {
	return &UnreachableError{}, true
}

// monitoredClusters gives clusters an answeringMonitor.
type monitoredClusters struct {
	Clusters
	identity error
}

func (m monitoredClusters) FindCluster(ctx context.Context, config *unstructured.Unstructured) (*ReachableCluster, error) {
	c, err := m.Clusters.FindCluster(ctx, config)
	if c != nil {
		c.Monitor = answeringMonitor{m.identity}
	}
	return c, err
}

// TestOtherClusterAnswers holds that a cluster without the installation of a resource gets none, and ends no removal, before the identity of the
// cluster is confirmed: the address of the profile may lead to another cluster since the last probe.
func TestOtherClusterAnswers(t *testing.T) {
	installed := func(c *unstructured.Unstructured) { c.Object["status"] = map[string]any{"version": "1.23.0"} }
	for name, tc := range map[string]struct {
		config *unstructured.Unstructured
		pass   func(d *Direct, ctx context.Context, resource *Resource) (Outcome, error)
	}{
		"installation": {localServing(directFinalized, installed), (*Direct).Ensure},
		"removal":      {localServing(directFinalized, beingDeleted, installed), (*Direct).Remove},
	} {
		t.Run(name, func(t *testing.T) {
			w := newDirectFixture(t, tc.config)
			w.d.Clusters = monitoredClusters{w.d.Clusters, errLost}
			resource := &Resource{Config: tc.config, Annotations: target.Annotations{Permitted: tc.config.GetAnnotations()}}
			if _, err := tc.pass(w.d, t.Context(), resource); err != nil {
				t.Fatal(err)
			}
			if got := w.written(); len(got) > 0 || len(w.config().GetFinalizers()) != 2 {
				t.Errorf("the pass writes %q", got)
			}
		})
	}
}

// TestOtherClusterEndsNoRemoval holds that the end of a removal is the end on the cluster of the connection: the address may lead to another
// cluster, which has no object, since the removal has begun.
func TestOtherClusterEndsNoRemoval(t *testing.T) {
	w := newDirectFixture(t, localServing(directFinalized, beingDeleted))
	w.records()
	w.d.Clusters = monitoredClusters{w.d.Clusters, errLost}
	config := w.config()
	if _, err := w.d.Remove(t.Context(), &Resource{Config: config}); err != nil {
		t.Fatal(err)
	}
	if got := w.config().GetFinalizers(); len(got) != 2 {
		t.Errorf("the finalizers are %q", got)
	}
}
