// Copyright Contributors to the Open Cluster Management project

package managedclusteraddon

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// foundedBundle is a bundle for a namespace, with the Namespace and a CRD.
func foundedBundle(namespace string) bundlesFunc {
	named := func(apiVersion, kind, name string) render.Object {
		return render.Object{Orphan: true, Unstructured: &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": name},
		}}}
	}
	return func() (*render.Bundle, error) {
		b, err := servingBundle()
		b.Namespace = namespace
		b.Foundation = []render.Object{named("v1", "Namespace", namespace), named("apiextensions.k8s.io/v1", "CustomResourceDefinition", "services.serving.knative.dev")}
		binding := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": map[string]any{"name": "knative-serving-controller-admin"},
			"subjects": []any{map[string]any{"kind": "ServiceAccount", "name": "controller", "namespace": namespace}},
		}}
		b.Payload = []render.Object{{Unstructured: binding}}
		for i, o := range b.Foundation {
			raw, encodeErr := o.MarshalJSON()
			if encodeErr != nil {
				return nil, encodeErr
			}
			b.Foundation[i].JSON = raw
		}
		return b, err
	}
}

// answeredProbe is a probe of the bundle on a cluster that has each object. createdBy is the hub that created Namespace and CRD, and
// installed is the namespace that the ClusterRoleBinding names.
func answeredProbe(t *testing.T, bundle bundlesFunc, createdBy, installed string) *workv1.ManifestWork {
	t.Helper()
	probe := appliedProbe(t, bundle)
	for _, m := range probe.Spec.Workload.Manifests {
		o := &unstructured.Unstructured{}
		if err := o.UnmarshalJSON(m.Raw); err != nil {
			t.Fatal(err)
		}
		reported := workv1.ManifestCondition{
			ResourceMeta: workv1.ManifestResourceMeta{Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: o.GetName()},
			Conditions:   []metav1.Condition{{Type: workv1.ManifestAvailable, Status: metav1.ConditionTrue}},
		}
		for name, value := range map[string]string{"CreatedBy": createdBy, "Namespace": installed, "AppliedBy": "abc-addon-knative-serving-deploy-0"} {
			reported.StatusFeedbacks.Values = append(reported.StatusFeedbacks.Values, workv1.FeedbackValue{Name: name, Value: workv1.FieldValue{String: &value}})
		}
		probe.Status.ResourceStatus.Manifests = append(probe.Status.ResourceStatus.Manifests, reported)
	}
	return probe
}

// TestLostFoundation holds that an installation whose foundation was deleted on the hub gets a foundation with the record of the
// former foundation, which Namespaces and CRDs the hub has created: a deletion policy goes by that record.
func TestLostFoundation(t *testing.T) { //nolint:gocognit // the table and its checks belong together
	const namespace = "team-knative"
	bundle := foundedBundle(namespace)
	t.Run("a probe comes first", func(t *testing.T) {
		h := newHub().with(payload())
		h.bundles, h.permits.refuses = bundle, true
		if err := h.reconcile(t); err != nil {
			t.Fatal(err)
		}
		if len(h.created) != 1 || !manifestwork.IsProbe(h.created[0]) {
			t.Errorf("%q create %d works, the first one is no probe", h.actions, len(h.created))
		}
	})
	for name, tc := range map[string]struct {
		reason    string
		createdBy string
		// kept lists the objects that a deletion policy keeps; nil without a foundation.
		kept []string
		// change changes the hub from a hub whose probe is answered.
		change func(h *fakeHub, probe *workv1.ManifestWork)
	}{
		"created by the hub": {reason: "The cluster has the record.", createdBy: hubUID, kept: []string{}},
		"there before": {
			reason: "The record is empty.",
			kept:   []string{"customresourcedefinitions services.serving.knative.dev", "namespaces " + namespace},
		},
		"without a report": {
			reason: "The record of the cluster is not known yet.", createdBy: hubUID,
			change: func(_ *fakeHub, probe *workv1.ManifestWork) {
				apimeta.RemoveStatusCondition(&probe.Status.Conditions, workv1.WorkAvailable)
			},
		},
		"while the payload leaves": {
			reason: "The next installation follows the removal.", createdBy: hubUID,
			change: func(h *fakeHub, _ *workv1.ManifestWork) {
				h.works[0].DeletionTimestamp, h.works[0].Finalizers = new(metav1.Now()), []string{workv1.ManifestWorkFinalizer}
			},
		},
		"on the way to another namespace": {
			reason: "The installation is in another namespace, and the resource is not trusted.", createdBy: hubUID,
			change: func(h *fakeHub, probe *workv1.ManifestWork) {
				*probe = *answeredProbe(t, foundedBundle("payroll"), hubUID, namespace)
				h.bundles = foundedBundle("payroll")
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			probe := answeredProbe(t, bundle, tc.createdBy, namespace)
			delivered := payload()
			delivered.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{
				Raw: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"knative-serving-bundle-abc"},"data":{"version":"1.22.1"}}`),
			}}}
			h := newHub().with(delivered, probe)
			h.bundles, h.permits.refuses = bundle, true
			if tc.change != nil {
				tc.change(h, probe)
			}
			if err := h.reconcile(t); err != nil {
				t.Fatal(err)
			}
			if tc.kept == nil {
				if len(h.created) > 0 || h.triggered {
					t.Errorf("%s asked is %q", tc.reason, h.actions)
				}
				return
			}
			if !slices.Contains(h.actions, createFoundation) {
				t.Fatalf("%s asked is %q", tc.reason, h.actions)
			}
			kept, err := manifestwork.NotCreated(h.created[0])
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.kept, kept); diff != "" {
				t.Errorf("%s kept (-want +got):\n%s", tc.reason, diff)
			}
			if got := h.created[0].Annotations[api.RunningVersionAnnotation]; got != "1.22.1" {
				t.Errorf("the next step starts at version %q", got)
			}
		})
	}
	t.Run("the gate stays", func(t *testing.T) {
		h := newHub().with(payload())
		h.bundles = bundle
		b, err := bundle()
		if err != nil {
			t.Fatal(err)
		}
		h = h.with(manifestwork.Gate(b, h.addOn))
		if err := h.reconcile(t); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{patchStatus, createProbe}, h.actions); diff != "" {
			t.Errorf("OCM would take the cluster for complete (-want +got):\n%s", diff)
		}
	})
}
