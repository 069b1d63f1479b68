// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"errors"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/knative-addon/pkg/inventory"
)

// TestAdoptElsewhere holds that nothing is adopted as long as the cluster has the component in another namespace, also beside an
// anchor of the Knative Operator in the install namespace: the cluster would have the component twice.
func TestAdoptElsewhere(t *testing.T) {
	for name, tc := range map[string]struct {
		owners []metav1.OwnerReference
		anchor bool
	}{
		"by another installer": {},
		"by a work agent":      {owners: []metav1.OwnerReference{{APIVersion: "work.open-cluster-management.io/v1", Kind: "AppliedManifestWork", Name: "abc", UID: "u"}}},
		"beside an anchor":     {anchor: true},
	} {
		t.Run(name, func(t *testing.T) {
			s, b := newClusterFixture(t), bundleOf(t)
			theirs := b.Payload[4]
			u := theirs.DeepCopy()
			u.SetNamespace("elsewhere")
			u.SetLabels(map[string]string{"app.kubernetes.io/name": "knative-serving"})
			u.SetOwnerReferences(tc.owners)
			s.add(theirs.Resource, u)
			if tc.anchor {
				s.add(configMapResource(), signed("", "", ""))
			}
			for _, paused := range []bool{false, true} {
				_, err := s.Sync(t.Context(), b, SyncOptions{Adopt: true, Paused: paused})
				unmanaged, ownership := &inventory.UnmanagedError{}, &inventory.OwnershipError{}
				if !errors.As(err, &unmanaged) && !errors.As(err, &ownership) {
					t.Fatalf("paused %t: got %v", paused, err)
				}
				if got := append(unmanaged.OtherNamespaces, ownership.OtherNamespaces...); !slices.Equal(got, []string{"elsewhere"}) {
					t.Errorf("paused %t: the other namespaces are %q", paused, got)
				}
			}
			if asked := s.asked(); len(asked) > 0 {
				t.Errorf("something is written: %q", asked)
			}
		})
	}
}
