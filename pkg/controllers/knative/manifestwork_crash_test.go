// Copyright Contributors to the Open Cluster Management project

package knative

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// errCrash is how a request ends that the manager does not survive.
var errCrash = errors.New("crash")

// state is what a scenario comes to.
type state struct {
	Finalizers, Conditions []string
	Version                string
	Gone                   bool

	AddOn       bool
	AddOnConfig []addonv1beta1.AddOnConfig
	InstalledAs string
}

func (h *fakeHub) state() state {
	h.t.Helper()
	var s state
	if c := h.config("self"); c == nil {
		s.Gone = true
	} else {
		s.Finalizers, s.Conditions = c.GetFinalizers(), h.conditions("self")
		s.Version, _, _ = unstructured.NestedString(c.Object, "status", "version")
	}
	if a := h.addOn(); a != nil {
		s.AddOn, s.AddOnConfig, s.InstalledAs = true, a.Spec.Configs, a.Annotations[api.InstalledForAnnotation]
	}
	return s
}

// others does what others do meanwhile: the controller of the add-on holds the add-on, delivers, cleans the cluster and lets
// the add-on go. It tells whether there was anything to do.
func (h *fakeHub) others() bool {
	a := h.addOn()
	switch {
	case a == nil:
		return false
	case a.DeletionTimestamp != nil && len(h.works) > 0:
		h.works = nil
	case a.DeletionTimestamp != nil:
		h.cleaned()
	case len(a.Finalizers) == 0:
		h.changeAddOn(func(a *addonv1beta1.ManagedClusterAddOn) { a.Finalizers = []string{api.FoundationFinalizer} })
	case len(h.works) == 0:
		h.delivered()
	default:
		return false
	}
	return true
}

// live goes on until nothing happens any more, with a new manager after each failure.
func (h *fakeHub) live() {
	h.t.Helper()
	for range 60 {
		before := len(h.requests)
		_, err := h.reconcile("self")
		if err != nil {
			h.start()
			continue
		}
		if !h.others() && len(h.requests) == before {
			return
		}
	}
	h.t.Fatal("it does not come to rest")
}

// scenario is what happens to a resource.
type scenario struct {
	configs []*unstructured.Unstructured
	// prepare is undisturbed, begin starts what is disturbed.
	prepare, begin func(*fakeHub)
	// least is how many requests there are at least.
	least int
}

// run goes to the end, disturbed by what disturb does to the hub.
func (s *scenario) run(t *testing.T, disturb func(*fakeHub)) *fakeHub {
	t.Helper()
	configs := []*unstructured.Unstructured{serving("self", 100)}
	for _, c := range s.configs {
		configs = append(configs, c.DeepCopy())
	}
	h := newHub(t, configs...)
	if s.prepare != nil {
		s.prepare(h)
	}
	s.begin(h)
	h.asked()
	disturb(h)
	h.live()
	return h
}

// crashAt fails the k-th request.
func crashAt(k int) func(string) error {
	count := 0
	return func(string) error {
		if count++; count == k {
			return fmt.Errorf("request %d: %w", k, errCrash)
		}
		return nil
	}
}

// TestCrashAtEveryRequest lets the manager end before and after each request of an installation, a takeover and a
// removal: what the next one makes of it is what an undisturbed one would have.
func TestCrashAtEveryRequest(t *testing.T) {
	installed := func(h *fakeHub) { h.live() }
	for name, s := range map[string]scenario{
		"install": {begin: func(*fakeHub) {}, least: 4},
		"take over": {
			begin: func(h *fakeHub) { h.enabled(addOnOf("young")) }, least: 4,
			configs: []*unstructured.Unstructured{serving("young", 101, finalized)},
		},
		"follow an add-on that is being removed": {begin: func(h *fakeHub) { h.enabled(addOnOf("gone", leavingAddOn)) }, least: 5},
		"remove":                                 {prepare: installed, begin: func(h *fakeHub) { h.delete("self") }, least: 4},
		"remove with annotations": {
			prepare: installed, least: 5,
			begin: func(h *fakeHub) {
				h.changeConfig("self", withAnnotation(api.ForceOrphanAnnotation, "true"))
				h.delete("self")
			},
		},
		"remove what Placements decide on": {prepare: installed, begin: func(h *fakeHub) { h.placements(); h.delete("self") }, least: 3},
		"install and remove at once":       {begin: func(h *fakeHub) { h.settle("self"); h.delete("self") }, least: 4},
	} {
		t.Run(name, func(t *testing.T) {
			undisturbed := s.run(t, func(*fakeHub) {})
			want, requests := undisturbed.state(), undisturbed.asked()
			if len(requests) < s.least {
				t.Fatalf("there are only %d requests", len(requests))
			}
			for k, request := range requests {
				before := s.run(t, func(h *fakeHub) { h.fail = crashAt(k + 1) })
				if diff := cmp.Diff(want, before.state()); diff != "" {
					t.Errorf("a crash before %s, request %d of %q, leads elsewhere (-undisturbed +crashed):\n%s", request, k+1, requests, diff)
				}
				after := s.run(t, func(h *fakeHub) { h.lose = crashAt(k + 1) })
				if diff := cmp.Diff(want, after.state()); diff != "" {
					t.Errorf("a crash after %s, request %d of %q, leads elsewhere (-undisturbed +crashed):\n%s", request, k+1, requests, diff)
				}
			}
		})
	}
}

// TestNothingIsLost holds, after each request of an installation, that an add-on of a resource has a resource that is
// held until it is gone.
func TestNothingIsLost(t *testing.T) {
	h := newHub(t, serving("self", 100))
	check := func(request string) error {
		if a := h.addOn(); a != nil {
			if c := h.config("self"); c == nil || len(c.GetFinalizers()) == 0 {
				t.Errorf("after %s there is an add-on that nobody removes", request)
			}
		}
		return nil
	}
	h.lose = check
	h.live()
	h.delete("self")
	h.live()
	if s := h.state(); !s.Gone || s.AddOn {
		t.Errorf("at the end there is %v", s)
	}
}
