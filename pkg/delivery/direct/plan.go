// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// plan is what a pass has to do.
type plan struct {
	// at is when the plan was made.
	at time.Time
	// apply are the objects to be applied, by stage.
	apply [stages][]item
	// missing are those of them that are not on the cluster, as far as is known.
	missing map[render.ObjectID]bool
	// unblock are the entries of webhook configurations that go before anything is applied.
	unblock []entry
	// prune are the entries of objects that are not wanted any more.
	prune []entry
	// inventory is what is recorded before anything is done.
	inventory inventory
	// drifted says what somebody else has done to objects that are applied again.
	drifted map[render.ObjectID]deviation
	// postponed are objects that were repaired a moment ago, and are changed again.
	postponed []render.ObjectID
}

func (p *plan) empty() bool {
	return len(p.prune) == 0 && !slices.ContainsFunc(p.apply[:], func(s []item) bool { return len(s) > 0 })
}

// deviation is how what is on the cluster differs from what was recorded.
type deviation string

const (
	none    deviation = ""
	unknown deviation = "unknown" // nothing newer than our own write was seen
	gone    deviation = "is gone"
	changed deviation = "was changed"
)

// plan compares what should be with what was recorded and seen.
func (i *Installation) plan(b *render.Bundle, a *anchor, seen sights) *plan {
	p := &plan{at: i.clock.Now(), inventory: inventory{}, drifted: map[render.ObjectID]deviation{}, missing: map[render.ObjectID]bool{}}
	wanted := map[render.ObjectID]bool{}
	var unwanted []entry
	all := items(b, a.UID)
	for _, it := range all {
		wanted[it.id] = true
		e, recorded := a.inventory[it.id]
		if !recorded {
			e = it.entry()
		}
		e.Version, e.Resource = it.Resource.Version, it.Resource.Resource
		p.inventory[it.id] = e
		if i.due(&it, &e, seen, p) {
			p.apply[it.stage] = append(p.apply[it.stage], it)
		}
	}
	for id, e := range a.inventory {
		if wanted[id] {
			continue
		}
		p.inventory[id] = e
		if stageOf(schema.GroupKind{Group: id.Group, Kind: id.Kind}) != foundationStage { // it stays, for whoever uses it
			unwanted = append(unwanted, e)
		}
	}
	for _, e := range strays(i.owner.Component, a.inventory, seen) {
		if !wanted[e.id()] {
			p.inventory[e.id()] = e
			unwanted = append(unwanted, e)
		}
	}
	for _, e := range unwanted {
		if i.deletable(e.id(), p.at) {
			p.prune = append(p.prune, e)
		}
	}
	i.unblock(all, a, p)
	maps.DeleteFunc(i.failing, func(id render.ObjectID, _ *failing) bool { return !wanted[id] })
	maps.DeleteFunc(i.undeleted, func(id render.ObjectID, _ *failing) bool {
		_, recorded := p.inventory[id]
		return wanted[id] || !recorded
	})
	slices.SortFunc(p.prune, func(x, y entry) int { return cmp.Compare(x.id().String(), y.id().String()) })
	return p
}

// due tells whether an object is to be applied now, and notes in the plan if that repairs it.
func (i *Installation) due(it *item, e *entry, seen sights, p *plan) bool {
	if e.Digest == it.digest {
		switch d := i.deviation(it, e, seen); d {
		case none:
			delete(i.failing, it.id)
			return false
		case unknown:
			return false
		case gone, changed:
			if i.repairs.wait(it.id) > 0 {
				p.postponed = append(p.postponed, it.id)
				return false
			}
			p.drifted[it.id] = d
		}
	}
	p.missing[it.id] = e.Digest == "" || p.drifted[it.id] == gone
	f := i.failing[it.id]
	return f == nil || f.digest != it.digest || !p.at.Before(f.next)
}

// deviation tells whether an object is still as it was applied.
func (i *Installation) deviation(it *item, e *entry, seen sights) deviation {
	if e.Digest == "" {
		return none // nothing was applied
	}
	s, known := seen.of(it.id, e.gvr(), i.written[it.id])
	switch {
	case !known:
		return unknown
	case s == nil && it.Class == render.OncePerVersion && e.Done:
		return none
	case s == nil:
		return gone
	case s.DeletionTimestamp != nil:
		return unknown // there is an event when it is gone
	case e.UID != "" && s.UID != e.UID:
		return changed // made anew, by somebody or by us before we could record it: it would not be removed
	case it.Class == render.CreateOnly, it.Class == render.OncePerVersion:
		return none
	case s.fields != e.Fields:
		return changed
	}
	return none
}

// strays are objects that were applied for the component and are in no inventory: somebody has deleted the anchor.
func strays(c api.Component, inv inventory, seen sights) []entry {
	kinds := map[schema.GroupVersionResource]string{}
	for id, e := range inv {
		if stageOf(schema.GroupKind{Group: id.Group, Kind: id.Kind}) != foundationStage {
			kinds[e.gvr()] = id.Kind
		}
	}
	var out []entry
	for at, v := range seen {
		gvr := at.GroupVersionResource
		if v == nil || kinds[gvr] == "" {
			continue
		}
		for _, s := range v.all() {
			if s.fields == "" || s.Labels[api.ComponentLabel] != string(c) { // somebody's copy has no fields of ours
				continue
			}
			e := entry{
				Group: gvr.Group, Version: gvr.Version, Resource: gvr.Resource, Kind: kinds[gvr], Namespace: s.Namespace, Name: s.Name, UID: s.UID,
			}
			if _, recorded := inv[e.id()]; !recorded {
				out = append(out, e)
			}
		}
	}
	return out
}
