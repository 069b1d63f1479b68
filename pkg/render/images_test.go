// Copyright Contributors to the Open Cluster Management project

package render

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// Every image that a release file names is in the list, and nothing else.
func TestImagesAreThoseOfTheReleaseFiles(t *testing.T) {
	skipLongTest(t)
	cases := map[string]struct {
		component api.Component
		spec      string
		files     []string
	}{
		"Serving with Kourier": {api.Serving, kourier, []string{"knative-serving/1.23.0", "ingress/1.23/kourier"}},
		"Serving with Istio":   {api.Serving, "ingress: {istio: {enabled: true}}", []string{"knative-serving/1.23.0", "ingress/1.23/istio"}},
		"an older Serving":     {api.Serving, "version: 1.20.1\ningress: {contour: {enabled: true}}", []string{"knative-serving/1.20.1", "ingress/1.20/contour"}},
		"Eventing":             {api.Eventing, "{}", []string{"knative-eventing/1.23.0"}},
		"Eventing with Kafka":  {api.Eventing, "source: {kafka: {enabled: true}}", []string{"knative-eventing/1.23.0", "eventing-source/1.23/kafka"}},
		"Eventing with others": {
			api.Eventing, "version: '1.22'\nsource: {ceph: {enabled: true}, github: {enabled: true}, redis: {enabled: true}}",
			[]string{"knative-eventing/1.22.2", "eventing-source/1.22/ceph", "eventing-source/1.22/github", "eventing-source/1.22/redis"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(imagesInFiles(t, tc.files), references(Images(bundle(t, tc.component, tc.spec)))); diff != "" {
				t.Errorf("images (-in the files +listed):\n%s", diff)
			}
		})
	}
}

// imagesInFiles reads the release files as text.
func imagesInFiles(t *testing.T, directories []string) []string {
	t.Helper()
	digest := regexp.MustCompile(`[a-z0-9./_-]+@sha256:[0-9a-f]{64}`)
	tagged := regexp.MustCompile(`(?m)^\s*(?:- )?image: "?([a-z0-9./_-]+:[a-zA-Z0-9._-]+)"?\s*$`)
	var out []string
	for _, dir := range directories {
		files, err := filepath.Glob(filepath.Join(shared.catalog.dir, filepath.FromSlash(dir), "*.yaml"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no files in %q: %v", dir, err)
		}
		for _, f := range files {
			data, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, digest.FindAllString(string(data), -1)...)
			for _, m := range tagged.FindAllStringSubmatch(string(data), -1) {
				out = append(out, m[1])
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func references(images []Image) []string {
	var out []string
	for _, i := range images {
		out = append(out, i.Reference)
	}
	return out
}

func TestImages(t *testing.T) {
	byReference := map[string][]string{}
	for _, i := range Images(bundle(t, api.Serving, kourier+`
config: {features: {kubernetes.podspec-volumes-image: enabled}}
registry: {override: {queue-proxy: "mirror.example.com/queue:v1", activator: "mirror.example.com/activator"}}`)) {
		byReference[i.Reference] = i.UsedBy
	}
	want := map[string][]string{
		"mirror.example.com/queue:v1":  {`ConfigMap "knative-serving/config-deployment"`, `Image "knative-serving/queue-proxy"`},
		"mirror.example.com/activator": {`Deployment "knative-serving/activator"`},
	}
	for reference, users := range want {
		if diff := cmp.Diff(users, byReference[reference]); diff != "" {
			t.Errorf("users of %s (-want +got):\n%s", reference, diff)
		}
	}
	if users := byReference["enabled"]; users != nil {
		t.Errorf("a feature flag counts as an image of %q", users)
	}
	eventing := Images(bundle(t, api.Eventing, "{}"))
	names := strings.Join(references(eventing), "\n")
	for _, part := range []string{"apiserver_receive_adapter@", "transform-jsonata@", "timer-source@", "cmd/mtping@"} {
		if !strings.Contains(names, part) {
			t.Errorf("no image has %q in its name:\n%s", part, names)
		}
	}
}

// With a mirror for everything that the operator can redirect, these images still come from elsewhere: a list that is
// complete says so.
func TestImagesOutsideOfTheRegistry(t *testing.T) {
	var left []string
	for _, i := range Images(bundle(t, api.Serving, kourier+`registry: {default: "mirror.example.com/${NAME}:v1"}`)) {
		if !strings.HasPrefix(i.Reference, "mirror.example.com/") {
			left = append(left, i.Reference)
		}
	}
	if len(left) != 0 {
		t.Errorf("images of Serving that spec.registry.default does not reach: %v", left)
	}
}
