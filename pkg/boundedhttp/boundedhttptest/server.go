// Copyright Contributors to the Open Cluster Management project

package boundedhttptest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"open-cluster-management.io/knative-addon/pkg/boundedhttp"
)

// Limits returns limits that are small enough for the inputs of a fuzzer to exceed.
func Limits() boundedhttp.Limits {
	limits := boundedhttp.ResponseLimits()
	limits.Bytes, limits.Values, limits.Items, limits.Depth = 4<<10, 200, 20, 16
	return limits
}

// Server is an http.RoundTripper of a server that gives the same response to every request, within Limits. Watches have no
// limits here, because the reader of a watch bounds the events.
type Server struct {
	status int
	body   []byte
	share  *boundedhttp.Share
	read   byteCounter
}

// NewServer returns a Server with the HTTP status and the body of the responses.
func NewServer(status int, body []byte) *Server {
	return &Server{status: status, body: body, share: boundedhttp.NewBudget(boundedhttp.DefaultMemory).Share()}
}

// RoundTrip implements http.RoundTripper.
func (s *Server) RoundTrip(req *http.Request) (*http.Response, error) {
	body := io.NopCloser(io.TeeReader(bytes.NewReader(s.body), &s.read))
	if req.URL.Query().Get("watch") == "" {
		ctx, cancel := context.WithCancel(req.Context())
		body = boundedhttp.NewBody(ctx, cancel, body, boundedhttp.BodyOptions{
			Limits: Limits(), Share: s.share, Refused: func(*boundedhttp.LimitError) {}, Closed: func() {},
		})
	}
	return &http.Response{
		StatusCode: s.status, Request: req, Body: body, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}},
	}, nil
}

// ReadBytes returns the number of bytes of all bodies that were read.
func (s *Server) ReadBytes() int64 { return s.read.Load() }

type byteCounter struct{ atomic.Int64 }

// Write implements io.Writer.
func (c *byteCounter) Write(p []byte) (int, error) {
	c.Add(int64(len(p)))
	return len(p), nil
}

// CheckError fails the test when the text of an error is much longer than a response within Limits. CheckError also reads the
// reason of the error, which must not panic.
func CheckError(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if _, isLimit := errors.AsType[*boundedhttp.LimitError](err); !isLimit && len(err.Error()) > int(Limits().Bytes)*8+4096 {
		t.Errorf("an error of %d bytes", len(err.Error()))
	}
	_ = apierrors.ReasonForError(err)
}
