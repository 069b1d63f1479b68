// Copyright Contributors to the Open Cluster Management project

package metrics

import (
	"slices"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/revision"
	"open-cluster-management.io/knative-addon/pkg/target"
)

// takeSnapshot reads the caches. The caller holds the lock.
func (c *Collector) takeSnapshot() *snapshot {
	s := newSnapshot()
	for _, component := range api.Components() {
		for _, o := range c.sources.Configs[component].List() {
			if config, ok := o.(*unstructured.Unstructured); ok {
				c.readResource(s, component, config)
			}
		}
	}
	for _, o := range c.sources.AddOns.List() {
		if addOn, ok := o.(*addonv1beta1.ManagedClusterAddOn); ok {
			if component, ours := api.ComponentOfAddOn(addOn.Name); ours {
				c.readAddOn(s, component, addOn)
			}
		}
	}
	for _, o := range c.sources.Foundations.List() {
		if work, ok := o.(*workv1.ManifestWork); ok {
			c.readFoundation(s, work)
		}
	}
	c.hashes = s.hashes // without the hashes of deleted resources
	return s
}

// readResource counts a KnativeServing or KnativeEventing.
func (c *Collector) readResource(s *snapshot, component api.Component, config *unstructured.Unstructured) {
	k := modeKey{component, modeOf(config)}
	cluster := clusterOf(config, k.mode)
	for _, condition := range []string{api.Ready, api.TargetClusterResolved} {
		found := findCondition(config, condition)
		is := c.reasons.boundLabels(condition, found.status, found.reason)
		s.resources[conditionKey{k, condition, is}]++
		if c.sources.PerCluster && cluster != "" {
			s.noteCluster(cluster, clusterKey{k, condition}, is)
		}
	}
	if k.mode == string(api.ModeDirect) {
		c.readDirectInstallation(s, k, config)
	}
}

// readDirectInstallation counts the version, the pause and the progress of a resource that the manager delivers to its cluster.
func (c *Collector) readDirectInstallation(s *snapshot, k modeKey, config *unstructured.Unstructured) {
	paused := isPaused(config)
	if paused {
		s.paused[k]++
	}
	if version := c.requestedVersion(k.component, config); version != "" {
		s.desired[versionKey{k, version}]++
	}
	version, _, _ := unstructured.NestedString(config.Object, "status", "version")
	if version != "" && findCondition(config, api.DeploymentsAvailable).status == statusTrue {
		s.running[versionKey{k, c.boundVersion(k.component, version)}]++
	}
	observed, _, _ := unstructured.NestedInt64(config.Object, "status", "observedGeneration")
	isObserved, installed := observed == config.GetGeneration(), findCondition(config, api.InstallSucceeded)
	if config.GetDeletionTimestamp() != nil || isObserved && installed.status == statusTrue {
		return
	}
	state := stateOf(paused, findCondition(config, api.TargetClusterResolved).status == statusTrue)
	if state == StateDelivering && isObserved && slices.Contains(api.SpecFaultReasons(), installed.reason) {
		state = StateRefused
	}
	s.countOutdated(outdatedKey{k, state}, notReadySince(config))
}

// readAddOn counts a ManagedClusterAddOn.
func (c *Collector) readAddOn(s *snapshot, component api.Component, addOn *addonv1beta1.ManagedClusterAddOn) {
	k := modeKey{component, string(api.ModeManifestWork)}
	for _, condition := range []string{addonv1beta1.ManagedClusterAddOnConditionAvailable, api.TargetClusterResolved} {
		var status, reason string
		if found := apimeta.FindStatusCondition(addOn.Status.Conditions, condition); found != nil {
			status, reason = string(found.Status), found.Reason
		}
		is := c.reasons.boundLabels(condition, status, reason)
		s.addOns[conditionKey{k, condition, is}]++
		if c.sources.PerCluster {
			s.noteCluster(addOn.Namespace, clusterKey{k, condition}, is)
		}
	}
	config := c.configOf(component, addOn)
	paused := revision.Paused(addOn.Annotations) || config != nil && isPaused(config)
	if paused {
		s.paused[k]++
	}
	if config == nil || addOn.DeletionTimestamp != nil || c.runsPresentSpecs(s, addOn, config) {
		return
	}
	resolved := apimeta.IsStatusConditionTrue(addOn.Status.Conditions, api.TargetClusterResolved)
	s.countOutdated(outdatedKey{k, stateOf(paused, resolved)}, notReadySince(config))
}

// runsPresentSpecs reports whether the cluster of an add-on runs the present spec of the resource that configures the add-on, and of the
// AddOnDeploymentConfig, and whether OCM has no other configurations for the cluster.
func (c *Collector) runsPresentSpecs(s *snapshot, addOn *addonv1beta1.ManagedClusterAddOn, config *unstructured.Unstructured) bool {
	pending := revision.FindPendingDeployment(addOn, func(name types.NamespacedName) string {
		o, _, err := c.sources.Deployments.GetByKey(name.String())
		if deployment, ok := o.(*unstructured.Unstructured); err == nil && ok {
			return c.hashOf(s, deployment)
		}
		return ""
	})
	return revision.Completed(addOn, api.Component(addOn.Name), c.hashOf(s, config)) && pending == nil && !revision.AwaitsTurn(addOn)
}

