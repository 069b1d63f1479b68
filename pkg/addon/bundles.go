// Copyright Contributors to the Open Cluster Management project

package addon

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	clusterlisters "open-cluster-management.io/api/client/cluster/listers/cluster/v1"
	worklisters "open-cluster-management.io/api/client/work/listers/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/manifestwork"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/revision"
	"open-cluster-management.io/knative-addon/pkg/values"
)

// ConfigBundles renders KnativeServings and KnativeEventings, for clusters that have no add-on too.
type ConfigBundles struct {
	Source   *revision.Source
	Renderer *render.Renderer
	Options  render.Options
}

// NewConfigBundles returns ConfigBundles of the resources in the source.
func NewConfigBundles(source *revision.Source, renderer *render.Renderer, options render.Options) *ConfigBundles {
	return &ConfigBundles{Source: source, Renderer: renderer, Options: options}
}

// RenderedBundles renders the configuration that the status of an add-on refers to. The renderer returns a known bundle from memory.
type RenderedBundles struct {
	*ConfigBundles

	// Clusters and Deployments hold the values of a cluster.
	Clusters    clusterlisters.ManagedClusterLister
	Deployments *Deployments
	// Foundations lists the works with api.FoundationLabel, which record the version on a cluster.
	Foundations worklisters.ManifestWorkLister
	// Payloads lists the works with OCM's add-on label, which record the configuration on a cluster.
	Payloads worklisters.ManifestWorkLister
}

var _ Bundles = (*RenderedBundles)(nil)

// DetermineBundle returns the bundle of the add-on, or the fault of the add-on's configuration. Only a change of the configuration
// fixes a fault, except that a fault with api.FaultRenderPending ends when the bundle is rendered.
func DetermineBundle(ctx context.Context, bundles Bundles, addon *addonv1beta1.ManagedClusterAddOn) (bundle *render.Bundle, fault *render.Error, err error) {
	bundle, err = bundles.Bundle(ctx, addon)
	if errors.As(err, &fault) {
		return nil, fault, nil
	}
	return bundle, nil, err
}

// IsRendering reports whether the fault ends as soon as the bundle is rendered.
func IsRendering(fault *render.Error) bool {
	return fault != nil && fault.Reason == api.FaultRenderPending
}

// Bundle implements Bundles. Bundle returns an error that render.IsPending recognizes while the bundle is being rendered, and an
// error for a version that the cluster cannot reach in one step. The bundle of a paused add-on is the delivered bundle.
func (r *RenderedBundles) Bundle(ctx context.Context, addon *addonv1beta1.ManagedClusterAddOn) (*render.Bundle, error) {
	install, err := r.determineInstall(addon)
	if err != nil {
		return nil, err
	}
	bundle, err := r.renderOnCluster(ctx, install, addon)
	if err != nil {
		return nil, err
	}
	installed, err := r.readInstalled(addon)
	if err != nil {
		return nil, err
	}
	return bundle, r.Renderer.CheckMigration(bundle.Component, installed, bundle.Version)
}

// determineInstall returns the Install of the add-on's configuration. The Install of a paused add-on is the delivered configuration,
// as long as the payloads name one configuration that the hub gave to the add-on: the agent of the cluster may write payloads.
func (r *RenderedBundles) determineInstall(addon *addonv1beta1.ManagedClusterAddOn) (*render.Install, error) {
	if r.Source.PausedBy(addon) == "" {
		return r.Source.Install(addon)
	}
	payloads, err := listPayloads(r.Payloads, addon)
	if err != nil {
		return nil, err
	}
	component := api.Component(addon.Name)
	if name, hash, ok := deliveredConfig(component, payloads); ok && revision.Granted(addon, revision.GroupResource(component),
		addonv1beta1.ConfigReferent{Namespace: name.Namespace, Name: name.Name}) {
		if install, err := r.Source.At(component, name, hash); err == nil {
			return install, nil
		}
	}
	return r.Source.Install(addon) // the payloads do not name the delivered configuration
}

