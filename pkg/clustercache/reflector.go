// Copyright Contributors to the Open Cluster Management project

package clustercache

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
)

const (
	// minListPause and maxListPause bound the time between two attempts to list, or to watch. Each pause is twice the pause before.
	minListPause, maxListPause = time.Second, 30 * time.Second
	// watchBeginTimeout bounds the time until a watch begins.
	watchBeginTimeout = 10 * time.Second
	// watchTime is the shortest time that the reflector requests for a watch. The longest time is twice as long.
	watchTime = 2 * time.Hour
	// maxCheckInterval bounds the time between two checks of a silent watch for missed events. API servers send bookmarks more
	// often.
	maxCheckInterval = 5 * time.Minute
)

// errPolled ends a watch of a cluster that is not watched any more.
var errPolled = errors.New("the cluster is not watched any more")

// listerWatcher lists and watches places, as a Cluster does.
type listerWatcher interface {
	// listObjects returns the cached objects of a view for the objects that have not changed; a nil view has no objects.
	listObjects(ctx context.Context, at Place, options metav1.ListOptions, cached *View) (objects []*Object, version string, err error)
	watchObjects(ctx context.Context, at Place, options metav1.ListOptions) (watch.Interface, error)
}

// reflector keeps a view current: by a watch while the place is watched, and otherwise by the lists of the poller.
type reflector struct {
	view   *View
	policy *watchPolicy
	poller *poller
	at     Place
	source listerWatcher
	// dropView ends the reflector and forgets the view; the next caller starts a new view.
	dropView func()
	// lastListFailed reports that the last list failed.
	lastListFailed bool
	// versionRefused reports that the API server could not watch from the version of a list. A watch that lasts clears the field.
	versionRefused bool
}

func (f *reflector) run(ctx context.Context) {
	_, err := f.listPlace(ctx)
	f.view.firstListErr = err
	if err != nil {
		f.dropView() // the next caller lists again
	}
	close(f.view.ready)
	if err != nil {
		return
	}
	f.followPlace(ctx)
}

// followPlace watches a place that was listed a moment ago. A place that is not watched passes to the poller. The pauses between watches grow until
// a watch lasts.
func (f *reflector) followPlace(ctx context.Context) {
	listPauses, watchPauses := f.newBackoff(), f.newBackoff()
	f.versionRefused = false
	for listed := true; ctx.Err() == nil; {
		if !listed {
			if _, err := f.listPlace(ctx); err != nil { // the probe of the cluster reports an unreachable cluster
				f.policy.log.V(1).Info("cannot list", "resource", f.at.GroupResource(), "error", err.Error())
				sleepContext(ctx, listPauses.Step())
				continue
			}
			listPauses = f.newBackoff()
		}
		ended, watched := f.policy.acquireWatch(f.at)
		if !watched {
			f.poller.addPlace(f.newPolledPlace(ctx))
			return
		}
		lasted, err := f.watchPlace(ctx, ended)
		if lasted {
			watchPauses, f.versionRefused = f.newBackoff(), false
		}
		listed = err == nil
		if errors.Is(err, errPolled) || listed && lasted || ctx.Err() != nil {
			continue
		}
		if !listed {
			f.recordLostWatch(err)
		}
		sleepContext(ctx, watchPauses.Step())
	}
}

// recordLostWatch records that a watch has failed: the cluster may be unreachable.
func (f *reflector) recordLostWatch(why error) {
	f.policy.log.V(1).Info("watch ended", "resource", f.at.GroupResource(), "error", why.Error())
	now := time.Now()
	f.policy.lostAt.Store(&now)
	if isConnectionFailure(why) {
		f.policy.connectionLostAt.Store(&now)
	}
	f.poller.requestLists()
	f.view.onChange("")
}

// isConnectionFailure reports whether a list or watch failed because the connection ended: client-go has a cause for a watch whose stream breaks off,
// and an *url.Error for a request without an answer.
func isConnectionFailure(err error) bool {
	return apierrors.HasStatusCause(err, "ClientWatchDecoding") || errors.As(err, new(*url.Error))
}

