// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"open-cluster-management.io/knative-addon/pkg/delivery"
)

// fail remembers that the cluster has refused an object.
func (i *Installation) fail(it *item, err error) {
	now := i.clock.Now()
	f := i.failing[it.id]
	if f == nil || f.digest != it.digest {
		f = &failing{digest: it.digest, Failure: delivery.Failure{Since: now}}
		i.failing[it.id] = f
	}
	f.Object = strings.TrimSpace(it.id.Kind + " " + strings.TrimPrefix(it.id.Namespace+"/"+it.id.Name, "/"))
	f.Cause, f.KindMissing = err.Error(), kindMissing(err)
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
