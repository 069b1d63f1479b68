// Copyright Contributors to the Open Cluster Management project

package main

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/e2e/harness"
)

// Goals of an edit.
const (
	goalSame  = 1.3 // the longest edit, as a multiple of the bare client's edit of the same works
	goalWhole = 2.5 // the shortest bare edit of works with the whole installation, as a multiple of the manager's edit
)

// edit has the durations and costs of one edit of a KnativeServing on all clusters.
type edit struct {
	// desired ends when OCM has assigned the configuration to the last add-on, written when the last work has the configuration, and
	// completed when OCM reports the configuration of the last add-on as applied.
	desired, written, completed time.Duration
	cpu                         time.Duration // of the manager
	shares                      cpuShares
	// writes are the requests of the manager for each cluster.
	writes string
}

// edits changes one line of the KnativeServing, lets the bare client write the same edit, and returns a table of both. The hub has one set of
// works of the bare client at a time, and keeps the last set.
func (f *fleet) edits(ctx context.Context) ([]row, error) {
	if !f.opts.has(partEdit) {
		return nil, nil
	}
	var ours []edit
	bares := map[string][]bareEdit{}
	sets := f.comparisons()
	for i, s := range sets {
		b, err := f.startBare(ctx, s)
		if err != nil {
			return nil, err
		}
		edits, others, err := f.editByTurns(ctx, b, i == 0) // the other sets differ from our works
		if err != nil {
			return nil, err
		}
		ours, bares[s.name] = append(ours, edits...), others
		if i == len(sets)-1 {
			break // a removal of the last works would take minutes with 1,000 clusters
		}
		if err := b.remove(ctx); err != nil {
			return nil, err
		}
	}
	pid, err := harness.PID(f.Lab, harness.Manager)
	if err != nil {
		return nil, err
	}
	rss, err := harness.Memory(pid)
	return f.editRows(ours, bares, rss), err
}

// editByTurns edits the works of the bare client once in each round, and before that, if withOurs is true, the KnativeServing.
func (f *fleet) editByTurns(ctx context.Context, b *bare, withOurs bool) (ours []edit, bares []bareEdit, err error) {
	for range f.opts.rounds {
		if withOurs {
			e, err := f.edit(ctx)
			if err != nil {
				return ours, bares, err
			}
			ours = append(ours, e)
		}
		e, err := b.edit(ctx, f.clusters)
		if err != nil {
			return ours, bares, err
		}
		bares = append(bares, e)
	}
	return ours, bares, nil
}

// startBare returns a bare client that has edited the works of a third of the clusters. The first edits of a fleet grow the memory of the API server,
// which takes much time on a virtual machine that gets memory from its host page by page.
func (f *fleet) startBare(ctx context.Context, s bareSet) (*bare, error) {
	b, err := f.newBare(ctx, s)
	if err != nil {
		return nil, err
	}
	some := f.clusters[:(len(f.clusters)+2)/3]
	progress("bare client: an edit of %d works before the comparison", len(some))
	_, err = b.edit(ctx, some)
	return b, err
}

// comparisons are the works of the bare client that the options select.
func (f *fleet) comparisons() []bareSet {
	all := bareSets()
	return slices.DeleteFunc(all[:], func(s bareSet) bool { return !slices.Contains(f.opts.compare, s.name) })
}

func (f *fleet) editRows(ours []edit, bares map[string][]bareEdit, rss float64) []row {
	of := func(value func(edit) time.Duration) time.Duration { return medianOf(ours, value) }
	written, completed := of(func(e edit) time.Duration { return e.written }), of(func(e edit) time.Duration { return e.completed })
	rows := []row{
		{what: fmt.Sprintf("edit of one line of the KnativeServing of %d clusters: last work written", len(f.clusters)), value: seconds(written)},
		{what: "... until OCM has told the last add-on", value: seconds(of(func(e edit) time.Duration { return e.desired }))},
		{what: "... from then to the last work written", value: seconds(of(func(e edit) time.Duration { return e.written - e.desired }))},
		{what: "... until OCM calls the last one completed", value: seconds(completed)},
		{what: "... the manager's CPU for each cluster", value: milliseconds(f.ofEach(of(func(e edit) time.Duration { return e.cpu })))},
		f.cpuRow(of(func(e edit) time.Duration { return e.shares.all }), of(func(e edit) time.Duration { return e.shares.ocm })),
		{what: "... the manager's writes for each cluster", value: ours[len(ours)-1].writes},
	}
	for _, s := range f.comparisons() {
		of := func(value func(bareEdit) time.Duration) time.Duration { return medianOf(bares[s.name], value) }
		bare := of(func(e bareEdit) time.Duration { return e.written })
		r := row{what: "bare client: " + s.what, value: seconds(bare)}
		switch s.goal {
		case atMost:
			times := written.Seconds() / bare.Seconds()
			r.goal, r.missed = fmt.Sprintf("ours takes %.2f times that, at most %.1f", times, goalSame), times > goalSame
		case atLeast:
			times := bare.Seconds() / written.Seconds()
			r.goal, r.missed = fmt.Sprintf("%.2f times ours, at least %.1f", times, goalWhole), times < goalWhole
		default:
			r.goal = fmt.Sprintf("%.2f times ours", bare.Seconds()/written.Seconds())
		}
		applied := of(func(e bareEdit) time.Duration { return e.applied })
		rows = append(rows, r, row{
			what: "... until the agent has applied the last one", value: seconds(applied),
			goal: fmt.Sprintf("ours takes %.2f times that until OCM calls the last one completed", completed.Seconds()/applied.Seconds()),
		},
			f.cpuRow(of(func(e bareEdit) time.Duration { return e.shares.all }), of(func(e bareEdit) time.Duration { return e.shares.ocm })))
	}
	return append(rows, row{what: fmt.Sprintf("the manager's RSS with %d clusters, after the edits", len(f.clusters)), value: fmt.Sprintf("%.0f MB", rss)})
}

