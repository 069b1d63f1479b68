// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"open-cluster-management.io/knative-addon/pkg/inventory"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// other is an installation for another resource, through a connection of its own.
func (s *clusterFixture) other(name string) *Installation {
	c, _ := s.connect()
	return NewInstallation(c, ownerNamed(name), s.clock)
}

// once runs something before the first request that begins with the words, and does nothing afterwards.
func (s *clusterFixture) once(words string, run func()) {
	s.disturb(func(request string) error {
		if strings.HasPrefix(request, words) {
			s.disturb(nil)
			run()
		}
		return nil
	})
}

const (
	createAnchor = "create configmaps/knative-serving"
	otherPath    = "configmaps/knative-serving/knativeserving-other-root-owner"
)

// TestClaimThroughTwoConnections holds that of two that find the cluster free at the same moment only the first one stays,
// and that the second one touches nothing but its anchor.
func TestClaimThroughTwoConnections(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		// meet lets the other one come in between, and returns what came of it.
		meet  func(t *testing.T, s *clusterFixture, other func() error)
		stays string
	}{
		"the other one installs before our anchor is made": {
			"It was first, and its anchor was written since.",
			func(t *testing.T, s *clusterFixture, other func() error) {
				t.Helper()
				s.once(createAnchor, func() {
					if err := other(); err != nil {
						t.Errorf("the first one gets %v", err)
					}
				})
			}, "other",
		},
		"the other one makes its anchor before ours, and stops": {
			"It was first, and goes on when it is back.",
			func(_ *testing.T, s *clusterFixture, other func() error) {
				s.once(createAnchor, func() {
					s.disturb(stopAfter(createAnchor))
					_ = other() // it crashes
					s.disturb(nil)
				})
			}, "other",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, b := newClusterFixture(t), bundleOf(t)
			second := s.other("other")
			tc.meet(t, s, func() error { return claim(t.Context(), second, b) })
			err := claim(t.Context(), s.Installation, b)
			var ownership *inventory.OwnershipError
			if !errors.As(err, &ownership) || ownership.Owner != "knative-serving/"+tc.stays || !ownership.SameHub {
				t.Errorf("%s We get %v", tc.reason, err)
			}
			if s.find(anchorPath) != nil || s.find(otherPath) == nil {
				t.Errorf("%s There is %q", tc.reason, s.names())
			}
			if err := claim(t.Context(), second, b); err != nil {
				t.Errorf("%s The first one gets %v", tc.reason, err)
			}
		})
	}
}

func claim(ctx context.Context, i *Installation, b *render.Bundle) error {
	_, err := i.Sync(ctx, b, SyncOptions{})
	return err
}

// stopAfter lets a manager crash after a request.
func stopAfter(words string) func(string) error {
	done := false
	return func(request string) error {
		if done {
			return errCrash
		}
		done = strings.HasPrefix(request, words)
		return nil
	}
}

// TestClaimFirst holds that the first one goes on, although the second one has made its anchor before the first one looked.
func TestClaimFirst(t *testing.T) {
	s, b := newClusterFixture(t), bundleOf(t)
	second := s.other("other")
	// The second one has found the cluster free, and makes its anchor only when the first one has made its own.
	var err error
	looks := 0
	s.disturb(func(request string) error {
		if request != "list configmaps" {
			return nil
		}
		if looks++; looks == 1 { // before the cluster is taken for free
			return nil
		}
		s.disturb(nil)
		_, err = second.store.Write(t.Context(), inventory.NewAnchor(installed), render.Installed{Delivered: b.Version}, inventory.Items{})
		return nil
	})
	if err := claim(t.Context(), s.Installation, b); err != nil {
		t.Fatalf("the first one gets %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.asked()
	// The manager of the second one has crashed before it looked. It must look when it is back, also to remove something.
	var ownership *inventory.OwnershipError
	if waiting, err := second.Remove(t.Context(), RemoveOptions{Namespace: installed, Foundation: true}); !errors.As(err, &ownership) {
		t.Errorf("the second one is removed: %q, %v", waiting, err)
	}
	if diff := cmp.Diff([]string{"delete " + otherPath}, s.asked()); diff != "" {
		t.Errorf("the second one touches (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(everything(), s.names()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestClaimAtOnceThroughConnections holds that of many exactly one has the cluster, whatever the order of their requests.
func TestClaimAtOnceThroughConnections(t *testing.T) {
	s, b := newClusterFixture(t), bundleOf(t)
	const many = 4
	// All have found the cluster free before one of them makes an anchor.
	arrived, all := make(chan struct{}, many), make(chan struct{})
	s.disturb(func(request string) error {
		if request == createAnchor {
			arrived <- struct{}{}
			<-all
		}
		return nil
	})
	errs := make(chan error, many)
	for name := range strings.SplitSeq("abcd", "") {
		i := s.other(name)
		go func() { errs <- claim(t.Context(), i, b) }()
	}
	for range many {
		<-arrived
	}
	s.disturb(nil)
	close(all)
	won := 0
	for range many {
		var ownership *inventory.OwnershipError
		if err := <-errs; err == nil {
			won++
		} else if !errors.As(err, &ownership) {
			t.Error(err)
		}
	}
	anchors := slices.DeleteFunc(s.names(), func(name string) bool { return !strings.Contains(name, "root-owner") })
	if won != 1 || len(anchors) != 1 {
		t.Errorf("%d have the cluster, with the anchors %q", won, anchors)
	}
}

// TestWithdrawRefused holds that nothing is written where the anchor cannot be taken back.
func TestWithdrawRefused(t *testing.T) {
	s, b := newClusterFixture(t), bundleOf(t)
	second := s.other("other")
	s.once(createAnchor, func() {
		if err := claim(t.Context(), second, b); err != nil {
			t.Error(err)
		}
		s.asked()
		s.disturb(refuses(errForbidden, "delete "+anchorPath))
	})
	if err := claim(t.Context(), s.Installation, b); err == nil || !strings.Contains(err.Error(), "cannot leave the cluster to knative-serving/other") {
		t.Errorf("got %v", err)
	}
	if diff := cmp.Diff([]string{"delete " + anchorPath}, s.asked()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	s.disturb(nil)
	var ownership *inventory.OwnershipError
	if err := claim(t.Context(), s.Installation, b); !errors.As(err, &ownership) || s.find(anchorPath) != nil {
		t.Errorf("the next time: %v", err)
	}
}
