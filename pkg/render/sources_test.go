// Copyright Contributors to the Open Cluster Management project

package render

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/trust"
)

// manifestServer serves documents by path over TLS on the loopback interface.
type manifestServer struct {
	*httptest.Server
	requests atomic.Int64
}

func serveManifests(t *testing.T, documents map[string]string) *manifestServer {
	t.Helper()
	s := &manifestServer{}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		text, found := documents[r.URL.Path]
		if !found {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, text)
	}))
	t.Cleanup(s.Close)
	return s
}

// renderer is a Renderer that may fetch from the server and deliver further kinds.
func (s *manifestServer) renderer(t *testing.T, kinds ...string) *Renderer {
	t.Helper()
	return s.rendererWith(t, trustAll(), kinds...)
}

// rendererWith is the same with a trust policy.
func (s *manifestServer) rendererWith(t *testing.T, policy trust.Policy, kinds ...string) *Renderer {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	r, err := New(Config{
		ReleasesDir: shared.catalog.dir, AllowedKinds: kinds, Trust: policy,
		RemoteManifests: RemotePolicy{
			AllowedHosts: []string{strings.TrimPrefix(s.URL, "https://")}, AllowedNetworks: []string{"127.0.0.0/8", "::1/128"},
			RootCAs: pool,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func hexSum(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

const additional = `
apiVersion: v1
kind: Secret
metadata: {name: filled, namespace: elsewhere}
stringData: {key: value}
---
apiVersion: v1
kind: Secret
metadata: {name: empty}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: ca}
data: {_example: kept, a: b}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: config-tracing, namespace: knative-serving, annotations: {note: mine}}
data: {backend: none}
---
# a binding without subjects, and a List
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: nobody}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
---
apiVersion: v1
kind: List
items:
- apiVersion: batch/v1
  kind: Job
  metadata: {name: prepare}
  spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: example.com/a:v1}]}}}
- apiVersion: v1
  kind: ServiceAccount
  metadata: {name: helper, creationTimestamp: null, uid: x}
`

func TestAdditionalManifests(t *testing.T) {
	s := serveManifests(t, map[string]string{"/1.23.0/more.yaml": additional})
	r := s.renderer(t)
	render := func(spec string) *Bundle {
		t.Helper()
		b, err := r.Render(context.Background(), install(t, api.Serving, spec), DefaultOptions(api.ModeManifestWork))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	plain := render(kourier + "config: {ca: {c: d}}")
	spec := kourier + "config: {ca: {c: d}}\nadditionalManifests: [{URL: '" + s.URL + "/${VERSION}/more.yaml'}]"
	b := render(spec)
	checkOrder(t, b)
	if got, want := len(b.Objects()), len(plain.Objects())+6; got != want {
		t.Errorf("the bundle has %d objects, want %d: one of them replaces one of the release", got, want)
	}
	classes := map[string]Class{}
	for _, o := range b.Objects() {
		if strings.Contains(string(o.JSON), originAnnotation) {
			t.Errorf("%s still has the mark of its origin", o.ID())
		}
		classes[o.GetKind()+" "+o.GetNamespace()+"/"+o.GetName()] = o.Class
	}
	for name, want := range map[string]Class{
		"Secret knative-serving/filled": Apply, "Secret knative-serving/empty": CreateOnly, "ConfigMap knative-serving/ca": Apply,
		"ConfigMap knative-serving/config-tracing": Apply, "ClusterRoleBinding /nobody": Update,
		"Job knative-serving/prepare-serving-1.23.0": OncePerVersion, "ServiceAccount knative-serving/helper": Update,
		"Secret knative-serving/webhook-certs": CreateOnly,
	} {
		if classes[name] != want {
			t.Errorf("%s has class %q, want %q", name, classes[name], want)
		}
	}
	if diff := cmp.Diff(map[string]any{"_example": "kept", "a": "b", "c": "d"}, at(t, object(t, b, "ConfigMap", "ca").Object, "data")); diff != "" {
		t.Errorf("data of the user's ConfigMap (-want +got):\n%s", diff)
	}
	replaced := object(t, b, "ConfigMap", "config-tracing")
	if diff := cmp.Diff(map[string]any{"backend": "none"}, replaced.Object["data"]); diff != "" {
		t.Errorf("data of the ConfigMap that replaces one (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"note": "mine"}, replaced.GetAnnotations()); diff != "" {
		t.Errorf("its annotations (-want +got):\n%s", diff)
	}
	want := []string{s.URL + "/1.23.0/more.yaml is not pinned: append #sha256=" + hexSum(additional) + " to its URL"}
	if diff := cmp.Diff(want, b.Warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	if pinned := render(strings.Replace(spec, "more.yaml", "more.yaml#sha256="+hexSum(additional), 1)); len(pinned.Warnings) != 0 || pinned.Digest != b.Digest {
		t.Errorf("pinned: warnings %v, same digest %t", pinned.Warnings, pinned.Digest == b.Digest)
	}
	if again := render(spec); again != b || s.requests.Load() != 2 {
		t.Errorf("rendered again: the same bundle %t, %d requests; want one per URL and digest", again == b, s.requests.Load())
	}
}

// TestDocumentsAreRemoved holds that the documents of a resource stay on the disk for one rendering only.
func TestDocumentsAreRemoved(t *testing.T) {
	s := serveManifests(t, map[string]string{"/more.yaml": additional, "/bad.yaml": "kind: [", "/whole.yaml": additional})
	r := s.renderer(t)
	for spec, wantError := range map[string]bool{
		kourier + "additionalManifests: [{URL: '" + s.URL + "/more.yaml'}]":                         false,
		kourier + "additionalManifests: [{URL: '" + s.URL + "/bad.yaml'}]":                          true,
		kourier + "manifests: [{URL: '" + s.URL + "/whole.yaml'}, {URL: '" + s.URL + "/bad.yaml'}]": true,
	} {
		_, err := r.Render(context.Background(), install(t, api.Serving, spec), DefaultOptions(api.ModeManifestWork))
		if (err != nil) != wantError {
			t.Errorf("rendering %s: %v", spec, err)
		}
	}
	left, err := filepath.Glob(filepath.Join(r.private.path, "*"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{filepath.Join(r.private.path, lockName)}, left); diff != "" {
		t.Errorf("files of the Renderer (-want +got):\n%s", diff)
	}
}

// The operator, given the same documents as files, makes the same objects.
func TestAdditionalManifestsLikeTheOperator(t *testing.T) {
	const documents = `
apiVersion: v1
kind: ConfigMap
metadata: {name: config-own, namespace: elsewhere}
data: {a: b}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: own}
spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: own, image: example.com/own:v1}]}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: controller, namespace: knative-serving}
spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: controller, image: example.com/own:v1}]}}}
`
	s := serveManifests(t, map[string]string{"/own.yaml": documents})
	file := filepath.Join(t.TempDir(), "own.yaml")
	if err := os.WriteFile(file, []byte(documents), 0o600); err != nil {
		t.Fatal(err)
	}
	spec := func(url string) string {
		return kourier + "high-availability: {replicas: 2}\nconfig: {own: {c: d}}\nregistry: {default: 'mirror.example.com/${NAME}:v1'}\nadditionalManifests: [{URL: '" + url + "'}]"
	}
	ours, err := s.renderer(t).Render(context.Background(), install(t, api.Serving, spec(s.URL+"/own.yaml")), DefaultOptions(api.ModeManifestWork))
	if err != nil {
		t.Fatal(err)
	}
	theirs := operatorObjects(t, shared.catalog.dir, typed(t, resource(t, api.Serving, spec(file)), ours.Namespace))
	explain(t, theirs, ours)
	if object(t, ours, "Deployment", "own") == nil || at(t, object(t, ours, "ConfigMap", "config-own").Object, "data", "c") != "d" {
		t.Error("the bundle lacks what the documents add")
	}
}

const own = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: controller, labels: {app.kubernetes.io/version: "1.30.1"}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: controller, labels: {app.kubernetes.io/version: "1.30.1"}}
spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: controller, image: example.com/own:v1}]}}}
`

// spec.manifests replaces the release, for any version, and what is enabled and not bundled is left to the user.
func TestOwnManifests(t *testing.T) {
	s := serveManifests(t, map[string]string{"/own.yaml": own})
	r := s.renderer(t)
	render := func(spec string) (*Bundle, error) {
		return r.Render(context.Background(), install(t, api.Serving, spec), DefaultOptions(api.ModeManifestWork))
	}
	const head = "ingress: {kourier: {enabled: true}}\nnamespace: {labels: {team: one}, annotations: {cost: low}}\n"
	url := "manifests: [{URL: '" + s.URL + "/own.yaml'}]"
	b, err := render(head + "version: 1.30.1\n" + url)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range b.Objects() {
		got = append(got, o.GetKind()+" "+o.GetName())
	}
	if diff := cmp.Diff([]string{"Namespace knative-serving", "ServiceAccount controller", "Deployment controller", "ClusterClaim serving.version.knative.dev"}, got); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
	namespace := b.Foundation[0]
	if diff := cmp.Diff(map[string]string{"team": "one", nameLabel: "knative-serving"}, namespace.GetLabels()); diff != "" {
		t.Errorf("labels of the namespace that was added (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"cost": "low"}, namespace.GetAnnotations()); diff != "" {
		t.Errorf("its annotations (-want +got):\n%s", diff)
	}
	if b.Version != "1.30.1" {
		t.Errorf("the version is %q", b.Version)
	}
	_, err = render(head + "version: 1.29.0\n" + url)
	if ReasonOf(err) != api.ReasonInvalidSpec || !containsText(err, "does not match the target version") {
		t.Errorf("manifests of another version: %v", err)
	}
	if b, err := render("version: '1.30'\n" + url); err != nil || b.Version != "1.30" {
		t.Errorf("a minor version: %v", err)
	}
}

func TestRefusedManifests(t *testing.T) {
	s := serveManifests(t, map[string]string{
		"/policy.yaml":   "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: all}\nspec: {podSelector: {}}\n",
		"/html":          "<html><body>404</body></html>",
		"/empty":         "# nothing\n---\n",
		"/no-kind":       "metadata: {name: a}\n",
		"/no-name":       "apiVersion: v1\nkind: ConfigMap\nmetadata: {}\n",
		"/subjects":      "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: a}\nsubjects: [a]\n",
		"/subjects-text": "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: a}\nsubjects: a\n",
		"/webhooks":      "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: a}\nwebhooks: [a]\n",
		"/nested":        "apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: List, items: []}]\n",
		"/many":          strings.Repeat("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: config-a}\n", maxObjects+1),
		"/bomb":          bomb(),
		"/tabs":          "\tnot yaml",
	})
	r := s.renderer(t)
	cases := map[string]struct {
		path   string
		reason Reason
		want   string
	}{
		"a kind that is not allowed":  {"/policy.yaml", api.ReasonKindNotAllowed, "NetworkPolicy.networking.k8s.io"},
		"a page":                      {"/html", api.ReasonInvalidSpec, "cannot read " + s.URL + "/html"},
		"nothing":                     {"/empty", api.ReasonInvalidSpec, "it has no object"},
		"an object without a kind":    {"/no-kind", api.ReasonInvalidSpec, "cannot read"},
		"an object without a name":    {"/no-name", api.ReasonInvalidSpec, "without apiVersion, kind or name"},
		"subjects that are no object": {"/subjects", api.ReasonInvalidSpec, "has an entry that is not an object"},
		"subjects that are no list":   {"/subjects-text", api.ReasonInvalidSpec, "is not a list"},
		"webhooks that are no object": {"/webhooks", api.ReasonInvalidSpec, "has an entry that is not an object"},
		"a list of lists":             {"/nested", api.ReasonInvalidSpec, "items are not plain objects"},
		"very many objects":           {"/many", api.ReasonInvalidSpec, "more than 2000 objects"},
		"aliases that multiply":       {"/bomb", api.ReasonInvalidSpec, "anchors and aliases"},
		"what is no YAML":             {"/tabs", api.ReasonInvalidSpec, "cannot read"},
		"what is not there":           {"/none", api.ReasonRemoteManifestUnavailable, `the server answers "404 Not Found"`},
		"another digest":              {"/empty#sha256=" + strings.Repeat("0", 64), api.ReasonRemoteManifestRefused, "its SHA-256 is"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			spec := "ingress: {}\nadditionalManifests: [{URL: '" + s.URL + tc.path + "'}]"
			_, err := r.Render(context.Background(), install(t, api.Serving, spec), DefaultOptions(api.ModeManifestWork))
			if ReasonOf(err) != tc.reason || !containsText(err, tc.want) {
				t.Errorf("Render: %s: %v; want %s with %q", ReasonOf(err), err, tc.reason, tc.want)
			}
			if strings.Contains(fmt.Sprint(err), r.private.path) {
				t.Errorf("Render: %v names a directory of this machine", err)
			}
		})
	}
	t.Run("a kind that the administrator allows", func(t *testing.T) {
		for _, kind := range []string{"NetworkPolicy.networking.k8s.io", "*"} {
			spec := "ingress: {}\nadditionalManifests: [{URL: '" + s.URL + "/policy.yaml'}]"
			b, err := s.renderer(t, kind).Render(context.Background(), install(t, api.Serving, spec), DefaultOptions(api.ModeManifestWork))
			if err != nil {
				t.Fatal(err)
			}
			if got := object(t, b, "NetworkPolicy", "all").Resource.Resource; got != "networkpolicies" {
				t.Errorf("its resource is %q", got)
			}
		}
	})
}

// bomb is a small document whose aliases would become a large one.
func bomb() string {
	var text strings.Builder
	text.WriteString("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: config-a}\na0: &a0 [x,x,x,x,x,x,x,x,x,x]\n")
	for n := 1; n < 9; n++ {
		aliases := strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", n-1), 10), ",")
		fmt.Fprintf(&text, "a%d: &a%d [%s]\n", n, n, aliases)
	}
	return text.String()
}

// What the user's own manifests make too large for one work is split by the framework, and not refused here.
func TestLargeAdditionalManifests(t *testing.T) {
	large := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: config-large}\ndata: {a: " + strings.Repeat("x", 400_000) + "}\n"
	s := serveManifests(t, map[string]string{"/large.yaml": large})
	b, err := s.renderer(t).Render(context.Background(),
		install(t, api.Serving, kourier+"additionalManifests: [{URL: '"+s.URL+"/large.yaml'}]"), DefaultOptions(api.ModeManifestWork))
	if err != nil || b.PayloadSize < 400_000 {
		t.Errorf("Render: %v, want a large bundle", err)
	}
}
