// Copyright Contributors to the Open Cluster Management project

package scores

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	addonlisters "open-cluster-management.io/api/client/addon/listers/addon/v1beta1"
	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned"
	clusterlisters "open-cluster-management.io/api/client/cluster/listers/cluster/v1"
	scorelisters "open-cluster-management.io/api/client/cluster/listers/cluster/v1alpha1"
	worklisters "open-cluster-management.io/api/client/work/listers/work/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/hub"
	"open-cluster-management.io/knative-addon/pkg/reconciler"
)

// Versions lists the versions that can be installed.
type Versions interface {
	// Versions returns the versions of a component, the newest first.
	Versions(component api.Component) []string
}

// Reconciler maintains the scores of one cluster in each pass.
type Reconciler struct {
	AddOns      addonlisters.ManagedClusterAddOnLister
	Clusters    clusterlisters.ManagedClusterLister
	Foundations worklisters.ManifestWorkLister // works with api.FoundationLabel
	Payloads    worklisters.ManifestWorkLister // works with OCM's add-on label
	Scores      scorelisters.AddOnPlacementScoreLister

	Client   clusterclient.Interface
	Versions Versions
	Clock    clock.PassiveClock

	// trends holds the clusters that have scores. The controller has one worker.
	trends map[string]*trend
}

// staleRetry is the delay after a write to an object that is gone, unless an event comes first.
const staleRetry = time.Second

// Reconcile updates the scores of one cluster.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	cluster := req.Name
	written, err := hub.IgnoreNotFound(r.Scores.AddOnPlacementScores(cluster).Get(api.ScoresName))
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("cannot get the scores of cluster %q: %w", cluster, err)
	}
	states, err := r.gatherComponents(cluster)
	if err != nil {
		return reconcile.Result{}, err
	}
	var wait time.Duration
	switch {
	case !slices.ContainsFunc(states, componentState.isPresent):
		err = r.deleteScores(ctx, cluster, written)
	case written == nil:
		err = r.createScores(ctx, cluster)
	default:
		wait, err = r.updateScores(ctx, written, states)
	}
	if apierrors.IsNotFound(err) {
		return reconcile.Result{RequeueAfter: staleRetry}, nil // the cache was behind; this is no fault
	}
	return reconcile.Result{RequeueAfter: wait}, err
}

// gatherComponents reads the facts about all components on a cluster from the caches.
func (r *Reconciler) gatherComponents(cluster string) ([]componentState, error) {
	var states []componentState
	for _, c := range api.Components() {
		i := componentState{component: c, versions: r.Versions.Versions(c)}
		var errs [3]error
		i.addOn, errs[0] = hub.IgnoreNotFound(r.AddOns.ManagedClusterAddOns(cluster).Get(c.AddOnName()))
		i.foundation, errs[1] = hub.IgnoreNotFound(r.Foundations.ManifestWorks(cluster).Get(manifestwork.FoundationName(c)))
		i.payloads, errs[2] = r.Payloads.ManifestWorks(cluster).List(labels.SelectorFromSet(labels.Set{addonv1beta1.AddonLabelKey: c.AddOnName()}))
		if err := errors.Join(errs[:]...); err != nil {
			return nil, fmt.Errorf("cannot read the state of add-on %q on cluster %q: %w", c, cluster, err)
		}
		states = append(states, i)
	}
	return states, nil
}

func (r *Reconciler) deleteScores(ctx context.Context, cluster string, written *clusterv1alpha1.AddOnPlacementScore) error {
	delete(r.trends, cluster)
	if written == nil || written.DeletionTimestamp != nil {
		return nil
	}
	err := r.Client.ClusterV1alpha1().AddOnPlacementScores(cluster).Delete(ctx, written.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &written.UID},
	})
	if err != nil {
		return fmt.Errorf("cannot delete the scores of cluster %q: %w", cluster, err)
	}
	return nil
}

// createScores creates the object. A creation ignores the status; the event of the object leads to the first scores.
func (r *Reconciler) createScores(ctx context.Context, cluster string) error {
	if c, err := r.Clusters.Get(cluster); err != nil || c.DeletionTimestamp != nil {
		return client.IgnoreNotFound(err) // Kubernetes deletes the namespace with the cluster
	}
	_, err := r.Client.ClusterV1alpha1().AddOnPlacementScores(cluster).Create(ctx, &clusterv1alpha1.AddOnPlacementScore{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: api.ScoresName},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("cannot create the scores of cluster %q: %w", cluster, err)
	}
	return nil
}

// updateScores writes scores that changed for long enough, and renews scores before they expire. updateScores returns the delay
// until the next pass.
func (r *Reconciler) updateScores(ctx context.Context, written *clusterv1alpha1.AddOnPlacementScore, states []componentState) (time.Duration, error) {
	cluster, now := written.Namespace, r.Clock.Now()
	if c, err := r.Clusters.Get(cluster); err != nil || !isAvailable(c) {
		delete(r.trends, cluster)
		return 0, client.IgnoreNotFound(err)
	}
	var current []clusterv1alpha1.AddOnPlacementScoreItem
	for _, i := range states {
		current = append(current, i.computeScores()...)
	}
	until := written.Status.ValidUntil
	if until == nil {
		return 0, r.writeScores(ctx, written, current)
	}
	write, wait := r.ensureTrend(cluster).determineWrite(written.Status.Scores, current, now)
	if write {
		return 0, r.writeScores(ctx, written, current)
	}
	renew := renewalDelay(cluster, until.Time, now)
	if renew == 0 {
		return 0, r.writeScores(ctx, written, written.Status.Scores)
	}
	return reconciler.Soonest(wait, renew), nil
}

func (r *Reconciler) ensureTrend(cluster string) *trend {
	if r.trends == nil {
		r.trends = map[string]*trend{}
	}
	if r.trends[cluster] == nil {
		r.trends[cluster] = &trend{}
	}
	return r.trends[cluster]
}

func (r *Reconciler) writeScores(ctx context.Context, written *clusterv1alpha1.AddOnPlacementScore, items []clusterv1alpha1.AddOnPlacementScoreItem) error {
	changed := written.DeepCopy()
	changed.Status.Scores = items
	changed.Status.ValidUntil = &metav1.Time{Time: r.Clock.Now().Add(validity)}
	_, err := r.Client.ClusterV1alpha1().AddOnPlacementScores(written.Namespace).UpdateStatus(ctx, changed, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("cannot write the scores of cluster %q: %w", written.Namespace, err)
	}
	return nil
}

func isAvailable(c *clusterv1.ManagedCluster) bool {
	return c.DeletionTimestamp == nil && apimeta.IsStatusConditionTrue(c.Status.Conditions, clusterv1.ManagedClusterConditionAvailable)
}
