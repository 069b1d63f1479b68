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

// The functions below remove or refuse input on which the operator's functions panic.

// hasShortName reports whether the name of a ConfigMap is shorter than the prefix that the operator's transformer cuts off.
func hasShortName(u *unstructured.Unstructured) bool {
	return u.GetKind() == "ConfigMap" && len(u.GetName()) < len("config-")
}

func splitByName(objects []unstructured.Unstructured) (long, short []unstructured.Unstructured) {
	for _, u := range objects {
		if hasShortName(&u) {
			short = append(short, u)
		} else {
			long = append(long, u)
		}
	}
	return long, short
}

// transformShortNamed applies the operator's transformations to ConfigMaps with a short name, which the operator's own
// transformer cannot take.
func transformShortNamed(objects []unstructured.Unstructured, cr base.KComponent, component api.Component) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	label := common.InjectLabel(nameLabel, string(component))
	for n := range objects {
		u := &objects[n]
		u.SetNamespace(cr.GetNamespace())
		for key, value := range cr.GetSpec().GetConfig()[u.GetName()] {
			if err := unstructured.SetNestedField(u.Object, value, "data", key); err != nil {
				return nil, newError(api.ReasonInvalidSpec, "cannot render ConfigMap %q: %w", u.GetName(), err)
			}
		}
		if err := label(u); err != nil {
			return nil, newError(api.ReasonInvalidSpec, "cannot render ConfigMap %q: %w", u.GetName(), err)
		}
		out = append(out, u)
	}
	return out, nil
}

// takeKourierBootstrap removes spec.ingress.kourier.bootstrap-configmap from the CR and returns a transformer with the
// operator's effect of the field. Unlike the operator's, the transformer accepts a gateway with volumes that are not
// ConfigMaps.
func takeKourierBootstrap(ks *v1beta1.KnativeServing) mf.Transformer {
	in := ks.Spec.Ingress
	if in == nil || !in.Kourier.Enabled || in.Kourier.BootstrapConfigmapName == "" {
		return nil
	}
	name := in.Kourier.BootstrapConfigmapName
	in.Kourier.BootstrapConfigmapName = ""
	return func(u *unstructured.Unstructured) error {
		if !isKind(u, "apps", "Deployment") || u.GetName() != "3scale-kourier-gateway" {
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

// brokerDefaultsCheck returns a transformer that refuses a config-br-defaults without a cluster default, in which the
// operator would set one field.
func brokerDefaultsCheck(ke *v1beta1.KnativeEventing) mf.Transformer {
	const key = "default-br-config"
	config := ke.Spec.GetConfig()
	for _, name := range []string{"br-defaults", "config-br-defaults"} {
		if strings.Contains(config[name][key], "brokerClass:") {
			return nil // the operator does not change this ConfigMap then
		}
	}
	return func(u *unstructured.Unstructured) error {
		if u.GetKind() != "ConfigMap" || u.GetName() != "config-br-defaults" {
			return nil
		}
		text, found, _ := unstructured.NestedString(u.Object, "data", key)
		if !found {
			return nil
		}
		if err := checkYAML(text); err != nil {
			return newError(api.ReasonInvalidSpec, "cannot render ConfigMap %q: key %q: %w", u.GetName(), key, err)
		}
		if !lacksClusterDefault(text) {
			return nil
		}
		return newError(api.ReasonInvalidSpec, "cannot render ConfigMap %q: key %q has no clusterDefault: add one to "+
			"spec.config.br-defaults", u.GetName(), key)
	}
}

// lacksClusterDefault reports whether a YAML text has no cluster default; false for invalid YAML, which the operator
// reports.
func lacksClusterDefault(text string) bool {
	var defaults struct {
		Cluster map[string]any `json:"clusterDefault"`
	}
	err := yaml.Unmarshal([]byte(text), &defaults)
	return err == nil && defaults.Cluster == nil
}