// cpuRow returns the row with the CPU of all programs, and with the share of OCM's controllers and webhooks. The API server's work for requests of OCM
// is not in this share.
func (f *fleet) cpuRow(all, ocm time.Duration) row {
	return row{
		what:  "... CPU of all programs for each cluster, of this OCM's controllers and webhooks",
		value: milliseconds(f.ofEach(all)) + ", " + milliseconds(f.ofEach(ocm)),
	}
}

func medianOf[E any](edits []E, value func(E) time.Duration) time.Duration {
	all := make([]time.Duration, 0, len(edits))
	for _, e := range edits {
		all = append(all, value(e))
	}
	return median(all)
}

func median(all []time.Duration) time.Duration {
	all = slices.Sorted(slices.Values(all))
	return all[len(all)/2]
}

// markers creates values of the edited line. Each value is unique on the hub.
type markers struct{ n int }

func (m *markers) next() []byte {
	m.n++
	return fmt.Appendf(nil, "%ds", 7700000+m.n)
}

// carries tells that a work has the value.
func carries(w *workv1.ManifestWork, value []byte) bool {
	return slices.ContainsFunc(w.Spec.Workload.Manifests, func(m workv1.Manifest) bool { return bytes.Contains(m.Raw, value) })
}

// edit changes the line in the KnativeServing of all clusters.
func (f *fleet) edit(ctx context.Context) (edit, error) {
	if err := f.calm(ctx); err != nil {
		return edit{}, err
	}
	before, err := f.usage()
	if err != nil {
		return edit{}, err
	}
	told := newHashes()
	if err := told.remember(ctx, f); err != nil {
		return edit{}, err
	}
	value, n := f.values.next(), len(f.clusters)
	written, desired, completed := expect("works with the edit", n), expect("add-ons that OCM has told", n), expect("add-ons that have completed", n)
	defer f.agents.AddWatcher(func(w *workv1.ManifestWork) {
		if w.Labels[addonv1beta1.AddonLabelKey] == api.Serving.AddOnName() && carries(w, value) {
			written.see(w.Namespace)
		}
	})()
	defer f.addOns.AddWatcher(func(a *addonv1beta1.ManagedClusterAddOn) {
		if d, c := told.changed(a); d {
			desired.see(a.Namespace)
			if c {
				completed.see(a.Namespace)
			}
		}
	})()
	defer f.profile(ctx, "profile?seconds=20", fmt.Sprintf("edit-%s.cpu", value))()
	if err := f.writeLine(ctx, value); err != nil {
		return edit{}, err
	}
	var out edit
	if out.written, err = written.wait(ctx); err != nil {
		return out, err
	}
	if out.desired, err = desired.wait(ctx); err != nil {
		return out, err
	}
	if out.completed, err = completed.wait(ctx); err != nil {
		return out, err
	}
	if err := f.calm(ctx); err != nil {
		return out, err
	}
	used, err := f.usedSince(before)
	out.cpu, out.shares, out.writes = used.cpu[harness.Manager], used.shares(), used.perCluster(ourAccount, len(f.clusters))
	progress("edit: OCM has told the last add-on after %.2f s, the last work is written after %.2f s, and completed after %.2f s; %s",
		out.desired.Seconds(), out.written.Seconds(), out.completed.Seconds(), used)
	return out, err
}

// writeLine writes the line of the KnativeServing of all clusters.
func (f *fleet) writeLine(ctx context.Context, value []byte) error {
	patch := fmt.Appendf(nil, `{"spec":{"config":{"deployment":{"progress-deadline":%q}}}}`, value)
	_, err := f.configs.Resource(api.Serving.Resource()).Namespace(harness.Namespace).Patch(ctx, "default", types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("cannot write the KnativeServing: %w", err)
	}
	f.line = value
	return nil
}

// hashes has the hashes of the configurations to which OCM's add-ons refer before an edit.
type hashes struct{ before map[string]string }

func newHashes() *hashes { return &hashes{before: map[string]string{}} }

func (h *hashes) remember(ctx context.Context, f *fleet) error {
	list, err := f.AddOns.AddonV1beta1().ManagedClusterAddOns(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("cannot list ManagedClusterAddOns: %w", err)
	}
	for i := range list.Items {
		if a := &list.Items[i]; a.Name == api.Serving.AddOnName() {
			h.before[a.Namespace], _ = hashesOf(a)
		}
	}
	return nil
}

// changed reports whether OCM wants another configuration for an add-on than before, and whether OCM reports this configuration as applied.
func (h *hashes) changed(a *addonv1beta1.ManagedClusterAddOn) (desired, completed bool) {
	if a.Name != api.Serving.AddOnName() {
		return false, false
	}
	want, have := hashesOf(a)
	return want != h.before[a.Namespace], want == have
}

func hashesOf(a *addonv1beta1.ManagedClusterAddOn) (desired, completed string) {
	for _, ref := range a.Status.ConfigReferences {
		if ref.Resource != api.Serving.Resource().Resource {
			continue
		}
		if ref.DesiredConfig != nil {
			desired = ref.DesiredConfig.SpecHash
		}
		if ref.LastAppliedConfig != nil {
			completed = ref.LastAppliedConfig.SpecHash
		}
	}
	return desired, completed
}
