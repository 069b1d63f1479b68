// Copyright Contributors to the Open Cluster Management project

package rendering

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/yaml"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
	sdkv1beta1 "open-cluster-management.io/sdk-go/pkg/apis/cluster/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
	"open-cluster-management.io/knative-addon/pkg/message"
	"open-cluster-management.io/knative-addon/pkg/revision"
	"open-cluster-management.io/knative-addon/pkg/rollout"
	"open-cluster-management.io/knative-addon/pkg/target"
)

// clusterRollout is the rollout of renderings to the clusters of one strategy.
type clusterRollout struct {
	// key names the object that has the strategy, or the namespace of the members. related is that object, for Events; nil for the
	// default strategy.
	key        string
	component  api.Component
	related    *corev1.ObjectReference
	definition *addonv1beta1.ClusterManagementAddOn
	strategy   clusterv1alpha1.RolloutStrategy
	members    []*member
}

// gatherer finds the rollouts of the clusters of a component.
type gatherer struct {
	*Reconciler
	component  api.Component
	definition *addonv1beta1.ClusterManagementAddOn
	placements []placement
	fleets     map[types.NamespacedName]*rollout.Selection
}

// placement is a Placement of a ClusterManagementAddOn, with the groups of the clusters that the Placement selects.
type placement struct {
	key      string
	related  *corev1.ObjectReference
	strategy clusterv1alpha1.RolloutStrategy
	groups   map[string]sdkv1beta1.GroupKey
}

// gatherRollouts returns the rollouts of the component by key. An add-on belongs to one rollout: that of the KnativeFleet that owns its
// configuration, else that of the last Placement that selects the cluster, else that of the namespace of a resource that refers to
// the cluster, else the default. A resource without a work agent belongs to the rollout of the KnativeFleet that owns the resource, else
// to that of its namespace.
func (r *Reconciler) gatherRollouts(
	ctx context.Context, component api.Component, addOns []*addonv1beta1.ManagedClusterAddOn, configs []*unstructured.Unstructured,
) (map[string]*clusterRollout, error) {
	g := &gatherer{Reconciler: r, component: component, fleets: map[types.NamespacedName]*rollout.Selection{}}
	if err := g.readPlacements(); err != nil {
		return nil, err
	}
	var members []*member
	for _, a := range addOns {
		members = append(members, r.readMember(ctx, a))
	}
	for _, config := range configs {
		m, err := r.readDirectMember(component, config)
		if err != nil {
			return nil, err
		}
		members = append(members, m)
	}
	out := map[string]*clusterRollout{}
	for _, m := range members {
		of, err := g.rolloutOf(m)
		if err != nil {
			return nil, err
		}
		if out[of.key] == nil {
			of.definition, of.component = g.definition, component
			out[of.key] = of
		}
		out[of.key].members = append(out[of.key].members, m)
	}
	return out, nil
}

// readPlacements reads the ClusterManagementAddOn with its Placements, which select clusters only if the install strategy has type Placements.
func (g *gatherer) readPlacements() error {
	definition, err := g.Definitions.Get(g.component.AddOnName())
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot get ClusterManagementAddOn %q: %w", g.component, err)
	}
	g.definition = definition
	if definition.Spec.InstallStrategy.Type != addonv1beta1.AddonInstallStrategyPlacements {
		return nil
	}
	for _, p := range definition.Spec.InstallStrategy.Placements {
		selecting, err := g.Placements.Placements(p.Namespace).Get(p.Name)
		if apierrors.IsNotFound(err) {
			continue // Kubernetes deletes the decisions
		}
		if err != nil {
			return fmt.Errorf("cannot get Placement \"%s/%s\": %w", p.Namespace, p.Name, err)
		}
		of := placement{
			key: "Placement " + p.Namespace + "/" + p.Name, strategy: rollout.WithPlacement(p.RolloutStrategy, selecting),
			related: &corev1.ObjectReference{APIVersion: clusterv1beta1.GroupVersion.String(), Kind: "Placement", Namespace: p.Namespace, Name: p.Name},
		}
		if of.groups, err = g.readGroups(p.PlacementRef); err != nil {
			return err
		}
		g.placements = append(g.placements, of)
	}
	return nil
}

