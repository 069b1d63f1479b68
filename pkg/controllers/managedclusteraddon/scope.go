// Copyright Contributors to the Open Cluster Management project

package managedclusteraddon

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	worklisters "open-cluster-management.io/api/client/work/listers/work/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/hub"
	"open-cluster-management.io/knative-addon/pkg/revision"
)

// scope holds the objects of one pass. The objects belong to caches and must not be changed.
type scope struct {
	component api.Component
	// namespace is the namespace of the cluster on the hub.
	namespace string
	// addon is nil when the add-on is gone; works of the add-on may be left. Each write of the pass replaces addon with the stored
	// object.
	addon *addonv1beta1.ManagedClusterAddOn
	// hub is the UID of this hub; empty until a delivery is determined.
	hub types.UID
	// forcedOrphan and deletionPolicy are the values of the add-on's annotations, as far as the values count.
	forcedOrphan   bool
	deletionPolicy string
	// cluster is nil when the ManagedCluster is gone.
	cluster *clusterv1.ManagedCluster
	// foundation is the probe as long as no foundation exists; nil without both. replacedProbe is the probe beside a foundation.
	foundation, replacedProbe *workv1.ManifestWork
	// gate is nil when the work does not exist.
	gate *workv1.ManifestWork
	// verification is the work with the Service of the verification; nil when the work does not exist.
	verification *workv1.ManifestWork
	// crds is the work that deletes the CRDs in a removal with the resources of users; nil when the work does not exist.
	crds *workv1.ManifestWork
	// payloads are the works that addon-framework wrote for the add-on, sorted by name.
	payloads []*workv1.ManifestWork
	// handover holds the record of the replaced add-on; nil when no record exists, or when the record is of another ManagedCluster.
	handover *appsv1.ControllerRevision
	// agentSilence is the time for which a removal has waited for the agent of a cluster that is being detached; 0 for any other removal.
	agentSilence time.Duration
	// detailDelay is the time until the add-on may report details of conditions that this pass did not write; 0 without such details.
	detailDelay time.Duration
}

// gatherScope reads the objects of a pass. gatherScope returns nil for an add-on of another project.
func (r *Reconciler) gatherScope(req reconcile.Request) (*scope, error) {
	component, ok := api.ComponentOfAddOn(req.Name)
	if !ok {
		return nil, nil
	}
	a, err := hub.IgnoreNotFound(r.AddOns.ManagedClusterAddOns(req.Namespace).Get(req.Name))
	if err != nil {
		return nil, fmt.Errorf("cannot get ManagedClusterAddOn %q: %w", req, err)
	}
	s := &scope{component: component, namespace: req.Namespace, addon: a}
	if a != nil && a.DeletionTimestamp != nil {
		s.forcedOrphan = r.Permissions.Removal(a, api.ForceOrphanAnnotation) == "true"
		s.deletionPolicy = r.Permissions.Removal(a, api.DeletionPolicyAnnotation)
	}
	s.cluster, err = r.Clusters.Get(req.Namespace)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("cannot get ManagedCluster %q: %w", req.Namespace, err)
	}
	s.handover, _, err = revision.HandoverOf(r.Revisions, component, req.Namespace, s.cluster)
	if err != nil {
		return nil, err
	}
	return s, s.gatherWorks(r.Foundations, r.Payloads)
}

func (s *scope) gatherWorks(foundations, payloads worklisters.ManifestWorkLister) error {
	var err error
	get := func(name string) (*workv1.ManifestWork, error) { return s.workNamed(foundations, name) }
	if s.foundation, s.replacedProbe, err = manifestwork.FindFoundation(s.component, get); err != nil {
		return err
	}
	if s.gate, err = s.workNamed(foundations, manifestwork.GateName(s.component)); err != nil {
		return err
	}
	if s.verification, err = s.workNamed(foundations, manifestwork.VerificationName(s.component)); err != nil {
		return err
	}
	if s.crds, err = s.workNamed(foundations, manifestwork.CRDsName(s.component)); err != nil {
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
	w, err := hub.IgnoreNotFound(works.ManifestWorks(s.namespace).Get(name))
	if err != nil {
		return nil, fmt.Errorf("cannot get ManifestWork \"%s/%s\": %w", s.namespace, name, err)
	}
	return w, nil
}

// hasNoInstallation reports whether the hub has no work by which the agent writes an object on the cluster.
func (s *scope) hasNoInstallation() bool {
	return len(s.payloads) == 0 && (s.foundation == nil || manifestwork.IsProbe(s.foundation))
}

// lacksFoundation reports whether the foundation of an installation is gone, for example because a user has deleted the work. A
// foundation without the record of the former foundation would not know which Namespaces and CRDs the hub has created on the cluster,
// and a deletion policy would keep these: the next foundation follows a probe, which reads the record of the cluster.
func (s *scope) lacksFoundation() bool {
	return len(s.payloads) > 0 && (s.foundation == nil || manifestwork.IsProbe(s.foundation))
}

// awaitsProbe reports whether the works of an earlier installation are leaving the hub, and the foundation is gone already. The
// probe of the next installation follows the last payload.
func (s *scope) awaitsProbe() bool {
	leaving := func(p *workv1.ManifestWork) bool { return p.DeletionTimestamp != nil }
	return s.lacksFoundation() && slices.ContainsFunc(s.payloads, leaving)
}

// permitsProbe reports whether a probe may be the work of the foundation: no foundation exists, and no payload is leaving the hub.
func (s *scope) permitsProbe() bool {
	return s.hasNoInstallation() || s.lacksFoundation() && !s.awaitsProbe()
}

// isBeingRemoved reports whether CRDs or Namespace of an earlier installation are being deleted, or released, by the agent.
func (s *scope) isBeingRemoved() bool {
	return slices.ContainsFunc([]*workv1.ManifestWork{s.foundation, s.crds}, func(w *workv1.ManifestWork) bool {
		return w != nil && w.DeletionTimestamp != nil
	})
}

// isClusterDetaching reports whether the cluster is being detached from the hub, or is gone.
func (s *scope) isClusterDetaching() bool {
	return s.cluster == nil || s.cluster.DeletionTimestamp != nil
}

// isClusterAvailable reports whether the agent of the cluster is connected to the hub.
func (s *scope) isClusterAvailable() bool {
	return s.cluster != nil && apimeta.IsStatusConditionTrue(s.cluster.Status.Conditions, clusterv1.ManagedClusterConditionAvailable)
}

// isAgentLost reports whether the cluster leaves the hub, or has left the hub, without a connected agent: the cluster was unavailable before the
// detachment, or the agent has not begun a removal for longestSilence. The agent gets no permissions on the hub again, unless the cluster joins
// again.
func (s *scope) isAgentLost() bool {
	return s.cluster == nil || hub.IsDetachedWithoutAgent(s.cluster) || s.agentSilence >= longestSilence && !s.isClusterAvailable()
}

// mayRemoveObjects reports whether the deletion of an orphaned work may still remove objects from the cluster, because the agent of a cluster that
// is being detached has not applied that the work owns no objects. OCM deletes the works as soon as the add-on is gone.
func (s *scope) mayRemoveObjects(orphaned *workv1.ManifestWork) bool {
	return s.isClusterDetaching() && !s.isAgentLost() && !manifestwork.IsDeletable(orphaned)
}
