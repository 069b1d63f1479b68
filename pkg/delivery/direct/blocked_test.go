// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"open-cluster-management.io/knative-addon/pkg/clustercache"
)

// TestBlocked holds that a cluster which refuses what has to come first is told from one that cannot be used, and says what.
func TestBlocked(t *testing.T) {
	sync := func(t *testing.T, s *clusterFixture) error {
		t.Helper()
		_, err := s.Sync(t.Context(), bundleOf(t), SyncOptions{})
		return err
	}
	version := func(t *testing.T, s *clusterFixture) error {
		t.Helper()
		_, err := s.Installed(t.Context(), installed)
		return err
	}
	remove := func(t *testing.T, s *clusterFixture) error {
		t.Helper()
		_, err := s.Remove(t.Context(), RemoveOptions{Namespace: installed, Foundation: true})
		return err
	}
	for name, tc := range map[string]struct {
		refused string
		// there tells that everything is installed, by a restarted manager.
		there bool
		do    func(*testing.T, *clusterFixture) error
		says  string
	}{
		"the anchor is not read":          {"get " + anchorPath, true, version, "cannot get ConfigMap"},
		"others are not looked for":       {"list configmaps", false, sync, "cannot list ConfigMaps"},
		"the namespace is not made":       {"apply namespaces", false, sync, "cannot apply Namespace knative-serving"},
		"the anchor is not made":          {"create configmaps", false, sync, "cannot record the installation"},
		"an object is not seen":           {"list deployments", true, sync, "cannot list deployments.apps"},
		"it is not known what is left":    {"get namespaces", true, remove, "cannot get Namespace"},
		"a CRD that is to go is not read": {"get customresourcedefinitions", true, remove, "cannot get CustomResourceDefinition"},
		"users' resources are not read":   {"list images", true, remove, "cannot list images.caching.knative.dev"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newClusterFixture(t)
			if tc.there {
				s.settle(t, bundleOf(t))
				s.restart()
			}
			s.disturb(refuses(errForbidden, tc.refused))
			err := tc.do(t, s)
			if blocked := (*clustercache.BlockedError)(nil); !errors.As(err, &blocked) || !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("refused, it ends with %v", err)
			}
			s.disturb(refuses(errBusy, tc.refused))
			err = tc.do(t, s)
			if blocked := (*clustercache.BlockedError)(nil); err == nil || errors.As(err, &blocked) {
				t.Errorf("busy, it ends with %v", err)
			}
			s.disturb(nil)
			if err := tc.do(t, s); err != nil {
				t.Errorf("in the end: %v", err)
			}
		})
	}
}

// TestBlockedByRecord holds that a record which nobody can read blocks, until a person fixes the record.
func TestBlockedByRecord(t *testing.T) {
	s := newClusterFixture(t)
	s.settle(t, bundleOf(t))
	s.edit(anchorPath, func(u *unstructured.Unstructured) {
		u.Object["data"] = map[string]any{itemsKey: "{"}
	})
	s.restart()
	_, err := s.Sync(t.Context(), bundleOf(t), SyncOptions{})
	if blocked := (*clustercache.BlockedError)(nil); !errors.As(err, &blocked) || !strings.Contains(err.Error(), "delete the key") {
		t.Errorf("it ends with %v", err)
	}
	long := ownerNamed(strings.Repeat("x", 253))
	_, err = NewInstallation(s.cluster, long, s.clock).Sync(t.Context(), bundleOf(t), SyncOptions{})
	if blocked := (*clustercache.BlockedError)(nil); !errors.As(err, &blocked) || !strings.Contains(err.Error(), "a shorter name") {
		t.Errorf("a long name ends with %v", err)
	}
}

// TestBlockedOnce holds that nothing is left of what failed: the next pass requests everything again.
func TestBlockedOnce(t *testing.T) {
	s := newClusterFixture(t)
	s.settle(t, bundleOf(t))
	for name, refused := range map[string]error{"refused": errForbidden, "failing": errMute()} {
		t.Run(name, func(t *testing.T) {
			s.restart()
			s.disturb(refuses(refused, "list "))
			if _, err := s.Sync(t.Context(), bundleOf(t), SyncOptions{}); err == nil {
				t.Fatal("it does not fail")
			}
			s.disturb(nil)
			if _, err := s.Sync(t.Context(), bundleOf(t), SyncOptions{}); err != nil {
				t.Errorf("the next pass ends with %v", err)
			}
		})
	}
}
