// Copyright Contributors to the Open Cluster Management project

package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const (
	// allowedFor and refusedFor are how long a decision on a token holds without another review.
	allowedFor, refusedFor = time.Minute, 10 * time.Second
	// fallbackFor is how long a permitted token may read without another review when the hub cannot review requests.
	fallbackFor = 10 * time.Minute
	// maxDecisions bounds the decisions that the filter keeps.
	maxDecisions = 1024
	// reviewTimeout bounds one review.
	reviewTimeout = 10 * time.Second
	// reviewsPerSecond and reviewBurst bound the reviews of any number of unknown tokens.
	reviewsPerSecond, reviewBurst = 5, 10
)

// accessReviewer decides on requests with a TokenReview and a SubjectAccessReview of the hub. The filter of controller-runtime does the
// same with packages of k8s.io/apiserver, whose dependencies double the size of the program (docs/design/0014-libraries.md).
type accessReviewer struct {
	tokens    authenticationclient.TokenReviewInterface
	access    authorizationclient.SubjectAccessReviewInterface
	decisions *cache.LRUExpireCache // by decisionKey
	// permitted has the permitted requests by decisionKey for fallbackFor. Requests with unknown tokens, which use up the limit of
	// reviews, take no place in this cache.
	permitted *cache.LRUExpireCache
}

// decisionKey identifies a request; the token is a digest.
type decisionKey struct {
	token      [sha256.Size]byte
	verb, path string
}

// filterByReview is a metricsserver.Options.FilterProvider: the server answers a request only if the hub knows the bearer token, and permits
// the user the verb on the path. The manager needs permission to create tokenreviews and subjectaccessreviews.
func filterByReview(config *rest.Config, client *http.Client) (metricsserver.Filter, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst, config.RateLimiter = reviewsPerSecond, reviewBurst, nil
	tokens, err := authenticationclient.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("cannot make the client of TokenReviews: %w", err)
	}
	access, err := authorizationclient.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("cannot make the client of SubjectAccessReviews: %w", err)
	}
	r := &accessReviewer{tokens.TokenReviews(), access.SubjectAccessReviews(), cache.NewLRUExpireCache(maxDecisions), cache.NewLRUExpireCache(maxDecisions)}
	return func(log logr.Logger, handler http.Handler) (http.Handler, error) {
		return r.filter(log, handler), nil
	}, nil
}

// filter passes permitted requests to the handler. Refused requests get 401 Unauthorized or 403 Forbidden, and requests that the hub
// cannot review get 500.
func (r *accessReviewer) filter(log logr.Logger, handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		status, err := r.decide(req)
		switch {
		case err != nil:
			log.Error(err, "cannot review a request", "path", req.URL.Path)
			http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
		case status != http.StatusOK:
			http.Error(w, http.StatusText(status), status)
		default:
			handler.ServeHTTP(w, req)
		}
	})
}

// decide returns the HTTP status for the request: OK, Unauthorized or Forbidden.
func (r *accessReviewer) decide(req *http.Request) (int, error) {
	scheme, token, _ := strings.Cut(req.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return http.StatusUnauthorized, nil
	}
	verb, path := strings.ToLower(req.Method), req.URL.Path
	key := decisionKey{sha256.Sum256([]byte(token)), verb, path}
	if stored, ok := r.decisions.Get(key); ok {
		if status, ok := stored.(int); ok {
			return status, nil
		}
	}
	ctx, cancel := context.WithTimeout(req.Context(), reviewTimeout)
	defer cancel()
	status, err := r.review(ctx, token, verb, path)
	if err != nil {
		if _, wasPermitted := r.permitted.Get(key); wasPermitted {
			return http.StatusOK, nil // neither a flood of requests nor an absent hub hides the metrics
		}
		return 0, err
	}
	if status != http.StatusOK {
		r.permitted.Remove(key)
		r.decisions.Add(key, status, refusedFor)
		return status, nil
	}
	r.permitted.Add(key, status, fallbackFor)
	r.decisions.Add(key, status, allowedFor)
	return status, nil
}

// review requests the user of the token from the hub, and whether the user may do the verb on the path.
func (r *accessReviewer) review(ctx context.Context, token, verb, path string) (int, error) {
	known, err := r.tokens.Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		return 0, fmt.Errorf("cannot create a TokenReview: %w", err)
	}
	if !known.Status.Authenticated {
		return http.StatusUnauthorized, nil
	}
	user := known.Status.User
	extra := map[string]authorizationv1.ExtraValue{}
	for name, values := range user.Extra {
		extra[name] = authorizationv1.ExtraValue(values)
	}
	permitted, err := r.access.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Verb: verb, Path: path},
	}}, metav1.CreateOptions{})
	if err != nil {
		return 0, fmt.Errorf("cannot create a SubjectAccessReview: %w", err)
	}
	if !permitted.Status.Allowed {
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}
