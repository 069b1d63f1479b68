// Copyright Contributors to the Open Cluster Management project

package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
)

const (
	namespace = "bench"
	workload  = "autoscaler"
)

// poll is how often a state is looked at: the error of every figure.
const poll = 20 * time.Millisecond

// until polls until done is true, and tells how long that took since start.
func until(ctx context.Context, start time.Time, what string, done func() (bool, error)) (time.Duration, error) {
	var last error
	for {
		ok, err := done()
		if ok && err == nil {
			return time.Since(start), nil
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("%s: %w (%w)", what, ctx.Err(), last)
		case <-time.After(poll):
		}
	}
}

// prepare has OCM publish the ClusterProfiles.
func (b *bench) prepare(ctx context.Context) error {
	if _, err := b.Command(ctx, "kubectl", "create", "namespace", namespace); err != nil {
		return err
	}
	if _, err := b.Command(ctx, "clusteradm", "clusterset", "bind", "default", "--namespace", namespace); err != nil {
		return err
	}
	_, err := until(ctx, time.Now(), "ClusterProfile", func() (bool, error) {
		_, err := b.Command(ctx, "kubectl", "get", "clusterprofile", "--namespace", namespace, b.our.Name)
		return err == nil, err
	})
	return err
}

// install creates a KnativeServing and waits until all its objects are applied.
func (b *bench) install(ctx context.Context) (time.Duration, error) {
	start := time.Now()
	_, err := b.hub.Resource(api.Serving.Resource()).Namespace(namespace).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": api.Group + "/v1beta1", "kind": api.Serving.Kind(), "metadata": map[string]any{"name": workloadOwner},
		"spec": map[string]any{
			"version": "1.23", "clusterProfileRef": map[string]any{"namespace": namespace, "name": b.our.Name},
			"ingress": map[string]any{"kourier": map[string]any{"enabled": true}},
			"config":  map[string]any{"network": map[string]any{"ingress-class": "kourier.ingress.networking.knative.dev"}},
		},
	}}, metav1.CreateOptions{})
	if err != nil {
		return 0, err
	}
	return until(ctx, start, "all objects applied", func() (bool, error) {
		works, err := b.ComponentWorks(ctx, api.Serving, b.our.Name)
		if err != nil || !slices.ContainsFunc(works, isPayload) {
			return false, err
		}
		for i := range works {
			if applied, why := manifestwork.Applied(&works[i]); !applied {
				return false, fmt.Errorf("%w: %s: %s", errNotYet, works[i].Name, why)
			}
		}
		return true, nil
	})
}

// isPayload reports whether a work has the workloads: the payload follows all other works.
func isPayload(work workv1.ManifestWork) bool { return work.Labels[api.FoundationLabel] == "" }

const workloadOwner = "serving"

// installBare creates one ManifestWork with all objects of the KnativeServing on the other cluster.
func (b *bench) installBare(ctx context.Context) (took time.Duration, objects int, err error) {
	works, err := b.ComponentWorks(ctx, api.Serving, b.our.Name)
	if err != nil {
		return 0, 0, err
	}
	bare := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: b.bare.Name, Name: "bare"}}
	for _, w := range works {
		if w.Name == manifestwork.GateName(api.Serving) || w.Name == manifestwork.ProbeName(api.Serving) {
			continue // a bare ManifestWork has neither rollouts nor a search for other installations
		}
		bare.Spec.Workload.Manifests = append(bare.Spec.Workload.Manifests, w.Spec.Workload.Manifests...)
		bare.Spec.ManifestConfigs = append(bare.Spec.ManifestConfigs, w.Spec.ManifestConfigs...)
	}
	client, start := b.Works.WorkV1().ManifestWorks(b.bare.Name), time.Now()
	if _, err := client.Create(ctx, bare, metav1.CreateOptions{}); err != nil {
		return 0, 0, err
	}
	took, err = until(ctx, start, "the bare ManifestWork applied", func() (bool, error) {
		w, err := client.Get(ctx, bare.Name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		applied, why := manifestwork.Applied(w)
		if !applied {
			return false, fmt.Errorf("%w: %s", errNotYet, why)
		}
		return true, nil
	})
	return took, len(bare.Spec.Workload.Manifests), err
}

