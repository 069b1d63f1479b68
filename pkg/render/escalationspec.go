// Copyright Contributors to the Open Cluster Management project

package render

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"knative.dev/operator/pkg/apis/operator/base"
	"knative.dev/operator/pkg/apis/operator/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/message"
)

// checkSpec refuses a spec, with the values of its cluster in place, that needs a trusted namespace.
func (r *Renderer) checkSpec(in *Install) error {
	if err := in.refuseOwnManifests(); err != nil {
		return err
	}
	images := r.allowedImages()
	if found := findInSpec(in, images); found != nil {
		return found.newRefusal(images)
	}
	return nil
}

// findInSpec finds the first part of a spec that needs trust, in the order of the fields here.
func findInSpec(in *Install, images imagePolicy) *finding {
	spec := in.commonSpec()
	found := cmp.Or(findInPatches(in.patches), findInRegistry(spec.Registry, images))
	if found == nil {
		found = cmp.Or(findInNamespace(spec.NamespaceConfiguration), findInServices(spec.ServiceOverride))
	}
	if found == nil {
		found = cmp.Or(findInWorkloads("spec.deployments", spec.DeploymentOverride, images),
			findInWorkloads("spec.workloads", spec.Workloads, images), findInResources("spec.resources", spec.DeprecatedResources))
	}
	if found == nil && in.serving != nil {
		found = findInIngress(in.serving.Spec.Ingress)
	}
	return found
}

func findInPatches(patches []Patch) *finding {
	for n, p := range patches {
		gvk := schema.FromAPIVersionAndKind(p.Target.APIVersion, p.Target.Kind)
		if !rowOf(gvk.GroupKind()).tenantMay.patch {
			return &finding{field: fmt.Sprintf("spec.patches[%d]", n), problem: fmt.Sprintf("changes %s %q", p.Target.Kind, p.Target.Name)}
		}
	}
	return nil
}

// findInRegistry finds images of other registries. The operator also writes an override into any variable with the name of
// the override; checkBundle finds these variables.
func findInRegistry(registry base.Registry, images imagePolicy) *finding {
	const anyName = "name"
	if image := strings.ReplaceAll(registry.Default, "${NAME}", anyName); image != "" && !images.allowsImage(image) {
		return &finding{field: "spec.registry.default", image: registry.Default}
	}
	for _, name := range slices.Sorted(maps.Keys(registry.Override)) {
		if image := registry.Override[name]; !images.allowsImage(image) {
			return &finding{field: fmt.Sprintf("spec.registry.override[%s]", name), image: image}
		}
	}
	return nil
}

// namespaceKeys are the labels and annotations of an install namespace that choose a service mesh. Others decide what
// admission, network policies and the scheduler permit in the namespace.
func namespaceKeys() []string {
	return []string{"istio-injection", "istio.io/dataplane-mode", "istio.io/rev", "linkerd.io/inject"}
}

func findInNamespace(configuration *base.NamespaceConfiguration) *finding {
	if configuration == nil {
		return nil
	}
	for _, set := range []struct {
		name string
		keys map[string]string
	}{{"labels", configuration.Labels}, {"annotations", configuration.Annotations}} {
		for _, key := range slices.Sorted(maps.Keys(set.keys)) {
			if !slices.Contains(namespaceKeys(), key) {
				return &finding{field: fmt.Sprintf("spec.namespace.%s[%s]", set.name, key), problem: "changes what the cluster permits in the namespace"}
			}
		}
	}
	return nil
}

func findInServices(overrides []base.ServiceOverride) *finding {
	for _, o := range overrides {
		if len(o.Selector) > 0 {
			return &finding{field: fmt.Sprintf("spec.services[%s].selector", o.Name), problem: "sends the requests of a Service to other pods"}
		}
		if f := findInMetadata(fmt.Sprintf("spec.services[%s]", o.Name), o.Labels, o.Annotations, isServiceAnnotation); f != nil {
			return f
		}
	}
	return nil
}

// findInMetadata finds labels and annotations that other controllers of a cluster act on.
func findInMetadata(field string, labels, annotations map[string]string, permitted func(string) bool) *finding {
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if !isPlainLabel(key) {
			return &finding{field: fmt.Sprintf("%s.labels[%s]", field, key), problem: "sets a label that controllers of the cluster act on"}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		if !permitted(key) {
			return &finding{field: fmt.Sprintf("%s.annotations[%s]", field, key), problem: "sets an annotation that controllers of the cluster may act on"}
		}
	}
	return nil
}

func findInWorkloads(field string, overrides []base.WorkloadOverride, images imagePolicy) *finding {
	for _, o := range overrides {
		at := fmt.Sprintf("%s[%s]", field, o.Name)
		if o.HostNetwork != nil && *o.HostNetwork {
			return &finding{field: at + ".hostNetwork", problem: "puts pods into the network of the node"}
		}
		found := cmp.Or(findInMetadata(at, o.Labels, o.Annotations, isPodAnnotation), findInResources(at+".resources", o.Resources))
		if found != nil {
			return found
		}
		for _, e := range o.Env {
			for _, v := range e.EnvVars {
				if !isPermittedVariable(v, images) {
					return &finding{field: fmt.Sprintf("%s.env[%s]", at, message.Shorten(v.Name, maxQuotedBytes)), problem: "sets a variable that changes what a process of Knative does"}
				}
			}
		}
	}
	return nil
}

// isPermittedVariable reports whether an override may set a variable: a number for the Go runtime or the client, a mode of
// Knative, or an allowed image in a variable for one.
func isPermittedVariable(v corev1.EnvVar, images imagePolicy) bool {
	if v.ValueFrom != nil {
		return false
	}
	return slices.Contains(tuningVariables(), v.Name) && isPlainValue(v.Value) || strings.HasSuffix(v.Name, "_IMAGE") && images.allowsImage(v.Value)
}

// findInResources finds resources that a device plugin gives, and claims of devices.
func findInResources(field string, overrides []base.ResourceRequirementsOverride) *finding {
	for _, o := range overrides {
		at := fmt.Sprintf("%s[%s]", field, o.Container)
		for _, list := range []corev1.ResourceList{o.Limits, o.Requests} {
			for _, name := range slices.Sorted(maps.Keys(list)) {
				if !slices.Contains(computeResources(), string(name)) {
					return &finding{field: at, problem: fmt.Sprintf("asks for resource %q", name)}
				}
			}
		}
		if len(o.Claims) > 0 {
			return &finding{field: at + ".claims", problem: "asks for devices"}
		}
	}
	return nil
}

func findInIngress(in *v1beta1.IngressConfigs) *finding {
	switch {
	case in == nil:
		return nil
	case in.Istio.KnativeIngressGateway != nil:
		return &finding{field: "spec.ingress.istio.knative-ingress-gateway", problem: "configures Istio's gateways, which others use too"}
	case in.Istio.KnativeLocalGateway != nil:
		return &finding{field: "spec.ingress.istio.knative-local-gateway", problem: "configures Istio's gateways, which others use too"}
	case in.Kourier.BootstrapConfigmapName != "":
		return &finding{field: "spec.ingress.kourier.bootstrap-configmap", problem: "chooses what Envoy loads"}
	default:
		return nil
	}
}
