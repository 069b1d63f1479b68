// Copyright Contributors to the Open Cluster Management project

package inventory

import (
	"context"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/boundedhttp"
	"open-cluster-management.io/knative-addon/pkg/clustercache"
	"open-cluster-management.io/knative-addon/pkg/message"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// Store reads and writes the anchor of one owner on one cluster. A Store keeps nothing in memory.
type Store struct {
	client corev1client.ConfigMapsGetter
	owner  Owner
}

// NewStore returns the store of an owner.
func NewStore(client corev1client.ConfigMapsGetter, owner Owner) *Store {
	return &Store{client: client, owner: owner}
}

// Read returns the anchor in a namespace, or nil when the namespace has none. The error is an *OwnershipError for an anchor of
// another owner, an *UnmanagedError for an anchor without an owner, and a *clustercache.BlockedError for items that cannot be
// decoded.
func (s *Store) Read(ctx context.Context, namespace string) (*Anchor, error) {
	name, err := s.owner.AnchorName()
	if err != nil {
		return nil, err
	}
	m, err := s.getConfigMap(ctx, namespace, name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot get ConfigMap \"%s/%s\": %w", namespace, name, err)
	}
	return s.decodeAnchor(m)
}

func (s *Store) getConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error) {
	ctx, release := boundedhttp.Hold(ctx)
	defer release()
	m, err := s.client.ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return m, checkAnchor(m)
}

func (s *Store) decodeAnchor(m *corev1.ConfigMap) (*Anchor, error) {
	owner := m.Annotations[api.InstalledForAnnotation]
	switch owner {
	case "":
		return nil, &UnmanagedError{Objects: []string{fmt.Sprintf("ConfigMap %s/%s", m.Namespace, m.Name)}}
	case s.owner.Name.String():
	default:
		return nil, s.owner.ownershipError(m)
	}
	items, err := Decode(m.Data[itemsKey])
	if !s.owner.isHubOf(m) {
		ownership := &OwnershipError{Owner: message.Shorten(owner, message.MaxName)}
		if err == nil {
			ownership.formerAnchor = newStoredAnchor(m, items)
		}
		return nil, ownership
	}
	if err != nil {
		remedy := "delete the key to have it recreated"
		if strings.Contains(err.Error(), "unknown field") { // as package json says
			remedy = "a newer version of the add-on may have written the key: run that version again, or " + remedy
		}
		return nil, &clustercache.BlockedError{Err: fmt.Errorf("cannot read key %s of ConfigMap \"%s/%s\", which records what is installed: %w; %s",
			itemsKey, m.Namespace, m.Name, err, remedy)}
	}
	return newStoredAnchor(m, items), nil
}

// IsCurrentHub reports whether the owner's hub wrote the anchor. The hub of an adopted anchor is another one until the next
// Write.
func (s *Store) IsCurrentHub(a *Anchor) bool { return s.owner.isHubOf(a.ConfigMap) }

// Adopt returns an anchor without an owner, such as one of the Knative Operator, and without items. The objects that the
// anchor owns stay. The next Write sets the owner.
func (s *Store) Adopt(ctx context.Context, namespace string) (*Anchor, error) {
	name, err := s.owner.AnchorName()
	if err != nil {
		return nil, err
	}
	m, err := s.getConfigMap(ctx, namespace, name)
	if err != nil {
		return nil, fmt.Errorf("cannot get ConfigMap \"%s/%s\": %w", namespace, name, err)
	}
	return newStoredAnchor(m, Items{}), nil
}

// Write records the items and the versions of Knative in the anchor, and creates an anchor of NewAnchor. Write makes no request
// when the anchor has the same content.
func (s *Store) Write(ctx context.Context, a *Anchor, installed render.Installed, items Items) (*Anchor, error) {
	text, err := items.Encode()
	if err != nil {
		return nil, err
	}
	desired := a.DeepCopy()
	if err := describeAnchor(desired, s.owner, installed); err != nil {
		return nil, err
	}
	setItems(desired, text)
	if err := checkRoom(desired, items); err != nil {
		return nil, fmt.Errorf("cannot record the installation in namespace %q: %w", a.Namespace, err)
	}
	client := s.client.ConfigMaps(a.Namespace)
	switch {
	case a.UID == "":
		desired, err = client.Create(ctx, desired, metav1.CreateOptions{FieldManager: clustercache.FieldManager})
	case a.hasItems(text) && maps.Equal(a.Labels, desired.Labels) && maps.Equal(a.Annotations, desired.Annotations):
		return &Anchor{ConfigMap: a.ConfigMap, Items: items, itemsDigest: a.itemsDigest}, nil
	default:
		desired, err = client.Update(ctx, desired, metav1.UpdateOptions{FieldManager: clustercache.FieldManager})
	}
	if err == nil {
		err = checkAnchor(desired)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot record the installation in namespace %q: %w", a.Namespace, err)
	}
	return newStoredAnchor(desired, items), nil
}

// WriteRemaining records the items that a removal has not deleted yet. A nil anchor, or one with these items, needs no request.
func (s *Store) WriteRemaining(ctx context.Context, a *Anchor, remaining Items) error {
	if a == nil || maps.Equal(a.Items, remaining) {
		return nil
	}
	text, err := remaining.Encode()
	if err != nil {
		return err
	}
	changed := a.DeepCopy()
	setItems(changed, text)
	if _, err := s.client.ConfigMaps(a.Namespace).Update(ctx, changed, metav1.UpdateOptions{FieldManager: clustercache.FieldManager}); err != nil {
		return fmt.Errorf("cannot record the remaining objects in namespace %q: %w", a.Namespace, err)
	}
	return nil
}

// Delete deletes the anchor; nil is no anchor. waiting names the anchor and the cause when the cluster refuses the deletion.
func (s *Store) Delete(ctx context.Context, a *Anchor) (waiting string, err error) {
	if a == nil {
		return "", nil
	}
	err = s.client.ConfigMaps(a.Namespace).Delete(ctx, a.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &a.UID}})
	switch {
	case err == nil, IsMissing(err, a.Name):
		return "", nil
	case clustercache.IsUnavailable(err), apierrors.IsNotFound(err):
		return "", fmt.Errorf("cannot delete ConfigMap \"%s/%s\": %w", a.Namespace, a.Name, err)
	}
	return fmt.Sprintf("waiting for these to be gone: ConfigMap %s/%s: its deletion was refused: %v", a.Namespace, a.Name, err), nil
}
