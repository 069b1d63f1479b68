// Copyright Contributors to the Open Cluster Management project

package comparison

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/installations"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// Group is a set of clusters that change equally.
type Group struct {
	Component api.Component    `json:"component"`
	Mode      api.DeliveryMode `json:"mode"`
	// Version is the version after the change.
	Version  string   `json:"version,omitempty"`
	Clusters []string `json:"clusters"`
	// Paused are the clusters of Clusters that keep their objects until they are resumed.
	Paused []string `json:"paused,omitempty"`
	// Incomplete are the clusters of Clusters that have not completed the configuration of the hub. CompareInstalled sets Incomplete.
	Incomplete []string `json:"incomplete,omitempty"`
	// Changes are empty for clusters without a difference.
	Changes []Change `json:"changes"`
	// Rendering is the change of clusters whose objects the hub does not have; nil without a difference.
	Rendering *RenderingChange `json:"rendering,omitempty"`
	// Problem says why the objects cannot be compared.
	Problem string `json:"problem,omitempty"`
}

// Comparer compares files with the installations of a hub.
type Comparer struct {
	Hub      *installations.Hub
	Renderer *render.Renderer
	// Options returns the rendering options of a delivery mode.
	Options func(api.DeliveryMode) render.Options
}

// maxParallel is the number of lists of ManifestWorks at a time.
const maxParallel = 16

// Compare returns the changes of the installations that the filter selects, and the objects of the file that no installation uses.
func (c *Comparer) Compare(
	ctx context.Context, f *File, objects installations.Objects, filter *installations.Filter,
) (groups []Group, unused []string, err error) {
	if err := f.addChildren(objects); err != nil {
		return nil, nil, err
	}
	x, composed := newIndex(objects), installations.Compose(objects)
	all := f.listCandidates(composed, x)
	all = append(all, f.listNew(x)...)
	unused = f.listUnused(all)
	if unknown := listUnknown(all, composed, filter); len(unknown) > 0 {
		return nil, nil, fmt.Errorf("cannot find installations for %q on %s: `knative-addon status` lists all installations", unknown, c.Hub.Name)
	}
	all = selectCandidates(all, filter)
	facts, err := c.readFacts(ctx, f, all)
	if err != nil {
		return nil, nil, err
	}
	groups, err = c.compareCandidates(ctx, all, facts, x)
	return mergeGroups(groups), unused, err
}

// compareCandidates returns the changes of installations, with a group for each batch.
func (c *Comparer) compareCandidates(ctx context.Context, all []candidate, facts *facts, x *index) ([]Group, error) {
	batches, groups := c.renderAll(ctx, all, facts, x)
	compared := make([]Group, len(batches))
	parallel, ctx := errgroup.WithContext(ctx)
	parallel.SetLimit(maxParallel)
	for n, b := range batches {
		parallel.Go(func() error {
			var err error
			compared[n], err = c.compareBatch(ctx, b)
			return err
		})
	}
	if err := parallel.Wait(); err != nil {
		return nil, err
	}
	return append(groups, compared...), nil
}

// listUnknown returns the names of the filter that belong neither to an installation of the hub nor to a new installation of the file.
func listUnknown(all []candidate, known []installations.Installation, filter *installations.Filter) []string {
	for _, c := range all {
		known = append(known, c.installation)
	}
	_, unknown := filter.Select(known)
	return unknown
}

func selectCandidates(all []candidate, filter *installations.Filter) []candidate {
	var out []candidate
	for _, c := range all {
		if selected, _ := filter.Select([]installations.Installation{c.installation}); len(selected) > 0 {
			out = append(out, c)
		}
	}
	return out
}

// listUnused names the objects of the file that configure no installation and start none, and the templates of KnativeFleets without a
// child.
func (f *File) listUnused(used []candidate) []string {
	isUsed := map[string]bool{}
	for _, c := range used {
		isUsed[fmt.Sprintf("%s %s", c.wanted.GetKind(), client.ObjectKeyFromObject(c.wanted))] = true
		isUsed[fmt.Sprintf("%s %s", deploymentKind, c.deployment)] = true
	}
	var out []string
	add := func(kind string, name types.NamespacedName) {
		if text := fmt.Sprintf("%s %s", kind, name); !isUsed[text] {
			out = append(out, text)
		}
	}
	for key := range f.resources {
		add(key.component.Kind(), key.name)
	}
	for name := range f.deployments {
		add(deploymentKind, name)
	}
	out = append(out, f.childless...)
	slices.Sort(out)
	return out
}

