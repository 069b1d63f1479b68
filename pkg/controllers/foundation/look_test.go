// Copyright Contributors to the Open Cluster Management project

package foundation

import (
	"strings"
	"testing"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/resolve"
)

// TestLook holds whose an installation is taken for.
func TestLook(t *testing.T) {
	there := map[string]string{}
	applied := map[string]string{"AppliedBy": "abc-addon-knative-serving-deploy-0"}
	direct := map[string]string{"Direct": "knative-serving", "AppliedBy": "abc-addon-knative-serving-deploy-0"}
	for name, tc := range map[string]struct {
		reason  string
		works   []*workv1.ManifestWork
		bundle  func() (*render.Bundle, error)
		adopted bool
		clear   bool
		refusal string
		says    []string
	}{
		"nobody has looked": {reason: "Nothing is known."},
		"free":              {reason: "Nobody has the component.", works: []*workv1.ManifestWork{probeWork(t, "", nil)}, clear: true},
		"free elsewhere": {
			reason: "It is to go to another namespace by now.", works: []*workv1.ManifestWork{probeWork(t, "", nil)},
			bundle: func() (*render.Bundle, error) {
				b, err := fine()
				b.Workloads = []render.Workload{{Kind: "Deployment", Namespace: "elsewhere", Name: "activator"}}
				return b, err
			},
		},
		"installed": {reason: "It is ours.", works: []*workv1.ManifestWork{foundationWork()}, clear: true},
		"left by this hub": {
			reason: "The agent's role says whose it was.", works: []*workv1.ManifestWork{probeWork(t, hubUID, there)}, clear: true,
		},
		"applied for this hub": {
			reason: "A cluster that was detached and joins again.", works: []*workv1.ManifestWork{probeWork(t, hubUID, applied)}, clear: true,
		},
		"applied for another hub": {
			reason: "Both would write.", works: []*workv1.ManifestWork{probeWork(t, "h2", applied)},
			refusal: api.ReasonTargetConflict, says: []string{"UID h2", "abc-addon", "Deployment knative-serving/activator", api.AdoptAnnotation},
		},
		"applied for another hub with an older add-on": {
			reason: "Its role says nothing.", works: []*workv1.ManifestWork{probeWork(t, "", applied)},
			refusal: api.ReasonTargetConflict, says: []string{"another hub or another ManifestWork"},
		},
		"written directly": {
			reason: "Also where this hub's agent had it before.", works: []*workv1.ManifestWork{probeWork(t, hubUID, direct)},
			refusal: api.ReasonTargetConflict, says: []string{"Direct delivery"},
		},
		"left by another hub": {
			reason: "Nobody has it any more.", works: []*workv1.ManifestWork{probeWork(t, "h2", there)},
			refusal: api.ReasonExistingInstallation, says: []string{"Deployment knative-serving/activator", "left alone", api.AdoptAnnotation},
		},
		"somebody else's": {
			reason: "It is left alone.", works: []*workv1.ManifestWork{probeWork(t, "", there)}, refusal: api.ReasonExistingInstallation,
		},
		"somebody else's, to be taken over": {
			reason: "It is asked for.", works: []*workv1.ManifestWork{probeWork(t, "", there)}, adopted: true, clear: true,
		},
		"only a role is left of another hub": {
			reason: "That is no installation.", works: []*workv1.ManifestWork{probeWork(t, "h2", nil)}, clear: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &scope{component: api.Serving, namespace: clusterName, addon: newHub().addOn}
			if len(tc.works) > 0 {
				s.foundation = tc.works[0]
			}
			if tc.bundle == nil {
				tc.bundle = fine
			}
			b, err := tc.bundle()
			if err != nil {
				t.Fatal(err)
			}
			got := (&Reconciler{Adoptions: adopted(tc.adopted)}).look(s, b, hubUID)
			if got.clear != tc.clear || (got.refusal == nil) != (tc.refusal == "") {
				t.Fatalf("%s got clear %t and refusal %v", tc.reason, got.clear, got.refusal)
			}
			if got.refusal != nil {
				mustRefuse(t, got.refusal, tc.refusal, append(tc.says, clusterName))
			}
		})
	}
}

func mustRefuse(t *testing.T, got *resolve.Result, reason string, says []string) {
	t.Helper()
	if got.Target != nil || got.Reason != reason {
		t.Errorf("got %+v", got)
	}
	for _, want := range says {
		if !strings.Contains(got.Message, want) {
			t.Errorf("%q is not in %q", want, got.Message)
		}
	}
}
