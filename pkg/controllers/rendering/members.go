// Copyright Contributors to the Open Cluster Management project

package rendering

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"open-cluster-management.io/addon-framework/pkg/addonmanager/controllers/agentdeploy"
	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/addon"
	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/hub"
	"open-cluster-management.io/knative-addon/pkg/rollout"
)

// member is a cluster of a rollout.
type member struct {
	rollout.Cluster

	// addOn and foundation are those of a cluster with a work agent.
	addOn      *addonv1beta1.ManagedClusterAddOn
	foundation *workv1.ManifestWork
	// component and config are those of a cluster without a work agent; config is nil for any other cluster.
	component api.Component
	config    *unstructured.Unstructured
	// rendering names the rendering that the cluster should get; empty when the cluster takes no part in the rollout.
	rendering string
	// immediate reports that an administrator gives the turn at once.
	immediate bool
	// pending reports that the bundle of the cluster is being rendered. Such a cluster takes a place among the clusters that make
	// progress: the other clusters of the rollout neither wait for the bundle nor get more turns than the strategy permits.
	pending bool
	// waitsSince is the time since which the cluster reports that the cluster waits; zero for any other cluster.
	waitsSince time.Time
	// failedAfter is the time at which the rendering of a cluster ran that does not work now; zero for any other cluster.
	failedAfter time.Time
}

// listAddOns returns the add-ons of the component that are not being deleted, and whether a cluster waits for its turn.
func (r *Reconciler) listAddOns(component api.Component) (addOns []*addonv1beta1.ManagedClusterAddOn, waiting bool, err error) {
	all, err := r.AddOns.List(labels.Everything())
	if err != nil {
		return nil, false, fmt.Errorf("cannot list ManagedClusterAddOns: %w", err)
	}
	addOns = slices.DeleteFunc(all, func(a *addonv1beta1.ManagedClusterAddOn) bool {
		return a.Name != component.AddOnName() || a.DeletionTimestamp != nil
	})
	slices.SortFunc(addOns, func(a, b *addonv1beta1.ManagedClusterAddOn) int { return strings.Compare(a.Namespace, b.Namespace) })
	return addOns, slices.ContainsFunc(addOns, func(a *addonv1beta1.ManagedClusterAddOn) bool {
		return apimeta.IsStatusConditionFalse(a.Status.Conditions, api.RenderingCurrent)
	}), nil
}

// readMember returns the state of one cluster. A cluster whose state cannot be read is skipped: the other clusters do not wait for the cluster.
func (r *Reconciler) readMember(ctx context.Context, a *addonv1beta1.ManagedClusterAddOn) *member {
	m := &member{addOn: a, Cluster: rollout.Cluster{Name: a.Namespace, Phase: rollout.Skipped}}
	if err := r.readState(ctx, m); err != nil {
		log.FromContext(ctx).Error(err, "a cluster takes no part in the rollout of a new rendering", "cluster", a.Namespace)
	}
	return m
}

// readState reads the state of one cluster into the skipped member. A cluster that is paused, unresolved or without a bundle stays skipped:
// nothing is written to the cluster, whatever the rollout decides.
func (r *Reconciler) readState(ctx context.Context, m *member) error {
	a := m.addOn
	target, err := r.Targets.OfAddOn(a)
	if err != nil || target.Target == nil || r.Pauses.PausedBy(a) != "" {
		return err
	}
	bundle, fault, err := addon.DetermineBundle(ctx, r.Bundles, a)
	if err != nil {
		return err
	}
	if addon.IsRendering(fault) {
		m.pending, m.Phase, m.Since = true, rollout.Progressing, r.Clock.Now()
		return nil
	}
	if fault != nil {
		return nil //nolint:nilerr // the fault is a state of the configuration, which the add-on reports
	}
	component := api.Component(a.Name)
	payloads, err := r.Payloads.ManifestWorks(a.Namespace).List(labels.SelectorFromSet(labels.Set{addonv1beta1.AddonLabelKey: a.Name}))
	if err != nil {
		return fmt.Errorf("cannot list the works of add-on %q on cluster %q: %w", a.Name, a.Namespace, err)
	}
	if m.foundation, err = r.findFoundation(component, a.Namespace); err != nil || m.foundation == nil {
		return err
	}
	m.rendering = bundle.RenderingName()
	if manifestwork.AwaitsTurn(bundle, m.foundation, payloads, agentdeploy.ConfigsToMap(a.Status.ConfigReferences)) {
		if r.isClusterAvailable(a.Namespace) {
			m.wait(a.Status.Conditions)
		}
		return nil
	}
	m.Phase, m.Since = m.phaseOf(a.Status.Conditions, addonv1beta1.ManagedClusterAddOnConditionAvailable,
		m.foundation.Annotations[api.RenderingTurnAnnotation], r.Clock.Now())
	return nil
}

