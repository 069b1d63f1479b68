// Copyright Contributors to the Open Cluster Management project

package render

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/semver"
	"knative.dev/operator/pkg/apis/operator/base"
	"knative.dev/operator/pkg/apis/operator/v1beta1"
	"knative.dev/operator/pkg/reconciler/common"

	"open-cluster-management.io/knative-addon/pkg/api"
)

func TestVersions(t *testing.T) {
	want := map[api.Component][]string{
		api.Serving: {
			"1.23.0", "1.22.1", "1.22.0", "1.21.3", "1.21.2", "1.21.1", "1.21.0", "1.20.3", "1.20.2", "1.20.1", "1.20.0",
		},
		api.Eventing: {
			"1.23.0", "1.22.2", "1.22.1", "1.22.0", "1.21.4", "1.21.3", "1.21.2", "1.21.1", "1.21.0", "1.20.3", "1.20.2",
			"1.20.1", "1.20.0",
		},
	}
	for component, versions := range want {
		if diff := cmp.Diff(versions, shared.Versions(component)); diff != "" {
			t.Errorf("versions of %s (-want +got):\n%s", component, diff)
		}
	}
}

func TestResolveVersion(t *testing.T) {
	cases := map[string]struct {
		version, want string
		reason        Reason
	}{
		"empty":                   {"", "1.23.0", ""},
		"latest":                  {"latest", "1.23.0", ""},
		"latest in another case":  {"Latest", "1.23.0", ""},
		"the newest of a minor":   {"1.20", "1.20.3", ""},
		"exact":                   {"1.21.0", "1.21.0", ""},
		"an unknown patch":        {"1.21.9", "", api.ReasonUnknownVersion},
		"an unknown minor":        {"1.19", "", api.ReasonUnknownVersion},
		"a prefix of a minor":     {"1.2", "", api.ReasonUnknownVersion},
		"a major":                 {"1", "", api.ReasonUnknownVersion},
		"a v in front":            {"v1.23.0", "", api.ReasonUnknownVersion},
		"a path":                  {"../knative-eventing/1.23.0", "", api.ReasonUnknownVersion},
		"white space":             {" 1.23.0", "", api.ReasonUnknownVersion},
		"nonsense":                {"newest", "", api.ReasonUnknownVersion},
		"a pre-release of a one":  {"1.23.0-rc1", "", api.ReasonUnknownVersion},
		"a minor with a trailing": {"1.23.", "", api.ReasonUnknownVersion},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := shared.ResolveVersion(api.Serving, tc.version)
			if got != tc.want || ReasonOf(err) != tc.reason {
				t.Errorf("ResolveVersion(%q) = %q, %v; want %q, %q", tc.version, got, err, tc.want, tc.reason)
			}
			if err != nil && !strings.Contains(err.Error(), "1.23.0, 1.22.1, 1.22.0") {
				t.Errorf("ResolveVersion(%q): %v, want the bundled versions in the message", tc.version, err)
			}
		})
	}
}

// What the operator takes, we take, and it means the same version.
func TestResolveVersionLikeTheOperator(t *testing.T) {
	for _, version := range []string{
		"", "latest", "1.20", "1.21", "1.22", "1.23", "1.19", "1.24", "1.2", "1.23.0", "1.23.1", "1.20.2", "v1.23", "0.26.0",
	} {
		ks := &v1beta1.KnativeServing{Spec: v1beta1.KnativeServingSpec{CommonSpec: base.CommonSpec{Version: version}}}
		target, available := operatorVersion(t, ks)
		got, err := shared.ResolveVersion(api.Serving, version)
		if available != (err == nil) || available && got != target {
			t.Errorf("ResolveVersion(%q) = %q, %v; the operator: %q, available %t", version, got, err, target, available)
		}
	}
}

func operatorVersion(t *testing.T, cr base.KComponent) (target string, available bool) {
	t.Helper()
	operatorMu.Lock()
	defer operatorMu.Unlock()
	t.Setenv("KO_DATA_PATH", shared.catalog.dir)
	target = common.TargetVersion(cr)
	_, err := common.TargetManifest(cr)
	return target, err == nil
}

