// Copyright Contributors to the Open Cluster Management project

package inventory

import (
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/clustercache"
	"open-cluster-management.io/knative-addon/pkg/message"
	"open-cluster-management.io/knative-addon/pkg/render"
)

const (
	// KeepAnnotation marks a CRD that the cluster had before the installation, and an anchor whose namespace the cluster had
	// before. No removal deletes a marked object or that namespace. Older managers and administrators mark Namespaces too.
	KeepAnnotation = api.Prefix + "keep-namespace"

	// anchorAnnotation is the Knative Operator's mark of an anchor.
	anchorAnnotation = "operator.knative.dev/anchor"
	// itemsKey is the key of an anchor's data that holds the encoded items.
	itemsKey = "inventory"
	// maxAnchorBytes bounds an anchor. Each item takes 260 bytes.
	maxAnchorBytes = 512 << 10
)

// Anchor is the ConfigMap that records an installation on its cluster, with the decoded items.
type Anchor struct {
	// ConfigMap has no encoded items, which take as much memory as the decoded items.
	*corev1.ConfigMap

	Items Items
	// itemsDigest is the digest of the encoded items on the cluster, empty when the ConfigMap has never had items.
	itemsDigest string
}

// newStoredAnchor returns the anchor of a ConfigMap of the cluster, and takes the encoded items from the ConfigMap.
func newStoredAnchor(m *corev1.ConfigMap, items Items) *Anchor {
	a := &Anchor{ConfigMap: m, Items: items}
	if text := m.Data[itemsKey]; text != "" {
		a.itemsDigest = clustercache.Digest([]byte(text))
		delete(m.Data, itemsKey)
	}
	return a
}

// NewAnchor returns an anchor without items that is not on the cluster yet.
func NewAnchor(namespace string) *Anchor {
	return &Anchor{ConfigMap: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}}, Items: Items{}}
}

// Installed returns the versions of Knative on the cluster, and what the last delivery was rendered from.
func (a *Anchor) Installed() render.Installed {
	return render.Installed{
		Delivered: a.Annotations[api.VersionAnnotation], Running: a.Annotations[api.RunningVersionAnnotation],
		Revision: a.Annotations[api.SpecHashAnnotation], Rendering: a.Annotations[api.DeliveredRenderingAnnotation],
		Inputs: a.Annotations[api.RenderingInputsAnnotation], Verified: a.Annotations[api.VerifiedRenderingAnnotation],
	}
}

// isClaim reports whether an anchor was created and never updated since: nothing can be installed yet.
func isClaim(m *corev1.ConfigMap) bool {
	text, found := m.Data[itemsKey]
	return found && text == ""
}

// describeAnchor sets the name, labels and annotations that the Knative Operator sets on its anchors, and those of this add-on.
func describeAnchor(m *corev1.ConfigMap, owner Owner, installed render.Installed) error {
	name, err := owner.AnchorName()
	if err != nil {
		return err
	}
	m.Name = name
	if m.Labels == nil {
		m.Labels = map[string]string{}
	}
	if m.Annotations == nil {
		m.Annotations = map[string]string{}
	}
	maps.Copy(m.Labels, map[string]string{
		"app.kubernetes.io/managed-by": "knative-operator",
		"operator.knative.dev/cr-name": owner.Name.Name,
		api.ComponentLabel:             string(owner.Component),
	})
	maps.Copy(m.Annotations, map[string]string{
		anchorAnnotation:                 "true",
		"operator.knative.dev/protected": "true",
		"operator.knative.dev/description": "Anchor for Knative resources. Deleting this will cascade-delete all owned resources via Kubernetes GC; " +
			"uninstall via the hub cluster CR instead.",
		api.InstalledForAnnotation: owner.Name.String(),
		api.HubAnnotation:          string(owner.Hub),
		api.VersionAnnotation:      installed.Delivered,
	})
	for key, value := range map[string]string{
		api.RunningVersionAnnotation: installed.Running, api.SpecHashAnnotation: installed.Revision,
		api.DeliveredRenderingAnnotation: installed.Rendering, api.RenderingInputsAnnotation: installed.Inputs,
		api.VerifiedRenderingAnnotation: installed.Verified,
	} {
		if value != "" {
			m.Annotations[key] = value
		}
	}
	if installed.Verified == "" { // the cluster gets another rendering
		delete(m.Annotations, api.VerifiedRenderingAnnotation)
	}
	return nil
}

// hasItems reports whether the cluster has these encoded items.
func (a *Anchor) hasItems(text string) bool {
	if have, found := a.Data[itemsKey]; found || text == "" {
		return found && have == text
	}
	return a.itemsDigest == clustercache.Digest([]byte(text))
}

// setItems sets the encoded items. Other keys stay: a newer version of the add-on may have written the keys.
func setItems(m *corev1.ConfigMap, text string) {
	if m.Data == nil {
		m.Data = map[string]string{}
	}
	m.Data[itemsKey] = text
}

// checkAnchor returns a *clustercache.BoundError for an anchor that is larger than the record of any installation.
func checkAnchor(m *corev1.ConfigMap) error {
	if m.Size() > maxAnchorBytes {
		return clustercache.NewBoundError("%s, which records what is installed, is larger than %d KiB; delete its annotations and keys that are not ours, or its key %s to have that recreated",
			describeObject(m), maxAnchorBytes>>10, itemsKey)
	}
	return clustercache.CheckMetadata(&m.ObjectMeta)
}

// itemGrowth bounds the bytes that UID and digest add to an item after the first apply.
const itemGrowth = 160

// checkRoom returns a *clustercache.BoundError for items that an anchor cannot hold. The check comes before the first write, because a cluster whose
// anchor is too large can be neither changed nor released.
func checkRoom(m *corev1.ConfigMap, items Items) error {
	growth := 0
	for _, item := range items {
		if item.UID == "" {
			growth += itemGrowth
		}
	}
	if len(items) > clustercache.MaxObjects || m.Size()+growth > maxAnchorBytes {
		return clustercache.NewBoundError("%s, which records what is installed, may have %d objects and %d KiB, and the installation has %d objects; deliver fewer objects",
			describeObject(m), clustercache.MaxObjects, maxAnchorBytes>>10, len(items))
	}
	return nil
}

// describeObject names a ConfigMap in messages.
func describeObject(m *corev1.ConfigMap) string {
	return fmt.Sprintf("ConfigMap \"%s/%s\"", message.Shorten(m.Namespace, message.MaxName), message.Shorten(m.Name, message.MaxName))
}