// batch is a set of clusters with equal objects now, which get equal objects.
type batch struct {
	members []candidate
	// bundle holds the objects of the file, and before the objects of the hub's resource; before is nil with a work agent.
	bundle, before *render.Bundle
}

// renderAll renders each installation, and returns batches. Installations that cannot be rendered are groups with a problem.
func (c *Comparer) renderAll(ctx context.Context, all []candidate, facts *facts, x *index) ([]*batch, []Group) {
	var batches []*batch
	var failed []Group
	known := map[string]*batch{}
	for _, member := range all {
		b, state, err := c.renderCandidate(ctx, member, facts)
		if err != nil {
			failed = append(failed, newProblem(&member.installation, err))
			continue
		}
		key := strings.Join([]string{string(b.bundle.Component), string(member.installation.Mode), b.bundle.Digest, state, x.foundationState(&member)}, "\n")
		if b.before != nil {
			key += "\n" + b.before.Digest
		}
		if known[key] == nil {
			known[key] = b
			batches = append(batches, b)
		}
		known[key].members = append(known[key].members, member)
	}
	return batches, failed
}

// newProblem returns the group of an installation that cannot be compared.
func newProblem(i *installations.Installation, err error) Group {
	return Group{Component: i.Component, Mode: i.Mode, Clusters: []string{i.Cluster}, Problem: err.Error()}
}

// renderCandidate renders the wanted resource of an installation. state distinguishes clusters that may have other objects now.
func (c *Comparer) renderCandidate(ctx context.Context, m candidate, facts *facts) (b *batch, state string, err error) {
	install, err := m.decodeWanted()
	if err != nil {
		return nil, "", err
	}
	mode := m.installation.Mode
	if mode != api.ModeManifestWork {
		mode = api.ModeDirect
	}
	b = &batch{}
	if b.bundle, err = c.renderOn(ctx, install, mode, facts.after(&m)); err != nil {
		return nil, "", err
	}
	installed := render.Installed{Delivered: cmp.Or(m.installation.NextVersion, m.installation.Version), Running: m.installation.Version}
	if err := c.Renderer.CheckMigration(b.bundle.Component, installed, b.bundle.Version); err != nil {
		return nil, "", err
	}
	if m.live == nil {
		return b, "", nil
	}
	if m.record != nil {
		return b, m.record.version + " " + m.record.rendering, nil
	}
	live, err := m.decode(m.live)
	if err == nil && mode == api.ModeManifestWork {
		return b, facts.describeState(&m, install, live), nil
	}
	if err == nil {
		b.before, err = c.renderOn(ctx, live, mode, facts.before(&m))
	}
	if err != nil && mode == api.ModeDirect {
		return nil, "", fmt.Errorf("the resource on the hub yields no objects to compare with: %w", err)
	}
	return b, "invalid on the hub: " + m.installation.Cluster, nil
}

func (c *Comparer) renderOn(ctx context.Context, install *render.Install, mode api.DeliveryMode, place place) (*render.Bundle, error) {
	placed, err := install.On(place.values, place.workloads)
	if err != nil {
		return nil, err
	}
	return c.Renderer.Render(ctx, placed, c.Options(mode))
}

// foundationState returns what the metadata of the foundation, and condition RenderingCurrent, say about the objects of a managed cluster.
func (x *index) foundationState(m *candidate) string {
	if m.addOn == nil {
		return ""
	}
	rendering := "" // names the rendering that the cluster has, unless the cluster never waited for one
	if c := apimeta.FindStatusCondition(m.addOn.Status.Conditions, api.RenderingCurrent); c != nil {
		rendering = string(c.Status) + " " + c.Message
	}
	work := x.foundations[types.NamespacedName{Namespace: m.addOn.Namespace, Name: manifestwork.FoundationName(m.installation.Component)}]
	if work == nil {
		return rendering
	}
	return strings.Join([]string{
		work.Annotations[api.DigestAnnotation], work.Annotations[api.FinishedJobsAnnotation], work.Annotations[api.UnblockedAnnotation], rendering,
	}, "\n")
}

