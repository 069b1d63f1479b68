// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render"
)

const (
	firstRendering = "111111111111"
	otherRendering = "222222222222"

	networkPath   = "configmaps/knative-serving/config-network"
	activatorPath = "deployments/knative-serving/activator"
)

// renderedAs names the rendering of a bundle.
func renderedAs(name string) func(*render.Bundle) {
	return func(b *render.Bundle) { b.Digest, b.Inputs = name, "i1" }
}

// renderedOtherwise is another rendering: another ConfigMap, and an Image less.
func renderedOtherwise(t *testing.T) func(*render.Bundle) {
	t.Helper()
	return func(b *render.Bundle) {
		renderedAs(otherRendering)(b)
		b.Payload[2] = rendered(t, inConfigMaps, "ConfigMap knative-serving/config-network", map[string]any{"data": map[string]any{"a": "c"}})
		b.Payload = slices.DeleteFunc(b.Payload, func(o render.Object) bool { return o.GetKind() == "Image" })
	}
}

// inTurn are the options of a manager that makes renderings wait.
func inTurn(turn string) SyncOptions { return SyncOptions{Revision: "h1", InTurn: true, Turn: turn} }

// settleWith passes with the options until nothing is written any more, and returns what was written.
func (s *clusterFixture) settleWith(t *testing.T, b *render.Bundle, options SyncOptions) (out Outcome, written []string) {
	t.Helper()
	for range 10 {
		s.catchUp(t)
		s.asked()
		var err error
		if out, err = s.Sync(t.Context(), b, options); err != nil {
			t.Fatal(err)
		}
		asked := s.asked()
		if len(asked) == 0 {
			return out, written
		}
		written = append(written, asked...)
	}
	t.Fatal("the installation does not come to rest")
	return Outcome{}, nil
}

// TestRenderingWaits holds when another rendering waits for the turn of its cluster.
func TestRenderingWaits(t *testing.T) {
	annotate := func(key, value string) func(*clusterFixture) {
		return func(s *clusterFixture) {
			s.edit(anchorPath, func(u *unstructured.Unstructured) {
				annotations := u.GetAnnotations()
				if annotations[key] = value; value == "" {
					delete(annotations, key)
				}
				u.SetAnnotations(annotations)
			})
		}
	}
	other := renderedOtherwise(t)
	same := inTurn("")
	for name, tc := range map[string]struct {
		change  func(*clusterFixture) // of the record
		bundle  func(*render.Bundle)
		options SyncOptions
		waits   bool
	}{
		"another rendering":                              {bundle: other, options: same, waits: true},
		"another rendering with the turn":                {bundle: other, options: inTurn(otherRendering)},
		"another rendering with the turn for a past one": {bundle: other, options: inTurn(firstRendering), waits: true},
		"another rendering of another spec":              {bundle: other, options: SyncOptions{Revision: "h2", InTurn: true}},
		"another rendering of a spec without a hash":     {bundle: other, options: SyncOptions{InTurn: true}},
		"another rendering of other inputs": {bundle: func(b *render.Bundle) {
			other(b)
			b.Inputs = "i2"
		}, options: same},
		"a manager that delivers at once":        {bundle: other, options: SyncOptions{Revision: "h1"}},
		"the same rendering":                     {bundle: renderedAs(firstRendering), options: same},
		"another name of the same objects":       {bundle: renderedAs(otherRendering), options: same},
		"an anchor without inputs":               {change: annotate(api.RenderingInputsAnnotation, ""), bundle: other, options: same, waits: true},
		"an anchor without a rendering":          {change: annotate(api.DeliveredRenderingAnnotation, ""), bundle: other, options: same, waits: true},
		"an anchor without the hash of the spec": {change: annotate(api.SpecHashAnnotation, ""), bundle: other, options: same},
		"a lost anchor":                          {change: func(s *clusterFixture) { s.lose(anchorPath) }, bundle: other, options: same},
	} {
		t.Run(name, func(t *testing.T) {
			s := newClusterFixture(t)
			s.settleWith(t, bundleOf(t, renderedAs(firstRendering)), same)
			if tc.change != nil {
				tc.change(s)
			}
			s.restart()
			out, written := s.settleWith(t, bundleOf(t, tc.bundle), tc.options)
			if (out.Held != nil) != tc.waits || tc.waits && len(written) > 0 {
				t.Errorf("held is %+v after the writes %q, want a wait: %t", out.Held, written, tc.waits)
			}
			want := map[bool]string{true: firstRendering, false: otherRendering}[tc.waits || name == "the same rendering"]
			if got := s.find(anchorPath).GetAnnotations()[api.DeliveredRenderingAnnotation]; got != want && name != "an anchor without a rendering" {
				t.Errorf("the anchor names rendering %q, want %q", got, want)
			}
		})
	}
}

