// Copyright Contributors to the Open Cluster Management project

package comparison

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/addon"
	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/installations"
	"open-cluster-management.io/knative-addon/pkg/message"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/revision"
)

// RenderingChange is the change of a rendering whose objects the hub does not have.
type RenderingChange struct {
	// From and To name the renderings. From is empty when the hub records the version alone, and the version changes.
	From string `json:"from,omitempty"`
	To   string `json:"to"`
	// FromVersion is the version that the cluster got completely.
	FromVersion string `json:"fromVersion"`
}

func (c *RenderingChange) describe() string {
	return fmt.Sprintf("rendering %s of version %s becomes rendering %s; the hub does not have the objects of these clusters, so that the changed objects are unknown",
		cmp.Or(c.From, "(not recorded)"), c.FromVersion, c.To)
}

// record holds the facts that the hub records of the objects of a cluster without a work agent: the version and the rendering that the cluster got
// completely.
type record struct{ version, rendering string }

// Omission is a set of installations that a comparison leaves out, each as cluster and component.
type Omission struct {
	Reason        string
	Installations []string
}

// CompareInstalled returns the changes that a manager with the Renderer would make to the installations that the filter selects, without
// a change of the hub. A managed cluster gets the configuration that OCM wants for the cluster.
func (c *Comparer) CompareInstalled(
	ctx context.Context, objects installations.Objects, filter *installations.Filter,
) (groups []Group, omitted []Omission, err error) {
	selected, unknown := filter.Select(installations.Compose(objects))
	if len(unknown) > 0 {
		return nil, nil, fmt.Errorf("cannot find installations for %q on %s: `knative-addon status` lists all installations", unknown, c.Hub.Name)
	}
	reader := installedReader{Comparer: c, objects: newIndex(objects), recorded: map[types.NamespacedName]*unstructured.Unstructured{}}
	var all []candidate
	for _, i := range selected {
		if reason := omissionOf(&i); reason != "" {
			omitted = addOmission(omitted, reason, &i)
			continue
		}
		m, problem, err := reader.readInstalled(ctx, i)
		switch {
		case err != nil:
			return nil, nil, err
		case problem != nil:
			groups = append(groups, newProblem(&i, problem))
		default:
			all = append(all, m)
		}
	}
	facts, err := c.readFacts(ctx, &File{}, all)
	if err != nil {
		return nil, nil, err
	}
	known, problems, err := reader.assignDeployments(ctx, facts, all)
	if err != nil {
		return nil, nil, err
	}
	groups = append(groups, problems...)
	compared, err := c.compareCandidates(ctx, known, facts, reader.objects)
	return mergeGroups(append(groups, compared...)), omitted, err
}

// omissionOf returns the reason for an installation that no manager changes, or that has nothing to compare with; empty for the others.
func omissionOf(i *installations.Installation) string {
	switch {
	case i.Deleting:
		return "the installation is being removed"
	case i.Mode == installations.ModeUnknown || i.Version == "" && i.NextVersion == "":
		return "no version is installed yet"
	default:
		return ""
	}
}

func addOmission(all []Omission, reason string, i *installations.Installation) []Omission {
	n := slices.IndexFunc(all, func(o Omission) bool { return o.Reason == reason })
	if n < 0 {
		n, all = len(all), append(all, Omission{Reason: reason})
	}
	all[n].Installations = append(all[n].Installations, i.Cluster+" "+string(i.Component))
	return all
}

// installedReader reads the configurations that installations are to have.
type installedReader struct {
	*Comparer
	objects *index
	// recorded are the resources of ControllerRevisions, by the name of the ControllerRevision; nil when the hub lacks the object.
	recorded map[types.NamespacedName]*unstructured.Unstructured
}

// readInstalled returns an installation with the configuration that the installation is to have. problem is the reason why a manager
// would leave the cluster as the cluster is.
func (r *installedReader) readInstalled(ctx context.Context, i installations.Installation) (m candidate, problem, err error) {
	m = candidate{installation: i, addOn: r.objects.findAddOn(&i)}
	if m.addOn != nil {
		m.deployment, m.isIncomplete = deploymentOf(m.addOn), isIncomplete(m.addOn)
		m.wanted, problem, err = r.readDesired(ctx, &i, m.addOn)
		m.live = m.wanted
		return m, problem, err
	}
	m.wanted = r.objects.resources[resourceKey{i.Component, types.NamespacedName{Namespace: i.Object.Namespace, Name: i.Object.Name}}]
	if m.wanted == nil || i.Mode != api.ModeDirect {
		return m, errors.New("the installation has no ManagedClusterAddOn and no resource to compare"), nil
	}
	m.live, m.isIncomplete = m.wanted, i.NextRevision != ""
	rendering, _, _ := unstructured.NestedString(m.wanted.Object, "status", "annotations", api.DeliveredRenderingAnnotation)
	m.record = &record{version: i.Version, rendering: message.OneLine(rendering, message.MaxName)}
	return m, nil, nil
}

// isIncomplete reports whether OCM wants a configuration that the cluster has not completed.
func isIncomplete(addOn *addonv1beta1.ManagedClusterAddOn) bool {
	return slices.ContainsFunc(addOn.Status.ConfigReferences, func(ref addonv1beta1.ConfigReference) bool {
		return ref.DesiredConfig != nil && (ref.LastAppliedConfig == nil || ref.LastAppliedConfig.SpecHash != ref.DesiredConfig.SpecHash)
	})
}

