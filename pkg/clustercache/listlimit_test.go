// Copyright Contributors to the Open Cluster Management project

package clustercache

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestListLimit holds that at most maxLists lists run at a time, that a list without an answer counts no longer than slotTime, and that a view that
// ends waits no longer.
func TestListLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := NewListLimit()
		var running atomic.Int32
		begin := func(takes time.Duration) {
			release, err := limit.acquire(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			defer release()
			running.Add(1)
			time.Sleep(takes)
			running.Add(-1)
		}
		expectRunning := func(want int32) {
			t.Helper()
			synctest.Wait()
			if got := running.Load(); got != want {
				t.Errorf("%d lists run, want %d", got, want)
			}
		}
		for range 3 * maxLists {
			go begin(slotTime / 2)
		}
		expectRunning(maxLists)
		time.Sleep(2 * slotTime)
		expectRunning(0)
		for range 2 * maxLists {
			go begin(time.Hour) // clusters that do not answer
		}
		expectRunning(maxLists)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := limit.acquire(ended); !errors.Is(err, context.Canceled) {
			t.Errorf("the wait of an ended view ends with %v", err)
		}
		time.Sleep(slotTime)
		expectRunning(2 * maxLists)
		time.Sleep(2 * time.Hour)
		expectRunning(0)
		begin(0)
	})
}

// TestFirstListOutlivesTheWait holds that a view keeps its first list when the caller no longer waits, that the next caller gets the result, and
// that the first list takes no turn of other lists.
func TestFirstListOutlivesTheWait(t *testing.T) {
	answer := make(chan struct{})
	h := &hostileServer{list: func(w http.ResponseWriter, _ *http.Request) {
		<-answer
		writeList(w, 0, 1, "")
	}}
	limit := NewListLimit()
	for range maxLists {
		limit.slots <- struct{}{}
	}
	c, _ := h.connect(t, Options{Limit: NewWatchLimit(0), Lists: limit})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.View(ctx, inTeam); !errors.Is(err, context.Canceled) {
		t.Fatalf("the wait ends with %v", err)
	}
	close(answer)
	v, err := c.View(t.Context(), inTeam)
	if err != nil || len(v.List()) != 1 {
		t.Errorf("the view is %+v, %v", v, err)
	}
}

// TestFailedFirstListIsForgotten holds that a first list that fails after its caller has left is not the result of the next caller.
func TestFailedFirstListIsForgotten(t *testing.T) {
	var lists atomic.Int32
	h := &hostileServer{list: func(w http.ResponseWriter, _ *http.Request) {
		if lists.Add(1) == 1 {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		writeList(w, 0, 1, "")
	}}
	c, _ := h.connect(t, Options{Limit: NewWatchLimit(0)})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.View(ctx, inTeam); err == nil {
		t.Fatal("the caller gets a view that was not listed")
	}
	if v := c.StartedViews()[inTeam]; v != nil { // the list is under way
		<-v.ready
	}
	if v, err := c.View(t.Context(), inTeam); err != nil || len(v.List()) != 1 {
		t.Errorf("the view is %+v, %v", v, err)
	}
}
