// Copyright Contributors to the Open Cluster Management project

package harness

import (
	"fmt"
	"slices"
	"time"
)

// RateLimit is the limit of a client of the hub: the client sends Burst requests at once, and QPS requests a second on average.
type RateLimit struct{ QPS, Burst int }

// Arguments returns the arguments of a manager with the limit.
func (l RateLimit) Arguments() []string {
	return []string{fmt.Sprintf("--kube-api-qps=%d", l.QPS), fmt.Sprintf("--kube-api-burst=%d", l.Burst)}
}

// longestTransit bounds the time between the permission of a client to send a request and the receipt by the API server, on a machine
// with more runnable processes than processors.
const longestTransit = 2 * time.Second

// FindExcess returns a sentence about a period in which a client has sent more requests than the limit permits, or nothing. The
// requests that the API server receives in a period may have been sent in a period that is longer by longestTransit.
func (l RateLimit) FindExcess(received []time.Time) string {
	received = slices.SortedFunc(slices.Values(received), time.Time.Compare)
	for first, begin := range received {
		for further, end := range received[first:] {
			period := end.Sub(begin)
			permitted := float64(l.Burst) + float64(l.QPS)*(period+longestTransit).Seconds()
			if requests := further + 1; float64(requests) > permitted {
				return fmt.Sprintf("%d requests in %s from %s, want at most %.0f", requests, period, begin.Format(time.TimeOnly), permitted)
			}
		}
	}
	return ""
}
