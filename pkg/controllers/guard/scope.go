// Copyright Contributors to the Open Cluster Management project

package guard

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/revision"
	"open-cluster-management.io/knative-addon/pkg/target"
)

// scope is what one reconcile knows. Its objects come from caches and must not be changed.
type scope struct {
	component api.Component
	// definition is the ClusterManagementAddOn, nil when there is none.
	definition *addonv1beta1.ClusterManagementAddOn
	strategy   strategy
	// selected are the clusters that Placements select.
	selected sets.Set[string]
	// arriving is since when clusters are selected on which the add-on is not Available yet.
	arriving []time.Time
	// leaving are the add-ons that are being deleted and wait for the guard, by cluster.
	leaving []*pending
	// handedOver are the foundations between two add-ons.
	handedOver []*workv1.ManifestWork
	now        time.Time
}

// pending is an add-on that waits for the guard.
type pending struct {
	*addonv1beta1.ManagedClusterAddOn
	decision decision
	// wait is after how long to decide again, 0 when an event will come.
	wait time.Duration
}

// soon keeps the shorter of two times to wait, of which 0 is none.
func (p *pending) soon(wait time.Duration) {
	if wait > 0 && (p.wait == 0 || wait < p.wait) {
		p.wait = wait
	}
}

func (p *pending) braked() bool { return heldFor(p.ManagedClusterAddOn) == api.ReasonMassRemoval }

// heldFor is the reason for which an add-on is held, empty when it is not.
func heldFor(a *addonv1beta1.ManagedClusterAddOn) string {
	c := apimeta.FindStatusCondition(a.Status.Conditions, api.RemovalHeld)
	if c == nil || c.Status != metav1.ConditionTrue {
		return ""
	}
	return c.Reason
}

// gather reads what a reconcile needs.
func (r *Reconciler) gather(component api.Component) (*scope, error) {
	s := &scope{component: component, strategy: undefined, now: r.Clock.Now()}
	deleting, err := r.AddOns.ByIndex(DeletingIndex, component.AddOnName())
	if err != nil {
		return nil, fmt.Errorf("cannot list the add-ons that are being deleted: %w", err)
	}
	for _, o := range deleting {
		if a, ok := o.(*addonv1beta1.ManagedClusterAddOn); ok && a.Annotations[api.RemovalAllowedAnnotation] == "" {
			s.leaving = append(s.leaving, &pending{ManagedClusterAddOn: a})
		}
	}
	slices.SortFunc(s.leaving, func(a, b *pending) int { return strings.Compare(a.Namespace, b.Namespace) })
	foundations, err := r.Foundations.ByIndex(HandoverIndex, string(component))
	if err != nil {
		return nil, fmt.Errorf("cannot list the foundations between two add-ons: %w", err)
	}
	for _, o := range foundations {
		if w, ok := o.(*workv1.ManifestWork); ok {
			s.handedOver = append(s.handedOver, w)
		}
	}
	if s.definition, err = r.Definitions.Get(component.AddOnName()); apierrors.IsNotFound(err) {
		s.definition, err = nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot get ClusterManagementAddOn %q: %w", component, err)
	}
	return s, r.gatherSelected(s)
}

// gatherSelected finds out which clusters are selected, as OCM does: a Placement that is missing selects none.
func (r *Reconciler) gatherSelected(s *scope) error {
	if len(s.leaving) == 0 || s.definition == nil || s.definition.DeletionTimestamp != nil {
		return nil
	}
	if s.strategy = manual; s.definition.Spec.InstallStrategy.Type != addonv1beta1.AddonInstallStrategyPlacements {
		return nil
	}
	s.strategy, s.selected = placements, sets.New[string]()
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
		for _, d := range list {
			for _, c := range d.Status.Decisions {
				s.selected.Insert(c.ClusterName)
			}
		}
	}
	return r.gatherArriving(s)
}

const (
	// returnPause is how long Placements get to select a cluster again that came back.
	returnPause = time.Minute
	// wantedPause is how old a deletion must be before what says that the add-on is wanted is believed: it may have been
	// read before the deletion was.
	wantedPause = 3 * time.Second
)

// inputOf gathers what is known of one add-on.
func (r *Reconciler) inputOf(s *scope, p *pending) (*input, error) {
	in := &input{
		cluster: p.Namespace, strategy: s.strategy, braked: p.braked(), doubted: heldFor(p.ManagedClusterAddOn) != "" || s.outlived(p),
		forced: p.Annotations[api.ForceOrphanAnnotation] == "true", answer: p.Annotations[api.RemovalAnnotation],
	}
	cluster, err := r.Clusters.Get(p.Namespace)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("cannot get ManagedCluster %q: %w", p.Namespace, err)
	}
	var wait time.Duration
	in.sight, wait = sightOf(cluster, s.now)
	p.soon(wait)
	config, err := r.configOf(s.component, p)
	if err != nil {
		return nil, err
	}
	refers := config != nil && refersTo(config, p.Namespace)
	in.revocable = !refers || config.GetDeletionTimestamp() == nil
	switch s.strategy {
	case placements:
		in.wanted = s.selected.Has(p.Namespace)
	case manual:
		in.wanted = refers && config.GetDeletionTimestamp() == nil
	case undefined:
	}
	wait = p.DeletionTimestamp.Add(wantedPause).Sub(s.now)
	if in.settled = wait <= 0; !in.settled {
		p.soon(wait)
	}
	return in, nil
}

// configOf is the resource that the add-on names itself, nil when there is none.
func (r *Reconciler) configOf(component api.Component, p *pending) (*unstructured.Unstructured, error) {
	name, ok := target.ConfiguredBy(p.ManagedClusterAddOn)
	if !ok {
		return nil, nil
	}
	return revision.Live(r.Configs[component], component, name)
}

func refersTo(config *unstructured.Unstructured, cluster string) bool {
	ref, ok := target.ReferenceOf(config)
	return ok && ref.Name == cluster
}

// sightOf says how a cluster is seen, and when that will change by itself.
func sightOf(cluster *clusterv1.ManagedCluster, now time.Time) (sight, time.Duration) {
	if cluster == nil {
		return gone, 0
	}
	available := apimeta.FindStatusCondition(cluster.Status.Conditions, clusterv1.ManagedClusterConditionAvailable)
	answers := available != nil && available.Status == metav1.ConditionTrue
	switch {
	case cluster.DeletionTimestamp != nil && answers:
		return leaving, 0
	case cluster.DeletionTimestamp != nil:
		return gone, 0
	case !answers, slices.ContainsFunc(cluster.Spec.Taints, outOfSight):
		return unavailable, 0
	}
	if wait := available.LastTransitionTime.Add(returnPause).Sub(now); wait > 0 {
		return returned, min(wait, returnPause)
	}
	return inSight, 0
}

// outOfSight tells that OCM keeps Placements from selecting the cluster because it does not hear from it.
func outOfSight(t clusterv1.Taint) bool {
	return t.Key == clusterv1.ManagedClusterTaintUnavailable || t.Key == clusterv1.ManagedClusterTaintUnreachable
}

// encodeConfigs is what a new add-on gets from the old one.
func encodeConfigs(a *addonv1beta1.ManagedClusterAddOn) (string, error) {
	configs := a.Spec.Configs
	if configs == nil {
		configs = []addonv1beta1.AddOnConfig{}
	}
	data, err := json.Marshal(configs)
	if err != nil {
		return "", fmt.Errorf("cannot encode the configs of ManagedClusterAddOn \"%s/%s\": %w", a.Namespace, a.Name, err)
	}
	return string(data), nil
}
