// Copyright Contributors to the Open Cluster Management project

package addon

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	worklisters "open-cluster-management.io/api/client/work/listers/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/delivery/work"
	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/revision"
)

// RenderedBundles renders the configuration that an add-on's status refers to. A bundle that is known is a look-up.
type RenderedBundles struct {
	Source   *revision.Source
	Renderer *render.Renderer
	Options  render.Options
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
	bundle, err := r.Renderer.Render(ctx, install, r.Options)
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

// OfConfig is the bundle of a KnativeServing or KnativeEventing, whatever cluster it may come to.
func (r *RenderedBundles) OfConfig(ctx context.Context, component api.Component, name types.NamespacedName) (*render.Bundle, error) {
	install, err := r.Source.InstallOf(component, name)
	if err != nil {
		return nil, err
	}
	return r.Renderer.Render(ctx, install, r.Options)
}

// OfConfigFrom is the bundle of a KnativeServing or KnativeEventing on a cluster that has an installed version, or none when
// that is empty. A version that the cluster cannot reach in one step is an error.
func (r *RenderedBundles) OfConfigFrom(
	ctx context.Context, component api.Component, name types.NamespacedName, installed string,
) (*render.Bundle, error) {
	bundle, err := r.OfConfig(ctx, component, name)
	if err != nil {
		return nil, err
	}
	return bundle, r.Renderer.CheckMigration(bundle.Component, installed, bundle.Version)
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
