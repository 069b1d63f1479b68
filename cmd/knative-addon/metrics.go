// Copyright Contributors to the Open Cluster Management project

package main

import (
	"context"
	"crypto/tls"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	clientmetrics "k8s.io/client-go/tools/metrics"
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

// otherHost is the value of label host for every server that is not the API server of the hub.
const otherHost = "cluster"

// hostBounds replaces the addresses of clusters in label host of metric rest_client_requests_total: client-go keeps a series for each
// address for ever, and an address is not for everybody who reads metrics.
type hostBounds struct {
	clientmetrics.ResultMetric

	hub string
}

// boundHosts has client-go count the requests to all clusters under one value of label host.
func boundHosts(hub *rest.Config) error {
	if _, isBound := clientmetrics.RequestResult.(hostBounds); isBound {
		return nil
	}
	server, _, err := rest.DefaultServerURL(hub.Host, hub.APIPath, schema.GroupVersion{}, rest.IsConfigTransportTLS(*hub))
	if err != nil {
		return fmt.Errorf("cannot read the address of the hub: %w", err)
	}
	clientmetrics.RequestResult = hostBounds{clientmetrics.RequestResult, server.Host}
	return nil
}

// Increment counts a request.
func (b hostBounds) Increment(ctx context.Context, code, method, host string) {
	if host != b.hub {
		host = otherHost
	}
	b.ResultMetric.Increment(ctx, code, method, host)
}
