// Copyright Contributors to the Open Cluster Management project

package render

import (
	"strings"

	"sigs.k8s.io/yaml"
)

const (
	// messagingGroup is the API group of channels.
	messagingGroup = "messaging.knative.dev"
	// channelDefaultsKey is the key of ConfigMap default-ch-webhook, and brokerDefaultsKey that of ConfigMap config-br-defaults.
	channelDefaultsKey, brokerDefaultsKey = "default-ch-config", "default-br-config"
)

// templateProblem returns why the value of a key of a ConfigMap of Eventing needs trust; empty when the value is permitted. Eventing's
// controller creates the object of a channel template in the namespace of each Broker and Channel, whatever the kind, with the controller's
// permissions for pods, Deployments and Secrets. Any ConfigMap may hold the template of a Broker. namespace is the install namespace.
func templateProblem(namespace, key, value string) string {
	switch key {
	case "channel-template-spec", "channelTemplateSpec":
		if !isChannelTemplate(decodeYAML(value)) {
			return "makes a controller create objects of another group than " + messagingGroup
		}
	case channelDefaultsKey:
		if !areChannelDefaults(decodeYAML(value)) {
			return "makes a controller create objects of another group than " + messagingGroup
		}
	case brokerDefaultsKey:
		if namesForeignConfigMap(decodeYAML(value), namespace) {
			return "lets Brokers use a ConfigMap outside of namespace " + namespace
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

// isChannelTemplate reports whether a decoded template names an API version of channels and no other. Go's decoder ignores the case of keys, so
// that a template may have several API versions.
func isChannelTemplate(template any) bool {
	var versions int
	for key, value := range fieldsOf(template) {
		if !strings.EqualFold(key, "apiVersion") {
			continue
		}
		if version, _ := value.(string); !strings.HasPrefix(version, messagingGroup+"/") {
			return false
		}
		versions++
	}
	return versions > 0
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
		for _, item := range v {
			if namesForeignConfigMap(item, namespace) {
				return true
			}
		}
	case map[string]any:
		var isConfigMap, isForeign bool
		for key, field := range v {
			text, _ := field.(string)
			isConfigMap = isConfigMap || strings.EqualFold(key, "kind") && text == "ConfigMap"
			isForeign = isForeign || strings.EqualFold(key, "namespace") && text != namespace
			if namesForeignConfigMap(field, namespace) {
				return true
			}
		}
		return isConfigMap && isForeign
	}
	return false
}
