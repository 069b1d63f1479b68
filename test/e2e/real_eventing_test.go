// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/lab/realnode"
)

const (
	// sentEvents is the number of events that the story sends to the broker, fewestPings the number of events of the PingSource that the
	// story awaits.
	sentEvents  = 20
	fewestPings = 3
	// sentType and pingType are the types of the events.
	sentType = "test.sent"
	pingType = "dev.knative.sources.ping"
)

// sinkManifest is a pod of a user that receives events, and eventManifest what brings events to the pod: a Trigger of a broker, and a
// PingSource that sends an event every two seconds without the broker.
const (
	sinkManifest = `
apiVersion: v1
kind: Pod
metadata: {name: sink, namespace: default, labels: {app: sink}}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: sink, image: "` + realnode.SinkImage + `", readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1, timeoutSeconds: 10}}]
---
apiVersion: v1
kind: Service
metadata: {name: sink, namespace: default}
spec: {selector: {app: sink}, ports: [{port: 80, targetPort: 8080}]}
`
	eventManifest = `
apiVersion: eventing.knative.dev/v1
kind: Broker
metadata: {name: events, namespace: default}
---
apiVersion: eventing.knative.dev/v1
kind: Trigger
metadata: {name: sink, namespace: default}
spec:
  broker: events
  filter: {attributes: {type: ` + sentType + `}}
  subscriber: {ref: {apiVersion: v1, kind: Service, name: sink}}
---
apiVersion: sources.knative.dev/v1
kind: PingSource
metadata: {name: clock, namespace: default}
spec:
  schedule: "*/2 * * * * *"
  contentType: application/json
  data: '{"from": "clock"}'
  sink: {ref: {apiVersion: v1, kind: Service, name: sink}}
`
)

// eventKinds returns the kinds of eventManifest with the names of the objects.
func eventKinds() map[schema.GroupVersionResource]string {
	return map[schema.GroupVersionResource]string{
		{Group: "eventing.knative.dev", Version: "v1", Resource: "brokers"}:    "events",
		{Group: "eventing.knative.dev", Version: "v1", Resource: "triggers"}:   "sink",
		{Group: "sources.knative.dev", Version: "v1", Resource: "pingsources"}: "clock",
	}
}

// enableEventing enables Eventing. The following steps do not wait for its pods.
func (r *realStory) enableEventing(t *testing.T) {
	if err := r.Enable(t.Context(), []string{api.Eventing.AddOnName()}, []string{r.on.Name}); err != nil {
		t.Fatal(err)
	}
}

// applyEventKinds waits until Eventing is Available, and applies the objects of the user.
func (r *realStory) applyEventKinds(t *testing.T) {
	available(t, r.Fleet, []api.Component{api.Eventing}, r.on.Cluster)
	r.on.applyEventKinds(t)
}

// applyEventKinds applies the pod that receives events and the objects of eventKinds. The following steps do not wait for their conditions.
func (s spoke) applyEventKinds(t *testing.T) {
	t.Helper()
	for _, manifest := range []string{sinkManifest, eventManifest} {
		eventually(t, "the cluster accepts the objects of the user", time.Minute, func(ctx context.Context) error {
			return s.Apply(ctx, []byte(manifest))
		})
	}
}

// deliverEvents checks that events arrive.
func (r *realStory) deliverEvents(t *testing.T) { r.on.deliverEvents(t) }

// deliverEvents counts the events that reach a pod: every event that the story sends to a broker, none of another type through the broker,
// and the events of a PingSource.
func (s spoke) deliverEvents(t *testing.T) {
	t.Helper()
	start := time.Now()
	broker := s.awaitEventKinds(t)
	t.Logf("broker, Trigger and PingSource were Ready after %s", time.Since(start).Round(100*time.Millisecond))

	var want []string
	for i := range sentEvents {
		id := fmt.Sprintf("event-%d", i)
		s.sendEvent(t, broker, sentType, id)
		s.sendEvent(t, broker, "test.other", id)
		want = append(want, sentType+" "+id)
	}
	var events []string
	eventually(t, "all events have arrived", time.Minute, func(ctx context.Context) error {
		var err error
		if events, err = s.receivedEvents(ctx); err != nil {
			return err
		}
		missing := slices.DeleteFunc(slices.Clone(want), func(event string) bool { return slices.Contains(events, event) })
		pings := slices.DeleteFunc(slices.Clone(events), func(event string) bool { return !strings.HasPrefix(event, pingType+" ") })
		if len(missing) > 0 || len(pings) < fewestPings {
			return fmt.Errorf("events %q are missing, and %d events of the PingSource have arrived", missing, len(pings))
		}
		return nil
	})
	counts := map[string]int{}
	slices.Sort(events)
	for _, event := range slices.Compact(events) { // Knative delivers an event at least once
		kind, _, _ := strings.Cut(event, " ")
		counts[kind]++
	}
	t.Logf("the pod has received %v", counts)
	if len(counts) != 2 || counts[sentType] != sentEvents {
		t.Errorf("the pod has received %v, want %d of %s, and no other event than those of the PingSource", counts, sentEvents, sentType)
	}
}

// awaitEventKinds waits until broker, Trigger and PingSource are Ready, and returns the URL of the broker.
func (s spoke) awaitEventKinds(t *testing.T) string {
	t.Helper()
	var address string
	for kind, name := range eventKinds() {
		eventually(t, fmt.Sprintf("%s %s is Ready", kind.Resource, name), 2*time.Minute, func(ctx context.Context) error {
			u, err := s.dynamic.Resource(kind).Namespace("default").Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if !hasTrueCondition(u, "Ready") {
				return fmt.Errorf("the status is %v", u.Object["status"])
			}
			if kind.Resource == "brokers" {
				address, _, _ = unstructured.NestedString(u.Object, "status", "address", "url")
			}
			return nil
		})
	}
	return address
}

// sendEvent sends an event to the URL of a broker, as DNS would lead a request of a pod, until the broker accepts the event.
func (s spoke) sendEvent(t *testing.T, broker, kind, id string) {
	t.Helper()
	at, err := url.Parse(broker)
	if err != nil {
		t.Fatal(err)
	}
	ingress, err := s.kube.CoreV1().Services(api.Eventing.InstallNamespace()).Get(t.Context(), "broker-ingress", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the broker accepts an event", time.Minute, func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+ingress.Spec.ClusterIP+at.Path, strings.NewReader(`{}`))
		if err != nil {
			return err
		}
		request.Host = at.Host
		for name, value := range map[string]string{
			"Ce-Specversion": "1.0", "Ce-Type": kind, "Ce-Id": id, "Ce-Source": "test", "Content-Type": "application/json",
		} {
			request.Header.Set(name, value)
		}
		answer, err := (&http.Client{Timeout: requestTimeout}).Do(request)
		if err != nil {
			return err
		}
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusAccepted {
			return fmt.Errorf("the broker answers %s", answer.Status)
		}
		return nil
	})
}

// receivedEvents returns the events that the pod has received, each as type and ID.
func (s spoke) receivedEvents(ctx context.Context) ([]string, error) {
	sink, err := s.kube.CoreV1().Services("default").Get(ctx, "sink", metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+sink.Spec.ClusterIP, http.NoBody)
	if err != nil {
		return nil, err
	}
	answer, err := (&http.Client{Timeout: requestTimeout}).Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	return strings.Split(strings.TrimSpace(string(body)), "\n"), err
}