// Every step between two versions is judged as the operator judges it.
func TestCheckMigrationLikeTheOperator(t *testing.T) {
	versions := []string{
		"", "latest", "0.25.0", "0.26.0", "0.26.3", "1.0.0", "1.1.0", "1.9.0", "1.10.2", "1.18.0", "1.19.4", "1.20.0", "1.20.3",
		"1.21.0", "1.22.1", "1.23.0", "1.24.0", "1.25.0", "2.0.0", "2.22.0", "v1.22.0",
	}
	for _, from := range versions {
		for _, to := range versions {
			if to == "" || to == latest {
				continue
			}
			ks := &v1beta1.KnativeServing{Status: v1beta1.KnativeServingStatus{Version: from}}
			// With manifests of its own the operator judges any version.
			ks.Spec.Version, ks.Spec.Manifests = to, []base.Manifest{{Url: "unread"}}
			want := common.IsVersionValidMigrationEligible(ks)
			got := shared.CheckMigration(api.Serving, Installed{Delivered: from}, to)
			if (got == nil) != (want == nil) {
				t.Errorf("CheckMigration(%q, %q) = %v; the operator: %v", from, to, got, want)
			}
			if got != nil && ReasonOf(got) != api.ReasonNotEligible {
				t.Errorf("CheckMigration(%q, %q): reason %s", from, to, ReasonOf(got))
			}
		}
	}
}

func TestCheckMigrationSaysWhatCanBeReached(t *testing.T) {
	cases := map[string]struct{ from, running, to, want string }{
		"two minors up":    {"1.20.1", "", "1.22.1", "it can go to 1.21.3, 1.21.2, 1.21.1, 1.21.0, 1.20.3, 1.20.2, 1.20.1, 1.20.0"},
		"two minors down":  {"1.23.0", "1.23.0", "1.21.0", "it can go to 1.23.0, 1.22.1, 1.22.0"},
		"from long ago":    {"1.12.0", "", "1.23.0", "no bundled version can be reached"},
		"from nonsense":    {"yesterday", "", "1.23.0", `the installed version "yesterday"`},
		"from a mere v":    {"v", "", "1.23.0", `the installed version "v"`},
		"from a major":     {"1", "", "1.23.0", `the installed version "1"`},
		"to nonsense":      {"1.23.0", "", "1.x", `version "1.x"`},
		"to another major": {"1.23.0", "", "2.23.0", "it can go to 1.23.0, 1.22.1, 1.22.0"},
		"over a version that did not run": {
			"1.22.1", "1.21.3", "1.23.0",
			"from version 1.21.3 to 1.23.0: a step is one minor version at most, and version 1.22.1, which was delivered since, has not run yet; " +
				"set spec.version to 1.22.1 and wait until the cluster runs that version; it can go to 1.22.1, 1.22.0, 1.21.3, 1.21.2, 1.21.1, 1.21.0",
		},
		"back over a version that did not run": {
			"1.22.1", "1.23.0", "1.21.3", "and version 1.22.1, which was delivered since, has not run yet",
		},
		"a running version that is none": {"1.22.1", "yesterday", "1.23.0", `the installed version "yesterday"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := shared.CheckMigration(api.Serving, Installed{Delivered: tc.from, Running: tc.running}, tc.to)
			if ReasonOf(err) != api.ReasonNotEligible || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("CheckMigration(%q, %q) = %v, want %q", tc.from, tc.to, err, tc.want)
			}
		})
	}
}

// Versions are compared as versions: 1.9 is older than 1.10.
func TestCatalogOrder(t *testing.T) {
	dir := t.TempDir()
	for _, v := range []string{"1.9.0", "1.10.0", "1.10.2", "latest"} {
		for _, component := range api.Components() {
			if err := os.MkdirAll(dir+"/"+string(component)+"/"+v, 0o700); err != nil {
				t.Fatal(err)
			}
		}
	}
	c, err := readCatalog(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"1.10.2", "1.10.0", "1.9.0", "latest"}, c.versions[api.Serving]); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}
	if got, err := c.resolveVersion(api.Serving, "LATEST", false); got != latest || err != nil {
		t.Errorf("resolve(LATEST) = %q, %v; want the directory %q", got, err, latest)
	}
	if !semver.IsValid("v" + c.versions[api.Serving][0]) {
		t.Errorf("the newest version %q is none", c.versions[api.Serving][0])
	}
}

// A cluster goes on, and back, from a version that did not run.
func TestCheckMigrationOfUnfinishedVersion(t *testing.T) {
	for _, to := range []string{"1.21.0", "1.21.3", "1.22.0", "1.22.1"} {
		if err := shared.CheckMigration(api.Serving, Installed{Delivered: "1.22.1", Running: "1.21.3"}, to); err != nil {
			t.Errorf("CheckMigration to %s: %v", to, err)
		}
	}
}
