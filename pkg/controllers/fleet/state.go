// Copyright Contributors to the Open Cluster Management project

package fleet

import (
	"slices"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"open-cluster-management.io/knative-addon/pkg/api"
	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
	"open-cluster-management.io/knative-addon/pkg/rollout"
)

// phase is the state of a cluster in the rollout of a revision.
type phase = rollout.Phase

const (
	// phaseSucceeded means that the children have the revision and are Ready.
	phaseSucceeded = rollout.Succeeded
	// phaseProgressing means that the children have the revision and are not Ready yet.
	phaseProgressing = rollout.Progressing
	// phaseWaiting means that the cluster does not have the revision.
	phaseWaiting = rollout.Waiting
	// phaseSkipped means that the cluster does not take part in the rollout now: the cluster is unresolved, or a child is being
	// deleted. A skipped cluster gets no write and holds no other cluster up.
	phaseSkipped = rollout.Skipped
	// phaseFailed means that a child cannot have the revision installed, whatever time passes.
	phaseFailed = rollout.Failed
	// phaseTimedOut means that the children were not Ready within progressDeadline.
	phaseTimedOut = rollout.TimedOut
)

// clusterState is a cluster with its children.
type clusterState struct {
	cluster
	// children holds the resource with the name of the child, by component, whoever owns the resource.
	children map[api.Component]*unstructured.Unstructured
	phase    phase
	// updated reports whether all children have the revision.
	updated bool
	// unresolvedTarget reports whether the cluster is unknown or unavailable, or a child belongs to another owner.
	unresolvedTarget bool
	// ineligible reports whether a child reports VersionMigrationEligible as False, lacksKinds whether a child reports
	// DependenciesInstalled as False.
	ineligible, lacksKinds bool
	// versions are the versions that the children report, by component.
	versions map[string]string
	// reason describes a cluster that is not Ready.
	reason string
	// since is the time of the last change of the phase; zero when unknown.
	since time.Time
}

// childState is the state of one child.
type childState struct {
	phase      phase
	unresolved bool
	reason     string
	since      time.Time
}

// stateReader reads the states of clusters.
type stateReader struct {
	fleet     *fleetv1alpha1.KnativeFleet
	templates *templates
	// children are the resources of the namespace, by component and name.
	children    map[api.Component]map[string]*unstructured.Unstructured
	completions map[api.Component]Completions
	// begun is the time of the first pass of this process over the KnativeFleet.
	begun time.Time
	// refusals holds the writes of children that the API server has refused.
	refusals refusals
	now      time.Time
}

func (r *stateReader) readClusters(clusters []cluster) []clusterState {
	out := make([]clusterState, 0, len(clusters))
	for _, c := range clusters {
		out = append(out, r.readCluster(c))
	}
	return out
}

func (r *stateReader) readCluster(c cluster) clusterState {
	out := clusterState{cluster: c, children: map[api.Component]*unstructured.Unstructured{}, updated: true}
	var progressing *childState
	for _, component := range r.templates.components() {
		child := r.children[component][c.name]
		out.children[component] = child
		status := decodeStatus(child)
		s := r.readChild(component, c.name, child, status)
		out.updated = out.updated && child != nil && r.hasRevision(child)
		out.unresolvedTarget = out.unresolvedTarget || s.unresolved
		if child != nil && metav1.IsControlledBy(child, r.fleet) {
			out.readReports(component, child, status)
		}
		if s.phase >= out.phase {
			out.phase, out.reason, out.since = s.phase, s.reason, laterTime(out.since, s.since)
		}
		if s.phase == phaseProgressing {
			progressing = &s
		}
	}
	if out.phase == phaseSkipped && progressing != nil { // a child without a target must not hide the other child, which the rollout awaits
		out.phase, out.reason, out.since = progressing.phase, progressing.reason, progressing.since
	}
	switch {
	case c.unresolved != "":
		out.phase, out.reason, out.unresolvedTarget = phaseSkipped, c.unresolved, true
	case out.phase == phaseWaiting && !isHealthy(c.profile):
		out.phase, out.reason, out.unresolvedTarget = phaseSkipped, fleetv1alpha1.ReasonClusterProfileNotReady, true
	}
	return out
}

// readReports reads what a child reports besides its phase.
func (c *clusterState) readReports(component api.Component, child *unstructured.Unstructured, status childStatus) {
	c.ineligible = c.ineligible || apimeta.IsStatusConditionFalse(status.Conditions, api.VersionMigrationEligible)
	c.lacksKinds = c.lacksKinds || apimeta.IsStatusConditionFalse(status.Conditions, api.DependenciesInstalled)
	if version, _, _ := unstructured.NestedString(child.Object, "status", "version"); version != "" {
		if c.versions == nil {
			c.versions = map[string]string{}
		}
		c.versions[component.AddOnName()] = version
	}
}

func (r *stateReader) hasRevision(child *unstructured.Unstructured) bool {
	return metav1.IsControlledBy(child, r.fleet) && child.GetAnnotations()[api.FleetRevisionAnnotation] == r.templates.revision
}

// mayAdopt reports whether a resource asks the KnativeFleet to take over the resource, and refers to the cluster already: the reference
// of a resource cannot change.
func mayAdopt(child *unstructured.Unstructured, fleet *fleetv1alpha1.KnativeFleet) bool {
	namespace, _, _ := unstructured.NestedString(child.Object, "spec", "clusterProfileRef", "namespace")
	name, _, _ := unstructured.NestedString(child.Object, "spec", "clusterProfileRef", "name")
	return child.GetAnnotations()[api.FleetAdoptAnnotation] == fleet.Name && metav1.GetControllerOf(child) == nil &&
		namespace == fleet.Namespace && name == child.GetName()
}

