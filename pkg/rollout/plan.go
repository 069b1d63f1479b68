// Copyright Contributors to the Open Cluster Management project

package rollout

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"

	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
	sdkv1alpha1 "open-cluster-management.io/sdk-go/pkg/apis/cluster/v1alpha1"
	sdkv1beta1 "open-cluster-management.io/sdk-go/pkg/apis/cluster/v1beta1"
)

// Phase is the state of a cluster in a rollout.
type Phase int

const (
	// Succeeded means that the cluster has the change and works.
	Succeeded Phase = iota
	// Progressing means that the cluster has the change and does not work yet.
	Progressing
	// Waiting means that the cluster does not have the change.
	Waiting
	// Skipped means that the cluster does not take part in the rollout now, and holds no other cluster up.
	Skipped
	// Failed means that the cluster cannot work with the change, whatever time passes.
	Failed
	// TimedOut means that the cluster did not work within progressDeadline.
	TimedOut
)

// Cluster is a cluster of a rollout.
type Cluster struct {
	Name  string
	Group sdkv1beta1.GroupKey
	Phase Phase
	// Since is the time of the last change of the phase; zero when unknown.
	Since time.Time
}

// Selection is a rollout strategy with the groups of the clusters that the owner of the strategy selects, and the annotations of the owner.
type Selection struct {
	Strategy    clusterv1alpha1.RolloutStrategy
	Annotations map[string]string
	Groups      map[string]sdkv1beta1.GroupKey
}

// Plan says which clusters get the change now.
type Plan struct {
	// Update holds the names of the clusters that get the change now.
	Update sets.Set[string]
	// TimedOut holds the names of the clusters that exceeded progressDeadline.
	TimedOut sets.Set[string]
	// Stopped reports whether more clusters failed than maxFailures permits.
	Stopped bool
	// Recheck is the time until the plan may change without an event; 0 means that only an event changes the plan.
	Recheck time.Duration
}

// Determine returns the plan of a rollout. A strategy that OCM's engine refuses is an error. The mandatory groups and all other groups are two
// rollouts: OCM's engine holds all other groups up by a cluster of any group that does not work.
func Determine(strategy clusterv1alpha1.RolloutStrategy, clusters []Cluster) (Plan, error) {
	if strategy.Type == "" {
		strategy.Type = clusterv1alpha1.All
	}
	if !slices.ContainsFunc(clusters, func(c Cluster) bool { return c.Phase != Succeeded && c.Phase != Skipped }) {
		return newPlan(), nil
	}
	var mandatory, rest []Cluster
	for _, c := range clusters {
		if isMandatory(strategy, c.Group) {
			mandatory = append(mandatory, c)
		} else {
			rest = append(rest, c)
		}
	}
	plan, err := runEngine(strategyOfRest(strategy, len(clusters), len(rest)), rest)
	if err != nil || len(mandatory) == 0 {
		return plan.Plan, err
	}
	first, err := runEngine(strategyOfMandatory(strategy), mandatory)
	if err != nil || !first.isOpen {
		return plan.Plan, err
	}
	first.join(&plan.Plan)
	return first.Plan, nil
}

func newPlan() Plan { return Plan{Update: sets.New[string](), TimedOut: sets.New[string]()} }

// strategyOfMandatory returns the strategy for the clusters of the mandatory groups: group by group, without permitted failures.
func strategyOfMandatory(strategy clusterv1alpha1.RolloutStrategy) clusterv1alpha1.RolloutStrategy {
	out := clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.ProgressivePerGroup, ProgressivePerGroup: &clusterv1alpha1.RolloutProgressivePerGroup{}}
	if strategy.Type == clusterv1alpha1.Progressive {
		out.ProgressivePerGroup.RolloutConfig = strategy.Progressive.RolloutConfig
	} else {
		out.ProgressivePerGroup.RolloutConfig = strategy.ProgressivePerGroup.RolloutConfig
	}
	out.ProgressivePerGroup.MaxFailures = intstr.FromInt32(0)
	return out
}

