// Copyright Contributors to the Open Cluster Management project

package hub

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// TestAwaitSync holds that a slow hub is waited for, and that the log says what for.
func TestAwaitSync(t *testing.T) {
	var warned atomic.Bool
	ctx, cancel := context.WithCancel(log.IntoContext(t.Context(), funcr.New(func(_, args string) {
		if strings.Contains(args, "slow") && !strings.Contains(args, "quick") {
			warned.Store(true)
		}
	}, funcr.Options{})))
	synced := map[string]cache.InformerSynced{"quick": func() bool { return true }, "slow": warned.Load}
	if err := awaitSync(ctx, synced, time.Millisecond); err != nil || !warned.Load() {
		t.Errorf("error is %v, the log says what is missing: %t", err, warned.Load())
	}
	synced["slow"] = func() bool { return false }
	cancel()
	if err := awaitSync(ctx, synced, time.Millisecond); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "slow") {
		t.Errorf("error is %v, want that slow was not listed before the end", err)
	}
}
