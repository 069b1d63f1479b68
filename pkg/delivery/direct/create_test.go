// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render"
)

const jobPath = "jobs/knative-serving/migrate"

// TestCreateJob holds which Job that is there is replaced.
func TestCreateJob(t *testing.T) {
	changed := func(b *render.Bundle) {
		b.Payload[6] = rendered(t, inJobs, "Job knative-serving/migrate", map[string]any{"spec": map[string]any{"suspend": true}}, render.OncePerVersion)
	}
	unlabelled := func(s *clusterFixture) { s.edit(jobPath, func(u *unstructured.Unstructured) { u.SetLabels(nil) }) }
	for name, tc := range map[string]struct {
		reason   string
		disturb  func(*clusterFixture)
		change   func(*render.Bundle)
		replaced bool
	}{
		"of another version, still running": {"It may never complete.", func(*clusterFixture) {}, changed, true},
		"of another version, completed":     {"It has run.", func(s *clusterFixture) { s.edit(jobPath, completed) }, changed, false},
		"without our label":                 {"It is the one that should run.", unlabelled, func(*render.Bundle) {}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newClusterFixture(t)
			s.settle(t, bundleOf(t))
			before := s.find(jobPath).GetUID()
			tc.disturb(s)
			s.restart()
			s.settle(t, bundleOf(t, tc.change))
			after := s.find(jobPath)
			if replaced := after.GetUID() != before; replaced != tc.replaced {
				t.Errorf("%s It was replaced: %t", tc.reason, replaced)
			}
			if after.GetLabels()[api.ComponentLabel] == "" {
				t.Error("it does not have our label")
			}
		})
	}
}

// TestAdoptJob holds that a Job of somebody else is labelled, not run again, and a Secret keeps what is in it.
func TestAdoptJob(t *testing.T) {
	s, b := newClusterFixture(t), bundleOf(t)
	s.add(b.Payload[6].Resource, b.Payload[6].Unstructured)
	s.add(b.Payload[3].Resource, b.Payload[3].Unstructured)
	s.edit("secrets/knative-serving/certs", filled)
	uid := s.find(jobPath).GetUID()
	s.settle(t, b)
	if got := s.find(jobPath); got.GetUID() != uid || got.GetLabels()[api.ComponentLabel] != string(api.Serving) {
		t.Errorf("it is now %v", got)
	}
	secret := s.find("secrets/knative-serving/certs")
	if _, ok, _ := unstructured.NestedString(secret.Object, "data", "tls.key"); !ok || secret.GetLabels()[api.ComponentLabel] == "" {
		t.Errorf("the Secret is now %v", secret)
	}
}

// TestBindings holds that a binding which cannot be changed is recreated, and nothing else is.
func TestBindings(t *testing.T) {
	role := field.Invalid(field.NewPath("roleRef"), "x", "cannot change roleRef")
	for name, tc := range map[string]struct {
		apply string
		cause *field.Error
		want  []string
	}{
		"the role of a binding":     {"apply clusterrolebindings/controller", role, []string{"delete clusterrolebindings/controller"}},
		"the subjects of a binding": {"apply clusterrolebindings/controller", field.Required(field.NewPath("subjects").Index(0).Child("namespace"), ""), nil},
		"something else":            {"apply deployments/knative-serving/activator", role, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s, b := newClusterFixture(t), bundleOf(t)
			first := true
			s.disturb(func(request string) error {
				if request != tc.apply || !first {
					return nil
				}
				first = false
				return apierrors.NewInvalid(schema.GroupKind{Kind: "x"}, "x", field.ErrorList{tc.cause})
			})
			s.add(b.Payload[1].Resource, b.Payload[1].Unstructured)
			out := s.pass(t, b)
			deleted := slices.DeleteFunc(s.asked(), func(r string) bool { return r[:6] != "delete" })
			if !slices.Equal(tc.want, deleted) {
				t.Errorf("deleted are %q", deleted)
			}
			if failed := len(out.Observation.Failed) > 0; failed != (tc.want == nil) {
				t.Errorf("it tells %+v", out.Observation.Failed)
			}
		})
	}
}

// TestDeleteOne holds what is deleted, and how.
func TestDeleteOne(t *testing.T) {
	ours := map[string]string{api.ComponentLabel: string(api.Serving)}
	for name, tc := range map[string]struct {
		reason     string
		labels     map[string]string
		uid        types.UID
		finalizers []string
		fails      error
		gone       bool
		deletions  int
	}{
		"ours":                 {"It goes.", ours, "", nil, nil, true, 1},
		"without our label":    {"It is somebody else's.", nil, "", nil, nil, true, 0},
		"of another component": {"It is not this one's.", map[string]string{api.ComponentLabel: string(api.Eventing)}, "", nil, nil, true, 0},
		"of another UID":       {"It came later.", ours, "other", nil, nil, true, 0},
		"held by a finalizer":  {"It is asked for once.", ours, "", []string{"x/y"}, nil, false, 1},
		"refused":              {"That is told.", ours, "", nil, errForbidden, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newClusterFixture(t)
			o := rendered(t, inConfigMaps, "ConfigMap knative-serving/x", nil)
			o.SetLabels(tc.labels)
			o.SetFinalizers(tc.finalizers)
			s.add(o.Resource, o.Unstructured)
			s.disturb(refuses(tc.fails, "delete "))
			e := (&desiredObject{Object: o, id: o.ID()}).inventoryItem()
			e.UID = tc.uid
			for range 2 {
				gone, err := s.deleteItem(t.Context(), &e)
				if gone != tc.gone || (err != nil) != (tc.fails != nil) {
					t.Errorf("%s It is gone: %t, %v", tc.reason, gone, err)
				}
			}
			if len(s.deletes) != tc.deletions {
				t.Fatalf("%s There are %d deletions", tc.reason, len(s.deletes))
			}
			for _, d := range s.deletes {
				if d.Preconditions == nil || d.Preconditions.UID == nil || d.PropagationPolicy == nil {
					t.Errorf("it is deleted with %+v", d)
				}
			}
		})
	}
}
