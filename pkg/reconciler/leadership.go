// Copyright Contributors to the Open Cluster Management project

package reconciler

import (
	"context"
	"time"
)

// leadershipRetry is the time until the next attempt of a pass that does not begin because another process may lead.
const leadershipRetry = time.Second

type leadershipKey struct{}

// WithLeadership returns a context for passes that begin only while leads returns true.
func WithLeadership(ctx context.Context, leads func() bool) context.Context {
	return context.WithValue(ctx, leadershipKey{}, leads)
}

// mayBegin reports whether a pass may begin: without WithLeadership, each pass may.
func mayBegin(ctx context.Context) bool {
	leads, limited := ctx.Value(leadershipKey{}).(func() bool)
	return !limited || leads()
}
