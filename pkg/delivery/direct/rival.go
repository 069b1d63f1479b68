// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// rivals are the anchors which say that the cluster has the component for other resources, in whichever namespace: most of
// a component is there once in a cluster.
func (i *Installation) rivals(ctx context.Context) ([]corev1.ConfigMap, error) {
	anchors, err := i.cluster.kube.CoreV1().ConfigMaps(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		LabelSelector: api.ComponentLabel + "=" + string(i.owner.Component),
	})
	if err != nil {
		return nil, fmt.Errorf("cannot list ConfigMaps: %w", err)
	}
	return slices.DeleteFunc(anchors.Items, func(m corev1.ConfigMap) bool {
		owner := m.Annotations[api.InstalledForAnnotation]
		return m.Annotations[anchorAnnotation] != "true" || owner == "" || i.sameHub(&m) && owner == i.owner.Name.String()
	}), nil
}

func (i *Installation) sameHub(m *corev1.ConfigMap) bool {
	return m.Annotations[api.HubAnnotation] == string(i.owner.Hub)
}

func (i *Installation) rivalError(m *corev1.ConfigMap) error {
	return &RivalError{Owner: m.Annotations[api.InstalledForAnnotation], SameHub: i.sameHub(m)}
}

// checkRival fails with a *RivalError when there is a rival.
func (i *Installation) checkRival(ctx context.Context) error {
	rivals, err := i.rivals(ctx)
	if err != nil || len(rivals) == 0 {
		return err
	}
	return i.rivalError(&rivals[0])
}

// isClaim tells that an anchor was made and never written since: nothing can be installed yet.
func isClaim(m *corev1.ConfigMap) bool {
	text, there := m.Data[inventoryKey]
	return there && text == ""
}

// confirm looks for rivals once more where nothing is installed yet. Whoever came at the same moment, through another
// connection, has found the cluster free too. The anchor that was made first stays, and the other one is withdrawn with a
// *RivalError. Times are too coarse to tell which was first; the resource version of a claim is exact.
func (i *Installation) confirm(ctx context.Context, a *anchor) error {
	if !isClaim(a.ConfigMap) {
		return nil
	}
	rivals, err := i.rivals(ctx)
	if err != nil {
		return err
	}
	for _, m := range rivals {
		if isClaim(&m) && older(a.ResourceVersion, m.ResourceVersion) {
			continue // it sees ours, and withdraws
		}
		refused, err := i.deleteAnchor(ctx, a)
		if err != nil {
			return err
		}
		if refused != "" {
			return &BlockedError{Err: fmt.Errorf("cannot leave the cluster to %s: %s", m.Annotations[api.InstalledForAnnotation], refused)}
		}
		return i.rivalError(&m)
	}
	return nil
}

// checkFree fails when the cluster has the component already, where no anchor of ours says that it is ours.
func (i *Installation) checkFree(ctx context.Context, b *render.Bundle) error {
	if err := i.checkRival(ctx); err != nil {
		return err
	}
	var foreign []string
	for _, resource := range []string{"deployments", "statefulsets"} {
		gvr := appsV1(resource)
		list, err := i.cluster.metadata.Resource(gvr).Namespace(b.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "!" + api.ComponentLabel})
		if err != nil {
			return fmt.Errorf("cannot list %s of namespace %q: %w", resource, b.Namespace, err)
		}
		for _, o := range list.Items {
			if w := slices.IndexFunc(b.Workloads, func(w render.Workload) bool {
				return appsV1(resource) == workloadResource(w) && w.Namespace == o.Namespace && w.Name == o.Name
			}); w >= 0 {
				foreign = append(foreign, fmt.Sprintf("%s %s/%s", b.Workloads[w].Kind, o.Namespace, o.Name))
			}
		}
	}
	if len(foreign) > 0 {
		slices.Sort(foreign)
		return &ForeignError{Objects: foreign}
	}
	return nil
}