// settle is how long the cluster rests before the benchmark changes an object by hand: a change that is still under way would
// trigger the agent too.
const settle = 30 * time.Second

// calm waits until the KnativeServing is Ready, and then lets the cluster settle.
func (b *bench) calm(ctx context.Context) error {
	if _, err := b.ready(ctx, time.Now(), metav1.ConditionTrue); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(settle):
		return nil
	}
}

// ready waits until the KnativeServing's condition Ready is what is wanted.
func (b *bench) ready(ctx context.Context, start time.Time, want metav1.ConditionStatus) (time.Duration, error) {
	return until(ctx, start, "Ready="+string(want), func() (bool, error) {
		u, err := b.hub.Resource(api.Serving.Resource()).Namespace(namespace).Get(ctx, workloadOwner, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		conditions, _, err := unstructured.NestedSlice(u.Object, "status", "conditions")
		for _, o := range conditions {
			if c, ok := o.(map[string]any); ok && c["type"] == api.Ready {
				return c["status"] == string(want), nil
			}
		}
		return false, err
	})
}

func (b *bench) repairDeleted(ctx context.Context, name string) (time.Duration, error) {
	if err := b.calm(ctx); err != nil {
		return 0, err
	}
	deployments := b.spoke.AppsV1().Deployments("knative-serving")
	before, err := deployments.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return 0, err
	}
	start := time.Now()
	if err := deployments.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return 0, err
	}
	return until(ctx, start, "the Deployment is back", func() (bool, error) {
		d, err := deployments.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil && d.UID != before.UID, err
	})
}

func (b *bench) repairScaled(ctx context.Context) (time.Duration, error) {
	if err := b.calm(ctx); err != nil {
		return 0, err
	}
	deployments := b.spoke.AppsV1().Deployments("knative-serving")
	start := time.Now()
	if _, err := deployments.Patch(ctx, workload, types.MergePatchType, []byte(`{"spec":{"replicas":0}}`), metav1.PatchOptions{}); err != nil {
		return 0, err
	}
	return until(ctx, start, "the Deployment is scaled back", func() (bool, error) {
		d, err := deployments.Get(ctx, workload, metav1.GetOptions{})
		return err == nil && *d.Spec.Replicas == 1, err
	})
}

// noticeUnavailable takes the cluster's nodes away from new pods and deletes the pod of a workload.
func (b *bench) noticeUnavailable(ctx context.Context) (took time.Duration, err error) {
	if err := b.calm(ctx); err != nil {
		return 0, err
	}
	if err := b.cordon(ctx, true); err != nil {
		return 0, err
	}
	err = b.spoke.CoreV1().Pods("knative-serving").DeleteCollection(ctx,
		metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}, metav1.ListOptions{LabelSelector: "app=" + workload})
	if err != nil {
		return 0, err
	}
	_, err = until(ctx, time.Now(), "the Deployment is unavailable", func() (bool, error) {
		d, err := b.spoke.AppsV1().Deployments("knative-serving").Get(ctx, workload, metav1.GetOptions{})
		return err == nil && d.Status.AvailableReplicas == 0, err
	})
	if err != nil {
		return 0, err
	}
	if took, err = b.ready(ctx, time.Now(), metav1.ConditionFalse); err != nil {
		return 0, err
	}
	return took, b.cordon(ctx, false)
}

func (b *bench) cordon(ctx context.Context, on bool) error {
	nodes, err := b.spoke.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	return apimeta.EachListItem(nodes, func(o runtime.Object) error {
		n, err := apimeta.Accessor(o)
		if err != nil {
			return err
		}
		patch := fmt.Sprintf(`{"spec":{"unschedulable":%t}}`, on)
		_, err = b.spoke.CoreV1().Nodes().Patch(ctx, n.GetName(), types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	})
}
