// Copyright Contributors to the Open Cluster Management project

package uninstall

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

// ManagerLease is the name of the Lease of the manager that leads.
const ManagerLease = "knative-addon"

// Leases holds the Leases of this add-on in all namespaces, as of one read.
type Leases map[types.NamespacedName]coordinationv1.LeaseSpec

// ListLeases reads the Leases of this add-on.
func ListLeases(ctx context.Context, kube kubernetes.Interface) (Leases, error) {
	out := Leases{}
	for _, name := range []string{ManagerLease, "knative-addon-local"} {
		list, err := kube.CoordinationV1().Leases(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
		if err != nil {
			return nil, fmt.Errorf("cannot list the Leases with name %q: %w", name, err)
		}
		for i := range list.Items {
			if lease := &list.Items[i]; lease.Name == name {
				out[types.NamespacedName{Namespace: lease.Namespace, Name: name}] = lease.Spec
			}
		}
	}
	return out, nil
}

// LongestDuration returns the longest duration of the Leases that have a holder. A manager that runs renews its Lease within the duration.
func (l Leases) LongestDuration() time.Duration {
	var out time.Duration
	for _, spec := range l {
		if ptr.Deref(spec.HolderIdentity, "") != "" {
			out = max(out, time.Duration(ptr.Deref(spec.LeaseDurationSeconds, 0))*time.Second)
		}
	}
	return out
}

// FindLeader returns the name of a manager that has taken or renewed a Lease since the earlier read, and "" without such a manager.
// FindLeader compares no time with a clock: the clocks of the hub, of the manager and of this machine may differ.
func (l Leases) FindLeader(earlier Leases) string {
	byName := func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) }
	for _, name := range slices.SortedFunc(maps.Keys(l), byName) {
		before, isKnown := earlier[name]
		if holder := ptr.Deref(l[name].HolderIdentity, ""); holder != "" && !(isKnown && equality.Semantic.DeepEqual(before, l[name])) {
			return name.Namespace + "/" + holder
		}
	}
	return ""
}

// FindHolder returns the name of the live holder of a Lease, and "" without a live holder.
func FindHolder(ctx context.Context, kube kubernetes.Interface, name types.NamespacedName, now time.Time) (string, error) {
	lease, err := kube.CoordinationV1().Leases(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("cannot read Lease %q: %w", name, err)
	}
	s := lease.Spec
	if s.HolderIdentity == nil || s.RenewTime == nil || s.LeaseDurationSeconds == nil ||
		!now.Before(s.RenewTime.Add(time.Duration(*s.LeaseDurationSeconds)*time.Second)) {
		return "", nil
	}
	return *s.HolderIdentity, nil
}
