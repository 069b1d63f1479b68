// Copyright Contributors to the Open Cluster Management project

package access

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// TestAnswersThatAreNoStreamAreLimited holds that an answer to a watch which client-go reads to the end has the limits of other answers.
func TestAnswersThatAreNoStreamAreLimited(t *testing.T) {
	for _, status := range []int{http.StatusAccepted, http.StatusFound, http.StatusForbidden} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			s := newSpoke(t, func(s *spoke) {
				s.answer = func(w http.ResponseWriter, _ *http.Request) bool {
					w.Header().Set("Content-Type", mediaJSON)
					w.Header().Set("Location", "/elsewhere")
					w.WriteHeader(status)
					writeRepeated(w, `{"a":"`, "zzzzzzzz", 20*mebibyte/8, `"}`)
					return true
				}
			})
			session := sessionFor(t, providers(plugin(t, tokenScript(goodToken))), profile("p", s.cluster()), options())
			_, err := session.Dynamic().Resource(configMapResource).Watch(t.Context(), metav1.ListOptions{})
			if told, ok := errors.AsType[*Error](err); !ok || told.Reason != api.ReasonRemoteAnswerRefused || !strings.Contains(told.Message, "is longer than") {
				t.Errorf("got %.300v", err)
			}
			if session.RetryAt().IsZero() {
				t.Error("the cluster gets requests at once")
			}
			if n := session.countWatches(); n != 0 {
				t.Errorf("%d watches remain", n)
			}
		})
	}
}

// countWatches returns the number of watches that have not ended.
func (s *Session) countWatches() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.watches)
}

// TestWatchOfAnotherMediaTypeIsRefused holds that a watch which client-go cannot read, and does not close, leaves nothing. The cluster gets further
// requests, since lists may work.
func TestWatchOfAnotherMediaTypeIsRefused(t *testing.T) {
	ended := make(chan struct{})
	s := newSpoke(t, func(s *spoke) {
		s.answer = func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			close(ended)
			return true
		}
	})
	session := sessionFor(t, providers(plugin(t, tokenScript(goodToken))), profile("p", s.cluster()), options())
	_, err := session.Dynamic().Resource(configMapResource).Watch(t.Context(), metav1.ListOptions{})
	if told, ok := errors.AsType[*Error](err); !ok || told.Reason != api.ReasonRemoteAnswerRefused ||
		!strings.Contains(told.Message, "to GET /api/v1/configmaps with watch=true is of another media type than application/json; see whether a proxy") {
		t.Errorf("got %v", err)
	}
	if n := session.countWatches(); n != 0 || !session.RetryAt().IsZero() {
		t.Errorf("%d watches remain, and the next request is sent at %v", n, session.RetryAt())
	}
	select {
	case <-ended:
	case <-time.After(long):
		t.Error("the stream stays open")
	}
}

// TestWatchEndsWithItsContext holds that a watch which the client never closes leaves nothing.
func TestWatchEndsWithItsContext(t *testing.T) {
	s := newSpoke(t, func(s *spoke) {
		s.answer = func(w http.ResponseWriter, r *http.Request) bool {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return true
		}
	})
	session := sessionFor(t, providers(plugin(t, tokenScript(goodToken))), profile("p", s.cluster()), options())
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/x?watch=true", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := session.RoundTrip(req)
	if err != nil || session.countWatches() != 1 {
		t.Fatalf("%d watches, error %v", session.countWatches(), err)
	}
	defer answer.Body.Close() //nolint:errcheck // the test is over
	cancel()
	waitUntil(t, func() bool { return session.countWatches() == 0 })
}

// TestRefusalOfACredentialNeedsNoEnd holds that the body of an answer with status 401, which may never end, delays no request.
func TestRefusalOfACredentialNeedsNoEnd(t *testing.T) {
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			var refused atomic.Bool
			s := newSpoke(t, func(s *spoke) {
				s.EnableHTTP2 = http2
				s.answer = func(w http.ResponseWriter, r *http.Request) bool {
					if refused.Swap(true) {
						return false
					}
					w.WriteHeader(http.StatusUnauthorized)
					_, _ = io.WriteString(w, "{")
					_ = http.NewResponseController(w).Flush()
					<-r.Context().Done()
					return true
				}
			})
			session := sessionFor(t, providers(plugin(t, tokenScript(goodToken))), profile("p", s.cluster()), options())
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if status, _, err := ask(ctx, session, http.MethodGet, "/version", ""); status != http.StatusOK || err != nil {
				t.Errorf("got %d, %v", status, err)
			}
		})
	}
}
