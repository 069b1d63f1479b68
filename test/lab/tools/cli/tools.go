// Copyright Contributors to the Open Cluster Management project

//go:build tools

package tools

import (
	_ "helm.sh/helm/v3/cmd/helm"

	_ "open-cluster-management.io/clusteradm/cmd/clusteradm"
)
