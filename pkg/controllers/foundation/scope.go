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
	// gate is nil when there is none.
	gate *workv1.ManifestWork
	// payloads are the works that addon-framework made for the add-on, by name.
	payloads []*workv1.ManifestWork
}

func (s *scope) gatherWorks(foundations, payloads worklisters.ManifestWorkLister) error {
	var err error
	if s.foundation, err = s.workNamed(foundations, work.FoundationName(s.component)); err != nil {
		return err
	}
	if s.gate, err = s.workNamed(foundations, work.GateName(s.component)); err != nil {
		return err
	}
	selector := labels.SelectorFromSet(labels.Set{addonv1beta1.AddonLabelKey: s.component.AddOnName()})
	s.payloads, err = payloads.ManifestWorks(s.namespace).List(selector)
	if err != nil {
		return fmt.Errorf("cannot list the works of add-on %q on cluster %q: %w", s.component, s.namespace, err)
	}
	slices.SortFunc(s.payloads, func(a, b *workv1.ManifestWork) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

func (s *scope) workNamed(works worklisters.ManifestWorkLister, name string) (*workv1.ManifestWork, error) {
	w, err := works.ManifestWorks(s.namespace).Get(name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot get ManifestWork \"%s/%s\": %w", s.namespace, name, err)
	}
	return w, nil
}

// nothingWritten tells that nothing of the add-on was written on the cluster yet.
func (s *scope) nothingWritten() bool {
	return len(s.payloads) == 0 && (s.foundation == nil || work.IsProbe(s.foundation))
}

// clusterLeaves tells that the cluster is being detached from the hub, or is gone.
func (s *scope) clusterLeaves() bool { return s.cluster == nil || s.cluster.DeletionTimestamp != nil }

// clusterAnswers tells whether the cluster's agent is in touch with the hub.
func (s *scope) clusterAnswers() bool {
	return s.cluster != nil && apimeta.IsStatusConditionTrue(s.cluster.Status.Conditions, clusterv1.ManagedClusterConditionAvailable)
}
