// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/clustercache"
	"open-cluster-management.io/knative-addon/pkg/inventory"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// changePlan lists the changes of a pass.
type changePlan struct {
	// createdAt is when the plan was created.
	createdAt time.Time
	// apply are the objects to apply, by stage.
	apply [render.Stages][]desiredObject
	// missing are the objects to apply that the cluster does not have, as far as the cache shows.
	missing map[render.ObjectID]bool
	// abandoned are the recorded objects that the cluster never accepted, and that the bundle neither has nor deletes.
	abandoned map[render.ObjectID]bool
	// unblock are the webhook configurations to delete before any apply.
	unblock []inventory.Item
	// prune are the recorded objects that the bundle does not have.
	prune []inventory.Item
	// items and installed are recorded before the first change.
	items     inventory.Items
	installed render.Installed
	// drifted are the objects to apply that another client changed or deleted.
	drifted map[render.ObjectID]drift
	// applied are the objects that the cluster has accepted.
	applied map[render.ObjectID]bool
	// postponed are the objects that were repaired recently and have drifted again.
	postponed []render.ObjectID
	// awaitsCache reports that the cache may not have reached the last writes to the cluster.
	awaitsCache bool
}

func (p *changePlan) isEmpty() bool {
	return len(p.prune) == 0 && !slices.ContainsFunc(p.apply[:], func(s []desiredObject) bool { return len(s) > 0 })
}

// drift is the difference between an object on the cluster and the recorded object.
type drift string

const (
	noDrift      drift = ""
	unknownDrift drift = "unknown" // the cache has not reached our own write
	driftGone    drift = "is gone"
	driftChanged drift = "was changed"
)

// planChanges compares the bundle with the recorded and the cached objects.
func (i *Installation) planChanges(b *render.Bundle, a *inventory.Anchor, seen clustercache.Views) *changePlan {
	p := &changePlan{
		createdAt: i.clock.Now(), items: inventory.Items{}, drifted: map[render.ObjectID]drift{}, applied: map[render.ObjectID]bool{}, missing: map[render.ObjectID]bool{},
		abandoned: map[render.ObjectID]bool{},
	}
	all, wanted := desiredObjects(b, a.UID), map[render.ObjectID]bool{}
	for _, it := range all {
		wanted[it.id] = true
	}
	p.markAbandoned(b, a, wanted)
	p.installed = render.Installed{
		Delivered: b.Version, Running: startOfStep(b, i.determineInstalled(a, seen, p.abandoned)), Revision: a.Installed().Revision, Rendering: b.RenderingName(), Inputs: b.Inputs,
	}
	var unwanted []inventory.Item
	for _, it := range all {
		e, recorded := a.Items[it.id]
		if !recorded {
			e = it.inventoryItem()
		}
		e.Version, e.Resource = it.Resource.Version, it.Resource.Resource
		p.items[it.id] = e
		if i.needsApply(&it, &e, seen, p) {
			p.apply[it.stage] = append(p.apply[it.stage], it)
		}
	}
	for id, e := range a.Items {
		if wanted[id] {
			continue
		}
		p.items[id] = e
		if isPruned(b, id) {
			unwanted = append(unwanted, e)
		}
	}
	for _, e := range listUnrecorded(i.owner.Component, a.Items, seen) {
		if !wanted[e.ID()] {
			p.items[e.ID()] = e
			unwanted = append(unwanted, e)
		}
	}
	for _, e := range unwanted {
		if i.mayDelete(e.ID(), p.createdAt) {
			p.prune = append(p.prune, e)
		}
	}
	i.planUnblocking(all, a, p)
	maps.DeleteFunc(i.failedObjects, func(id render.ObjectID, _ *failedObject) bool { return !wanted[id] })
	maps.DeleteFunc(i.failedDeletions, func(id render.ObjectID, _ *failedObject) bool {
		_, recorded := p.items[id]
		return wanted[id] || !recorded
	})
	slices.SortFunc(p.prune, func(x, y inventory.Item) int { return cmp.Compare(x.ID().String(), y.ID().String()) })
	return p
}

