// Copyright Contributors to the Open Cluster Management project

//go:build tools

package main

// The programs of a real node come from this module too.
import (
	_ "k8s.io/kubernetes/cmd/kube-proxy"
	_ "k8s.io/kubernetes/cmd/kubelet"
)
