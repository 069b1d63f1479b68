// Copyright Contributors to the Open Cluster Management project

package render

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"knative.dev/operator/pkg/apis/operator/base"
	"knative.dev/operator/pkg/apis/operator/v1beta1"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"open-cluster-management.io/knative-addon/pkg/api"
)

const crVersion = "v1beta1"

// Decode reads a KnativeServing or KnativeEventing as users write the resource. Besides the operator's own fields, Decode
// accepts spec.namespaceConfiguration, the documentation's name of spec.namespace, and spec.patches. An unknown field is an
// error: a silently ignored field would install another configuration than the user requested. Decode does not change u.
func Decode(u *unstructured.Unstructured) (*Install, error) {
	component, err := componentOf(u)
	if err != nil {
		return nil, err
	}
	what := fmt.Sprintf("%s %q", component.Kind(), objectName(u.GetNamespace(), u.GetName()))
	spec, err := specOf(u)
	if err != nil {
		return nil, newError(api.ReasonInvalidSpec, "cannot decode %s: %w", what, err)
	}
	if fault := checkSpecBounds(spec); fault != nil {
		return nil, newError(api.ReasonTooLarge, "cannot decode %s: %w", what, fault)
	}
	in := &Install{component: component, name: u.GetName(), namespace: u.GetNamespace()}
	in.deletion = u.GetAnnotations()[api.DeletionPolicyAnnotation]
	if in.target, err = installNamespace(component, u.GetAnnotations()); err != nil {
		return nil, err
	}
	if in.verification, err = readVerificationMode(component, u.GetAnnotations()); err != nil {
		return nil, err
	}
	in.installed, _, _ = unstructured.NestedString(u.Object, "status", "version")
	if in.patches, err = takePatches(spec); err != nil {
		return nil, newError(reasonWithDefault(err, api.ReasonInvalidSpec), "cannot decode %s: %w", what, err)
	}
	if err := takeNamespaceAlias(spec); err != nil {
		return nil, newError(api.ReasonInvalidSpec, "cannot decode %s: %w", what, err)
	}
	if in.references, in.mentioned, err = referencesOf(spec); err != nil {
		return nil, newError(api.ReasonInvalidSpec, "cannot decode %s: %w", what, err)
	}
	if err := in.setSpec(spec); err != nil {
		return nil, newError(api.ReasonInvalidSpec, "cannot decode %s: %w", what, err)
	}
	if err := checkConfigYAML(in.componentSpec()); err != nil {
		return nil, newError(api.ReasonInvalidSpec, "cannot decode %s: %w", what, err)
	}
	in.content = in.contentHash()
	return in, nil
}

func componentOf(u *unstructured.Unstructured) (api.Component, error) {
	for _, c := range api.Components() {
		if u.GetKind() == c.Kind() && u.GetAPIVersion() == api.Group+"/"+crVersion {
			return c, nil
		}
	}
	return "", newError(api.ReasonInvalidSpec, "cannot decode %s %q of %s: want KnativeServing or KnativeEventing of %s/%s",
		u.GetKind(), objectName(u.GetNamespace(), u.GetName()), u.GetAPIVersion(), api.Group, crVersion)
}

// specOf returns a shallow copy of the spec; an empty map for an absent spec.
func specOf(u *unstructured.Unstructured) (map[string]any, error) {
	value, found := u.Object["spec"]
	if !found || value == nil {
		return map[string]any{}, nil
	}
	spec, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("spec is %T, want an object", value)
	}
	return maps.Clone(spec), nil
}

// takeNamespaceAlias moves spec.namespaceConfiguration to spec.namespace.
func takeNamespaceAlias(spec map[string]any) error {
	const alias, field = "namespaceConfiguration", "namespace"
	value, found := spec[alias]
	if !found {
		return nil
	}
	if own, found := spec[field]; found && !reflect.DeepEqual(own, value) {
		return fmt.Errorf("spec.%s and spec.%s are two names of one field and differ: remove one", field, alias)
	}
	spec[field] = value
	delete(spec, alias)
	return nil
}

// setSpec decodes spec into the operator's types and sets aside the fields that do not affect a bundle.
func (i *Install) setSpec(spec map[string]any) error {
	meta := metav1.ObjectMeta{Name: i.name, Namespace: i.target}
	var common *base.CommonSpec
	switch i.component {
	case api.Serving:
		i.serving = &v1beta1.KnativeServing{ObjectMeta: meta}
		i.serving.SetGroupVersionKind(v1beta1.SchemeGroupVersion.WithKind(i.component.Kind()))
		if err := decodeStrict(spec, &i.serving.Spec); err != nil {
			return err
		}
		common = &i.serving.Spec.CommonSpec
	case api.Eventing:
		i.eventing = &v1beta1.KnativeEventing{ObjectMeta: meta}
		i.eventing.SetGroupVersionKind(v1beta1.SchemeGroupVersion.WithKind(i.component.Kind()))
		if err := decodeStrict(spec, &i.eventing.Spec); err != nil {
			return err
		}
		common = &i.eventing.Spec.CommonSpec
	default:
		return fmt.Errorf("component %q is unknown", i.component)
	}
	i.reference, common.ClusterProfileRef = common.ClusterProfileRef, nil
	return nil
}

func decodeStrict(spec map[string]any, into any) error {
	data, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	strict, err := kjson.UnmarshalStrict(data, into)
	if err != nil {
		return err
	}
	if len(strict) == 0 {
		return nil
	}
	problems := make([]string, 0, len(strict))
	for _, e := range strict {
		problems = append(problems, e.Error())
	}
	slices.Sort(problems)
	return fmt.Errorf("spec: %s", strings.Join(problems, ", "))
}

func objectName(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

// DecodeYAML reads every KnativeServing and KnativeEventing of a YAML stream, in order. Any other object and any repeated
// key is an error.
func DecodeYAML(data []byte) ([]*Install, error) {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	var out []*Install
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, newError(api.ReasonInvalidSpec, "cannot read YAML: %w", err)
		}
		u := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict(document, &u.Object); err != nil {
			return nil, newError(api.ReasonInvalidSpec, "cannot read YAML: %w", err)
		}
		if len(u.Object) == 0 {
			continue
		}
		in, err := Decode(u)
		if err != nil {
			return nil, err
		}
		out = append(out, in)
	}
	if len(out) == 0 {
		return nil, newError(api.ReasonInvalidSpec, "cannot read YAML: it has no KnativeServing and no KnativeEventing")
	}
	return out, nil
}
