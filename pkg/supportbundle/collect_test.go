// Copyright Contributors to the Open Cluster Management project

package supportbundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/installations"
)

// canary is part of every credential of the hub of a test.
const canary = "canary4711"

// objectsYAML are the objects of a hub, by the end of the path of their list. CANARY stands in every place that may hold a credential,
// and USEFUL in places that a support case needs.
const objectsYAML = `
knativeservings:
- apiVersion: operator.knative.dev/v1beta1
  kind: KnativeServing
  metadata:
    name: default
    namespace: team
    generation: 1
    annotations: {kubectl.kubernetes.io/last-applied-configuration: CANARY, example.com/api-token: CANARY, example.com/note: USEFUL-note}
    managedFields: [{manager: CANARY}]
  spec:
    version: USEFUL-version
    config: {network: {ingress-class: USEFUL-class, proxy-password: CANARY}, kafka: {settings: "user=a password=CANARY", url: "https://user:CANARY@host"}}
    additionalManifests: [{URL: "https://host/file?signature=CANARY"}]
    workloads: [{name: controller, env: [{container: c, envVars: [{name: ANY, value: CANARY}]}]}]
    registry: {imagePullSecrets: [{name: CANARY}]}
  status: {conditions: [{type: Ready, status: "False", reason: USEFULReason, message: "the server said: Authorization: Bearer CANARY"}]}
managedclusteraddons:
- apiVersion: addon.open-cluster-management.io/v1beta1
  kind: ManagedClusterAddOn
  metadata: {name: knative-serving, namespace: cluster1}
  status: {conditions: [{type: ManifestApplied, status: "False", reason: USEFULApply, message: "cannot apply: token=CANARY"}]}
- apiVersion: addon.open-cluster-management.io/v1beta1
  kind: ManagedClusterAddOn
  metadata: {name: of-another-team, namespace: cluster1, labels: {note: CANARY}}
addondeploymentconfigs:
- apiVersion: addon.open-cluster-management.io/v1beta1
  kind: AddOnDeploymentConfig
  metadata: {name: nodes, namespace: team}
  spec: {customizedVariables: [{name: tier, value: CANARY}], proxyConfig: {httpsProxy: "http://user:CANARY@proxy", caBundle: CANARY, noProxy: USEFUL-noproxy}}
managedclusters:
- apiVersion: cluster.open-cluster-management.io/v1
  kind: ManagedCluster
  metadata: {name: cluster1, labels: {region: USEFUL-region}}
  spec: {managedClusterClientConfigs: [{url: "https://CANARY", caBundle: CANARY}]}
  status: {clusterClaims: [{name: api-token, value: CANARY}, {name: platform, value: USEFUL-platform}]}
clusterprofiles:
- apiVersion: multicluster.x-k8s.io/v1alpha1
  kind: ClusterProfile
  metadata: {name: edge, namespace: team}
  status:
    accessProviders: [{name: USEFUL-provider, cluster: {server: "https://CANARY", certificate-authority-data: CANARY, extensions: [{extension: {token: CANARY}}]}}]
    properties: [{name: location, value: USEFUL-location}]
events:
- apiVersion: v1
  kind: Event
  metadata: {name: e1, namespace: team}
  involvedObject: {kind: KnativeServing, name: default}
  reason: USEFULEvent
  message: "cannot connect: password: CANARY"
- {apiVersion: v1, kind: Event, metadata: {name: e2, namespace: other}, involvedObject: {kind: Pod, name: web}, message: "CANARY"}
deployments:
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: knative-addon, namespace: knative-addon, labels: {app.kubernetes.io/name: knative-addon}}
  spec: {template: {spec: {containers: [{name: manager, image: "quay.io/USEFUL:0.1.0", args: ["--x=CANARY"], env: [{name: HTTPS_PROXY, value: CANARY}]}]}}}
cluster1/manifestworks:
- apiVersion: work.open-cluster-management.io/v1
  kind: ManifestWork
  metadata: {name: addon-knative-serving-deploy-0, namespace: cluster1, labels: {open-cluster-management.io/addon-name: knative-serving}}
  spec:
    workload:
      manifests:
      - {apiVersion: v1, kind: Secret, metadata: {name: USEFUL-secret, namespace: knative-serving}, data: {key: CANARY64}, stringData: {key: CANARY}}
      - {apiVersion: v1, kind: ConfigMap, metadata: {name: USEFUL-configmap, namespace: knative-serving}, data: {key: CANARY}}
  status:
    resourceStatus:
      manifests:
      - resourceMeta: {kind: ConfigMap, name: USEFUL-status}
        conditions: [{type: Applied, status: "False", reason: Denied, message: "denied: secret=CANARY"}]
- apiVersion: work.open-cluster-management.io/v1
  kind: ManifestWork
  metadata: {name: of-another-team, namespace: cluster1}
  spec: {workload: {manifests: [{apiVersion: v1, kind: ConfigMap, metadata: {name: CANARY}}]}}
`

