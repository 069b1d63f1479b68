// Copyright Contributors to the Open Cluster Management project

package clustercache

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// TestLostLabelNotifiesBothComponents holds that the installation which loses an object to another component is notified, too.
func TestLostLabelNotifiesBothComponents(t *testing.T) {
	object := func(version string, component api.Component) *Object {
		return &Object{Namespace: "team", Name: "a", UID: "u", ResourceVersion: version, Component: component}
	}
	for name, change := range map[string]func(v *View){
		"a list":             func(v *View) { v.replaceObjects([]*Object{object("6", "eventing")}, "6") },
		"an event":           func(v *View) { v.applyEvent(watch.Modified, object("6", "eventing")) },
		"an event of an end": func(v *View) { v.applyEvent(watch.Deleted, object("6", "eventing")) },
	} {
		notified := map[api.Component]int{}
		v := newView(func(c api.Component) { notified[c]++ })
		v.replaceObjects([]*Object{object("5", "serving")}, "5")
		clear(notified)
		change(v)
		if notified["serving"] != 1 || notified["eventing"] != 1 || len(notified) != 2 {
			t.Errorf("%s: notified are %v, want serving and eventing once each", name, notified)
		}
	}
}

// TestErrorsOfListsAreShort holds that a view keeps no long text of the cluster, and that the short error has the meaning of the long error.
func TestErrorsOfListsAreShort(t *testing.T) {
	long := strings.Repeat("z", 200<<10)
	refusal := apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "x", errors.New(long))
	refusal.ErrStatus.Details.Causes = []metav1.StatusCause{{Message: long}}
	v := NewFakeView("1")
	v.recordList(refusal)
	got := v.listError()
	if !apierrors.IsForbidden(got) || !IsRefusal(got) || !strings.HasPrefix(got.Error(), `things "x" is forbidden: zzz`) {
		t.Errorf("the error is %.100v", got)
	}
	status := apierrors.APIStatus(nil)
	if errors.As(got, &status); len(got.Error()) > 2*maxListErrorBytes || status.Status().Details != nil {
		t.Errorf("the view keeps %d bytes and the details %.100v", len(got.Error()), status.Status().Details)
	}
	if short := shortenError(errors.New(long)); len(short.Error()) > 2*maxListErrorBytes {
		t.Errorf("%d bytes of another error stay", len(short.Error()))
	}
	if away := shortenError(errAway); !errors.Is(away, errAway) {
		t.Errorf("a short error becomes %v", away)
	}
}

// TestFailingListsAreReported holds that a place whose lists fail is reported once while the cluster answers otherwise, and so is the end.
func TestFailingListsAreReported(t *testing.T) {
	for name, why := range map[string]error{
		"status 500": apierrors.NewInternalError(errors.New("no etcd")), "status 429": apierrors.NewTooManyRequests("later", 1), "no answer": errAway,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := follow(t, NewWatchLimit(0), nil)
				c := &Cluster{poller: o.poller, views: viewSet{started: Views{o.at: o.view}}}
				isReported := func(want bool, notified int32) {
					t.Helper()
					v, err := c.awaitView(t.Context(), o.at, o.view)
					if (err != nil) != want || (v == nil) != want || o.doubts.Load() != notified {
						t.Errorf("the view is %v, error %v, notified %d times; want an error: %t, notified %d times", v, err, o.doubts.Load(), want, notified)
					}
				}
				o.setAway(why)
				for range 10 { // the cluster does not answer at all
					pass(time.Minute)
					c.RecordLoss()
				}
				isReported(false, 0)
				pass(maxListFailure - maxListPause)
				isReported(false, 0)
				pass(3 * maxListPause)
				isReported(true, 1)
				pass(time.Hour)
				isReported(true, 1)
				o.setAway(nil)
				pass(2 * maxListPause)
				isReported(false, 2)
			})
		})
	}
}

