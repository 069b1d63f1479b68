// Copyright Contributors to the Open Cluster Management project

package install

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/controllers/report"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// TestEvents holds that Events tell of what was written, once.
func TestEvents(t *testing.T) {
	h := newHub(t, serving("self", 100))
	errDown := errors.New("the hub is down")
	h.bundleErr = &render.Error{Reason: render.ReasonInvalidSpec, Message: "spec is wrong " + strings.Repeat("é", 2000)}
	h.fail = func(request string) error {
		if request == patchStatus {
			return errDown
		}
		return nil
	}
	for range 3 {
		if _, err := h.reconcile("self"); !errors.Is(err, errDown) {
			t.Fatalf("error is %v", err)
		}
	}
	if told := h.told(); len(told) > 0 {
		t.Errorf("what was not written is told: %q", told)
	}
	h.fail = nil
	h.settle("self")
	told := h.told()
	if len(told) != 1 || !strings.HasPrefix(told[0], "Warning InvalidSpec InstallSucceeded is False: spec is wrong") {
		t.Fatalf("%q is told", told)
	}
	if text := strings.TrimPrefix(told[0], "Warning InvalidSpec "); len(text) > report.MaxNote || !utf8.ValidString(text) || !strings.HasSuffix(text, "...") {
		t.Errorf("the API server refuses a note of %d bytes, or one that is no text", len(text))
	}
	h.bundleErr = nil
	h.delivered()
	h.settle("self")
	if diff := cmp.Diff([]string{"Normal " + api.ReasonReady + " " + api.Ready + " is True", "Normal Applied InstallSucceeded is True"}, h.told()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	h.changeConfig("self", annotated(api.ForceOrphanAnnotation, "true"))
	h.changeAddOn(func(a *addonv1beta1.ManagedClusterAddOn) { a.Finalizers = []string{api.FoundationFinalizer} })
	h.delete("self")
	h.settle("self")
	h.cleaned()
	h.settle("self")
	told = h.told()
	if len(told) != 1 || !strings.HasPrefix(told[0], "Warning Orphaned") {
		t.Errorf("at the end %q is told", told)
	}
}
