// Copyright Contributors to the Open Cluster Management project

package access

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/boundedhttp"
)

var configMapResource = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// clientsOf are the clients through which answers are decoded, each with a list and a get.
func clientsOf(t *testing.T, s *Session) map[string]func() error {
	t.Helper()
	kube, err := kubernetes.NewForConfigAndClient(s.RESTConfig(), s.HTTPClient())
	if err != nil {
		t.Fatal(err)
	}
	meta, err := metadata.NewForConfigAndClient(s.RESTConfig(), s.HTTPClient())
	if err != nil {
		t.Fatal(err)
	}
	return map[string]func() error{
		"typed": func() error {
			_, err := kube.CoreV1().ConfigMaps("a").List(t.Context(), metav1.ListOptions{})
			return err
		},
		"dynamic": func() error {
			_, err := s.Dynamic().Resource(configMapResource).Namespace("a").List(t.Context(), metav1.ListOptions{})
			return err
		},
		"metadata": func() error {
			_, err := meta.Resource(configMapResource).Namespace("a").List(t.Context(), metav1.ListOptions{})
			return err
		},
		"metadata of one object": func() error {
			_, err := meta.Resource(configMapResource).Namespace("a").Get(t.Context(), "b", metav1.GetOptions{})
			return err
		},
		"discovery of groups": func() error {
			_, err := kube.Discovery().ServerGroups()
			return err
		},
		"discovery of a group": func() error {
			_, err := kube.Discovery().ServerResourcesForGroupVersion("apps/v1")
			return err
		},
		"OpenAPI": func() error {
			_, err := kube.Discovery().OpenAPIV3().Paths()
			return err
		},
	}
}

// writeRepeated writes a text that often, or until the client is gone.
func writeRepeated(w io.Writer, begin, text string, times int, end string) (complete bool) {
	_, _ = io.WriteString(w, begin)
	chunk := strings.Repeat(text, max(1, 32<<10/len(text)))
	for range times * len(text) / len(chunk) {
		if _, err := io.WriteString(w, chunk); err != nil {
			return false
		}
	}
	_, err := io.WriteString(w, end)
	return err == nil
}

const mebibyte = 1 << 20

// answerAttacks are bodies with which a cluster would take the memory of the manager, and what is said about each.
func answerAttacks() map[string]struct {
	media string
	write func(io.Writer) bool
	want  string
} {
	list := `{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[`
	return map[string]struct {
		media string
		write func(io.Writer) bool
		want  string
	}{
		"a list of 60 MiB of empty items": {mediaJSON, func(w io.Writer) bool { return writeRepeated(w, list, "{},", 20*mebibyte, "{}]}") }, "lists more than 2000 items"},
		"one item of 60 MiB of empty entries": {mediaJSON, func(w io.Writer) bool {
			return writeRepeated(w, list+`{"metadata":{"managedFields":[`, "{},", 20*mebibyte, "{}]}}]}")
		}, "has more than 100000 values"},
		"a string of 60 MiB": {mediaJSON, func(w io.Writer) bool {
			return writeRepeated(w, `{"major":"`, "zzzzzzzz", 60*mebibyte/8, `"}`)
		}, "is longer than 8 MiB"},
		"huge numbers of groups": {mediaJSON, func(w io.Writer) bool {
			return writeRepeated(w, `{"kind":"APIGroupList","groups":[`, `{"name":"a"},`, mebibyte, "{}]}")
		}, "lists more than 2000 items"},
		"huge numbers of paths": {mediaJSON, func(w io.Writer) bool {
			return writeRepeated(w, `{"paths":{`, `"a":{},`, mebibyte, `"b":{}}}`)
		}, "has more than 100000 values"},
		"nesting": {mediaJSON, func(w io.Writer) bool { return writeRepeated(w, "", `{"a":`, mebibyte, "1") }, "is nested deeper than 128 levels"},
		"braces that close nothing": {mediaJSON, func(w io.Writer) bool {
			return writeRepeated(w, "", "}", mebibyte, "")
		}, "is no JSON"},
		"YAML":     {"application/yaml", func(w io.Writer) bool { return writeRepeated(w, "a: &a [b]\n", "c: *a\n", 10, "") }, "is of another media type"},
		"protobuf": {"application/vnd.kubernetes.protobuf", func(w io.Writer) bool { return writeRepeated(w, "k8s\x00", "\x12\x00", mebibyte, "") }, "is of another media type"},
		"CBOR":     {"application/cbor", func(w io.Writer) bool { return writeRepeated(w, "\xd9\xd9\xf7", "\x80", mebibyte, "") }, "is of another media type"},
	}
}

