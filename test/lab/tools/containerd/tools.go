// Copyright Contributors to the Open Cluster Management project

//go:build tools

// Package tools pins the container runtime of the lab's real nodes.
package tools

import (
	_ "github.com/containerd/containerd/v2/cmd/containerd"
	_ "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2"
	_ "github.com/containerd/containerd/v2/cmd/ctr"
)
