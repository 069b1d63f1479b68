// Copyright Contributors to the Open Cluster Management project

package fleet

import (
	"cmp"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	clusterinventoryv1alpha1 "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"

	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
)

// observe reads the templates, the selection and the children from the caches, and determines the rollout. A problem goes into the
// report.
func (p *pass) observe() (*templates, error) {
	if err := p.listChildren(); err != nil {
		return nil, err
	}
	p.report.removals = dropOldRemovals(p.fleet.Status.Removals, p.now)
	if p.report.problem != nil {
		return nil, nil
	}
	t, no := readTemplates(&p.fleet.Spec)
	if no != nil {
		p.report.problem = no
		return nil, nil
	}
	p.report.revision = t.revision
	in, err := p.gatherSelection()
	if err != nil || p.report.problem != nil {
		return t, err
	}
	p.selection = in
	clusters, no := selectClusters(in)
	if no != nil {
		p.report.problem = no
		return t, nil
	}
	p.reader = &stateReader{
		fleet: p.fleet, templates: t, children: p.children, completions: p.Completions, begun: p.times.begun, refusals: p.times.refusals, now: p.now,
	}
	p.reader.dropRefusals(clusters)
	p.report.clusters = p.reader.readClusters(clusters)
	p.report.plan, p.report.problem = planRollout(in.strategy(), p.report.clusters)
	p.requeueWithin(p.report.plan.recheck)
	return t, nil
}

func (p *pass) listChildren() error {
	p.children = map[api.Component]map[string]*unstructured.Unstructured{}
	for _, component := range api.Components() {
		objects, err := p.Configs[component].ByNamespace(p.fleet.Namespace).List(labels.Everything())
		if err != nil {
			return fmt.Errorf("cannot list %ss of namespace %q: %w", component.Kind(), p.fleet.Namespace, err)
		}
		byName := make(map[string]*unstructured.Unstructured, len(objects))
		for _, o := range objects {
			if child, ok := o.(*unstructured.Unstructured); ok {
				byName[child.GetName()] = child
			}
		}
		p.children[component] = byName
	}
	return nil
}

// gatherSelection reads the objects that decide on the selection.
func (p *pass) gatherSelection() (*selectionInput, error) {
	in := &selectionInput{spec: &p.fleet.Spec}
	var err error
	if in.profiles, err = p.Profiles.List(p.fleet.Namespace); err != nil {
		p.reportUnreadable(err, "ClusterProfiles (multicluster.x-k8s.io)")
		return nil, nil
	}
	p.profiles = in.profiles
	switch {
	case p.fleet.Spec.PlacementRef != nil:
		return in, p.gatherPlacement(in)
	case p.fleet.Spec.DecisionKey != "":
		if in.keyDecisions, err = p.KeyDecisions.List(p.fleet.Namespace, p.fleet.Spec.DecisionKey); err != nil {
			p.reportUnreadable(err, "PlacementDecisions (multicluster.x-k8s.io)")
		}
	}
	return in, nil
}

// reportUnreadable reports a kind that the hub does not serve, or that the manager cannot list. The end of the error causes the next pass.
func (p *pass) reportUnreadable(err error, kind string) {
	if apimeta.IsNoMatchError(err) {
		p.report.problem = &problem{fleetv1alpha1.ReasonKindNotServed, fmt.Sprintf(
			"the hub does not serve %s, so that nothing changes; install the CustomResourceDefinition, or select the clusters in another way", kind)}
		return
	}
	// The text of the error may change from one attempt to the next, unlike the class of the error.
	p.report.problem = &problem{fleetv1alpha1.ReasonKindUnavailable, fmt.Sprintf(
		"the manager cannot list %s (%s), so that nothing changes; check the hub's API server and the permissions of the add-on's manager",
		kind, cmp.Or(string(apierrors.ReasonForError(err)), "no answer"))}
}

func (p *pass) gatherPlacement(in *selectionInput) error {
	namespace, name := p.fleet.Namespace, p.fleet.Spec.PlacementRef.Name
	placement, err := p.Placements.Placements(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot get Placement \"%s/%s\": %w", namespace, name, err)
	}
	if placement.DeletionTimestamp == nil {
		in.placement = placement
	}
	in.placementDecisions, err = p.Decisions.PlacementDecisions(namespace).List(labels.SelectorFromSet(labels.Set{clusterv1beta1.PlacementLabel: name}))
	if err != nil {
		return fmt.Errorf("cannot list the decisions of Placement \"%s/%s\": %w", namespace, name, err)
	}
	return nil
}

