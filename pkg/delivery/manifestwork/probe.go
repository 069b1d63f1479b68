// Copyright Contributors to the Open Cluster Management project

package manifestwork

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/manifests"
	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// A probe precedes the foundation: the agent reports who owns the component on the cluster, and writes no object of the component. The
// foundation follows when the reports show no owner, and replaces the probe. Until then the probe is in the place of the foundation, and
// every operation on foundations works with probes.
//
// The only object that the agent writes for a probe is a ClusterRole with the agent's permission for CRDs. The ClusterRole of the
// foundation arrives with the CRDs, and takes effect some 20 ms later: without the probe's ClusterRole the API server would refuse the
// first CRD, and the agent would apply the whole foundation again.
//
// The foundation is a work of its own, because the agent checks the status of each object of a work whenever the work changes. Such a
// check of the objects of a probe would interfere with the first application of the foundation: both write the status of the work, and the
// agent applies the whole work again after a conflict.

// Names of the values that the work agent reports on the objects of a probe.
const (
	appliedByValue = "AppliedBy"
	directValue    = "Direct"
	hubValue       = "Hub"
	createdByValue = "CreatedBy"
	namespaceValue = "Namespace"
)

// ProbeName returns the name of the component's probe in the cluster's namespace.
func ProbeName(c api.Component) string { return c.AddOnName() + "-probe" }

// FindFoundation returns the foundation, and the probe as long as no foundation exists; nil without both. replaced is the probe that the
// foundation replaces, until the probe is deleted. get returns the work with a name, or nil.
func FindFoundation(c api.Component, get func(name string) (*workv1.ManifestWork, error)) (foundation, replaced *workv1.ManifestWork, err error) {
	if foundation, err = get(FoundationName(c)); err != nil {
		return nil, nil, err
	}
	probe, err := get(ProbeName(c))
	if foundation == nil {
		return probe, nil, err
	}
	return foundation, probe, err
}

// Probe returns the probe of the bundle.
func Probe(b *render.Bundle, addon *addonv1beta1.ManagedClusterAddOn) (*workv1.ManifestWork, error) {
	spec, err := probeSpec(b)
	if err != nil {
		return nil, err
	}
	meta := foundationMeta(b.Component, addon)
	meta.Name = ProbeName(b.Component)
	return &workv1.ManifestWork{ObjectMeta: meta, Spec: spec}, nil
}

func probeSpec(b *render.Bundle) (workv1.ManifestWorkSpec, error) {
	probed := probedObjects(b)
	spec := workv1.ManifestWorkSpec{DeleteOption: orphanProbed(probed), ManifestConfigs: probeConfigs(b.Component)}
	for _, o := range append(probed, manifests.ProbeRole(b.Component)) {
		raw, err := json.Marshal(o)
		if err != nil {
			return spec, fmt.Errorf("cannot encode the objects of a probe for %s: %w", b.Component, err)
		}
		spec.Workload.Manifests = append(spec.Workload.Manifests, workv1.Manifest{RawExtension: runtime.RawExtension{Raw: raw}})
	}
	return spec, nil
}

// orphanProbed makes the agent own none of the probed objects: the agent neither writes the objects nor deletes the objects with the probe.
func orphanProbed(probed []map[string]any) *workv1.DeleteOption {
	rules := make([]workv1.OrphaningRule, 0, len(probed))
	for _, o := range probed {
		u := unstructured.Unstructured{Object: o}
		kind := render.KindOf(u.GroupVersionKind().GroupKind())
		rules = append(rules, workv1.OrphaningRule{Group: kind.Group, Resource: kind.Resource, Namespace: u.GetNamespace(), Name: u.GetName()})
	}
	return &workv1.DeleteOption{
		PropagationPolicy: workv1.DeletePropagationPolicyTypeSelectivelyOrphan,
		SelectivelyOrphan: &workv1.SelectivelyOrphan{OrphaningRules: rules},
	}
}

// IsProbe reports whether a foundation is a probe, for which the agent has written no object of the component: a probe belongs to no
// bundle. The probes of older managers have the name of the foundation.
func IsProbe(foundation *workv1.ManifestWork) bool {
	return foundation != nil && foundation.Annotations[api.DigestAnnotation] == ""
}

// IsProbeFor reports whether a probe reads the objects of the bundle.
func IsProbeFor(probe *workv1.ManifestWork, b *render.Bundle) bool {
	spec, err := probeSpec(b)
	return err == nil && SameManifests(probe, &workv1.ManifestWork{Spec: spec})
}

