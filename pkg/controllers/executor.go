// Copyright Contributors to the Open Cluster Management project

package controllers

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	workclient "open-cluster-management.io/api/client/work/clientset/versioned"
	workv1client "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/hub"
)

// newExecutingClient returns the client for addon-framework, which does not support executors: the framework creates works without an
// executor, and the framework's merge patch removes the executor of a work. The client gives new works the configured
// executor, and keeps the executor that a work has.
func newExecutingClient(client workclient.Interface, executor *workv1.ManifestWorkExecutor) workclient.Interface {
	return hub.WrapWorks(client, func(_ string, works workv1client.ManifestWorkInterface) workv1client.ManifestWorkInterface {
		return &executingWorks{works, executor}
	})
}

type executingWorks struct {
	workv1client.ManifestWorkInterface

	executor *workv1.ManifestWorkExecutor
}

// Create implements workv1client.ManifestWorkInterface.
func (w *executingWorks) Create(ctx context.Context, made *workv1.ManifestWork, options metav1.CreateOptions) (*workv1.ManifestWork, error) {
	if manifestwork.LacksExecutor(made, w.executor) {
		made = made.DeepCopy()
		made.Spec.Executor = w.executor.DeepCopy()
	}
	return w.ManifestWorkInterface.Create(ctx, made, options)
}

// Patch implements workv1client.ManifestWorkInterface.
func (w *executingWorks) Patch( //nolint:revive // the interface has as many arguments
	ctx context.Context, name string, kind types.PatchType, data []byte, options metav1.PatchOptions, subresources ...string,
) (*workv1.ManifestWork, error) {
	if kind == types.MergePatchType && len(subresources) == 0 {
		var err error
		if data, err = keepExecutor(data, w.executor); err != nil {
			return nil, fmt.Errorf("cannot read a patch of ManifestWork %q: %w", name, err)
		}
	}
	return w.ManifestWorkInterface.Patch(ctx, name, kind, data, options, subresources...)
}

// keepExecutor drops the removal of an executor from a merge patch. A patch without such a removal is for a work without an
// executor: the work gets the configured executor.
func keepExecutor(patch []byte, configured *workv1.ManifestWorkExecutor) ([]byte, error) {
	var object, spec map[string]json.RawMessage
	if err := json.Unmarshal(patch, &object); err != nil {
		return nil, err
	}
	if raw := object["spec"]; len(raw) > 0 {
		if err := json.Unmarshal(raw, &spec); err != nil {
			return nil, err
		}
	}
	const field = "executor"
	_, removes := spec[field]
	switch {
	case removes:
		delete(spec, field)
	case configured == nil:
		return patch, nil
	default:
		if spec == nil {
			spec = map[string]json.RawMessage{}
		}
		raw, err := json.Marshal(configured)
		if err != nil {
			return nil, err
		}
		spec[field] = raw
	}
	delete(object, "spec")
	if len(spec) > 0 {
		raw, err := json.Marshal(spec)
		if err != nil {
			return nil, err
		}
		object["spec"] = raw
	}
	return json.Marshal(object)
}
