// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"open-cluster-management.io/knative-addon/pkg/clustercache"
)

// TestUnblock holds when our webhooks are taken for what blocks the cluster.
func TestUnblock(t *testing.T) {
	const mute = `Internal error occurred: failed calling webhook "config.webhook.serving.knative.dev": connection refused`
	old := webhookTimeout + time.Second
	lost := func(d *planFixture) { d.lose("ConfigMap"); d.lose("ValidatingWebhookConfiguration") }
	for name, tc := range map[string]struct {
		reason  string
		cause   string
		since   time.Duration
		prepare func(*planFixture)
		unblock bool
	}{
		"a lost ConfigMap": {"Nobody can answer without it.", mute, old, func(d *planFixture) { d.lose("ConfigMap") }, true},
		"a new ConfigMap":  {"It is the same.", mute, old, func(d *planFixture) { d.forget(d.of("ConfigMap")) }, true},
		"only just":        {"They may be starting.", mute, webhookTimeout - time.Second, func(d *planFixture) { d.lose("ConfigMap") }, false},
		"a changed ConfigMap": {"They can start with it.", mute, old, func(d *planFixture) {
			d.change("ConfigMap", func(s *clustercache.Object) { s.FieldsDigest = "theirs" })
		}, false},
		"another one's webhook":  {"It is not ours to take away.", `failed calling webhook "policy.example.com": refused`, old, func(d *planFixture) { d.lose("ConfigMap") }, false},
		"a webhook's denial":     {"It has answered.", `admission webhook "config.webhook.serving.knative.dev" denied the request: no`, old, func(d *planFixture) { d.lose("ConfigMap") }, false},
		"a denial that mimics":   {"The name is not in the words.", `denied the request: failed calling webhook config.webhook.serving.knative.dev`, old, func(d *planFixture) { d.lose("ConfigMap") }, false},
		"webhooks are gone, too": {"What is recorded may come back.", mute, old, lost, true},
	} {
		t.Run(name, func(t *testing.T) {
			d := newPlanFixture(t)
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
	s, b := newClusterFixture(t), bundleOf(t)
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
	s.clock.SetTime(s.clock.Now().Add(webhookTimeout))
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
	if s.settle(t, b); len(s.failedObjects) > 0 {
		t.Errorf("these fail: %v", s.failedObjects)
	}
}

// TestUnblockNamespace holds that our webhook configurations go when the install namespace is being deleted: the deletion waits for the
// webhooks, which are gone.
func TestUnblockNamespace(t *testing.T) {
	terminating := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "anchor", errors.New("because it is being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for name, tc := range map[string]struct {
		refusal error
		want    bool
	}{
		"the namespace is being deleted": {terminating, false},
		"the cluster refuses the anchor": {errForbidden, true},
	} {
		t.Run(name, func(t *testing.T) {
			s, b := newClusterFixture(t), bundleOf(t)
			s.settle(t, b)
			s.lose(anchorPath)
			s.restart()
			s.disturb(refuses(tc.refusal, "create configmaps"))
			if _, err := s.Sync(t.Context(), b, SyncOptions{Adopt: true}); err == nil {
				t.Error("the pass does not fail")
			}
			if there := s.find("validatingwebhookconfigurations/config.webhook") != nil; there != tc.want {
				t.Errorf("the webhook configuration is there: %t", there)
			}
		})
	}
}