// TestTooManyObjectsAreReportedOnce holds that a list beyond the quota is one refusal, however often the list is repeated.
func TestTooManyObjectsAreReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := follow(t, NewWatchLimit(0), nil)
		o.view.quota = &objectQuota{reserved: MaxObjects}
		o.change("a")
		pass(10 * time.Minute)
		if err := o.view.listError(); !IsBoundError(err) || o.doubts.Load() != 1 {
			t.Errorf("the error is %v, notified %d times", err, o.doubts.Load())
		}
	})
}

// breakingWatches returns watches that end after a time, the first of them with a bookmark if there is one. The thousandth watch never ends.
func breakingWatches(after time.Duration, bookmark *metav1.PartialObjectMetadata, end func(*watch.FakeWatcher)) func(context.Context) (watch.Interface, error) {
	watches := 0
	return func(context.Context) (watch.Interface, error) {
		w := watch.NewFakeWithChanSize(2, false)
		if bookmark != nil {
			w.Action(watch.Bookmark, bookmark)
		}
		if watches++; watches < 1000 {
			time.AfterFunc(after, func() { end(w) })
		}
		return w, nil
	}
}

// TestBreakingWatchesPause holds that watches which break soon neither follow each other at once nor cause a pass each second.
func TestBreakingWatchesPause(t *testing.T) {
	bookmark := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "10"}}
	expired := apierrors.NewResourceExpired("too old")
	reset := func(w *watch.FakeWatcher) { w.Error(&apierrors.NewInternalError(errors.New("stream error")).ErrStatus) }
	for name, tc := range map[string]struct {
		begin func(context.Context) (watch.Interface, error)
		// most is the largest number of watches in ten minutes: fewer when the cluster is polled instead.
		most int32
	}{
		"reset":                       {breakingWatches(5*time.Second, nil, reset), maxWatchFailures},
		"reset after an event":        {breakingWatches(5*time.Second, bookmark, reset), 30},
		"ends after an event":         {breakingWatches(0, bookmark, (*watch.FakeWatcher).Stop), 30},
		"version unknown":             {func(context.Context) (watch.Interface, error) { return nil, expired }, maxWatchFailures + 1},
		"version unknown to a stream": {breakingWatches(0, nil, func(w *watch.FakeWatcher) { w.Error(&expired.ErrStatus) }), maxWatchFailures + 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := follow(t, nil, tc.begin)
				pass(9 * time.Minute)
				_, watches := o.counts()
				if int32(watches) > tc.most || o.doubts.Load() > tc.most {
					t.Errorf("%d watches and %d passes, want %d at most", watches, o.doubts.Load(), tc.most)
				}
			})
		})
	}
}

// TestUsualEndsOfWatches holds that a watch which has lasted begins again at once, also after a failed watch, and that a version which the API server
// does not know leads to one list.
func TestUsualEndsOfWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var current *watch.FakeWatcher
		o := follow(t, nil, func(context.Context) (watch.Interface, error) {
			current = watch.NewFake()
			return current, nil
		})
		current.Modify(o.change("a"))
		for range 3 {
			current.Error(&apierrors.NewInternalError(errAway).ErrStatus)
			pass(maxListPause)
			current.Modify(o.change("a"))
		}
		for range 3 {
			pass(6 * time.Minute)
			_, before := o.counts()
			current.Stop()
			pass(0)
			if _, watches := o.counts(); watches != before+1 {
				t.Errorf("%d watches begin at once", watches-before)
			}
		}
		pass(6 * time.Minute)
		lists, watches := o.counts()
		current.Error(&apierrors.NewResourceExpired("too old").ErrStatus)
		pass(2 * time.Second)
		if nowLists, nowWatches := o.counts(); nowLists != lists+1 || nowWatches != watches+1 {
			t.Errorf("%d lists and %d watches, want one each", nowLists-lists, nowWatches-watches)
		}
		if o.policy.failures > 0 || len(o.lines) > 0 {
			t.Errorf("%d failures, logged %q", o.policy.failures, o.lines)
		}
	})
}
