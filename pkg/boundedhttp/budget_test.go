// Copyright Contributors to the Open Cluster Management project

package boundedhttp

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
)

// answering is an answer that claims memory.
type answering struct {
	*claim
	evicted *LimitError
}

func newAnswering(s *Share) *answering {
	a := &answering{}
	a.claim = &claim{share: s, evict: func(why *LimitError) { a.evicted = why }}
	return a
}

func TestBudgetGivesUpTheLargestAnswer(t *testing.T) {
	b := NewBudget(40 << 20)
	large := newAnswering(b.Share())
	if err := large.claimMemory(t.Context(), 10<<20); err != nil {
		t.Fatal(err)
	}
	for i := range 4 { // 10 MiB is what one cluster may have
		a := newAnswering(b.Share())
		if err := a.claimMemory(t.Context(), 9<<20); err != nil {
			t.Fatalf("answer %d: %v", i, err)
		}
	}
	if large.evicted == nil || large.held != 0 || !large.evicted.ShortMemory {
		t.Errorf("the largest holds %d, and is given up as %+v", large.held, large.evicted)
	}
	if b.held > b.total {
		t.Errorf("%d are held of %d", b.held, b.total)
	}
}

func TestBudgetRefusesTheAnswerThatIsTheLargest(t *testing.T) {
	b := NewBudget(40 << 20)
	a := newAnswering(b.Share())
	err := a.claimMemory(t.Context(), 20<<20)
	if limit, ok := errors.AsType[*LimitError](err); !ok || limit.ShortMemory {
		t.Errorf("got %+v", err)
	}
	a.releaseMemory()
	if b.held != 0 || a.share.held != 0 || len(b.claims) != 0 {
		t.Errorf("%d are held by %d", b.held, len(b.claims))
	}
}

func TestBudgetOfSmallAnswersIsWaitedFor(t *testing.T) {
	b := NewBudget(8 << 20) // 2 MiB a cluster
	share := b.Share()
	first, second, third := newAnswering(share), newAnswering(share), newAnswering(share)
	for _, a := range []*answering{first, second} {
		if err := a.claimMemory(t.Context(), 1<<20); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := third.claimMemory(ctx, 1<<20); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v instead of waiting", err)
	}
	got := make(chan error)
	go func() { got <- third.claimMemory(t.Context(), 1<<20) }()
	first.releaseMemory()
	if err := <-got; err != nil {
		t.Error(err)
	}
	if other := newAnswering(b.Share()); other.claimMemory(t.Context(), 2<<20) != nil {
		t.Error("another cluster waits too")
	}
}

func TestHeldMemoryComesBackAfterDecoding(t *testing.T) {
	b := NewBudget(40 << 20)
	ctx, release := Hold(t.Context())
	l, _ := ctx.Value(leaseKey{}).(*lease)
	a := newAnswering(b.Share())
	if err := a.claimMemory(ctx, 9<<20); err != nil {
		t.Fatal(err)
	}
	l.takeClaim(a.claim)
	if other := newAnswering(a.share); other.claimMemory(t.Context(), 3<<20) == nil || a.evicted != nil {
		t.Error("an answer that is being decoded was given up, or its memory was not counted")
	}
	release()
	if a.held != 0 {
		t.Errorf("%d are held", a.held)
	}
	late := newAnswering(b.Share())
	if err := late.claimMemory(t.Context(), 9<<20); err != nil {
		t.Fatal(err)
	}
	l.takeClaim(late.claim)
	if late.held != 0 {
		t.Error("memory that is held after the end never comes back")
	}
}

// TestWaitForMemoryIsNoSlowResponse holds that a response which waits for the memory of other clusters until its time is up was not too slow.
func TestWaitForMemoryIsNoSlowResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(4 << 20) // 1 MiB a cluster
		for range 4 {
			if err := newAnswering(b.Share()).claimMemory(t.Context(), 1<<20); err != nil {
				t.Fatal(err)
			}
		}
		share := b.Share()
		for _, tc := range []struct {
			body  string
			short bool
		}{{`"` + strings.Repeat("a", 200<<10), true}, {`"a`, false}} {
			var refused *LimitError
			ctx, cancel := context.WithCancel(t.Context())
			r, w := io.Pipe()
			context.AfterFunc(ctx, func() { _ = w.Close() })
			go func() { _, _ = io.WriteString(w, tc.body) }()
			body := NewBody(ctx, cancel, r, BodyOptions{
				Limits: ResponseLimits(), Share: share, Refused: func(why *LimitError) { refused = why }, Closed: func() {},
			})
			_, _ = io.Copy(io.Discard, body)
			_ = body.Close()
			if refused == nil || refused.ShortMemory != tc.short {
				t.Errorf("a body of %d bytes is refused because the answer %+v", len(tc.body), refused)
			}
		}
	})
}