// TestHeldInstallation holds what a pass tells of a cluster that waits: the record, and the state of the workloads by the anchor.
func TestHeldInstallation(t *testing.T) {
	s := newClusterFixture(t)
	s.settleWith(t, bundleOf(t, renderedAs(firstRendering)), inTurn(""))
	out, _ := s.settleWith(t, bundleOf(t, renderedOtherwise(t), func(b *render.Bundle) { b.Version = "1.23.1" }), inTurn(""))
	if out.Held == nil {
		t.Fatal("the cluster does not wait")
	}
	want := render.Installed{Delivered: "1.23.0", Revision: "h1", Rendering: firstRendering, Inputs: "i1"}
	if out.Held.Installed != want || len(out.Held.Unrepaired) > 0 || out.Retry != 0 {
		t.Errorf("held is %+v", out)
	}
	notReady := []string{"Deployment knative-serving/activator: 0 of 1 pods are updated", "Job knative-serving/migrate: the Job has not completed yet"}
	if diff := cmp.Diff(notReady, out.Held.Kept.NotReady()); diff != "" || out.Observation.Waiting != "" {
		t.Errorf("waiting for %q, not ready (-want +got):\n%s", out.Observation.Waiting, diff)
	}
	s.edit("jobs/knative-serving/migrate", completed)
	if out, _ = s.settleWith(t, bundleOf(t, renderedOtherwise(t)), inTurn("")); len(out.Held.Kept.NotReady()) != 1 {
		t.Errorf("after the Job not ready are %q", out.Held.Kept.NotReady())
	}
	s.lose("jobs/knative-serving/migrate")
	if out, _ = s.settleWith(t, bundleOf(t, renderedOtherwise(t)), inTurn("")); out.Held == nil || len(out.Held.Kept.NotReady()) != 1 {
		t.Errorf("after the end of a finished Job held is %+v", out.Held)
	}
}

// TestDriftOfHeldInstallation holds that a waiting cluster gets back the objects that both renderings have, that no other object is
// written, and that the other changed objects are named.
func TestDriftOfHeldInstallation(t *testing.T) {
	changed := func(u *unstructured.Unstructured) {
		u.SetLabels(map[string]string{api.ComponentLabel: string(api.Serving), "x": "y"})
	}
	for name, tc := range map[string]struct {
		happens    func(*clusterFixture)
		written    []string
		unrepaired []string
	}{
		"an equal object was changed":                            {func(s *clusterFixture) { s.edit(activatorPath, changed) }, []string{"apply " + activatorPath}, nil},
		"an equal object is gone":                                {func(s *clusterFixture) { s.lose(activatorPath) }, []string{"update " + anchorPath, "apply " + activatorPath, "update " + anchorPath}, nil},
		"another object was changed":                             {func(s *clusterFixture) { s.edit(networkPath, changed) }, nil, []string{"ConfigMap knative-serving/config-network was changed"}},
		"another object is gone":                                 {func(s *clusterFixture) { s.lose(networkPath) }, nil, []string{"ConfigMap knative-serving/config-network is gone"}},
		"an object is gone that the new rendering does not have": {func(s *clusterFixture) { s.lose("images/knative-serving/queue-proxy") }, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newClusterFixture(t)
			s.settleWith(t, bundleOf(t, renderedAs(firstRendering)), inTurn(""))
			tc.happens(s)
			out, written := s.settleWith(t, bundleOf(t, renderedOtherwise(t)), inTurn(""))
			if diff := cmp.Diff(tc.written, written); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			if out.Held == nil {
				t.Fatal("the cluster does not wait")
			}
			if diff := cmp.Diff(tc.unrepaired, out.Held.Unrepaired); diff != "" {
				t.Errorf("unrepaired (-want +got):\n%s", diff)
			}
			s.settleWith(t, bundleOf(t, renderedOtherwise(t)), inTurn(otherRendering))
			if got := s.find(networkPath); got == nil || got.Object["data"].(map[string]any)["a"] != "c" { //nolint:forcetypeassert // of renderedOtherwise
				t.Errorf("after the turn the ConfigMap is %v", got)
			}
		})
	}
}

