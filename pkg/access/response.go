// Copyright Contributors to the Open Cluster Management project

package access

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/boundedhttp"
	"open-cluster-management.io/knative-addon/pkg/message"
)

const (
	// maxHeaderBytes is the number of bytes of the header of an answer.
	maxHeaderBytes = 64 << 10
	// maxRetryAfter is the number of seconds by which a cluster may delay the retry of a client, which holds a worker
	// meanwhile.
	maxRetryAfter = 1

	// streamBuffer and connectionBuffer are the numbers of unread bytes that HTTP/2 buffers.
	streamBuffer, connectionBuffer = 256 << 10, 1 << 20
)

const mediaJSON = "application/json"

// keepJSONMediaTypes keeps JSON of the media types that a client accepts. The values of other encodings cannot be counted before
// decoding.
func keepJSONMediaTypes(accept string) string {
	var out []string
	for part := range strings.SplitSeq(accept, ",") {
		if media, _, _ := strings.Cut(part, ";"); strings.TrimSpace(media) == mediaJSON {
			out = append(out, strings.TrimSpace(part))
		}
	}
	if len(out) == 0 {
		return mediaJSON
	}
	return strings.Join(out, ",")
}

// normalizeResponse changes the header so that a client decodes the answer as JSON or not at all, and delays a retry by at
// most maxRetryAfter.
func (e *endpoint) normalizeResponse(req *http.Request, resp *http.Response) *fault {
	resp.Header.Del("Warning") // client-go logs warnings
	if wait := resp.Header.Get("Retry-After"); wait != "" {
		if seconds, err := strconv.Atoi(wait); err != nil || seconds < 0 || seconds > maxRetryAfter {
			resp.Header.Set("Retry-After", strconv.Itoa(maxRetryAfter))
		}
	}
	given := resp.Header.Get("Content-Type")
	media, _, err := mime.ParseMediaType(given)
	switch {
	case resp.StatusCode == http.StatusSwitchingProtocols:
		return e.newRefusedAnswerFault(req, "changes the protocol without a request")
	case given == "":
		resp.Header.Set("Content-Type", mediaJSON) // client-go would take the media type of the request
	case err == nil && media == mediaJSON:
	case err == nil && strings.HasPrefix(media, "text/"), resp.StatusCode >= http.StatusBadRequest:
		resp.Header.Set("Content-Type", "text/plain") // client-go decodes no text
	default:
		return e.newRefusedAnswerFault(req, "is of another media type than "+mediaJSON)
	}
	return nil
}

// newRefusedAnswerFault returns the fault of a cluster whose answer the manager refuses.
func (e *endpoint) newRefusedAnswerFault(req *http.Request, what string) *fault {
	return &fault{
		reason:  api.ReasonRemoteAnswerRefused,
		problem: "the answer of " + e.String() + " to " + req.Method + " " + oneLine(req.URL.Path, message.MaxName) + " " + what,
		nextStep: "see what answers at the address, and whether the cluster has far more or far larger objects there than Knative needs; " +
			"the cluster is asked again after a pause, which grows each time",
	}
}

// newLimitFault returns the fault of an answer that exceeds a limit. An answer for which other clusters have left no memory is no offence.
func (e *endpoint) newLimitFault(req *http.Request, why *boundedhttp.LimitError) *fault {
	f := e.newRefusedAnswerFault(req, why.What)
	if why.ShortMemory {
		f.nextStep = "no action is needed unless the status persists; then see which clusters have far more or far larger objects than Knative needs"
	}
	return f
}

// newRefusedWatchFault returns the fault of a watch that client-go cannot read. The fault is no offence: the cluster may answer lists well.
func (e *endpoint) newRefusedWatchFault(req *http.Request) *fault {
	f := e.newRefusedAnswerFault(req, "with watch=true is of another media type than "+mediaJSON)
	f.nextStep = "see whether a proxy before the cluster answers watches itself"
	return f
}

// isJSON reports whether the media type of an answer is JSON.
func isJSON(resp *http.Response) bool {
	media, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return err == nil && media == mediaJSON
}

// limitBody returns the body of an answer within the limits, except for watches.
func (c *connection) limitBody(ctx context.Context, cancel context.CancelFunc, resp *http.Response, leave func()) io.ReadCloser {
	limits := boundedhttp.ResponseLimits()
	if resp.StatusCode >= http.StatusBadRequest {
		limits = boundedhttp.FailureLimits()
	}
	limits.Bytes = min(limits.Bytes, c.opts.Cluster.MaxAnswer)
	limits.Time = c.opts.Cluster.BodyTimeout
	req := resp.Request
	return &explainedBody{
		Body: boundedhttp.NewBody(ctx, cancel, resp.Body, boundedhttp.BodyOptions{
			Limits: limits, Share: c.memoryShare, Closed: leave,
			Refused: func(why *boundedhttp.LimitError) {
				if !why.ShortMemory {
					c.breaker.recordOffence(c.endpoint.newLimitFault(req, why))
				}
			},
		}),
		explain: func(why *boundedhttp.LimitError) *fault { return c.endpoint.newLimitFault(req, why).withCause(why) },
	}
}

// explainedBody is a body that returns a *fault for an exceeded limit.
type explainedBody struct {
	*boundedhttp.Body
	explain func(*boundedhttp.LimitError) *fault
}

// Read implements io.Reader.
func (b *explainedBody) Read(p []byte) (int, error) {
	n, err := b.Body.Read(p)
	if limit, ok := errors.AsType[*boundedhttp.LimitError](err); ok {
		return n, b.explain(limit)
	}
	return n, err
}

// namedBody is a body that returns an *Error of a ClusterProfile for a *fault.
type namedBody struct {
	io.ReadCloser
	profile types.NamespacedName
}

// Read implements io.Reader.
func (b *namedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if f, ok := err.(*fault); ok { //nolint:errorlint // explainedBody returns an unwrapped fault
		return n, f.forProfile(b.profile)
	}
	return n, err
}

// watchBody is the body of a watch, and ends the request when closed.
type watchBody struct {
	io.ReadCloser
	cancel context.CancelFunc
}

// Close implements io.Closer.
func (b *watchBody) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}
