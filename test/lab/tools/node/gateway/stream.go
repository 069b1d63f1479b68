// Copyright Contributors to the Open Cluster Management project

package main

import (
	"context"
	"log"
	"maps"
	"net"
	"slices"
	"strconv"
	"time"

	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listener "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	manager "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

const (
	typePrefix    = "type.googleapis.com/envoy.config."
	clusterType   = typePrefix + "cluster.v3.Cluster"
	listenerType  = typePrefix + "listener.v3.Listener"
	routeType     = typePrefix + "route.v3.RouteConfiguration"
	http2Options  = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
	statsCluster  = "service_stats"
	maxReceived   = 1 << 28
	keepaliveTime = 30 * time.Second
	keepaliveWait = 5 * time.Second
)

// configuration is what the controller has sent last.
type configuration struct {
	upstreams map[string]upstream
	listeners map[uint32]string // port -> name of a route configuration
	routes    map[string]*route.RouteConfiguration
}

// upstream is a cluster in the words of Envoy: addresses that serve the same.
type upstream struct {
	addresses []string
	http2     bool
}

// stream is one conversation with the controller.
type stream struct {
	discovery.AggregatedDiscoveryService_StreamAggregatedResourcesClient

	node *core.Node
	// routesRequest is the last request for routes; nil as long as there is none.
	routesRequest *discovery.DiscoveryRequest
}

// follow applies what the controller sends until the stream ends.
func (g *gateway) follow(ctx context.Context, from origin) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	connection, err := grpc.NewClient(from.controller, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveTime, Timeout: keepaliveWait}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxReceived)))
	if err != nil {
		return err
	}
	defer func() { _ = connection.Close() }()
	client, err := discovery.NewAggregatedDiscoveryServiceClient(connection).StreamAggregatedResources(ctx)
	if err != nil {
		return err
	}
	s := &stream{client, &core.Node{Id: from.node, Cluster: from.cluster}, nil}
	for _, t := range []string{clusterType, listenerType} {
		if err := s.Send(&discovery.DiscoveryRequest{Node: s.node, TypeUrl: t}); err != nil {
			return err
		}
	}
	for {
		response, err := s.Recv()
		if err != nil {
			return err
		}
		if err := g.apply(response); err != nil {
			return err
		}
		if err := s.acknowledge(response, g.current.Load()); err != nil {
			return err
		}
	}
}

// acknowledge accepts a response, and asks for the routes that the listeners name.
func (s *stream) acknowledge(response *discovery.DiscoveryResponse, current *configuration) error {
	accepted := &discovery.DiscoveryRequest{
		Node: s.node, TypeUrl: response.GetTypeUrl(), VersionInfo: response.GetVersionInfo(), ResponseNonce: response.GetNonce(),
	}
	names := slices.Compact(slices.Sorted(maps.Values(current.listeners)))
	if response.GetTypeUrl() == routeType {
		accepted.ResourceNames, s.routesRequest = names, accepted
		return s.Send(accepted)
	}
	if err := s.Send(accepted); err != nil {
		return err
	}
	if len(names) == 0 || slices.Equal(names, s.routesRequest.GetResourceNames()) {
		return nil
	}
	s.routesRequest = &discovery.DiscoveryRequest{
		Node: s.node, TypeUrl: routeType, ResourceNames: names,
		VersionInfo: s.routesRequest.GetVersionInfo(), ResponseNonce: s.routesRequest.GetResponseNonce(),
	}
	return s.Send(s.routesRequest)
}

// apply replaces the resources of one type.
func (g *gateway) apply(response *discovery.DiscoveryResponse) error {
	next := *g.current.Load()
	var err error
	switch response.GetTypeUrl() {
	case clusterType:
		next.upstreams, err = readUpstreams(response.GetResources())
	case listenerType:
		next.listeners, err = readListeners(response.GetResources())
	case routeType:
		next.routes, err = readRoutes(response.GetResources())
	}
	if err != nil {
		return err
	}
	g.current.Store(&next)
	if next.routes != nil {
		g.listen(&next)
	}
	return nil
}

func readUpstreams(resources []*anypb.Any) (map[string]upstream, error) {
	out := map[string]upstream{statsCluster: {addresses: []string{adminAddress}}}
	err := decodeAll(resources, func(c *cluster.Cluster) error {
		u := upstream{http2: c.GetTypedExtensionProtocolOptions()[http2Options] != nil}
		for _, of := range c.GetLoadAssignment().GetEndpoints() {
			for _, e := range of.GetLbEndpoints() {
				a := e.GetEndpoint().GetAddress().GetSocketAddress()
				u.addresses = append(u.addresses, net.JoinHostPort(a.GetAddress(), strconv.Itoa(int(a.GetPortValue()))))
			}
		}
		out[c.GetName()] = u
		return nil
	})
	return out, err
}

func readListeners(resources []*anypb.Any) (map[uint32]string, error) {
	out := map[uint32]string{}
	err := decodeAll(resources, func(l *listener.Listener) error {
		chain := l.GetFilterChains()[0]
		if chain.GetTransportSocket() != nil {
			log.Printf("listener %s wants TLS, which this gateway lacks", l.GetName())
			return nil
		}
		for _, f := range chain.GetFilters() {
			var m manager.HttpConnectionManager
			if err := f.GetTypedConfig().UnmarshalTo(&m); err != nil {
				return err
			}
			out[l.GetAddress().GetSocketAddress().GetPortValue()] = m.GetRds().GetRouteConfigName()
		}
		return nil
	})
	return out, err
}

func readRoutes(resources []*anypb.Any) (map[string]*route.RouteConfiguration, error) {
	out := map[string]*route.RouteConfiguration{}
	err := decodeAll(resources, func(c *route.RouteConfiguration) error {
		out[c.GetName()] = c
		return nil
	})
	return out, err
}

// decodeAll calls use with each resource.
func decodeAll[T any, M interface {
	*T
	proto.Message
}](resources []*anypb.Any, use func(M) error,
) error {
	for _, r := range resources {
		m := M(new(T))
		if err := r.UnmarshalTo(m); err != nil {
			return err
		}
		if err := use(m); err != nil {
			return err
		}
	}
	return nil
}
