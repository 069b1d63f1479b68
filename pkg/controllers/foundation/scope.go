// Copyright Contributors to the Open Cluster Management project

package foundation

import (
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	worklisters "open-cluster-management.io/api/client/work/listers/work/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/work"
)

// scope is what one reconcile knows. Its objects come from caches and must not be changed.
type scope struct {
	component api.Component
	// namespace is the cluster's.
	namespace string
	// addon is nil when there is none; works may be left of it.
	addon *addonv1beta1.ManagedClusterAddOn
	// cluster is nil when the ManagedCluster is gone.
	cluster *clusterv1.ManagedCluster
	// foundation is nil when there is none.
	foundation *workv1.ManifestWork
	// payloads are the works that addon-framework made for the add-on, by name.
	payloads []*workv1.ManifestWork
}

func (s *scope) gatherWorks(foundations, payloads worklisters.ManifestWorkLister) error {
	var err error
	s.foundation, err = foundations.ManifestWorks(s.namespace).Get(work.FoundationName(s.component))
	if apierrors.IsNotFound(err) {
		s.foundation, err = nil, nil
	}
	if err != nil {
		return fmt.Errorf("cannot get the foundation of add-on %q on cluster %q: %w", s.component, s.namespace, err)
	}
	selector := labels.SelectorFromSet(labels.Set{addonv1beta1.AddonLabelKey: s.component.AddOnName()})
	s.payloads, err = payloads.ManifestWorks(s.namespace).List(selector)
	if err != nil {
		return fmt.Errorf("cannot list the works of add-on %q on cluster %q: %w", s.component, s.namespace, err)
	}
	slices.SortFunc(s.payloads, func(a, b *workv1.ManifestWork) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

// clusterLeaves tells that the cluster is being detached from the hub, or is gone.
func (s *scope) clusterLeaves() bool { return s.cluster == nil || s.cluster.DeletionTimestamp != nil }

// clusterAnswers tells whether the cluster's agent is in touch with the hub.
func (s *scope) clusterAnswers() bool {
	return s.cluster != nil && apimeta.IsStatusConditionTrue(s.cluster.Status.Conditions, clusterv1.ManagedClusterConditionAvailable)
}
