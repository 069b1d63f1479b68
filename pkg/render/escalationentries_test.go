// Copyright Contributors to the Open Cluster Management project

package render

import "testing"

// TestEntries holds which entries of ConfigMaps need trust because of what Knative's controllers do with the values.
func TestEntries(t *testing.T) {
	for name, tc := range map[string]struct {
		configMap, key, value string
		refused               bool
	}{
		"no value":                     {"kafka-broker-config", "auth.secret.ref.name", "", false},
		"a Secret of any ConfigMap":    {"mine", "auth.secret.ref.name", "a", true},
		"Kafka's servers":              {"kafka-broker-config", "bootstrap.servers", "kafka:9092", false},
		"Kourier's log":                {"config-kourier", "logging.enable-request-log", "false", false},
		"another key of that name":     {"config-network", "extauthz-host", "a", false},
		"the released gateway":         {"config-istio", "gateway.knative-serving.knative-ingress-gateway", "istio-ingressgateway.istio-system.svc.cluster.local", false},
		"a Service elsewhere":          {"config-istio", "gateway.knative-serving.g", "gw.mine.svc.cluster.local", true},
		"a Service without svc":        {"config-istio", "gateway.knative-serving.g", "gw.mine.any", true},
		"a gateway elsewhere":          {"config-istio", "gateway.mine.g", "istio-ingressgateway.istio-system.svc.cluster.local", false},
		"a gateway without namespace":  {"config-istio", "gateway.knative-ingress-gateway", "istio-ingressgateway.istio-system.svc.cluster.local", false},
		"a local gateway":              {"config-istio", "local-gateway.knative-serving.g", "gw.mesh.svc.cluster.local", false},
		"the released gateways":        {"config-istio", "external-gateways", "- name: g\n  namespace: knative-serving\n  service: gw.istio-system.svc.cluster.local", false},
		"gateways elsewhere":           {"config-istio", "external-gateways", "- name: g\n  namespace: mine\n  service: gw.istio-system.svc.cluster.local", false},
		"gateways with a Service":      {"config-istio", "external-gateways", "- name: g\n  namespace: knative-serving\n  Service: gw.mine.x", true},
		"no list of gateways":          {"config-istio", "external-gateways", "{namespace: mine}", true},
		"Gateway API":                  {"config-gateway", "external-gateways", "- class: istio\n  gateway: istio-system/g\n  service: istio-system/s", false},
		"Gateway API elsewhere":        {"config-gateway", "external-gateways", "- class: istio\n  gateway: mine/g\n  service: istio-system/s", true},
		"the released issuer":          {"config-certmanager", "issuerRef", "kind: ClusterIssuer\nname: knative-selfsigned-issuer", false},
		"another issuer":               {"config-certmanager", "clusterLocalIssuerRef", "kind: ClusterIssuer\nname: corp-ca", true},
		"another issuer, second name":  {"config-certmanager", "issuerRef", "name: knative-selfsigned-issuer\nNAME: corp-ca", true},
		"an issuer that is no YAML":    {"config-certmanager", "systemInternalIssuerRef", "{", true},
		"a template that is no YAML":   {"config-br-default-channel", "channel-template-spec", "{", true},
		"a template without a version": {"config-br-default-channel", "channel-template-spec", "kind: InMemoryChannel", true},
		"a template of Kafka":          {"any", "channel-template-spec", "apiVersion: messaging.knative.dev/v1beta1\nkind: KafkaChannel", false},
		"default channels":             {"default-ch-webhook", "default-ch-config", "clusterDefault: {apiVersion: messaging.knative.dev/v1, kind: InMemoryChannel}", false},
		"broker defaults":              {"config-br-defaults", "default-br-config", "clusterDefault: {kind: ConfigMap, name: a, namespace: knative-serving}", false},
		"broker defaults elsewhere":    {"config-br-defaults", "default-br-config", "clusterDefault: {brokerClasses: [{kind: ConfigMap, namespace: users}]}", true},
	} {
		t.Run(name, func(t *testing.T) {
			if problem := entryProblem("knative-serving", tc.configMap, tc.key, tc.value); (problem != "") != tc.refused {
				t.Errorf("the problem is %q", problem)
			}
		})
	}
}
