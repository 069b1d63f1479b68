// Copyright Contributors to the Open Cluster Management project

package access

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"
)

// Identity identifies a cluster by the cluster's own answers.
type Identity struct {
	// Version is the version of the API server.
	Version string
	// UID is that of Namespace kube-system, which no other cluster has.
	UID types.UID
}

// maxProbed is far more than the answers to Probe have.
const maxProbed = 1 << 20

// The answers of a cluster end up in messages and names, and deserve no more trust than the profile.
var (
	versionText = regexp.MustCompile(`^v\d{1,4}\.\d{1,4}[\w.+-]{0,64}$`)
	uidText     = regexp.MustCompile(`^[\w-]{1,64}$`)
)

type probeKey struct{}

// AsProbe returns a context for a request that finds out whether a cluster answers. Such a request does not wait for other requests under way.
func AsProbe(ctx context.Context) context.Context { return context.WithValue(ctx, probeKey{}, true) }

// isProbe reports whether a context is from AsProbe.
func isProbe(ctx context.Context) bool { return ctx.Value(probeKey{}) != nil }

// Probe proves that the connection works with the credential, and returns the identity of the cluster. Session documents
// the error.
func (s *Session) Probe(ctx context.Context) (Identity, error) {
	ctx, cancel := context.WithTimeout(AsProbe(ctx), s.conn.opts.Cluster.ProbeTimeout)
	defer cancel()
	var about version.Info
	if err := s.get(ctx, &about, "version"); err != nil {
		return Identity{}, err
	}
	if !versionText.MatchString(about.GitVersion) {
		return Identity{}, s.conn.endpoint.newNotKubernetesFault("/version").forProfile(s.profile)
	}
	var namespace struct {
		Metadata struct {
			Name string    `json:"name"`
			UID  types.UID `json:"uid"`
		} `json:"metadata"`
	}
	if err := s.get(ctx, &namespace, "api", "v1", "namespaces", "kube-system"); err != nil {
		return Identity{}, err
	}
	if namespace.Metadata.Name != "kube-system" || !uidText.MatchString(string(namespace.Metadata.UID)) {
		return Identity{}, s.conn.endpoint.newNotKubernetesFault("/api/v1/namespaces/kube-system").forProfile(s.profile)
	}
	s.conn.probed.Store(true)
	return Identity{Version: about.GitVersion, UID: namespace.Metadata.UID}, nil
}

// get reads an object. The error is as Probe's.
func (s *Session) get(ctx context.Context, into any, path ...string) error {
	at := s.conn.endpoint
	url := at.base.JoinPath(path...)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url.String(), http.NoBody)
	if err != nil {
		return connectionFailed("correct it in status.accessProviders", "the address of %s is not one", at).withCause(err).forProfile(s.profile)
	}
	req.Header.Set("Accept", "application/json")
	answer, err := s.RoundTrip(req)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	where := "/" + strings.Join(path, "/")
	if answer.StatusCode != http.StatusOK {
		return s.conn.asStaleIfProbed(at.explainProbeStatus(answer.StatusCode, where)).forProfile(s.profile)
	}
	data, err := io.ReadAll(io.LimitReader(answer.Body, maxProbed+1))
	if err != nil {
		return s.explainReadFailure(ctx, err)
	}
	if len(data) > maxProbed || json.Unmarshal(data, into) != nil {
		return at.newNotKubernetesFault(where).forProfile(s.profile)
	}
	return nil
}

// explainReadFailure explains an incomplete answer.
func (s *Session) explainReadFailure(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("ClusterProfile %s: %w", s.profile, ctx.Err())
	}
	return s.conn.asStaleIfProbed(s.conn.endpoint.explainError(err)).forProfile(s.profile)
}

// explainProbeStatus explains a status other than 200 of a Probe.
func (e *endpoint) explainProbeStatus(status int, where string) *fault {
	if f := e.explainStatus(status); f != nil {
		return f
	}
	switch {
	case status == http.StatusForbidden && where == "/version":
		return connectionFailed("bind ClusterRole system:public-info-viewer to it on the cluster",
			"%s knows the credential of access provider %q, which may not read /version (403)", e, e.provider)
	case status == http.StatusForbidden:
		return connectionFailed("give it the permissions that `knative-addon rbac` prints; get of that Namespace is the first",
			"%s knows the credential of access provider %q, which may not get Namespace kube-system (403)", e, e.provider)
	case status >= 300 && status < 400:
		return connectionFailed("publish the address that it redirects to in status.accessProviders",
			"%s redirects to another address (HTTP status %d), which does not get the credential", e, status)
	case status == http.StatusTooManyRequests:
		return e.newUnreachableFault("no action is needed unless the status persists; then find the clients that send the requests",
			"%s has too many requests (429)", e)
	case status >= http.StatusInternalServerError:
		return e.newUnreachableFault("check the cluster's API server", "%s fails with HTTP status %d", e, status)
	default:
		return e.newNotKubernetesFault(where)
	}
}

// newNotKubernetesFault returns the fault of an answer that no API server gives.
func (e *endpoint) newNotKubernetesFault(where string) *fault {
	return connectionFailed("correct the address in status.accessProviders, with the path if there is one",
		"%s answers, but not as a Kubernetes API server does (at %s)", e, where)
}
