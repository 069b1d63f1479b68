// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/clustercache"
	"open-cluster-management.io/knative-addon/pkg/inventory"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// TestRemoveBesideOtherOwner holds that a resource that came second takes nothing from the first one with it.
func TestRemoveBesideOtherOwner(t *testing.T) {
	s, b := newClusterFixture(t), bundleOf(t)
	s.settle(t, b)
	second := NewInstallation(s.cluster, ownerNamed("second"), s.clock)
	var ownership *inventory.OwnershipError
	if _, err := second.Sync(t.Context(), b, SyncOptions{}); !errors.As(err, &ownership) {
		t.Fatalf("the second one gets %v", err)
	}
	s.asked()
	for _, options := range []RemoveOptions{{Namespace: installed}, {Namespace: installed, Foundation: true, UserResources: true}} {
		if _, err := second.Remove(t.Context(), options); !errors.As(err, &ownership) || ownership.Owner != "knative-serving/self" || !ownership.SameHub {
			t.Errorf("removing the second one: %v", err)
		}
	}
	if asked := s.asked(); len(asked) > 0 {
		t.Errorf("something is written: %q", asked)
	}
	if diff := cmp.Diff(everything(), s.names()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestOtherOwnerElsewhere holds that a component is installed once in a cluster, whatever the namespace.
func TestOtherOwnerElsewhere(t *testing.T) {
	s, b := newClusterFixture(t), bundleOf(t)
	s.settle(t, b)
	other := NewInstallation(s.cluster, inventory.Owner{Component: api.Serving, Hub: hubUID, Name: types.NamespacedName{Namespace: "team", Name: "self"}}, s.clock)
	s.asked()
	var ownership *inventory.OwnershipError
	_, err := other.Sync(t.Context(), bundleOf(t, func(b *render.Bundle) { b.Namespace = "team" }), SyncOptions{Adopt: true})
	if !errors.As(err, &ownership) || ownership.Owner != "knative-serving/self" {
		t.Errorf("the one elsewhere gets %v", err)
	}
	if _, err := other.Remove(t.Context(), RemoveOptions{Namespace: "team", Foundation: true}); !errors.As(err, &ownership) {
		t.Errorf("removing the one elsewhere: %v", err)
	}
	if asked := s.asked(); len(asked) > 0 {
		t.Errorf("something is written: %q", asked)
	}
}

// TestMoved holds that another install namespace does not make a second installation, and that the first is removed.
func TestMoved(t *testing.T) {
	s, b := newClusterFixture(t), bundleOf(t)
	s.settle(t, b)
	s.asked()
	moved := bundleOf(t, func(b *render.Bundle) { b.Namespace = "elsewhere" })
	blocked := (*clustercache.BlockedError)(nil)
	_, err := s.Sync(t.Context(), moved, SyncOptions{})
	if !errors.As(err, &blocked) || !strings.Contains(err.Error(), `the installation is in namespace "knative-serving"`) {
		t.Errorf("got %v", err)
	}
	if asked := s.asked(); len(asked) > 0 {
		t.Errorf("something is written: %q", asked)
	}
	if waiting, err := s.Remove(t.Context(), RemoveOptions{Namespace: "elsewhere", Foundation: true}); err != nil || waiting != "" {
		t.Fatalf("waiting for %q: %v", waiting, err)
	}
	if diff := cmp.Diff([]string(nil), s.names()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestRemoveKeepsNamespace holds that a Namespace that was there before never changes and stays, also when nobody's anchor says so.
func TestRemoveKeepsNamespace(t *testing.T) {
	for name, disturb := range map[string]func(*clusterFixture){
		"with its anchor": func(*clusterFixture) {}, "without": func(s *clusterFixture) { s.lose(anchorPath) },
	} {
		t.Run(name, func(t *testing.T) {
			s, b := newClusterFixture(t), bundleOf(t)
			s.add(b.Foundation[0].Resource, &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": installed, "labels": map[string]any{"team": "platform"}},
			}})
			before := s.find("namespaces/" + installed).DeepCopy()
			s.settle(t, b)
			disturb(s)
			s.restart()
			s.settle(t, b)
			if diff := cmp.Diff(before.Object, s.find("namespaces/"+installed).Object); diff != "" {
				t.Errorf("the namespace has changed (-want +got):\n%s", diff)
			}
			disturb(s)
			if waiting, err := s.Remove(t.Context(), RemoveOptions{Namespace: installed, Foundation: true}); err != nil || waiting != "" {
				t.Fatalf("waiting for %q: %v", waiting, err)
			}
			if s.find("namespaces/"+installed) == nil {
				t.Error("the namespace is gone")
			}
			if s.find("customresourcedefinitions/images.caching.knative.dev") != nil {
				t.Error("the CRD is there")
			}
		})
	}
}

// TestCreatedNamespaceWithoutLabel holds that a Namespace of the add-on gets the label back, and that the removal deletes the Namespace.
func TestCreatedNamespaceWithoutLabel(t *testing.T) {
	s, b := newClusterFixture(t), bundleOf(t)
	s.settle(t, b)
	s.edit("namespaces/"+installed, func(u *unstructured.Unstructured) { u.SetLabels(map[string]string{"team": "platform"}) })
	s.restart()
	s.settle(t, b)
	if got := s.find("namespaces/" + installed).GetLabels()[api.ComponentLabel]; got != string(api.Serving) {
		t.Errorf("the label of the component is %q", got)
	}
	if waiting, err := s.Remove(t.Context(), RemoveOptions{Namespace: installed, Foundation: true}); err != nil || waiting != "" {
		t.Fatalf("waiting for %q: %v", waiting, err)
	}
	if diff := cmp.Diff([]string(nil), s.names()); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
}

// TestAdoptedNamespaceStays holds that a namespace with somebody else's anchor was there before.
func TestAdoptedNamespaceStays(t *testing.T) {
	s, b := newClusterFixture(t), bundleOf(t)
	s.add(b.Foundation[0].Resource, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": installed},
	}})
	s.add(configMapResource(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": installed, "name": "knativeserving-self-root-owner"},
	}})
	var unmanaged *inventory.UnmanagedError
	if _, err := s.Sync(t.Context(), b, SyncOptions{}); !errors.As(err, &unmanaged) || len(s.asked()) > 0 {
		t.Fatalf("without consent: %v", err)
	}
	if _, err := s.Sync(t.Context(), b, SyncOptions{Adopt: true}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(everything(), s.names()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if waiting, err := s.Remove(t.Context(), RemoveOptions{Namespace: installed, Foundation: true}); err != nil || waiting != "" {
		t.Fatalf("waiting for %q: %v", waiting, err)
	}
	if diff := cmp.Diff([]string{"namespaces/knative-serving"}, s.names()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestRemoveKeepsCRD holds that a CRD that was there before stays with what users have of its kind, whatever is asked for and
// also without the anchor.
func TestRemoveKeepsCRD(t *testing.T) { //nolint:gocognit // one story in two variants
	for name, disturb := range map[string]func(*clusterFixture){
		"with its anchor": func(*clusterFixture) {}, "without": func(s *clusterFixture) { s.lose(anchorPath) },
	} {
		t.Run(name, func(t *testing.T) {
			s, b := newClusterFixture(t), bundleOf(t)
			crd := b.Foundation[1].DeepCopy()
			s.add(b.Foundation[1].Resource, crd)
			s.settle(t, b)
			s.add(b.Payload[len(b.Payload)-1].Resource, &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "caching.knative.dev/v1", "kind": "Image", "metadata": map[string]any{"namespace": "team", "name": "mine"},
			}})
			disturb(s)
			for range 5 {
				waiting, err := s.Remove(t.Context(), RemoveOptions{Namespace: installed, Foundation: true, UserResources: true})
				if err != nil {
					t.Fatal(err)
				}
				if waiting == "" {
					break
				}
			}
			for _, want := range []string{"customresourcedefinitions/images.caching.knative.dev", "images/team/mine"} {
				if s.find(want) == nil {
					t.Errorf("%s is gone", want)
				}
			}
			if s.find("namespaces/"+installed) != nil && name == "with its anchor" {
				t.Error("the namespace, which was made for the installation, is there")
			}
		})
	}
}

// TestPoliciesLeaveWithoutAnchor holds that a removal after a deletion of the anchor deletes the admission policies, which have no owner.
func TestPoliciesLeaveWithoutAnchor(t *testing.T) {
	const policy, binding = "validatingadmissionpolicies/start", "validatingadmissionpolicybindings/start"
	s := newClusterFixture(t)
	s.settle(t, bundleOf(t, func(b *render.Bundle) {
		b.Payload = append(b.Payload,
			rendered(t, "admissionregistration.k8s.io/v1/validatingadmissionpolicies", "ValidatingAdmissionPolicy start", nil),
			rendered(t, "admissionregistration.k8s.io/v1/validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding start", nil))
	}))
	if s.find(policy) == nil || s.find(binding) == nil {
		t.Fatalf("the installation has %q", s.names())
	}
	s.lose(anchorPath)
	for range 5 {
		if waiting, err := s.Remove(t.Context(), RemoveOptions{Namespace: installed}); err != nil || waiting == "" {
			break
		}
	}
	if s.find(policy) != nil || s.find(binding) != nil {
		t.Errorf("the removal leaves %q", s.names())
	}
}

// TestNewNamespace holds that a namespace that was there before is not entered where that is not permitted, and that nothing
// is written then; one that the installation has made itself is no obstacle.
func TestNewNamespace(t *testing.T) {
	s, b := newClusterFixture(t), bundleOf(t)
	there := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": installed},
	}}
	s.add(b.Foundation[0].Resource, there)
	var existing *ExistingNamespaceError
	if _, err := s.Sync(t.Context(), b, SyncOptions{NewNamespace: true}); !errors.As(err, &existing) || existing.Namespace != installed {
		t.Fatalf("got %v", err)
	}
	if asked := s.asked(); len(asked) > 0 {
		t.Errorf("something is written: %q", asked)
	}
	fresh := newClusterFixture(t)
	for range 2 {
		if _, err := fresh.Sync(t.Context(), b, SyncOptions{NewNamespace: true}); err != nil {
			t.Fatal(err)
		}
		fresh.restart()
	}
}
