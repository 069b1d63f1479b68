// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"context"
	"fmt"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/boundedhttp"
	"open-cluster-management.io/knative-addon/pkg/clustercache"
	"open-cluster-management.io/knative-addon/pkg/delivery"
	"open-cluster-management.io/knative-addon/pkg/inventory"
)

// stopWorkloads scales the workloads of the installation to zero, and names in waiting the workloads with pods. The pods end while
// their permissions exist: a controller without its permissions cannot release its Leases, and the next installation would
// wait for each Lease to expire.
func (i *Installation) stopWorkloads(ctx context.Context, inv inventory.Items) (waiting string, err error) {
	var mu sync.Mutex
	var running []string
	requests := newRequestBatch(ctx)
	for _, e := range inv.Sorted() {
		if e.Group != "apps" || (e.Kind != "Deployment" && e.Kind != "StatefulSet") {
			continue
		}
		requests.run(func(ctx context.Context) error {
			stopped, err := i.stopWorkload(ctx, &e)
			if clustercache.IsUnavailable(err) {
				return fmt.Errorf("cannot stop %s: %w", e.ID(), err)
			}
			if err == nil && !stopped { // the deletion follows a refusal, too
				mu.Lock()
				defer mu.Unlock()
				running = append(running, e.ID().String())
			}
			return nil
		})
	}
	if err := requests.wait(); err != nil {
		return "", err
	}
	slices.Sort(running)
	if len(running) == 0 {
		return "", nil
	}
	if i.stopBegun.IsZero() {
		i.stopBegun = i.clock.Now()
	}
	if i.clock.Now().Sub(i.stopBegun) >= delivery.LongestStop {
		return "", nil
	}
	return "waiting for the pods of these to end: " + delivery.Listed(running), nil
}

// stopWorkload scales a workload of this installation to zero. stopped reports that the workload has no pods, is gone, is being
// deleted, or belongs to another owner.
func (i *Installation) stopWorkload(ctx context.Context, e *inventory.Item) (stopped bool, err error) {
	ctx, release := boundedhttp.Hold(ctx)
	defer release()
	o, err := i.cluster.Dynamic.Resource(e.GVR()).Namespace(e.Namespace).Get(ctx, e.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		err = i.confirmGone(ctx, e.GVR(), e.Name, err)
		return err == nil, err
	}
	if err != nil {
		return false, err
	}
	if !i.mayRemove(o, e) || o.GetDeletionTimestamp() != nil {
		return true, nil
	}
	if desired, found, _ := unstructured.NestedInt64(o.Object, "spec", "replicas"); !found || desired != 0 {
		patch := fmt.Appendf(nil, `{"metadata":{"uid":%q},"spec":{"replicas":0}}`, o.GetUID())
		_, err := i.cluster.Metadata.Resource(e.GVR()).Namespace(e.Namespace).Patch(ctx, e.Name, types.MergePatchType, patch,
			metav1.PatchOptions{FieldManager: clustercache.FieldManager})
		if err != nil {
			return false, err
		}
	}
	pods, _, _ := unstructured.NestedInt64(o.Object, "status", "replicas")
	ending, _, _ := unstructured.NestedInt64(o.Object, "status", "terminatingReplicas") // not among the replicas of a Deployment
	return pods+ending == 0, nil
}

// mayRemove reports whether the object is the item of this installation: any user of the cluster may edit the inventory.
func (i *Installation) mayRemove(o metav1.Object, e *inventory.Item) bool {
	isItem := e.UID == "" || o.GetUID() == e.UID
	return isItem && o.GetLabels()[api.ComponentLabel] == string(i.owner.Component) && o.GetAnnotations()[inventory.KeepAnnotation] == ""
}
