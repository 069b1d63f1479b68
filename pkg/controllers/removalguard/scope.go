// Copyright Contributors to the Open Cluster Management project

package removalguard

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/hub"
	"open-cluster-management.io/knative-addon/pkg/reconciler"
	"open-cluster-management.io/knative-addon/pkg/revision"
	"open-cluster-management.io/knative-addon/pkg/target"
)

// scope holds the facts of one pass. The objects come from caches; callers must not change the objects.
type scope struct {
	component api.Component
	// definition is the ClusterManagementAddOn, or nil.
	definition *addonv1beta1.ClusterManagementAddOn
	strategy   strategy
	// placements are the Placements of the ClusterManagementAddOn, and selected has the clusters that the Placements select.
	placements []*decidedPlacement
	selected   sets.Set[string]
	// replacements lists, for each selected cluster on which the add-on is not Available yet, the creation time of the add-on, or
	// now.
	replacements []time.Time
	// pending lists the add-ons that are being deleted and wait for a decision, sorted by cluster.
	pending []*pendingRemoval
	// handovers lists the records of configurations that new add-ons get from deleted add-ons.
	handovers []*appsv1.ControllerRevision
	// confirming reports that the confirmation of the ClusterManagementAddOn could not be applied. A confirmation that stays would apply to the
	// next mass removal too: no removal that counts begins before.
	confirming bool
	now        time.Time
}

// pendingRemoval is an add-on that is being deleted and waits for a decision.
type pendingRemoval struct {
	*addonv1beta1.ManagedClusterAddOn
	decision decision
	// wait is the delay until the next decision, 0 when an event will come.
	wait time.Duration
}

// requeueWithin keeps the shorter of two delays; 0 stands for no delay.
func (p *pendingRemoval) requeueWithin(wait time.Duration) {
	p.wait = reconciler.Soonest(p.wait, wait)
}

func (p *pendingRemoval) isOverBudget() bool {
	return heldReason(p.ManagedClusterAddOn) == api.ReasonMassRemoval
}

// heldReason returns the reason for which an add-on is held, or "" when the add-on is not held.
func heldReason(a *addonv1beta1.ManagedClusterAddOn) string {
	c := apimeta.FindStatusCondition(a.Status.Conditions, api.RemovalHeld)
	if c == nil || c.Status != metav1.ConditionTrue {
		return ""
	}
	return c.Reason
}

// gatherScope reads the facts of one pass from the caches.
func (r *Reconciler) gatherScope(component api.Component) (*scope, error) {
	s := &scope{component: component, strategy: strategyUndefined, now: r.Clock.Now()}
	deleting, err := r.AddOns.ByIndex(deletingIndex, component.AddOnName())
	if err != nil {
		return nil, fmt.Errorf("cannot list the add-ons that are being deleted: %w", err)
	}
	for _, o := range deleting {
		if a, ok := o.(*addonv1beta1.ManagedClusterAddOn); ok && a.Annotations[api.RemovalAllowedAnnotation] == "" {
			s.pending = append(s.pending, &pendingRemoval{ManagedClusterAddOn: a})
		}
	}
	slices.SortFunc(s.pending, func(a, b *pendingRemoval) int { return strings.Compare(a.Namespace, b.Namespace) })
	records, err := r.Revisions.ByIndex(revision.HandoverIndex, string(component))
	if err != nil {
		return nil, fmt.Errorf("cannot list the hand-overs: %w", err)
	}
	for _, o := range records {
		if record, ok := o.(*appsv1.ControllerRevision); ok && record.DeletionTimestamp == nil {
			s.handovers = append(s.handovers, record)
		}
	}
	if s.definition, err = hub.IgnoreNotFound(r.Definitions.Get(component.AddOnName())); err != nil {
		return nil, fmt.Errorf("cannot get ClusterManagementAddOn %q: %w", component, err)
	}
	return s, r.gatherSelectedClusters(s)
}

