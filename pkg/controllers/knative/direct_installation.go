// Copyright Contributors to the Open Cluster Management project

package knative

import (
	"context"
	"errors"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"open-cluster-management.io/knative-addon/pkg/clustercache"
	"open-cluster-management.io/knative-addon/pkg/delivery/direct"
	"open-cluster-management.io/knative-addon/pkg/inventory"
)

const (
	// firstPassPause and longestPassPause bound the pause after a pass that took longer than passTimeout. Each pause is twice as
	// long as the last one.
	firstPassPause, longestPassPause = 10 * time.Second, 5 * time.Minute
	// reportedFailures is the number of passes in a row that the cluster ends with an error before the status names the error.
	reportedFailures = 3
	// removalRetry and longestRemovalRetry bound the time until the next pass of a removal that waits for the end of deleted
	// objects, unless an event comes first. Users may take long to delete their resources.
	removalRetry, longestRemovalRetry = time.Second, 30 * time.Second
)

// installation is the memory of one installation.
type installation struct {
	*direct.Installation
	cluster *clustercache.Cluster
	// removalReason is the text about the objects that the removal waits for, and removalPause the last wait.
	removalReason string
	removalPause  time.Duration
	// passPause is the pause after a pass that took too long.
	passPause passPause
	// failedPasses is the number of passes in a row that the cluster ended with an error.
	failedPasses int
}

// reportsFailure reports whether the status names the error of a pass: an error of the cluster that has ended several passes in a row, such as
// a webhook that does not respond, or an answer that cannot be decoded. Earlier passes are repeated soon.
func (i *installation) reportsFailure(err error) bool {
	if !(isStatus(err) && !apierrors.IsConflict(err)) && !errors.Is(err, context.DeadlineExceeded) && !isUndecodable(err) {
		return false
	}
	i.failedPasses++
	return i.failedPasses >= reportedFailures
}

// installationOf returns the memory of the resource's installation. The memory ends with the connection to the cluster.
func (d *Direct) installationOf(config *unstructured.Unstructured, t *ReachableCluster) *installation {
	d.mu.Lock()
	defer d.mu.Unlock()
	name := client.ObjectKeyFromObject(config)
	if i := d.installations[name]; i != nil && i.cluster == t.Cluster {
		return i
	}
	d.forgetInstallation(name)
	if d.installations == nil {
		d.installations = map[types.NamespacedName]*installation{}
	}
	i := &installation{cluster: t.Cluster, Installation: direct.NewInstallation(t.Cluster, inventory.Owner{Component: d.Component, Hub: t.HubUID, Name: name}, d.Clock)}
	d.installations[name] = i
	return i
}

// forgetInstallation drops the memory of the resource's installation, and ends the views of the cluster that no other installation needs. The caller
// holds the lock.
func (d *Direct) forgetInstallation(name types.NamespacedName) {
	if i := d.installations[name]; i != nil {
		i.ReleaseViews()
		delete(d.installations, name)
	}
}

// removalRetryAfter returns the time until the next pass of a removal. The time doubles while the reason for the wait is the
// same.
func (i *installation) removalRetryAfter(reason string) time.Duration {
	if reason != i.removalReason {
		i.removalReason, i.removalPause = reason, 0
	}
	i.removalPause = min(max(2*i.removalPause, removalRetry), longestRemovalRetry)
	return i.removalPause
}

// passPause keeps a slow cluster from holding a worker for most of the time.
type passPause struct {
	mu sync.Mutex
	// pause is the last pause, 0 when the last pass ended in time. until is the end of the pause.
	pause time.Duration
	until time.Time
}

// beginPause begins and returns a pause that is twice as long as the last one.
func (p *passPause) beginPause(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pause = min(max(2*p.pause, firstPassPause), longestPassPause)
	p.until = now.Add(p.pause)
	return p.pause
}

// endPause ends all pauses, because a pass ended in time.
func (p *passPause) endPause() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pause, p.until = 0, time.Time{}
}

// timeLeft returns the rest of the pause. The next pass may begin when the rest is not positive.
func (p *passPause) timeLeft(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.until.Sub(now)
}