// strategyOfRest returns the strategy for the clusters outside the mandatory groups. maxFailures of a Progressive rollout refers to all clusters;
// the engine takes a number above the number of clusters for 0.
func strategyOfRest(strategy clusterv1alpha1.RolloutStrategy, all, rest int) clusterv1alpha1.RolloutStrategy {
	out := *strategy.DeepCopy()
	switch {
	case out.Type == clusterv1alpha1.Progressive && out.Progressive != nil:
		out.Progressive.MandatoryDecisionGroups = clusterv1alpha1.MandatoryDecisionGroups{}
		permitted, err := intstr.GetScaledValueFromIntOrPercent(&out.Progressive.MaxFailures, all, true)
		if err == nil && permitted <= all && rest < all { // the engine reports the error
			out.Progressive.MaxFailures = intstr.FromInt(min(permitted, rest))
		}
	case out.Type == clusterv1alpha1.ProgressivePerGroup && out.ProgressivePerGroup != nil:
		out.ProgressivePerGroup.MandatoryDecisionGroups = clusterv1alpha1.MandatoryDecisionGroups{}
	}
	return out
}

// enginePlan is the plan for the clusters of one run of OCM's engine.
type enginePlan struct {
	Plan
	// isOpen reports whether a cluster does not have the change, or does not work with the change.
	isOpen bool
	// awaits reports whether the rollout awaits a cluster that has not failed.
	awaits bool
}

// runEngine returns the plan of OCM's engine for the clusters. A rollout group by group runs the engine for each group: the engine counts failed
// clusters of later groups as clusters of the first group, and would not begin the groups between.
func runEngine(strategy clusterv1alpha1.RolloutStrategy, clusters []Cluster) (enginePlan, error) {
	if strategy.Type != clusterv1alpha1.ProgressivePerGroup || len(clusters) == 0 {
		return runEngineOnce(strategy, clusters)
	}
	groups := map[int32][]Cluster{}
	keys := numberGroups(clusters)
	for _, c := range clusters {
		index := keys[c.Group].GroupIndex
		groups[index] = append(groups[index], c)
	}
	out := enginePlan{Plan: newPlan()}
	for _, index := range slices.Sorted(maps.Keys(groups)) {
		plan, err := runEngineOnce(strategy, groups[index])
		if err != nil {
			return out, err
		}
		if !out.awaits && !out.Stopped {
			out.Update, out.Stopped, out.awaits = plan.Update, plan.Stopped, plan.awaits
		}
		out.isOpen = out.isOpen || plan.isOpen
		out.join(&plan.Plan)
	}
	return out, nil
}

// join adds the clusters of another plan that exceeded progressDeadline, and the time of the other plan.
func (p *Plan) join(other *Plan) {
	p.TimedOut = p.TimedOut.Union(other.TimedOut)
	if p.Recheck == 0 || other.Recheck > 0 && other.Recheck < p.Recheck {
		p.Recheck = other.Recheck
	}
}

// runEngineOnce returns the plan of one run of OCM's engine, in the order of the groups.
func runEngineOnce(strategy clusterv1alpha1.RolloutStrategy, clusters []Cluster) (enginePlan, error) {
	plan := enginePlan{Plan: newPlan()}
	groups, statuses, now := sdkv1beta1.ClusterGroupsMap{}, []sdkv1alpha1.ClusterRolloutStatus{}, sdkv1alpha1.RolloutClock.Now()
	keys := numberGroups(clusters)
	for _, c := range clusters {
		c.Group = keys[c.Group]
		if groups[c.Group] == nil {
			groups[c.Group] = sets.New[string]()
		}
		groups[c.Group].Insert(c.Name)
		if c.Phase != Waiting { // the engine selects among the clusters without a status
			statuses = append(statuses, statusOf(&c, strategy.Type == clusterv1alpha1.ProgressivePerGroup, now))
		}
	}
	tracker := sdkv1beta1.NewPlacementDecisionClustersTrackerWithGroups(nil, nil, groups)
	handler, err := sdkv1alpha1.NewRolloutHandler[*Cluster](tracker, nil)
	if err != nil {
		return plan, err
	}
	_, result, err := handler.GetRolloutCluster(strategy, statuses)
	if err != nil {
		return plan, err
	}
	plan.isOpen = len(result.ClustersToRollout) > 0 || len(result.ClustersTimeOut) > 0
	plan.Stopped = result.MaxFailureBreach
	if result.RecheckAfter != nil {
		plan.Recheck = *result.RecheckAfter
	}
	for _, s := range result.ClustersToRollout {
		plan.awaits = plan.awaits || s.Status != sdkv1alpha1.Failed
		if s.Status == sdkv1alpha1.ToApply {
			plan.Update.Insert(s.ClusterName)
		}
	}
	for _, s := range result.ClustersTimeOut {
		plan.TimedOut.Insert(s.ClusterName)
	}
	return plan, nil
}

