// Copyright Contributors to the Open Cluster Management project

package knative

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/revision"
)

// TestEvents holds that Events tell of what was written, once.
func TestEvents(t *testing.T) {
	h := newHub(t, serving("self", 100))
	errDown := errors.New("the hub is down")
	h.bundleErr = &render.Error{Reason: api.ReasonInvalidSpec, Message: "spec is wrong " + strings.Repeat("é", 2000)}
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
	if text := strings.TrimPrefix(told[0], "Warning InvalidSpec "); len(text) > 1024 || !utf8.ValidString(text) || !strings.HasSuffix(text, "...") {
		t.Errorf("the API server refuses a note of %d bytes, or one that is no text", len(text))
	}
	h.bundleErr = nil
	h.delivered()
	h.settle("self")
	if diff := cmp.Diff([]string{"Normal " + api.ReasonReady + " " + api.Ready + " is True", "Normal Applied InstallSucceeded is True"}, h.told()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	h.changeConfig("self", withAnnotation(api.ForceOrphanAnnotation, "true"))
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

// TestAssignedSpec holds that a resource is not Ready at a generation whose spec OCM did not assign to the cluster yet, whatever the
// cluster runs.
func TestAssignedSpec(t *testing.T) {
	h := newHub(t, serving("self", 100))
	h.settle("self")
	assignSpec := func() {
		h.changeAddOn(func(a *addonv1beta1.ManagedClusterAddOn) {
			hash, err := revision.Hash(h.config("self"))
			if err != nil {
				t.Fatal(err)
			}
			uses("self")(a)
			a.Status.ConfigReferences[0].DesiredConfig.SpecHash = hash
		})
		h.settle("self")
	}
	assignSpec()
	h.delivered()
	h.settle("self")
	if got := h.conditions("self"); !slices.Contains(got, "Ready True Ready") {
		t.Fatalf("the conditions are %q", got)
	}
	h.changeConfig("self", func(c *unstructured.Unstructured) {
		c.SetGeneration(c.GetGeneration() + 1)
		c.Object["spec"].(map[string]any)["version"] = "9.99" //nolint:forcetypeassert // a resource has a spec
	})
	h.settle("self")
	for _, want := range []string{"Ready Unknown Delivering", "InstallSucceeded Unknown Delivering", "DeploymentsAvailable True WorkloadsAvailable"} {
		if got := h.conditions("self"); !slices.Contains(got, want) {
			t.Errorf("before OCM assigns the spec, the conditions are %q, want %q", got, want)
		}
	}
	assignSpec()
	if got := h.conditions("self"); !slices.Contains(got, "Ready True Ready") {
		t.Errorf("after OCM has assigned the spec, the conditions are %q", got)
	}
}

// TestForeignStatus holds that what others write into a status stays there, and that what cannot be read is an error.
func TestForeignStatus(t *testing.T) {
	h := newHub(t, serving("self", 100, func(c *unstructured.Unstructured) {
		c.Object["status"] = map[string]any{
			"manifests": []any{"a"}, "version": "1.19.0", "conditions": []any{map[string]any{"type": "Other", "status": "True", "severity": "Info"}},
		}
	}))
	h.settle("self")
	status := h.config("self").Object["status"].(map[string]any) //nolint:forcetypeassert // it is one
	if diff := cmp.Diff([]any{"a"}, status["manifests"]); diff != "" {
		t.Errorf("manifests (-want +got):\n%s", diff)
	}
	if status["version"] != "1.19.0" {
		t.Errorf("version is %q before anything is installed", status["version"])
	}
	if got := h.conditions("self"); len(got) != len(api.ConditionTypes()) {
		t.Errorf("conditions are %q", got)
	}
	for _, broken := range []any{"none", map[string]any{"conditions": "none"}} {
		h = newHub(t, serving("self", 100, func(c *unstructured.Unstructured) { c.Object["status"] = broken }), serving("fleet", 100, refersToNothing, func(c *unstructured.Unstructured) {
			c.Object["status"] = broken
		}))
		for _, name := range []string{"self", "fleet"} {
			if _, err := h.reconcile(name); err == nil {
				t.Errorf("status %v of %s is overwritten", broken, name)
			}
		}
	}
}

// TestStatusOfSomethingGone holds that no Event is about a resource that is gone.
func TestStatusOfSomethingGone(t *testing.T) {
	h := newHub(t, serving("fleet", 100, refersToNothing))
	h.fail = func(string) error {
		if h.config("fleet") != nil {
			h.delete("fleet")
		}
		return nil
	}
	if _, err := h.reconcile("fleet"); err != nil {
		t.Errorf("error is %v", err)
	}
	if told := h.told(); len(told) > 0 {
		t.Errorf("%q is told", told)
	}
	if result, err := h.reconcile("fleet"); err != nil || result.RequeueAfter != 0 {
		t.Errorf("a resource that is gone has result %v, error %v", result, err)
	}
}

// TestVersion holds that the version is the one that the cluster has.
func TestVersion(t *testing.T) {
	h := newHub(t, serving("self", 100))
	version := func() string {
		t.Helper()
		h.settle("self")
		v, _, _ := unstructured.NestedString(h.config("self").Object, "status", "version")
		return v
	}
	if v := version(); v != "" {
		t.Errorf("before anything is there it is %q", v)
	}
	h.delivered()
	if v := version(); v != "1.23.0" {
		t.Errorf("when it is applied it is %q", v)
	}
	next := *h.bundle
	next.Version, next.Digest, next.FoundationDigest = "1.24.0", "d2", "f2"
	h.bundle = &next
	h.unavailable()
	if v := version(); v != "1.23.0" || h.conditions("self")[4] != "InstallSucceeded True Applied" {
		t.Errorf("while the next one is on its way to a cluster unreachable it is %q, %q", v, h.conditions("self"))
	}
	h.cluster.Status.Conditions[1].Status = metav1.ConditionTrue
	if v := version(); v != "1.23.0" {
		t.Errorf("while the next one is on its way it is %q", v)
	}
	h.clock.SetTime(h.clock.Now().Add(time.Hour))
	h.delivered()
	if v := version(); v != "1.24.0" {
		t.Errorf("when the next one is applied it is %q", v)
	}
}

// TestBadEditOfInstallation holds that a bad edit does not stop the observation of what runs.
func TestBadEditOfInstallation(t *testing.T) {
	h := newHub(t, serving("self", 100))
	h.settle("self")
	h.bundleErr = &render.Error{Reason: api.ReasonUnknownVersion, Message: "no version 9.9"}
	h.settle("self")
	if got := h.conditions("self"); got[5] != "DeploymentsAvailable Unknown NotRendered" {
		t.Errorf("before anything is installed it says %q", got)
	}
	h.bundleErr = nil
	h.delivered()
	h.settle("self")
	h.bundleErr = &render.Error{Reason: api.ReasonUnknownVersion, Message: "no version 9.9"}
	h.settle("self")
	if got := h.conditions("self"); got[4] != "InstallSucceeded False UnknownVersion" || got[5] != "DeploymentsAvailable True WorkloadsAvailable" {
		t.Errorf("it says %q", got)
	}
}
