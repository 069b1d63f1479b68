// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"open-cluster-management.io/knative-addon/pkg/clustercache"
	"open-cluster-management.io/knative-addon/pkg/delivery"
	"open-cluster-management.io/knative-addon/pkg/inventory"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// Installation is one component on one cluster. The memory of an Installation only saves requests: a new Installation comes to
// the same result.
type Installation struct {
	cluster *clustercache.Cluster
	store   *inventory.Store
	owner   inventory.Owner
	clock   clock.PassiveClock

	mu sync.Mutex // serializes passes
	// anchor is the anchor that was last read or written, or nil when the anchor has to be read.
	anchor *inventory.Anchor
	// writtenVersions are the resource versions of applied objects. A cached object of an older version predates the apply.
	writtenVersions map[render.ObjectID]string
	// restorations is Cluster.Restorations at the time when anchor and writtenVersions were recorded.
	restorations int32
	// failedObjects are the objects that the cluster refused to apply, failedDeletions those that the cluster refused to
	// delete.
	failedObjects, failedDeletions map[render.ObjectID]*failedObject
	// removalBegun reports that a removal found an object of the installation.
	removalBegun bool
	// stopBegun is the time when a removal first waited for pods to end.
	stopBegun time.Time
	// verificationRemoval is the time when a removal first found the Service of a verification.
	verificationRemoval time.Time
	// repairs records which objects were repaired recently.
	repairs repairHistory
}

// failedObject is an object that could not be applied or deleted, with the time of the next try.
type failedObject struct {
	delivery.Failure
	digest  string
	pause   time.Duration
	retryAt time.Time
}

// NewInstallation returns the installation of the owner on the cluster.
func NewInstallation(c *clustercache.Cluster, owner inventory.Owner, clock clock.PassiveClock) *Installation {
	return &Installation{
		cluster: c, store: inventory.NewStore(c.Core, owner), owner: owner, clock: clock, writtenVersions: map[render.ObjectID]string{}, repairs: newRepairHistory(clock),
		failedObjects: map[render.ObjectID]*failedObject{}, failedDeletions: map[render.ObjectID]*failedObject{},
	}
}

// SyncOptions configure a pass.
type SyncOptions struct {
	// Adopt takes over an existing installation of Knative that this add-on does not manage.
	Adopt bool
	// NewNamespace refuses an install namespace that the cluster had before.
	NewNamespace bool
	// Paused keeps the cluster unchanged: the pass only observes.
	Paused bool
	// Revision is the hash of the spec that the bundle was rendered from, for the record on the cluster.
	Revision string
	// InTurn makes another rendering of the spec that was last delivered wait for the turn of the cluster.
	InTurn bool
	// Turn names the rendering that the cluster may get.
	Turn string
}

// Outcome is the result of a pass.
type Outcome struct {
	// Observation is the observed state of the bundle.
	Observation delivery.Observation
	// Repaired names the objects that another client had changed or deleted, sorted. Loop reports that an object is changed
	// repeatedly, so that the repairs of the object slow down.
	Repaired []string
	Loop     bool
	// Held describes the installation of a cluster that waits for its turn to get the bundle; nil for any other cluster. Observation is
	// then the state of that installation.
	Held *Held
	// Verification holds the facts about the requested verification; nil without a request.
	Verification *delivery.Verification
	// Pending reports that a paused pass has changes to apply.
	Pending bool
	// Retry is the time until the next pass has work without a change on the cluster; 0 without such work.
	Retry time.Duration
}

// Installed returns the versions of Knative that the cluster has; none without an installation of this owner. Errors are those of
// Sync. Installed writes nothing: a version that runs since the last pass is recorded by the next Sync.
func (i *Installation) Installed(ctx context.Context, namespace string) (render.Installed, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	a, err := i.currentAnchor(ctx, namespace)
	if unmanaged := (*inventory.UnmanagedError)(nil); errors.As(err, &unmanaged) {
		return render.Installed{}, nil
	}
	if left := inventory.FormerAnchor(err); left != nil { // Sync decides whether to adopt the installation
		return left.Installed(), nil
	}
	if err != nil || a == nil {
		return render.Installed{}, clustercache.WrapRefusal(err)
	}
	if recorded := a.Installed(); recorded.Running == recorded.Delivered {
		return recorded, nil
	}
	seen, err := i.viewItems(ctx, a)
	if err != nil {
		return render.Installed{}, clustercache.WrapRefusal(err)
	}
	return i.determineInstalled(a, seen, nil), nil
}