// newPolledPlace returns the place for the poller.
func (f *reflector) newPolledPlace(ctx context.Context) *polledPlace {
	pauses := f.newBackoff()
	list := func() (pause time.Duration, isPolled bool) {
		if ctx.Err() != nil {
			return 0, false
		}
		if _, err := f.listPlace(ctx); err != nil { // the probe of the cluster reports an unreachable cluster
			f.policy.log.V(1).Info("cannot list", "resource", f.at.GroupResource(), "error", err.Error())
			return pauses.Step(), true
		}
		pauses = f.newBackoff()
		if _, watched := f.policy.acquireWatch(f.at); watched {
			f.poller.requestLists() // the other places of the cluster may be watched too
			go f.followPlace(ctx)
			return 0, false
		}
		return 0, true
	}
	needsFrequentLists := func() bool { return isWorkload(f.at.GroupVersionResource) || f.view.hasUnfinishedObjects() }
	return &polledPlace{list: list, needsFrequentLists: needsFrequentLists}
}

func (f *reflector) newBackoff() wait.Backoff {
	return wait.Backoff{Duration: minListPause, Factor: 2, Jitter: 0.2, Steps: 10, Cap: maxListPause}
}

func sleepContext(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// listPlace replaces the objects of the view by a list and reports whether the objects differ. The first list, and each list
// after a failure, requests the latest version: a cluster that was restored from a backup may never reach the version of the
// view. Other lists request any version that is not older than the view, which an API server has in its cache.
func (f *reflector) listPlace(ctx context.Context) (differs bool, err error) {
	options := metav1.ListOptions{}
	if version := f.view.currentVersion(); version != "" && !f.lastListFailed {
		options.ResourceVersion, options.ResourceVersionMatch = version, metav1.ResourceVersionMatchNotOlderThan
	}
	if f.view.isListed() { // the number of passes bounds the first lists
		release, err := f.poller.lists.acquire(ctx)
		if err != nil {
			return false, err
		}
		defer release()
	}
	ctx, cancel := context.WithTimeout(ctx, firstListTimeout)
	defer cancel()
	objects, version, err := f.source.listObjects(ctx, f.at, options, f.view)
	if err == nil {
		if IsOlder(version, f.view.currentVersion()) {
			f.policy.restorations.Add(1)
		}
		var fits bool
		if differs, fits = f.view.replaceObjects(objects, version); !fits {
			err = NewTooManyObjectsError(f.at.GroupResource())
		}
	}
	f.view.recordList(err)
	f.lastListFailed = err != nil
	if apierrors.IsNotFound(err) && f.view.isListed() { // the cluster does not serve the kind any more
		f.dropView()
		f.view.onChange("")
	}
	return differs, err
}

// isUnknownVersion reports whether an API server cannot watch from a version, because the version is compacted or not reached.
func isUnknownVersion(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || apierrors.IsTimeout(err) ||
		apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}

// watchPlace applies the events of a watch until the watch ends. Without an error the view needs no list before the next watch. lasted reports that
// the watch has ended no earlier than the poll interval after its begin.
func (f *reflector) watchPlace(ctx context.Context, ended <-chan struct{}) (lasted bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := f.beginWatch(ctx, ended)
	if err != nil {
		return false, err
	}
	defer w.Stop()
	f.policy.liveWatches.Add(1)
	defer f.policy.liveWatches.Add(-1)
	s := watchStream{reflector: f, began: time.Now(), checkInterval: f.policy.firstCheckInterval()}
	err = s.applyEvents(ctx, w, ended)
	return s.lasted, err
}

// applyEvents applies the events of the watch until the watch ends.
func (s *watchStream) applyEvents(ctx context.Context, w watch.Interface, ended <-chan struct{}) error {
	timer := time.NewTimer(s.checkInterval)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ended:
			return errPolled
		case e, open := <-w.ResultChan():
			s.measureTime()
			if !open {
				return s.endStream(ctx)
			}
			if err := s.handleEvent(ctx, e); err != nil {
				return err
			}
		case <-timer.C:
			s.measureTime()
			if err := s.checkMissedEvents(ctx); err != nil {
				return err
			}
		}
		timer.Reset(s.checkInterval)
	}
}

