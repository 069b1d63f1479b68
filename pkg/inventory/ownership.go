// Copyright Contributors to the Open Cluster Management project

package inventory

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/clustercache"
)

// maxAnchors is how many anchors of a component a cluster may have.
const maxAnchors = 20

// Find returns the anchor of the owner in any namespace, or nil. The error is an *OwnershipError when another owner has the
// component: a cluster can have most parts of a component only once.
func (s *Store) Find(ctx context.Context) (*Anchor, error) {
	own, others, err := s.listAnchors(ctx)
	switch {
	case err != nil:
		return nil, err
	case len(others) > 0:
		return nil, s.owner.ownershipError(&others[0])
	case len(own) > 0:
		return s.decodeAnchor(&own[0])
	}
	return nil, nil
}

// FindOwn returns the anchor of the owner in any namespace, also when another owner has the component, and otherwise as Find does.
func (s *Store) FindOwn(ctx context.Context) (*Anchor, error) {
	own, others, err := s.listAnchors(ctx)
	switch {
	case err != nil:
		return nil, err
	case len(own) > 0:
		return s.decodeAnchor(&own[0])
	case len(others) > 0:
		return nil, s.owner.ownershipError(&others[0])
	}
	return nil, nil
}

// ConfirmClaim checks a second time whether another owner has the component, as long as nothing is installed for the anchor.
// Two owners that claim the cluster through two connections at the same moment both find the cluster free. The anchor that was
// created first stays. ConfirmClaim deletes the other anchor and returns an *OwnershipError. Creation times are too coarse to
// order two anchors; the resource version of a claim is exact.
func (s *Store) ConfirmClaim(ctx context.Context, a *Anchor) error {
	if !isClaim(a.ConfigMap) {
		return nil
	}
	_, others, err := s.listAnchors(ctx)
	if err != nil {
		return err
	}
	for _, m := range others {
		if isClaim(&m) && clustercache.IsOlder(a.ResourceVersion, m.ResourceVersion) {
			continue // the owner of this later claim finds our anchor and deletes the claim
		}
		refused, err := s.Delete(ctx, a)
		if err != nil {
			return err
		}
		if refused != "" {
			return &clustercache.BlockedError{Err: fmt.Errorf("cannot leave the cluster to %s: %s", m.Annotations[api.InstalledForAnnotation], refused)}
		}
		return s.owner.ownershipError(&m)
	}
	return nil
}

// listAnchors lists the anchors of the component in all namespaces: those of the owner, and those of other owners.
func (s *Store) listAnchors(ctx context.Context) (own, others []corev1.ConfigMap, err error) {
	options := metav1.ListOptions{LabelSelector: api.ComponentLabel + "=" + string(s.owner.Component)}
	complete, err := clustercache.ListPages(ctx, options, clustercache.MaxObjects, func(ctx context.Context, options metav1.ListOptions) (*metav1.ListMeta, error) {
		list, err := s.client.ConfigMaps(metav1.NamespaceAll).List(ctx, options)
		if err != nil {
			return nil, err
		}
		for _, m := range list.Items {
			name := m.Annotations[api.InstalledForAnnotation]
			switch {
			case m.Annotations[anchorAnnotation] != "true", name == "":
				continue
			case s.owner.isHubOf(&m) && name == s.owner.Name.String():
				own = append(own, m)
			default:
				others = append(others, m)
			}
			if err := checkAnchor(&m); err != nil {
				return nil, err
			}
			if len(own)+len(others) > maxAnchors {
				return nil, clustercache.NewBoundError("more than %d ConfigMaps with annotation %s record installations of %s; delete those that are not needed",
					maxAnchors, anchorAnnotation, s.owner.Component)
			}
		}
		return &list.ListMeta, nil
	})
	if err == nil && !complete {
		err = clustercache.NewTooManyObjectsError(schema.GroupResource{Resource: "configmaps"})
	}
	if err != nil {
		return nil, nil, fmt.Errorf("cannot list ConfigMaps: %w", err)
	}
	return own, others, nil
}
