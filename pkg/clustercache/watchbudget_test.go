// Copyright Contributors to the Open Cluster Management project

package clustercache

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"k8s.io/utils/clock"
)

type fixedResponse struct{ contentType, body string }

// RoundTrip implements http.RoundTripper.
func (a fixedResponse) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {a.contentType}}, Body: io.NopCloser(strings.NewReader(a.body)),
	}, nil
}

// TestWatchesOfTheHub holds that watches in protobuf, as those of the hub are, are not cut for being no JSON.
func TestWatchesOfTheHub(t *testing.T) {
	for contentType, want := range map[string]string{
		"application/vnd.kubernetes.protobuf;stream=watch": "",
		"application/json": "an event of its watches is no JSON",
		"":                 "an event of its watches is no JSON",
	} {
		t.Run(contentType, func(t *testing.T) {
			got := ""
			budget := newWatchBudget(clock.RealClock{}, func(why error) { got = why.Error() })
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://hub/api/v1/secrets?watch=true", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := budget.wrapTransport(fixedResponse{contentType, "k8s\x00}"}).RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			_, readErr := io.ReadAll(resp.Body)
			if err := resp.Body.Close(); err != nil {
				t.Error(err)
			}
			if got != want || (readErr != nil) != (want != "") {
				t.Errorf("the watch was cut because of %q (%v), want %q", got, readErr, want)
			}
		})
	}
}
