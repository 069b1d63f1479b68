// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"errors"
	"reflect"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/inventory"
)

// TestClaimAtOnce holds that of two resources that come at the same time one is refused.
func TestClaimAtOnce(t *testing.T) {
	s, b := newClusterFixture(t), bundleOf(t)
	// Whoever claims the cluster keeps others from doing so until the anchor is there.
	s.disturb(func(request string) error {
		if strings.HasPrefix(request, "create configmaps") && s.cluster.ClaimLock.TryLock() {
			s.cluster.ClaimLock.Unlock()
			return errors.New("another one may claim the cluster now")
		}
		return nil
	})
	var wg sync.WaitGroup
	errs := make([]error, 4)
	for n := range errs {
		i := NewInstallation(s.cluster, ownerNamed(strings.Repeat("x", n+1)), s.clock)
		wg.Go(func() { _, errs[n] = i.Sync(t.Context(), b, SyncOptions{}) })
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		if ownership := (*inventory.OwnershipError)(nil); err == nil {
			won++
		} else if !errors.As(err, &ownership) {
			t.Error(err)
		}
	}
	if won != 1 {
		t.Errorf("%d have the cluster", won)
	}
}

// TestAnchors holds whose anchors are believed, that nothing is written before, and what the messages say.
func TestAnchors(t *testing.T) {
	for name, tc := range map[string]struct {
		anchor      *unstructured.Unstructured
		want        string
		as          any
		sameHub     bool
		versionFine bool
	}{
		"of another resource": {signed("team/self", string(hubUID), ""), "belongs to team/self", new(*inventory.OwnershipError), true, false},
		"of another hub":      {signed("knative-serving/self", "hub-2", ""), "belongs to knative-serving/self", new(*inventory.OwnershipError), false, true},
		"unsigned":            {signed("", "", ""), "not ours: ConfigMap knative-serving/knativeserving-self-root-owner", new(*inventory.UnmanagedError), false, true},
		"unreadable": {
			signed("knative-serving/self", string(hubUID), "{"), "delete the key to have it recreated", nil, false, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newClusterFixture(t)
			s.add(configMapResource(), tc.anchor)
			_, syncErr := s.Sync(t.Context(), bundleOf(t), SyncOptions{})
			_, removeErr := s.Remove(t.Context(), RemoveOptions{Namespace: installed, Foundation: true})
			for _, err := range []error{syncErr, removeErr} {
				if err == nil || !strings.Contains(err.Error(), tc.want) || tc.as != nil && !errors.As(err, tc.as) {
					t.Errorf("got %v, want %q", err, tc.want)
				}
			}
			if ownership, ok := tc.as.(**inventory.OwnershipError); ok && (*ownership).SameHub != tc.sameHub {
				t.Errorf("same hub: %t", (*ownership).SameHub)
			}
			if _, err := s.Installed(t.Context(), installed); (err == nil) != tc.versionFine {
				t.Errorf("asking for the version: %v", err)
			}
			if asked := s.asked(); len(asked) > 0 {
				t.Errorf("something is written: %q", asked)
			}
		})
	}
}

// signed is an anchor with an owner, its hub and the encoded items.
func signed(owner, hub, text string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{itemsKey: text},
		"metadata": map[string]any{"namespace": installed, "name": "knativeserving-self-root-owner"},
	}}
	u.SetAnnotations(map[string]string{"operator.knative.dev/anchor": "true", api.InstalledForAnnotation: owner, api.HubAnnotation: hub})
	return u
}

// TestUnmanaged holds that a workload without our label keeps the cluster from being taken, unless that is asked for.
func TestUnmanaged(t *testing.T) {
	s, b := newClusterFixture(t), bundleOf(t)
	theirs := b.Payload[4]
	s.add(theirs.Resource, theirs.Unstructured)
	var unmanaged *inventory.UnmanagedError
	if _, err := s.Sync(t.Context(), b, SyncOptions{}); !errors.As(err, &unmanaged) || unmanaged.Objects[0] != "Deployment knative-serving/activator" {
		t.Errorf("got %v", err)
	}
	if asked := s.asked(); len(asked) > 0 {
		t.Errorf("something is written: %q", asked)
	}
	if _, err := s.Sync(t.Context(), b, SyncOptions{Adopt: true}); err != nil {
		t.Fatal(err)
	}
	before := s.find(anchorPath).GetResourceVersion()
	if s.settle(t, b); s.find(anchorPath).GetResourceVersion() != before {
		t.Error("the anchor is written again and again")
	}
}

