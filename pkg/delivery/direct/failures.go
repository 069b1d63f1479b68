// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"open-cluster-management.io/knative-addon/pkg/delivery"
	"open-cluster-management.io/knative-addon/pkg/message"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// maxCause is the number of bytes of a refusal that a failure keeps: a hostile cluster may answer each request with a long text.
const maxCause = 4 << 10

// recordFailure records that the cluster refused to apply an object.
func (i *Installation) recordFailure(it *desiredObject, err error) {
	f := i.failedObjects[it.id]
	if f == nil || f.digest != it.digest {
		f = newFailedObject(it.id, i.clock.Now())
		f.digest = it.digest
		i.failedObjects[it.id] = f
	}
	f.Cause, f.KindMissing = message.Shorten(err.Error(), maxCause), isKindMissing(err)
	f.delayRetry(i.clock.Now())
}

// recordFailedDeletion records that the cluster refused to delete an object.
func (i *Installation) recordFailedDeletion(id render.ObjectID, err error) {
	f := i.failedDeletions[id]
	if f == nil {
		f = newFailedObject(id, i.clock.Now())
		i.failedDeletions[id] = f
	}
	f.Cause = "its deletion was refused: " + message.Shorten(err.Error(), maxCause)
	f.delayRetry(i.clock.Now())
}

// mayDelete reports whether the deletion of an object may be tried: no refusal is more recent than the pause after that
// refusal.
func (i *Installation) mayDelete(id render.ObjectID, at time.Time) bool {
	f := i.failedDeletions[id]
	return f == nil || !at.Before(f.retryAt)
}

func newFailedObject(id render.ObjectID, now time.Time) *failedObject {
	return &failedObject{Failure: delivery.Failure{
		Object: strings.TrimSpace(id.Kind + " " + strings.TrimPrefix(id.Namespace+"/"+id.Name, "/")), Since: now,
	}}
}

// delayRetry doubles the pause before the next try.
func (f *failedObject) delayRetry(now time.Time) {
	f.pause = min(max(2*f.pause, firstRetry), longestRetry)
	f.retryAt = now.Add(f.pause)
}

// isKindMissing recognizes the response to a request for a resource that the cluster does not serve.
func isKindMissing(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

func (i *Installation) hasFailureIn(s render.Stage) bool {
	for id := range i.failedObjects {
		if stageOf(id) == s {
			return true
		}
	}
	return false
}

// hasBlockingFailureBefore reports whether an object of a stage before s failed that later objects may need. No object needs an object of a
// kind that the cluster does not serve.
func (i *Installation) hasBlockingFailureBefore(s render.Stage) bool {
	for id, f := range i.failedObjects {
		if !f.KindMissing && stageOf(id) < s {
			return true
		}
	}
	return false
}

func stageOf(id render.ObjectID) render.Stage {
	return render.KindOf(schema.GroupKind{Group: id.Group, Kind: id.Kind}).Stage
}
