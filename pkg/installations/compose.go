// Copyright Contributors to the Open Cluster Management project

package installations

import (
	"cmp"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/message"
	"open-cluster-management.io/knative-addon/pkg/revision"
	"open-cluster-management.io/knative-addon/pkg/target"
)

// Objects are the objects of a hub that describe installations.
type Objects struct {
	// Resources are the KnativeServings and KnativeEventings.
	Resources map[api.Component][]*unstructured.Unstructured
	AddOns    []*addonv1beta1.ManagedClusterAddOn
	// Fleets are the KnativeFleets.
	Fleets []*unstructured.Unstructured
	// Deployments are the AddOnDeploymentConfigs.
	Deployments []*unstructured.Unstructured
	// Works are the metadata of the foundations, gates and payloads of add-ons.
	Works []*metav1.PartialObjectMetadata
}

// resourceKey names a KnativeServing or KnativeEventing.
type resourceKey struct {
	component api.Component
	name      types.NamespacedName
}

// addOnKey names the add-on of a cluster.
type addOnKey struct {
	component api.Component
	cluster   string
}

// resource is a KnativeServing or KnativeEventing with the hash of its spec.
type resource struct {
	config *unstructured.Unstructured
	hash   string
}

// composer joins the objects of one hub.
type composer struct {
	resources map[resourceKey]resource
	versions  map[addOnKey]map[string]string
	// gates and payloads are works of add-ons without spec and status.
	gates    map[addOnKey]*workv1.ManifestWork
	payloads map[addOnKey][]*workv1.ManifestWork
	fleets   map[types.NamespacedName]*unstructured.Unstructured
	// deployments are the hashes of the specs of AddOnDeploymentConfigs.
	deployments map[types.NamespacedName]string
	// installed are the resources whose add-on has an installation of its own in the result.
	installed map[resourceKey]bool
}

// Compose returns one installation for each ManagedClusterAddOn, and one for each resource that installs on one cluster and has no
// ManagedClusterAddOn. For a resource that only configures add-ons, Compose returns the installations of the add-ons.
func Compose(objects Objects) []Installation {
	c := composer{
		resources: map[resourceKey]resource{}, versions: map[addOnKey]map[string]string{}, gates: map[addOnKey]*workv1.ManifestWork{},
		payloads: map[addOnKey][]*workv1.ManifestWork{}, fleets: map[types.NamespacedName]*unstructured.Unstructured{}, deployments: map[types.NamespacedName]string{}, installed: map[resourceKey]bool{},
	}
	for _, fleet := range objects.Fleets {
		c.fleets[client.ObjectKeyFromObject(fleet)] = fleet
	}
	for _, deployment := range objects.Deployments {
		if hash, err := revision.Hash(deployment); err == nil {
			c.deployments[client.ObjectKeyFromObject(deployment)] = hash
		}
	}
	for component, list := range objects.Resources {
		for _, config := range list {
			hash, err := revision.Hash(config)
			if err != nil {
				hash = "" // the resource then has no revision
			}
			c.resources[resourceKey{component, client.ObjectKeyFromObject(config)}] = resource{config, hash}
		}
	}
	for _, work := range objects.Works {
		c.addWork(&workv1.ManifestWork{ObjectMeta: work.ObjectMeta})
	}
	var out []Installation
	for _, addOn := range objects.AddOns {
		out = append(out, c.composeAddOn(addOn))
	}
	for key, r := range c.resources {
		if !c.installed[key] && installsOnOneCluster(r.config) {
			out = append(out, c.composeResource(key, r))
		}
	}
	slices.SortFunc(out, compareInstallations)
	return out
}

