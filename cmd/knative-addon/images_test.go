// Copyright Contributors to the Open Cluster Management project

package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// imageRegistry is a registry on this machine that wants the credentials of the user's Docker configuration.
type imageRegistry struct {
	*httptest.Server
	// resource is a KnativeServing with all images in the registry.
	resource string
	options  []remote.Option
}

func newImageRegistry(t *testing.T) *imageRegistry {
	t.Helper()
	images := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "robot" || password != "secret" {
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		images.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	config := t.TempDir()
	t.Setenv("DOCKER_CONFIG", config)
	login := fmt.Sprintf(`{"auths": {%q: {"auth": %q}}}`, host, base64.StdEncoding.EncodeToString([]byte("robot:secret")))
	if err := os.WriteFile(filepath.Join(config, "config.json"), []byte(login), 0o600); err != nil {
		t.Fatal(err)
	}
	return &imageRegistry{
		Server:   server,
		resource: strings.Replace(servingYAML, "spec: {", `spec: {registry: {default: "`+host+`/mirror/${NAME}:v1"}, `, 1),
		options:  []remote.Option{remote.WithAuth(authn.FromConfig(authn.AuthConfig{Username: "robot", Password: "secret"}))},
	}
}

// mirror writes an image for each reference.
func (r *imageRegistry) mirror(t *testing.T, references []string) {
	t.Helper()
	image, err := random.Image(10, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, reference := range references {
		ref, err := name.ParseReference(reference)
		if err == nil {
			err = remote.Write(ref, image, r.options...)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestImagesCheck holds the output and the exit codes of the check of a complete mirror, of one without an image, and of one that is down.
func TestImagesCheck(t *testing.T) { //nolint:gocognit // the steps and their checks belong together
	mirror := newImageRegistry(t)
	listed, err := execute(t, newImagesCommand(), mirror.resource, "-f", "-", "--trusted-namespaces", "fleet")
	if err != nil {
		t.Fatal(err)
	}
	references := strings.Fields(listed)
	mirror.mirror(t, references)

	out, err := execute(t, newImagesCommand(), mirror.resource, "-f", "-", "--trusted-namespaces", "fleet", "--check")
	if want := fmt.Sprintf("%d images: %[1]d exist, 0 missing, 0 not checked\n", len(references)); err != nil || out != want {
		t.Fatalf("the output is %q, error %v; want %q", out, err, want)
	}

	gone, err := name.ParseReference(references[0])
	if err == nil {
		err = remote.Delete(gone, mirror.options...)
	}
	if err != nil {
		t.Fatal(err)
	}
	out, err = execute(t, newImagesCommand(), mirror.resource, "-f", "-", "--trusted-namespaces", "fleet", "--check")
	if strings.Count(out, "\n") != 1 || !strings.HasPrefix(out, "missing: "+references[0]+": ") || !strings.Contains(out, "_UNKNOWN") || !strings.Contains(out, "; used by ") {
		t.Errorf("the output is %q, want one line about %s", out, references[0])
	}
	if err == nil || exitCodeOf(newImagesCommand(), err) != exitImageMissing || !strings.Contains(err.Error(), "1 missing, 0 not checked") {
		t.Errorf("error is %v, exit code %d", err, exitCodeOf(newImagesCommand(), err))
	}

	out, err = execute(t, newImagesCommand(), mirror.resource, "-f", "-", "--trusted-namespaces", "fleet", "--check", "--output", "json")
	if err == nil || exitCodeOf(newImagesCommand(), err) != exitImageMissing {
		t.Errorf("error is %v, exit code %d", err, exitCodeOf(newImagesCommand(), err))
	}
	states := map[string]int{}
	for line := range strings.Lines(out) {
		var image struct{ Reference, State, Error string }
		if err := json.Unmarshal([]byte(line), &image); err != nil {
			t.Fatal(err)
		}
		states[image.State]++
		if (image.Error == "") != (image.State == "Exists") || image.State == "Missing" && image.Reference != references[0] {
			t.Errorf("the image is %+v", image)
		}
	}
	if diff := cmp.Diff(map[string]int{"Exists": len(references) - 1, "Missing": 1}, states); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}

	mirror.Close()
	out, err = execute(t, newImagesCommand(), mirror.resource, "-f", "-", "--trusted-namespaces", "fleet", "--check")
	if strings.Count(out, "not checked: ") != len(references) || strings.Contains(out, "missing: ") || exitCodeOf(newImagesCommand(), err) != exitImagesNotChecked {
		t.Errorf("the output is %q, error %v, exit code %d", out, err, exitCodeOf(newImagesCommand(), err))
	}
}

// TestImagesVersion holds that a version takes the place of the version of the file.
func TestImagesVersion(t *testing.T) {
	list := func(file string, args ...string) string {
		t.Helper()
		out, err := execute(t, newImagesCommand(), file, append(args, "-f", "-")...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	older := strings.ReplaceAll(servingYAML, "1.23", "1.22")
	if got, want := list(older, "--version", "1.23"), list(servingYAML); got != want || got == list(older) {
		t.Errorf("the images are\n%s, want\n%s", got, want)
	}
}

// TestImagesInput holds that a check that cannot begin does not end like a missing image.
func TestImagesInput(t *testing.T) {
	for wrong, args := range map[string][]string{
		`version "9.9" of knative`:     {"--check", "--version", "9.9"},
		"cannot use --timeout=0s":      {"--check", "--timeout", "0s"},
		`cannot use platform "arm64"`:  {"--check", "--platform", "arm64"},
		`cannot use --output="yaml"`:   {"--check", "--output", "yaml"},
		"cannot read --filename: open": {"--check", "-f", "/nowhere.yaml"},
	} {
		t.Run(wrong, func(t *testing.T) {
			_, err := execute(t, newImagesCommand(), servingYAML, append([]string{"-f", "-"}, args...)...)
			if err == nil || exitCodeOf(newImagesCommand(), err) != exitImagesNotChecked || !strings.Contains(err.Error(), wrong) {
				t.Errorf("error is %v, exit code %d, want %q", err, exitCodeOf(newImagesCommand(), err), wrong)
			}
		})
	}
	if _, err := execute(t, newImagesCommand(), servingYAML, "-f", "-", "--version", "9.9"); render.ReasonOf(err) != api.ReasonUnknownVersion || exitCodeOf(newImagesCommand(), err) != exitImagesNotChecked {
		t.Errorf("without a check, error is %v", err)
	}
}

func TestMergeImages(t *testing.T) {
	a := []render.Image{{Reference: "b", UsedBy: []string{"y"}}}
	b := []render.Image{{Reference: "a", UsedBy: []string{"z"}}, {Reference: "b", UsedBy: []string{"x", "y"}}}
	want := []render.Image{{Reference: "a", UsedBy: []string{"z"}}, {Reference: "b", UsedBy: []string{"x", "y"}}}
	if diff := cmp.Diff(want, mergeImages(a, b)); diff != "" {
		t.Errorf("images (-want +got):\n%s", diff)
	}
}
