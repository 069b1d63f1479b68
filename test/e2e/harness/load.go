// Copyright Contributors to the Open Cluster Management project

package harness

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Load sends equal requests at a constant rate, each on a new connection, and counts every answer that is not the expected one. A slow
// answer delays no other request.
type Load struct {
	request *http.Request
	want    string
	client  *http.Client
	stop    func()
	sender  sync.WaitGroup

	mu     sync.Mutex
	report LoadReport
}

// LoadReport is the result of a Load.
type LoadReport struct {
	// Requests counts all requests, Failed those without the expected answer.
	Requests, Failed int
	// Failures describe the first failures.
	Failures []string
	// Slowest is the longest time to a complete answer.
	Slowest time.Duration
}

// mostFailures is how many failures a report describes.
const mostFailures = 20

func (r *LoadReport) String() string {
	text := fmt.Sprintf("%d requests, %d failed, the slowest took %s", r.Requests, r.Failed, r.Slowest.Round(time.Millisecond))
	return strings.Join(append([]string{text}, r.Failures...), "\n")
}

// StartLoad sends the request as often as the interval says, until Stop. Every answer has to have status 200 and a body that begins with
// want; an answer that takes longer than the timeout is a failure.
func StartLoad(ctx context.Context, request *http.Request, want string, interval, timeout time.Duration) *Load {
	l := &Load{request: request, want: want, client: newLoadClient(timeout)}
	sending, stop := context.WithCancel(ctx)
	l.stop = stop
	l.sender.Go(func() {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-sending.Done():
				return
			case <-tick.C:
				l.sender.Go(func() { l.send(ctx) })
			}
		}
	})
	return l
}

func newLoadClient(timeout time.Duration) *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: timeout}
}

// Stop ends the load, waits for the answers of all requests, and returns the report.
func (l *Load) Stop() *LoadReport {
	l.stop()
	l.sender.Wait()
	return &l.report
}

func (l *Load) send(ctx context.Context) {
	start := time.Now()
	_, err := answerOf(l.client, l.request.Clone(ctx), l.want)
	took := time.Since(start)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.report.Requests++
	l.report.Slowest = max(l.report.Slowest, took)
	if err == nil {
		return
	}
	if l.report.Failed++; len(l.report.Failures) < mostFailures {
		l.report.Failures = append(l.report.Failures,
			fmt.Sprintf("%s after %s: %v", start.Format("15:04:05.000"), took.Round(time.Millisecond), err))
	}
}

// Answer sends one request on a new connection, and returns the body of the answer; an error unless the answer has status 200 and a body
// that begins with want.
func Answer(request *http.Request, want string, timeout time.Duration) (string, error) {
	return answerOf(newLoadClient(timeout), request, want)
}

func answerOf(client *http.Client, request *http.Request, want string) (string, error) {
	answer, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return "", fmt.Errorf("cannot read an answer with status %d: %w", answer.StatusCode, err)
	}
	if answer.StatusCode != http.StatusOK || !strings.HasPrefix(string(body), want) {
		return "", fmt.Errorf("status %d, %.100q", answer.StatusCode, body)
	}
	return string(body), nil
}
