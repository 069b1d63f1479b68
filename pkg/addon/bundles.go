// Copyright Contributors to the Open Cluster Management project

package addon

import (
	"context"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/render"
	"open-cluster-management.io/knative-addon/pkg/revision"
)

// RenderedBundles renders the configuration that an add-on's status refers to. A bundle that is known is a look-up.
type RenderedBundles struct {
	Source   *revision.Source
	Renderer *render.Renderer
	Options  render.Options
}

var _ Bundles = (*RenderedBundles)(nil)

// Bundle implements Bundles.
func (r *RenderedBundles) Bundle(ctx context.Context, addon *addonv1beta1.ManagedClusterAddOn) (*render.Bundle, error) {
	install, err := r.Source.Install(addon)
	if err != nil {
		return nil, err
	}
	return r.Renderer.Render(ctx, install, r.Options)
}