// compareBatch compares the objects of the first cluster of the batch.
func (c *Comparer) compareBatch(ctx context.Context, b *batch) (Group, error) {
	out := Group{Component: b.bundle.Component, Mode: b.members[0].installation.Mode, Version: b.bundle.Version}
	for _, m := range b.members {
		out.Clusters = append(out.Clusters, m.installation.Cluster)
		if m.installation.Paused {
			out.Paused = append(out.Paused, m.installation.Cluster)
		}
		if m.isIncomplete {
			out.Incomplete = append(out.Incomplete, m.installation.Cluster)
		}
	}
	if record := b.members[0].record; record != nil {
		out.compareRecord(record, b.bundle)
		return out, nil
	}
	before, after, err := c.listObjects(ctx, b)
	if err != nil {
		return out, err
	}
	out.Changes, err = compareObjects(before, after)
	return out, err
}

// listObjects returns the objects that the clusters of a batch get now, and the objects of the file.
func (c *Comparer) listObjects(ctx context.Context, b *batch) (before, after objectSet, err error) {
	before, after = objectSet{}, objectSet{}
	m := &b.members[0]
	if m.addOn != nil {
		works, err := c.Hub.ListWorks(ctx, m.installation.Cluster)
		if err != nil {
			return nil, nil, err
		}
		return listWorkObjects(b.bundle, m, works)
	}
	var errs []error
	if b.before != nil {
		for _, o := range b.before.Objects() {
			errs = append(errs, before.add(b.bundle.Component, o.JSON))
		}
	}
	for _, o := range b.bundle.Objects() {
		errs = append(errs, after.add(b.bundle.Component, o.JSON))
	}
	return before, after, errors.Join(errs...)
}

// isWithoutObjects reports whether a work has no object of the installation: works that only serve rollouts, and the probe.
func isWithoutObjects(work *workv1.ManifestWork, component api.Component) bool {
	return slices.Contains([]string{
		manifestwork.GateName(component), manifestwork.VerificationName(component), manifestwork.ProbeName(component),
	}, work.Name)
}

// listWorkObjects returns the objects in the ManifestWorks of a cluster, and the objects of the ManifestWorks for a bundle.
func listWorkObjects(bundle *render.Bundle, m *candidate, works []workv1.ManifestWork) (before, after objectSet, err error) {
	before, after = objectSet{}, objectSet{}
	foundation := &workv1.ManifestWork{}
	var errs []error
	for n := range works {
		work := &works[n]
		isFoundation := work.Name == manifestwork.FoundationName(bundle.Component)
		if installations.ComponentOf(work) != bundle.Component || isWithoutObjects(work, bundle.Component) || isFoundation && manifestwork.IsProbe(work) {
			continue
		}
		if isFoundation {
			foundation = work
		}
		for _, manifest := range work.Spec.Workload.Manifests {
			errs = append(errs, before.add(bundle.Component, manifest.Raw))
		}
	}
	wanted, err := manifestwork.Foundation(bundle, m.addOn, manifestwork.HubOf(foundation))
	if err != nil {
		return nil, nil, err
	}
	for _, manifest := range wanted.Spec.Workload.Manifests {
		errs = append(errs, after.add(bundle.Component, manifest.Raw))
	}
	for _, o := range manifestwork.PayloadObjects(bundle, foundation) {
		errs = append(errs, after.add(bundle.Component, o))
	}
	return before, after, errors.Join(errs...)
}

// mergeGroups joins the groups with equal changes, and orders groups and clusters by name.
func mergeGroups(all []Group) []Group {
	known := map[string]int{}
	var out []Group
	for _, g := range all {
		key := fmt.Sprintf("%s %s %s %s %v %v", g.Component, g.Mode, g.Version, g.Problem, g.Rendering, g.Changes)
		n, isKnown := known[key]
		if !isKnown {
			known[key] = len(out)
			out = append(out, g)
			continue
		}
		out[n].Clusters = append(out[n].Clusters, g.Clusters...)
		out[n].Paused = append(out[n].Paused, g.Paused...)
		out[n].Incomplete = append(out[n].Incomplete, g.Incomplete...)
	}
	for n := range out {
		slices.Sort(out[n].Clusters)
		slices.Sort(out[n].Paused)
		slices.Sort(out[n].Incomplete)
	}
	slices.SortFunc(out, func(a, b Group) int {
		return cmp.Or(cmp.Compare(a.Clusters[0], b.Clusters[0]), cmp.Compare(a.Component, b.Component))
	})
	return out
}
