// Copyright Contributors to the Open Cluster Management project

package render

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render/releases"
	"open-cluster-management.io/knative-addon/pkg/trust"
)

// furtherDirectory is a directory of releases in the making.
type furtherDirectory struct {
	tb   testing.TB
	path string
}

// newFurtherDirectory returns a directory with release 1.24.0 of both components: release 1.23.0 under another version.
func newFurtherDirectory(tb testing.TB) furtherDirectory {
	tb.Helper()
	d := furtherDirectory{tb, tb.TempDir()}
	for _, release := range []string{"knative-serving/1.23.0", "knative-eventing/1.23.0", "ingress/1.23/kourier"} {
		d.copyRelease(release, strings.Replace(release, "1.23", "1.24", 1), "1.24.0")
	}
	return d
}

// copyRelease copies a bundled release under another name, with another version in the objects.
func (d furtherDirectory) copyRelease(from, to, version string) {
	d.tb.Helper()
	source := filepath.Join(shared.catalog.dir, from)
	names, err := os.ReadDir(source)
	if err != nil {
		d.tb.Fatal(err)
	}
	for _, n := range names {
		data, err := os.ReadFile(filepath.Join(source, n.Name()))
		if err != nil {
			d.tb.Fatal(err)
		}
		d.write(to+"/"+n.Name(), strings.ReplaceAll(string(data), "1.23.0", version))
	}
}

func (d furtherDirectory) write(name, text string) {
	d.tb.Helper()
	path := filepath.Join(d.path, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		d.tb.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		d.tb.Fatal(err)
	}
}

// sum writes SHA256SUMS and returns the directory for a Config.
func (d furtherDirectory) sum() ReleasesDirectory {
	d.tb.Helper()
	var sums strings.Builder
	err := filepath.WalkDir(d.path, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Name() == releases.SumsName {
			return err
		}
		data, err := os.ReadFile(path)
		name, _ := filepath.Rel(d.path, path)
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(data), filepath.ToSlash(name))
		return err
	})
	if err != nil {
		d.tb.Fatal(err)
	}
	d.write(releases.SumsName, sums.String())
	sum := sha256.Sum256([]byte(sums.String()))
	return ReleasesDirectory{Path: d.path, SHA256: hex.EncodeToString(sum[:])}
}

// open returns a Renderer with the directory.
func (d furtherDirectory) open(cfg Config) *Renderer {
	d.tb.Helper()
	cfg.FurtherReleases = d.sum()
	r, err := New(cfg)
	if err != nil {
		d.tb.Fatal(err)
	}
	d.tb.Cleanup(func() { _ = r.Close() })
	return r
}

