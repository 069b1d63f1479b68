// Copyright Contributors to the Open Cluster Management project

package manifestwork

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// reportedFoundation is a probe that found the Namespace and the CRD with these values; nil is an object that the cluster
// lacks.
func reportedFoundation(t *testing.T, namespace map[string]string) *workv1.ManifestWork {
	t.Helper()
	return reported(t, nil, nil, nil, nil, nil, namespace, nil)
}

// TestRecordCreated holds that a deletion policy reaches only what the probe has proved to be new on the cluster.
func TestRecordCreated(t *testing.T) { //nolint:gocognit // the table and its checks belong together
	made := func() *workv1.ManifestWork {
		w, err := Foundation(bundle(t), &addonv1beta1.ManagedClusterAddOn{}, "h1")
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	recorded := func(before *workv1.ManifestWork) *workv1.ManifestWork {
		w := made()
		if err := RecordCreated(w, before, nil, "h1"); err != nil {
			t.Fatal(err)
		}
		return w
	}
	unanswered := reportedFoundation(t, nil)
	unanswered.Generation++
	const namespace, crd = "namespaces " + ns, "customresourcedefinitions services.serving.knative.dev"
	for name, tc := range map[string]struct {
		reason string
		before *workv1.ManifestWork
		want   []string
	}{
		"a free cluster":                 {"The add-on creates both.", reportedFoundation(t, nil), []string{}},
		"a namespace that was there":     {"The namespace stays with all that is in it.", reportedFoundation(t, map[string]string{}), []string{namespace}},
		"a namespace of another hub":     {"The other hub answers for it.", reportedFoundation(t, map[string]string{createdByValue: "h2"}), []string{namespace}},
		"left by an earlier one of ours": {"The cluster says who created it.", reportedFoundation(t, map[string]string{createdByValue: "h1"}), []string{}},
		"a probe without an answer":      {"Nothing is known.", unanswered, []string{crd, namespace}},
		"no probe":                       {"Nothing is known.", nil, []string{crd, namespace}},
		"a foundation of an older manager": {
			"What is not recorded may have been there.", made(), []string{crd, namespace},
		},
		"a foundation of this manager": {
			"The record goes from one version to the next.", recorded(reportedFoundation(t, map[string]string{})), []string{namespace},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := recorded(tc.before)
			got, err := NotCreated(w)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s kept (-want +got):\n%s", tc.reason, diff)
			}
			owning, err := OwningCreated(w)
			if err != nil {
				t.Fatal(err)
			}
			if (owning == nil) != (len(tc.want) == 2) {
				t.Fatalf("%s the agent is told %v", tc.reason, owning)
			}
			if owning == nil {
				return
			}
			var kept []string
			if o := owning.Spec.DeleteOption; o != nil {
				for _, r := range o.SelectivelyOrphan.OrphaningRules {
					kept = append(kept, r.Resource+" "+r.Name)
				}
			}
			if strings.Join(kept, ",") != strings.Join(tc.want, ",") {
				t.Errorf("%s the agent keeps %q", tc.reason, kept)
			}
		})
	}
}