// HasAnchor reports whether the cluster has an anchor of this owner, in the namespace or in another namespace. The anchor proves
// that the owner was installed on the cluster.
func (i *Installation) HasAnchor(ctx context.Context, namespace string) (bool, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	a, err := i.findAnchor(ctx, namespace)
	if unmanaged, ownership := (*inventory.UnmanagedError)(nil), (*inventory.OwnershipError)(nil); errors.As(err, &unmanaged) || errors.As(err, &ownership) {
		return false, nil
	}
	return a != nil, clustercache.WrapRefusal(err)
}

// findAnchor returns the anchor of the owner in the namespace or in another namespace; nil when the anchor was never created, or
// is lost.
func (i *Installation) findAnchor(ctx context.Context, namespace string) (*inventory.Anchor, error) {
	a, err := i.store.Read(ctx, namespace)
	if a != nil || err != nil {
		return a, err
	}
	return i.store.FindOwn(ctx)
}

// Sync changes the cluster to the bundle and returns the observation of the pass. Sync makes no request when the cluster has the
// bundle. After an *inventory.OwnershipError, *inventory.UnmanagedError or *ExistingNamespaceError, Sync has written nothing.
// Other errors are a *clustercache.BlockedError, or mean that the cluster is unavailable. The Outcome has the objects that the
// cluster refuses.
func (i *Installation) Sync(ctx context.Context, b *render.Bundle, options SyncOptions) (out Outcome, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if options.Paused {
		out, err = i.inspectBundle(ctx, b, options)
	} else {
		out, err = i.syncBundle(ctx, b, options)
	}
	return out, clustercache.WrapRefusal(err)
}

func (i *Installation) syncBundle(ctx context.Context, b *render.Bundle, options SyncOptions) (Outcome, error) {
	a, err := i.claimAnchor(ctx, b, options)
	if err != nil {
		return Outcome{}, errors.Join(err, i.unblockNamespace(ctx, b, err))
	}
	seen, err := i.viewItems(ctx, a)
	if err != nil {
		return Outcome{}, err
	}
	if i.awaitsTurn(b, a, options) {
		return i.keepRendering(ctx, b, a, seen)
	}
	verification, err := i.planVerification(b, a, seen)
	if err != nil {
		return Outcome{}, err
	}
	p := i.planChanges(verification.bundle, a, seen)
	p.installed.Verified = verification.record
	if options.Revision != "" {
		p.installed.Revision = options.Revision
	}
	if markFinishedJobs(p.items, seen) || !p.isEmpty() || a.Installed() != p.installed || !i.store.IsCurrentHub(a) {
		if a, err = i.executePlan(ctx, a, p); err != nil {
			i.anchor = nil // the write may be incomplete
			return Outcome{}, err
		}
		p.awaitsCache = true
		if seen, err = i.viewItems(ctx, a); err != nil {
			return Outcome{}, err
		}
	}
	i.anchor = a
	out := Outcome{Observation: i.observeBundle(b, a, seen), Retry: i.retryDelay(p)}
	out.Repaired, out.Loop = i.recordRepairs(p)
	err = i.observeVerification(&out, b, a, seen)
	return out, err
}

