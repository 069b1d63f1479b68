// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
)

const (
	// firstListPause and longestListPause bound the time between two attempts to list; each is twice the last.
	firstListPause, longestListPause = time.Second, 30 * time.Second
	// beginTimeout is how long a watch may take to begin.
	beginTimeout = 10 * time.Second
	// watchTime is for how long a watch is asked for at least, and at most twice as long.
	watchTime = 2 * time.Hour
	// longestCheck is the longest time between two looks whether a watch that is silent has missed something. API servers
	// send bookmarks more often.
	longestCheck = 5 * time.Minute
)

// errPolled ends a watch of a cluster that is not watched any more.
var errPolled = errors.New("the cluster is not watched any more")

// source is where objects are listed and watched: a Cluster.
type source interface {
	list(ctx context.Context, at place, options metav1.ListOptions) (objects []*sight, version string, err error)
	watch(ctx context.Context, at place, options metav1.ListOptions) (watch.Interface, error)
}

// follower keeps a view up to date: by a watch while the cluster is watched, and else by lists.
type follower struct {
	view    *view
	outlook *outlook
	at      place
	source  source
	// failed tells that the last list has failed.
	failed bool
}

func (f *follower) run(ctx context.Context) {
	_, err := f.list(ctx)
	f.view.err = err
	close(f.view.ready)
	if err != nil {
		return // whoever waits for the view drops it
	}
	pauses := f.pauses()
	for listed := true; ctx.Err() == nil; {
		if !listed {
			if _, err := f.list(ctx); err != nil { // the cluster is away, which others tell
				f.outlook.log.V(1).Info("cannot list", "resource", f.at.GroupResource(), "error", err.Error())
				sleep(ctx, pauses.Step())
				continue
			}
			pauses = f.pauses()
		}
		ended, watched := f.outlook.watched()
		if !watched {
			sleep(ctx, wait.Jitter(f.outlook.interval, 0.1))
			listed = false
			continue
		}
		err := f.watch(ctx, ended)
		if listed = err == nil; listed || errors.Is(err, errPolled) {
			continue
		}
		f.outlook.log.V(1).Info("watch ended", "resource", f.at.GroupResource(), "error", err.Error())
		now := time.Now()
		f.outlook.lost.Store(&now)
		f.view.changed("") // the cluster may be away
		sleep(ctx, pauses.Step())
	}
}

func (f *follower) pauses() wait.Backoff {
	return wait.Backoff{Duration: firstListPause, Factor: 2, Jitter: 0.2, Steps: 10, Cap: longestListPause}
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// list brings the view up to date, and tells whether it was not. The first list, and one after a failure, asks for the
// latest: a cluster that was restored from a backup may never come to the version that was seen. The others only ask for what
// is no older than that, which an API server has in its cache.
func (f *follower) list(ctx context.Context) (differs bool, err error) {
	options := metav1.ListOptions{}
	if version := f.view.at(); version != "" && !f.failed {
		options.ResourceVersion, options.ResourceVersionMatch = version, metav1.ResourceVersionMatchNotOlderThan
	}
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	objects, version, err := f.source.list(ctx, f.at, options)
	f.view.judge(err)
	if f.failed = err != nil; f.failed {
		return false, err
	}
	if older(version, f.view.at()) {
		f.outlook.restored.Add(1)
	}
	return f.view.replace(objects, version), nil
}

// unknownVersion tells that an API server cannot watch from a version: it has forgotten it, or has not come as far.
func unknownVersion(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || apierrors.IsTimeout(err) ||
		apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}

// watch follows a watch to its end. The view need not be listed anew when there is no error.
func (f *follower) watch(ctx context.Context, ended <-chan struct{}) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := f.begin(ctx, ended)
	if err != nil {
		return err
	}
	defer w.Stop()
	f.outlook.live.Add(1)
	defer f.outlook.live.Add(-1)
	began := time.Now()
	s := stream{follower: f, check: f.outlook.firstCheck()}
	timer := time.NewTimer(s.check)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ended:
			return errPolled
		case e, open := <-w.ResultChan():
			if !open {
				return s.end(ctx, time.Since(began))
			}
			if err := s.take(e); err != nil {
				return err
			}
		case <-timer.C:
			if err := s.look(ctx); err != nil {
				return err
			}
		}
		timer.Reset(s.check)
	}
}

// begin begins a watch, one at a time for a cluster: each that hangs takes the place of another request. When it fails, a
// list tells whether that is about watching.
func (f *follower) begin(ctx context.Context, ended <-chan struct{}) (watch.Interface, error) {
	select {
	case f.outlook.turn <- struct{}{}:
		defer func() { <-f.outlook.turn }()
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
	// Not a deadline, which would be taken for the cluster's silence.
	watchCtx, cancel := context.WithCancel(ctx)
	timer := time.AfterFunc(beginTimeout, cancel)
	seconds := int64(watchTime.Seconds() * (1 + rand.Float64()))
	w, err := f.source.watch(watchCtx, f.at, metav1.ListOptions{
		ResourceVersion: f.view.at(), AllowWatchBookmarks: true, TimeoutSeconds: &seconds,
	})
	switch {
	case timer.Stop() && err == nil:
		return stopped{w, cancel}, nil
	case err == nil:
		w.Stop()
		fallthrough
	case watchCtx.Err() != nil && ctx.Err() == nil:
		err = fmt.Errorf("it does not begin within %s", beginTimeout)
	}
	cancel()
	return nil, f.blame(ctx, err)
}

// stopped is a watch with what has to be released after it.
type stopped struct {
	watch.Interface
	release func()
}

// Stop implements watch.Interface.
func (s stopped) Stop() {
	s.Interface.Stop()
	s.release()
}

// blame notes that a watch has failed, if the cluster can be listed: else it is away.
func (f *follower) blame(ctx context.Context, why error) error {
	if unknownVersion(why) {
		return why
	}
	if _, err := f.list(ctx); err != nil {
		return err
	}
	f.outlook.failed(fmt.Errorf("cannot watch %s: %w", f.at.GroupResource(), why))
	return why
}

// stream is a watch that has begun.
type stream struct {
	*follower
	// check is after how long to look whether something was missed, unless there is an event before.
	check time.Duration
	heard bool
	// missed tells that there was something at the last look.
	missed bool
}

func (s *stream) take(e watch.Event) error {
	if e.Type == watch.Error {
		return apierrors.FromObject(e.Object)
	}
	object, err := sightOf(e.Object)
	if err != nil {
		return err
	}
	if !s.heard {
		s.outlook.heard()
	}
	s.heard, s.missed, s.check = true, false, longestCheck
	s.view.take(e.Type, object)
	return nil
}

// look looks whether the watch has missed something. What was only on its way comes before the next look.
func (s *stream) look(ctx context.Context) error {
	if s.missed {
		return s.blame(ctx, errSilentWatch)
	}
	differs, err := s.list(ctx)
	if err != nil {
		return err
	}
	s.missed = differs
	s.check = min(2*s.check, longestCheck)
	if differs {
		s.check = s.outlook.interval
	}
	return nil
}

// end is for a watch that the cluster, or something before it, has ended. One that was too short to be of use has failed.
func (s *stream) end(ctx context.Context, after time.Duration) error {
	if s.heard || after >= s.outlook.interval {
		return nil
	}
	return s.blame(ctx, fmt.Errorf("it was cut off after %s", after.Round(time.Millisecond)))
}
