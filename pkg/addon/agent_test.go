// Copyright Contributors to the Open Cluster Management project

package addon

import (
	"context"
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"

	"open-cluster-management.io/addon-framework/pkg/agent"
	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	worklisters "open-cluster-management.io/api/client/work/listers/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/resolve"
	"open-cluster-management.io/knative-addon/pkg/workload"
)

type bundlesFunc func() (*render.Bundle, error)

func (f bundlesFunc) Bundle(context.Context, *addonv1beta1.ManagedClusterAddOn) (*render.Bundle, error) {
	return f()
}

// targetFunc is where an add-on's configuration may go.
type targetFunc func() (resolve.Result, error)

func (f targetFunc) OfAddOn(*addonv1beta1.ManagedClusterAddOn) (resolve.Result, error) { return f() }

var permitted = targetFunc(func() (resolve.Result, error) {
	return resolve.Result{Target: &resolve.Target{ManagedCluster: "cluster1"}}, nil
})

// pausedBy names the annotation that pauses an add-on.
type pausedBy string

func (p pausedBy) PausedBy(*addonv1beta1.ManagedClusterAddOn) string { return string(p) }

const running pausedBy = ""

func testBundle() (*render.Bundle, error) {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
	o.SetName("config-network")
	return &render.Bundle{
		Component: api.Serving, Version: "1.23.0", Digest: "d2", FoundationDigest: "d2", Payload: []render.Object{{Unstructured: o}},
		Workloads: []workload.Expected{{Kind: "Deployment", Namespace: "knative-serving", Name: "activator"}},
	}, nil
}

func testAddOn() *addonv1beta1.ManagedClusterAddOn {
	return &addonv1beta1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: "cluster1", Name: "knative-serving"}}
}

// foundation is an applied foundation of testBundle.
func foundation() *workv1.ManifestWork {
	return &workv1.ManifestWork{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "cluster1", Name: manifestwork.FoundationName(api.Serving), Generation: 1,
			Annotations: map[string]string{api.DigestAnnotation: "d2"},
		},
		Status: workv1.ManifestWorkStatus{Conditions: []metav1.Condition{
			{Type: workv1.WorkApplied, Status: metav1.ConditionTrue, ObservedGeneration: 1},
		}},
	}
}

// openGate is open for the spec with the hash.
func openGate(hash string) *workv1.ManifestWork {
	w := closedGate()
	manifestwork.OpenGate(w, map[string]string{"knativeservings.operator.knative.dev/fleet/default": hash})
	return w
}

func closedGate() *workv1.ManifestWork {
	return manifestwork.Gate(&render.Bundle{Component: api.Serving}, testAddOn())
}

// unlabelled is an open gate of an earlier manager.
func unlabelled(gate *workv1.ManifestWork) *workv1.ManifestWork {
	delete(gate.Labels, addonv1beta1.AddonLabelKey)
	return gate
}

func leaving(w *workv1.ManifestWork) *workv1.ManifestWork {
	w.DeletionTimestamp = new(metav1.Now())
	return w
}

// works lists all works as both kinds.
func works(t *testing.T, all ...*workv1.ManifestWork) Works {
	t.Helper()
	return Works{Foundations: lister(t, all...), Payloads: lister(t, all...)}
}

func lister(t *testing.T, works ...*workv1.ManifestWork) worklisters.ManifestWorkLister {
	t.Helper()
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	for _, w := range works {
		if err := indexer.Add(w); err != nil {
			t.Fatal(err)
		}
	}
	return worklisters.NewManifestWorkLister(indexer)
}

