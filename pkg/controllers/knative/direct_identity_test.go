// Copyright Contributors to the Open Cluster Management project

package knative

import (
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// TestRecordedCluster holds that a resource records its cluster with the finalizer, that the record of an older manager is
// completed, and that nothing is written to, or removed from, any other cluster.
func TestRecordedCluster(t *testing.T) {
	unrecorded := func(c *unstructured.Unstructured) {
		c.SetFinalizers([]string{api.DirectFinalizer})
	}
	elsewhere := func(c *unstructured.Unstructured) {
		c.SetFinalizers([]string{api.DirectFinalizer})
		withAnnotation(api.InstalledOnAnnotation, "spoke-2")(c)
	}
	const own, other = "knative-serving/self", "knative-serving/other"
	for name, tc := range map[string]struct {
		reason   string
		config   *unstructured.Unstructured
		anchor   string // the owner; empty without an anchor
		want     []string
		recorded string
		refusal  string
	}{
		"a new resource":                        {"The finalizer comes with the record.", localServing(), "", []string{directPatchSelf}, string(spokeUID), ""},
		"a new resource with an old annotation": {"An annotation without the finalizer records nothing.", localServing(withAnnotation(api.InstalledOnAnnotation, "spoke-2")), "", []string{directPatchSelf}, string(spokeUID), ""},
		"no record, and our anchor":             {"The anchor proves the cluster.", localServing(unrecorded), own, []string{directPatchSelf}, string(spokeUID), ""},
		"no record, and no anchor":              {"The installation may be elsewhere.", localServing(unrecorded), "", []string{directPatchStatus}, "", api.ReasonClusterNotRecorded},
		"no record, and the anchor of another":  {"The installation may be elsewhere.", localServing(unrecorded), other, []string{directPatchStatus}, "", api.ReasonClusterNotRecorded},
		"a profile that leads elsewhere":        {"Nothing is written to the cluster.", localServing(elsewhere), "", []string{directPatchStatus}, "spoke-2", api.ReasonClusterReplaced},
		"a removal that is led elsewhere":       {"The removal waits.", localServing(elsewhere, beingDeleted), "", []string{directPatchStatus}, "spoke-2", api.ReasonClusterReplaced},
		"a removal without a record":            {"The removal waits.", localServing(unrecorded, beingDeleted), "", []string{directPatchStatus}, "", api.ReasonClusterNotRecorded},
	} {
		t.Run(name, func(t *testing.T) {
			w := newDirectFixture(t, tc.config)
			if tc.anchor != "" {
				w.anchored(tc.anchor, hubUID)
			}
			if _, err := w.reconcile(); err != nil {
				t.Fatal(err)
			}
			if got := w.written(); !slices.Equal(tc.want, got) {
				t.Errorf("%s Written is %q", tc.reason, got)
			}
			if got := w.config().GetAnnotations()[api.InstalledOnAnnotation]; got != tc.recorded {
				t.Errorf("%s Recorded is %q", tc.reason, got)
			}
			if !hasFinalizer(w.d, w.config()) {
				t.Errorf("%s The resource is not held", tc.reason)
			}
			if c := w.condition(api.TargetClusterResolved); !namesChoices(c, tc.refusal) {
				t.Errorf("%s It says %+v", tc.reason, c)
			}
		})
	}
}

// namesChoices reports whether a condition with the reason names the cluster, the record and each remedy. Without a reason there
// is no condition.
func namesChoices(c metav1.Condition, reason string) bool {
	if reason == "" {
		return c.Reason == ""
	}
	for _, want := range []string{string(spokeUID), api.InstalledOnAnnotation, api.ForceOrphanAnnotation, "let the ClusterProfile lead"} {
		if !strings.Contains(c.Message, want) {
			return false
		}
	}
	return c.Status == metav1.ConditionFalse && c.Reason == reason && (reason != api.ReasonClusterReplaced || strings.Contains(c.Message, "spoke-2"))
}

// TestUnprovenCluster holds that a cluster which refuses to show its anchors proves nothing, and that a removal with our anchor
// goes on without a record.
func TestUnprovenCluster(t *testing.T) {
	unrecorded := func(c *unstructured.Unstructured) { c.SetFinalizers([]string{"others/x", api.DirectFinalizer}) }
	w := newDirectFixture(t, localServing(unrecorded))
	w.setAnswer("/api/v1/configmaps", apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "", errLost))
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	if c := w.condition(api.TargetClusterResolved); c.Reason != api.ReasonClusterNotRecorded || !strings.Contains(c.Message, "configmaps") {
		t.Errorf("it says %+v", c)
	}
	w = newDirectFixture(t, localServing(unrecorded, beingDeleted))
	w.records()
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	w.mustBeReleased("The anchor proves the cluster.")
}

// TestNothingInstalled holds that no removal is reported of an installation that the cluster does not have.
func TestNothingInstalled(t *testing.T) {
	for name, owner := range map[string]string{"no anchor": "", "the anchor of another resource": "knative-serving/other"} {
		t.Run(name, func(t *testing.T) {
			w := newDirectFixture(t, localServing(directFinalized, beingDeleted))
			w.hasNoObjects()
			if owner != "" {
				w.anchored(owner, hubUID)
			}
			if _, err := w.reconcile(); err != nil {
				t.Fatal(err)
			}
			w.mustBeReleased("Nothing is there.")
			w.mustEmit("NothingInstalled")
		})
	}
}

// hasNoObjects lets the cluster answer that the cluster has no object of the component.
func (w *directFixture) hasNoObjects() {
	for _, path := range []string{
		"/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "/apis/rbac.authorization.k8s.io/v1/clusterroles",
		"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", "/apis/rbac.authorization.k8s.io/v1/roles",
		"/apis/rbac.authorization.k8s.io/v1/rolebindings", "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
		"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", "/api/v1/services",
		"/apis/apps/v1/deployments", "/apis/apps/v1/statefulsets",
	} {
		w.setAnswer(path, map[string]any{"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "items": []any{}})
	}
}

// mustEmit holds that the next Event has the reason.
func (w *directFixture) mustEmit(reason string) {
	w.t.Helper()
	select {
	case got := <-w.events.Events:
		if !strings.Contains(got, reason) {
			w.t.Errorf("the Event is %q, want %s", got, reason)
		}
	default:
		w.t.Errorf("there is no Event %s", reason)
	}
}
