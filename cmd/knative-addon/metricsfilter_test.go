// Copyright Contributors to the Open Cluster Management project

package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes/fake"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	clienttesting "k8s.io/client-go/testing"
)

// newReviewer returns a reviewer whose hub knows the tokens "reader" and "stranger" and permits only the reader to get /metrics, and
// the number of reviews of tokens.
func newReviewer(t *testing.T) (*accessReviewer, *int) {
	t.Helper()
	client, reviews := fake.NewClientset(), 0
	client.PrependReactor("create", "tokenreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		reviews++
		review := action.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview).DeepCopy() //nolint:forcetypeassert // by the reactor
		if review.Spec.Token == "unavailable" {
			return true, nil, errors.New("the hub is away")
		}
		review.Status.Authenticated = review.Spec.Token != "invalid"
		review.Status.User = authenticationv1.UserInfo{Username: review.Spec.Token, UID: "u1", Groups: []string{"g"}, Extra: map[string]authenticationv1.ExtraValue{"a": {"b"}}}
		return true, review, nil
	})
	client.PrependReactor("create", "subjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy() //nolint:forcetypeassert // by the reactor
		s := review.Spec
		if s.UID != "u1" || len(s.Groups) != 1 || len(s.Extra["a"]) != 1 || s.ResourceAttributes != nil {
			t.Errorf("the SubjectAccessReview has %+v", s)
		}
		review.Status.Allowed = s.User == "reader" && s.NonResourceAttributes.Verb == "get" && s.NonResourceAttributes.Path == "/metrics"
		return true, review, nil
	})
	return &accessReviewer{
		client.AuthenticationV1().TokenReviews(), client.AuthorizationV1().SubjectAccessReviews(), cache.NewLRUExpireCache(maxDecisions),
		cache.NewLRUExpireCache(maxDecisions),
	}, &reviews
}

// TestAccessReviewer holds that only users whom the hub knows and permits get an answer.
func TestAccessReviewer(t *testing.T) {
	for name, tc := range map[string]struct {
		method, path, authorization string
		want                        int
	}{
		"a permitted user":            {http.MethodGet, "/metrics", "Bearer reader", http.StatusOK},
		"a scheme in lower case":      {http.MethodGet, "/metrics", "bearer reader", http.StatusOK},
		"a user without permission":   {http.MethodGet, "/metrics", "Bearer stranger", http.StatusForbidden},
		"another path":                {http.MethodGet, "/debug/pprof", "Bearer reader", http.StatusForbidden},
		"another verb":                {http.MethodPost, "/metrics", "Bearer reader", http.StatusForbidden},
		"a token of another hub":      {http.MethodGet, "/metrics", "Bearer invalid", http.StatusUnauthorized},
		"no token":                    {http.MethodGet, "/metrics", "", http.StatusUnauthorized},
		"an empty token":              {http.MethodGet, "/metrics", "Bearer ", http.StatusUnauthorized},
		"a password":                  {http.MethodGet, "/metrics", "Basic cmVhZGVyOg==", http.StatusUnauthorized},
		"a review that the hub fails": {http.MethodGet, "/metrics", "Bearer unavailable", http.StatusInternalServerError},
	} {
		t.Run(name, func(t *testing.T) {
			reviewer, _ := newReviewer(t)
			served := false
			handler := reviewer.filter(logr.Discard(), http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served = true }))
			for range 2 { // the second time from the cache
				served = false
				request := httptest.NewRequestWithContext(t.Context(), tc.method, tc.path, nil)
				request.Header.Set("Authorization", tc.authorization)
				response := httptest.NewRecorder()
				handler.ServeHTTP(response, request)
				if response.Code != tc.want || served != (tc.want == http.StatusOK) {
					t.Errorf("the status is %d and the handler serves: %t, want status %d", response.Code, served, tc.want)
				}
			}
		})
	}
}

// TestDecisionsAreKept holds that the hub reviews a token once, and reviews a token again when the review has failed.
func TestDecisionsAreKept(t *testing.T) {
	reviewer, reviews := newReviewer(t)
	for token, want := range map[string]int{"reader": 1, "stranger": 1, "invalid": 1, "unavailable": 3} {
		*reviews = 0
		for range 3 {
			request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
			request.Header.Set("Authorization", "Bearer "+token)
			_, _ = reviewer.decide(request)
		}
		if *reviews != want {
			t.Errorf("the hub reviews token %q %d times, want %d", token, *reviews, want)
		}
	}
}

// TestPermittedReaderStays holds that a permitted user reads the metrics while the hub reviews no request, and that a user who lost the
// permission does not.
func TestPermittedReaderStays(t *testing.T) {
	reviewer, _ := newReviewer(t)
	decide := func(token string) int {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
		request.Header.Set("Authorization", "Bearer "+token)
		status, _ := reviewer.decide(request)
		return status
	}
	// Neither a flood of unknown tokens nor the time empties the cache of permitted requests before fallbackFor.
	expire := func() { reviewer.decisions = cache.NewLRUExpireCache(maxDecisions) }
	if status := decide("reader"); status != http.StatusOK {
		t.Fatalf("the reader gets %d", status)
	}
	available := reviewer.tokens
	reviewer.tokens = unavailableReviews{}
	expire()
	if status := decide("reader"); status != http.StatusOK {
		t.Errorf("while the hub reviews nothing, the reader gets %d", status)
	}
	if status := decide("stranger"); status == http.StatusOK {
		t.Error("while the hub reviews nothing, a stranger reads the metrics")
	}
	reviewer.tokens, reviewer.access = available, forbiddingReviews{}
	expire()
	if status := decide("reader"); status != http.StatusForbidden {
		t.Errorf("without the permission, the reader gets %d", status)
	}
	reviewer.tokens = unavailableReviews{}
	expire()
	if status := decide("reader"); status == http.StatusOK {
		t.Error("a reader who lost the permission reads the metrics while the hub reviews nothing")
	}
}

// unavailableReviews are TokenReviews of a hub that is away.
type unavailableReviews struct {
	authenticationclient.TokenReviewInterface
}

func (unavailableReviews) Create(context.Context, *authenticationv1.TokenReview, metav1.CreateOptions) (*authenticationv1.TokenReview, error) {
	return nil, errors.New("the hub is away")
}

// forbiddingReviews are SubjectAccessReviews of a hub that permits nothing.
type forbiddingReviews struct {
	authorizationclient.SubjectAccessReviewInterface
}

func (forbiddingReviews) Create(_ context.Context, review *authorizationv1.SubjectAccessReview, _ metav1.CreateOptions) (*authorizationv1.SubjectAccessReview, error) {
	return review, nil
}