// claimAnchor returns the anchor of the installation, and creates an anchor if there is none and the cluster is free.
func (i *Installation) claimAnchor(ctx context.Context, b *render.Bundle, options SyncOptions) (*inventory.Anchor, error) {
	a, err := i.currentAnchor(ctx, b.Namespace)
	if unmanaged := (*inventory.UnmanagedError)(nil); errors.As(err, &unmanaged) && options.Adopt {
		a, err = i.adoptAnchor(ctx, b)
	}
	if left := inventory.FormerAnchor(err); left != nil && options.Adopt {
		a, err = left, nil
	}
	if err != nil {
		return nil, err
	}
	if a != nil {
		return a, i.store.ConfirmClaim(ctx, a)
	}
	i.cluster.ClaimLock.Lock()
	defer i.cluster.ClaimLock.Unlock()
	err = i.checkClusterFree(ctx, b)
	if err != nil && !(inventory.IsAdoptable(err) && options.Adopt) {
		return nil, err
	}
	if options.NewNamespace {
		if err := i.checkNewNamespace(ctx, b); err != nil {
			return nil, err
		}
	}
	existed, err := i.createNamespace(ctx, b)
	if err != nil {
		return nil, err
	}
	a = inventory.NewAnchor(b.Namespace)
	if existed {
		a.Annotations = map[string]string{inventory.KeepAnnotation: "true"}
	}
	if a, err = i.store.Write(ctx, a, render.Installed{Delivered: b.Version}, inventory.Items{}); err != nil {
		return nil, err
	}
	return a, i.store.ConfirmClaim(ctx, a)
}

// adoptAnchor returns the anchor without an owner in the install namespace, unless the cluster has the component elsewhere too.
func (i *Installation) adoptAnchor(ctx context.Context, b *render.Bundle) (*inventory.Anchor, error) {
	if err := i.checkClusterFree(ctx, b); err != nil && !inventory.IsAdoptable(err) {
		return nil, err
	}
	return i.store.Adopt(ctx, b.Namespace)
}

// currentAnchor returns the remembered anchor unless the anchor has changed on the cluster, and otherwise reads the anchor.
func (i *Installation) currentAnchor(ctx context.Context, namespace string) (*inventory.Anchor, error) {
	if n := i.cluster.Restorations(); n != i.restorations { // the cluster may never reach the recorded versions
		i.restorations, i.anchor = n, nil
		clear(i.writtenVersions)
	}
	if a := i.anchor; a != nil && a.Namespace == namespace {
		v, err := i.cluster.View(ctx, anchorPlace(namespace))
		if err != nil {
			return nil, err
		}
		if v != nil && isCurrent(v, a) {
			return a, nil
		}
	}
	i.anchor = nil
	return i.store.Read(ctx, namespace)
}

// viewItems returns the views of the applied items of the anchor. The view of the anchor stays for currentAnchor.
func (i *Installation) viewItems(ctx context.Context, a *inventory.Anchor) (clustercache.Views, error) {
	return i.cluster.Views(ctx, i.owner.String(), append(a.Items.Places(), anchorPlace(a.Namespace)))
}

// ReleaseViews ends the views that only this installation needs.
func (i *Installation) ReleaseViews() { i.cluster.ReleaseViews(i.owner.String()) }

// retryDelay returns the time until the first failed object is tried again, or the first drifted object is repaired. An object
// that was due and not tried waits for another failed object, or for an event; longestRetry is the limit of the wait. An object that another client
// deletes before the cache has the object causes no event: a pass compares the objects again after a write.
func (i *Installation) retryDelay(p *changePlan) time.Duration {
	var waits []time.Duration
	for _, refused := range []map[render.ObjectID]*failedObject{i.failedObjects, i.failedDeletions} {
		for _, f := range refused {
			if !f.retryAt.After(p.createdAt) {
				waits = append(waits, longestRetry)
				continue
			}
			waits = append(waits, max(f.retryAt.Sub(i.clock.Now()), time.Millisecond))
		}
	}
	for _, id := range p.postponed {
		waits = append(waits, max(i.repairs.remainingInterval(id), time.Millisecond))
	}
	if p.awaitsCache {
		waits = append(waits, cacheRetry)
	}
	if len(waits) == 0 {
		return 0
	}
	return slices.Min(waits)
}

// isCurrent reports whether an anchor is the cached one, or newer.
func isCurrent(v *clustercache.View, a *inventory.Anchor) bool {
	s := v.Get(a.Namespace, a.Name)
	return v.IsBehind(a.ResourceVersion) || s != nil && s.ResourceVersion == a.ResourceVersion
}
