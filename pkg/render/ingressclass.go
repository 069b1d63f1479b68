// Copyright Contributors to the Open Cluster Management project

package render

import (
	"slices"
	"strings"

	"knative.dev/operator/pkg/apis/operator/v1beta1"
)

// ingressClassSuffix is what the classes of Knative's own ingresses end with, behind the name of the ingress.
const ingressClassSuffix = ".ingress.networking.knative.dev"

// checkIngressClass refuses a KnativeServing whose config-network names one of Knative's own ingresses that nobody
// installs: no Service would ever become ready. With additional manifests the ingress may be among these.
func checkIngressClass(ks *v1beta1.KnativeServing) error {
	if len(ks.Spec.AdditionalManifests) > 0 {
		return nil
	}
	enabled := ingressesOf(ks)
	for _, configMap := range []string{"network", "config-network"} {
		for _, key := range []string{"ingress-class", "ingress.class"} {
			class := ks.Spec.Config[configMap][key]
			name, known := strings.CutSuffix(class, ingressClassSuffix)
			if !known || !slices.Contains([]string{"istio", "contour", "kourier", "gateway-api"}, name) || slices.Contains(enabled, name) {
				continue
			}
			return refuse(ReasonIngressNotEnabled, "spec.config.%s names ingress class %q, but ingress %q is not enabled in spec.ingress: "+
				"enable spec.ingress.%s, or name the class of an ingress that is", configMap, class, name, name)
		}
	}
	return nil
}
