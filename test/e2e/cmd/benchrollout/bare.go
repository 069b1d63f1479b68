// Copyright Contributors to the Open Cluster Management project

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workclient "open-cluster-management.io/api/client/work/clientset/versioned"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
	"open-cluster-management.io/knative-addon/test/e2e/harness/played"
)

// The manager's defaults of --kube-api-qps and --kube-api-burst.
const (
	managerQPS   = 100
	managerBurst = 200
)

// goal is the bound that a comparison with the bare client has, if any.
type goal int

const (
	toKnow goal = iota
	atMost
	atLeast
)

// bareSet selects the works that the bare client copies into one work on each cluster.
type bareSet struct {
	name, what string
	goal       goal
	// has reports whether the set has a copy of a work of the manager.
	has func(w *workv1.ManifestWork) bool
}

func bareSets() [3]bareSet {
	serving := func(w *workv1.ManifestWork) bool {
		return w.Labels[addonv1beta1.AddonLabelKey] == api.Serving.AddOnName() || w.Labels[api.FoundationLabel] == api.Serving.AddOnName()
	}
	return [3]bareSet{
		{
			name: "same", what: "the same works", goal: atMost,
			has: func(w *workv1.ManifestWork) bool {
				return w.Labels[addonv1beta1.AddonLabelKey] == api.Serving.AddOnName()
			},
		},
		{name: "serving", what: "all of Serving as one work", goal: toKnow, has: serving},
		{name: "whole", what: "the whole installation as one work", goal: atLeast, has: func(*workv1.ManifestWork) bool { return true }},
	}
}

// bare writes works that belong to no add-on: the manager and OCM's add-on manager ignore these works, and the played agents apply the works
// like others. bare sends merge patches, as addon-framework does, for several clusters at a time, with the manager's limits of requests.
type bare struct {
	*fleet

	set    bareSet
	client workclient.Interface
	// value is the value of the edited line in the manifests of spec.
	value []byte
	spec  workv1.ManifestWorkSpec
}

// newBare creates the works of a set on all clusters.
func (f *fleet) newBare(ctx context.Context, set bareSet) (*bare, error) {
	config := rest.CopyConfig(f.Hub.Config)
	config.QPS, config.Burst = managerQPS, managerBurst
	client, err := workclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("cannot create a client for the hub: %w", err)
	}
	b := &bare{fleet: f, set: set, client: client, value: f.line}
	list, err := f.Works.WorkV1().ManifestWorks(f.clusters[0]).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("cannot list the works of %s: %w", f.clusters[0], err)
	}
	size := 0
	for i := range list.Items {
		w := &list.Items[i]
		if !set.has(w) || harness.IsGate(w) {
			continue
		}
		b.spec.Workload.Manifests = append(b.spec.Workload.Manifests, w.Spec.Workload.Manifests...)
		b.spec.ManifestConfigs = append(b.spec.ManifestConfigs, w.Spec.ManifestConfigs...)
		for _, m := range w.Spec.Workload.Manifests {
			size += len(m.Raw)
		}
	}
	progress("bare client: %s, %d manifests and %d kB", set.what, len(b.spec.Workload.Manifests), size/1000)
	return b, played.ForEachCluster(ctx, b.clusters, func(ctx context.Context, cluster string) error {
		err := retryRequest(func() error {
			_, err := b.client.WorkV1().ManifestWorks(cluster).Create(ctx, &workv1.ManifestWork{
				// With the finalizer, the agents write each work once less.
				ObjectMeta: metav1.ObjectMeta{Name: b.name(), Finalizers: []string{workv1.ManifestWorkFinalizer}}, Spec: b.spec,
			}, metav1.CreateOptions{})
			return err
		})
		if err != nil && !apierrors.IsAlreadyExists(err) { // a request without an answer may have succeeded
			return fmt.Errorf("cannot create ManifestWork %s/%s: %w", cluster, b.name(), err)
		}
		return nil
	})
}

func (b *bare) name() string { return "bench-" + b.set.name }

// bareEdit has the durations of an edit of all works, until the last work was written and until the last agent had reported its work as applied, and
// the CPU of the edit.
type bareEdit struct {
	written, applied time.Duration
	shares           cpuShares
}

// edit changes the line in the works of some clusters.
func (b *bare) edit(ctx context.Context, clusters []string) (out bareEdit, err error) {
	if err := b.calm(ctx); err != nil {
		return out, err
	}
	old := b.value
	b.value = b.values.next()
	for i, m := range b.spec.Workload.Manifests {
		b.spec.Workload.Manifests[i] = workv1.Manifest{RawExtension: runtime.RawExtension{Raw: bytes.ReplaceAll(m.Raw, old, b.value)}}
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"annotations": map[string]string{workv1.ManifestConfigSpecHashAnnotationKey: string(b.value)}},
		"spec":     map[string]any{"workload": b.spec.Workload},
	})
	if err != nil {
		return out, fmt.Errorf("cannot encode a patch: %w", err)
	}
	before, err := b.usage()
	if err != nil {
		return out, err
	}
	written := expect("works of the bare client with the edit", len(clusters))
	applied := expect("works of the bare client with the edit that the agents have applied", len(clusters))
	defer b.agents.AddWatcher(func(w *workv1.ManifestWork) {
		if w.Name != b.name() || !carries(w, b.value) {
			return
		}
		written.see(w.Namespace)
		if played.HasApplied(w) {
			applied.see(w.Namespace)
		}
	})()
	err = played.ForEachCluster(ctx, clusters, func(ctx context.Context, cluster string) error {
		err := retryRequest(func() error {
			_, err := b.client.WorkV1().ManifestWorks(cluster).Patch(ctx, b.name(), types.MergePatchType, patch, metav1.PatchOptions{})
			return err
		})
		if err != nil {
			return fmt.Errorf("cannot edit ManifestWork %s/%s: %w", cluster, b.name(), err)
		}
		return nil
	})
	if err != nil {
		return out, err
	}
	if out.written, err = written.wait(ctx); err != nil {
		return out, err
	}
	if out.applied, err = applied.wait(ctx); err != nil {
		return out, err
	}
	if err := b.calm(ctx); err != nil {
		return out, err
	}
	used, err := b.usedSince(before)
	out.shares = used.shares()
	progress("bare client: %s are written after %.2f s, and applied after %.2f s; %s", b.set.what, out.written.Seconds(), out.applied.Seconds(), used)
	return out, err
}

// remove deletes the works.
func (b *bare) remove(ctx context.Context) error {
	return played.ForEachCluster(ctx, b.clusters, func(ctx context.Context, cluster string) error {
		err := retryRequest(func() error {
			return b.client.WorkV1().ManifestWorks(cluster).Delete(ctx, b.name(), metav1.DeleteOptions{})
		})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("cannot delete ManifestWork %s/%s: %w", cluster, b.name(), err)
		}
		return nil
	})
}

// retryRequest sends a request again that a busy hub did not serve, as a controller does. A request that the hub refuses is not repeated.
func retryRequest(request func() error) error {
	backoff := wait.Backoff{Steps: 6, Duration: time.Second, Factor: 2}
	return retry.OnError(backoff, func(err error) bool {
		return apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err) || apierrors.IsInternalError(err) ||
			apierrors.ReasonForError(err) == metav1.StatusReasonUnknown // no answer
	}, request)
}
