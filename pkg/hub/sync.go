// Copyright Contributors to the Open Cluster Management project

package hub

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// syncWarning is the interval between two log lines about caches that are not full.
const syncWarning = 20 * time.Second

// awaitSync waits until all caches are full, without a time limit, and logs the missing caches at every interval: the lists
// of a large hub may need minutes, and a manager that gives up requests all lists again. The error names the missing caches.
func awaitSync(ctx context.Context, synced map[string]cache.InformerSynced, interval time.Duration) error {
	for {
		wait, cancel := context.WithTimeout(ctx, interval)
		done := cache.WaitForCacheSync(wait.Done(), slices.Collect(maps.Values(synced))...)
		cancel()
		if done {
			return nil
		}
		missing := findUnsynced(synced)
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("cannot list %s: %w", strings.Join(missing, ", "), err)
		}
		log.FromContext(ctx).Info("still listing; if this lasts, check that the CRDs are installed and that this service account may list and watch the kinds",
			"resources", missing)
	}
}

// findUnsynced returns the sorted names of the caches that are not full.
func findUnsynced(synced map[string]cache.InformerSynced) []string {
	var out []string
	for name, hasSynced := range synced {
		if !hasSynced() {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
