// Copyright Contributors to the Open Cluster Management project

//go:build tools

// Package tools pins the KWOK program that the lab runs.
package tools

import _ "sigs.k8s.io/kwok/cmd/kwok"
