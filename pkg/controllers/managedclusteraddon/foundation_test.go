// Copyright Contributors to the Open Cluster Management project

package managedclusteraddon

import (
	"errors"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
)

// TestUnblocking holds that the foundation has the annotation exactly as long as the payload is blocked, and that an Event names
// the refused object.
func TestUnblocking(t *testing.T) {
	h := delivered(t, 1).gated(t, "h1")
	refused := workv1.ManifestCondition{
		ResourceMeta: workv1.ManifestResourceMeta{Kind: "ConfigMap", Namespace: "knative-serving", Name: "config-logging"},
		Conditions: []metav1.Condition{
			{Type: workv1.ManifestApplied, Status: metav1.ConditionFalse, Message: "forbidden: unable to create new content in namespace n because it is being terminated"},
			{Type: workv1.ManifestAvailable, Status: metav1.ConditionFalse, Reason: "ResourceNotAvailable"},
		},
	}
	reports := h.works[1].Status.ResourceStatus.Manifests
	h.works[1].Status.ResourceStatus.Manifests = append(reports, refused)
	if err := h.reconcile(t); err != nil {
		t.Fatal(err)
	}
	if len(h.updated) != 1 || !manifestwork.IsUnblocked(h.updated[0]) {
		t.Fatalf("the foundation is not unblocked: %q", h.actions)
	}
	if note := <-h.events.Events; !strings.Contains(note, "WebhooksUnblocked") || !strings.Contains(note, "ConfigMap knative-serving/config-logging") {
		t.Errorf("the Event is %q", note)
	}
	h.works[0], h.updated = h.updated[0], nil
	if err := h.reconcile(t); err != nil || len(h.updated) > 0 {
		t.Errorf("a blocked payload has the foundation written again: %q, error %v", h.actions, err)
	}
	h.works[1].Status.ResourceStatus.Manifests = reports
	if err := h.reconcile(t); err != nil {
		t.Fatal(err)
	}
	if len(h.updated) != 1 || h.updated[0].Annotations[api.UnblockedAnnotation] != "" {
		t.Errorf("the foundation stays unblocked: %q", h.actions)
	}
}

func TestFailedFoundationTriggersNothing(t *testing.T) {
	h := newHub().adopting()
	h.failCreate = errors.New("quota")
	if err := h.reconcile(t); !errors.Is(err, h.failCreate) {
		t.Errorf("error is %v, want %v", err, h.failCreate)
	}
	if h.triggered {
		t.Error("the payload may not follow a foundation that is not there")
	}
	if slices.ContainsFunc(h.actions, func(a string) bool { return strings.Contains(a, "manifestworks") }) {
		t.Errorf("actions are %v", h.actions)
	}
}

// TestExecutorOfFoundation holds which executor a foundation has after a write: an administrator's stays, and the configured
// one comes where there is none.
func TestExecutorOfFoundation(t *testing.T) {
	configured, set := manifestwork.Executor("agents", "installer"), manifestwork.Executor("payroll", "admin")
	for name, tc := range map[string]struct {
		reason           string
		configured, have *workv1.ManifestWorkExecutor
		want             string
	}{
		"none":                           {reason: "Nobody has asked for one."},
		"configured":                     {reason: "The next write brings it.", configured: configured, want: "installer"},
		"set by an administrator":        {reason: "It is not taken back.", have: set, want: "admin"},
		"set, and another is configured": {reason: "The administrator knows better.", configured: configured, have: set, want: "admin"},
	} {
		t.Run(name, func(t *testing.T) {
			foundation := foundationWork()
			foundation.Spec.Executor = tc.have
			h := newHub().with(foundation)
			h.executor = tc.configured
			if err := h.reconcile(t); err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(h.updated, func(w *workv1.ManifestWork) bool { return w.Name == foundation.Name })
			if i < 0 {
				t.Fatalf("the foundation is not written: %q", h.actions)
			}
			got := ""
			if e := h.updated[i].Spec.Executor; e != nil {
				got = e.Subject.ServiceAccount.Name
			}
			if got != tc.want {
				t.Errorf("%s The executor is %q", tc.reason, got)
			}
			settled := h.updated[i]
			h.works, h.updated = []*workv1.ManifestWork{settled}, nil
			if err := h.reconcile(t); err != nil {
				t.Fatal(err)
			}
			if slices.ContainsFunc(h.updated, func(w *workv1.ManifestWork) bool { return w.Name == foundation.Name }) {
				t.Error("the foundation is written again")
			}
		})
	}
}