// TestRefusedRepairOfHeldInstallation holds that a refused repair is reported, and tried again.
func TestRefusedRepairOfHeldInstallation(t *testing.T) {
	s := newClusterFixture(t)
	s.settleWith(t, bundleOf(t, renderedAs(firstRendering)), inTurn(""))
	s.lose(activatorPath)
	s.disturb(refuses(errForbidden, "apply "+activatorPath))
	s.catchUp(t)
	out, err := s.Sync(t.Context(), bundleOf(t, renderedOtherwise(t)), inTurn(""))
	if err != nil || out.Held == nil || len(out.Observation.Failed) != 1 || out.Retry == 0 {
		t.Errorf("the outcome is %+v, the error %v", out, err)
	}
}

// TestIncompleteInstallation holds that an installation which was never complete does not wait, and that a waiting cluster names an
// object that the cluster never got.
func TestIncompleteInstallation(t *testing.T) {
	s := newClusterFixture(t)
	first := bundleOf(t, renderedAs(firstRendering))
	s.disturb(refuses(errForbidden, "apply "+networkPath))
	if _, err := s.Sync(t.Context(), first, inTurn("")); err != nil {
		t.Fatal(err)
	}
	s.disturb(nil)
	if out, _ := s.settleWith(t, bundleOf(t, renderedOtherwise(t)), inTurn("")); out.Held != nil {
		t.Errorf("an installation that was never complete waits: %+v", out.Held)
	}
	s.edit(anchorPath, func(u *unstructured.Unstructured) { // an update that refused one new object
		annotations := u.GetAnnotations()
		annotations[api.RunningVersionAnnotation] = "1.23.0"
		u.SetAnnotations(annotations)
		text, _, _ := unstructured.NestedString(u.Object, "data", itemsKey)
		text += `{"version":"v1","resource":"configmaps","kind":"ConfigMap","namespace":"knative-serving","name":"more"}` + "\n"
		if err := unstructured.SetNestedField(u.Object, text, "data", itemsKey); err != nil {
			t.Fatal(err)
		}
	})
	out, written := s.settleWith(t, first, inTurn(""))
	if out.Held == nil || len(written) > 0 || !strings.Contains(out.Observation.Waiting, "ConfigMap knative-serving/more") {
		t.Errorf("the outcome is %+v after the writes %q", out, written)
	}
}

// TestIncompleteDeliveryContinues holds that a manager continues the delivery of its own rendering.
func TestIncompleteDeliveryContinues(t *testing.T) {
	s, options := newClusterFixture(t), SyncOptions{Revision: "h2", InTurn: true}
	s.settleWith(t, bundleOf(t, renderedAs(firstRendering)), inTurn(""))
	s.disturb(refuses(errForbidden, "apply "+networkPath))
	s.catchUp(t)
	if _, err := s.Sync(t.Context(), bundleOf(t, renderedOtherwise(t)), options); err != nil {
		t.Fatal(err)
	}
	s.disturb(nil)
	s.restart()
	out, written := s.settleWith(t, bundleOf(t, renderedOtherwise(t)), options)
	if out.Held != nil || !slices.Contains(written, "apply "+networkPath) {
		t.Errorf("the outcome is %+v after the writes %q", out, written)
	}
}
