// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/work"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/lab"
)

// progress is what the hub shows of one installation on its way in or out.
type progress struct {
	finalized  bool // the resource has our finalizer
	addOn      *addonv1beta1.ManagedClusterAddOn
	foundation *workv1.ManifestWork
	payload    *workv1.ManifestWork
	gate       *workv1.ManifestWork
}

func (m team) progress(ctx context.Context, c api.Component, cluster string) (p progress, err error) {
	if u, err := m.resources(c).Get(ctx, cluster, metav1.GetOptions{}); err == nil {
		p.finalized = slices.Contains(u.GetFinalizers(), api.InstallFinalizer)
	}
	if a, err := m.AddOns.AddonV1beta1().ManagedClusterAddOns(cluster).Get(ctx, c.AddOnName(), metav1.GetOptions{}); err == nil {
		p.addOn = a
	}
	works, err := m.ComponentWorks(ctx, c, cluster)
	for i := range works {
		switch works[i].Name {
		case work.FoundationName(c):
			p.foundation = &works[i]
		case work.GateName(c):
			p.gate = &works[i]
		default:
			p.payload = &works[i]
		}
	}
	return p, err
}

// step is a state on the way at which the manager is killed; P is what is seen of the way.
type step[P any] struct {
	name string
	at   func(p P) bool
}

func applied(w *workv1.ManifestWork) bool {
	if w == nil {
		return false
	}
	ok, _ := work.Applied(w)
	return ok
}

func installSteps() []step[progress] {
	return []step[progress]{
		{"finalizer of the resource", func(p progress) bool { return p.finalized }},
		{"add-on", func(p progress) bool { return p.addOn != nil }},
		{"finalizer of the add-on", func(p progress) bool {
			return p.addOn != nil && slices.Contains(p.addOn.Finalizers, api.FoundationFinalizer)
		}},
		{"probe", func(p progress) bool { return work.IsProbe(p.foundation) }},
		{"applied probe", func(p progress) bool { return work.IsProbe(p.foundation) && applied(p.foundation) }},
		{"foundation", func(p progress) bool { return p.foundation != nil && !work.IsProbe(p.foundation) }},
		{"applied foundation", func(p progress) bool { return !work.IsProbe(p.foundation) && applied(p.foundation) }},
		{"gate", func(p progress) bool { return p.gate != nil }},
		{"payload", func(p progress) bool { return p.payload != nil }},
		{"applied payload", func(p progress) bool { return applied(p.payload) }},
		{"gate opened", func(p progress) bool { return p.payload != nil && p.gate != nil && !work.IsClosed(p.gate) }},
	}
}

func removalSteps() []step[progress] {
	removal := func(w *workv1.ManifestWork) work.RemovalStep {
		if w == nil {
			return ""
		}
		r, _ := work.NextRemoval(w)
		return r.Step
	}
	return []step[progress]{
		{"add-on being deleted", func(p progress) bool { return p.addOn != nil && p.addOn.DeletionTimestamp != nil }},
		{"webhooks told to stop", func(p progress) bool {
			return slices.Contains([]work.RemovalStep{work.AwaitStop, work.Reclaim}, removal(p.payload))
		}},
		{"webhook configurations taken back", func(p progress) bool {
			return slices.Contains([]work.RemovalStep{work.AwaitReclaim, work.RetryReclaim, work.Delete}, removal(p.payload))
		}},
		{"payload gone", func(p progress) bool { return p.addOn != nil && p.payload == nil }},
		{"foundation gone", func(p progress) bool { return p.addOn != nil && p.payload == nil && p.foundation == nil }},
		{"gate gone", func(p progress) bool { return p.addOn != nil && p.payload == nil && p.gate == nil }},
		{"add-on gone", func(p progress) bool { return p.addOn == nil }},
	}
}

// killAt kills the manager and starts it again whenever a step is seen for the first time, until done. It returns the
// names of the steps at which it did.
func killAt[P any](t *testing.T, f *harness.Fleet, steps []step[P], look func(ctx context.Context) (P, error), done func(ctx context.Context) bool) []string {
	t.Helper()
	var killed []string
	seen := map[string]bool{}
	eventually(t, "done in spite of kills", 5*time.Minute, func(ctx context.Context) error {
		// Finer than what eventually polls: a step may last for milliseconds.
		for range 20 {
			p, err := look(ctx)
			if err != nil {
				return err
			}
			var name string
			for _, s := range steps {
				if !seen[s.name] && s.at(p) {
					name, seen[s.name] = s.name, true
				}
			}
			if name != "" {
				killed = append(killed, name)
				if err := errors.Join(f.Kill(harness.Manager), f.Start(harness.Manager)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if !done(ctx) {
			return errors.New("killed at: " + strings.Join(killed, ", "))
		}
		return nil
	})
	return killed
}

// TestManagerKilled kills the manager at each step of an installation and of its removal. It must go on where it was.
func TestManagerKilled(t *testing.T) {
	t.Parallel()
	f := ownFleet(t, lab.Options{ManagedClusters: 1, StatusSyncInterval: 2 * time.Second})
	m := newTeam(t, f, "blue")
	c := f.Managed[0]
	m.apply(t, api.Serving, c.Name, kourier())
	look := func(ctx context.Context) (progress, error) { return m.progress(ctx, api.Serving, c.Name) }
	killed := killAt(t, f, installSteps(), look, func(ctx context.Context) bool {
		s, err := m.read(ctx, api.Serving, c.Name)
		if err != nil || s.conditions[api.Ready].Status != metav1.ConditionTrue {
			return false
		}
		p, err := look(ctx)
		return err == nil && p.payload != nil && apimeta.IsStatusConditionTrue(p.payload.Status.Conditions, workv1.WorkAvailable)
	})
	t.Logf("killed during the installation at: %s", strings.Join(killed, ", "))
	if len(killed) < 4 {
		t.Errorf("the manager was killed only %d times", len(killed))
	}

	if err := m.resources(api.Serving).Delete(t.Context(), c.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	killed = killAt(t, f, removalSteps(), look, func(ctx context.Context) bool {
		list, err := m.resources(api.Serving).List(ctx, metav1.ListOptions{})
		return err == nil && len(list.Items) == 0
	})
	t.Logf("killed during the removal at: %s", strings.Join(killed, ", "))
	if len(killed) < 4 {
		t.Errorf("the manager was killed only %d times", len(killed))
	}
	if left := leftovers(t, connect(t, c)); len(left) > 0 {
		t.Errorf("left on %s: %s", c.Name, strings.Join(left, ", "))
	}
}