// readGroups returns the decision groups of the clusters that a Placement selects.
func (g *gatherer) readGroups(p addonv1beta1.PlacementRef) (map[string]sdkv1beta1.GroupKey, error) {
	decisions, err := g.Decisions.PlacementDecisions(p.Namespace).List(labels.SelectorFromSet(labels.Set{clusterv1beta1.PlacementLabel: p.Name}))
	if err != nil {
		return nil, fmt.Errorf("cannot list the decisions of Placement \"%s/%s\": %w", p.Namespace, p.Name, err)
	}
	out := map[string]sdkv1beta1.GroupKey{}
	for _, d := range decisions {
		index, _ := strconv.ParseInt(d.Labels[clusterv1beta1.DecisionGroupIndexLabel], 10, 32) // OCM writes the label
		for _, decided := range d.Status.Decisions {
			out[decided.ClusterName] = sdkv1beta1.GroupKey{GroupName: d.Labels[clusterv1beta1.DecisionGroupNameLabel], GroupIndex: int32(index)}
		}
	}
	return out, nil
}

// rolloutOf returns the rollout of a cluster without members, and sets the group of the cluster and whether the turn comes at once.
func (g *gatherer) rolloutOf(m *member) (*clusterRollout, error) {
	m.immediate = g.definition != nil && isImmediate(g.definition.Annotations)
	config := m.config
	if m.addOn != nil {
		m.immediate = m.immediate || isImmediate(m.addOn.Annotations)
		var err error
		if config, err = g.readConfig(m.addOn); err != nil {
			return nil, err
		}
	}
	if config != nil {
		m.immediate = m.immediate || isImmediate(config.GetAnnotations())
		if of, err := g.fleetRolloutOf(m, config); of != nil || err != nil {
			return of, err
		}
	}
	for _, p := range slices.Backward(g.placements) { // in OCM, a later Placement takes the cluster from an earlier Placement
		if m.addOn == nil {
			break // a Placement selects managed clusters
		}
		if group, selected := p.groups[m.Name]; selected {
			m.Group = group
			return &clusterRollout{key: p.key, strategy: p.strategy, related: p.related}, nil
		}
	}
	if refersToCluster(config) {
		// The authors of a namespace decide on the health of its clusters, which must not stop the clusters of others.
		namespace := config.GetNamespace()
		return &clusterRollout{key: "namespace " + namespace, strategy: g.Default, related: &corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: namespace}}, nil
	}
	return &clusterRollout{key: "default", strategy: g.Default}, nil
}

// refersToCluster reports whether the resource names one cluster, unlike the default of an add-on.
func refersToCluster(config *unstructured.Unstructured) bool {
	if config == nil {
		return false
	}
	_, refers := target.ReferenceOf(config)
	return refers
}

// fleetRolloutOf is rolloutOf for a cluster whose resource belongs to a KnativeFleet; nil for any other cluster. The clusters of a
// KnativeFleet that cannot be followed, for example without its Placement, take no part until the strategy and the groups are known again.
func (g *gatherer) fleetRolloutOf(m *member, config *unstructured.Unstructured) (*clusterRollout, error) {
	name, selection, err := g.readFleet(config)
	if err != nil || name.Name == "" {
		return nil, err
	}
	if m.config != nil {
		m.Name = m.config.GetName() // the KnativeFleet names a child like the cluster
	}
	if selection == nil {
		selection = &rollout.Selection{Strategy: g.Default}
		if !m.immediate {
			m.Phase = rollout.Skipped
		}
	}
	m.immediate = m.immediate || isImmediate(selection.Annotations)
	var selected bool
	if m.Group, selected = selection.Groups[m.Name]; !selected {
		m.Group.GroupIndex = math.MaxInt32 // no group waits for a cluster that the KnativeFleet no longer selects
	}
	related := &corev1.ObjectReference{APIVersion: fleetv1alpha1.Resource().GroupVersion().String(), Kind: fleetv1alpha1.Kind, Namespace: name.Namespace, Name: name.Name}
	return &clusterRollout{key: "KnativeFleet " + name.String(), strategy: selection.Strategy, related: related}, nil
}

