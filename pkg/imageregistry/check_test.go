// Copyright Contributors to the Open Cluster Management project

package imageregistry

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// newRegistry starts a registry on this machine, and returns its address. serve may answer a request instead of the registry, and then
// returns true.
func newRegistry(t *testing.T, serve func(http.ResponseWriter, *http.Request) bool) string {
	t.Helper()
	images := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if serve == nil || !serve(w, r) {
			images.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// push writes an index with an image for each platform, or one image without a platform.
func push(t *testing.T, reference string, platforms ...string) string {
	t.Helper()
	ref, err := name.ParseReference(reference)
	if err != nil {
		t.Fatal(err)
	}
	image, err := random.Image(10, 1)
	if err != nil {
		t.Fatal(err)
	}
	if len(platforms) == 0 {
		if err := remote.Write(ref, image); err != nil {
			t.Fatal(err)
		}
		hash, err := image.Digest()
		if err != nil {
			t.Fatal(err)
		}
		return ref.Context().Digest(hash.String()).String()
	}
	index := v1.ImageIndex(empty.Index)
	for _, p := range platforms {
		platform, err := v1.ParsePlatform(p)
		if err != nil {
			t.Fatal(err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: platform}})
	}
	if err := remote.WriteIndex(ref, index); err != nil {
		t.Fatal(err)
	}
	return reference
}

func check(t *testing.T, o Options, references ...string) []Result {
	t.Helper()
	if o.Timeout == 0 {
		o.Timeout = time.Minute
	}
	if o.Keychain == nil {
		o.Keychain = authn.NewMultiKeychain()
	}
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c.Check(t.Context(), references)
}

// expectState checks the state of an image, and that the reason has a text.
func expectState(t *testing.T, got Result, want State, reason string) {
	t.Helper()
	text := ""
	if got.Err != nil {
		text = got.Err.Error()
	}
	if got.State != want || (got.Err == nil) != (reason == "") || !strings.Contains(text, reason) {
		t.Errorf("the image is %s: %s; want %s: %s", got.State, text, want, reason)
	}
}

// answer returns a handler that answers requests for manifests with a status and a body.
func answer(status int, body string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/manifests/") {
			return false
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
		return true
	}
}

// TestCheck holds which answers of a registry mean that an image exists, that it does not exist, and that the question has no answer.
func TestCheck(t *testing.T) {
	host := newRegistry(t, nil)
	byDigest := push(t, host+"/team/app:v1")
	denied := newRegistry(t, answer(http.StatusUnauthorized, `{"errors": [{"code": "UNAUTHORIZED", "message": "authentication required"}]}`))
	forbidden := newRegistry(t, answer(http.StatusForbidden, `{"errors": [{"code": "DENIED", "message": "no pull access"}]}`))
	bare := newRegistry(t, answer(http.StatusNotFound, "<html>no such page</html>"))
	limited := newRegistry(t, answer(http.StatusTooManyRequests, `{"errors": [{"code": "TOOMANYREQUESTS", "message": "slow down"}]}`))
	noRegistry := newRegistry(t, func(w http.ResponseWriter, r *http.Request) bool {
		http.NotFound(w, r)
		return true
	})
	var refusesHead atomic.Bool
	withoutHead := newRegistry(t, func(w http.ResponseWriter, r *http.Request) bool {
		if refusesHead.Load() && r.Method == http.MethodHead && strings.Contains(r.URL.Path, "/manifests/") {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return true
		}
		return false
	})
	push(t, withoutHead+"/team/app:v1")
	refusesHead.Store(true)
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	for name, tc := range map[string]struct {
		reference string
		want      State
		reason    string
	}{
		"a tag":                            {host + "/team/app:v1", Exists, ""},
		"a digest":                         {byDigest, Exists, ""},
		"a registry that refuses HEAD":     {withoutHead + "/team/app:v1", Exists, ""},
		"a tag that does not exist":        {host + "/team/app:v2", Missing, "MANIFEST_UNKNOWN"},
		"a digest that does not exist":     {host + "/team/app@" + digest, Missing, "MANIFEST_UNKNOWN"},
		"a repository that does not exist": {host + "/team/other:v1", Missing, "NAME_UNKNOWN"},
		"an answer without a code":         {bare + "/team/app:v1", Missing, "404"},
		"a registry that wants a login":    {denied + "/team/app:v1", NotChecked, "refuses access"},
		"a registry that forbids":          {forbidden + "/team/app:v1", NotChecked, "DENIED"},
		"a registry that limits":           {limited + "/team/app:v1", NotChecked, "slow down"},
		"a server that is no registry":     {noRegistry + "/team/app:v1", NotChecked, "404"},
		"a server that is down":            {strings.TrimPrefix(closed.URL, "http://") + "/team/app:v1", NotChecked, "refused"},
		"a reference that is none":         {"Not An Image", NotChecked, "could not parse reference"},
	} {
		t.Run(name, func(t *testing.T) {
			expectState(t, check(t, Options{}, tc.reference)[0], tc.want, tc.reason)
		})
	}
}

