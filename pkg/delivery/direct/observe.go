// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"open-cluster-management.io/knative-addon/pkg/clustercache"
	"open-cluster-management.io/knative-addon/pkg/delivery"
	"open-cluster-management.io/knative-addon/pkg/inventory"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/workload"
)

// observeBundle returns the cached state of the bundle.
func (i *Installation) observeBundle(b *render.Bundle, a *inventory.Anchor, seen clustercache.Views) delivery.Observation {
	var o delivery.Observation
	var waiting []string
	for _, it := range desiredObjects(b, a.UID) {
		e := a.Items[it.id]
		if f := i.failedObjects[it.id]; f != nil {
			o.Failed = append(o.Failed, f.Failure)
			continue
		}
		s, known := seen.Find(e.Place(), it.id.Name, i.writtenVersions[it.id])
		if e.Digest != it.digest || !known {
			waiting = append(waiting, it.id.String())
			continue
		}
		switch {
		case s == nil && e.Done && it.Class == render.OncePerVersion:
			o.FinishedJobs = append(o.FinishedJobs, workload.JobRef{Namespace: it.id.Namespace, Name: it.id.Name})
		case s == nil:
		case s.Workload != nil:
			o.Workloads = append(o.Workloads, workloadState(it.id, s.Workload))
		case s.Job != nil:
			o.Jobs = append(o.Jobs, delivery.JobState{
				JobRef: workload.JobRef{Namespace: it.id.Namespace, Name: it.id.Name}, Complete: s.Job.Complete, Failed: s.Job.Failed,
			})
		}
	}
	for _, f := range i.failedDeletions {
		o.Failed = append(o.Failed, f.Failure)
	}
	if len(waiting) > 0 {
		o.Waiting = fmt.Sprintf("waiting for %s to be applied", slices.Min(waiting))
	}
	return o
}

// ObserveInventory returns the state of the installation that the anchor records; nil without an anchor of this owner. The items of
// the anchor name the expected workloads and Jobs, so that ObserveInventory needs no bundle. ObserveInventory writes nothing.
// Errors are those of Sync.
func (i *Installation) ObserveInventory(ctx context.Context, namespace string) (*delivery.Kept, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	a, err := i.currentAnchor(ctx, namespace)
	if err != nil || a == nil {
		return nil, clustercache.WrapRefusal(err)
	}
	seen, err := i.viewItems(ctx, a)
	if err != nil {
		return nil, clustercache.WrapRefusal(err)
	}
	i.anchor = a
	return i.observeItems(a, seen), nil
}

// observeItems returns the cached state of the applied items of the anchor.
func (i *Installation) observeItems(a *inventory.Anchor, seen clustercache.Views) *delivery.Kept {
	kept := &delivery.Kept{}
	for _, e := range a.Items.Sorted() {
		if e.Digest != "" {
			i.observeItem(kept, &e, seen)
		}
	}
	return kept
}

// observeItem adds the cached state of an applied workload or Job.
func (i *Installation) observeItem(kept *delivery.Kept, e *inventory.Item, seen clustercache.Views) {
	id, o := e.ID(), &kept.Observation
	feedback := render.KindOf(schema.GroupKind{Group: id.Group, Kind: id.Kind}).Feedback
	if feedback == render.NoFeedback {
		return
	}
	s, known := seen.Find(e.Place(), id.Name, i.writtenVersions[id])
	if !known && o.Waiting == "" {
		o.Waiting = fmt.Sprintf("waiting for %s to be read", id)
	}
	if feedback == render.WorkloadFeedback {
		kept.Workloads = append(kept.Workloads, workload.Expected{Kind: id.Kind, Namespace: id.Namespace, Name: id.Name})
		if s != nil && s.Workload != nil {
			o.Workloads = append(o.Workloads, workloadState(id, s.Workload))
		}
		return
	}
	job := workload.JobRef{Namespace: id.Namespace, Name: id.Name}
	kept.Jobs = append(kept.Jobs, job)
	switch {
	case s != nil && s.Job != nil:
		o.Jobs = append(o.Jobs, delivery.JobState{JobRef: job, Complete: s.Job.Complete, Failed: s.Job.Failed})
	case e.Done:
		o.FinishedJobs = append(o.FinishedJobs, job)
	}
}

// determineInstalled returns the versions on the cluster. The delivered version is running when the cluster has every recorded
// object, each workload is rolled out, and each Job has completed. A version has a Job of its own, which is applied last, so that the Job
// of a version that is applied in part is missing. Abandoned objects do not count.
func (i *Installation) determineInstalled(a *inventory.Anchor, seen clustercache.Views, abandoned map[render.ObjectID]bool) render.Installed {
	installed := a.Installed()
	if installed.Running == installed.Delivered || len(a.Items) == 0 || len(i.failedObjects) > 0 {
		return installed
	}
	for id, e := range a.Items {
		if abandoned[id] {
			continue
		}
		s, known := seen.Find(e.Place(), id.Name, i.writtenVersions[id])
		if e.Digest == "" || !known || !isRunning(id, &e, s) {
			return installed
		}
	}
	installed.Running = installed.Delivered
	return installed
}

// isRunning reports whether a workload is rolled out, or a Job has completed. Objects of all other kinds do not run.
func isRunning(id render.ObjectID, e *inventory.Item, s *clustercache.Object) bool {
	switch render.KindOf(schema.GroupKind{Group: id.Group, Kind: id.Kind}).Feedback {
	case render.JobFeedback:
		return e.Done || s != nil && s.Job != nil && s.Job.Complete
	case render.WorkloadFeedback:
		if s == nil || s.Workload == nil {
			return false
		}
		done, _ := s.Workload.RolledOut()
		return done
	case render.NoFeedback:
	}
	return true
}

func workloadState(id render.ObjectID, state *workload.State) delivery.WorkloadState {
	return delivery.WorkloadState{WorkloadKey: delivery.WorkloadKey{Kind: id.Kind, Namespace: id.Namespace, Name: id.Name}, State: *state}
}

// markFinishedJobs marks the Jobs that have completed, and reports whether a Job was marked.
func markFinishedJobs(inv inventory.Items, seen clustercache.Views) (any bool) {
	for id, e := range inv {
		if e.Done || e.Kind != "Job" {
			continue
		}
		if s, known := seen.Find(e.Place(), id.Name, ""); known && s != nil && s.Job != nil && s.Job.Complete {
			e.Done, any = true, true
			inv[id] = e
		}
	}
	return any
}

// anchorPlace returns the place of an anchor in a namespace.
func anchorPlace(namespace string) clustercache.Place {
	return clustercache.Place{GroupVersionResource: configMapResource(), Namespace: namespace}
}

func configMapResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
}

func appsResource(resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: resource}
}

func workloadResource(w workload.Expected) schema.GroupVersionResource {
	return appsResource(strings.ToLower(w.Kind) + "s")
}