// markAbandoned finds the abandoned objects among the recorded objects.
func (p *changePlan) markAbandoned(b *render.Bundle, a *inventory.Anchor, wanted map[render.ObjectID]bool) {
	for id, e := range a.Items {
		if e.Digest == "" && !wanted[id] && !isPruned(b, id) {
			p.abandoned[id] = true
		}
	}
}

// isPruned reports whether an object that the bundle does not have is deleted. The foundation stays for resources of users.
func isPruned(b *render.Bundle, id render.ObjectID) bool {
	return stageOf(id) != render.StageFoundation && !isKeptService(b, id)
}

// startOfStep returns the version at which the step to the bundle's version starts: the running version. A version that was delivered and never
// seen to run counts as the start too; so does a version that a return to the running version replaces, since the cluster may have objects and
// Jobs of both.
func startOfStep(b *render.Bundle, installed render.Installed) string {
	if installed.Delivered != b.Version && (installed.Running == "" || installed.Running == b.Version) {
		return installed.Delivered
	}
	return installed.Running
}

// needsApply reports whether an object is to be applied now, and records drift in the plan.
func (i *Installation) needsApply(it *desiredObject, e *inventory.Item, seen clustercache.Views, p *changePlan) bool {
	if e.Digest == it.digest {
		switch d := i.detectDrift(it, e, seen); d {
		case noDrift:
			delete(i.failedObjects, it.id)
			return false
		case unknownDrift:
			p.awaitsCache = true
			return false
		case driftGone, driftChanged:
			if i.repairs.remainingInterval(it.id) > 0 {
				p.postponed = append(p.postponed, it.id)
				return false
			}
			p.drifted[it.id] = d
		}
	}
	p.missing[it.id] = e.Digest == "" || p.drifted[it.id] == driftGone
	f := i.failedObjects[it.id]
	return f == nil || f.digest != it.digest || !p.createdAt.Before(f.retryAt)
}

// detectDrift compares an object on the cluster with the applied object.
func (i *Installation) detectDrift(it *desiredObject, e *inventory.Item, seen clustercache.Views) drift {
	if e.Digest == "" || e.Done && it.Class != render.OncePerVersion {
		return noDrift // the object was never applied, or is a Namespace that the cluster had before
	}
	s, known := seen.Find(e.Place(), it.id.Name, i.writtenVersions[it.id])
	switch {
	case !known:
		return unknownDrift
	case s == nil && it.Class == render.OncePerVersion && e.Done:
		return noDrift
	case s == nil:
		return driftGone
	case s.DeletionTimestamp != nil:
		return unknownDrift // an event follows the end of the deletion
	case e.UID != "" && s.UID != e.UID:
		return driftChanged // recreated by another client, or by us without a record: a removal would not delete the object
	case it.Class == render.CreateOnly, it.Class == render.OncePerVersion:
		return noDrift
	case s.FieldsDigest != e.Fields:
		return driftChanged
	}
	return noDrift
}

// listUnrecorded lists objects that were applied for the component and that the inventory does not record, as after a deletion
// of the anchor.
func listUnrecorded(c api.Component, inv inventory.Items, seen clustercache.Views) []inventory.Item {
	kinds := map[schema.GroupVersionResource]string{}
	for id, e := range inv {
		if stageOf(id) != render.StageFoundation {
			kinds[e.GVR()] = id.Kind
		}
	}
	var out []inventory.Item
	for at, v := range seen {
		gvr := at.GroupVersionResource
		if v == nil || kinds[gvr] == "" {
			continue
		}
		for _, s := range v.List() {
			if s.FieldsDigest == "" || s.Component != c { // a copy by another client has no fields of ours
				continue
			}
			e := inventory.Item{
				Group: gvr.Group, Version: gvr.Version, Resource: gvr.Resource, Kind: kinds[gvr], Namespace: s.Namespace, Name: s.Name, UID: s.UID,
			}
			if _, recorded := inv[e.ID()]; !recorded {
				out = append(out, e)
			}
		}
	}
	return out
}
