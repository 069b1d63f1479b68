// Copyright Contributors to the Open Cluster Management project

package fleet

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"

	"open-cluster-management.io/knative-addon/pkg/api"
)

const (
	// refusedRetry is the time until the next attempt after the API server refused a write of a child.
	refusedRetry = time.Minute
	// maxRefused is the number of refused creations, of refused updates and of refused pauses within refusedRetry after which the manager tries no
	// further one: one cause may refuse all.
	maxRefused = 20
)

// writeKind is a kind of writes that one cause may refuse together.
type writeKind string

const (
	creation writeKind = "create"
	update   writeKind = "update"
	pausing  writeKind = "pause"
)

// childWrite names a write of a child. A pause has no revision.
type childWrite struct {
	kind      writeKind
	component api.Component
	name      string
	revision  string
}

// refusal is the last refusal of a write.
type refusal struct {
	at   time.Time
	text string
}

// refusals holds the writes that the API server has refused and that a child still needs. A restarted manager tries each write once more.
type refusals map[childWrite]refusal

// isRefusal reports whether the API server refuses the content of an object, so that only another content or another permission helps.
func isRefusal(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err)
}

// record records the result of an attempt, and reports whether the API server refuses the write.
func (r refusals) record(w childWrite, err error, now time.Time) (isRefused bool) {
	delete(r, w)
	if isRefusal(err) {
		r[w] = refusal{now, err.Error()}
		return true
	}
	return false
}

// refusedLately reports whether the API server refused the write within refusedRetry.
func (r refusals) refusedLately(w childWrite, now time.Time) bool {
	last, refused := r[w]
	return refused && now.Before(last.at.Add(refusedRetry))
}

// permits reports whether the manager may try a write now.
func (r refusals) permits(w childWrite, now time.Time) bool {
	if r.refusedLately(w, now) {
		return false
	}
	refused := 0
	for other := range r {
		if other.kind == w.kind && r.refusedLately(other, now) {
			refused++
		}
	}
	return refused < maxRefused
}

// nextAttempt returns the time until the manager may try a refused write again; 0 without a write that has to wait.
func (r refusals) nextAttempt(now time.Time) time.Duration {
	first := time.Duration(0)
	for _, last := range r {
		if wait := last.at.Add(refusedRetry).Sub(now); wait > 0 && (first == 0 || wait < first) {
			first = wait
		}
	}
	return first
}

// firstText returns the text of the refusal of the first child by name; empty without a refusal of a write of these kinds.
func (r refusals) firstText(kinds ...writeKind) string {
	writes := slices.SortedFunc(maps.Keys(r), func(a, b childWrite) int {
		return cmp.Or(strings.Compare(a.name, b.name), cmp.Compare(a.component, b.component), cmp.Compare(a.kind, b.kind))
	})
	for _, w := range writes {
		if slices.Contains(kinds, w.kind) {
			return r[w].text
		}
	}
	return ""
}

// neededWrite returns the write that a selected child needs now or in its turn. The result is false for a child that needs none.
func (r *stateReader) neededWrite(component api.Component, name string, child *unstructured.Unstructured) (w childWrite, needed bool) {
	w = childWrite{creation, component, name, r.templates.revision}
	if child == nil {
		return w, true
	}
	w.kind = update
	switch {
	case child.GetDeletionTimestamp() != nil, !metav1.IsControlledBy(child, r.fleet) && !mayAdopt(child, r.fleet):
		return w, false
	case !r.hasRevision(child):
		return w, true
	}
	return w, !isUnchanged(child, r.fleet, r.templates, component)
}

// dropRefusals drops the refusals of writes that no selected child needs any more.
func (r *stateReader) dropRefusals(clusters []cluster) {
	if len(r.refusals) == 0 {
		return
	}
	selected, components := sets.New[string](), sets.New(r.templates.components()...)
	for _, c := range clusters {
		selected.Insert(c.name)
	}
	maps.DeleteFunc(r.refusals, func(refused childWrite, _ refusal) bool {
		needed, isNeeded := r.neededWrite(refused.component, refused.name, r.children[refused.component][refused.name])
		isNeeded = isNeeded && needed == refused && components.Has(refused.component) && selected.Has(refused.name)
		return refused.kind != pausing && !isNeeded
	})
}

// reportRefusals reports the refused writes, and plans the next attempts. During a pause only the pause itself is tried.
func (p *pass) reportRefusals() {
	kinds := []writeKind{pausing}
	if !p.report.paused {
		kinds = append(kinds, creation, update)
	}
	p.report.refused = p.times.refusals.firstText(kinds...)
	p.requeueWithin(p.times.refusals.nextAttempt(p.now))
}
