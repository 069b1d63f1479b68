// Copyright Contributors to the Open Cluster Management project

package main

import (
	"fmt"
	"net"
	"os"
	"strconv"

	"sigs.k8s.io/yaml"
)

// origin is the controller that configures the gateway, and the name under which the controller knows the gateway.
type origin struct {
	controller, node, cluster string
}

// xdsCluster is the name of the controller's cluster in the bootstrap configuration of the release.
const xdsCluster = "xds_cluster"

// bootstrap is the part of Envoy's bootstrap configuration that says who configures the gateway.
type bootstrap struct {
	Node struct {
		ID      string `json:"id"`
		Cluster string `json:"cluster"`
	} `json:"node"`
	StaticResources struct {
		Clusters []struct {
			Name           string `json:"name"`
			LoadAssignment struct {
				Endpoints map[string]any `json:"endpoints"`
			} `json:"load_assignment"`
		} `json:"clusters"`
	} `json:"static_resources"`
}

func readBootstrap(file string) (origin, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return origin{}, fmt.Errorf("cannot read the bootstrap configuration: %w", err)
	}
	var b bootstrap
	if err := yaml.Unmarshal(content, &b); err != nil {
		return origin{}, fmt.Errorf("cannot read the bootstrap configuration: %w", err)
	}
	for _, c := range b.StaticResources.Clusters {
		if address := findAddress(c.LoadAssignment.Endpoints); c.Name == xdsCluster && address != "" {
			return origin{controller: address, node: b.Node.ID, cluster: b.Node.Cluster}, nil
		}
	}
	return origin{}, fmt.Errorf("the bootstrap configuration has no address of cluster %q", xdsCluster)
}

// findAddress returns the first socket address of a tree of objects: the release writes single objects where Envoy takes lists.
func findAddress(tree map[string]any) string {
	if address, ok := tree["address"].(string); ok {
		if port, ok := tree["port_value"].(float64); ok {
			return net.JoinHostPort(address, strconv.Itoa(int(port)))
		}
	}
	for _, value := range tree {
		if below, ok := value.(map[string]any); ok {
			if address := findAddress(below); address != "" {
				return address
			}
		}
	}
	return ""
}
