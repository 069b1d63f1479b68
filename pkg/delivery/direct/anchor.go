// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// inventoryKey is the anchor's key that holds the inventory.
const inventoryKey = "inventory"

// anchor is the record of an installation on its cluster.
type anchor struct {
	*corev1.ConfigMap
	inventory inventory
}

// readAnchor reads the anchor; nil when there is none. It fails with a *RivalError when it is somebody else's, and with a
// *ForeignError when nobody says whose it is.
func (i *Installation) readAnchor(ctx context.Context, namespace string) (*anchor, error) {
	name, err := i.owner.AnchorName()
	if err != nil {
		return nil, err
	}
	m, err := i.cluster.kube.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot get ConfigMap \"%s/%s\": %w", namespace, name, err)
	}
	return i.anchorOf(m)
}

func (i *Installation) anchorOf(m *corev1.ConfigMap) (*anchor, error) {
	owner := m.Annotations[api.InstalledForAnnotation]
	switch owner {
	case "":
		return nil, &ForeignError{Objects: []string{fmt.Sprintf("ConfigMap %s/%s", m.Namespace, m.Name)}}
	case i.owner.Name.String():
	default:
		return nil, i.rivalError(m)
	}
	inv, err := decode(m.Data[inventoryKey])
	if !i.sameHub(m) {
		rival := &RivalError{Owner: owner}
		if err == nil {
			rival.left = &anchor{ConfigMap: m, inventory: inv}
		}
		return nil, rival
	}
	if err != nil {
		return nil, &BlockedError{Err: fmt.Errorf("cannot read key %s of ConfigMap \"%s/%s\", which records what is installed: %w; delete the key to have it made anew",
			inventoryKey, m.Namespace, m.Name, err)}
	}
	return &anchor{ConfigMap: m, inventory: inv}, nil
}

// adoptAnchor takes over an anchor that nobody has signed, such as one of the Knative Operator. What it owns stays.
func (i *Installation) adoptAnchor(ctx context.Context, namespace string) (*anchor, error) {
	name, err := i.owner.AnchorName()
	if err != nil {
		return nil, err
	}
	m, err := i.cluster.kube.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("cannot get ConfigMap \"%s/%s\": %w", namespace, name, err)
	}
	return &anchor{ConfigMap: m, inventory: inventory{}}, nil
}

// writeAnchor records an inventory, and for which version it is. It is a no-op where that is recorded already.
func (i *Installation) writeAnchor(ctx context.Context, b *render.Bundle, a *anchor, inv inventory) (*anchor, error) {
	text, err := inv.encode()
	if err != nil {
		return nil, err
	}
	want := a.DeepCopy()
	if err := i.describeAnchor(want, b); err != nil {
		return nil, err
	}
	want.Data = map[string]string{inventoryKey: text}
	client := i.cluster.kube.CoreV1().ConfigMaps(b.Namespace)
	switch {
	case a.UID == "":
		want, err = client.Create(ctx, want, metav1.CreateOptions{FieldManager: fieldManager})
	case maps.Equal(a.Data, want.Data) && maps.Equal(a.Labels, want.Labels) && maps.Equal(a.Annotations, want.Annotations):
		return &anchor{ConfigMap: a.ConfigMap, inventory: inv}, nil
	default:
		want, err = client.Update(ctx, want, metav1.UpdateOptions{FieldManager: fieldManager})
	}
	if err != nil {
		return nil, fmt.Errorf("cannot record what is installed in namespace %q: %w", b.Namespace, err)
	}
	return &anchor{ConfigMap: want, inventory: inv}, nil
}

// describeAnchor gives a ConfigMap the name, labels and annotations that the Knative Operator gives its anchors, and ours.
func (i *Installation) describeAnchor(m *corev1.ConfigMap, b *render.Bundle) error {
	name, err := i.owner.AnchorName()
	if err != nil {
		return err
	}
	m.Namespace, m.Name = b.Namespace, name
	if m.Labels == nil {
		m.Labels = map[string]string{}
	}
	if m.Annotations == nil {
		m.Annotations = map[string]string{}
	}
	maps.Copy(m.Labels, map[string]string{
		"app.kubernetes.io/managed-by": "knative-operator",
		"operator.knative.dev/cr-name": i.owner.Name.Name,
		api.ComponentLabel:             string(i.owner.Component),
	})
	maps.Copy(m.Annotations, map[string]string{
		anchorAnnotation:                 "true",
		"operator.knative.dev/protected": "true",
		"operator.knative.dev/description": "Anchor for Knative resources. Deleting this will cascade-delete all owned resources via Kubernetes GC; " +
			"uninstall via the hub cluster CR instead.",
		api.InstalledForAnnotation: i.owner.Name.String(),
		api.HubAnnotation:          string(i.owner.Hub),
		api.VersionAnnotation:      b.Version,
	})
	return nil
}

const (
	anchorAnnotation = "operator.knative.dev/anchor"
	// keepNamespaceAnnotation on an anchor says that its namespace was there before.
	keepNamespaceAnnotation = api.Prefix + "keep-namespace"
)