// phaseOf returns the phase of a cluster that does not wait. A cluster that never waited takes no part in the rollout. health is the
// condition that is False when the cluster fails after the rendering ran, and turn names the rendering that the cluster may get.
func (m *member) phaseOf(conditions []metav1.Condition, health, turn string, now time.Time) (rollout.Phase, time.Time) {
	c := apimeta.FindStatusCondition(conditions, api.RenderingCurrent)
	available := apimeta.FindStatusCondition(conditions, health)
	gotTurn := (c == nil || c.Status == metav1.ConditionTrue) && rollout.FollowsTurn(c, m.rendering, turn)
	switch {
	case gotTurn, c != nil && c.Status == metav1.ConditionFalse: // the turn was given a moment ago
		return rollout.Progressing, now
	case c == nil:
		return rollout.Skipped, time.Time{}
	case c.Status == metav1.ConditionUnknown:
		return rollout.Progressing, c.LastTransitionTime.Time
	case available != nil && available.Status == metav1.ConditionFalse:
		m.failedAfter = c.LastTransitionTime.Time
		if available.LastTransitionTime.After(c.LastTransitionTime.Time) {
			return rollout.Progressing, available.LastTransitionTime.Time
		}
		return rollout.Progressing, c.LastTransitionTime.Time
	}
	return rollout.Succeeded, c.LastTransitionTime.Time
}

// wait makes the cluster wait for its turn.
func (m *member) wait(conditions []metav1.Condition) {
	m.Phase = rollout.Waiting
	if c := apimeta.FindStatusCondition(conditions, api.RenderingCurrent); c != nil && c.Status == metav1.ConditionFalse {
		m.waitsSince = c.LastTransitionTime.Time
	}
}

// skipEarlierFailures takes the clusters out of a rollout whose rendering ran before the first cluster began to wait: the rollout has not
// changed these clusters, and must not stop because of a failure of an earlier time. The result is the time at which the rollout began: last, or
// the time of a cluster that has waited for longer.
func skipEarlierFailures(members []*member, last time.Time) (began time.Time) {
	began = last
	for _, m := range members {
		if !m.waitsSince.IsZero() && (began.IsZero() || m.waitsSince.Before(began)) {
			began = m.waitsSince
		}
	}
	for _, m := range members {
		if !m.failedAfter.IsZero() && m.failedAfter.Before(began) {
			m.Phase, m.Since = rollout.Skipped, time.Time{}
		}
	}
	return began
}

func (r *Reconciler) findFoundation(component api.Component, cluster string) (*workv1.ManifestWork, error) {
	works, err := r.Foundations.ManifestWorks(cluster).List(labels.SelectorFromSet(labels.Set{api.FoundationLabel: string(component)}))
	if err != nil {
		return nil, fmt.Errorf("cannot list the works of add-on %q on cluster %q: %w", component, cluster, err)
	}
	for _, w := range works {
		if w.Name == manifestwork.FoundationName(component) {
			return w, nil
		}
	}
	return nil, nil
}

func (r *Reconciler) isClusterAvailable(name string) bool {
	cluster, err := r.Clusters.Get(name)
	return err == nil && apimeta.IsStatusConditionTrue(cluster.Status.Conditions, clusterv1.ManagedClusterConditionAvailable)
}

// giveTurn records on the foundation, or on the resource of a cluster without a work agent, that the cluster may get its rendering. A
// restarted manager reads the record.
func (r *Reconciler) giveTurn(ctx context.Context, m *member) error {
	log.FromContext(ctx).Info("a cluster gets a new rendering", "cluster", m.Name, "rendering", m.rendering)
	if m.config != nil {
		return r.giveDirectTurn(ctx, m)
	}
	_, err := hub.Patch(ctx, r.WorkClient.WorkV1().ManifestWorks(m.Name), m.foundation, func(w *workv1.ManifestWork) {
		metav1.SetMetaDataAnnotation(&w.ObjectMeta, api.RenderingTurnAnnotation, m.rendering)
	})
	return err
}
