// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/clustercache"
	"open-cluster-management.io/knative-addon/pkg/delivery"
	"open-cluster-management.io/knative-addon/pkg/inventory"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// planFixture is an unchanged installation in memory: its record, its anchor and the views of its cluster, without a server.
type planFixture struct {
	*Installation
	t      *testing.T
	clock  *testclock.FakePassiveClock
	bundle *render.Bundle
	anchor *inventory.Anchor
	// cached are the objects by place; nil where the cluster does not know the resource.
	cached map[clustercache.Place]map[types.NamespacedName]*clustercache.Object
}

func newPlanFixture(t *testing.T) *planFixture {
	t.Helper()
	clock := testclock.NewFakePassiveClock(time.Unix(10000, 0))
	d := &planFixture{
		t: t, clock: clock, bundle: bundleOf(t), cached: map[clustercache.Place]map[types.NamespacedName]*clustercache.Object{}, Installation: NewInstallation(&clustercache.Cluster{}, ownerNamed("self"), clock),
		anchor: &inventory.Anchor{ConfigMap: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: installed, Name: "root", UID: "anchor"}}, Items: inventory.Items{}},
	}
	for _, it := range desiredObjects(d.bundle, "anchor") {
		d.record(&it)
	}
	return d
}

// record is what applying an item and seeing it leaves behind.
func (d *planFixture) record(it *desiredObject) {
	d.t.Helper()
	e := it.inventoryItem()
	e.Digest, e.Fields, e.UID = it.digest, "ours", "uid"
	d.anchor.Items[it.id], d.writtenVersions[it.id] = e, "50"
	d.put(it.Object, d.cachedObject(it.id))
}

func (d *planFixture) cachedObject(id render.ObjectID) *clustercache.Object {
	return &clustercache.Object{FieldsDigest: "ours", Component: api.Serving, Namespace: id.Namespace, Name: id.Name, ResourceVersion: "50", UID: "uid"}
}

// put caches an object in the place of another one.
func (d *planFixture) put(like render.Object, o *clustercache.Object) {
	at := placeOf(like)
	if d.cached[at] == nil {
		d.cached[at] = map[types.NamespacedName]*clustercache.Object{}
	}
	d.cached[at][types.NamespacedName{Namespace: o.Namespace, Name: o.Name}] = o
}

func placeOf(o render.Object) clustercache.Place {
	return clustercache.Place{GroupVersionResource: o.Resource, Namespace: o.GetNamespace()}
}

// seen are views of what is cached that have come as far as version 100.
func (d *planFixture) seen() clustercache.Views {
	out := clustercache.Views{}
	for at, objects := range d.cached {
		if objects == nil {
			out[at] = nil
			continue
		}
		out[at] = clustercache.NewFakeView("100", slices.Collect(maps.Values(objects))...)
	}
	return out
}

// of is an object of the bundle by its kind.
func (d *planFixture) of(kind string) render.Object {
	d.t.Helper()
	for _, o := range d.bundle.Objects() {
		if o.GetKind() == kind {
			return o
		}
	}
	d.t.Fatalf("there is no %s", kind)
	return render.Object{}
}

func (d *planFixture) forget(o render.Object) { delete(d.anchor.Items, o.ID()) }

func (d *planFixture) lose(kind string) {
	o := d.of(kind)
	delete(d.cached[placeOf(o)], types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()})
}

func (d *planFixture) change(kind string, change func(*clustercache.Object)) {
	s := d.cachedObject(d.of(kind).ID())
	change(s)
	d.put(d.of(kind), s)
}

func (d *planFixture) alter(kind string, alter func(*inventory.Item)) {
	e := d.anchor.Items[d.of(kind).ID()]
	alter(&e)
	d.anchor.Items[e.ID()] = e
}

// failed remembers that an object was refused, to be tried again after the pause.
func (d *planFixture) failed(kind, cause string, since, next time.Duration) {
	for _, it := range desiredObjects(d.bundle, "anchor") {
		if it.id == d.of(kind).ID() {
			d.failedObjects[it.id] = &failedObject{
				digest: it.digest, retryAt: d.clock.Now().Add(next), Failure: delivery.Failure{Cause: cause, Since: d.clock.Now().Add(-since)},
			}
		}
	}
}

// planned is what a plan comes to, by kinds.
type planned struct {
	Apply, Prune, Unblock, Missing, Postponed []string
	Drifted                                   map[string]drift
}

