// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"open-cluster-management.io/knative-addon/pkg/render"
)

// TestCrashLeavesOthersAndOurs holds what is left by a removal, whenever the manager ended before: what was there before it
// came, and nothing that it has made, also not what it has recreated.
func TestCrashLeavesOthersAndOurs(t *testing.T) {
	b := bundleOf(t)
	sync := func(ctx context.Context, s *clusterFixture) error {
		_, err := s.Sync(ctx, b, SyncOptions{})
		return err
	}
	for name, tc := range map[string]struct {
		before func(*clusterFixture)
		want   []string
		// writes are how many a pass makes at least.
		writes int
	}{
		"a namespace that was there before": {func(s *clusterFixture) {
			s.add(b.Foundation[0].Resource, &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": installed},
			}})
		}, []string{"namespaces/" + installed}, 12},
		"objects that somebody has deleted": {func(s *clusterFixture) {
			s.settle(t, b)
			for _, name := range []string{"deployments/knative-serving/activator", "secrets/knative-serving/certs", "validatingwebhookconfigurations/config.webhook"} {
				s.lose(name)
			}
		}, nil, 4},
	} {
		// The removal follows after another pass, or at once: the user deletes the resource while no manager runs.
		for _, next := range [][]func(context.Context, *clusterFixture) error{{sync, removeAll}, {removeAll}} {
			t.Run(fmt.Sprintf("%s, %d steps follow", name, len(next)), func(t *testing.T) {
				if requests := crashAndRemove(t, tc.before, tc.want, sync, next); requests < tc.writes {
					t.Errorf("there are only %d requests", requests)
				}
			})
		}
	}
}

// crashAndRemove ends the manager at each request of a pass, executes the next steps, and compares the objects that are left. The
// result is the number of requests.
func crashAndRemove(t *testing.T, before func(*clusterFixture), want []string, pass func(context.Context, *clusterFixture) error, next []func(context.Context, *clusterFixture) error) int {
	t.Helper()
	for k := 1; ; k++ {
		s := newClusterFixture(t)
		before(s)
		if !s.crashAt(t, k, pass) {
			return k - 1
		}
		s.restart()
		for _, step := range next {
			s.finish(t, step)
		}
		if diff := cmp.Diff(want, s.names()); diff != "" {
			t.Errorf("a crash at request %d leaves (-want +got):\n%s", k, diff)
		}
	}
}

// removeAll takes the removal one step further. A manager that starts after the last deletion finds nothing.
func removeAll(ctx context.Context, s *clusterFixture) error {
	_, err := s.Remove(ctx, RemoveOptions{Namespace: installed, Foundation: true})
	if errors.Is(err, ErrNothingInstalled) {
		return nil
	}
	return err
}

// TestReturnAfterCrash holds that the values of a change that was interrupted at any write do not stay when the spec returns, as after a rollback.
func TestReturnAfterCrash(t *testing.T) {
	changed := func(b *render.Bundle) {
		b.Payload[2] = rendered(t, inConfigMaps, "ConfigMap knative-serving/config-network", map[string]any{"data": map[string]any{"a": "c"}})
		b.Payload[4] = rendered(t, inDeployments, "Deployment knative-serving/activator", map[string]any{"spec": map[string]any{"replicas": int64(2)}})
	}
	for k := 1; ; k++ {
		s, b := newClusterFixture(t), bundleOf(t)
		s.settle(t, b)
		other := bundleOf(t, changed)
		crashed := s.crashAt(t, k, func(ctx context.Context, s *clusterFixture) error {
			_, err := s.Sync(ctx, other, SyncOptions{})
			return err
		})
		if !crashed {
			if k < 4 {
				t.Errorf("there are only %d writes", k-1)
			}
			return
		}
		s.restart()
		s.finish(t, func(ctx context.Context, s *clusterFixture) error {
			_, err := s.Sync(ctx, b, SyncOptions{})
			return err
		})
		value, _, _ := unstructured.NestedString(s.find("configmaps/knative-serving/config-network").Object, "data", "a")
		replicas, _, _ := unstructured.NestedFieldNoCopy(s.find("deployments/knative-serving/activator").Object, "spec", "replicas")
		if value != "b" || fmt.Sprint(replicas) != "1" {
			t.Errorf("after a crash at request %d the cluster has the value %q and %v replicas", k, value, replicas)
		}
	}
}

// timedContext is a context whose time is over when a test says so, however slow the machine is.
type timedContext struct {
	context.Context //nolint:containedctx // this is a context

	over chan struct{}
	once sync.Once
}

func (c *timedContext) end() { c.once.Do(func() { close(c.over) }) }

func (c *timedContext) Done() <-chan struct{} { return c.over }

func (c *timedContext) Err() error {
	select {
	case <-c.over:
		return ErrPassTimeout
	default:
		return nil
	}
}

// TestSlow holds that what was done before the time was over is recorded, so that the next pass goes on from there.
func TestSlow(t *testing.T) {
	s, b := newClusterFixture(t), bundleOf(t)
	ctx := &timedContext{Context: t.Context(), over: make(chan struct{})}
	passed := make(chan struct{})
	s.disturb(func(request string) error {
		if !strings.HasPrefix(request, "apply deployments") {
			return nil
		}
		ctx.end()
		<-passed
		return errBusy
	})
	_, err := s.Sync(ctx, b, SyncOptions{})
	close(passed)
	if !errors.Is(err, ErrPassTimeout) {
		t.Fatalf("got %v", err)
	}
	s.disturb(nil)
	s.asked()
	s.restart()
	s.pass(t, b)
	for _, request := range s.asked() {
		if strings.HasPrefix(request, "apply serviceaccounts") || strings.HasPrefix(request, "apply customresourcedefinitions") {
			t.Errorf("it is done again: %s", request)
		}
	}
	if diff := cmp.Diff(everything(), s.names()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
