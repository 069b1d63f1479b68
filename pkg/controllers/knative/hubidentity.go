// Copyright Contributors to the Open Cluster Management project

package knative

import (
	"context"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// HubIdentity reads the identity of the hub once.
type HubIdentity struct {
	Kube kubernetes.Interface

	mu  sync.Mutex
	uid types.UID
}

// UID returns the UID of the hub's namespace kube-system, which no other cluster has.
func (h *HubIdentity) UID(ctx context.Context) (types.UID, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.uid == "" {
		ns, err := h.Kube.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
		if err != nil {
			return "", fmt.Errorf("cannot determine the identity of the hub: %w", err)
		}
		h.uid = ns.UID
	}
	return h.uid, nil
}