// withLongTimes gives an answer of any size the time of a machine that does much else.
func withLongTimes(o *Options) { o.Cluster.BodyTimeout, o.Cluster.AnswerTimeout = time.Hour, time.Hour }

// TestHostileAnswersAreRefusedBeforeTheyAreDecoded holds that no client gets an answer that would take the memory of the
// manager, that the error names the request and the limit, and that the cluster is left alone for a while.
func TestHostileAnswersAreRefusedBeforeTheyAreDecoded(t *testing.T) {
	for name, attack := range answerAttacks() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSpoke(t, func(s *spoke) {
				s.answer = func(w http.ResponseWriter, _ *http.Request) bool {
					w.Header().Set("Content-Type", attack.media)
					attack.write(w)
					return true
				}
			})
			for _, through := range []string{"typed", "dynamic", "metadata", "metadata of one object", "discovery of groups", "discovery of a group", "OpenAPI"} {
				session := sessionFor(t, providers(plugin(t, tokenScript(goodToken))), profile("p", s.cluster()), options(withLongTimes))
				err := clientsOf(t, session)[through]()
				told, ok := errors.AsType[*Error](err)
				if !ok || told.Reason != api.ReasonRemoteAnswerRefused || !strings.Contains(told.Message, attack.want) ||
					!strings.Contains(told.Message, `ClusterProfile fleet/p: the answer of server "127.0.0.1`) {
					t.Errorf("%s: got %v, want %q", through, err, attack.want)
				}
				if session.RetryAt().IsZero() {
					t.Errorf("%s: the cluster is asked again at once", through)
				}
			}
		})
	}
}

// TestAnswersAreLimitedAfterDecompression is about answers of a few kilobytes that become gigabytes.
func TestAnswersAreLimitedAfterDecompression(t *testing.T) {
	s := newSpoke(t, func(s *spoke) {
		s.answer = func(w http.ResponseWriter, r *http.Request) bool {
			if r.Header.Get("Accept-Encoding") != "gzip" {
				t.Errorf("Accept-Encoding is %q: the test shows nothing", r.Header.Get("Accept-Encoding"))
			}
			w.Header().Set("Content-Type", mediaJSON)
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			writeRepeated(z, `{"a":"`, "zzzzzzzz", 60*mebibyte/8, `"}`)
			_ = z.Close()
			return true
		}
	})
	session := sessionFor(t, providers(plugin(t, tokenScript(goodToken))), profile("p", s.cluster()), options(withLongTimes))
	_, got, err := ask(t.Context(), session, http.MethodGet, "/api/v1/configmaps", "")
	if told, ok := errors.AsType[*Error](err); !ok || !strings.Contains(told.Message, "is longer than 8 MiB") || len(got) > 8*mebibyte {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
}

// TestProbeIsLimited is about /version of 60 MiB.
func TestProbeIsLimited(t *testing.T) {
	var sent atomic.Int64
	s := newSpoke(t, func(s *spoke) {
		s.answer = func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", mediaJSON)
			for range 60 {
				if !writeRepeated(w, "", "zzzzzzzz", mebibyte/8, "") {
					break
				}
				sent.Add(1)
			}
			return true
		}
	})
	session := sessionFor(t, providers(plugin(t, tokenScript(goodToken))), profile("p", s.cluster()), options())
	_, err := session.Probe(t.Context())
	if told, ok := errors.AsType[*Error](err); !ok || told.Reason != api.ReasonRemoteClientCreationFailed || sent.Load() > 12 {
		t.Errorf("got %v after %d MiB", err, sent.Load())
	}
}

