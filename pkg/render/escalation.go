// Copyright Contributors to the Open Cluster Management project

package render

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"knative.dev/operator/pkg/apis/operator/base"
	"knative.dev/operator/pkg/apis/operator/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/message"
)

// A resource of a namespace that trust.Policy does not trust installs Knative only: the author needs no permission on the
// cluster, while the deliveries have nearly all permissions. Two checks enforce this limit. checkSpec reads the fields of
// the spec, so that a refusal names the field. checkBundle compares the rendered objects with the baseline: the bundle of
// the same version, ingresses and sources without any free-form input. The table of kinds names the fields that may differ.
// docs/rendering.md has both lists.

// finding is a part of a resource that needs a trusted namespace.
type finding struct {
	// field names the part of the spec, as in "spec.patches[0]".
	field string
	// problem continues the sentence that starts with field.
	problem string
	// image is the image that comes from a registry that is not allowed, if this is the problem.
	image string
}

// newRefusal returns the error of a finding. The text names no namespace of the hub: resources of several namespaces with
// equal content share one result.
func (f finding) newRefusal(images imagePolicy) *Error {
	if f.image != "" {
		return newError(api.ReasonEscalationNotPermitted, "%s names image %q, but a resource of this namespace may only use images of %s: "+
			"use one of these, or ask the hub's administrator to allow the registry (rendering.allowedImageRegistries of chart knative-addon) "+
			"or to trust the namespace (rendering.trustedNamespaces)", f.field, message.Shorten(f.image, maxQuotedBytes), strings.Join(images.prefixes, ", "))
	}
	return newError(api.ReasonEscalationNotPermitted, "%s %s, which a resource of this namespace may not do: remove the entry, or ask the "+
		"hub's administrator to trust the namespace (rendering.trustedNamespaces of chart knative-addon)", f.field, f.problem)
}

// CheckNamespace refuses an install namespace of Kubernetes or of OCM unless the namespace of the resource is trusted. The delivery
// refuses any other namespace that the cluster had before.
func (r *Renderer) CheckNamespace(in *Install) error {
	if namespace := in.InstallNamespace(); api.ReservedNamespace(namespace) && !r.config.Trust.Trusts(in.namespace) {
		return newError(api.ReasonEscalationNotPermitted,
			"annotation %s=%s: namespace %q of the hub is not trusted to install into a namespace of Kubernetes or Open Cluster Management; remove the annotation, or let the hub's administrator add the namespace to rendering.trustedNamespaces of the chart",
			api.InstallNamespaceAnnotation, namespace, in.namespace)
	}
	return nil
}

// isRestricted reports whether the content of the Install must be checked.
func (r *Renderer) isRestricted(in *Install) bool {
	return !r.config.Trust.Trusts(in.namespace) && in.hasFreeFormContent()
}

// commonSpec returns the fields that both components have.
func (i *Install) commonSpec() *base.CommonSpec {
	if i.serving != nil {
		return &i.serving.Spec.CommonSpec
	}
	return &i.eventing.Spec.CommonSpec
}

// hasFreeFormContent reports whether the spec has fields that can hold more than a choice among the parts of Knative's
// releases. Every cached Render calls the function, which therefore allocates nothing.
func (i *Install) hasFreeFormContent() bool {
	return len(i.commonSpec().Config) > 0 || i.changesObjects() || i.overridesIngress()
}

// changesObjects reports whether the spec changes objects beyond the data of ConfigMaps, the numbers of replicas and
// disruption budgets, and Kourier's Service, which typed functions of the Knative Operator write.
func (i *Install) changesObjects() bool {
	spec := i.commonSpec()
	return len(i.patches)+len(spec.Manifests)+len(spec.AdditionalManifests)+len(spec.DeprecatedResources) > 0 ||
		len(spec.DeploymentOverride)+len(spec.Workloads)+len(spec.ServiceOverride) > 0 ||
		spec.NamespaceConfiguration != nil ||
		spec.Registry.Default != "" || len(spec.Registry.Override)+len(spec.Registry.ImagePullSecrets) > 0
}

func (i *Install) overridesIngress() bool {
	if i.serving == nil || i.serving.Spec.Ingress == nil {
		return false
	}
	in := i.serving.Spec.Ingress
	return in.Istio.KnativeIngressGateway != nil || in.Istio.KnativeLocalGateway != nil || in.Kourier.BootstrapConfigmapName != ""
}

// refuseOwnManifests refuses spec.manifests, which replace the release, before anything is fetched.
func (i *Install) refuseOwnManifests() error {
	if len(i.commonSpec().Manifests) == 0 {
		return nil
	}
	return finding{field: "spec.manifests", problem: "replaces the objects of Knative's release"}.newRefusal(imagePolicy{})
}