// TestCheckMany holds that results have the order of the references, that the number of requests at a time is limited, and that one
// registry without an answer neither delays nor changes the results of the others.
func TestCheckMany(t *testing.T) {
	var running, most atomic.Int32
	done := make(chan struct{})
	silent := newRegistry(t, func(_ http.ResponseWriter, r *http.Request) bool {
		select {
		case <-done:
		case <-r.Context().Done():
		}
		return true
	})
	t.Cleanup(func() { close(done) })
	host := newRegistry(t, func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodHead {
			return false
		}
		now := running.Add(1)
		defer running.Add(-1)
		for {
			before := most.Load()
			if now <= before || most.CompareAndSwap(before, now) {
				break
			}
		}
		time.Sleep(20 * time.Millisecond)
		return false
	})
	push(t, host+"/team/app:v1")
	most.Store(0)
	references := []string{silent + "/team/app:v1"}
	for range 40 {
		references = append(references, host+"/team/app:v1", host+"/team/app:v2")
	}
	results := check(t, Options{Timeout: 15 * time.Second}, references...)
	expectState(t, results[0], NotChecked, "has not answered in time")
	for n, r := range results[1:] {
		if n%2 == 0 {
			expectState(t, r, Exists, "")
		} else {
			expectState(t, r, Missing, "MANIFEST_UNKNOWN")
		}
	}
	if got := most.Load(); got < 2 || got > maxParallel {
		t.Errorf("%d requests at a time, want 2 to %d", got, maxParallel)
	}
}

// TestCredentials holds that a registry gets the credentials that the keychain has for it, and no other registry does.
func TestCredentials(t *testing.T) {
	withLogin := func(w http.ResponseWriter, r *http.Request) bool {
		if user, password, _ := r.BasicAuth(); user == "robot" && password == "secret" {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
	known, other := newRegistry(t, withLogin), newRegistry(t, withLogin)
	keychain := keychainOf{known: authn.FromConfig(authn.AuthConfig{Username: "robot", Password: "secret"})}
	results := check(t, Options{Keychain: keychain}, known+"/team/app:v1", other+"/team/app:v1")
	expectState(t, results[0], Missing, "NAME_UNKNOWN")
	expectState(t, results[1], NotChecked, "401")
}

// keychainOf has credentials by the address of a registry.
type keychainOf map[string]authn.Authenticator

func (k keychainOf) Resolve(of authn.Resource) (authn.Authenticator, error) {
	if found := k[of.RegistryStr()]; found != nil {
		return found, nil
	}
	return authn.Anonymous, nil
}

func TestPlatforms(t *testing.T) {
	host := newRegistry(t, nil)
	both := push(t, host+"/team/both:v1", "linux/amd64", "linux/arm64/v8", "unknown/unknown")
	one := push(t, host+"/team/one:v1", "linux/amd64")
	unnamed := push(t, host+"/team/unnamed:v1")
	for name, tc := range map[string]struct {
		platforms []string
		reference string
		want      State
		reason    string
	}{
		"every platform":              {[]string{"linux/amd64", "linux/arm64"}, both, Exists, ""},
		"a platform too many":         {[]string{"linux/amd64", "linux/s390x"}, both, Missing, "no platform linux/s390x; the platforms are linux/amd64, linux/arm64/v8"},
		"one platform of two":         {[]string{"linux/amd64", "linux/arm64"}, one, Missing, "no platform linux/arm64; the platforms are linux/amd64"},
		"an image without a platform": {[]string{"linux/amd64"}, unnamed, Missing, "the platforms are not recorded"},
		"an image that is missing":    {[]string{"linux/amd64"}, host + "/team/none:v1", Missing, "NAME_UNKNOWN"},
	} {
		t.Run(name, func(t *testing.T) {
			expectState(t, check(t, Options{Platforms: tc.platforms}, tc.reference)[0], tc.want, tc.reason)
		})
	}
	for _, text := range []string{"arm64", "", "linux/", "a/b/c/d"} {
		if _, err := New(Options{Keychain: authn.NewMultiKeychain(), Platforms: []string{text}}); err == nil || !strings.Contains(err.Error(), "OS/ARCHITECTURE") {
			t.Errorf("platform %q: error is %v", text, err)
		}
	}
}
