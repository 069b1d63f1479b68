// Copyright Contributors to the Open Cluster Management project

package harness

import (
	"context"
	"fmt"
	"path/filepath"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"open-cluster-management.io/knative-addon/test/lab"
)

// TenantAccount is the ServiceAccount of every tenant, in the namespace of the tenant.
const TenantAccount = "mallory"

// tenantManifests are the account of a tenant and its permissions: resources of Knative and ClusterProfiles of one
// namespace, and nothing else.
const tenantManifests = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: %[2]s, namespace: %[1]s}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: %[2]s, namespace: %[1]s}
rules:
- {apiGroups: [operator.knative.dev], resources: [knativeservings, knativeeventings], verbs: ["*"]}
- {apiGroups: [multicluster.x-k8s.io], resources: [clusterprofiles, clusterprofiles/status], verbs: ["*"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: %[2]s, namespace: %[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: %[2]s}
subjects: [{kind: ServiceAccount, name: %[2]s, namespace: %[1]s}]
`

// Tenant creates a namespace of a tenant and returns a configuration with the token of the tenant, who may write
// KnativeServings, KnativeEventings and ClusterProfiles of that namespace.
func (f *Fleet) Tenant(ctx context.Context, namespace string) (*rest.Config, error) {
	for _, manifests := range [][]byte{ // objects of one stream are applied at the same time
		fmt.Appendf(nil, "{apiVersion: v1, kind: Namespace, metadata: {name: %s}}", namespace),
		fmt.Appendf(nil, tenantManifests, namespace, TenantAccount),
	} {
		if err := f.Hub.Apply(ctx, manifests); err != nil {
			return nil, fmt.Errorf("cannot create tenant %q: %w", namespace, err)
		}
	}
	file, err := f.Hub.ServiceAccountKubeconfig(ctx, namespace, TenantAccount)
	if err != nil {
		return nil, err
	}
	return configOf(file)
}

// Klusterlet returns a configuration with the certificate that OCM's agent of a managed cluster has on the hub.
func (f *Fleet) Klusterlet(c *lab.Cluster) (*rest.Config, error) {
	return configOf(filepath.Join(filepath.Dir(c.Kubeconfig), "hub-kubeconfig", "kubeconfig"))
}

// Account returns a configuration with the token of a ServiceAccount of the chart.
func (f *Fleet) Account(ctx context.Context, name string) (*rest.Config, error) {
	file, err := f.Hub.ServiceAccountKubeconfig(ctx, Namespace, name)
	if err != nil {
		return nil, err
	}
	return configOf(file)
}

func configOf(kubeconfig string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("cannot read kubeconfig %q: %w", kubeconfig, err)
	}
	config.QPS = -1
	return config, nil
}