// probedObjects returns the objects that identify the owner of the component: the work agent's role, which every hub
// applies first and which contains the hub's name, a ClusterRole of Knative, which exists once for any install namespace, a
// ClusterRoleBinding of Knative, which names the install namespace, and the workloads. The Namespaces and CRDs of the foundation
// follow: objects that the cluster has before are never deleted.
func probedObjects(b *render.Bundle) []map[string]any {
	ofRBAC := func(kind, name string) map[string]any {
		return map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": map[string]any{"name": name}}
	}
	out := []map[string]any{ofRBAC("ClusterRole", manifests.WorkAgentRoleName(b.Component))}
	for _, matches := range []func(render.Object) bool{
		func(o render.Object) bool { return o.GetKind() == "ClusterRole" },
		func(o render.Object) bool {
			return o.GetKind() == "ClusterRoleBinding" && firstSubjectNamespace(o) == b.Namespace
		},
	} {
		if i := slices.IndexFunc(b.Payload, matches); i >= 0 {
			o := ofRBAC(b.Payload[i].GetKind(), b.Payload[i].GetName())
			if o["kind"] == "ClusterRoleBinding" {
				o["roleRef"] = harmlessRole()
			}
			out = append(out, o)
		}
	}
	for _, w := range b.Workloads {
		out = append(out, map[string]any{
			"apiVersion": "apps/v1", "kind": w.Kind, "metadata": map[string]any{"namespace": w.Namespace, "name": w.Name},
		})
	}
	for _, o := range b.Foundation {
		if o.Orphan {
			out = append(out, map[string]any{
				"apiVersion": o.GetAPIVersion(), "kind": o.GetKind(), "metadata": map[string]any{"name": o.GetName()},
			})
		}
	}
	return out
}

// harmlessRole refers to a ClusterRole that every cluster has and every ServiceAccount may bind. The agent does not write the binding
// of a probe, but has the executor of a work create the binding as a dry run, which needs a role.
func harmlessRole() map[string]any {
	return map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:basic-user"}
}

// firstSubjectNamespace returns the namespace of the first subject of a binding; empty without a subject.
func firstSubjectNamespace(binding render.Object) string {
	subjects, _, _ := unstructured.NestedSlice(binding.Object, "subjects")
	if len(subjects) == 0 {
		return ""
	}
	subject, _ := subjects[0].(map[string]any)
	namespace, _ := subject["namespace"].(string)
	return namespace
}

func probeConfigs(c api.Component) []workv1.ManifestConfigOption {
	key := func(field, name string) string {
		return ".metadata." + field + "." + strings.ReplaceAll(name, ".", `\.`)
	}
	rules := []workv1.FeedbackRule{{Type: workv1.JSONPathsType, JsonPaths: []workv1.JsonPath{
		{Name: appliedByValue, Path: `.metadata.ownerReferences[?(@.kind=="AppliedManifestWork")].name`},
		{Name: directValue, Path: key("labels", api.ComponentLabel)},
		{Name: hubValue, Path: key("annotations", api.HubAnnotation)},
	}}}
	created := []workv1.FeedbackRule{{Type: workv1.JSONPathsType, JsonPaths: []workv1.JsonPath{
		{Name: createdByValue, Path: key("annotations", api.CreatedByHubAnnotation)},
	}}}
	bound := []workv1.FeedbackRule{{Type: workv1.JSONPathsType, JsonPaths: []workv1.JsonPath{
		{Name: namespaceValue, Path: `.subjects[?(@.kind=="ServiceAccount")].namespace`},
	}}}
	read := func(group, resource string, rules []workv1.FeedbackRule) workv1.ManifestConfigOption {
		return workv1.ManifestConfigOption{
			ResourceIdentifier: resourceIdentifier(group, resource, "*"), FeedbackRules: rules,
			UpdateStrategy:     &workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeReadOnly},
			FeedbackScrapeType: workv1.FeedbackPollType,
		}
	}
	role := resourceIdentifier("rbac.authorization.k8s.io", "clusterroles", "")
	role.Name = manifests.ProbeRoleName(c)
	out := []workv1.ManifestConfigOption{
		{
			ResourceIdentifier: role, UpdateStrategy: &workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeUpdate},
			FeedbackScrapeType: workv1.FeedbackPollType,
		},
		read("rbac.authorization.k8s.io", "clusterroles", rules), read("rbac.authorization.k8s.io", "clusterrolebindings", bound),
	}
	for _, k := range kindsWhere(func(k render.Kind) bool { return k.Feedback == render.WorkloadFeedback }) {
		out = append(out, read(k.Group, k.Resource, rules))
	}
	for _, k := range kindsWhere(func(k render.Kind) bool { return k.Orphan }) {
		out = append(out, read(k.Group, k.Resource, created))
	}
	return out
}

