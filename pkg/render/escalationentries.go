// Copyright Contributors to the Open Cluster Management project

package render

import (
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

const (
	// messagingGroup is the API group of channels.
	messagingGroup = "messaging.knative.dev"
	// istioNamespace is the namespace of the gateways that the releases name.
	istioNamespace = "istio-system"
	// releasedIssuer is the issuer of certificates that the releases have.
	releasedIssuer = "knative-selfsigned-issuer"
)

// entryProblem returns why an entry of a ConfigMap needs trust because of what Knative's controllers do with the value; empty when the entry is
// permitted. The controllers create objects, and read Secrets of all namespaces, with permissions that the author of the resource lacks.
// namespace is the install namespace.
func entryProblem(namespace, configMap, key, value string) string {
	if value == "" {
		return ""
	}
	switch key {
	case "channel-template-spec", "channelTemplateSpec": // Brokers may use any ConfigMap
		if !isChannelTemplate(decodeYAML(value)) {
			return "makes a controller create objects that are no channels"
		}
	case "default-ch-config":
		if !areChannelDefaults(decodeYAML(value)) {
			return "makes a controller create objects that are no channels"
		}
	case "default-br-config":
		if namesForeignConfigMap(decodeYAML(value), namespace) {
			return "lets Brokers use a ConfigMap outside of namespace " + namespace
		}
	case "auth.secret.ref.name", "auth.secret.ref.namespace": // Kafka's Brokers and channels may use any ConfigMap
		return "sends the content of a Secret to the servers of the entry bootstrap.servers"
	}
	return settingProblem(namespace, configMap, key, value)
}

// settingProblem is entryProblem for keys that Knative reads from one ConfigMap.
func settingProblem(namespace, configMap, key, value string) string {
	switch configMap {
	case "config-kourier":
		if slices.Contains([]string{"certs-secret-namespace", "certs-secret-name", "cluster-cert-secret"}, key) {
			return "serves the key of a Secret to every client of Kourier's controller"
		}
		if key == "extauthz-host" {
			return "sends the requests of all users to another server"
		}
	case "config-istio", "config-gateway":
		if isExternalGateway(key) && namesForeignGateway(key, value, namespace) {
			return "copies the certificates of all users to a namespace other than " + istioNamespace + " and " + namespace
		}
	case "config-certmanager":
		if slices.Contains([]string{"issuerRef", "clusterLocalIssuerRef", "systemInternalIssuerRef"}, key) && !isReleasedIssuer(decodeYAML(value)) {
			return "issues certificates by another issuer than " + releasedIssuer
		}
	}
	return ""
}

// decodeYAML decodes YAML as Knative does; nil for a text that Knative refuses.
func decodeYAML(text string) any {
	var out any
	if yaml.Unmarshal([]byte(text), &out) != nil {
		return nil
	}
	return out
}

// isChannelTemplate reports whether a decoded template names an API version and a kind of channels, and no other. Go's decoder ignores the case of
// keys, so that a template may have several of each. A Channel would create another channel, whose template users choose.
func isChannelTemplate(template any) bool {
	var versions, kinds int
	for key, value := range fieldsOf(template) {
		text, _ := value.(string)
		switch {
		case strings.EqualFold(key, "apiVersion"):
			if !strings.HasPrefix(text, messagingGroup+"/") {
				return false
			}
			versions++
		case strings.EqualFold(key, "kind"):
			if !strings.HasSuffix(text, "Channel") || text == "Channel" {
				return false
			}
			kinds++
		}
	}
	return versions > 0 && kinds > 0
}

// areChannelDefaults reports whether every template of decoded defaults is a template of channels.
func areChannelDefaults(defaults any) bool {
	for key, value := range fieldsOf(defaults) {
		switch {
		case value == nil:
		case strings.EqualFold(key, "clusterDefault"):
			if !isChannelTemplate(value) {
				return false
			}
		case strings.EqualFold(key, "namespaceDefaults"):
			for _, template := range fieldsOf(value) {
				if template != nil && !isChannelTemplate(template) {
					return false
				}
			}
		}
	}
	return true
}

// namesForeignConfigMap reports whether decoded broker defaults refer to a ConfigMap of another namespace, whose content other users decide.
func namesForeignConfigMap(value any, namespace string) bool {
	switch v := value.(type) {
	case []any:
		return slices.ContainsFunc(v, func(item any) bool { return namesForeignConfigMap(item, namespace) })
	case map[string]any:
		var isConfigMap, isForeign bool
		for key, field := range v {
			text, _ := field.(string)
			isConfigMap = isConfigMap || strings.EqualFold(key, "kind") && strings.EqualFold(text, "ConfigMap")
			isForeign = isForeign || strings.EqualFold(key, "namespace") && text != namespace
			if namesForeignConfigMap(field, namespace) {
				return true
			}
		}
		return isConfigMap && isForeign
	}
	return false
}

// isExternalGateway reports whether a key of config-istio or config-gateway names gateways for external domains.
func isExternalGateway(key string) bool {
	return key == "external-gateways" || strings.HasPrefix(key, "gateway.")
}

// namesForeignGateway reports whether the settings of gateways for external domains name a Service, or a Gateway of the Gateway API, of a namespace
// other than the install namespace and that of the releases. Key gateway.NAMESPACE.NAME has the address of a Service; external-gateways is a
// list of objects. net-istio copies certificates to the namespace of the Service: the namespace of an Istio Gateway may be any.
func namesForeignGateway(key, value, namespace string) bool {
	isForeign := func(found string) bool { return found != istioNamespace && found != namespace }
	if key != "external-gateways" {
		return isForeign(namespaceOfHost(value))
	}
	gateways, isList := decodeYAML(value).([]any)
	return !isList || slices.ContainsFunc(gateways, func(gateway any) bool {
		for field, setting := range fieldsOf(gateway) {
			text, _ := setting.(string)
			if (strings.EqualFold(field, "service") || strings.EqualFold(field, "gateway")) && isForeign(namespaceOfReference(text)) {
				return true
			}
		}
		return false
	})
}

// namespaceOfReference returns the namespace of NAMESPACE/NAME, and of the host of a Service.
func namespaceOfReference(reference string) string {
	if namespace, _, found := strings.Cut(reference, "/"); found {
		return namespace
	}
	return namespaceOfHost(reference)
}

// namespaceOfHost returns the second part of NAME.NAMESPACE.svc, and empty without a second part.
func namespaceOfHost(host string) string {
	_, rest, _ := strings.Cut(host, ".")
	namespace, _, _ := strings.Cut(rest, ".")
	return namespace
}

// isReleasedIssuer reports whether a decoded reference names the issuer of the releases and no other.
func isReleasedIssuer(reference any) bool {
	var names int
	for key, value := range fieldsOf(reference) {
		if strings.EqualFold(key, "name") {
			if value != releasedIssuer {
				return false
			}
			names++
		}
	}
	return names > 0
}
