// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// TestStrays holds which objects that nobody has recorded are pruned.
func TestStrays(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		kind   string
		change func(*sight)
		want   []string
	}{
		"ours":                 {"Somebody has deleted the anchor.", "ConfigMap", func(*sight) {}, []string{"ConfigMap stray"}},
		"somebody's copy":      {"It has the label, but no fields of ours.", "ConfigMap", func(s *sight) { s.fields = "" }, nil},
		"of another component": {"It is recorded elsewhere.", "ConfigMap", func(s *sight) { s.Labels[api.ComponentLabel] = string(api.Eventing) }, nil},
		"a CRD":                {"It stays.", "CustomResourceDefinition", func(*sight) {}, nil},
		"a namespace":          {"It stays.", "Namespace", func(*sight) {}, nil},
		"the one that is new":  {"It is wanted.", "ConfigMap", func(s *sight) { s.Name = "config-network" }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			id := d.of(tc.kind).ID()
			id.Name = "stray"
			s := d.sight(id)
			tc.change(s)
			d.view(d.of(tc.kind)).put(s)
			if diff := cmp.Diff(tc.want, d.planned().Prune); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// TestUnblock holds when our webhooks are taken for what blocks the cluster.
func TestUnblock(t *testing.T) {
	const mute = `Internal error occurred: failed calling webhook "config.webhook.serving.knative.dev": connection refused`
	old := blockedFor + time.Second
	lost := func(d *desk) { d.lose("ConfigMap"); d.lose("ValidatingWebhookConfiguration") }
	for name, tc := range map[string]struct {
		reason  string
		cause   string
		since   time.Duration
		prepare func(*desk)
		unblock bool
	}{
		"a lost ConfigMap":       {"Nobody can answer without it.", mute, old, func(d *desk) { d.lose("ConfigMap") }, true},
		"a new ConfigMap":        {"It is the same.", mute, old, func(d *desk) { d.forget(d.of("ConfigMap")) }, true},
		"only just":              {"They may be starting.", mute, blockedFor - time.Second, func(d *desk) { d.lose("ConfigMap") }, false},
		"a changed ConfigMap":    {"They can start with it.", mute, old, func(d *desk) { d.change("ConfigMap", func(s *sight) { s.fields = "theirs" }) }, false},
		"another one's webhook":  {"It is not ours to take away.", `failed calling webhook "policy.example.com": refused`, old, func(d *desk) { d.lose("ConfigMap") }, false},
		"a webhook's denial":     {"It has answered.", `admission webhook "config.webhook.serving.knative.dev" denied the request: no`, old, func(d *desk) { d.lose("ConfigMap") }, false},
		"a denial that mimics":   {"The name is not in the words.", `denied the request: failed calling webhook config.webhook.serving.knative.dev`, old, func(d *desk) { d.lose("ConfigMap") }, false},
		"webhooks are gone, too": {"What is recorded may come back.", mute, old, lost, true},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			tc.prepare(d)
			d.failed("ConfigMap", tc.cause, tc.since, 0)
			got := d.planned()
			if unblocked := len(got.Unblock) > 0; unblocked != tc.unblock {
				t.Errorf("%s They go: %t", tc.reason, unblocked)
			}
			if !tc.unblock {
				return
			}
			if diff := cmp.Diff([]string{"ConfigMap", "ValidatingWebhookConfiguration"}, got.Apply); diff != "" {
				t.Errorf("they do not come again once (-want +got):\n%s", diff)
			}
		})
	}
}

// TestUnblockOnCluster lets the webhook configuration go and come again on a cluster that is blocked.
func TestUnblockOnCluster(t *testing.T) {
	s, b := newSite(t), bundleOf(t)
	s.settle(t, b)
	mute := refuses(errMute(), "apply configmaps/knative-serving/config-network")
	s.disturb(func(request string) error {
		if s.find("validatingwebhookconfigurations/config.webhook") == nil {
			return nil
		}
		return mute(request)
	})
	s.lose("configmaps/knative-serving/config-network")
	s.pass(t, b)
	s.clock.SetTime(s.clock.Now().Add(blockedFor))
	s.asked()
	s.pass(t, b)
	want := []string{
		"delete validatingwebhookconfigurations/config.webhook", "apply configmaps/knative-serving/config-network",
		"apply validatingwebhookconfigurations/config.webhook",
	}
	var got []string
	for _, request := range s.asked() {
		if request != "update "+anchorPath {
			got = append(got, request)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if s.settle(t, b); len(s.failing) > 0 {
		t.Errorf("these fail: %v", s.failing)
	}
}

// TestRepairs holds the pauses between repairs, when somebody is told, and when all is forgotten.
func TestRepairs(t *testing.T) {
	d := newDesk(t)
	id, other := d.of("ConfigMap").ID(), render.ObjectID{Kind: "Secret", Name: "x"}
	if d.repairs.wait(id) > 0 {
		t.Error("the first repair waits")
	}
	for n, seconds := range []int{3, 6, 12, 24, 48, 96, 192, 240, 240} {
		want := time.Duration(seconds) * time.Second
		if loop := d.repairs.note(id); loop != (n >= 4) {
			t.Errorf("repair %d is one of a loop: %t", n+1, loop)
		}
		if wait := d.repairs.wait(id); wait != want {
			t.Errorf("after repair %d the wait is %s, want %s", n+1, wait, want)
		}
		d.clock.SetTime(d.clock.Now().Add(want - 1))
		if d.repairs.wait(id) <= 0 {
			t.Errorf("repair %d comes too early", n+2)
		}
		d.clock.SetTime(d.clock.Now().Add(1))
		if d.repairs.wait(id) > 0 {
			t.Errorf("repair %d waits too long", n+2)
		}
	}
	if d.repairs.wait(other) > 0 {
		t.Error("another object waits")
	}
	d.clock.SetTime(d.clock.Now().Add(2 * longestPause))
	if loop := d.repairs.note(id); loop || d.repairs.wait(id) != firstPause {
		t.Errorf("after a long rest the wait is %s", d.repairs.wait(id))
	}
}

// TestRepairedTells holds that what could not be repaired is no repair.
func TestRepairedTells(t *testing.T) {
	d := newDesk(t)
	d.lose("ConfigMap")
	d.change("Deployment", func(s *sight) { s.fields = "theirs" })
	p := d.plan(d.bundle, d.anchor, d.seen)
	d.failed("ConfigMap", "no", 0, time.Second)
	texts, loop := d.repaired(p)
	if diff := cmp.Diff([]string{"Deployment.apps knative-serving/activator was changed"}, texts); diff != "" || loop {
		t.Errorf("a loop: %t (-want +got):\n%s", loop, diff)
	}
	if d.repairs.wait(d.of("ConfigMap").ID()) > 0 {
		t.Error("what was not repaired waits")
	}
}
