// Copyright Contributors to the Open Cluster Management project

package charts

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// TestDecodingPolicies holds which times and quantities the policies on decoding permit, against the parsers of the Go types.
func TestDecodingPolicies(t *testing.T) {
	objects, err := renderChart(t, "{}")
	if err != nil {
		t.Fatal(err)
	}
	works, clusters := string(objects["ValidatingAdmissionPolicy/knative-addon-decoding-works"]), string(objects["ValidatingAdmissionPolicy/knative-addon-decoding-clusters"])
	for name, tc := range map[string]struct {
		policy, pattern    string
		permitted, refused []string
		decode             func(text string) error
	}{
		"times": {
			policy: works, pattern: `lastTransitionTime\.matches\('([^']+)'\)`,
			permitted: []string{"2024-01-01T00:00:00Z", "2024-01-01T00:00:00.5Z", "2024-01-01T23:59:59+14:00", "2024-01-01T23:59:59-09:30"},
			refused:   []string{"2024-01-01T00:00:00z", "2024-01-01t00:00:00Z", "2024-01-01T00:00:00Ztrailer", "2024-01-01T00:00:00x5Z", "2024-01-01T00:00:00+99:99"},
			decode: func(text string) error {
				return json.Unmarshal([]byte(strconv.Quote(text)), &metav1.Time{})
			},
		},
		"quantities": {
			policy: clusters, pattern: `capacity\[k\]\)\.matches\('([^']+)'\)`,
			permitted: []string{"0", "16", "-1", "16Gi", "1.5", "100m", ".5", "1e3", "1E-3", "12E"},
			refused:   []string{"1e1.5", "1e.5", "1e99999999999999999999"},
			decode: func(text string) error {
				_, err := resource.ParseQuantity(text)
				return err
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			match := regexp.MustCompile(tc.pattern).FindStringSubmatch(tc.policy)
			if match == nil {
				t.Fatalf("the policy has no pattern: %s", tc.policy)
			}
			pattern := regexp.MustCompile(match[1])
			check := func(text string, want bool) {
				if err := tc.decode(text); (err == nil) != want || pattern.MatchString(text) != want {
					t.Errorf("%q: permitted=%t, want %t; error of decoding %v", text, pattern.MatchString(text), want, err)
				}
			}
			for _, text := range tc.permitted {
				check(text, true)
			}
			for _, text := range tc.refused {
				check(text, false)
			}
			if pattern.MatchString("1e2147483648") {
				t.Error("the policy permits a quantity that keeps the parser busy without end")
			}
		})
	}
}