// gatherSelectedClusters finds the selected clusters by OCM's rule: a Placement that does not exist selects no cluster.
func (r *Reconciler) gatherSelectedClusters(s *scope) error {
	if len(s.pending) == 0 || s.definition == nil || s.definition.DeletionTimestamp != nil {
		return nil
	}
	if s.strategy = strategyManual; s.definition.Spec.InstallStrategy.Type != addonv1beta1.AddonInstallStrategyPlacements {
		return nil
	}
	s.strategy, s.selected = strategyPlacements, sets.New[string]()
	for _, p := range s.definition.Spec.InstallStrategy.Placements {
		placement, err := r.Placements.Placements(p.Namespace).Get(p.Name)
		if apierrors.IsNotFound(err) || err == nil && placement.DeletionTimestamp != nil {
			continue
		}
		if err != nil {
			return fmt.Errorf("cannot get Placement \"%s/%s\": %w", p.Namespace, p.Name, err)
		}
		list, err := r.Decisions.PlacementDecisions(p.Namespace).List(labels.SelectorFromSet(labels.Set{clusterv1beta1.PlacementLabel: p.Name}))
		if err != nil {
			return fmt.Errorf("cannot list the decisions of Placement \"%s/%s\": %w", p.Namespace, p.Name, err)
		}
		decided := &decidedPlacement{Placement: placement}
		for _, d := range list {
			for _, c := range d.Status.Decisions {
				s.selected.Insert(c.ClusterName)
			}
			decided.clusters += len(d.Status.Decisions)
		}
		s.placements = append(s.placements, decided)
	}
	return r.gatherReplacements(s)
}

// cacheDelay is the minimum age of a deletion before the evidence counts that the add-on is desired, or that a user deleted the add-on
// by name: the caches may have read that evidence before the deletion.
const cacheDelay = 3 * time.Second

// gatherInput gathers the facts about one add-on.
func (r *Reconciler) gatherInput(s *scope, p *pendingRemoval) (*input, error) {
	in := &input{
		cluster: p.Namespace, strategy: s.strategy, overBudget: p.isOverBudget(), originUncertain: heldReason(p.ManagedClusterAddOn) != "" || s.mayPredateDefinition(p),
		forced: r.Permissions.Removal(p.ManagedClusterAddOn, api.ForceOrphanAnnotation) == "true", confirmation: p.Annotations[api.RemovalAnnotation],
	}
	cluster, err := r.Clusters.Get(p.Namespace)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("cannot get ManagedCluster %q: %w", p.Namespace, err)
	}
	in.availability = determineAvailability(cluster)
	config, err := r.findConfig(s.component, p)
	if err != nil {
		return nil, err
	}
	refers := config != nil && refersToCluster(config, p.Namespace)
	in.revocable = !refers || config.GetDeletionTimestamp() == nil
	switch s.strategy {
	case strategyPlacements:
		in.desired = s.selected.Has(p.Namespace)
		if in.availability == clusterAvailable && hasReturned(p, cluster) {
			in.undecided = s.findUndecidedPlacement(cluster)
		}
	case strategyManual:
		in.desired = refers && config.GetDeletionTimestamp() == nil
	case strategyUndefined:
	}
	wait := p.DeletionTimestamp.Add(cacheDelay).Sub(s.now)
	if in.settled = wait <= 0; !in.settled {
		p.requeueWithin(wait)
	}
	return in, nil
}

// findConfig returns the resource that the add-on names in its spec, or nil.
func (r *Reconciler) findConfig(component api.Component, p *pendingRemoval) (*unstructured.Unstructured, error) {
	name, ok := target.ConfiguredBy(p.ManagedClusterAddOn)
	if !ok {
		return nil, nil
	}
	return revision.Live(r.Configs[component], component, name)
}

func refersToCluster(config *unstructured.Unstructured, cluster string) bool {
	ref, ok := target.ReferenceOf(config)
	return ok && ref.Name == cluster
}

// determineAvailability returns the state of a cluster.
func determineAvailability(cluster *clusterv1.ManagedCluster) availability {
	if cluster == nil {
		return clusterGone
	}
	answers := apimeta.IsStatusConditionTrue(cluster.Status.Conditions, clusterv1.ManagedClusterConditionAvailable)
	switch {
	case hub.IsDetachedWithoutAgent(cluster):
		return clusterGone
	case cluster.DeletionTimestamp != nil:
		return clusterDetaching
	case !answers, slices.ContainsFunc(cluster.Spec.Taints, isUnreachableTaint):
		return clusterUnavailable
	}
	return clusterAvailable
}

// isUnreachableTaint reports whether the taint keeps Placements from selecting a cluster from which OCM gets no lease.
func isUnreachableTaint(t clusterv1.Taint) bool {
	return t.Key == clusterv1.ManagedClusterTaintUnavailable || t.Key == clusterv1.ManagedClusterTaintUnreachable
}
