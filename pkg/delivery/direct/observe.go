// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// sights are the views of everything that an installation has. A view is nil where the cluster does not know the resource.
type sights map[place]*view

// look brings up the views of everything in an inventory, all at once: a cluster may be far.
func (i *Installation) look(ctx context.Context, inv inventory) (sights, error) {
	places := inv.places()
	views := make([]*view, len(places))
	for n, at := range places {
		var err error
		if views[n], err = i.cluster.startView(at); err != nil { //nolint:contextcheck // a view outlives the request that needs it first
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	out := sights{}
	var failed error
	for n, at := range places { // all, since one that has failed is dropped by who waits for it
		v, err := i.cluster.await(ctx, at, views[n])
		if err != nil && failed == nil {
			failed = err
		}
		out[at] = v
	}
	return out, failed
}

// of is what was seen of an object that was written at a resource version; nil when it is not there. known is false when
// that was not seen yet.
func (s sights) of(id render.ObjectID, gvr schema.GroupVersionResource, written string) (seen *sight, known bool) {
	v, looked := s[place{gvr, id.Namespace}]
	switch {
	case !looked:
		return nil, false
	case v == nil:
		return nil, true
	}
	behind := v.before(written) // asked first: the view goes on meanwhile
	if seen = v.get(id.Namespace, id.Name); seen == nil && behind {
		return nil, false
	}
	if seen != nil && older(seen.ResourceVersion, written) {
		return nil, false
	}
	return seen, true
}

// observe tells what was seen of the bundle.
func (i *Installation) observe(b *render.Bundle, a *anchor, seen sights) delivery.Observation {
	var o delivery.Observation
	var waiting []string
	for _, it := range items(b, a.UID) {
		e := a.inventory[it.id]
		if f := i.failing[it.id]; f != nil {
			o.Failed = append(o.Failed, f.Failure)
			continue
		}
		s, known := seen.of(it.id, e.gvr(), i.written[it.id])
		if e.Digest != it.digest || !known {
			waiting = append(waiting, it.id.String())
			continue
		}
		switch {
		case s == nil && e.Done:
			o.FinishedJobs = append(o.FinishedJobs, render.JobRef{Namespace: it.id.Namespace, Name: it.id.Name})
		case s == nil:
		case s.workload != nil:
			o.Workloads = append(o.Workloads, *s.workload)
		case s.job != nil:
			o.Jobs = append(o.Jobs, *s.job)
		}
	}
	for _, f := range i.undeleted {
		o.Failed = append(o.Failed, f.Failure)
	}
	if len(waiting) > 0 {
		o.Waiting = fmt.Sprintf("waiting for %s to be applied", slices.Min(waiting))
	}
	return o
}

// finish marks the Jobs that were seen complete, and tells whether any was.
func (inv inventory) finish(seen sights) (any bool) {
	for id, e := range inv {
		if e.Done || e.Kind != "Job" {
			continue
		}
		if s, known := seen.of(id, e.gvr(), ""); known && s != nil && s.job != nil && s.job.Complete {
			e.Done, any = true, true
			inv[id] = e
		}
	}
	return any
}

func (a *anchor) version() string { return a.Annotations[api.VersionAnnotation] }

func configMaps() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
}

func appsV1(resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: resource}
}

func workloadResource(w render.Workload) schema.GroupVersionResource {
	return appsV1(strings.ToLower(w.Kind) + "s")
}