// decideRemovals returns the children to delete now, and reports the children that stay although their clusters are deselected.
func (p *pass) decideRemovals(t *templates) []removalCandidate {
	in := &removalInput{
		selected: len(p.report.clusters), removed: p.report.removals, maxRemoval: intstr.FromString("10%"), limit: p.RemovalLimit,
		confirmed: p.fleet.Annotations[api.RemovalAnnotation] == api.RemovalConfirm, now: p.now,
	}
	if p.fleet.Spec.MaxRemoval != nil {
		in.maxRemoval = intstr.Parse(p.fleet.Spec.MaxRemoval.String()) // a number may be in quotes
	}
	in.candidates, in.owned = p.listDeselected(t)
	plan := planRemovals(in)
	p.report.held, p.report.heldClusters = plan.held, plan.countHeld(in.candidates)
	p.requeueWithin(plan.wait)
	if len(plan.remove) > maxWrites {
		p.requeueWithin(moreWrites)
		return plan.remove[:maxWrites]
	}
	return plan.remove
}

// holdRemovals reports the deselected children that stay during a pause.
func (p *pass) holdRemovals(t *templates) {
	candidates, _ := p.listDeselected(t)
	if len(candidates) == 0 {
		return
	}
	p.report.heldClusters = (&removalPlan{}).countHeld(candidates)
	p.report.held = &problem{fleetv1alpha1.ReasonPaused, fmt.Sprintf(
		"annotation %s of the KnativeFleet keeps these children, whose clusters are no longer selected: %s", api.PausedAnnotation, listCandidates(candidates))}
}

// listDeselected returns the owned children that no selected cluster needs, and the number of all owned children. Children that are
// being deleted already are no candidates.
func (p *pass) listDeselected(t *templates) (candidates []removalCandidate, owned int) {
	selected, wanted := sets.New[string](), sets.New(t.components()...)
	for i := range p.report.clusters {
		selected.Insert(p.report.clusters[i].name)
	}
	profiles := p.profilesByName()
	before := p.times.deselected
	p.times.deselected = map[string]deselection{}
	countedBefore := p.times.counted
	p.times.counted = map[types.UID]time.Time{}
	for component, children := range p.children {
		for name, child := range children {
			if !metav1.IsControlledBy(child, p.fleet) {
				continue
			}
			if child.GetDeletionTimestamp() != nil { // counted as removed
				continue
			}
			if wanted.Has(component) && selected.Has(name) {
				owned++
				continue
			}
			found := p.keepDeselection(string(component)+"/"+name, before, profiles[name])
			counted := p.keepCounted(child.GetUID(), countedBefore)
			if !counted {
				owned++
			}
			candidates = append(candidates, removalCandidate{
				component: component, child: child, profile: profiles[name], deselected: found.since, counted: counted,
				undecided: found.returned && !selected.Has(name) && p.maySelect(name),
			})
		}
	}
	sortCandidates(candidates)
	return candidates, owned
}

// keepDeselection returns and keeps what the manager remembers about a deselected cluster. before is nil in the first decision of this process.
func (p *pass) keepDeselection(key string, before map[string]deselection, profile *clusterinventoryv1alpha1.ClusterProfile) deselection {
	out, known := before[key]
	if !known {
		out = deselection{since: p.now, returned: before == nil}
	}
	out.returned = out.returned || !isHealthy(profile)
	p.times.deselected[key] = out
	return out
}

// maySelect reports whether OCM may select a cluster for the Placement of the KnativeFleet.
func (p *pass) maySelect(cluster string) bool {
	if p.selection == nil || p.selection.placement == nil {
		return false
	}
	managed, err := p.Clusters.Get(cluster)
	if apierrors.IsNotFound(err) {
		return false
	}
	clusters := 0
	for _, d := range p.selection.placementDecisions {
		clusters += len(d.Status.Decisions)
	}
	return err != nil || p.MaySelect(p.selection.placement, clusters, managed)
}

func (p *pass) profilesByName() map[string]*clusterinventoryv1alpha1.ClusterProfile {
	out := map[string]*clusterinventoryv1alpha1.ClusterProfile{}
	for _, profile := range p.profiles {
		out[profile.Name] = profile
	}
	return out
}

// keepCounted reports whether the removal of a child was counted within the window, and keeps the time.
func (p *pass) keepCounted(uid types.UID, before map[types.UID]time.Time) bool {
	at, counted := before[uid]
	if counted = counted && p.now.Sub(at) < removalWindow; counted {
		p.times.counted[uid] = at
	}
	return counted
}
