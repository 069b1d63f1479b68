// Copyright Contributors to the Open Cluster Management project

package render

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render/releases"
)

func containsText(err error, text string) bool {
	return err != nil && strings.Contains(err.Error(), text)
}

// TestReasons: what is wrong with a spec is said with a reason, and with what to do.
func TestReasons(t *testing.T) {
	cases := map[string]struct {
		component api.Component
		spec      string
		reason    Reason
		want      string
	}{
		"an unknown version":       {api.Serving, "version: 0.9.0", api.ReasonUnknownVersion, "set spec.version to one of 1.23.0, 1.22.1"},
		"an external name":         {api.Serving, "ingress: {kourier: {enabled: true, service-type: ExternalName}}", api.ReasonInvalidSpec, `unsupported service type "ExternalName"`},
		"an unknown service type":  {api.Serving, "ingress: {kourier: {enabled: true, service-type: Tunnel}}", api.ReasonInvalidSpec, `unknown service type "Tunnel"`},
		"a port without node port": {api.Serving, "ingress: {kourier: {enabled: true, http-port: 31000}}", api.ReasonInvalidSpec, "cannot configure HTTP(S)Port"},
		"an address without balancer": {
			api.Serving, "ingress: {kourier: {enabled: true, service-type: ClusterIP, service-load-balancer-ip: 10.0.0.1}}",
			api.ReasonInvalidSpec, `cannot render Service "kourier": cannot configure`,
		},
		"an unknown TLS mode": {
			api.Serving, "ingress: {istio: {enabled: true, knative-ingress-gateway: {servers: [{tls: {mode: NONE}}]}}}",
			api.ReasonInvalidSpec, `unknown TLS mode "NONE"`,
		},
		"two bounds of a budget": {
			api.Serving, "podDisruptionBudgets: [{name: activator-pdb, minAvailable: 1, maxUnavailable: 1}]",
			api.ReasonInvalidSpec, "both minAvailable and maxUnavailable are set",
		},
		"certificates of an unknown type": {api.Serving, "controller-custom-certs: {type: File, name: a}", api.ReasonInvalidSpec, "unknown CustomCerts type: File"},
		"certificates without a name":     {api.Serving, "controller-custom-certs: {type: Secret, name: ''}", api.ReasonInvalidSpec, "name for Secret is required"},
		"broker defaults without a cluster's": {
			api.Eventing, "config: {br-defaults: {default-br-config: 'namespaceDefaults: {a: {kind: ConfigMap}}'}}",
			api.ReasonInvalidSpec, `"default-br-config" has no clusterDefault`,
		},
		"broker defaults that are no YAML": {api.Eventing, "config: {br-defaults: {default-br-config: '{'}}", api.ReasonInvalidSpec, "could not be converted"},
		"a label that is none": {
			api.Serving, "workloads: [{name: activator, labels: {a b: c}}]", api.ReasonInvalidSpec, `Deployment "knative-serving/activator"`,
		},
		"a label on the namespace that is none": {api.Serving, "namespace: {labels: {a: 'not a label value'}}", api.ReasonInvalidSpec, `Namespace "knative-serving"`},
		"a key that is none":                    {api.Serving, "config: {autoscaler: {'a b': c}}", api.ReasonInvalidSpec, `ConfigMap "knative-serving/config-autoscaler"`},
		"a file as manifest":                    {api.Serving, "version: 1.23.0\nmanifests: [{URL: /etc/passwd}]", api.ReasonRemoteManifestRefused, "files are not read"},
		"a host that is not allowed": {
			api.Serving, "additionalManifests: [{URL: 'https://example.com/a.yaml'}]", api.ReasonRemoteManifestRefused,
			`spec.additionalManifests[0]: cannot fetch "https://example.com/a.yaml": host "example.com" is not allowed`,
		},
		"manifests without a version": {api.Serving, "manifests: [{URL: 'https://example.com/a.yaml'}]", api.ReasonInvalidSpec, "spec.manifests needs spec.version"},
		"manifests with an odd version": {
			api.Serving, "version: newest\nmanifests: [{URL: 'https://example.com/a.yaml'}]", api.ReasonInvalidSpec, `spec.version "newest" is no version`,
		},
		"a payload that is too large": {
			api.Serving, "config: {autoscaler: {a: '" + strings.Repeat("x", 400_000) + "'}}", api.ReasonTooLarge,
			`380000 is the limit; the largest objects are ConfigMap "knative-serving/config-autoscaler" (400258), ClusterRole`,
		},
		"a patch without a target": {
			api.Serving, "patches: [{target: {apiVersion: v1, kind: Service, name: none}, patch: {type: merge, content: '{}'}}]",
			api.ReasonPatchFailed, "cannot apply spec.patches[0] to v1 Service */none: no rendered object matches",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b, err := shared.Render(context.Background(), install(t, tc.component, tc.spec), DefaultOptions(api.ModeManifestWork))
			if b != nil || ReasonOf(err) != tc.reason || !containsText(err, tc.want) {
				t.Errorf("Render: %s: %v; want %s with %q", ReasonOf(err), err, tc.reason, tc.want)
			}
			if strings.Contains(fmt.Sprint(err), shared.catalog.dir) {
				t.Errorf("Render: %v names a directory of this machine", err)
			}
		})
	}
}