func (g *gatherer) readConfig(a *addonv1beta1.ManagedClusterAddOn) (*unstructured.Unstructured, error) {
	name, ok := revision.ConfigOf(a)
	if !ok {
		return nil, nil
	}
	return revision.Live(g.Configs[g.component], g.component, name)
}

// readFleet returns the KnativeFleet that owns a resource; no name without an owner, and no selection when the KnativeFleet cannot be followed.
func (g *gatherer) readFleet(config *unstructured.Unstructured) (types.NamespacedName, *rollout.Selection, error) {
	owner := metav1.GetControllerOf(config)
	if owner == nil || owner.Kind != fleetv1alpha1.Kind {
		return types.NamespacedName{}, nil, nil
	}
	name := types.NamespacedName{Namespace: config.GetNamespace(), Name: owner.Name}
	if selection, known := g.fleets[name]; known {
		return name, selection, nil
	}
	selection, err := g.Selection(name)
	if err != nil {
		return name, nil, err
	}
	g.fleets[name] = selection
	return name, selection, nil
}

func isImmediate(annotations map[string]string) bool {
	return annotations[api.RenderingAnnotation] == api.RenderingImmediate
}

// maxNamed is the number of clusters that an Event names.
const maxNamed = 5

// reportStops emits an Event for each rollout of the component that stops: more clusters fail than the strategy of the rollout permits.
// plans has all rollouts of the component, by key.
func (r *Reconciler) reportStops(component api.Component, rollouts map[string]*clusterRollout, plans map[string]rollout.Plan) {
	stopped := sets.New[string]()
	for key, plan := range plans {
		if plan.Stopped && rollouts[key].definition != nil {
			stopped.Insert(key)
		}
	}
	last, _ := r.stops.Swap(component, stopped)
	before, _ := last.(sets.Set[string])
	for _, key := range sets.List(stopped.Difference(before)) {
		r.emitStop(rollouts[key], plans[key])
	}
}

// emitStop emits the Event of a rollout that stops. client-go folds Events of one object that have the same related object: without the
// latter, of two rollouts that stop only the first would be told.
func (r *Reconciler) emitStop(o *clusterRollout, plan rollout.Plan) {
	var related runtime.Object
	if o.related != nil {
		related = o.related
	}
	r.Events.Eventf(o.definition, related, corev1.EventTypeWarning, "RenderingStopped", "Report", "%s", describeStop(o, plan))
}

// describeStop names the clusters by which a rollout stops.
func describeStop(o *clusterRollout, plan rollout.Plan) string {
	failed := sets.List(plan.TimedOut)
	return message.Shorten(fmt.Sprintf("The new rendering stops for the clusters of %s: %s do not run the rendering within progressDeadline",
		o.key, strings.Join(failed[:min(len(failed), maxNamed)], ", ")), message.MaxNote)
}

// ParseStrategy reads a rollout strategy of OCM from JSON or YAML. Unknown fields, and values that OCM's engine refuses, are errors.
func ParseStrategy(text string) (clusterv1alpha1.RolloutStrategy, error) {
	var out clusterv1alpha1.RolloutStrategy
	if err := yaml.UnmarshalStrict([]byte(text), &out); err != nil {
		return out, fmt.Errorf("cannot read the rollout strategy: %w", err)
	}
	if _, err := rollout.Determine(out, []rollout.Cluster{{Name: "any", Phase: rollout.Waiting}}); err != nil {
		return out, fmt.Errorf("cannot use the rollout strategy: %w", err)
	}
	return out, nil
}