// beginWatch begins a watch. The cluster begins one watch at a time, since each hanging request takes a slot of the rate limit.
// After a failure a list decides whether the cluster fails only to watch.
func (f *reflector) beginWatch(ctx context.Context, ended <-chan struct{}) (watch.Interface, error) {
	select {
	case f.policy.startSlot <- struct{}{}:
		defer func() { <-f.policy.startSlot }()
	case <-ended:
		return nil, errPolled
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case <-ended:
		return nil, errPolled
	default:
	}
	// A deadline would count as a cluster that does not respond.
	watchCtx, cancel := context.WithCancel(ctx)
	timer := time.AfterFunc(watchBeginTimeout, cancel)
	seconds := int64(watchTime.Seconds() * (1 + rand.Float64()))
	w, err := f.source.watchObjects(watchCtx, f.at, metav1.ListOptions{
		ResourceVersion: f.view.currentVersion(), AllowWatchBookmarks: true, TimeoutSeconds: &seconds,
	})
	switch {
	case timer.Stop() && err == nil:
		return cancelableWatch{w, cancel}, nil
	case err == nil:
		w.Stop()
		fallthrough
	case watchCtx.Err() != nil && ctx.Err() == nil:
		err = fmt.Errorf("it does not begin within %s", watchBeginTimeout)
	}
	cancel()
	return nil, f.attributeFailure(ctx, err)
}

// cancelableWatch is a watch whose Stop also cancels the context of the watch.
type cancelableWatch struct {
	watch.Interface
	cancel func()
}

// Stop implements watch.Interface.
func (s cancelableWatch) Stop() {
	s.Interface.Stop()
	s.cancel()
}

// attributeFailure records a failed watch if the cluster can be listed. A cluster that cannot be listed is unreachable. A version that the API server
// does not know is a failure only when a new list has not helped.
func (f *reflector) attributeFailure(ctx context.Context, why error) error {
	if isUnknownVersion(why) && !f.versionRefused {
		f.versionRefused = true
		return why
	}
	if _, err := f.listPlace(ctx); err != nil {
		return err
	}
	f.policy.recordFailure(fmt.Errorf("cannot watch %s: %w", f.at.GroupResource(), why))
	return why
}

// watchStream is the state of a watch that has begun.
type watchStream struct {
	*reflector
	began time.Time
	// lasted reports that the poll interval passed between the begin of the watch and the last event, or the end.
	lasted bool
	// checkInterval is the time without an event after which a list checks for missed events.
	checkInterval time.Duration
	gotEvent      bool
	// foundChanges reports that the last check found changes without events.
	foundChanges bool
}

// measureTime records whether the poll interval has passed since the begin of the watch. The lists after the end of a watch do not count.
func (s *watchStream) measureTime() { s.lasted = time.Since(s.began) >= s.policy.interval }

func (s *watchStream) handleEvent(ctx context.Context, e watch.Event) error {
	if e.Type == watch.Error {
		return s.failStream(ctx, apierrors.FromObject(e.Object))
	}
	object, err := ReadObject(e.Object)
	if err != nil {
		return s.failStream(ctx, err)
	}
	if !s.gotEvent && s.policy.recordEvent() {
		s.view.onChange("")
	}
	s.gotEvent, s.foundChanges, s.checkInterval = true, false, maxCheckInterval
	if !s.view.applyEvent(e.Type, object) {
		err := NewTooManyObjectsError(s.at.GroupResource())
		s.policy.cutWatches(err)
		return err
	}
	return nil
}

// checkMissedEvents lists the place to find changes without events. A watch whose events are only late delivers them before the
// next check.
func (s *watchStream) checkMissedEvents(ctx context.Context) error {
	if s.foundChanges {
		return s.attributeFailure(ctx, errSilentWatch)
	}
	differs, err := s.listPlace(ctx)
	if err != nil {
		return err
	}
	s.foundChanges = differs
	s.checkInterval = min(2*s.checkInterval, maxCheckInterval)
	if differs {
		s.checkInterval = s.policy.interval
	}
	return nil
}

// endStream handles a watch that the cluster, or a proxy, has ended. A watch without events that ends before the poll interval
// has failed.
func (s *watchStream) endStream(ctx context.Context) error {
	if s.gotEvent || s.lasted {
		return nil
	}
	return s.attributeFailure(ctx, fmt.Errorf("it was cut off after %s", time.Since(s.began).Round(time.Millisecond)))
}

// failStream handles a watch that ends with an error, which counts as endStream describes.
func (s *watchStream) failStream(ctx context.Context, why error) error {
	if s.gotEvent || s.lasted {
		return why
	}
	return s.attributeFailure(ctx, why)
}
