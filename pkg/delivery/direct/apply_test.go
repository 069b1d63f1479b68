// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"open-cluster-management.io/knative-addon/pkg/clustercache"
	"open-cluster-management.io/knative-addon/pkg/inventory"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// refuses makes requests fail that contain one of the words.
func refuses(err error, words ...string) func(string) error {
	return func(request string) error {
		for _, word := range words {
			if strings.Contains(request, word) {
				return err
			}
		}
		return nil
	}
}

var (
	errForbidden = apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "x", errors.New("no"))
	errBusy      = apierrors.NewTooManyRequests("later", 1)
)

// TestRefused holds what a refused object keeps from being applied, and that it is told.
func TestRefused(t *testing.T) {
	all := []string{"clusterrolebindings", "config-network", "deployments", "images/", "jobs", "secrets", "serviceaccounts", "webhook"}
	for name, tc := range map[string]struct {
		reason  string
		refused string
		missing []string
	}{
		"foundation": {"Nothing else can work.", "apply customresource", all},
		"permission": {"Only the Job, the mark of a complete version, needs the object.", "apply serviceaccounts", []string{"serviceaccounts", "jobs"}},
		"workload":   {"No webhook would respond.", "apply deployments", []string{"deployments", "webhook", "jobs"}},
		"webhook":    {"The objects of the next stage may work.", "apply validating", []string{"webhook", "jobs"}},
	} {
		t.Run(name, func(t *testing.T) {
			s, b := newClusterFixture(t), bundleOf(t)
			s.disturb(refuses(errForbidden, tc.refused))
			out := s.pass(t, b)
			missing := slices.DeleteFunc(slices.Clone(all), func(object string) bool { return strings.Contains(strings.Join(s.names(), " "), object) })
			if diff := cmp.Diff(slices.Sorted(slices.Values(tc.missing)), missing); diff != "" {
				t.Errorf("%s What is missing (-want +got):\n%s", tc.reason, diff)
			}
			if len(out.Observation.Failed) != 1 || !strings.Contains(out.Observation.Failed[0].Cause, "forbidden") || out.Retry != firstRetry {
				t.Errorf("it tells %+v", out)
			}
			if lost := s.unrecorded(t); len(lost) > 0 {
				t.Errorf("unrecorded: %q", lost)
			}
			s.disturb(nil)
			s.clock.SetTime(s.clock.Now().Add(firstRetry))
			if out := s.settle(t, b); len(out.Observation.Failed) > 0 || out.Retry != 0 {
				t.Errorf("it still tells %+v", out)
			}
			if diff := cmp.Diff(everything(), s.names()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestPassFollowsWrites holds that a pass follows a pass that wrote objects, and no pass a pass without a write: an object that another client deletes
// before the cache has the object causes no event.
func TestPassFollowsWrites(t *testing.T) {
	s, b := newClusterFixture(t), bundleOf(t)
	if out := s.pass(t, b); out.Retry != cacheRetry {
		t.Errorf("after the first writes the next pass is after %s, want %s", out.Retry, cacheRetry)
	}
	if out := s.settle(t, b); out.Retry != 0 {
		t.Errorf("at rest the next pass is after %s", out.Retry)
	}
}

// TestHeldBack holds that what is due, and waits for something else that fails, does not make passes follow each other.
func TestHeldBack(t *testing.T) {
	s, b := newClusterFixture(t), bundleOf(t)
	s.disturb(refuses(errForbidden, "apply validating"))
	s.pass(t, b)
	s.disturb(refuses(errForbidden, "apply validating", "apply deployments"))
	changed := bundleOf(t, func(b *render.Bundle) {
		b.Payload[4] = rendered(t, inDeployments, "Deployment knative-serving/activator", nil)
	})
	s.clock.SetTime(s.clock.Now().Add(firstRetry))
	if out := s.pass(t, changed); out.Retry != firstRetry {
		t.Errorf("the next pass is after %s", out.Retry)
	}
	s.clock.SetTime(s.clock.Now().Add(firstRetry))
	if out := s.pass(t, changed); out.Retry != 2*firstRetry {
		t.Errorf("the next pass is after %s", out.Retry)
	}
}

// TestUnusable holds that a cluster which does not answer is an error, and no fault of an object.
func TestUnusable(t *testing.T) {
	s, b := newClusterFixture(t), bundleOf(t)
	s.disturb(refuses(errBusy, "apply deployments"))
	if _, err := s.Sync(t.Context(), b, SyncOptions{}); !apierrors.IsTooManyRequests(err) || !strings.Contains(err.Error(), "Deployment.apps knative-serving/activator") {
		t.Errorf("it ends with %v", err)
	}
	if len(s.failedObjects) > 0 {
		t.Errorf("it is held against objects: %v", s.failedObjects)
	}
	if e := s.recorded(t)[b.Payload[2].ID()]; e.Digest == "" {
		t.Error("what was applied before is not recorded as such")
	}
	s.disturb(nil)
	s.settle(t, b)
	if diff := cmp.Diff(everything(), s.names()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestUnusableErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"none":              {nil, false},
		"no connection":     {errors.New("connection refused"), true},
		"out of time":       {context.DeadlineExceeded, true},
		"not known":         {apierrors.NewUnauthorized("who are you"), true},
		"too many requests": {errBusy, true},
		"not now":           {apierrors.NewServiceUnavailable("starting"), true},
		"not allowed":       {errForbidden, false},
		"a webhook is mute": {apierrors.NewInternalError(errors.New(`failed calling webhook "x"`)), false},
		"no such kind":      {unserved(path{}), false},
		"not valid":         {apierrors.NewInvalid(schema.GroupKind{}, "x", nil), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := clustercache.IsUnavailable(tc.err); got != tc.want {
				t.Errorf("unusable: %t", got)
			}
		})
	}
}

// TestKindMissing tells the two kinds of "not found" apart.
func TestKindMissing(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"no such path":      {unserved(path{}), true},
		"no such namespace": {apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "x"), false},
		"a bad gateway": {
			apierrors.NewGenericServerResponse(http.StatusBadGateway, "", schema.GroupResource{}, "", "x", 0, true), false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := isKindMissing(tc.err); got != tc.want {
				t.Errorf("kindMissing: %t", got)
			}
		})
	}
}

// TestKindOfOthers holds that an object of a kind that the cluster does not have is told, and holds up nothing.
func TestKindOfOthers(t *testing.T) {
	s := newClusterFixture(t)
	old := bundleOf(t, func(b *render.Bundle) {
		b.Payload = append(b.Payload, rendered(t, inConfigMaps, "ConfigMap knative-serving/old", nil))
	})
	s.settle(t, old)
	b := bundleOf(t, func(b *render.Bundle) {
		b.Payload = append(b.Payload, rendered(t, "certs.others.dev/v1/certificates", "Certificate knative-serving/tls", nil))
	})
	out := s.pass(t, b)
	if f := out.Observation.Failed; len(f) != 1 || !f[0].KindMissing || f[0].Object != "Certificate knative-serving/tls" {
		t.Errorf("it tells %+v", f)
	}
	if diff := cmp.Diff(everything(), s.names()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestFail holds the pauses after which an object is tried again.
func TestFail(t *testing.T) {
	s, it := newClusterFixture(t), &desiredObject{id: render.ObjectID{Kind: "Service", Namespace: installed, Name: "webhook"}, digest: "d1"}
	since := s.clock.Now()
	for _, seconds := range []int{1, 2, 4, 8, 16, 32, 60, 60} {
		want := time.Duration(seconds) * time.Second
		s.recordFailure(it, errForbidden)
		f := s.failedObjects[it.id]
		if f.pause != want || !f.retryAt.Equal(s.clock.Now().Add(f.pause)) || !f.Since.Equal(since) || f.Object != "Service knative-serving/webhook" {
			t.Errorf("want a pause of %s: %+v", want, f)
		}
		s.clock.SetTime(f.retryAt)
	}
	changed := &desiredObject{id: it.id, digest: "d2"}
	s.recordFailure(changed, errForbidden)
	if f := s.failedObjects[it.id]; f.pause != firstRetry || !f.Since.Equal(s.clock.Now()) {
		t.Errorf("another version starts again: %+v", f)
	}
	s.recordFailure(&desiredObject{id: render.ObjectID{Kind: "ClusterRole", Name: "x"}}, errForbidden)
	if f := s.failedObjects[render.ObjectID{Kind: "ClusterRole", Name: "x"}]; f.Object != "ClusterRole x" {
		t.Errorf("it is called %q", f.Object)
	}
}

// errMute is what the API server says when the webhook does not answer.
func errMute() error {
	return apierrors.NewInternalError(errors.New(`failed calling webhook "config.webhook.serving.knative.dev": connection refused`))
}

// TestAwaitsServed holds that only what is of a kind of Knative's own waits until the cluster serves it, and that nobody asks
// where there is nothing of that.
func TestAwaitsServed(t *testing.T) {
	const discovery = "list "
	s := newClusterFixture(t)
	var steps []string
	asked := 0
	s.disturb(func(request string) error {
		switch {
		case request == discovery:
			if asked++; asked < 3 {
				return unserved(path{})
			}
			steps = append(steps, "served")
		case strings.HasPrefix(request, "apply deployments"), strings.HasPrefix(request, "apply images"), strings.HasPrefix(request, "create jobs"):
			_, of, _ := strings.Cut(request, " ")
			of, _, _ = strings.Cut(of, "/")
			steps = append(steps, of)
		}
		return nil
	})
	s.pass(t, bundleOf(t))
	if len(steps) != 4 || steps[0] != "deployments" || steps[1] != "served" || asked != 3 {
		t.Errorf("asked %d times, in this order: %q", asked, steps)
	}
	bare := newClusterFixture(t)
	bare.disturb(func(request string) error {
		if request == discovery {
			t.Error("it asks what the cluster serves")
		}
		return nil
	})
	bare.pass(t, bundleOf(t, without("Image"), without("Job")))
}

// TestForgetMissingNamespace holds that a refusal which names a Namespace lets the next pass create a Namespace that the cluster had before, and
// that no other refusal does.
func TestForgetMissingNamespace(t *testing.T) {
	id := render.ObjectID{Kind: "Namespace", Name: "team"}
	object := &desiredObject{id: render.ObjectID{Kind: "ConfigMap", Namespace: "team", Name: "settings"}}
	for name, tc := range map[string]struct {
		err  error
		done bool
	}{
		"the Namespace does not exist": {apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "team"), false},
		"the object does not exist":    {apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, "settings"), true},
		"the cluster forbids":          {apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "settings", nil), true},
	} {
		t.Run(name, func(t *testing.T) {
			items := inventory.Items{id: {Kind: "Namespace", Name: "team", Digest: "d", Done: true}}
			forgetMissingNamespace(items, object, tc.err)
			if e := items[id]; e.Done != tc.done || (e.Digest == "d") != tc.done {
				t.Errorf("the Namespace is recorded as %+v", e)
			}
		})
	}
}
