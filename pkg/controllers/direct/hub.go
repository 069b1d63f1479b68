// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"context"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// Hub knows which hub this is.
type Hub struct {
	Kube kubernetes.Interface

	mu  sync.Mutex
	uid types.UID
}

// UID is that of the hub's namespace kube-system, which no other cluster has.
func (h *Hub) UID(ctx context.Context) (types.UID, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.uid == "" {
		ns, err := h.Kube.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
		if err != nil {
			return "", fmt.Errorf("cannot tell which hub this is: %w", err)
		}
		h.uid = ns.UID
	}
	return h.uid, nil
}
