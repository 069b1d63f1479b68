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

// anchors are those which say that the cluster has the component for this resource, and for others, in whichever namespace:
// most of a component is there once in a cluster.
func (i *Installation) anchors(ctx context.Context) (own, rivals []corev1.ConfigMap, err error) {
	anchors, err := i.cluster.kube.CoreV1().ConfigMaps(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		LabelSelector: api.ComponentLabel + "=" + string(i.owner.Component),
	})
	if err != nil {
		return nil, nil, fmt.Errorf("cannot list ConfigMaps: %w", err)
	}
	for _, m := range anchors.Items {
		owner := m.Annotations[api.InstalledForAnnotation]
		switch {
		case m.Annotations[anchorAnnotation] != "true", owner == "":
		case i.sameHub(&m) && owner == i.owner.Name.String():
			own = append(own, m)
		default:
			rivals = append(rivals, m)
		}
	}
	return own, rivals, nil
}

func (i *Installation) sameHub(m *corev1.ConfigMap) bool {
	return m.Annotations[api.HubAnnotation] == string(i.owner.Hub)
}

func (i *Installation) rivalError(m *corev1.ConfigMap) error {
	return &RivalError{Owner: m.Annotations[api.InstalledForAnnotation], SameHub: i.sameHub(m)}
}

// elsewhere is the resource's own anchor in whichever namespace, nil when there is none. It fails with a *RivalError when there is
// a rival.
func (i *Installation) elsewhere(ctx context.Context) (*anchor, error) {
	own, rivals, err := i.anchors(ctx)
	switch {
	case err != nil:
		return nil, err
	case len(rivals) > 0:
		return nil, i.rivalError(&rivals[0])
	case len(own) > 0:
		return i.anchorOf(&own[0])
	}
	return nil, nil
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
	_, rivals, err := i.anchors(ctx)
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
	a, err := i.elsewhere(ctx)
	if err != nil {
		return err
	}
	if a != nil && a.Namespace != b.Namespace {
		return &BlockedError{Err: fmt.Errorf(
			"cannot install in namespace %q of the cluster: it is installed in namespace %q, and stays there; set annotation %s back, or delete the resource and make it anew",
			b.Namespace, a.Namespace, api.InstallNamespaceAnnotation)}
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
