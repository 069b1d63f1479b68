// Copyright Contributors to the Open Cluster Management project

package render

import (
	"maps"
	"reflect"
	"slices"
)

// The functions below return the fields of a release's object that a namespace without trust may change, with a rule for
// each. kindTable names the function of a kind.

func metadataFields() map[string]fieldRule {
	return map[string]fieldRule{"metadata.labels": labelRule, "metadata.annotations": annotationRule(isPodAnnotation)}
}

// permitFields adds fields that may have any value to the metadata.
func permitFields(fields ...string) map[string]fieldRule {
	out := metadataFields()
	for _, field := range fields {
		out[field] = permitAny
	}
	return out
}

func namespaceFields(string) map[string]fieldRule {
	permitted := annotationRule(func(key string) bool { return slices.Contains(namespaceKeys(), key) })
	return map[string]fieldRule{"metadata.labels": permitted, "metadata.annotations": permitted}
}

func configMapFields(name string) map[string]fieldRule {
	out := metadataFields()
	out["data"] = func(c *contentScan, base, got any) string { return c.judgeData(name, base, got) }
	return out
}

func autoscalerFields(string) map[string]fieldRule {
	return permitFields("spec.minReplicas", "spec.maxReplicas", "spec.metrics", "spec.behavior")
}

func disruptionBudgetFields(string) map[string]fieldRule {
	return permitFields("spec.minAvailable", "spec.maxUnavailable", "spec.unhealthyPodEvictionPolicy")
}

func cachedImageFields(string) map[string]fieldRule {
	out := permitFields("spec.imagePullSecrets")
	out["spec.image"] = imageRule
	return out
}

// serviceFields let the Service of an ingress gateway, a load balancer in every release, be exposed in another way. Where
// requests go stays: externalIPs and externalName would take over those of others.
func serviceFields(string) map[string]fieldRule {
	out := map[string]fieldRule{
		"metadata.labels": labelRule, "metadata.annotations": annotationRule(isServiceAnnotation),
		"spec.type": exposureRule, "spec.ports": portsRule,
	}
	for _, field := range []string{
		"loadBalancerIP", "loadBalancerClass", "loadBalancerSourceRanges", "externalTrafficPolicy", "internalTrafficPolicy",
		"sessionAffinity", "sessionAffinityConfig", "ipFamilies", "ipFamilyPolicy", "allocateLoadBalancerNodePorts", "trafficDistribution",
	} {
		out["spec."+field] = permitAny
	}
	return out
}

func exposureRule(_ *contentScan, base, got any) string {
	if base == "LoadBalancer" && slices.Contains([]any{"ClusterIP", "LoadBalancer", "NodePort"}, got) {
		return ""
	}
	return "only the ingress gateway may be exposed"
}

// portsRule lets the number of a node port be chosen.
func portsRule(_ *contentScan, base, got any) string {
	portless := func(value any) []any {
		list, _ := value.([]any)
		out := make([]any, 0, len(list))
		for _, entry := range list {
			port := maps.Clone(fieldsOf(entry))
			delete(port, "nodePort")
			out = append(out, port)
		}
		return out
	}
	if !reflect.DeepEqual(portless(base), portless(got)) {
		return "requests would go to another port"
	}
	return ""
}
