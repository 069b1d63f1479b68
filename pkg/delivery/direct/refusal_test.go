// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"open-cluster-management.io/knative-addon/pkg/render"
)

// withOld are two more objects, which a later bundle does not have.
func withOld(t *testing.T) func(*render.Bundle) {
	t.Helper()
	return func(b *render.Bundle) {
		b.Payload = append(b.Payload,
			rendered(t, inConfigMaps, "ConfigMap knative-serving/old-a", nil), rendered(t, inConfigMaps, "ConfigMap knative-serving/old-b", nil))
	}
}

// TestPruneRefused holds that a refused deletion is told, holds up nothing else, and is tried again after a while.
func TestPruneRefused(t *testing.T) {
	s := newClusterFixture(t)
	s.settle(t, bundleOf(t, withOld(t)))
	b := bundleOf(t, func(b *render.Bundle) {
		b.Payload[2] = rendered(t, inConfigMaps, "ConfigMap knative-serving/config-network", nil)
	})
	s.disturb(refuses(errForbidden, "delete configmaps/knative-serving/old-a"))
	s.asked()
	out := s.pass(t, b)
	if f := out.Observation.Failed; len(f) != 1 || f[0].Object != "ConfigMap knative-serving/old-a" ||
		!strings.HasPrefix(f[0].Cause, "its deletion was refused: ") || !strings.Contains(f[0].Cause, "forbidden") || !f[0].Since.Equal(s.clock.Now()) {
		t.Errorf("it tells %+v", f)
	}
	if out.Retry != firstRetry {
		t.Errorf("it is tried again after %s", out.Retry)
	}
	asked := strings.Join(s.asked(), ", ")
	if !strings.Contains(asked, "apply configmaps/knative-serving/config-network") || s.find("configmaps/knative-serving/old-b") != nil {
		t.Errorf("others are held up: %s", asked)
	}
	if lost := s.unrecorded(t); len(lost) > 0 {
		t.Errorf("unrecorded: %q", lost)
	}
	if out := s.pass(t, b); len(out.Observation.Failed) != 1 || out.Retry != firstRetry || len(s.asked()) > 0 {
		t.Errorf("before it is due: %+v", out)
	}
	s.clock.SetTime(s.clock.Now().Add(firstRetry))
	if out := s.pass(t, b); out.Retry != 2*firstRetry {
		t.Errorf("the next time it is tried again after %s", out.Retry)
	}
	s.disturb(nil)
	s.clock.SetTime(s.clock.Now().Add(2 * firstRetry))
	if out := s.settle(t, b); len(out.Observation.Failed) > 0 || out.Retry != 0 {
		t.Errorf("in the end it tells %+v", out)
	}
	if diff := cmp.Diff(everything(), s.names()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestPruneWantedAgain holds that nothing is said of an object any more that is wanted again.
func TestPruneWantedAgain(t *testing.T) {
	s := newClusterFixture(t)
	s.settle(t, bundleOf(t, withOld(t)))
	s.disturb(refuses(errForbidden, "delete configmaps/"))
	if out := s.pass(t, bundleOf(t)); len(out.Observation.Failed) != 2 {
		t.Errorf("it tells %+v", out.Observation.Failed)
	}
	if out := s.settle(t, bundleOf(t, withOld(t))); len(out.Observation.Failed) > 0 || out.Retry != 0 {
		t.Errorf("it tells %+v", out)
	}
}

// TestPruneUnusable holds that a cluster which does not answer a deletion is an error, and no fault of an object.
func TestPruneUnusable(t *testing.T) {
	s := newClusterFixture(t)
	s.settle(t, bundleOf(t, withOld(t)))
	s.disturb(refuses(errBusy, "delete configmaps/"))
	if _, err := s.Sync(t.Context(), bundleOf(t), SyncOptions{}); !apierrors.IsTooManyRequests(err) || !strings.Contains(err.Error(), "cannot delete ConfigMap knative-serving/old-") {
		t.Errorf("it ends with %v", err)
	}
	if len(s.failedDeletions) > 0 {
		t.Errorf("it is held against objects: %v", s.failedDeletions)
	}
}

// TestRemoveRefused holds that a refused deletion is told with its cause, and holds up the next stages, but not its own.
func TestRemoveRefused(t *testing.T) {
	const anchorRefused = "delete " + anchorPath
	for name, tc := range map[string]struct {
		reason  string
		refused string
		says    string
		left    []string
	}{
		"an object": {
			"What is of its stage goes.", "delete configmaps/knative-serving/config-network", "ConfigMap knative-serving/config-network",
			[]string{"config-network", "serviceaccounts", "clusterrolebindings", "root-owner", "customresourcedefinitions", "namespaces"},
		},
		"a CRD": {
			"The namespace waits.", "delete customresource", "CustomResourceDefinition.apiextensions.k8s.io images.caching.knative.dev",
			[]string{"root-owner", "customresourcedefinitions", "namespaces"},
		},
		"the anchor": {"It is the last.", anchorRefused, "ConfigMap knative-serving/knativeserving-self-root-owner", []string{"root-owner"}},
	} {
		t.Run(name, func(t *testing.T) {
			s, b := newClusterFixture(t), bundleOf(t)
			s.settle(t, b)
			s.disturb(refuses(errForbidden, tc.refused))
			s.removeRefused(t, tc.says)
			s.asked()
			s.removeRefused(t, tc.says)
			if tries := strings.Count(strings.Join(s.asked(), " "), "delete"); tries > 0 && tc.refused != anchorRefused {
				t.Error("it was tried again at once")
			}
			if left := slices.DeleteFunc(s.names(), func(name string) bool { return contained(name, tc.left) }); len(left) > 0 {
				t.Errorf("%s Left is %q", tc.reason, left)
			}
			s.disturb(nil)
			s.clock.SetTime(s.clock.Now().Add(firstRetry))
			waiting, err := s.Remove(t.Context(), RemoveOptions{Namespace: installed, Foundation: true})
			if left := s.names(); err != nil || waiting != "" || len(left) > 0 {
				t.Errorf("in the end it waits for %q: %v; left is %q", waiting, err, left)
			}
		})
	}
}

// removeRefused removes, where the deletion of an object is refused.
func (s *clusterFixture) removeRefused(t *testing.T, object string) {
	t.Helper()
	waiting, err := s.Remove(t.Context(), RemoveOptions{Namespace: installed, Foundation: true})
	if err != nil || !strings.Contains(waiting, object+": its deletion was refused: ") || !strings.Contains(waiting, "forbidden") {
		t.Errorf("it waits for %q: %v", waiting, err)
	}
}

func contained(name string, words []string) bool {
	for _, w := range words {
		if strings.Contains(name, w) {
			return true
		}
	}
	return false
}

// TestRemoveUserResourcesRefused holds that one resource of a user that stays does not keep the others.
func TestRemoveUserResourcesRefused(t *testing.T) {
	s, b := newClusterFixture(t), bundleOf(t)
	s.settle(t, b)
	for _, name := range []string{"mine-a", "mine-b"} {
		image := rendered(t, inImages, "Image team/"+name, nil)
		s.add(image.Resource, image.Unstructured)
	}
	s.disturb(refuses(errForbidden, "delete images/team/mine-a"))
	options := RemoveOptions{Namespace: installed, Foundation: true, UserResources: true}
	waiting, err := s.Remove(t.Context(), options)
	if want := "the deletion of images.caching.knative.dev team/mine-a was refused: "; err != nil || !strings.Contains(waiting, want) || !strings.Contains(waiting, "forbidden") {
		t.Errorf("it waits for %q: %v", waiting, err)
	}
	if want := " images.caching.knative.dev (team/mine-a)"; !strings.Contains(waiting, want) {
		t.Errorf("it waits for %q, want %q", waiting, want)
	}
	if s.find("images/team/mine-a") == nil || s.find("images/team/mine-b") != nil || s.find("deployments/knative-serving/activator") == nil {
		t.Errorf("there is %q", s.names())
	}
	s.disturb(refuses(errBusy, "delete images/team/mine-a"))
	if _, err := s.Remove(t.Context(), options); !apierrors.IsTooManyRequests(err) {
		t.Errorf("a cluster that does not answer: %v", err)
	}
}

// TestRefusedRequests refuses each request of an installation, an upgrade and a repair two times. The passes that Outcome.Retry asks for finish
// the change nevertheless: no refused object prevents its own next try.
func TestRefusedRequests(t *testing.T) {
	first, next := bundleOf(t), bundleOf(t, without("Job"), func(b *render.Bundle) {
		b.Version = "1.24.0"
		b.Payload[2] = rendered(t, inConfigMaps, "ConfigMap knative-serving/config-features", nil)
		b.Payload = append(b.Payload, rendered(t, inJobs, "Job knative-serving/migrate-again", nil, render.OncePerVersion))
	})
	for name, tc := range map[string]struct {
		before func(*clusterFixture)
		bundle *render.Bundle
	}{
		"installation": {func(*clusterFixture) {}, first},
		"upgrade":      {func(s *clusterFixture) { s.settle(t, first) }, next},
		"repair": {func(s *clusterFixture) {
			s.settle(t, first)
			s.edit("deployments/knative-serving/activator", scaled)
			s.lose("clusterrolebindings/controller")
			s.lose("secrets/knative-serving/certs")
		}, first},
	} {
		t.Run(name, func(t *testing.T) {
			undisturbed := newClusterFixture(t)
			tc.before(undisturbed)
			undisturbed.asked()
			undisturbed.pass(t, tc.bundle)
			requests := undisturbed.asked()
			undisturbed.settle(t, tc.bundle)
			if len(requests) < 5 {
				t.Fatalf("the pass makes only the requests %q", requests)
			}
			for _, refused := range requests {
				s := newClusterFixture(t)
				tc.before(s)
				tries := 0
				s.disturb(func(request string) error {
					if request != refused || tries == 2 {
						return nil
					}
					tries++
					return errForbidden
				})
				s.retryUntilDone(t, tc.bundle)
				if diff := cmp.Diff(undisturbed.names(), s.names()); diff != "" || tries < 2 {
					t.Errorf("request %q was refused %d times (-want +got):\n%s", refused, tries, diff)
				}
			}
		})
	}
}

// retryUntilDone passes at the times that Outcome.Retry names, until a pass has nothing to retry and nothing to write. A failed pass is
// repeated.
func (s *clusterFixture) retryUntilDone(t *testing.T, b *render.Bundle) {
	t.Helper()
	for range 20 {
		s.catchUp(t)
		s.asked()
		out, err := s.Sync(t.Context(), b, SyncOptions{})
		if err == nil && out.Retry == 0 && len(s.asked()) == 0 {
			if f := out.Observation.Failed; len(f) > 0 {
				t.Errorf("no retry follows %+v", f)
			}
			return
		}
		s.clock.SetTime(s.clock.Now().Add(out.Retry))
	}
	t.Error("the passes do not end")
}

// TestSkippedStagesRest holds that passes write nothing while a refused workload keeps changed webhook configurations from their stage: each write
// of the anchor would cause the next pass.
func TestSkippedStagesRest(t *testing.T) {
	s := newClusterFixture(t)
	s.settle(t, bundleOf(t))
	b := bundleOf(t, func(b *render.Bundle) {
		b.Payload[4] = rendered(t, inDeployments, "Deployment knative-serving/activator", map[string]any{"spec": map[string]any{"replicas": int64(2)}})
		b.Payload[5] = rendered(t, inWebhooks, "ValidatingWebhookConfiguration config.webhook", map[string]any{
			"webhooks": []any{map[string]any{"name": "other.webhook.serving.knative.dev"}},
		})
	})
	s.disturb(refuses(errForbidden, "apply deployments/"))
	s.pass(t, b)
	s.asked()
	for range 3 {
		s.pass(t, b)
	}
	if asked := s.asked(); len(asked) > 0 {
		t.Errorf("passes of which nothing is due write %q", asked)
	}
	s.disturb(nil)
	s.clock.SetTime(s.clock.Now().Add(firstRetry))
	s.settle(t, b)
	if lost := s.unrecorded(t); len(lost) > 0 {
		t.Errorf("unrecorded: %q", lost)
	}
}
