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
	"open-cluster-management.io/knative-addon/pkg/render"
)

// TestRemoveBesideRival holds that a resource that came second takes nothing from the first one with it.
func TestRemoveBesideRival(t *testing.T) {
	s, b := newSite(t), bundleOf(t)
	s.settle(t, b)
	second := s.cluster.Installation(ownerNamed("second"), s.clock)
	var rival *RivalError
	if _, err := second.Sync(t.Context(), b, SyncOptions{}); !errors.As(err, &rival) {
		t.Fatalf("the second one gets %v", err)
	}
	s.asked()
	for _, options := range []RemoveOptions{{Namespace: installed}, {Namespace: installed, Foundation: true, UserResources: true}} {
		if _, err := second.Remove(t.Context(), options); !errors.As(err, &rival) || rival.Owner != "knative-serving/self" || !rival.SameHub {
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

// TestRivalElsewhere holds that a component is installed once in a cluster, whatever the namespace.
func TestRivalElsewhere(t *testing.T) {
	s, b := newSite(t), bundleOf(t)
	s.settle(t, b)
	other := s.cluster.Installation(Owner{Component: api.Serving, Hub: hubUID, Name: types.NamespacedName{Namespace: "team", Name: "self"}}, s.clock)
	s.asked()
	var rival *RivalError
	_, err := other.Sync(t.Context(), bundleOf(t, func(b *render.Bundle) { b.Namespace = "team" }), SyncOptions{Adopt: true})
	if !errors.As(err, &rival) || rival.Owner != "knative-serving/self" {
		t.Errorf("the one elsewhere gets %v", err)
	}
	if _, err := other.Remove(t.Context(), RemoveOptions{Namespace: "team", Foundation: true}); !errors.As(err, &rival) {
		t.Errorf("removing the one elsewhere: %v", err)
	}
	if asked := s.asked(); len(asked) > 0 {
		t.Errorf("something is written: %q", asked)
	}
}

// TestMoved holds that another install namespace does not make a second installation, and that the first is removed.
func TestMoved(t *testing.T) {
	s, b := newSite(t), bundleOf(t)
	s.settle(t, b)
	s.asked()
	moved := bundleOf(t, func(b *render.Bundle) { b.Namespace = "elsewhere" })
	blocked := (*BlockedError)(nil)
	_, err := s.Sync(t.Context(), moved, SyncOptions{})
	if !errors.As(err, &blocked) || !strings.Contains(err.Error(), `it is installed in namespace "knative-serving"`) {
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

// TestRemoveKeepsNamespace holds that a namespace that was there before stays, also when nobody's anchor says so.
func TestRemoveKeepsNamespace(t *testing.T) {
	for name, disturb := range map[string]func(*site){
		"with its anchor": func(*site) {}, "without": func(s *site) { s.lose(anchorPath) },
	} {
		t.Run(name, func(t *testing.T) {
			s, b := newSite(t), bundleOf(t)
			s.add(b.Foundation[0].Resource, &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": installed},
			}})
			s.settle(t, b)
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

// TestAdoptedNamespaceStays holds that a namespace with somebody else's anchor was there before.
func TestAdoptedNamespaceStays(t *testing.T) {
	s, b := newSite(t), bundleOf(t)
	s.add(b.Foundation[0].Resource, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": installed},
	}})
	s.add(configMaps(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": installed, "name": "knativeserving-self-root-owner"},
	}})
	var foreign *ForeignError
	if _, err := s.Sync(t.Context(), b, SyncOptions{}); !errors.As(err, &foreign) || len(s.asked()) > 0 {
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