// fakeHub plays the lists of a hub.
type fakeHub struct {
	items     map[string][]any
	forbidden string
	// unserved is a resource that the hub does not have.
	unserved string
	// silent is the last part of the path of requests without an answer.
	silent string

	mu       sync.Mutex
	requests []string
}

func newHub(t *testing.T) *fakeHub {
	t.Helper()
	text := strings.ReplaceAll(objectsYAML, "CANARY64", base64.StdEncoding.EncodeToString([]byte(canary)))
	out := &fakeHub{}
	if err := yaml.Unmarshal([]byte(strings.ReplaceAll(text, "CANARY", canary)), &out.items); err != nil {
		t.Fatal(err)
	}
	return out
}

func (h *fakeHub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	h.requests = append(h.requests, r.Method+" "+r.URL.Path)
	h.mu.Unlock()
	parts := strings.Split(r.URL.Path, "/")
	path := parts[len(parts)-1]
	if path == h.silent {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	if path == h.forbidden {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403, "message": "no"}`)
		return
	}
	if path == h.unserved {
		http.NotFound(w, r)
		return
	}
	if path == "manifestworks" && len(parts) > 2 {
		path = parts[len(parts)-2] + "/" + path
	}
	kind, version := "List", "v1"
	if strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadataList") {
		kind, version = "PartialObjectMetadataList", "meta.k8s.io/v1"
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"apiVersion": version, "kind": kind, "metadata": map[string]any{"resourceVersion": "1"}, "items": append([]any{}, h.items[path]...),
	})
}

// collect returns the files of the archive by name, and the failures.
func (h *fakeHub) collect(t *testing.T, o *Options) (files map[string]string, failures []string) {
	t.Helper()
	files, gaps := h.collectGaps(t, o)
	return files, gaps.Failures
}

// collectGaps returns the files of the archive by name, and the gaps.
func (h *fakeHub) collectGaps(t *testing.T, o *Options) (files map[string]string, gaps Gaps) {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	hub, err := installations.Connect(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	o.Version, o.AddOnNamespace, o.MaxClusters, o.Now = "v0.1.0", "knative-addon", 20, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var out bytes.Buffer
	if gaps, err = Collect(t.Context(), hub, o, &out); err != nil {
		t.Fatal(err)
	}
	return readArchive(t, &out), gaps
}

func readArchive(t *testing.T, in io.Reader) map[string]string {
	t.Helper()
	compressed, err := gzip.NewReader(in)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for archive := tar.NewReader(compressed); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		files[strings.TrimPrefix(header.Name, "knative-addon-bundle/")] = string(text)
	}
}

// TestNoCredentials holds that the archive has no credential of the hub, and that the archive has what a support case needs.
func TestNoCredentials(t *testing.T) {
	hub := newHub(t)
	files, failures := hub.collect(t, &Options{})
	if len(failures) > 0 {
		t.Errorf("failures are %q", failures)
	}
	var all strings.Builder
	for name, text := range files {
		all.WriteString(text)
		for _, form := range []string{canary, base64.StdEncoding.EncodeToString([]byte(canary))} {
			if strings.Contains(text, form) {
				t.Errorf("%s has a credential:\n%s", name, text)
			}
		}
	}
	for _, useful := range []string{
		"USEFUL-version", "USEFUL-class", "USEFUL-note", "USEFULReason", "USEFULApply", "USEFUL-noproxy", "USEFUL-region", "USEFUL-platform", "USEFUL-provider",
		"USEFUL-location", "USEFULEvent", "quay.io/USEFUL:0.1.0", "USEFUL-secret", "USEFUL-configmap", "USEFUL-status", "v0.1.0", "0 of 1 ready",
		"ManagedClusterAddOn cluster1/knative-serving",
	} {
		if !strings.Contains(all.String(), useful) {
			t.Errorf("the archive lacks %q", useful)
		}
	}
	for _, request := range hub.requests {
		if !strings.HasPrefix(request, "GET ") || strings.HasSuffix(request, "/secrets") || strings.HasSuffix(request, "/configmaps") {
			t.Errorf("the archive needed %s", request)
		}
	}
	if len(hub.requests) != 19 { // eight lists of the installations, ten of the archive, and the ManifestWorks of one cluster
		t.Errorf("the archive needed %d requests, want 19:\n%s", len(hub.requests), strings.Join(hub.requests, "\n"))
	}
}

// TestFailedList holds that a list that the hub refuses is named in the archive, and hides no other list.
func TestFailedList(t *testing.T) {
	hub := newHub(t)
	hub.forbidden = "events"
	files, failures := hub.collect(t, &Options{})
	if len(failures) != 1 || !strings.Contains(files["failures.txt"], "events") || !strings.Contains(files["managedclusters.yaml"], "USEFUL-region") {
		t.Errorf("failures are %q, file %q", failures, files["failures.txt"])
	}
}

// TestRequiredLists holds which lists an archive needs: a hub may lack the kinds of SIG Multicluster and KnativeFleets.
func TestRequiredLists(t *testing.T) {
	for name, tc := range map[string]struct {
		hub  *fakeHub
		want bool
	}{
		"an answer to every list":                    {&fakeHub{}, false},
		"forbidden Events":                           {&fakeHub{forbidden: "events"}, true},
		"forbidden resources":                        {&fakeHub{forbidden: "knativeservings"}, true},
		"forbidden ManifestWorks of one cluster":     {&fakeHub{forbidden: "manifestworks"}, true},
		"forbidden ClusterProfiles":                  {&fakeHub{forbidden: "clusterprofiles"}, true},
		"a hub without ClusterProfiles":              {&fakeHub{unserved: "clusterprofiles"}, false},
		"a hub without KnativeFleets":                {&fakeHub{unserved: "knativefleets"}, false},
		"a cluster without the kinds of this add-on": {&fakeHub{unserved: "knativeservings"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			tc.hub.items = newHub(t).items
			if _, gaps := tc.hub.collectGaps(t, &Options{}); gaps.IsIncomplete != tc.want {
				t.Errorf("the archive is incomplete: %t, want %t; failures are %q", gaps.IsIncomplete, tc.want, gaps.Failures)
			}
		})
	}
}

// TestUnansweredList holds that a failure names the list that the hub has not answered: the address of the request has a query.
func TestUnansweredList(t *testing.T) {
	hub := newHub(t)
	hub.silent = "events"
	_, failures := hub.collect(t, &Options{})
	if len(failures) != 1 || !strings.Contains(failures[0], "events") || strings.Contains(failures[0], withheld) {
		t.Errorf("failures are %q", failures)
	}
}

// TestOmittedClusters holds that a failure names a cluster that the hub does not have, and clusters beyond the limit.
func TestOmittedClusters(t *testing.T) {
	files, failures := newHub(t).collect(t, &Options{Clusters: []string{"cluster1", "clutser1"}})
	if len(failures) != 1 || !strings.Contains(failures[0], `"clutser1"`) || files["works/cluster1.yaml"] == "" {
		t.Errorf("failures are %q, and the archive has %d files", failures, len(files))
	}
	all := []installations.Installation{
		{Cluster: "cluster1", Mode: api.ModeManifestWork}, {Cluster: "cluster1", Mode: api.ModeManifestWork}, {Cluster: "cluster2", Mode: api.ModeManifestWork},
	}
	for limit, want := range map[int][]string{0: {`"cluster1", "cluster2"`}, 1: {`"cluster2"`}, 2: nil} {
		clusters, omissions := (&Options{MaxClusters: limit}).selectClusters(all)
		if len(clusters) != limit || len(omissions) != len(want) || len(want) > 0 && !strings.HasSuffix(omissions[0], ": "+want[0]) {
			t.Errorf("with at most %d clusters the archive has %q, and the omissions are %q", limit, clusters, omissions)
		}
	}
}

// TestTexts holds which texts of people stay in the archive.
func TestTexts(t *testing.T) {
	hash := strings.Repeat("5d41402a", 8)
	for _, text := range []string{
		"sha256:" + hash, hash, "gcr.io/knative-releases/knative.dev/serving/cmd/queue@sha256:" + hash, "Deployment knative-serving/controller: 0 of 1 available",
		"https://hub.example.com:6443/apis", "2026-01-02T03:04:05Z", "spec.config.network is no setting of Knative",
		"the service-account-token controller is absent", "--namespace secrets-of-team",
		"GET /api/v1/namespaces/team/knativeservings/default/status", "io/v1/ValidatingWebhookConfiguration/webhook/HTTPRoute/default",
		"registry/team/knative/serving/v1/" + hash, "path=/var/lib/knative/serving/releases/volume1/manifest",
	} {
		if got := scrubText(text); got != text {
			t.Errorf("%q is withheld", text)
		}
	}
	for _, text := range []string{
		"Bearer abc", "-----BEGIN CERTIFICATE-----", "eyJhbGciOiJSUzI1NiJ9.x", "AKIAIOSFODNN7EXAMPLE", "https://u:p@host", "https://host/x?sig=1",
		"wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEYabcd1", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "PASSWORD=x",
		"dGhpcy9pcz8/YS9zZWNyZXQ/d2l0aC9zbGFzaGVz+A==", "client-key-data: x",
		"login --password hunter2", "login -token hunter2 refused",
	} {
		if got := scrubText(text); got != withheld {
			t.Errorf("%q is in the archive as %q", text, got)
		}
	}
}

// TestValues holds which values of an object stay in the archive.
func TestValues(t *testing.T) {
	got := scrubValue(map[string]any{
		"password": int64(1234), "passwords": []any{"hunter2"}, "automountServiceAccountToken": false, "token": nil, "secret": "", "replicas": int64(2),
		"pass": "hunter2", "auth": "hunter2", "author": "hunter", "db.pwd": "hunter2",
		"args": []any{"--password", "hunter2", "--verbose", "-token=hunter2", "--passphrase", int64(1234), "--name", "web"},
	})
	want := map[string]any{
		"password": withheld, "passwords": withheld, "automountServiceAccountToken": false, "token": nil, "secret": "", "replicas": int64(2),
		"pass": withheld, "auth": withheld, "author": "hunter", "db.pwd": withheld,
		"args": []any{"--password", withheld, "--verbose", withheld, "--passphrase", withheld, "--name", "web"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("values in the archive (-want +got):\n%s", diff)
	}
}

// TestPatches holds that the archive has the content of patches without the values of environment variables.
func TestPatches(t *testing.T) {
	for content, want := range map[string]string{
		`{"spec":{"containers":[{"name":"c","env":[{"name":"DB","value":"hunter2"}]}]}}`:                         `{"spec":{"containers":[{"env":[{"name":"DB","value":"[withheld]"}],"name":"c"}]}}`,
		"env:\n- name: DB\n  value: hunter2\n":                                                                   `{"env":[{"name":"DB","value":"[withheld]"}]}`,
		`[{"op":"add","path":"/data/password","value":"hunter2"},{"op":"add","path":"/data","value":{"a":"b"}}]`: `[{"op":"add","path":"/data/password","value":"[withheld]"},{"op":"add","path":"/data","value":{"a":"b"}}]`,
		"a: b: hunter2": withheld,
	} {
		got := scrubValue(map[string]any{"patches": []any{map[string]any{"patch": map[string]any{"content": content}}}})
		if diff := cmp.Diff(map[string]any{"patches": []any{map[string]any{"patch": map[string]any{"content": want}}}}, got); diff != "" {
			t.Errorf("content %q in the archive (-want +got):\n%s", content, diff)
		}
	}
}

// TestForeignAnnotations holds that the archive has no copies of objects that other programs keep in annotations.
func TestForeignAnnotations(t *testing.T) {
	long := strings.Repeat("H4sI/", 100)
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetAnnotations(map[string]string{"objectset.rio.cattle.io/applied": long, "example.com/owner": "team", api.GrantedConfigsAnnotation: strings.Repeat("a ", 300)})
	metadata, _ := redactMetadata(u)["metadata"].(map[string]any)
	want := map[string]any{"objectset.rio.cattle.io/applied": withheld, "example.com/owner": "team", api.GrantedConfigsAnnotation: strings.Repeat("a ", 300)}
	if diff := cmp.Diff(want, metadata["annotations"]); diff != "" {
		t.Errorf("annotations in the archive (-want +got):\n%s", diff)
	}
}
