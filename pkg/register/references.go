// Copyright Contributors to the Open Cluster Management project

package register

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterinventoryv1alpha1 "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/message"
	"open-cluster-management.io/knative-addon/pkg/target"
)

func profileResource() schema.GroupVersionResource {
	return clusterinventoryv1alpha1.GroupVersion.WithResource("clusterprofiles")
}

// ListReferring returns the KnativeServings and KnativeEventings of the hub that refer to a ClusterProfile, and none for a hub
// without these kinds.
func ListReferring(ctx context.Context, hub *Cluster, profile types.NamespacedName) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	for _, component := range api.Components() {
		list, err := hub.Dynamic.Resource(component.Resource()).List(ctx, metav1.ListOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, hub.explain(fmt.Sprintf("list %ss", component.Kind()), err)
		}
		for i := range list.Items {
			if ref, ok := target.ReferenceOf(&list.Items[i]); ok && ref == profile {
				out = append(out, &list.Items[i])
			}
		}
	}
	return out, nil
}

// resolvedPeriod is how long the condition has to be True: at first the condition is of the ClusterProfile before the registration.
const resolvedPeriod = 5 * time.Second

// AwaitResolved waits until TargetClusterResolved of every resource that refers to the ClusterProfile is True, and stays True for
// resolvedPeriod, and returns descriptions of these resources. The error names the other resources with reason and message.
func AwaitResolved(ctx context.Context, hub *Cluster, profile types.NamespacedName, timeout time.Duration) ([]string, error) {
	var resolved []string
	var since time.Time
	err := await(ctx, timeout, func(ctx context.Context) error {
		referring, err := ListReferring(ctx, hub, profile)
		if err != nil {
			return err
		}
		var waiting []string
		resolved = nil
		for _, o := range referring {
			if problem := explainUnresolved(o); problem != "" {
				waiting = append(waiting, describe(o)+": "+problem)
				continue
			}
			resolved = append(resolved, describe(o))
		}
		switch {
		case len(waiting) > 0:
			since = time.Time{}
			return fmt.Errorf("condition %s is not True after %s:\n  %s", api.TargetClusterResolved, timeout, strings.Join(waiting, "\n  "))
		case len(resolved) == 0:
			return nil
		case since.IsZero():
			since = time.Now()
		}
		if time.Since(since) < resolvedPeriod {
			return fmt.Errorf("condition %s was not True for %s within %s: run the command again with a longer --timeout", api.TargetClusterResolved, resolvedPeriod, timeout)
		}
		return nil
	})
	return resolved, err
}

// explainUnresolved returns reason and message of a resource that is not resolved, and an empty text for a resolved resource.
func explainUnresolved(o *unstructured.Unstructured) string {
	c := findCondition(o, api.TargetClusterResolved)
	switch {
	case c == nil:
		return "the manager has not written the condition: check that the manager runs (kubectl get deployments --all-namespaces)"
	case c.Status == metav1.ConditionTrue:
		return ""
	}
	return c.Reason + ": " + message.OneLine(c.Message, message.MaxNote)
}

// findCondition returns a condition of an object's status, or nil.
func findCondition(o *unstructured.Unstructured, conditionType string) *metav1.Condition {
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	i := slices.IndexFunc(list, func(c any) bool {
		fields, isMap := c.(map[string]any)
		return isMap && fields["type"] == conditionType
	})
	if i < 0 {
		return nil
	}
	var out metav1.Condition
	if runtime.DefaultUnstructuredConverter.FromUnstructured(list[i].(map[string]any), &out) != nil {
		return nil
	}
	return &out
}
