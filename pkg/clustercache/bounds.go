// Copyright Contributors to the Open Cluster Management project

package clustercache

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/boundedhttp"
)

const (
	// pageSize is the number of objects in a page of a list.
	pageSize = 250
	// MaxObjects bounds the objects with our component label of a cluster: ten times the objects of Serving and Eventing.
	MaxObjects = 2000
	// maxPlaces bounds the cached places of a cluster.
	maxPlaces = 250

	// maxNameBytes and maxVersionBytes bound the metadata in memory. Kubernetes allows 253 bytes for names; UIDs and resource
	// versions have 36 bytes at most.
	maxNameBytes, maxVersionBytes = 253, 64
	// maxContinueBytes bounds the token for the next page.
	maxContinueBytes = 4 << 10
)

// BoundError reports that a cluster has more, or larger, objects than the manager keeps in memory.
type BoundError struct {
	// What names the objects and the remedy.
	What string
}

// Error implements error.
func (e *BoundError) Error() string { return e.What }

// NewBoundError returns a *BoundError. The text names the objects and the remedy.
func NewBoundError(format string, args ...any) error {
	return &BoundError{What: fmt.Sprintf(format, args...)}
}

// IsBoundError reports whether an error is a *BoundError.
func IsBoundError(err error) bool {
	_, ok := errors.AsType[*BoundError](err)
	return ok
}

// NewTooManyObjectsError returns the error for a list that exceeds MaxObjects.
func NewTooManyObjectsError(r schema.GroupResource) error {
	return NewBoundError("the cluster has more than %d objects with label %s, as the list of %s shows; delete the objects that are no part of Knative",
		MaxObjects, api.ComponentLabel, r)
}

// ListPages calls list for each page until the list is complete or has most objects, and reports whether the list is complete.
// ListPages holds the memory of each page while list decodes the page. A list from the cache of an API server is one page:
// before Kubernetes 1.34 an API server reads its database for a list with a limit.
func ListPages(
	ctx context.Context, options metav1.ListOptions, most int, list func(context.Context, metav1.ListOptions) (*metav1.ListMeta, error),
) (complete bool, err error) {
	if options.ResourceVersionMatch == "" {
		options.Limit = pageSize
	}
	for range most/pageSize + 1 {
		held, release := boundedhttp.Hold(ctx)
		meta, err := list(held, options)
		release()
		switch {
		case err != nil:
			return false, err
		case meta.Continue == "":
			return true, nil
		case len(meta.Continue) > maxContinueBytes:
			return false, NewBoundError("the cluster's token for the next page of a list is longer than %d bytes", maxContinueBytes)
		}
		options.Continue, options.ResourceVersion, options.ResourceVersionMatch = meta.Continue, "", ""
		options.Limit = pageSize
	}
	return false, nil
}

// CheckMetadata returns a *BoundError for metadata that is longer than any API server of Kubernetes allows.
func CheckMetadata(m *metav1.ObjectMeta) error {
	for what, text := range map[string]struct {
		value string
		most  int
	}{
		"name": {m.Name, maxNameBytes}, "namespace": {m.Namespace, maxNameBytes},
		"UID": {string(m.UID), maxVersionBytes}, "resource version": {m.ResourceVersion, maxVersionBytes},
		"label " + api.ComponentLabel: {m.Labels[api.ComponentLabel], maxVersionBytes},
	} {
		if len(text.value) > text.most {
			return NewBoundError("the cluster has an object whose %s is longer than %d bytes, which no API server of Kubernetes allows", what, text.most)
		}
	}
	return nil
}

// cutText returns the first bytes of a text of a cluster, up to a limit.
func cutText(text string, limit int) string {
	return strings.ToValidUTF8(text[:min(len(text), limit)], "")
}

// objectQuota bounds the cached objects of a cluster by MaxObjects. A nil quota is no bound.
type objectQuota struct {
	mu       sync.Mutex
	reserved int
}

// reserve takes quota for more objects, or returns quota for fewer, and reports whether the quota suffices.
func (r *objectQuota) reserve(objects int) bool {
	if r == nil {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if objects > 0 && r.reserved+objects > MaxObjects {
		return false
	}
	r.reserved += objects
	return true
}