// renderOnCluster renders an Install for the cluster of an add-on. Only an Install with references reads the ManagedCluster.
func (r *RenderedBundles) renderOnCluster(ctx context.Context, install *render.Install, addon *addonv1beta1.ManagedClusterAddOn) (*render.Bundle, error) {
	deployment, err := r.Deployments.Of(addon)
	if err != nil {
		return nil, err
	}
	if deployment == nil {
		deployment = &emptyDeployment
	}
	var cluster *values.Cluster
	if len(install.References()) > 0 {
		managed, err := r.Clusters.Get(addon.Namespace)
		switch {
		case apierrors.IsNotFound(err):
			cluster = values.None("there is no ManagedCluster " + addon.Namespace)
		case err != nil:
			return nil, fmt.Errorf("cannot get ManagedCluster %q: %w", addon.Namespace, err)
		default:
			cluster = values.OfManagedCluster(managed, deployment.Variables)
		}
	}
	if install, err = install.On(cluster, deployment.Workloads); err != nil {
		return nil, err
	}
	return r.Renderer.RenderPromptly(ctx, install, r.Options)
}

// emptyDeployment is the Deployment of an add-on without an AddOnDeploymentConfig.
var emptyDeployment Deployment //nolint:gochecknoglobals // a constant

// Latest returns the bundle of the present spec of a KnativeServing or KnativeEventing for the cluster of an add-on.
func (r *RenderedBundles) Latest(ctx context.Context, name types.NamespacedName, addon *addonv1beta1.ManagedClusterAddOn) (*render.Bundle, error) {
	install, err := r.Source.At(api.Component(addon.Name), name, "")
	if err != nil {
		return nil, err
	}
	return r.renderOnCluster(ctx, install, addon)
}

// Version returns the version that a KnativeServing or KnativeEventing requests, independent of the cluster, and the warnings of the
// renderer. A resource that cannot be rendered is an error. The check leaves out resources with values of clusters, because the result
// depends on the cluster.
func (r *ConfigBundles) Version(
	ctx context.Context, component api.Component, name types.NamespacedName,
) (version string, warnings []string, err error) {
	install, err := r.Source.At(component, name, "")
	if err != nil {
		return "", nil, err
	}
	if len(install.References()) > 0 {
		if err := r.Renderer.CheckNamespace(install); err != nil {
			return "", nil, err
		}
		version, err := r.Renderer.VersionOf(install)
		return version, nil, err
	}
	bundle, err := r.Renderer.RenderPromptly(ctx, install, r.Options)
	if err != nil {
		return "", nil, err
	}
	return bundle.Version, bundle.Warnings, nil
}

// Place describes a cluster without a work agent.
type Place struct {
	// Namespace is the install namespace; empty means the namespace that the resource requests.
	Namespace string
	// Installed holds the versions on the cluster.
	Installed render.Installed
	Values    *values.Cluster
	// Revision is the hash of the recorded spec to render; empty means the present spec.
	Revision string
}

// OfConfigFrom returns the bundle of a KnativeServing or KnativeEventing for a cluster without a work agent. A version that the
// cluster cannot reach in one step is an error.
func (r *ConfigBundles) OfConfigFrom(
	ctx context.Context, component api.Component, name types.NamespacedName, place Place,
) (*render.Bundle, error) {
	install, err := r.Source.At(component, name, place.Revision)
	if err != nil {
		return nil, err
	}
	install = install.In(place.Namespace)
	if install, err = install.On(place.Values, nil); err != nil {
		return nil, err
	}
	bundle, err := r.Renderer.RenderPromptly(ctx, install, r.Options)
	if err != nil {
		return nil, err
	}
	return bundle, r.Renderer.CheckMigration(bundle.Component, place.Installed, bundle.Version)
}

// readInstalled returns the versions that the foundation of the cluster records. Without the record of a foundation, the version of the
// payloads counts: a user may have deleted the foundation.
func (r *RenderedBundles) readInstalled(addon *addonv1beta1.ManagedClusterAddOn) (render.Installed, error) {
	component := api.Component(addon.Name)
	name := manifestwork.FoundationName(component)
	foundation, err := r.Foundations.ManifestWorks(addon.Namespace).Get(name)
	if err != nil && !apierrors.IsNotFound(err) {
		return render.Installed{}, fmt.Errorf("cannot get ManifestWork %q: %w", name, err)
	}
	if err == nil && foundation.Annotations[api.VersionAnnotation] != "" {
		return render.Installed{
			Delivered: foundation.Annotations[api.VersionAnnotation], Running: foundation.Annotations[api.RunningVersionAnnotation],
		}, nil
	}
	payloads, err := listPayloads(r.Payloads, addon)
	if err != nil {
		return render.Installed{}, err
	}
	return render.Installed{Delivered: manifestwork.DeliveredVersion(component, payloads)}, nil
}
