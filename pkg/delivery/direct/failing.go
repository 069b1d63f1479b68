// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"open-cluster-management.io/knative-addon/pkg/delivery"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// fail remembers that the cluster has refused an object.
func (i *Installation) fail(it *item, err error) {
	f := i.failing[it.id]
	if f == nil || f.digest != it.digest {
		f = newFailing(it.id, i.clock.Now())
		f.digest = it.digest
		i.failing[it.id] = f
	}
	f.Cause, f.KindMissing = err.Error(), kindMissing(err)
	f.again(i.clock.Now())
}

// failDeletion remembers that the cluster has refused to delete an object.
func (i *Installation) failDeletion(id render.ObjectID, err error) {
	f := i.undeleted[id]
	if f == nil {
		f = newFailing(id, i.clock.Now())
		i.undeleted[id] = f
	}
	f.Cause = "its deletion was refused: " + err.Error()
	f.again(i.clock.Now())
}

// deletable tells whether the deletion of an object may be tried: it was not refused a moment ago.
func (i *Installation) deletable(id render.ObjectID, at time.Time) bool {
	f := i.undeleted[id]
	return f == nil || !at.Before(f.next)
}

func newFailing(id render.ObjectID, now time.Time) *failing {
	return &failing{Failure: delivery.Failure{
		Object: strings.TrimSpace(id.Kind + " " + strings.TrimPrefix(id.Namespace+"/"+id.Name, "/")), Since: now,
	}}
}

// again doubles the pause before the next try.
func (f *failing) again(now time.Time) {
	f.pause = min(max(2*f.pause, firstRetry), longestRetry)
	f.next = now.Add(f.pause)
}

// kindMissing recognizes the answer to a request for a resource that the cluster does not serve.
func kindMissing(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

func (i *Installation) failsIn(s stage) bool {
	for id := range i.failing {
		if stageOf(schema.GroupKind{Group: id.Group, Kind: id.Kind}) == s {
			return true
		}
	}
	return false
}

// blocked tells that something could not be applied that others may need. An object of a kind that the cluster does not
// know is not needed by any.
func (i *Installation) blocked() bool {
	for _, f := range i.failing {
		if !f.KindMissing {
			return true
		}
	}
	return false
}