// numberGroups gives the groups of the clusters the indexes 0, 1, 2 and so on, and keeps the order of the groups. OCM's engine reads as many
// indexes as there are groups: a gap hides the last groups, and an index that two groups share hides one of the two.
func numberGroups(clusters []Cluster) map[sdkv1beta1.GroupKey]sdkv1beta1.GroupKey {
	out := map[sdkv1beta1.GroupKey]sdkv1beta1.GroupKey{}
	for _, c := range clusters {
		out[c.Group] = c.Group
	}
	order := slices.SortedFunc(maps.Keys(out), func(a, b sdkv1beta1.GroupKey) int {
		return cmp.Or(cmp.Compare(a.GroupIndex, b.GroupIndex), strings.Compare(a.GroupName, b.GroupName))
	})
	for i, key := range order {
		out[key] = sdkv1beta1.GroupKey{GroupName: key.GroupName, GroupIndex: int32(i)} //nolint:gosec // a number of groups
	}
	return out
}

// isMandatory reports whether the clusters of a group get a change before the clusters of all other groups.
func isMandatory(strategy clusterv1alpha1.RolloutStrategy, group sdkv1beta1.GroupKey) bool {
	var mandatory []clusterv1alpha1.MandatoryDecisionGroup
	switch {
	case strategy.Type == clusterv1alpha1.Progressive && strategy.Progressive != nil:
		mandatory = strategy.Progressive.MandatoryDecisionGroups.MandatoryDecisionGroups
	case strategy.Type == clusterv1alpha1.ProgressivePerGroup && strategy.ProgressivePerGroup != nil:
		mandatory = strategy.ProgressivePerGroup.MandatoryDecisionGroups.MandatoryDecisionGroups
	}
	return slices.ContainsFunc(mandatory, func(m clusterv1alpha1.MandatoryDecisionGroup) bool {
		if m.GroupName != "" { // OCM ignores the index of a named group
			return m.GroupName == group.GroupName
		}
		return m.GroupIndex == group.GroupIndex
	})
}

// maxClockSkew bounds how far the clock of a program that writes conditions may be ahead of the manager's clock.
const maxClockSkew = 5 * time.Minute

// statusOf translates a phase. A time in the future counts as unknown: the agent of a cluster, which may write the conditions of the cluster's
// add-ons, could otherwise keep a place among maxConcurrency past progressDeadline. Only another change helps a failed cluster: the engine counts the
// cluster as a failure that holds no place among maxConcurrency. Within groups the engine counts only a failure that is still among the clusters
// of its group.
func statusOf(c *Cluster, inGroup bool, now time.Time) sdkv1alpha1.ClusterRolloutStatus {
	out := sdkv1alpha1.ClusterRolloutStatus{ClusterName: c.Name, GroupKey: c.Group}
	since := metav1.NewTime(c.Since)
	if c.Since.After(now.Add(maxClockSkew)) {
		since = metav1.Time{}
	}
	out.LastTransitionTime = &since
	switch c.Phase {
	case Succeeded:
		out.Status = sdkv1alpha1.Succeeded
	case Skipped:
		out.Status = sdkv1alpha1.Skip
	case Failed, TimedOut:
		out.Status = sdkv1alpha1.TimeOut
		if inGroup {
			out.Status = sdkv1alpha1.Failed
		}
	case Progressing, Waiting:
		out.Status = sdkv1alpha1.Progressing
	}
	return out
}

// WithPlacement returns the rollout strategy for the clusters of a Placement with OCM's default: maxConcurrency of a Progressive strategy is the
// number of clusters in a decision group of the Placement.
func WithPlacement(strategy clusterv1alpha1.RolloutStrategy, placement *clusterv1beta1.Placement) clusterv1alpha1.RolloutStrategy {
	if strategy.Type != clusterv1alpha1.Progressive {
		return strategy
	}
	out := *strategy.DeepCopy()
	if out.Progressive == nil {
		out.Progressive = &clusterv1alpha1.RolloutProgressive{}
	}
	if limit := &out.Progressive.MaxConcurrency; limit.StrVal == "" && limit.IntVal == 0 {
		*limit = placement.Spec.DecisionStrategy.GroupStrategy.ClustersPerDecisionGroup
	}
	return out
}