// Found is the result of a probe. Each list is in the order of the work.
type Found struct {
	// Waiting names the event that the result needs; the other fields are empty then.
	Waiting string
	// Hub is the hub whose role the work agent applied last; empty without a role or without a name in the role.
	Hub string
	// Applied lists objects that a work agent has applied for another work, and AppliedBy is the AppliedManifestWork of the
	// first object.
	Applied   []string
	AppliedBy string
	// Direct lists objects of Direct deliveries.
	Direct []string
	// Workloads lists all existing workloads.
	Workloads []string
	// Binding is the existing ClusterRoleBinding, and Namespace the namespace of the ServiceAccount that the binding names: the
	// install namespace.
	Binding, Namespace string
	// Foundation holds the existing Namespaces and CRDs, as "Kind name", with the UID of the hub whose add-on created the
	// object; empty for objects of other creators.
	Foundation map[string]string
}

// HadNamespace reports whether the cluster had a Namespace that no add-on of the hub has created.
func (f *Found) HadNamespace(namespace string, hub types.UID) bool {
	by, there := f.Foundation["Namespace "+namespace]
	return there && by != string(hub)
}

// OtherNamespace returns the namespace of an installation outside the install namespace; empty without such an installation.
func (f *Found) OtherNamespace(installNamespace string) string {
	if f.Namespace == installNamespace {
		return ""
	}
	return f.Namespace
}

// FoundBy reads the result of a probe.
func FoundBy(probe *workv1.ManifestWork) Found {
	const awaited = "waiting for the work agent to report the objects of the cluster"
	if applied, why := Applied(probe); !applied {
		return Found{Waiting: awaited + ": " + why}
	}
	reported := probe.Status.ResourceStatus.Manifests
	if !observedBy(probe, workv1.WorkAvailable) || len(reported) != len(probe.Spec.Workload.Manifests) {
		return Found{Waiting: awaited}
	}
	var f Found
	role := manifests.ProbeRoleName(api.Component(probe.Labels[api.FoundationLabel]))
	for _, m := range reported {
		if isMissing(m) || m.ResourceMeta.Kind == "ClusterRole" && m.ResourceMeta.Name == role {
			continue
		}
		if c := apimeta.FindStatusCondition(m.Conditions, workv1.ManifestAvailable); c == nil || c.Status != metav1.ConditionTrue {
			return Found{Waiting: awaited + ": the agent cannot read " + objectName(m.ResourceMeta)}
		}
		f.addManifest(m)
	}
	return f
}

func (f *Found) addManifest(m workv1.ManifestCondition) {
	name, values := objectName(m.ResourceMeta), m.StatusFeedbacks.Values
	if render.KindNamed(m.ResourceMeta.Kind).Orphan {
		if f.Foundation == nil {
			f.Foundation = map[string]string{}
		}
		f.Foundation[name] = textValue(values, createdByValue)
		return
	}
	if m.ResourceMeta.Kind == "ClusterRoleBinding" {
		f.Binding, f.Namespace = name, textValue(values, namespaceValue)
		return
	}
	if hub := textValue(values, hubValue); hub != "" {
		f.Hub = hub
	}
	if by := textValue(values, appliedByValue); by != "" {
		if f.AppliedBy == "" {
			f.AppliedBy = by
		}
		f.Applied = append(f.Applied, name)
	}
	if textValue(values, directValue) != "" {
		f.Direct = append(f.Direct, name)
	}
	if m.ResourceMeta.Kind != "ClusterRole" {
		f.Workloads = append(f.Workloads, name)
	}
}

func objectName(m workv1.ManifestResourceMeta) string {
	if m.Namespace == "" {
		return m.Kind + " " + m.Name
	}
	return m.Kind + " " + m.Namespace + "/" + m.Name
}

func textValue(values []workv1.FeedbackValue, name string) string {
	i := slices.IndexFunc(values, func(v workv1.FeedbackValue) bool { return v.Name == name && v.Value.String != nil })
	if i < 0 {
		return ""
	}
	return *values[i].Value.String
}
