// Copyright Contributors to the Open Cluster Management project

package scores

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/clock"
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
	"open-cluster-management.io/knative-addon/pkg/delivery/work"
)

// Versions knows which versions can be installed.
type Versions interface {
	// Versions are those of a component, the newest first.
	Versions(component api.Component) []string
}

// Reconciler keeps the scores of one cluster at a time.
type Reconciler struct {
	AddOns      addonlisters.ManagedClusterAddOnLister
	Clusters    clusterlisters.ManagedClusterLister
	Foundations worklisters.ManifestWorkLister // works with api.FoundationLabel
	Payloads    worklisters.ManifestWorkLister // works with OCM's add-on label
	Scores      scorelisters.AddOnPlacementScoreLister

	Client   clusterclient.Interface
	Versions Versions
	Clock    clock.PassiveClock

	// trends are of the clusters that have scores. There is one worker.
	trends map[string]*trend
}

// staleRetry is after how long a reconcile that has read an old object is done again, unless an event comes first.
const staleRetry = time.Second

// Reconcile brings the scores of one cluster up to date.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	cluster := req.Name
	written, err := r.Scores.AddOnPlacementScores(cluster).Get(api.ScoresName)
	if apierrors.IsNotFound(err) {
		written, err = nil, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("cannot get the scores of cluster %q: %w", cluster, err)
	}
	installations, err := r.gather(cluster)
	if err != nil {
		return reconcile.Result{}, err
	}
	var wait time.Duration
	switch {
	case !anyPresent(installations):
		err = r.remove(ctx, cluster, written)
	case written == nil:
		err = r.create(ctx, cluster)
	default:
		wait, err = r.keep(ctx, written, installations)
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
		return reconcile.Result{RequeueAfter: staleRetry}, nil // the cache is behind; no fault
	}
	return reconcile.Result{RequeueAfter: wait}, err
}

// gather reads what is known of all components on a cluster.
func (r *Reconciler) gather(cluster string) ([]installation, error) {
	var out []installation
	for _, c := range api.Components() {
		i := installation{component: c, versions: r.Versions.Versions(c)}
		var errs [3]error
		i.addOn, errs[0] = r.AddOns.ManagedClusterAddOns(cluster).Get(c.AddOnName())
		if apierrors.IsNotFound(errs[0]) {
			i.addOn, errs[0] = nil, nil
		}
		i.foundation, errs[1] = r.Foundations.ManifestWorks(cluster).Get(work.FoundationName(c))
		if apierrors.IsNotFound(errs[1]) {
			i.foundation, errs[1] = nil, nil
		}
		i.payloads, errs[2] = r.Payloads.ManifestWorks(cluster).List(labels.SelectorFromSet(labels.Set{addonv1beta1.AddonLabelKey: c.AddOnName()}))
		if err := errors.Join(errs[:]...); err != nil {
			return nil, fmt.Errorf("cannot read what is known of add-on %q on cluster %q: %w", c, cluster, err)
		}
		out = append(out, i)
	}
	return out, nil
}

func anyPresent(installations []installation) bool {
	for _, i := range installations {
		if i.present() {
			return true
		}
	}
	return false
}

func (r *Reconciler) remove(ctx context.Context, cluster string, written *clusterv1alpha1.AddOnPlacementScore) error {
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

// create makes the object, in which a status cannot be; that follows its event.
func (r *Reconciler) create(ctx context.Context, cluster string) error {
	if c, err := r.Clusters.Get(cluster); err != nil || c.DeletionTimestamp != nil {
		return ignoreNotFound(err) // the namespace goes with the cluster
	}
	_, err := r.Client.ClusterV1alpha1().AddOnPlacementScores(cluster).Create(ctx, &clusterv1alpha1.AddOnPlacementScore{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: api.ScoresName},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("cannot create the scores of cluster %q: %w", cluster, err)
	}
	return nil
}

// keep writes what has changed for long enough, and renews what would end. It returns when to look again.
func (r *Reconciler) keep(ctx context.Context, written *clusterv1alpha1.AddOnPlacementScore, installations []installation) (time.Duration, error) {
	cluster, now := written.Namespace, r.Clock.Now()
	if c, err := r.Clusters.Get(cluster); err != nil || !inSight(c) {
		delete(r.trends, cluster)
		return 0, ignoreNotFound(err)
	}
	var seen []clusterv1alpha1.AddOnPlacementScoreItem
	for _, i := range installations {
		seen = append(seen, i.scores()...)
	}
	until := written.Status.ValidUntil
	if until == nil {
		return 0, r.write(ctx, written, seen)
	}
	write, wait := r.trendOf(cluster).see(written.Status.Scores, seen, now)
	if write {
		return 0, r.write(ctx, written, seen)
	}
	renew := renewIn(cluster, until.Time, now)
	if renew == 0 {
		return 0, r.write(ctx, written, written.Status.Scores)
	}
	if wait == 0 {
		return renew, nil
	}
	return min(wait, renew), nil
}

func (r *Reconciler) trendOf(cluster string) *trend {
	if r.trends == nil {
		r.trends = map[string]*trend{}
	}
	if r.trends[cluster] == nil {
		r.trends[cluster] = &trend{}
	}
	return r.trends[cluster]
}

func (r *Reconciler) write(ctx context.Context, written *clusterv1alpha1.AddOnPlacementScore, items []clusterv1alpha1.AddOnPlacementScoreItem) error {
	changed := written.DeepCopy()
	changed.Status.Scores = items
	changed.Status.ValidUntil = &metav1.Time{Time: r.Clock.Now().Add(validity)}
	_, err := r.Client.ClusterV1alpha1().AddOnPlacementScores(written.Namespace).UpdateStatus(ctx, changed, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("cannot write the scores of cluster %q: %w", written.Namespace, err)
	}
	return nil
}

func inSight(c *clusterv1.ManagedCluster) bool {
	return c.DeletionTimestamp == nil && apimeta.IsStatusConditionTrue(c.Status.Conditions, clusterv1.ManagedClusterConditionAvailable)
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