// TestDribbledAnswersEnd holds that an answer which has begun has to end, and that a cluster which answers heartbeats well is
// left alone for ever longer all the same.
func TestDribbledAnswersEnd(t *testing.T) {
	s := newSpoke(t, func(s *spoke) {
		s.answer = func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/dribble" {
				return false
			}
			w.Header().Set("Content-Type", mediaJSON)
			for r.Context().Err() == nil {
				_, _ = io.WriteString(w, " ")
				_ = http.NewResponseController(w).Flush()
				select {
				case <-time.After(20 * time.Millisecond):
				case <-r.Context().Done():
				}
			}
			return true
		}
	})
	session := sessionFor(t, providers(plugin(t, tokenScript(goodToken))), profile("p", s.cluster()), options(func(o *Options) {
		o.Cluster.BodyTimeout, o.Breaker.Base, o.Breaker.MaxOffence = 3*time.Second, 50*time.Millisecond, time.Minute
	}))
	var last time.Duration
	for range 3 {
		waitUntil(t, func() bool { return !session.RetryAt().After(time.Now()) })
		if _, err := session.Probe(t.Context()); err != nil { // a heartbeat, which the cluster answers well
			t.Fatal(err)
		}
		_, _, err := ask(t.Context(), session, http.MethodGet, "/dribble", "")
		if told, ok := errors.AsType[*Error](err); !ok || !strings.Contains(told.Message, "GET /dribble is not complete after 3s") {
			t.Fatalf("got %v", err)
		}
		c := session.conn.breaker
		if pause := c.nextPause(c.offences-1, c.opts.MaxOffence); pause <= last {
			t.Errorf("a pause of %s after one of %s", pause, last)
		} else {
			last = pause
		}
	}
}

// TestFailuresAreLimited is about Status objects, whose messages go into conditions.
func TestFailuresAreLimited(t *testing.T) {
	s := newSpoke(t, func(s *spoke) {
		s.answer = func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", mediaJSON)
			w.WriteHeader(http.StatusForbidden)
			writeRepeated(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":403,"reason":"Forbidden","message":"`, "zzzzzzzz", mebibyte, `"}`)
			return true
		}
	})
	session := sessionFor(t, providers(plugin(t, tokenScript(goodToken))), profile("p", s.cluster()), options())
	_, err := session.Dynamic().Resource(configMapResource).Get(t.Context(), "x", metav1.GetOptions{})
	if told, ok := errors.AsType[*Error](err); !ok || !strings.Contains(told.Message, "is longer than 256 KiB") {
		t.Errorf("got %.300v", err)
	}
}

// TestHeadersAreLimited holds that neither the size nor the content of a header costs the manager memory, time or log lines.
func TestHeadersAreLimited(t *testing.T) {
	s := newSpoke(t, func(s *spoke) {
		s.answer = func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/large" {
				for i := range 200 {
					w.Header().Set(fmt.Sprintf("X-%d", i), strings.Repeat("z", 1024))
				}
				return true
			}
			w.Header().Set("Warning", `299 - "written to the log"`)
			w.Header().Set("Retry-After", "86400")
			w.WriteHeader(http.StatusTooManyRequests)
			return true
		}
	})
	session := sessionFor(t, providers(plugin(t, tokenScript(goodToken))), profile("p", s.cluster()), options())
	if _, _, err := ask(t.Context(), session, http.MethodGet, "/large", ""); err == nil {
		t.Error("a header of 200 KiB was taken")
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := session.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.Header.Get("Retry-After") != "1" || resp.Header.Get("Warning") != "" {
		t.Errorf("got %v", resp.Header)
	}
}

