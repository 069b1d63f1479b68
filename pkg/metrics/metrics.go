// Copyright Contributors to the Open Cluster Management project

package metrics

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// Results of a request for a credential.
const (
	resultSuccess = "success"
	resultFailure = "failure"
)

// Metrics holds the metrics of the manager that this package defines.
type Metrics struct {
	collector   *Collector
	credentials *prometheus.CounterVec
	readyTimes  *prometheus.HistogramVec
}

// New returns the metrics of a hub with the caches.
func New(sources Sources) *Metrics {
	return &Metrics{
		collector: newCollector(sources),
		credentials: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "knative_addon_credential_requests_total",
			Help: "Runs of the exec plugins of access providers, by access provider and result.",
		}, []string{"provider", "result"}),
		readyTimes: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "knative_addon_time_to_ready_seconds",
			Help:    "Time that a KnativeServing or KnativeEventing was not Ready before the resource became Ready.",
			Buckets: []float64{5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200},
		}, []string{"component", "mode"}),
	}
}

// Register registers the metrics.
func (m *Metrics) Register(registry prometheus.Registerer) error {
	if err := errors.Join(registry.Register(m.collector), registry.Register(m.credentials), registry.Register(m.readyTimes)); err != nil {
		return fmt.Errorf("cannot register the metrics of the fleet: %w", err)
	}
	return nil
}

// RecordCredential counts a run of the plugin of an access provider. A nil error is a success. The file of access providers,
// which only the administrator writes, bounds the names.
func (m *Metrics) RecordCredential(provider string, err error) {
	result := resultSuccess
	if err != nil {
		result = resultFailure
	}
	m.credentials.WithLabelValues(provider, result).Inc()
}

// RecordReady records that a resource became Ready after a time of not being Ready.
func (m *Metrics) RecordReady(component api.Component, config *unstructured.Unstructured, after time.Duration) {
	m.readyTimes.WithLabelValues(string(component), modeOf(config)).Observe(after.Seconds())
}