// Direct delivery may deliver what does not fit into a ManifestWork.
func TestDirectHasNoLimit(t *testing.T) {
	in := install(t, api.Serving, "config: {autoscaler: {a: '"+strings.Repeat("x", 400_000)+"'}}")
	b, err := shared.Render(context.Background(), in, DefaultOptions(api.ModeDirect))
	if err != nil || b.PayloadSize < 400_000 {
		t.Errorf("Render to push: %v, want a bundle", err)
	}
}

// A release directory may lack what a CR asks for, or hold what the operator's functions cannot handle.
func TestOddReleases(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const controller = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: controller, namespace: a}\nspec: {template: {spec: {containers: []}}}\n"
	write("knative-serving/1.23.0/a.yaml", controller)
	write("knative-serving/1.22.0/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: tiny}\ndata: {a: b}\n")
	write("knative-serving/1.21.0/a.yaml", "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: unbound}\n")
	write("knative-serving/1.20.0/a.yaml", "\tnot: yaml: at all")
	write("knative-serving/1.19.0/a.yaml", "# nothing\n")
	write("knative-eventing/1.23.0/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: config-a}\n")
	write("ingress/1.23/contour/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: config-contour}\n")
	r, err := New(Config{ReleasesDir: dir, Trust: trustAll()})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close() //nolint:errcheck // a test
	if want := "directory " + dir + ", unverified"; r.Source() != want {
		t.Errorf("Source() = %q, want %q", r.Source(), want)
	}
	cases := map[string]struct {
		component api.Component
		spec      string
		reason    Reason
		want      string
	}{
		"an ingress that is missing": {api.Serving, kourier, api.ReasonIngressNotBundled, `ingress "kourier" is not bundled for knative-serving 1.23.0: enable one of contour`},
		"the default ingress":        {api.Serving, "{}", api.ReasonIngressNotBundled, `ingress "istio"`},
		"an ingress without any":     {api.Serving, "version: '1.22'", api.ReasonIngressNotBundled, "enable one of none"},
		"a guard that is missing":    {api.Serving, "ingress: {}\nsecurity: {securityGuard: {enabled: true}}", api.ReasonSecurityGuardNotBundled, "remove spec.security.securityGuard"},
		"a guard for an old version": {api.Serving, "version: 1.19.0\ningress: {}\nsecurity: {securityGuard: {enabled: true}}", api.ReasonSecurityGuardNotBundled, "1.19.0"},
		"a source that is missing":   {api.Eventing, "source: {kafka: {enabled: true}}", api.ReasonSourceNotBundled, `source "kafka" is not bundled for knative-eventing 1.23.0`},
		"a panic of the operator":    {api.Serving, "ingress: {}\ncontroller-custom-certs: {type: Secret, name: a}", api.ReasonRenderFailed, `cannot render Deployment "controller"`},
		"a binding without subjects": {api.Serving, "version: 1.21.0\ningress: {}", api.ReasonRenderFailed, `cannot render RoleBinding "unbound"`},
		"manifests that are no YAML": {api.Serving, "version: 1.20.0\ningress: {}", api.ReasonInvalidSpec, "the manifests of the target version 1.20.0 are not available"},
		"manifests without objects":  {api.Serving, "version: 1.19.0\ningress: {}", api.ReasonInvalidSpec, "there is no resource available"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := r.Render(context.Background(), install(t, tc.component, tc.spec), DefaultOptions(api.ModeManifestWork))
			if ReasonOf(err) != tc.reason || !containsText(err, tc.want) {
				t.Errorf("Render: %s: %v; want %s with %q", ReasonOf(err), err, tc.reason, tc.want)
			}
		})
	}
	t.Run("a ConfigMap with a short name", func(t *testing.T) {
		b, err := r.Render(context.Background(), install(t, api.Serving, "version: 1.22.0\ningress: {}\nconfig: {tiny: {c: d}}"), DefaultOptions(api.ModeManifestWork))
		if err != nil {
			t.Fatal(err)
		}
		tiny := object(t, b, "ConfigMap", "tiny")
		if tiny.GetNamespace() != "knative-serving" || at(t, tiny.Object, "data", "c") != "d" || tiny.GetLabels()[nameLabel] != "knative-serving" {
			t.Errorf("the ConfigMap is not treated like others: %v", tiny.Object)
		}
	})
}

