// Copyright Contributors to the Open Cluster Management project

package comparison

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"open-cluster-management.io/knative-addon/pkg/addon"
	"open-cluster-management.io/knative-addon/pkg/api"
	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
	"open-cluster-management.io/knative-addon/pkg/installations"
	"open-cluster-management.io/knative-addon/pkg/revision"
)

// deploymentKind is the kind of the configuration of add-ons with variables, placement, proxies and mirrors.
const deploymentKind = "AddOnDeploymentConfig"

// resourceKey names a KnativeServing or KnativeEventing.
type resourceKey struct {
	component api.Component
	name      types.NamespacedName
}

// File holds the objects of a file, by name.
type File struct {
	resources   map[resourceKey]*unstructured.Unstructured
	deployments map[types.NamespacedName]*addon.Deployment
	fleets      []*fleetv1alpha1.KnativeFleet
	// childless describes the templates of KnativeFleets without a child on the hub.
	childless []string
}

// ReadFile decodes a stream of YAML or JSON with KnativeServings, KnativeEventings, KnativeFleets and AddOnDeploymentConfigs.
// namespace is the namespace of objects that name none.
func ReadFile(data []byte, namespace string) (*File, error) {
	out := &File{resources: map[resourceKey]*unstructured.Unstructured{}, deployments: map[types.NamespacedName]*addon.Deployment{}}
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("cannot read YAML: %w", err)
		}
		encoded, err := yaml.YAMLToJSONStrict(document)
		if err != nil {
			return nil, fmt.Errorf("cannot read YAML: %w", err)
		}
		u := &unstructured.Unstructured{}
		if err := utiljson.Unmarshal(encoded, &u.Object); err != nil {
			return nil, fmt.Errorf("cannot read YAML: %w", err)
		}
		if len(u.Object) == 0 {
			continue
		}
		if u.GetNamespace() == "" {
			u.SetNamespace(namespace)
		}
		if err := out.add(u); err != nil {
			return nil, err
		}
	}
	if len(out.resources)+len(out.deployments)+len(out.fleets) == 0 {
		return nil, errors.New("the file has no KnativeServing, KnativeEventing, KnativeFleet or AddOnDeploymentConfig")
	}
	return out, nil
}

func (f *File) add(u *unstructured.Unstructured) error {
	name := types.NamespacedName{Namespace: u.GetNamespace(), Name: u.GetName()}
	if name.Namespace == "" || name.Name == "" {
		return fmt.Errorf("cannot compare %s %q: the object needs a name and a namespace, in the file or by --namespace", u.GetKind(), u.GetName())
	}
	var err error
	switch u.GetKind() {
	case api.Serving.Kind():
		f.resources[resourceKey{api.Serving, name}] = u
	case api.Eventing.Kind():
		f.resources[resourceKey{api.Eventing, name}] = u
	case deploymentKind:
		f.deployments[name], err = addon.DecodeDeployment(u)
	case fleetv1alpha1.Kind:
		fleet := &fleetv1alpha1.KnativeFleet{}
		if err = runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, fleet); err != nil {
			return fmt.Errorf("cannot read KnativeFleet %q: %w", name, err)
		}
		f.fleets = append(f.fleets, fleet)
	default:
		return fmt.Errorf("cannot compare %s %q: use a KnativeServing, KnativeEventing, KnativeFleet or AddOnDeploymentConfig", u.GetKind(), name)
	}
	return err
}

// addChildren adds the children of the KnativeFleets, as the hub has them, with the templates of the file, and notes the templates without a
// child.
func (f *File) addChildren(objects installations.Objects) error {
	for _, fleet := range f.fleets {
		for component, template := range map[api.Component]*fleetv1alpha1.Template{api.Serving: fleet.Spec.Serving, api.Eventing: fleet.Spec.Eventing} {
			if template == nil {
				continue
			}
			if err := f.addChildrenOf(fleet, component, template, objects.Resources[component]); err != nil {
				return fmt.Errorf("cannot read the template of %s of KnativeFleet \"%s/%s\": %w", component.Kind(), fleet.Namespace, fleet.Name, err)
			}
		}
	}
	return nil
}

// addChildrenOf adds the children that have one template of a KnativeFleet.
func (f *File) addChildrenOf(
	fleet *fleetv1alpha1.KnativeFleet, component api.Component, template *fleetv1alpha1.Template, resources []*unstructured.Unstructured,
) error {
	hasChild := false
	for _, child := range resources {
		if child.GetNamespace() != fleet.Namespace || child.GetLabels()[api.FleetLabel] != fleet.Name {
			continue
		}
		changed, err := applyTemplate(child, template)
		if err != nil {
			return err
		}
		f.resources[resourceKey{component, client.ObjectKeyFromObject(child)}] = changed
		hasChild = true
	}
	if !hasChild {
		f.childless = append(f.childless, fmt.Sprintf(
			"the %s template of KnativeFleet %s/%s yet: the installations that the KnativeFleet begins are not compared", component, fleet.Namespace, fleet.Name))
	}
	return nil
}

// applyTemplate returns a child with the spec and the annotations of a template. The child keeps its ClusterProfile.
func applyTemplate(child *unstructured.Unstructured, template *fleetv1alpha1.Template) (*unstructured.Unstructured, error) {
	spec := map[string]any{}
	if len(template.Spec.Raw) > 0 {
		if err := utiljson.Unmarshal(template.Spec.Raw, &spec); err != nil {
			return nil, err
		}
	}
	if reference, refers, _ := unstructured.NestedFieldCopy(child.Object, "spec", "clusterProfileRef"); refers {
		spec["clusterProfileRef"] = reference
	}
	out := child.DeepCopy()
	out.Object["spec"] = spec
	revision.ApplyMetadata(template.Metadata, out)
	return out, nil
}