// TestManifestsNeverEmpty holds the one thing that must never happen: an empty list deletes the works.
func TestManifestsNeverEmpty(t *testing.T) {
	errBad := errors.New("bad configuration")
	of := func(change func(*workv1.ManifestWork)) []*workv1.ManifestWork {
		w := foundation()
		change(w)
		return []*workv1.ManifestWork{w}
	}
	for name, tc := range map[string]struct {
		bundles bundlesFunc
		target  targetFunc // permitted when nil
		works   []*workv1.ManifestWork
		gate    *workv1.ManifestWork
		want    string // in the error; empty means no error
	}{
		"applied foundation": {bundles: testBundle, works: of(func(*workv1.ManifestWork) {}), gate: closedGate()},
		"bad configuration": {
			bundles: func() (*render.Bundle, error) { return nil, errBad }, works: of(func(*workv1.ManifestWork) {}), want: errBad.Error(),
		},
		"consent revoked": {
			bundles: testBundle, works: of(func(*workv1.ManifestWork) {}), want: api.ReasonReferenceNotPermitted,
			target: func() (resolve.Result, error) {
				return resolve.Result{Reason: api.ReasonReferenceNotPermitted, Message: "no set is bound"}, nil
			},
		},
		"consent unknown": {
			bundles: testBundle, works: of(func(*workv1.ManifestWork) {}), want: errBad.Error(),
			target: func() (resolve.Result, error) { return resolve.Result{}, errBad },
		},
		"cluster unreachable": {
			bundles: testBundle, works: of(func(*workv1.ManifestWork) {}), gate: closedGate(),
			target: func() (resolve.Result, error) {
				return resolve.Result{Target: &resolve.Target{}, Reason: api.ReasonManagedClusterUnavailable}, nil
			},
		},
		"no foundation": {bundles: testBundle, want: "before the probe reports whether"},
		"foundation of another bundle": {
			bundles: testBundle, works: of(func(w *workv1.ManifestWork) { w.Annotations[api.DigestAnnotation] = "d1" }), want: "to be updated to version 1.23.0",
		},
		"probe": {
			bundles: testBundle, works: of(func(w *workv1.ManifestWork) { delete(w.Annotations, api.DigestAnnotation) }), want: "before the probe reports whether",
		},
		"gate that is open for this configuration": {
			bundles: testBundle, works: of(func(*workv1.ManifestWork) {}), gate: openGate("h1"),
		},
		"gate that is open for another configuration": {
			bundles: testBundle, works: of(func(*workv1.ManifestWork) {}), gate: openGate("h0"),
		},
		"open gate of an earlier manager": {
			bundles: testBundle, works: of(func(*workv1.ManifestWork) {}), gate: unlabelled(openGate("h0")), want: "to have OCM's label",
		},
		"gate on its way out": {
			bundles: testBundle, works: of(func(*workv1.ManifestWork) {}), gate: leaving(closedGate()), want: "to be recreated",
		},
		"no gate": {bundles: testBundle, works: of(func(*workv1.ManifestWork) {}), want: "knative-serving-gate"},
		"foundation not applied": {
			bundles: testBundle, works: of(func(w *workv1.ManifestWork) { w.Generation = 2 }), want: "not applied the work yet",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.target == nil {
				tc.target = permitted
			}
			if tc.gate != nil {
				tc.works = append(tc.works, tc.gate)
			}
			objects, err := New(api.Serving, tc.bundles, tc.target, running, works(t, tc.works...)).Manifests(t.Context(), nil, configuredBy("h1"))
			switch {
			case tc.want == "" && (err != nil || len(objects) == 0):
				t.Errorf("got %d objects, error %v", len(objects), err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("error is %v, want one with %q", err, tc.want)
			}
		})
	}
}

func TestOptions(t *testing.T) {
	o := New(api.Eventing, bundlesFunc(testBundle), permitted, running, works(t)).GetAgentAddonOptions()
	if o.Registration != nil {
		t.Error("an add-on without an agent must not register")
	}
	if o.SupportedConfigGVRs[0] != api.Eventing.Resource() {
		t.Errorf("first supported config is %v", o.SupportedConfigGVRs[0])
	}
	if o.HealthProber.Type != agent.HealthProberTypeNone {
		t.Errorf("prober is %q: the framework would go by the works alone", o.HealthProber.Type)
	}
}
