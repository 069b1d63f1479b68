// Copyright Contributors to the Open Cluster Management project

package knative

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"open-cluster-management.io/knative-addon/pkg/hub"
)

// patchConfig changes a resource and returns the stored resource. The patch fails with a conflict when the resource is not the
// object that the caller read.
func patchConfig(
	ctx context.Context, resources dynamic.NamespaceableResourceInterface, config *unstructured.Unstructured,
	change func(*unstructured.Unstructured), subresources ...string,
) (*unstructured.Unstructured, error) {
	return hub.Patch(ctx, resources.Namespace(config.GetNamespace()), config, change, subresources...)
}