// readDesired returns the resource that configures an add-on, with the spec that OCM wants for the cluster: the present spec, or the spec
// of a ControllerRevision.
func (r *installedReader) readDesired(
	ctx context.Context, i *installations.Installation, addOn *addonv1beta1.ManagedClusterAddOn,
) (resource *unstructured.Unstructured, problem, err error) {
	desired := revision.Desired(addOn)
	if desired == nil {
		return nil, fmt.Errorf("OCM's add-on manager has not assigned a %s that the hub gave to the add-on: see condition Configured", i.Component.Kind()), nil
	}
	name := types.NamespacedName{Namespace: desired.Namespace, Name: desired.Name}
	live := r.objects.resources[resourceKey{i.Component, name}]
	if live == nil {
		return nil, fmt.Errorf("%s %q, which configures the add-on, does not exist", i.Component.Kind(), name), nil
	}
	hash, problem := revision.Hash(live)
	if problem != nil {
		return nil, problem, nil
	}
	if desired.SpecHash == "" || desired.SpecHash == hash {
		return live, nil, nil
	}
	name.Name = revision.Name(i.Component, name.Name, desired.SpecHash)
	if resource, err = r.readRecorded(ctx, name, desired.SpecHash); err == nil && resource == nil {
		problem = fmt.Errorf("OCM refers to spec hash %.12s of %s \"%s/%s\", and the hub has no ControllerRevision of that spec",
			desired.SpecHash, i.Component.Kind(), desired.Namespace, desired.Name)
	}
	return resource, problem, err
}

// readRecorded returns the resource that a ControllerRevision records; nil when the hub does not have the ControllerRevision with the spec
// of the hash, because a ControllerRevision that a user changed proves nothing.
func (r *installedReader) readRecorded(ctx context.Context, name types.NamespacedName, hash string) (*unstructured.Unstructured, error) {
	if known, isKnown := r.recorded[name]; isKnown {
		return known, nil
	}
	u, err := r.Hub.GetResource(ctx, appsv1.SchemeGroupVersion.WithResource("controllerrevisions"), name)
	if err != nil {
		return nil, err
	}
	r.recorded[name] = nil
	if u != nil {
		recorded := &appsv1.ControllerRevision{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, recorded); err != nil {
			return nil, fmt.Errorf("cannot read ControllerRevision %q: %w", name, err)
		}
		if restored, err := revision.Restore(recorded); err == nil && revision.HashOf(recorded) == hash {
			r.recorded[name] = restored
		}
	}
	return r.recorded[name], nil
}

// assignDeployments returns the candidates with the AddOnDeploymentConfigs that OCM wants for the clusters, and a problem for each
// candidate for which the hub lacks that spec: a manager leaves such a cluster as the cluster is.
func (r *installedReader) assignDeployments(ctx context.Context, f *facts, all []candidate) (known []candidate, problems []Group, err error) {
	for _, m := range all {
		problem, err := r.assignDeployment(ctx, f, &m)
		switch {
		case err != nil:
			return nil, nil, err
		case problem != nil:
			problems = append(problems, newProblem(&m.installation, problem))
		default:
			known = append(known, m)
		}
	}
	return known, problems, nil
}

func (r *installedReader) assignDeployment(ctx context.Context, f *facts, m *candidate) (problem, err error) {
	if m.addOn == nil {
		return nil, nil
	}
	if m.deployment.Name == "" {
		if _, refused := revision.DesiredOf(m.addOn, revision.GroupResource(revision.DeploymentConfig{})); refused != nil {
			return revision.NotGranted(m.addOn, deploymentKind, refused), nil
		}
		return nil, nil
	}
	hash, exists := f.specs[m.deployment]
	desired := addon.DeploymentConfigOf(m.addOn)
	switch {
	case !exists:
		return fmt.Errorf("AddOnDeploymentConfig %q of the add-on does not exist", m.deployment), nil
	case desired.SpecHash != "" && desired.SpecHash != hash:
		name := m.deployment
		name.Name = revision.Name(revision.DeploymentConfig{}, name.Name, desired.SpecHash)
		recorded, err := r.readRecorded(ctx, name, desired.SpecHash)
		if err != nil {
			return nil, err
		}
		if recorded == nil {
			return fmt.Errorf("OCM refers to spec hash %.12s of AddOnDeploymentConfig %q, and the hub has no ControllerRevision of that spec",
				desired.SpecHash, m.deployment), nil
		}
		m.earlierDeployment, problem = addon.DecodeDeployment(recorded)
		return problem, nil
	default:
		return nil, nil
	}
}

// compareRecord compares a bundle with the record of the delivered rendering.
func (g *Group) compareRecord(delivered *record, bundle *render.Bundle) {
	change := &RenderingChange{From: delivered.rendering, To: bundle.RenderingName(), FromVersion: delivered.version}
	isSameVersion := change.FromVersion == bundle.Version
	switch {
	case isSameVersion && change.From == change.To:
	case isSameVersion && change.From == "":
		g.Problem = fmt.Sprintf("the hub does not record which rendering of version %s these clusters have, because an older manager delivered the rendering", bundle.Version)
	default:
		g.Rendering = change
	}
}