// TestHubBuiltAnew holds that what a hub has installed that is gone for ever is taken over when that is asked for, with all
// that is recorded of it.
func TestHubBuiltAnew(t *testing.T) {
	s, b := newClusterFixture(t), bundleOf(t)
	s.settle(t, b)
	owner := ownerNamed("self")
	owner.Hub = "rebuilt"
	s.Installation = NewInstallation(s.cluster, owner, s.clock)
	s.asked()
	var ownership *inventory.OwnershipError
	if _, err := s.Sync(t.Context(), b, SyncOptions{}); !errors.As(err, &ownership) || !ownership.Adoptable() || ownership.SameHub {
		t.Errorf("got %v", err)
	}
	if version, err := s.Installed(t.Context(), installed); version.Delivered != b.Version || err != nil {
		t.Errorf("the version is %q, %v", version, err)
	}
	if out, err := s.Sync(t.Context(), b, SyncOptions{Adopt: true, Paused: true}); err != nil || !out.Pending {
		t.Errorf("paused: %+v, %v", out, err)
	}
	if asked := s.asked(); len(asked) > 0 {
		t.Errorf("something is written: %q", asked)
	}
	before := s.find(anchorPath)
	if _, err := s.Sync(t.Context(), b, SyncOptions{Adopt: true}); err != nil {
		t.Fatal(err)
	}
	after := s.find(anchorPath)
	if hub := after.GetAnnotations()[api.HubAnnotation]; hub != "rebuilt" {
		t.Errorf("the anchor is of hub %q", hub)
	}
	if !reflect.DeepEqual(before.Object["data"], after.Object["data"]) {
		t.Errorf("the inventory is %v, was %v", after.Object["data"], before.Object["data"])
	}
	if waiting, err := s.Remove(t.Context(), RemoveOptions{Namespace: installed}); err != nil {
		t.Errorf("cannot remove it: %s, %v", waiting, err)
	}
}

// TestUnmanagedElsewhere holds that a cluster is not taken that has the component in another namespace, but is where only
// something of the same name is.
func TestUnmanagedElsewhere(t *testing.T) {
	for name, tc := range map[string]struct {
		labels map[string]string
		want   string
	}{
		"the component":                   {map[string]string{"app.kubernetes.io/name": "knative-serving"}, "not ours: Deployment elsewhere/activator"},
		"something else of the same name": {nil, ""},
		"another component":               {map[string]string{"app.kubernetes.io/name": "knative-eventing"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, b := newClusterFixture(t), bundleOf(t)
			theirs := b.Payload[4]
			u := theirs.DeepCopy()
			u.SetNamespace("elsewhere")
			u.SetLabels(tc.labels)
			s.add(theirs.Resource, u)
			_, err := s.Sync(t.Context(), b, SyncOptions{})
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// TestAppliedByWorkAgent holds that what a work agent has applied is told as such, and taken over only if that is asked for.
func TestAppliedByWorkAgent(t *testing.T) {
	s, b := newClusterFixture(t), bundleOf(t)
	theirs := b.Payload[4]
	u := theirs.DeepCopy()
	u.SetOwnerReferences([]metav1.OwnerReference{
		{APIVersion: "work.open-cluster-management.io/v1", Kind: "AppliedManifestWork", Name: "abc-addon-knative-serving-deploy-0", UID: "u"},
	})
	s.add(theirs.Resource, u)
	for _, paused := range []bool{false, true} {
		var ownership *inventory.OwnershipError
		_, err := s.Sync(t.Context(), b, SyncOptions{Paused: paused})
		if !errors.As(err, &ownership) || !ownership.WorkAgent || ownership.Objects[0] != "Deployment knative-serving/activator" ||
			!strings.Contains(err.Error(), "AppliedManifestWork abc-addon") {
			t.Errorf("paused %t: got %v", paused, err)
		}
	}
	if asked := s.asked(); len(asked) > 0 {
		t.Errorf("something is written: %q", asked)
	}
	if _, err := s.Sync(t.Context(), b, SyncOptions{Adopt: true}); err != nil {
		t.Error(err)
	}
}

// TestLongName holds that a resource whose anchor cannot be named is told so before anything is written.
func TestLongName(t *testing.T) {
	s := newClusterFixture(t)
	i := NewInstallation(s.cluster, ownerNamed(strings.Repeat("x", 250)), s.clock)
	_, err := i.Sync(t.Context(), bundleOf(t), SyncOptions{})
	if err == nil || !strings.Contains(err.Error(), "a shorter name") || len(s.asked()) > 0 {
		t.Errorf("got %v", err)
	}
}

// TestClosed holds that nothing is watched on a connection that has ended.
func TestClosed(t *testing.T) {
	s, b := newClusterFixture(t), bundleOf(t)
	s.settle(t, b)
	s.cluster.Close()
	if _, err := s.Sync(t.Context(), b, SyncOptions{}); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("got %v", err)
	}
}

// TestLostServer holds that a cluster that does not know ConfigMaps any more, as a gateway without a backend, is an error.
func TestLostServer(t *testing.T) {
	s, b := newClusterFixture(t), bundleOf(t)
	if _, err := s.Sync(t.Context(), b, SyncOptions{}); err != nil {
		t.Fatal(err)
	}
	s.disturb(func(string) error { return unserved(path{resource: configMapResource()}) })
	s.cluster.Close()
	s.cluster, s.seen = s.connect() // it has no views yet, and the installation remembers its anchor
	if _, err := s.Sync(t.Context(), b, SyncOptions{}); err == nil {
		t.Error("there is no error")
	}
}
