// Copyright Contributors to the Open Cluster Management project

package render

import (
	"strings"

	mf "github.com/manifestival/manifestival"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"knative.dev/operator/pkg/apis/operator/base"
	"knative.dev/operator/pkg/apis/operator/v1beta1"
	"knative.dev/operator/pkg/reconciler/common"
	"sigs.k8s.io/yaml"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// What follows keeps input away on which the operator's functions panic.

// shortNamed are the ConfigMaps whose name is shorter than the prefix that the operator's transformer cuts off.
func shortNamed(u *unstructured.Unstructured) bool {
	return u.GetKind() == "ConfigMap" && len(u.GetName()) < len("config-")
}

func splitByName(objects []unstructured.Unstructured) (long, short []unstructured.Unstructured) {
	for _, u := range objects {
		if shortNamed(&u) {
			short = append(short, u)
		} else {
			long = append(long, u)
		}
	}
	return long, short
}

// transformShort does for these ConfigMaps what the operator does for others.
func transformShort(objects []unstructured.Unstructured, cr base.KComponent, component api.Component) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	label := common.InjectLabel(nameLabel, string(component))
	for n := range objects {
		u := &objects[n]
		u.SetNamespace(cr.GetNamespace())
		for key, value := range cr.GetSpec().GetConfig()[u.GetName()] {
			if err := unstructured.SetNestedField(u.Object, value, "data", key); err != nil {
				return nil, refuse(ReasonInvalidSpec, "cannot render ConfigMap %q: %w", u.GetName(), err)
			}
		}
		if err := label(u); err != nil {
			return nil, refuse(ReasonInvalidSpec, "cannot render ConfigMap %q: %w", u.GetName(), err)
		}
		out = append(out, u)
	}
	return out, nil
}

// takeBootstrap takes spec.ingress.kourier.bootstrap-configmap off the CR and returns a transformer that does what the
// operator does with it, also when the gateway has volumes that are no ConfigMaps.
func takeBootstrap(ks *v1beta1.KnativeServing) mf.Transformer {
	in := ks.Spec.Ingress
	if in == nil || !in.Kourier.Enabled || in.Kourier.BootstrapConfigmapName == "" {
		return nil
	}
	name := in.Kourier.BootstrapConfigmapName
	in.Kourier.BootstrapConfigmapName = ""
	return func(u *unstructured.Unstructured) error {
		if !is(u, "apps", "Deployment") || u.GetName() != "3scale-kourier-gateway" {
			return nil
		}
		field, _, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "template", "spec", "volumes")
		volumes, _ := field.([]any)
		for _, v := range volumes {
			volume, _ := v.(map[string]any)
			source, _ := volume["configMap"].(map[string]any)
			if source["name"] == "kourier-bootstrap" {
				volume["configMap"] = map[string]any{"name": name}
			}
		}
		return nil
	}
}

// checkBrokerDefaults refuses a config-br-defaults without cluster default, where the operator would set one field.
func checkBrokerDefaults(ke *v1beta1.KnativeEventing) mf.Transformer {
	const key = "default-br-config"
	config := ke.Spec.GetConfig()
	for _, name := range []string{"br-defaults", "config-br-defaults"} {
		if strings.Contains(config[name][key], "brokerClass:") {
			return nil // then the operator leaves it as it is
		}
	}
	return func(u *unstructured.Unstructured) error {
		if u.GetKind() != "ConfigMap" || u.GetName() != "config-br-defaults" {
			return nil
		}
		text, found, _ := unstructured.NestedString(u.Object, "data", key)
		if !found || !lacksClusterDefault(text) {
			return nil
		}
		return refuse(ReasonInvalidSpec, "cannot render ConfigMap %q: key %q has no clusterDefault: add one to "+
			"spec.config.br-defaults", u.GetName(), key)
	}
}

// lacksClusterDefault is false for what is no YAML: the operator says that itself.
func lacksClusterDefault(text string) bool {
	var defaults struct {
		Cluster map[string]any `json:"clusterDefault"`
	}
	err := yaml.Unmarshal([]byte(text), &defaults)
	return err == nil && defaults.Cluster == nil
}
