// Copyright Contributors to the Open Cluster Management project

//go:build tools

package main

// The stock programs of both add-ons come from this module too.
import (
	_ "open-cluster-management.io/cluster-proxy/cmd/addon-agent"
	_ "open-cluster-management.io/cluster-proxy/cmd/addon-manager"
	_ "open-cluster-management.io/managed-serviceaccount/cmd"
	_ "open-cluster-management.io/managed-serviceaccount/cmd/clusterprofile-credentials-plugin"
)