func (d *planFixture) planned() planned {
	p := d.planChanges(d.bundle, d.anchor, d.seen())
	out := planned{Drifted: map[string]drift{}}
	for _, batch := range p.apply {
		for _, it := range batch {
			out.Apply = append(out.Apply, it.id.Kind)
			if p.missing[it.id] {
				out.Missing = append(out.Missing, it.id.Kind)
			}
		}
	}
	for _, e := range p.prune {
		out.Prune = append(out.Prune, e.Kind+" "+e.Name)
	}
	for _, e := range p.unblock {
		out.Unblock = append(out.Unblock, e.Kind)
	}
	for _, id := range p.postponed {
		out.Postponed = append(out.Postponed, id.Kind)
	}
	for id, how := range p.drifted {
		out.Drifted[id.Kind] = how
	}
	return out
}

func TestPlan(t *testing.T) {
	changedFields := func(s *clustercache.Object) { s.FieldsDigest, s.ResourceVersion = "theirs", "60" }
	repaired := func(d *planFixture) { d.repairs.recordRepair(d.of("ConfigMap").ID()) }
	later := func(d *planFixture, wait time.Duration) { d.clock.SetTime(d.clock.Now().Add(wait)) }
	configMap := planned{Apply: []string{"ConfigMap"}}
	lost := planned{Apply: []string{"ConfigMap"}, Missing: []string{"ConfigMap"}, Drifted: map[string]drift{"ConfigMap": driftGone}}
	edited := planned{Apply: []string{"ConfigMap"}, Drifted: map[string]drift{"ConfigMap": driftChanged}}
	for name, tc := range map[string]struct {
		reason  string
		prepare func(*planFixture)
		want    planned
	}{
		"at rest":     {"There is nothing to do.", func(*planFixture) {}, planned{}},
		"new":         {"It is applied.", func(d *planFixture) { d.forget(d.of("ConfigMap")) }, planned{Apply: configMap.Apply, Missing: configMap.Apply}},
		"recorded":    {"It was about to be applied.", func(d *planFixture) { d.alter("ConfigMap", func(e *inventory.Item) { e.Digest = "" }) }, planned{Apply: configMap.Apply, Missing: configMap.Apply}},
		"another one": {"It is applied, and no repair.", func(d *planFixture) { d.alter("ConfigMap", func(e *inventory.Item) { e.Digest = "old" }) }, configMap},
		"gone":        {"It is repaired.", func(d *planFixture) { d.lose("ConfigMap") }, lost},
		"changed":     {"It is repaired.", func(d *planFixture) { d.change("ConfigMap", changedFields) }, edited},
		"not ours any more": {
			"Somebody has replaced it.", func(d *planFixture) { d.change("ConfigMap", func(s *clustercache.Object) { s.FieldsDigest = "" }) }, edited,
		},
		"being deleted": {
			"There is an event when it is gone.", func(d *planFixture) {
				d.change("ConfigMap", func(s *clustercache.Object) { s.DeletionTimestamp = new(metav1.Unix(1, 0)); s.FieldsDigest = "" })
			}, planned{},
		},
		"a CreateOnly changed": {"The cluster fills it.", func(d *planFixture) { d.change("Secret", changedFields) }, planned{}},
		"a CreateOnly gone": {
			"It is made again.", func(d *planFixture) { d.lose("Secret") },
			planned{Apply: []string{"Secret"}, Missing: []string{"Secret"}, Drifted: map[string]drift{"Secret": driftGone}},
		},
		"a Job changed":      {"It cannot be changed.", func(d *planFixture) { d.change("Job", changedFields) }, planned{}},
		"a Job gone, undone": {"It runs again.", func(d *planFixture) { d.lose("Job") }, planned{Apply: []string{"Job"}, Missing: []string{"Job"}, Drifted: map[string]drift{"Job": driftGone}}},
		"a Job gone, done":   {"It has run.", func(d *planFixture) { d.lose("Job"); d.alter("Job", func(e *inventory.Item) { e.Done = true }) }, planned{}},
		"no such kind": {"All of it is gone.", func(d *planFixture) {
			d.cached[placeOf(d.of("Image"))] = nil
		}, planned{Apply: []string{"Image"}, Missing: []string{"Image"}, Drifted: map[string]drift{"Image": driftGone}}},
		"not looked at": {"Nothing is known.", func(d *planFixture) {
			delete(d.cached, placeOf(d.of("Image")))
		}, planned{}},
		"a view that is behind": {
			"It has not seen our write.", func(d *planFixture) { d.lose("ConfigMap"); d.writtenVersions[d.of("ConfigMap").ID()] = "101" }, planned{},
		},
		"an object from before": {
			"It is not our write yet.", func(d *planFixture) {
				d.change("ConfigMap", changedFields)
				d.writtenVersions[d.of("ConfigMap").ID()] = "61"
			}, planned{},
		},
		"an object, nothing remembered": {
			"After a restart it counts.", func(d *planFixture) { d.change("ConfigMap", changedFields); clear(d.writtenVersions) }, edited,
		},
		"changed after a repair": {"It waits.", func(d *planFixture) { d.change("ConfigMap", changedFields); repaired(d) }, planned{Postponed: []string{"ConfigMap"}}},
		"changed a while after a repair": {
			"It has waited.", func(d *planFixture) {
				d.change("ConfigMap", changedFields)
				repaired(d)
				later(d, delivery.FirstRepairInterval)
			}, edited,
		},
		"another one after a repair": {
			"What is wanted does not wait.", func(d *planFixture) { d.alter("ConfigMap", func(e *inventory.Item) { e.Digest = "old" }); repaired(d) }, configMap,
		},
		"failing, not yet": {"It waits.", func(d *planFixture) { d.forget(d.of("ConfigMap")); d.failed("ConfigMap", "", 0, time.Second) }, planned{}},
		"failing, now": {
			"It is tried again.", func(d *planFixture) {
				d.forget(d.of("ConfigMap"))
				d.failed("ConfigMap", "", 0, time.Second)
				later(d, time.Second)
			},
			planned{Apply: configMap.Apply, Missing: configMap.Apply},
		},
		"failing, but another one": {
			"It may work now.", func(d *planFixture) {
				d.forget(d.of("ConfigMap"))
				d.failed("ConfigMap", "", 0, time.Hour)
				d.failedObjects[d.of("ConfigMap").ID()].digest = "old"
			},
			planned{Apply: configMap.Apply, Missing: configMap.Apply},
		},
		"not wanted": {
			"It is pruned.", func(d *planFixture) { without("ConfigMap")(d.bundle); without("Deployment")(d.bundle) },
			planned{Prune: []string{"ConfigMap config-network", "Deployment activator"}},
		},
		"a foundation that is not wanted": {
			"It stays for whoever uses it.", func(d *planFixture) { d.bundle.Foundation = nil }, planned{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newPlanFixture(t)
			tc.prepare(d)
			before := maps.Clone(d.anchor.Items)
			if tc.want.Drifted == nil {
				tc.want.Drifted = map[string]drift{}
			}
			if diff := cmp.Diff(tc.want, d.planned()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(before, d.anchor.Items); diff != "" {
				t.Errorf("the anchor has changed:\n%s", diff)
			}
		})
	}
}

// TestPlanRecords holds that everything which may be on the cluster is recorded before anything is done.
func TestPlanRecords(t *testing.T) {
	d := newPlanFixture(t)
	all := slices.Collect(maps.Keys(d.anchor.Items))
	d.forget(d.of("Deployment"))
	without("ConfigMap")(d.bundle)
	without("CustomResourceDefinition")(d.bundle)
	p := d.planChanges(d.bundle, d.anchor, d.seen())
	for _, id := range all {
		if _, recorded := p.items[id]; !recorded {
			t.Errorf("%s is not recorded", id)
		}
	}
	if p.isEmpty() {
		t.Error("there is nothing to do")
	}
}

// TestPlanForgetsFailures holds that what is not wanted, or was fixed, is not failing any more.
func TestPlanForgetsFailures(t *testing.T) {
	d := newPlanFixture(t)
	d.failed("ConfigMap", "", 0, time.Hour)  // is as it should be
	d.failed("Deployment", "", 0, time.Hour) // is not wanted
	without("Deployment")(d.bundle)
	d.failed("Image", "", 0, time.Hour)
	d.lose("Image")
	d.planChanges(d.bundle, d.anchor, d.seen())
	if len(d.failedObjects) != 1 || d.failedObjects[d.of("Image").ID()] == nil {
		t.Errorf("these are failing: %v", d.failedObjects)
	}
}
