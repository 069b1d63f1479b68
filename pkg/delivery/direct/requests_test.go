// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"context"
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestRequestBatch holds that a batch continues after a lost request, and ends when the cluster is unavailable.
func TestRequestBatch(t *testing.T) {
	lost := errors.New("connection reset by peer")
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "c", nil)
	const requests = 100
	for name, tc := range map[string]struct {
		result  func(n int) error
		want    error
		all     bool // whether each request ran with a context that had not ended
		atLeast int
	}{
		"each request has a response":  {result: func(int) error { return nil }, all: true},
		"each request is refused":      {result: func(int) error { return refused }, all: true},
		"one request is lost":          {result: lostAt(lost, func(n int) bool { return n == 0 }), want: lost, all: true},
		"every fourth request is lost": {result: lostAt(lost, func(n int) bool { return n%4 == 0 }), want: lost, all: true},
		"the cluster does not respond": {result: lostAt(lost, func(int) bool { return true }), want: lost},
		"the cluster stops after some": {result: lostAt(lost, func(n int) bool { return n >= 20 }), want: lost, atLeast: 20},
	} {
		t.Run(name, func(t *testing.T) {
			b := newRequestBatch(t.Context())
			b.group.SetLimit(1) // one after another, so that the results come in this order
			ran := 0
			for n := range requests {
				b.run(func(ctx context.Context) error {
					if ctx.Err() != nil {
						return ctx.Err()
					}
					ran++
					return tc.result(n)
				})
			}
			if err := b.wait(); !errors.Is(err, tc.want) {
				t.Errorf("the error is %v, want %v", err, tc.want)
			}
			if (ran == requests) != tc.all || ran < tc.atLeast {
				t.Errorf("%d of %d requests ran", ran, requests)
			}
		})
	}
}

func lostAt(lost error, isLost func(n int) bool) func(n int) error {
	return func(n int) error {
		if isLost(n) {
			return lost
		}
		return nil
	}
}
