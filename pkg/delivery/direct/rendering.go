// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"open-cluster-management.io/knative-addon/pkg/clustercache"
	"open-cluster-management.io/knative-addon/pkg/delivery"
	"open-cluster-management.io/knative-addon/pkg/inventory"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// A new manager, or other release manifests, may render the same spec differently. The anchor names the rendering that the cluster has,
// and the cluster keeps the rendering until its turn. docs/design/0018-renderings.md has the reasons.

// Held describes an installation that keeps its rendering until the turn of the cluster.
type Held struct {
	// Installed is the record of the rendering. The name of the rendering is empty when an older manager delivered the rendering.
	Installed render.Installed
	// Kept is the observed state of the installation, by the anchor.
	Kept *delivery.Kept
	// Unrepaired names, sorted, the objects that another client changed or deleted, and that the new rendering changes too: the anchor
	// has only digests, so that no manager can restore these objects.
	Unrepaired []string
}

// awaitsTurn reports whether the cluster has another rendering of the bundle's spec and inputs, and did not have its turn. An anchor of
// an older manager records no inputs: the inputs then count as unchanged. An anchor without the hash of a spec does not tell a change
// by a user, and the cluster does not wait.
func (i *Installation) awaitsTurn(b *render.Bundle, a *inventory.Anchor, options SyncOptions) bool {
	last, name := a.Installed(), b.RenderingName()
	switch {
	case !options.InTurn, options.Turn == name, last.Rendering == name:
		return false
	case options.Revision == "", last.Revision != options.Revision:
		return false
	case last.Inputs != "" && last.Inputs != b.Inputs:
		return false
	case !i.store.IsCurrentHub(a): // the owner adopts the installation of another hub
		return false
	}
	return !isFirstDelivery(a, last) && hasOtherObjects(b, a)
}

// isFirstDelivery reports whether the anchor records an installation that was never complete. No user depends on such an installation,
// which would stay incomplete during a wait.
func isFirstDelivery(a *inventory.Anchor, last render.Installed) bool {
	for _, e := range a.Items {
		if e.Digest == "" {
			return last.Running == ""
		}
	}
	return len(a.Items) == 0
}

// hasOtherObjects reports whether the delivery of the bundle would change an object.
func hasOtherObjects(b *render.Bundle, a *inventory.Anchor) bool {
	wanted := map[render.ObjectID]bool{}
	for _, it := range desiredObjects(b, a.UID) {
		if a.Items[it.id].Digest != it.digest {
			return true
		}
		wanted[it.id] = true
	}
	for id, e := range a.Items {
		if !wanted[id] && e.Stage() != render.StageFoundation { // a delivery leaves the foundation
			return true
		}
	}
	return false
}

// keepRendering repairs the objects that the new rendering has unchanged, and observes the installation by the anchor. No other object
// is written.
func (i *Installation) keepRendering(ctx context.Context, b *render.Bundle, a *inventory.Anchor, seen clustercache.Views) (Outcome, error) {
	p := i.planChanges(b, a, seen)
	p.restrictToRepairs(a, i.determineInstalled(a, seen, p.abandoned))
	if markFinishedJobs(p.items, seen) || !p.isEmpty() || a.Installed() != p.installed {
		var err error
		if a, err = i.executePlan(ctx, a, p); err != nil {
			i.anchor = nil // the write may be incomplete
			return Outcome{}, err
		}
		p.awaitsCache = true
		if seen, err = i.viewItems(ctx, a); err != nil {
			return Outcome{}, err
		}
	}
	i.anchor = a
	kept := i.observeItems(a, seen)
	i.observeIncomplete(&kept.Observation, a, p)
	out := Outcome{
		Observation: kept.Observation, Retry: i.retryDelay(p),
		Held: &Held{Installed: a.Installed(), Kept: kept, Unrepaired: i.listUnrepaired(b, a, seen)},
	}
	out.Repaired, out.Loop = i.recordRepairs(p)
	return out, nil
}

// restrictToRepairs removes every change from the plan but the repairs of objects.
func (p *changePlan) restrictToRepairs(a *inventory.Anchor, installed render.Installed) {
	for stage := range p.apply {
		p.apply[stage] = slices.DeleteFunc(p.apply[stage], func(it desiredObject) bool { return p.drifted[it.id] == noDrift })
	}
	p.prune, p.unblock, p.items, p.installed = nil, nil, maps.Clone(a.Items), installed
}

// observeIncomplete adds the failed repairs to an observation, and the first object that the cluster never got.
func (i *Installation) observeIncomplete(o *delivery.Observation, a *inventory.Anchor, p *changePlan) {
	for id := range p.drifted {
		if f := i.failedObjects[id]; f != nil {
			o.Failed = append(o.Failed, f.Failure)
		}
	}
	for _, e := range a.Items.Sorted() {
		if e.Digest == "" && !p.abandoned[e.ID()] && o.Waiting == "" {
			o.Waiting = fmt.Sprintf("waiting for %s, which comes with the turn of the cluster", e.ID())
		}
	}
}

// listUnrepaired names the objects that another client changed or deleted, and that the new rendering changes too. Objects that the new
// rendering does not have are left out: the turn deletes these objects.
func (i *Installation) listUnrepaired(b *render.Bundle, a *inventory.Anchor, seen clustercache.Views) []string {
	var out []string
	for _, it := range desiredObjects(b, a.UID) {
		e, recorded := a.Items[it.id]
		if !recorded || e.Digest == it.digest {
			continue
		}
		if d := i.detectDrift(&it, &e, seen); d == driftGone || d == driftChanged {
			out = append(out, fmt.Sprintf("%s %s", it.id, d))
		}
	}
	slices.Sort(out)
	return out
}