// TestFurtherReleases holds that a release of the directory is a release like the bundled ones.
func TestFurtherReleases(t *testing.T) { //nolint:gocognit // the steps and their checks belong together
	d := newFurtherDirectory(t)
	d.copyRelease("knative-serving/1.23.0", "knative-serving/1.23.4", "1.23.4")
	r := d.open(Config{})
	t.Run("versions", func(t *testing.T) {
		want := append([]string{"1.24.0", "1.23.4"}, shared.Versions(api.Serving)...)
		if diff := cmp.Diff(want, r.Versions(api.Serving)); diff != "" {
			t.Errorf("versions (-want +got):\n%s", diff)
		}
		for version, want := range map[string]string{"": "1.24.0", "latest": "1.24.0", "1.24": "1.24.0", "1.24.0": "1.24.0", "1.23": "1.23.4", "1.23.0": "1.23.0", "1.22": "1.22.1"} {
			if got, err := r.ResolveVersion(api.Serving, version); got != want || err != nil {
				t.Errorf("ResolveVersion(%q) = %q, %v; want %q", version, got, err, want)
			}
		}
		if _, err := r.ResolveVersion(api.Serving, "1.25"); ReasonOf(err) != api.ReasonUnknownVersion || !containsText(err, "1.24.0, 1.23.4, 1.23.0") {
			t.Errorf("ResolveVersion(1.25): %v, want the versions of the directory in the message", err)
		}
	})
	t.Run("steps", func(t *testing.T) {
		if err := r.CheckMigration(api.Serving, Installed{Delivered: "1.23.0", Running: "1.23.0"}, "1.24.0"); err != nil {
			t.Errorf("CheckMigration from 1.23.0 to 1.24.0: %v", err)
		}
		err := r.CheckMigration(api.Serving, Installed{Delivered: "1.22.1", Running: "1.22.1"}, "1.24.0")
		if ReasonOf(err) != api.ReasonNotEligible || !containsText(err, "it can go to 1.23.4, 1.23.0") {
			t.Errorf("CheckMigration from 1.22.1 to 1.24.0: %v, want the reachable versions of the directory", err)
		}
	})
	t.Run("the source names the directory and the sum", func(t *testing.T) {
		added := d.sum()
		if want := shared.Source() + "; directory " + d.path + ", sha256:" + added.SHA256; r.Source() != want {
			t.Errorf("Source() = %q, want %q", r.Source(), want)
		}
		unconfirmed, err := New(Config{FurtherReleases: ReleasesDirectory{Path: d.path}})
		if err != nil {
			t.Fatal(err)
		}
		if want := r.Source() + ", unverified"; unconfirmed.Source() != want {
			t.Errorf("Source() = %q, want %q", unconfirmed.Source(), want)
		}
		if err := unconfirmed.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestFurtherReleaseRenders holds that a newer minor version renders as the version of which the objects are, also in a namespace
// without trust, and without a bundled part for the parts that only the program has.
func TestFurtherReleaseRenders(t *testing.T) {
	d := newFurtherDirectory(t)
	r := d.open(Config{Trust: trust.Policy{Namespaces: []string{"nobody"}}})
	render := func(component api.Component, spec string) (*Bundle, error) {
		return r.Render(context.Background(), install(t, component, spec), DefaultOptions(api.ModeManifestWork))
	}
	for component, spec := range map[api.Component]string{api.Serving: kourier, api.Eventing: "{}\n"} {
		if component == api.Eventing {
			spec = "high-availability: {replicas: 2}\n"
		}
		newer, err := render(component, "version: '1.24'\n"+spec)
		if err != nil {
			t.Fatal(err)
		}
		older, err := render(component, "version: '1.23'\n"+spec)
		if err != nil {
			t.Fatal(err)
		}
		if newer.Version != "1.24.0" {
			t.Errorf("%s has version %s", component, newer.Version)
		}
		if diff := cmp.Diff(renameVersion(older), listJSON(newer)); diff != "" {
			t.Errorf("objects of %s (-1.23.0 under the name 1.24.0, +1.24.0):\n%s", component, diff)
		}
		if diff := cmp.Diff(older.Workloads, newer.Workloads); diff != "" || len(newer.Jobs) != len(older.Jobs) || len(newer.Jobs) == 0 {
			t.Errorf("%s has Jobs %v and other workloads (-1.23.0 +1.24.0):\n%s", component, newer.Jobs, diff)
		}
	}
	for name, tc := range map[string]struct {
		component api.Component
		spec      string
		reason    Reason
		want      string
	}{
		"an ingress that the directory lacks": {api.Serving, "version: '1.24'\ningress: {contour: {enabled: true}}", api.ReasonIngressNotBundled, "enable one of kourier"},
		"a source that the directory lacks":   {api.Eventing, "version: '1.24'\nsource: {kafka: {enabled: true}}", api.ReasonSourceNotBundled, "enable only none"},
		"a guard of which the program does not know the version": {
			api.Serving, "version: '1.24'\n" + kourier + "security: {securityGuard: {enabled: true}}", api.ReasonSecurityGuardNotBundled, "1.24.0",
		},
		"what needs trust": {api.Serving, "version: '1.24'\n" + kourier + "namespace: {labels: {pod-security.kubernetes.io/enforce: privileged}}", api.ReasonEscalationNotPermitted, "pod-security"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := render(tc.component, tc.spec); ReasonOf(err) != tc.reason || !containsText(err, tc.want) {
				t.Errorf("Render: %s: %v; want %s with %q", ReasonOf(err), err, tc.reason, tc.want)
			}
		})
	}
}

func listJSON(b *Bundle) []string {
	var out []string
	for _, o := range b.Objects() {
		out = append(out, string(o.JSON))
	}
	slices.Sort(out)
	return out
}

func renameVersion(b *Bundle) []string {
	out := listJSON(b)
	for n := range out {
		out[n] = strings.ReplaceAll(out[n], "1.23.0", "1.24.0")
	}
	slices.Sort(out)
	return out
}

// TestFurtherReleaseWithUnknownKind holds that a kind that no bundled release has needs the administrator's consent, and that only
// resources which need the kind wait for the consent.
func TestFurtherReleaseWithUnknownKind(t *testing.T) {
	d := newFurtherDirectory(t)
	d.write("ingress/1.24/gateway-api/net-gateway-api.yaml", "apiVersion: gateway.networking.k8s.io/v1\nkind: ListenerSet\nmetadata: {name: a, namespace: knative-serving}\n")
	const gateway = "version: '1.24'\ningress: {gateway-api: {enabled: true}}\n"
	r := d.open(Config{})
	if _, err := r.Render(context.Background(), install(t, api.Serving, gateway), Options{}); ReasonOf(err) != api.ReasonKindNotAllowed || !containsText(err, "ListenerSet.gateway.networking.k8s.io") {
		t.Errorf("Render: %v, want the kind to be refused", err)
	}
	if _, err := r.Render(context.Background(), install(t, api.Serving, "version: '1.24'\n"+kourier), Options{}); err != nil {
		t.Errorf("Render of another ingress: %v", err)
	}
	permissive := d.open(Config{AllowedKinds: []string{"ListenerSet.gateway.networking.k8s.io"}})
	b, err := permissive.Render(context.Background(), install(t, api.Serving, gateway), Options{})
	if err != nil || find(b, "ListenerSet", "a") == nil {
		t.Errorf("Render with the consent of the administrator: %v, want the object", err)
	}
}

// TestFurtherReleasesAreReadOnce holds that nobody changes the releases of a running program.
func TestFurtherReleasesAreReadOnce(t *testing.T) {
	d := newFurtherDirectory(t)
	r := d.open(Config{})
	if err := os.RemoveAll(d.path); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Render(context.Background(), install(t, api.Serving, "version: '1.24'\n"+kourier), Options{}); err != nil {
		t.Error(err)
	}
}

func TestFurtherReleasesAreRefused(t *testing.T) {
	const object = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a%s}\n"
	label := func(version string) string {
		return fmt.Sprintf(object, ", labels: {app.kubernetes.io/version: "+version+"}")
	}
	for name, tc := range map[string]struct {
		file, text string
		want       []string
	}{
		"a file that is no YAML":                  {"knative-serving/1.24.0/a.yaml", "a: b: c\n", []string{"knative-serving/1.24.0/a.yaml", "yaml:", "copy the file"}},
		"a file without objects":                  {"knative-serving/1.24.0/a.yaml", "# nothing\n", []string{"it has no object"}},
		"an object without a name":                {"ingress/1.24/istio/a.yaml", "apiVersion: v1\nkind: ConfigMap\n", []string{"ingress/1.24/istio/a.yaml", "without apiVersion, kind or name"}},
		"an object that the operator cannot read": {"knative-serving/1.24.0/a.yaml", "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: a}\nsubjects: none\n", []string{"subjects", "is not a list"}},
		"objects of another minor version":        {"knative-eventing/1.24.0/a.yaml", label(`"1.23.0"`), []string{`ConfigMap "a" has version "1.23.0"`, "knative-eventing/1.24.0/a.yaml"}},
		"a Secret of which nobody knows who fills it": {
			"ingress/1.24/istio/a.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: session-keys, namespace: knative-serving}\n",
			[]string{`Secret "knative-serving/session-keys"`, "leave the file out"},
		},
		"objects of no version": {"knative-eventing/1.24.0/a.yaml", label("devel"), []string{`version "devel"`}},
	} {
		t.Run(name, func(t *testing.T) {
			d := furtherDirectory{t, t.TempDir()}
			d.write(tc.file, tc.text)
			_, err := New(Config{FurtherReleases: d.sum()})
			if ReasonOf(err) != api.ReasonReleasesMissing {
				t.Fatalf("New: %v, want %s", err, api.ReasonReleasesMissing)
			}
			for _, want := range append(tc.want, d.path) {
				if !containsText(err, want) {
					t.Errorf("the error lacks %q: %v", want, err)
				}
			}
		})
	}
	t.Run("a version with a letter in front, and an ingress with a version of its own, are no fault", func(t *testing.T) {
		d := furtherDirectory{t, t.TempDir()}
		d.write("knative-serving/1.24.0/a.yaml", label("v1.24.7"))
		d.write("ingress/1.24/istio/a.yaml", label(`"20261023-b1eb61bc8"`))
		d.write("ingress/1.24/istio/b.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: net-istio-webhook-certs}\n")
		d.open(Config{})
	})
	t.Run("a sum without a directory", func(t *testing.T) {
		if _, err := New(Config{FurtherReleases: ReleasesDirectory{SHA256: strings.Repeat("0", 64)}}); ReasonOf(err) != api.ReasonReleasesMissing {
			t.Errorf("New: %v, want %s", err, api.ReasonReleasesMissing)
		}
	})
	t.Run("a directory besides a directory that replaces the bundled releases", func(t *testing.T) {
		t.Setenv("KO_DATA_PATH", shared.catalog.dir)
		_, err := New(Config{FurtherReleases: newFurtherDirectory(t).sum()})
		if ReasonOf(err) != api.ReasonReleasesMissing || !containsText(err, "unset KO_DATA_PATH") {
			t.Errorf("New: %v, want %s and the remedy", err, api.ReasonReleasesMissing)
		}
	})
}

// TestBundledReleasesPassTheCheck holds that the check of a further release refuses nothing that a release of Knative has, such as the
// anchors of eventing sources.
func TestBundledReleasesPassTheCheck(t *testing.T) {
	skipLongTest(t)
	checked := 0
	for _, pattern := range []string{"knative-*/*/*.yaml", "ingress/*/*/*.yaml", "eventing-source/*/*/*.yaml"} {
		paths, err := filepath.Glob(filepath.Join(shared.catalog.dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			name, _ := filepath.Rel(shared.catalog.dir, path)
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := checkManifest(filepath.ToSlash(name), data); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			checked++
		}
	}
	if checked < 100 {
		t.Errorf("%d files were checked", checked)
	}
}
