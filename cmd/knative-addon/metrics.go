// Copyright Contributors to the Open Cluster Management project

package main

import (
	"crypto/tls"

	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// metricsOptions configure a server that answers only users of the hub with the permission to get /metrics, unless a flag
// switches the reviews off.
func (f *processFlags) metricsOptions() metricsserver.Options {
	if !f.metricsSecure {
		return metricsserver.Options{BindAddress: f.metrics}
	}
	return metricsserver.Options{
		BindAddress: f.metrics, SecureServing: true, CertDir: f.metricsCertDir, FilterProvider: filterByReview,
		TLSOpts: []func(*tls.Config){func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} }}, // streams of HTTP/2 can be reset without end
	}
}