// composeAddOn returns the installation of a ManagedClusterAddOn. The conditions of a resource that refers to the cluster are more
// complete than the conditions of the add-on, unless the add-on is being deleted.
func (c *composer) composeAddOn(addOn *addonv1beta1.ManagedClusterAddOn) Installation {
	component := api.Component(addOn.Name)
	key, known := resourceKey{component, ConfigOf(addOn)}, false
	var config resource
	if key.name.Name != "" {
		config, known = c.resources[key]
	}
	out := Installation{
		Cluster: addOn.Namespace, Component: component, Mode: api.ModeManifestWork, Deleting: addOn.DeletionTimestamp != nil,
		Paused: revision.Paused(addOn.Annotations) || known && revision.Paused(config.config.GetAnnotations()),
		Object: Object{"ManagedClusterAddOn", addOn.Namespace, addOn.Name},
	}
	c.addVersions(&out)
	assigned, completed := revisionsOf(addOn, component)
	if assigned == completed && !c.runsSpec(addOn, key, completed) {
		completed = "" // the cluster has another spec, maybe in part
	}
	out.Revision, out.NextRevision = cleanText(completed), cleanText(assigned)
	if known && config.hash != "" {
		out.NextRevision = config.hash
	}
	if out.NextRevision == out.Revision {
		out.NextRevision = ""
	}
	if known {
		out.PendingChange, out.isChangeRefused = c.describePendingChange(config.config)
	}
	isOwn := known && hasReference(config.config)
	if isOwn {
		c.installed[key] = true
		out.Object, out.Fleet = objectOf(component, config.config), fleetOf(config.config)
		out.ClusterProfile = profileOf(config.config)
		out.Deleting = out.Deleting || config.config.GetDeletionTimestamp() != nil
	}
	if isOwn && addOn.DeletionTimestamp == nil {
		out.setCondition(readResource(config.config))
		out.completeVersion(versionOf(config.config))
	} else {
		out.setCondition(readAddOn(addOn, assigned == "" || assigned == completed))
	}
	if out.PendingChange == "" && out.NextRevision == "" && addOn.DeletionTimestamp == nil {
		out.PendingChange = c.describePendingConfigs(addOn, out.Ready)
	}
	return out
}

// describePendingConfigs describes the change of an AddOnDeploymentConfig, or of the assigned configurations, that the cluster has not completed;
// empty without a change, and while the condition of the installation describes the delivery of an assigned change.
func (c *composer) describePendingConfigs(addOn *addonv1beta1.ManagedClusterAddOn, ready metav1.ConditionStatus) string {
	pending := revision.FindPendingDeployment(addOn, func(name types.NamespacedName) string { return c.deployments[name] })
	switch {
	case pending != nil && !pending.IsAssigned:
		return "OCM's rollout of the present spec of AddOnDeploymentConfig " + cleanText(pending.Name.String()) + " has not reached the cluster yet"
	case revision.AwaitsTurn(addOn):
		return "OCM's rollout of other configurations has not reached the cluster yet"
	case pending != nil && ready == metav1.ConditionTrue:
		return "the cluster does not run the present spec of AddOnDeploymentConfig " + cleanText(pending.Name.String()) + " yet"
	default:
		return ""
	}
}

// addWork adds a work without spec and status.
func (c *composer) addWork(work *workv1.ManifestWork) {
	key := addOnKey{ComponentOf(work), work.Namespace}
	switch {
	case work.Name == manifestwork.GateName(key.component):
		c.gates[key] = work
	case work.Labels[api.FoundationLabel] == "":
		c.payloads[key] = append(c.payloads[key], work)
	case work.Annotations[api.VersionAnnotation] != "":
		c.versions[key] = work.Annotations
	}
}

// runsSpec reports whether gate and payloads of an add-on do not contradict that the cluster has completed the spec. OCM keeps the spec that a
// cluster last completed: after a return to that spec from another spec, gate and payloads alone tell whether the cluster runs the spec. A
// gate that is missing, or that the user may not list, contradicts nothing.
func (c *composer) runsSpec(addOn *addonv1beta1.ManagedClusterAddOn, key resourceKey, specHash string) bool {
	work := addOnKey{key.component, addOn.Namespace}
	gate := c.gates[work]
	return gate == nil || addOn.DeletionTimestamp != nil || manifestwork.RunsSpec(gate, c.payloads[work], key.component, key.name, specHash)
}