// baselineInstall returns the Install with the same choices of components and without free-form content.
func (i *Install) baselineInstall(version string) *Install {
	out := &Install{
		component: i.component, name: i.name, namespace: i.namespace, target: i.target,
		deployment: i.deployment, cluster: identityOf(nil, i.deployment),
	}
	if i.serving != nil {
		spec := &i.serving.Spec
		out.serving = &v1beta1.KnativeServing{TypeMeta: i.serving.TypeMeta, ObjectMeta: i.serving.ObjectMeta}
		out.serving.Spec = v1beta1.KnativeServingSpec{
			ControllerCustomCerts: spec.ControllerCustomCerts, Ingress: ingressChoice(spec.Ingress), Security: spec.Security.DeepCopy(),
		}
		out.serving.Spec.Version = version
	} else {
		spec := &i.eventing.Spec
		out.eventing = &v1beta1.KnativeEventing{TypeMeta: i.eventing.TypeMeta, ObjectMeta: i.eventing.ObjectMeta}
		out.eventing.Spec = v1beta1.KnativeEventingSpec{SinkBindingSelectionMode: spec.SinkBindingSelectionMode, Source: spec.Source.DeepCopy()}
		out.eventing.Spec.Version = version
		if encryptsTransport(i.eventing) {
			// The operator delivers the certificates of cert-manager only with this flag.
			out.eventing.Spec.Config = base.ConfigMapData{"features": {"transport-encryption": "strict"}}
		}
	}
	out.content = out.contentHash()
	return out
}

// ingressChoice returns the enabled ingresses without their settings.
func ingressChoice(in *v1beta1.IngressConfigs) *v1beta1.IngressConfigs {
	if in == nil {
		return nil
	}
	return &v1beta1.IngressConfigs{
		Istio:      base.IstioIngressConfiguration{Enabled: in.Istio.Enabled},
		Kourier:    base.KourierIngressConfiguration{Enabled: in.Kourier.Enabled},
		Contour:    base.ContourIngressConfiguration{Enabled: in.Contour.Enabled},
		GatewayAPI: base.GatewayAPIIngressConfiguration{Enabled: in.GatewayAPI.Enabled},
	}
}

// checkBundle refuses a bundle with objects that only a trusted namespace may deliver.
func (r *Renderer) checkBundle(ctx context.Context, j job, b *Bundle) error {
	images := r.allowedImages()
	found := findInConfig(b, j.install.commonSpec().Config, images)
	if found == nil {
		found = findReservedService(b)
	}
	if found == nil && j.install.changesObjects() {
		baseline, err := r.renderBaseline(ctx, j)
		if err != nil {
			return err
		}
		c := contentScan{install: j.install, sources: j.sources, images: images, baseline: baseline, bundle: b}
		found = c.findDifference()
	}
	if found == nil {
		return nil
	}
	return found.newRefusal(images)
}

// findReservedService finds a Service in a namespace of Kubernetes or Open Cluster Management. The Knative Operator puts the Service of a gateway
// into the namespace that config-istio names.
func findReservedService(b *Bundle) *finding {
	for _, o := range b.Payload {
		if namespace := o.GetNamespace(); isKind(o.Unstructured, "", "Service") && namespace != b.Namespace && api.ReservedNamespace(namespace) {
			return &finding{field: "spec.config[istio]", problem: "puts " + describeObject(o.Unstructured) + " into a namespace of Kubernetes or Open Cluster Management"}
		}
	}
	return nil
}

// renderBaseline renders the baseline of a job. Installs that differ in free-form content only share the result.
func (r *Renderer) renderBaseline(ctx context.Context, j job) (*Bundle, error) {
	// The baseline is Knative's own release: a failure is no fault of the content.
	baseline := job{install: j.install.baselineInstall(j.version), version: j.version, options: j.options}
	b, err := r.bundles.obtainBaseline(ctx, j.install.namespace, baseline.cacheKey(), func(ctx context.Context, _ func()) (*Bundle, error) {
		return r.renderJob(ctx, baseline)
	})
	if err != nil {
		return nil, fmt.Errorf("cannot render the release to compare with: %w", err)
	}
	return b, nil
}

// findInConfig finds entries of spec.config that need trust, by the ConfigMaps of the bundle: the operator matches a
// ConfigMap by its name, and by the name without the first seven characters.
func findInConfig(b *Bundle, config base.ConfigMapData, images imagePolicy) *finding {
	if len(config) == 0 {
		return nil
	}
	for _, o := range b.Payload {
		if !isKind(o.Unstructured, "", "ConfigMap") {
			continue
		}
		name := o.GetName()
		names := []string{name}
		if len(name) >= len("config-") {
			names = append(names, name[len("config-"):])
		}
		for _, n := range names {
			data := config[n]
			for _, key := range slices.Sorted(maps.Keys(data)) {
				f := images.checkEntry(name, key, data[key])
				if problem := entryProblem(b.Namespace, name, key, data[key]); problem != "" {
					f = &finding{problem: problem}
				}
				if f != nil {
					f.field = fmt.Sprintf("spec.config[%s][%s]", n, key)
					return f
				}
			}
		}
	}
	return nil
}