func (r *stateReader) readChild(component api.Component, name string, child *unstructured.Unstructured, status childStatus) childState {
	switch {
	case child == nil:
		return r.readWaiting(component, name, nil)
	case child.GetDeletionTimestamp() != nil:
		return childState{phase: phaseSkipped, reason: fleetv1alpha1.ReasonChildBeingDeleted, since: child.GetDeletionTimestamp().Time}
	case !metav1.IsControlledBy(child, r.fleet) && !mayAdopt(child, r.fleet):
		return childState{phase: phaseSkipped, reason: fleetv1alpha1.ReasonNotOwned, unresolved: true}
	case !r.hasRevision(child):
		if resolved := apimeta.FindStatusCondition(status.Conditions, api.TargetClusterResolved); isUnreachable(resolved) {
			return childState{phase: phaseSkipped, reason: resolved.Reason, unresolved: true} // the cluster gets its turn when the cluster is back
		}
		return r.readWaiting(component, name, child)
	}
	return r.readInstallation(component, child, status)
}

// readWaiting returns the state of a child without the revision. A child that the API server refuses, as by a quota, holds no place: the clusters
// after the child get the revision meanwhile.
func (r *stateReader) readWaiting(component api.Component, name string, child *unstructured.Unstructured) childState {
	out := childState{phase: phaseWaiting, reason: fleetv1alpha1.ReasonWaiting}
	if child != nil {
		out.since = updatedAt(child)
	}
	w, _ := r.neededWrite(component, name, child)
	if !r.refusals.permits(w, r.now) {
		out.phase = phaseSkipped
	}
	if r.refusals.refusedLately(w, r.now) {
		out.reason = fleetv1alpha1.ReasonChildRefused
	}
	return out
}

// isUnreachable reports whether condition TargetClusterResolved says that the cluster does not answer.
func isUnreachable(resolved *metav1.Condition) bool {
	return resolved != nil && resolved.Status == metav1.ConditionFalse && slices.Contains(api.UnreachableReasons(), resolved.Reason)
}

// readInstallation reads the state of a child of the revision from the conditions of the child.
func (r *stateReader) readInstallation(component api.Component, child *unstructured.Unstructured, status childStatus) childState {
	ready := apimeta.FindStatusCondition(status.Conditions, api.Ready)
	if ready == nil || status.ObservedGeneration != child.GetGeneration() || !r.describesRevision(child) {
		return childState{phase: phaseProgressing, reason: fleetv1alpha1.ReasonChildNotReady, since: updatedAt(child)}
	}
	out := childState{phase: phaseProgressing, reason: ready.Reason, since: laterTime(updatedAt(child), ready.LastTransitionTime.Time)}
	installed := apimeta.FindStatusCondition(status.Conditions, api.InstallSucceeded)
	resolved := apimeta.FindStatusCondition(status.Conditions, api.TargetClusterResolved)
	out.unresolved = resolved != nil && resolved.Status == metav1.ConditionFalse
	hasFault := installed != nil && installed.Status == metav1.ConditionFalse && slices.Contains(api.SpecFaultReasons(), installed.Reason)
	switch {
	case ready.Status == metav1.ConditionTrue:
		out.phase = phaseSucceeded
	case hasFault && (!out.unresolved || isUnreachable(resolved)): // also of a cluster that does not answer: only another template helps
		out.phase, out.reason = phaseFailed, installed.Reason
	case isUnreachable(resolved) && isInstalled(child) && !r.hasCompleted(component, child):
		// The change itself may be why the cluster does not answer: the cluster holds its place, and fails after progressDeadline.
	case out.unresolved:
		out.phase = phaseSkipped
	}
	return out
}

// describesRevision reports whether the status of a child describes the revision of the child: a revision that changes metadata alone keeps the
// generation. A status of an earlier version of the manager has no revision, and counts unless this process has written the child since.
func (r *stateReader) describesRevision(child *unstructured.Unstructured) bool {
	described, found, _ := unstructured.NestedString(child.Object, "status", "annotations", api.FleetRevisionAnnotation)
	if !found {
		return updatedAt(child).Before(r.begun.Truncate(time.Second))
	}
	return described == child.GetAnnotations()[api.FleetRevisionAnnotation]
}

// isInstalled reports whether the cluster of a child ever had an installation.
func isInstalled(child *unstructured.Unstructured) bool {
	version, _, _ := unstructured.NestedString(child.Object, "status", "version")
	return version != ""
}

// hasCompleted reports whether the cluster of a child has run the spec of the child.
func (r *stateReader) hasCompleted(component api.Component, child *unstructured.Unstructured) bool {
	completions := r.completions[component]
	return completions != nil && completions.IsCompleted(child)
}

// childStatus holds the conditions of a child and the generation that the conditions describe.
type childStatus struct {
	ObservedGeneration int64              `json:"observedGeneration"`
	Conditions         []metav1.Condition `json:"conditions"`
}

// decodeStatus decodes the status of a child. The result is empty for a nil child, and for a status that cannot be read: the child counts as not
// reported on.
func decodeStatus(child *unstructured.Unstructured) childStatus {
	if child == nil {
		return childStatus{}
	}
	var out childStatus
	status, _ := child.Object["status"].(map[string]any)
	if runtime.DefaultUnstructuredConverter.FromUnstructured(status, &out) != nil {
		return childStatus{}
	}
	return out
}

// updatedAt returns the time at which the KnativeFleet wrote the child, or the creation of the child without a readable time.
func updatedAt(child *unstructured.Unstructured) time.Time {
	at, err := time.Parse(time.RFC3339, child.GetAnnotations()[api.FleetUpdatedAnnotation])
	if err != nil {
		return child.GetCreationTimestamp().Time
	}
	return at
}

func laterTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
