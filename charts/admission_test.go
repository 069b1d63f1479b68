// Copyright Contributors to the Open Cluster Management project

package charts

import (
	"regexp"
	"strings"
	"testing"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/revision"
)

// TestManagerMayWriteItsWorks holds that the policy for the manager permits every ManifestWork that the manager writes.
func TestManagerMayWriteItsWorks(t *testing.T) {
	objects, err := renderChart(t, "{}")
	if err != nil {
		t.Fatal(err)
	}
	policy := string(objects["ValidatingAdmissionPolicy/knative-addon-manager-works"])
	names := []string{manifestwork.VerificationName(api.Serving)}
	for _, c := range api.Components() {
		names = append(names, manifestwork.FoundationName(c), manifestwork.GateName(c), manifestwork.CRDsName(c))
	}
	for _, name := range names {
		if !strings.Contains(policy, `"`+name+`"`) {
			t.Errorf("the policy does not permit ManifestWork %s: %s", name, policy)
		}
	}
}

// TestManagerMayWriteItsRevisions holds that the policy for the manager permits the ControllerRevisions of every kind with a history.
func TestManagerMayWriteItsRevisions(t *testing.T) {
	objects, err := renderChart(t, "{}")
	if err != nil {
		t.Fatal(err)
	}
	policy := string(objects["ValidatingAdmissionPolicy/knative-addon-manager-revisions"])
	pattern := regexp.MustCompile(`matches\('([^']+)'\)`).FindStringSubmatch(policy)
	if pattern == nil {
		t.Fatalf("the policy has no pattern: %s", policy)
	}
	for _, kind := range revision.Kinds() {
		name := revision.Name(kind, "web", strings.Repeat("0", 64))
		if !regexp.MustCompile(pattern[1]).MatchString(name) || !strings.Contains(policy, `"`+kind.RevisionLabelValue()+`"`) {
			t.Errorf("the policy does not permit ControllerRevision %s with label value %s", name, kind.RevisionLabelValue())
		}
	}
}
