// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

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
	var foreign, applied, by []string
	for _, resource := range []string{"deployments", "statefulsets"} {
		found, err := i.foreignWorkloads(ctx, b, appsV1(resource))
		if err != nil {
			return err
		}
		for _, w := range found {
			foreign = append(foreign, w.text)
			if w.appliedBy != "" {
				applied, by = append(applied, w.text), append(by, w.appliedBy)
			}
		}
	}
	slices.Sort(foreign)
	slices.Sort(applied)
	switch {
	case len(applied) > 0:
		return &RivalError{Owner: "AppliedManifestWork " + slices.Min(by), WorkAgent: true, Objects: applied}
	case len(foreign) > 0:
		return &ForeignError{Objects: foreign}
	}
	return nil
}

// foreignWorkload is a workload of the component that is not ours.
type foreignWorkload struct {
	text string
	// appliedBy is the AppliedManifestWork that it belongs to, empty when no work agent has applied it.
	appliedBy string
}

// foreignWorkloads are those that have the place of one of the bundle, and those that are like one of it in any other
// namespace.
func (i *Installation) foreignWorkloads(ctx context.Context, b *render.Bundle, gvr schema.GroupVersionResource) ([]foreignWorkload, error) {
	const notOurs = "!" + api.ComponentLabel
	var out []foreignWorkload
	for namespace, selector := range map[string]string{
		b.Namespace:         notOurs,
		metav1.NamespaceAll: notOurs + ",app.kubernetes.io/name=" + string(b.Component), // on every workload of Knative
	} {
		list, err := i.cluster.metadata.Resource(gvr).Namespace(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return nil, fmt.Errorf("cannot list %s of namespace %q: %w", gvr.Resource, namespace, err)
		}
		for _, o := range list.Items {
			w := slices.IndexFunc(b.Workloads, func(w render.Workload) bool { return gvr == workloadResource(w) && w.Name == o.Name })
			if w < 0 || namespace == metav1.NamespaceAll && o.Namespace == b.Namespace {
				continue
			}
			found := foreignWorkload{text: fmt.Sprintf("%s %s/%s", b.Workloads[w].Kind, o.Namespace, o.Name)}
			found.appliedBy = appliedByAgent(o.OwnerReferences)
			out = append(out, found)
		}
	}
	return out, nil
}

// appliedByAgent is the AppliedManifestWork among the owners of an object, empty when no work agent has applied it.
func appliedByAgent(owners []metav1.OwnerReference) string {
	i := slices.IndexFunc(owners, func(r metav1.OwnerReference) bool { return r.Kind == "AppliedManifestWork" })
	if i < 0 {
		return ""
	}
	return owners[i].Name
}
