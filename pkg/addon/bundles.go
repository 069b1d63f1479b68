// Copyright Contributors to the Open Cluster Management project

package addon

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	clusterlisters "open-cluster-management.io/api/client/cluster/listers/cluster/v1"
	worklisters "open-cluster-management.io/api/client/work/listers/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/work"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/revision"
	"open-cluster-management.io/knative-addon/pkg/values"
)

// RenderedBundles renders the configuration that an add-on's status refers to. A bundle that is known is a look-up.
type RenderedBundles struct {
	Source   *revision.Source
	Renderer *render.Renderer
	Options  render.Options
	// Clusters and Deployments have what is a cluster's own.
	Clusters    clusterlisters.ManagedClusterLister
	Deployments *Deployments
	// Foundations lists the works with api.FoundationLabel: they tell which version a cluster has.
	Foundations worklisters.ManifestWorkLister
	// Payloads lists the works with OCM's add-on label: they tell which configuration a cluster has.
	Payloads worklisters.ManifestWorkLister
}

var _ Bundles = (*RenderedBundles)(nil)

// Bundle implements Bundles. A version that the cluster cannot reach in one step is an error. While the add-on is paused,
// it is what the cluster has got.
func (r *RenderedBundles) Bundle(ctx context.Context, addon *addonv1beta1.ManagedClusterAddOn) (*render.Bundle, error) {
	install, err := r.install(addon)
	if err != nil {
		return nil, err
	}
	bundle, err := r.on(ctx, install, addon)
	if err != nil {
		return nil, err
	}
	installed, err := r.installedVersion(addon)
	if err != nil {
		return nil, err
	}
	return bundle, r.Renderer.CheckMigration(bundle.Component, installed, bundle.Version)
}

func (r *RenderedBundles) install(addon *addonv1beta1.ManagedClusterAddOn) (*render.Install, error) {
	if r.Source.PausedBy(addon) == "" {
		return r.Source.Install(addon)
	}
	payloads, err := payloadsOf(r.Payloads, addon)
	if err != nil {
		return nil, err
	}
	component := api.Component(addon.Name)
	if name, hash, ok := deliveredConfig(component, payloads); ok {
		if install, err := r.Source.InstallAt(component, name, hash); err == nil {
			return install, nil
		}
	}
	return r.Source.Install(addon) // nothing is known to be delivered
}

// on is the bundle of an Install on the cluster of an add-on. It looks only at what the Install refers to.
func (r *RenderedBundles) on(ctx context.Context, install *render.Install, addon *addonv1beta1.ManagedClusterAddOn) (*render.Bundle, error) {
	deployment, err := r.Deployments.Of(addon)
	if err != nil {
		return nil, err
	}
	if deployment == nil {
		deployment = &noDeployment
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
	return r.Renderer.Render(ctx, install, r.Options)
}

// noDeployment is that of an add-on without an AddOnDeploymentConfig.
var noDeployment Deployment //nolint:gochecknoglobals // a constant

// Latest is the bundle of a KnativeServing or KnativeEventing as it is now, on the cluster of an add-on.
func (r *RenderedBundles) Latest(ctx context.Context, name types.NamespacedName, addon *addonv1beta1.ManagedClusterAddOn) (*render.Bundle, error) {
	install, err := r.Source.InstallOf(api.Component(addon.Name), name)
	if err != nil {
		return nil, err
	}
	return r.on(ctx, install, addon)
}

// Version is the version that a KnativeServing or KnativeEventing asks for, whatever cluster it may come to. It is an error
// that the resource cannot be rendered; of one that uses values of clusters that is known of each cluster only.
func (r *RenderedBundles) Version(ctx context.Context, component api.Component, name types.NamespacedName) (string, error) {
	install, err := r.Source.InstallOf(component, name)
	if err != nil {
		return "", err
	}
	if len(install.References()) > 0 {
		return r.Renderer.VersionOf(install)
	}
	bundle, err := r.Renderer.Render(ctx, install, r.Options)
	if err != nil {
		return "", err
	}
	return bundle.Version, nil
}

// Place is a cluster that something is installed on without a work agent.
type Place struct {
	// Installed is the version that it has; empty means none.
	Installed string
	Values    *values.Cluster
}

// OfConfigFrom is the bundle of a KnativeServing or KnativeEventing in a place. A version that it cannot reach in one step is
// an error.
func (r *RenderedBundles) OfConfigFrom(
	ctx context.Context, component api.Component, name types.NamespacedName, place Place,
) (*render.Bundle, error) {
	install, err := r.Source.InstallOf(component, name)
	if err != nil {
		return nil, err
	}
	if install, err = install.On(place.Values, nil); err != nil {
		return nil, err
	}
	bundle, err := r.Renderer.Render(ctx, install, r.Options)
	if err != nil {
		return nil, err
	}
	return bundle, r.Renderer.CheckMigration(bundle.Component, place.Installed, bundle.Version)
}

// installedVersion is the version that the cluster has, or is on its way to; empty when it has none.
func (r *RenderedBundles) installedVersion(addon *addonv1beta1.ManagedClusterAddOn) (string, error) {
	name := work.FoundationName(api.Component(addon.Name))
	foundation, err := r.Foundations.ManifestWorks(addon.Namespace).Get(name)
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("cannot get ManifestWork %q: %w", name, err)
	}
	return foundation.Annotations[api.VersionAnnotation], nil
}
