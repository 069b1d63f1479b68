// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"context"
	"errors"
	"testing"
)

// TestHasAnchor holds that the anchor of the owner proves an installation, wherever it is, and no other anchor does.
func TestHasAnchor(t *testing.T) {
	s := newClusterFixture(t)
	mustHaveAnchor := func(i *Installation, namespace string, want bool) {
		t.Helper()
		if got, err := i.HasAnchor(t.Context(), namespace); got != want || err != nil {
			t.Errorf("in %q it has the anchor: %t, %v", namespace, got, err)
		}
	}
	mustHaveAnchor(s.Installation, installed, false)
	s.settle(t, bundleOf(t))
	mustHaveAnchor(s.Installation, installed, true)
	mustHaveAnchor(s.Installation, "elsewhere", true)
	mustHaveAnchor(s.other("other"), installed, false)
}

// TestNothingInstalled holds that a removal from a cluster without the installation is told from a removal.
func TestNothingInstalled(t *testing.T) {
	s := newClusterFixture(t)
	if waiting, err := s.Remove(t.Context(), RemoveOptions{Namespace: installed}); !errors.Is(err, ErrNothingInstalled) {
		t.Errorf("got %q, %v", waiting, err)
	}
	s.settle(t, bundleOf(t))
	s.finish(t, func(ctx context.Context, s *clusterFixture) error {
		_, err := s.Remove(ctx, RemoveOptions{Namespace: installed, Foundation: true})
		return err
	})
}