// readFoundation counts the versions on a cluster with a work agent. Works with the label and without a version hold a rollout, or
// search for an existing Knative.
func (c *Collector) readFoundation(s *snapshot, work *workv1.ManifestWork) {
	k := modeKey{api.Component(work.Labels[api.FoundationLabel]), string(api.ModeManifestWork)}
	if !slices.Contains(api.Components(), k.component) || work.DeletionTimestamp != nil {
		return
	}
	if version := work.Annotations[api.VersionAnnotation]; version != "" {
		s.desired[versionKey{k, c.boundVersion(k.component, version)}]++
	}
	if version := work.Annotations[api.RunningVersionAnnotation]; version != "" {
		s.running[versionKey{k, c.boundVersion(k.component, version)}]++
	}
}

// configOf returns the resource that configures an add-on; nil when the add-on has no such resource.
func (c *Collector) configOf(component api.Component, addOn *addonv1beta1.ManagedClusterAddOn) *unstructured.Unstructured {
	name, ok := revision.ConfigOf(addOn)
	if !ok {
		return nil
	}
	o, _, err := c.sources.Configs[component].GetByKey(name.String())
	if err != nil {
		return nil
	}
	config, _ := o.(*unstructured.Unstructured)
	return config
}

// hashOf returns the hash of the spec of a resource, which is computed once for each generation. A spec that cannot be hashed
// has no hash, so that no cluster runs the spec.
func (c *Collector) hashOf(s *snapshot, config *unstructured.Unstructured) string {
	uid, generation := config.GetUID(), config.GetGeneration()
	for _, known := range []specHash{s.hashes[uid], c.hashes[uid]} {
		if known.hash != "" && known.generation == generation {
			s.hashes[uid] = known
			return known.hash
		}
	}
	hash, err := revision.Hash(config)
	if err == nil {
		s.hashes[uid] = specHash{generation, hash}
	}
	return hash
}

// requestedVersion returns the version that the spec of a resource requests, as a label; empty when the spec requests a version that
// is not pinned yet.
func (c *Collector) requestedVersion(component api.Component, config *unstructured.Unstructured) string {
	version, _, _ := unstructured.NestedString(config.Object, "spec", "version")
	if version == "" {
		version = annotationOf(config, api.PinnedVersionAnnotation)
	}
	if version == "" {
		return ""
	}
	if exact, err := c.sources.Versions.ResolveVersion(component, version); err == nil {
		version = exact
	}
	return c.boundVersion(component, version)
}

// boundVersion returns a version as a label: a bundled version, or ReasonOther.
func (c *Collector) boundVersion(component api.Component, version string) string {
	if slices.Contains(c.versions[component], version) {
		return version
	}
	return ReasonOther
}

// modeOf returns the delivery mode of a resource, as a label: the mode whose finalizer the resource has. A resource without a
// reference configures add-ons, whose mode is ManifestWork.
func modeOf(config *unstructured.Unstructured) string {
	finalizers, _, _ := unstructured.NestedFieldNoCopy(config.Object, "metadata", "finalizers")
	list, _ := finalizers.([]any)
	_, refers := target.ReferenceOf(config)
	switch {
	case slices.Contains(list, any(api.DirectFinalizer)):
		return string(api.ModeDirect)
	case slices.Contains(list, any(api.InstallFinalizer)), !refers:
		return string(api.ModeManifestWork)
	default:
		return ModeUnknown
	}
}

// clusterOf returns the cluster of a resource without a work agent, as a label; empty for a resource whose add-on has the
// conditions of the cluster. Several namespaces may have ClusterProfiles of one name.
func clusterOf(config *unstructured.Unstructured, mode string) string {
	ref, refers := target.ReferenceOf(config)
	switch {
	case mode == string(api.ModeManifestWork):
		return ""
	case !refers:
		return hubCluster
	default:
		return ref.String()
	}
}

// resourceCondition is a condition of a resource.
type resourceCondition struct {
	status, reason string
	since          time.Time
}

// findCondition returns a condition of a resource without a copy of the conditions; the zero value when the resource lacks the
// condition.
func findCondition(config *unstructured.Unstructured, condition string) resourceCondition {
	field, _, _ := unstructured.NestedFieldNoCopy(config.Object, "status", "conditions")
	list, _ := field.([]any)
	for _, item := range list {
		fields, _ := item.(map[string]any)
		if fields["type"] != condition {
			continue
		}
		var out resourceCondition
		out.status, _ = fields["status"].(string)
		out.reason, _ = fields["reason"].(string)
		text, _ := fields["lastTransitionTime"].(string)
		out.since, _ = time.Parse(time.RFC3339, text) // zero without a time
		return out
	}
	return resourceCondition{}
}

// notReadySince returns the time since when a resource is not Ready; zero while the resource is Ready.
func notReadySince(config *unstructured.Unstructured) time.Time {
	ready := findCondition(config, api.Ready)
	if ready.status == statusTrue {
		return time.Time{}
	}
	return ready.since
}

func stateOf(paused, resolved bool) string {
	switch {
	case paused:
		return StatePaused
	case !resolved:
		return StateNotResolved
	default:
		return StateDelivering
	}
}

func isPaused(config *unstructured.Unstructured) bool {
	return annotationOf(config, api.PausedAnnotation) == "true"
}

// annotationOf returns an annotation of a resource without a copy of all annotations.
func annotationOf(config *unstructured.Unstructured, name string) string {
	value, _, _ := unstructured.NestedString(config.Object, "metadata", "annotations", name)
	return value
}
