// Copyright Contributors to the Open Cluster Management project

package values

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterinventoryv1alpha1 "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"

	clusterv1 "open-cluster-management.io/api/cluster/v1"
)

func TestExpand(t *testing.T) {
	known := map[string]string{
		"$(cluster.name)": "c1", "$(cluster.labels.topology.kubernetes.io/region)": "eu", "$(cluster.claims.id.k8s.io)": "x",
		"$(cluster.variables.DOMAIN_1)": "$(cluster.name)",
	}
	for name, tc := range map[string]struct {
		text, want string
		err        string // in the error
	}{
		"empty text":                          {"", "", ""},
		"text without references":             {"a $(b) $${c} $(clusters.name)", "a $(b) $${c} $(clusters.name)", ""},
		"a variable of Kubernetes":            {"$(POD_NAME).$(cluster.name)", "$(POD_NAME).c1", ""},
		"the name":                            {"$(cluster.name)", "c1", ""},
		"a label with dots and slashes":       {"<$(cluster.labels.topology.kubernetes.io/region)>", "<eu>", ""},
		"two next to each other":              {"$(cluster.name)$(cluster.claims.id.k8s.io)", "c1x", ""},
		"a value is not read again":           {"$(cluster.variables.DOMAIN_1)", "$(cluster.name)", ""},
		"an escaped one":                      {"$$(cluster.name) $(cluster.name)", "$(cluster.name) c1", ""},
		"an escaped one that would be none":   {"$$(cluster.x", "$(cluster.x", ""},
		"one dollar goes, the others stay":    {"$$$(cluster.name)", "$$(cluster.name)", ""},
		"an unknown source":                   {"$(cluster.label.region)", "", "$(cluster.label.region) is no value"},
		"a source without a key":              {"$(cluster.labels)", "", "$(cluster.labels.KEY)"},
		"an empty key":                        {"$(cluster.labels.)", "", "is no value"},
		"a key of the name":                   {"$(cluster.name.x)", "", "is no value"},
		"a key with a blank":                  {"$(cluster.claims.a b)", "", "is no value"},
		"one that is not closed":              {"$(cluster.name", "", "closing parenthesis"},
		"one that is closed by another's end": {"$(cluster.labels.a $(cluster.name)", "", "is no value"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Expand(tc.text, func(r Reference) string { return known[r.String()] })
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("error is %v, want one with %q", err, tc.err)
			}
		})
	}
}

func TestValues(t *testing.T) {
	references, err := References("$(cluster.name) $(cluster.labels.region) $(cluster.labels.zone) $(cluster.claims.id) $(cluster.variables.tier)")
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{"region": "eu", "zone": "1"}
	managed := func(change func(*clusterv1.ManagedCluster)) *clusterv1.ManagedCluster {
		c := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "c1", Labels: labels}}
		c.Status.ClusterClaims = []clusterv1.ManagedClusterClaim{{Name: "other", Value: "o"}, {Name: "id", Value: "x"}}
		change(c)
		return c
	}
	for name, tc := range map[string]struct {
		cluster *Cluster
		want    []string
		missing []string
	}{
		"a managed cluster with all": {
			cluster: OfManagedCluster(managed(func(*clusterv1.ManagedCluster) {}), map[string]string{"tier": "gold"}),
			want:    []string{"c1", "eu", "1", "x", "gold"},
		},
		"a label and a claim that are empty, and no variables": {
			cluster: OfManagedCluster(managed(func(c *clusterv1.ManagedCluster) {
				c.Labels, c.Status.ClusterClaims[1].Value = map[string]string{"region": "", "zone": "1"}, ""
			}), nil),
			missing: []string{"$(cluster.labels.region)", "$(cluster.claims.id)", "$(cluster.variables.tier)"},
		},
		"a ClusterProfile": {
			cluster: OfClusterProfile(&clusterinventoryv1alpha1.ClusterProfile{
				ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "p1", Labels: labels},
				Status:     clusterinventoryv1alpha1.ClusterProfileStatus{Properties: []clusterinventoryv1alpha1.Property{{Name: "id", Value: "y"}}},
			}),
			missing: []string{"$(cluster.variables.tier)"},
		},
		"none": {
			cluster: None("the hub has none"),
			missing: []string{
				"$(cluster.name)", "$(cluster.labels.region)", "$(cluster.labels.zone)", "$(cluster.claims.id)", "$(cluster.variables.tier)",
			},
		},
		"given ones": {
			cluster: Given(map[Reference]string{
				{Name, ""}: "a", {Labels, "region"}: "b", {Labels, "zone"}: "c", {Claims, "id"}: "d", {Variables, "tier"}: "e",
			}),
			want: []string{"a", "b", "c", "d", "e"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tc.cluster.Values(references)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("values: -want +got:\n%s", diff)
			}
			var missing *MissingError
			if errors.As(err, &missing) != (len(tc.missing) > 0) {
				t.Fatalf("error is %v, want one about %v", err, tc.missing)
			}
			for _, name := range tc.missing {
				if !strings.Contains(err.Error(), name) {
					t.Errorf("%q does not name %s", err, name)
				}
			}
			if missing != nil && len(missing.Missing) != len(tc.missing) {
				t.Errorf("missing are %v, want %v", missing.Missing, tc.missing)
			}
		})
	}
}