// TestExistingNamespace holds that the agent does not change a Namespace that the add-on has not created, whatever the later
// foundations are, and that the agent keeps on applying a Namespace that the add-on has created.
func TestExistingNamespace(t *testing.T) {
	record := func(before *workv1.ManifestWork) *workv1.ManifestWork {
		w, err := Foundation(bundle(t), &addonv1beta1.ManagedClusterAddOn{}, "h1")
		if err != nil {
			t.Fatal(err)
		}
		if err := RecordCreated(w, before, nil, "h1"); err != nil {
			t.Fatal(err)
		}
		return w
	}
	older, err := Foundation(bundle(t), &addonv1beta1.ManagedClusterAddOn{}, "h1")
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		reason string
		before *workv1.ManifestWork
		want   workv1.UpdateStrategyType
	}{
		"existed":                     {"The labels belong to another creator.", reportedFoundation(t, map[string]string{}), workv1.UpdateStrategyTypeCreateOnly},
		"of another hub":              {"The other hub has created it.", reportedFoundation(t, map[string]string{createdByValue: "h2"}), workv1.UpdateStrategyTypeCreateOnly},
		"adopted without a probe":     {"The creator is unknown.", nil, workv1.UpdateStrategyTypeCreateOnly},
		"absent":                      {"The add-on creates it.", reportedFoundation(t, nil), workv1.UpdateStrategyTypeServerSideApply},
		"left by an earlier add-on":   {"An add-on of the hub has created it.", reportedFoundation(t, map[string]string{createdByValue: "h1"}), workv1.UpdateStrategyTypeServerSideApply},
		"applied by an older manager": {"The Namespace has our labels already.", older, workv1.UpdateStrategyTypeServerSideApply},
	} {
		t.Run(name, func(t *testing.T) {
			first := record(tc.before)
			for version, w := range []*workv1.ManifestWork{first, record(first)} {
				if got := firstStrategy(w, "namespaces", ns); got != tc.want {
					t.Errorf("%s foundation %d keeps the Namespace by %s, want %s", tc.reason, version, got, tc.want)
				}
				if got := firstStrategy(w, "customresourcedefinitions", "services.serving.knative.dev"); got != workv1.UpdateStrategyTypeServerSideApply {
					t.Errorf("foundation %d keeps the CRD by %s", version, got)
				}
			}
		})
	}
}

// firstStrategy returns the strategy of the first matching entry, as the agent chooses.
func firstStrategy(w *workv1.ManifestWork, resource, name string) workv1.UpdateStrategyType {
	for _, c := range w.Spec.ManifestConfigs {
		if id := c.ResourceIdentifier; id.Resource == resource && (id.Name == "*" || id.Name == name) && c.UpdateStrategy != nil {
			return c.UpdateStrategy.Type
		}
	}
	return workv1.UpdateStrategyTypeUpdate
}

// TestRecordAfterUnfinishedRemoval holds that the record of CRDs which a removal has handed to a work of their own comes back to the next
// foundation.
func TestRecordAfterUnfinishedRemoval(t *testing.T) {
	addOn := &addonv1beta1.ManagedClusterAddOn{}
	foundation, err := Foundation(bundle(t), addOn, "h1")
	if err != nil {
		t.Fatal(err)
	}
	next := foundation.DeepCopy()
	if err := RecordCreated(foundation, reportedFoundation(t, nil), nil, "h1"); err != nil {
		t.Fatal(err)
	}
	crds, err := CRDs(api.Serving, foundation, addOn)
	if err != nil {
		t.Fatal(err)
	}
	before, err := WithoutCreatedCRDs(foundation)
	if err != nil || before == nil {
		t.Fatalf("the foundation has no CRDs of its own, error %v", err)
	}
	if err := RecordCreated(next, before, crds, "h1"); err != nil {
		t.Fatal(err)
	}
	if kept, err := NotCreated(next); err != nil || len(kept) > 0 {
		t.Errorf("a removal would keep %q, error %v", kept, err)
	}
}

// TestRecordCreatedKeepsManifests holds that the annotation is all that changes, and that it is stable.
func TestRecordCreatedKeepsManifests(t *testing.T) {
	plain, err := Foundation(bundle(t), &addonv1beta1.ManagedClusterAddOn{}, "h1")
	if err != nil {
		t.Fatal(err)
	}
	once, twice := plain.DeepCopy(), plain.DeepCopy()
	if err := RecordCreated(once, reportedFoundation(t, nil), nil, "h1"); err != nil {
		t.Fatal(err)
	}
	if err := RecordCreated(twice, once, nil, "h1"); err != nil {
		t.Fatal(err)
	}
	if !SameManifests(once, twice) {
		t.Error("the second pass changes the work")
	}
	manifests, err := manifestsOf(once)
	if err != nil {
		t.Fatal(err)
	}
	before, err := manifestsOf(plain)
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range manifests {
		if !render.KindNamed(m.GetKind()).Orphan {
			continue
		}
		if got := m.GetAnnotations()[api.CreatedByHubAnnotation]; got != "h1" {
			t.Errorf("%s %s is created by %q", m.GetKind(), m.GetName(), got)
		}
		m.SetAnnotations(nil)
		if diff := cmp.Diff(before[i].Object, m.Object); diff != "" {
			t.Errorf("%s %s has changed otherwise (-want +got):\n%s", m.GetKind(), m.GetName(), diff)
		}
	}
}
