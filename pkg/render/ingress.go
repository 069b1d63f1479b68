// Copyright Contributors to the Open Cluster Management project

package render

import (
	"slices"
	"strings"

	"knative.dev/operator/pkg/apis/operator/v1beta1"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// ingressClassSuffix follows the name of the ingress in the class of one of Knative's own ingresses.
const ingressClassSuffix = ".ingress.networking.knative.dev"

// knativeIngress is one of the ingresses that releases of Knative contain.
type knativeIngress struct {
	name    string
	enabled func(*v1beta1.IngressConfigs) bool
}

// knativeIngresses lists Knative's own ingresses. The first is installed when a KnativeServing has no spec.ingress.
func knativeIngresses() []knativeIngress {
	return []knativeIngress{
		{"istio", func(c *v1beta1.IngressConfigs) bool { return c.Istio.Enabled }},
		{"contour", func(c *v1beta1.IngressConfigs) bool { return c.Contour.Enabled }},
		{"kourier", func(c *v1beta1.IngressConfigs) bool { return c.Kourier.Enabled }},
		{"gateway-api", func(c *v1beta1.IngressConfigs) bool { return c.GatewayAPI.Enabled }},
	}
}

// ingressesOf returns the names of the enabled ingresses; none when spec.ingress enables none.
func ingressesOf(ks *v1beta1.KnativeServing) []string {
	known := knativeIngresses()
	if ks.Spec.Ingress == nil {
		return []string{known[0].name}
	}
	var out []string
	for _, i := range known {
		if i.enabled(ks.Spec.Ingress) {
			out = append(out, i.name)
		}
	}
	return out
}

func isKnativeIngress(name string) bool {
	return slices.ContainsFunc(knativeIngresses(), func(i knativeIngress) bool { return i.name == name })
}

// checkIngressClass refuses a KnativeServing whose config-network names one of Knative's own ingresses that spec.ingress
// does not enable: no Service would ever become ready. Additional manifests may contain the ingress, so that such a
// resource passes.
func checkIngressClass(ks *v1beta1.KnativeServing) error {
	if len(ks.Spec.AdditionalManifests) > 0 {
		return nil
	}
	enabled := ingressesOf(ks)
	for _, configMap := range []string{"network", "config-network"} {
		for _, key := range []string{"ingress-class", "ingress.class"} {
			class := ks.Spec.Config[configMap][key]
			name, known := strings.CutSuffix(class, ingressClassSuffix)
			if !known || !isKnativeIngress(name) || slices.Contains(enabled, name) {
				continue
			}
			return newError(api.ReasonIngressNotEnabled, "spec.config.%s names ingress class %q, but ingress %q is not enabled in spec.ingress: "+
				"enable spec.ingress.%s, or name the class of an ingress that is", configMap, class, name, name)
		}
	}
	return nil
}
