// Copyright Contributors to the Open Cluster Management project

package render

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// kinds are the kinds that may be delivered, as "Kind.group".
type kinds map[string]bool

// releaseKinds are the kinds that Knative's releases have.
func releaseKinds() []string {
	return []string{
		"Namespace", "ServiceAccount", "ConfigMap", "Secret", "Service",
		"CustomResourceDefinition.apiextensions.k8s.io",
		"ClusterRole.rbac.authorization.k8s.io", "ClusterRoleBinding.rbac.authorization.k8s.io",
		"Role.rbac.authorization.k8s.io", "RoleBinding.rbac.authorization.k8s.io",
		"Deployment.apps", "StatefulSet.apps",
		"HorizontalPodAutoscaler.autoscaling", "PodDisruptionBudget.policy", "Job.batch",
		"MutatingWebhookConfiguration.admissionregistration.k8s.io",
		"ValidatingWebhookConfiguration.admissionregistration.k8s.io",
		"Image.caching.internal.knative.dev", "Certificate.networking.internal.knative.dev",
		"Certificate.cert-manager.io", "Gateway.networking.istio.io", "PeerAuthentication.security.istio.io",
		"TLSCertificateDelegation.projectcontour.io",
	}
}

func allowedKinds(more []string) kinds {
	out := kinds{}
	for _, k := range slices.Concat(releaseKinds(), more) {
		out[strings.TrimSuffix(k, ".")] = true
	}
	return out
}

// check refuses an object of a kind that is not allowed.
func (k kinds) check(u *unstructured.Unstructured) error {
	kind := u.GroupVersionKind().GroupKind().String()
	if k["*"] || k[kind] {
		return nil
	}
	return refuse(ReasonKindNotAllowed, "%s is of kind %s, which the add-on may not deliver: remove it from the "+
		"manifests, or let an administrator allow the kind", describe(u), kind)
}