// describePendingChange describes the change of a resource that the manager has not made yet; empty without a change. isRefused reports
// that the manager does not make the change unless a user acts.
func (c *composer) describePendingChange(config *unstructured.Unstructured) (change string, isRefused bool) {
	if config.GetDeletionTimestamp() != nil {
		return "", false
	}
	if to, isRequested := config.GetAnnotations()[api.RollbackAnnotation]; isRequested {
		return describePendingRollback("", to), false
	}
	fleet := c.fleets[types.NamespacedName{Namespace: config.GetNamespace(), Name: fleetOf(config)}]
	if fleet == nil {
		return "", false
	}
	return describePendingRevision(fleet, config.GetAnnotations()[api.FleetRevisionAnnotation])
}

func describePendingRollback(of, to string) string {
	return fmt.Sprintf("annotation %s%s asks for revision %q: Event RolledBack or RollbackRefused is to follow, and a refused annotation stays until a user "+
		"changes or removes the annotation", api.RollbackAnnotation, of, cleanText(to))
}

// describePendingRevision describes why a KnativeFleet does not have its templates on the cluster of a child with a revision; empty when the
// child has the revision of the KnativeFleet.
func describePendingRevision(fleet *unstructured.Unstructured, revision string) (change string, isRefused bool) {
	name := "KnativeFleet " + cleanText(fleet.GetName())
	if to, isRequested := fleet.GetAnnotations()[api.RollbackAnnotation]; isRequested {
		return describePendingRollback(" of "+name, to), false
	}
	if !isReported(fleet) {
		return fmt.Sprintf("the manager has not reported on generation %d of %s yet", fleet.GetGeneration(), name), false
	}
	rolledOut := findCondition(fleet, fleetv1alpha1.RolledOut)
	cause := message.OneLine(rolledOut.Message, maxMessage)
	switch rolledOut.Reason {
	case fleetv1alpha1.ReasonInvalidSpec:
		return fmt.Sprintf("the manager cannot use %s: %s", name, cause), true
	case fleetv1alpha1.ReasonPlacementNotFound, fleetv1alpha1.ReasonKindNotServed, fleetv1alpha1.ReasonKindUnavailable:
		return fmt.Sprintf("the manager cannot select the clusters of %s: %s", name, cause), false
	}
	next, _, _ := unstructured.NestedString(fleet.Object, "status", "rollout", "revision")
	held, _, _ := unstructured.NestedInt64(fleet.Object, "status", "rollout", "held")
	isHeld := held > 0 && rolledOut.Status == metav1.ConditionTrue // a child whose cluster is no longer selected gets no revision
	if next == "" || next == revision || isHeld {
		return "", false
	}
	change = fmt.Sprintf("the resource does not have revision %s of %s yet", cleanText(shortHash(next)), name)
	if cause != "" {
		change += ": " + cause
	}
	return change, false
}

// addVersions sets the versions that the foundation of the add-on records.
func (c *composer) addVersions(out *Installation) {
	annotations := c.versions[addOnKey{out.Component, out.Cluster}]
	running, next := annotations[api.RunningVersionAnnotation], annotations[api.VersionAnnotation]
	out.Version = cleanText(running)
	if next != running {
		out.NextVersion = cleanText(next)
	}
}

// completeVersion sets the version that runs when the resource is Ready with the next version: the foundation records the version a moment
// after the status of the resource.
func (i *Installation) completeVersion(reported string) {
	if i.Ready == metav1.ConditionTrue && i.NextVersion == reported {
		i.Version, i.NextVersion = reported, ""
	}
}

// versionOf returns the version in the status of a resource.
func versionOf(config *unstructured.Unstructured) string {
	version, _, _ := unstructured.NestedString(config.Object, "status", "version")
	return cleanText(version)
}