func TestReleasesMissing(t *testing.T) {
	if _, err := New(Config{ReleasesDir: t.TempDir()}); ReasonOf(err) != api.ReasonReleasesMissing {
		t.Errorf("New with an empty directory: %v, want %s", err, api.ReasonReleasesMissing)
	}
	if _, err := New(Config{ReleasesDir: t.TempDir() + "/a,b"}); ReasonOf(err) != api.ReasonReleasesMissing {
		t.Errorf("New with a comma in the directory: %v, want %s", err, api.ReasonReleasesMissing)
	}
	if _, err := New(Config{RemoteManifests: RemotePolicy{AllowedNetworks: []string{"here"}}}); !containsText(err, `"here"`) {
		t.Errorf("New with an odd network: %v, want it named", err)
	}
	if err := newError(api.ReasonReleasesMissing, "%w", releases.ErrMissing); !errors.Is(err, releases.ErrMissing) {
		t.Error("the cause of an error is lost")
	}
}

// The environment names the release directory, and what the operator reads else from it does not reach a bundle.
func TestEnvironment(t *testing.T) {
	t.Setenv("KO_DATA_PATH", shared.catalog.dir)
	t.Setenv("KUBERNETES_MIN_VERSION", "1.99.0")
	r, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close() //nolint:errcheck // a test
	if want := "directory " + shared.catalog.dir + ", unverified"; r.Source() != want {
		t.Errorf("Source() = %q, want %q", r.Source(), want)
	}
	b, err := r.Render(context.Background(), install(t, api.Serving, kourier), DefaultOptions(api.ModeManifestWork))
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("KO_DATA_PATH") != shared.catalog.dir || os.Getenv("KUBERNETES_MIN_VERSION") != "1.99.0" {
		t.Error("Render left the environment changed")
	}
	minimum, err := New(Config{ReleasesDir: shared.catalog.dir, KubernetesMinVersion: "1.99.0"})
	if err != nil {
		t.Fatal(err)
	}
	defer minimum.Close() //nolint:errcheck // a test
	other, err := minimum.Render(context.Background(), install(t, api.Serving, kourier), DefaultOptions(api.ModeManifestWork))
	if err != nil {
		t.Fatal(err)
	}
	text := string(object(t, other, "Deployment", "activator").JSON)
	if b.Digest == other.Digest || !strings.Contains(text, `{"name":"KUBERNETES_MIN_VERSION","value":"1.99.0"}`) {
		t.Error("Config.KubernetesMinVersion does not reach the workloads")
	}
}

func TestClose(t *testing.T) {
	r, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(r.Source(), "knative.dev/operator v") || !strings.Contains(r.Source(), "sha256:") {
		t.Errorf("Source() = %q, want module and sum", r.Source())
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(r.private.path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Close left %q", r.private.path)
	}
}
