// Copyright Contributors to the Open Cluster Management project

package render

import (
	"context"
	"slices"
	"strings"

	mf "github.com/manifestival/manifestival"
	"golang.org/x/mod/semver"
	"knative.dev/operator/pkg/apis/operator/v1beta1"
	"knative.dev/operator/pkg/reconciler/common"
	ksc "knative.dev/operator/pkg/reconciler/knativeserving/common"
	"knative.dev/operator/pkg/reconciler/knativeserving/ingress"
	"knative.dev/operator/pkg/reconciler/knativeserving/security"
	"knative.dev/pkg/logging"

	"open-cluster-management.io/knative-addon/pkg/api"
)

const nameLabel = "app.kubernetes.io/name"

// servingPipeline is the operator's own order of steps for a KnativeServing.
func servingPipeline(ks *v1beta1.KnativeServing) pipeline {
	bootstrap := takeKourierBootstrap(ks)
	return pipeline{
		component: api.Serving,
		appendManifests: []stage{
			common.AppendTarget, ingress.AppendTargetIngress, security.AppendTargetSecurity,
			common.AppendAdditionalManifests,
		},
		transformers: func(ctx context.Context, _ *mf.Manifest) []mf.Transformer {
			out := []mf.Transformer{
				ksc.CustomCertsTransform(ks, logging.FromContext(ctx)),
				common.InjectLabel(nameLabel, string(api.Serving)),
			}
			out = append(out, ingress.Transformers(ctx, ks)...)
			out = append(out, bootstrap)
			out = append(out, ingress.IngressServiceTransform(ks))
			return append(out, security.Transformers(ctx, ks)...)
		},
	}
}

// checkServing refuses a KnativeServing that names an ingress or a guard which the release directory lacks. With
// spec.manifests the user brings all manifests, and the operator leaves out the missing parts.
func (c *catalog) checkServing(ks *v1beta1.KnativeServing, version string) error {
	if len(ks.Spec.Manifests) > 0 {
		return nil
	}
	if err := checkIngressClass(ks); err != nil {
		return err
	}
	minor := directoryOf(version)
	for _, name := range ingressesOf(ks) {
		if !c.hasDirectory("ingress", minor, name) {
			return newError(api.ReasonIngressNotBundled, "ingress %q is not bundled for %s %s: enable one of %s in spec.ingress",
				name, api.Serving, version, c.formatNames("ingress", minor))
		}
	}
	if ks.Spec.Security != nil && ks.Spec.Security.SecurityGuard.Enabled {
		guard, known := security.SecurityGuardVersion["v"+minor]
		if !known || !c.hasDirectory("security-guard", guard) {
			return newError(api.ReasonSecurityGuardNotBundled, "security guard is not bundled for %s %s: remove "+
				"spec.security.securityGuard or choose another version", api.Serving, version)
		}
	}
	return nil
}

// directoryOf is the directory name of what is released per minor version.
func directoryOf(version string) string {
	if version == latest {
		return latest
	}
	return strings.TrimPrefix(semver.MajorMinor("v"+strings.TrimPrefix(version, "v")), "v")
}

// formatNames returns the sorted names below a directory for a message.
func (c *catalog) formatNames(elements ...string) string {
	names, err := c.listBelow(elements...)
	if err != nil || len(names) == 0 {
		return "none"
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