// composeResource returns the installation of a resource without a ManagedClusterAddOn.
func (c *composer) composeResource(key resourceKey, r resource) Installation {
	out := Installation{
		Cluster: cmp.Or(profileOf(r.config), hubCluster), Component: key.component, Mode: modeOf(r.config),
		Version: versionOf(r.config), Paused: revision.Paused(r.config.GetAnnotations()), Deleting: r.config.GetDeletionTimestamp() != nil,
		Object: objectOf(key.component, r.config), Fleet: fleetOf(r.config), ClusterProfile: profileOf(r.config), NextRevision: r.hash,
	}
	out.PendingChange, out.isChangeRefused = c.describePendingChange(r.config)
	if out.Mode == api.ModeManifestWork {
		ref, _ := target.ReferenceOf(r.config)
		out.Cluster = ref.Name // OCM names ClusterProfiles like their clusters
	}
	if isReported(r.config) && findCondition(r.config, api.InstallSucceeded).Status == metav1.ConditionTrue {
		out.Revision, out.NextRevision = r.hash, ""
	}
	out.setCondition(readResource(r.config))
	return out
}

// ConfigOf returns the resource that configures the add-on: the configuration that OCM assigned, or the add-on's own before.
func ConfigOf(addOn *addonv1beta1.ManagedClusterAddOn) types.NamespacedName {
	if name, assigned := revision.ConfigOf(addOn); assigned {
		return name
	}
	of := api.Component(addOn.Name).Resource()
	for _, c := range addOn.Spec.Configs {
		if c.Group == of.Group && c.Resource == of.Resource {
			return types.NamespacedName{Namespace: c.Namespace, Name: c.Name}
		}
	}
	return types.NamespacedName{}
}

// revisionsOf returns the hashes of the spec that OCM has assigned to the add-on, and of the spec that the cluster has completed.
func revisionsOf(addOn *addonv1beta1.ManagedClusterAddOn, component api.Component) (assigned, completed string) {
	if desired := revision.Desired(addOn); desired != nil {
		assigned = desired.SpecHash
	}
	of := component.Resource()
	for _, ref := range addOn.Status.ConfigReferences {
		if ref.Group == of.Group && ref.Resource == of.Resource && ref.LastAppliedConfig != nil {
			completed = ref.LastAppliedConfig.SpecHash
		}
	}
	return assigned, completed
}

// installsOnOneCluster reports whether a resource installs on a cluster of its own, or on the hub.
func installsOnOneCluster(config *unstructured.Unstructured) bool {
	return hasReference(config) || slices.Contains(config.GetFinalizers(), api.DirectFinalizer)
}

func hasReference(config *unstructured.Unstructured) bool {
	_, refers := target.ReferenceOf(config)
	return refers
}

// modeOf returns the delivery mode whose finalizer the resource has.
func modeOf(config *unstructured.Unstructured) api.DeliveryMode {
	switch finalizers := config.GetFinalizers(); {
	case slices.Contains(finalizers, api.DirectFinalizer):
		return api.ModeDirect
	case slices.Contains(finalizers, api.InstallFinalizer):
		return api.ModeManifestWork
	default:
		return ModeUnknown
	}
}

// profileOf returns namespace/name of the ClusterProfile of a resource; empty without a reference.
func profileOf(config *unstructured.Unstructured) string {
	ref, refers := target.ReferenceOf(config)
	if !refers {
		return ""
	}
	return cleanText(ref.String())
}

func objectOf(component api.Component, config *unstructured.Unstructured) Object {
	return Object{component.Kind(), config.GetNamespace(), config.GetName()}
}

// fleetOf returns the name of the KnativeFleet that controls a resource; empty for a resource of a user.
func fleetOf(config *unstructured.Unstructured) string {
	owner := metav1.GetControllerOf(config)
	if owner == nil || owner.Kind != fleetv1alpha1.Kind {
		return ""
	}
	return cleanText(owner.Name)
}

// cleanText returns a text of a cluster or a tenant for a terminal.
func cleanText(text string) string { return message.OneLine(text, message.MaxName) }
