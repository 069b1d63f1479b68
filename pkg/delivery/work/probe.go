// Copyright Contributors to the Open Cluster Management project

package work

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/manifests"
	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render"
)

// A foundation starts as a probe: the same work, with which the agent writes nothing and reports who has the component on
// the cluster. Only when it is known that nobody has does the work get what it is for. Nothing has to be removed then, and
// all that is done with a foundation can be done with a probe.

// Names of the values that the work agent feeds back of what a probe names.
const (
	appliedByValue = "AppliedBy"
	directValue    = "Direct"
	hubValue       = "Hub"
)

// Probe is the foundation of the bundle as it is before anything may be written.
func Probe(b *render.Bundle, addon *addonv1beta1.ManagedClusterAddOn) (*workv1.ManifestWork, error) {
	spec, err := probeSpec(b)
	if err != nil {
		return nil, err
	}
	return &workv1.ManifestWork{ObjectMeta: foundationMeta(b.Component, addon), Spec: spec}, nil
}

func probeSpec(b *render.Bundle) (workv1.ManifestWorkSpec, error) {
	spec := workv1.ManifestWorkSpec{
		DeleteOption:    &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyTypeOrphan},
		ManifestConfigs: probeConfigs(),
	}
	for _, o := range probed(b) {
		raw, err := json.Marshal(o)
		if err != nil {
			return spec, fmt.Errorf("cannot encode what a probe for %s looks at: %w", b.Component, err)
		}
		spec.Workload.Manifests = append(spec.Workload.Manifests, workv1.Manifest{RawExtension: runtime.RawExtension{Raw: raw}})
	}
	return spec, nil
}

// IsProbe tells that nothing was written on the cluster with the foundation yet: it is of no bundle.
func IsProbe(foundation *workv1.ManifestWork) bool {
	return foundation != nil && foundation.Annotations[api.DigestAnnotation] == ""
}

// IsProbeFor tells that a probe looks where the bundle goes.
func IsProbeFor(probe *workv1.ManifestWork, b *render.Bundle) bool {
	spec, err := probeSpec(b)
	return err == nil && SameManifests(probe, &workv1.ManifestWork{Spec: spec})
}

// probed are the objects that tell who has the component: the work agent's role, which every hub has it apply first and
// which has the hub's name, a ClusterRole of Knative, which is there once in whichever namespace the rest is, and the
// workloads.
func probed(b *render.Bundle) []map[string]any {
	role := func(name string) map[string]any {
		return map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": map[string]any{"name": name}}
	}
	out := []map[string]any{role(manifests.WorkAgentRoleName(b.Component))}
	i := slices.IndexFunc(b.Payload, func(o render.Object) bool { return o.GetKind() == "ClusterRole" })
	if i >= 0 {
		out = append(out, role(b.Payload[i].GetName()))
	}
	for _, w := range b.Workloads {
		out = append(out, map[string]any{
			"apiVersion": "apps/v1", "kind": w.Kind, "metadata": map[string]any{"namespace": w.Namespace, "name": w.Name},
		})
	}
	return out
}

func probeConfigs() []workv1.ManifestConfigOption {
	key := func(field, name string) string {
		return ".metadata." + field + "." + strings.ReplaceAll(name, ".", `\.`)
	}
	rules := []workv1.FeedbackRule{{Type: workv1.JSONPathsType, JsonPaths: []workv1.JsonPath{
		{Name: appliedByValue, Path: `.metadata.ownerReferences[?(@.kind=="AppliedManifestWork")].name`},
		{Name: directValue, Path: key("labels", api.ComponentLabel)},
		{Name: hubValue, Path: key("annotations", api.HubAnnotation)},
	}}}
	var out []workv1.ManifestConfigOption
	for _, r := range []schema.GroupResource{
		{Group: "rbac.authorization.k8s.io", Resource: "clusterroles"}, {Group: "apps", Resource: "deployments"}, {Group: "apps", Resource: "statefulsets"},
	} {
		out = append(out, workv1.ManifestConfigOption{
			ResourceIdentifier: identifier(r.Group, r.Resource, "*"), FeedbackRules: rules,
			UpdateStrategy:     &workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeReadOnly},
			FeedbackScrapeType: workv1.FeedbackPollType,
		})
	}
	return out
}

// Found is what a probe has found on a cluster. Each list is in the order of the work.
type Found struct {
	// Waiting says what has to happen before it is known; then the rest is empty.
	Waiting string
	// Hub is the hub that the work agent last applied its role for; empty where there is none, or it does not say.
	Hub string
	// Applied are objects that a work agent has applied for another work than ours, AppliedBy the AppliedManifestWork of the
	// first.
	Applied   []string
	AppliedBy string
	// Direct are objects that were written without a work agent.
	Direct []string
	// Workloads are all workloads that are there.
	Workloads []string
}

// FoundBy reads what a probe has found.
func FoundBy(probe *workv1.ManifestWork) Found {
	const look = "waiting for the work agent to report what the cluster has"
	if applied, why := Applied(probe); !applied {
		return Found{Waiting: look + ": " + why}
	}
	reported := probe.Status.ResourceStatus.Manifests
	if !observedBy(probe, workv1.WorkAvailable) || len(reported) != len(probe.Spec.Workload.Manifests) {
		return Found{Waiting: look}
	}
	var f Found
	for _, m := range reported {
		if missing(m) {
			continue
		}
		if c := apimeta.FindStatusCondition(m.Conditions, workv1.ManifestAvailable); c == nil || c.Status != metav1.ConditionTrue {
			return Found{Waiting: look + ": it cannot read " + objectName(m.ResourceMeta)}
		}
		f.add(m)
	}
	return f
}

func (f *Found) add(m workv1.ManifestCondition) {
	name, values := objectName(m.ResourceMeta), m.StatusFeedbacks.Values
	if hub := text(values, hubValue); hub != "" {
		f.Hub = hub
	}
	if by := text(values, appliedByValue); by != "" {
		if f.AppliedBy == "" {
			f.AppliedBy = by
		}
		f.Applied = append(f.Applied, name)
	}
	if text(values, directValue) != "" {
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

func text(values []workv1.FeedbackValue, name string) string {
	i := slices.IndexFunc(values, func(v workv1.FeedbackValue) bool { return v.Name == name && v.Value.String != nil })
	if i < 0 {
		return ""
	}
	return *values[i].Value.String
}