// TestOnlyJSONIsAskedFor holds that all clients ask for JSON, including clients that prefer protobuf.
func TestOnlyJSONIsAskedFor(t *testing.T) {
	for in, want := range map[string]string{
		"":                 mediaJSON,
		"*/*":              mediaJSON,
		"application/json": mediaJSON,
		"application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1, application/json": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
	} {
		if got := keepJSONMediaTypes(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

// TestClustersShareTheMemoryOfAnswers holds that many large answers at once are not all kept: the largest are given up.
func TestClustersShareTheMemoryOfAnswers(t *testing.T) {
	const clusters, each = 10, 6
	started, leave := make(chan struct{}, clusters*each), make(chan struct{})
	source := providers(plugin(t, tokenScript(goodToken)))
	sessions := NewSessions(source, options(withLongTimes))
	t.Cleanup(sessions.Close)
	results := make(chan error, clusters*each)
	for i := range clusters {
		s := newSpoke(t, func(s *spoke) {
			s.answer = func(w http.ResponseWriter, r *http.Request) bool {
				w.Header().Set("Content-Type", mediaJSON)
				writeRepeated(w, `{"a":"`, "zzzzzzzz", 7*mebibyte/8, "")
				_ = http.NewResponseController(w).Flush()
				started <- struct{}{}
				select {
				case <-leave:
				case <-r.Context().Done():
				}
				_, _ = io.WriteString(w, `"}`)
				return true
			}
		})
		session := must(t, sessions, profile(fmt.Sprintf("p%d", i), s.cluster()))
		for range each {
			go func() {
				_, _, err := ask(t.Context(), session, http.MethodGet, "/x", "")
				results <- err
			}()
		}
	}
	var refused int
	for range clusters*each - boundedhttp.DefaultMemory/(14*mebibyte) {
		if err := <-results; err == nil {
			t.Fatal("an answer came before its end")
		}
		refused++
	}
	close(leave)
	for range clusters*each - refused {
		if err := <-results; err != nil {
			refused++
		}
	}
	if refused == clusters*each {
		t.Error("all were refused: nobody is served")
	}
	t.Logf("%d of %d were refused", refused, clusters*each)
}

// takeMemory takes the memory of other clusters until the end of the test.
func takeMemory(t *testing.T, budget *boundedhttp.Budget) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	for range 4 {
		body := boundedhttp.NewBody(ctx, cancel, io.NopCloser(strings.NewReader(`"`+strings.Repeat("z", mebibyte/2))), boundedhttp.BodyOptions{
			Limits: boundedhttp.ResponseLimits(), Share: budget.Share(), Refused: func(*boundedhttp.LimitError) {}, Closed: func() {},
		})
		t.Cleanup(func() { _ = body.Close() })
		if _, err := io.Copy(io.Discard, body); err != nil {
			t.Fatal(err)
		}
	}
}

// TestShortMemoryIsNoOffence holds that a cluster is asked again at once when the answers of other clusters have taken the memory, and not when its own
// answers are too large.
func TestShortMemoryIsNoOffence(t *testing.T) {
	s := newSpoke(t, func(s *spoke) {
		s.answer = func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", mediaJSON)
			writeRepeated(w, `{"a":"`, "zzzzzzzz", 4*mebibyte/8, `"}`)
			return true
		}
	})
	for want, others := range map[string]bool{
		"is larger than the memory that is left for the answers of all clusters; no action is needed": true,
		"is larger than the memory that is left for the answers of one cluster; see what answers":     false,
	} {
		session := sessionFor(t, providers(plugin(t, tokenScript(goodToken))), profile("p", s.cluster()), options(func(o *Options) { o.Cluster.BodyTimeout = 3 * time.Second }))
		budget := boundedhttp.NewBudget(4 * mebibyte)
		session.conn.memoryShare = budget.Share()
		if others {
			takeMemory(t, budget)
		}
		_, _, err := ask(t.Context(), session, http.MethodGet, "/x", "")
		if told, ok := errors.AsType[*Error](err); !ok || told.Reason != api.ReasonRemoteAnswerRefused || !strings.Contains(told.Message, want) {
			t.Errorf("got %v, want %q", err, want)
		}
		if session.RetryAt().IsZero() != others {
			t.Errorf("%s: the cluster is asked again at %v", want, session.RetryAt())
		}
	}
}
