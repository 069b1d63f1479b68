// Copyright Contributors to the Open Cluster Management project

package render

import (
	"cmp"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// nameJobs makes the operator's Job names final. The operator names a Job after the version and keeps generateName, which a
// ManifestWork must not contain.
func nameJobs(d *draft) error {
	d.forEachObject(func(u *unstructured.Unstructured) {
		prefix := u.GetGenerateName()
		if prefix == "" {
			return
		}
		if u.GetName() == "" {
			u.SetName(strings.TrimSuffix(prefix, "-") + "-" + d.version)
		}
		u.SetGenerateName("")
	})
	return nil
}

// keepFinishedJobs removes ttlSecondsAfterFinished: a finished Job is the record of its run. A Job that Kubernetes removes
// after a time counts as missing, and a delivery would create the Job again.
func keepFinishedJobs(d *draft) error {
	d.forEachObject(func(u *unstructured.Unstructured) {
		if isKind(u, "batch", "Job") {
			unstructured.RemoveNestedField(u.Object, "spec", "ttlSecondsAfterFinished")
		}
	})
	return nil
}

// dropNulls drops fields that are null, which means the same as absent. A merge patch of a ManifestWork cannot store null,
// so that a work with nulls never equals the desired work and is patched again and again.
func dropNulls(d *draft) error {
	d.forEachObject(func(u *unstructured.Unstructured) { withoutNulls(u.Object) })
	return nil
}

func withoutNulls(value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, nested := range v {
			if nested == nil {
				delete(v, key)
				continue
			}
			withoutNulls(nested)
		}
	case []any:
		for _, nested := range v {
			withoutNulls(nested)
		}
	}
}

// deduplicateObjects keeps every object once. Releases repeat objects: two files contain the CRDs, and some sources and the
// security guard replace an object of the core. The operator applies all in turn, so that the last object counts.
// Namespaces are merged: the release, each ingress and each source bring the install namespace.
func deduplicateObjects(d *draft) error {
	index := make(map[ObjectID]int, len(d.objects))
	kept := d.objects[:0]
	for _, u := range d.objects {
		id := objectIDOf(u)
		at, found := index[id]
		switch {
		case !found:
			index[id] = len(kept)
			kept = append(kept, u)
		case isKind(u, "", "Namespace"):
			mergeMetadata(kept[at], u)
		default:
			kept[at] = u
		}
	}
	clear(d.objects[len(kept):])
	d.objects = kept
	return nil
}

func mergeMetadata(into, from *unstructured.Unstructured) {
	if labels := labels.Merge(into.GetLabels(), from.GetLabels()); len(labels) > 0 {
		into.SetLabels(labels)
	}
	if annotations := labels.Merge(into.GetAnnotations(), from.GetAnnotations()); len(annotations) > 0 {
		into.SetAnnotations(annotations)
	}
}

// ensureNamespace adds the install namespace to manifests without one, such as those of spec.manifests.
func ensureNamespace(d *draft) error {
	for _, u := range d.objects {
		if isKind(u, "", "Namespace") && u.GetName() == d.namespace {
			return nil
		}
	}
	ns := &unstructured.Unstructured{}
	ns.SetAPIVersion("v1")
	ns.SetKind("Namespace")
	ns.SetName(d.namespace)
	ns.SetLabels(map[string]string{nameLabel: string(d.component)})
	if c := d.spec.GetNamespaceConfiguration(); c != nil {
		ns.SetLabels(labels.Merge(ns.GetLabels(), c.Labels))
		if len(c.Annotations) > 0 {
			ns.SetAnnotations(c.Annotations)
		}
	}
	d.objects = append(d.objects, ns)
	return nil
}

// restoreClusterScope removes the namespace, which the operator adds, from objects of kinds without namespaces.
func restoreClusterScope(d *draft) error {
	scoped := map[schema.GroupKind]bool{}
	d.forEachObject(func(u *unstructured.Unstructured) {
		if scope, _, _ := unstructured.NestedString(u.Object, "spec", "scope"); isCRD(u) && scope == "Cluster" {
			group, _, _ := unstructured.NestedString(u.Object, "spec", "group")
			kind, _, _ := unstructured.NestedString(u.Object, "spec", "names", "kind")
			scoped[schema.GroupKind{Group: group, Kind: kind}] = true
		}
	})
	d.forEachObject(func(u *unstructured.Unstructured) {
		if gk := u.GroupVersionKind().GroupKind(); scoped[gk] || rowOf(gk).lacksScope {
			unstructured.RemoveNestedField(u.Object, "metadata", "namespace")
		}
	})
	return nil
}

func isCRD(u *unstructured.Unstructured) bool {
	return isKind(u, "apiextensions.k8s.io", "CustomResourceDefinition")
}

// mirrorQueueImage applies spec.registry to the queue-proxy sidecar of user pods, too. A ConfigMap names the image of the
// sidecar, and the operator's image transformer does not read ConfigMaps.
func mirrorQueueImage(d *draft) error {
	const key = "queue-sidecar-image"
	registry := d.spec.GetRegistry()
	config := d.spec.GetConfig()
	if config["deployment"][key] != "" || config["config-deployment"][key] != "" {
		return nil
	}
	d.forEachObject(func(u *unstructured.Unstructured) {
		if !isKind(u, "", "ConfigMap") || u.GetName() != "config-deployment" {
			return
		}
		current, found, _ := unstructured.NestedString(u.Object, "data", key)
		if !found {
			return
		}
		image := registry.Override["queue-proxy"]
		if image == "" && registry.Default != "" {
			image = strings.ReplaceAll(registry.Default, "${NAME}", imageName(current))
		}
		if image != "" {
			_ = unstructured.SetNestedField(u.Object, image, "data", key)
		}
	})
	return nil
}

// imageName returns the last element of an image reference, without tag and digest.
func imageName(image string) string {
	name := image[strings.LastIndex(image, "/")+1:]
	name, _, _ = strings.Cut(name, "@")
	name, _, _ = strings.Cut(name, ":")
	return name
}

// useInstallNamespace corrects references to the component's usual namespace that the operator does not change.
func useInstallNamespace(d *draft) error {
	usual := d.component.InstallNamespace()
	if d.namespace == usual {
		return nil
	}
	swap := func(s string) string {
		if s == usual {
			return d.namespace
		}
		return s
	}
	d.forEachObject(func(u *unstructured.Unstructured) {
		switch {
		case isKind(u, "", "ConfigMap") && u.GetName() == "kourier-bootstrap":
			const key = "envoy-bootstrap.yaml"
			if s, found, _ := unstructured.NestedString(u.Object, "data", key); found {
				_ = unstructured.SetNestedField(u.Object, strings.ReplaceAll(s, usual, d.namespace), "data", key)
			}
		case isKind(u, "", "ConfigMap") && u.GetName() == "config-br-defaults" && !setsKey(d.spec.GetConfig(), "br-defaults", brokerDefaults):
			if s, found, _ := unstructured.NestedString(u.Object, "data", brokerDefaults); found {
				_ = unstructured.SetNestedField(u.Object, strings.ReplaceAll(s, "namespace: "+usual, "namespace: "+d.namespace), "data", brokerDefaults)
			}
		case isKind(u, "cert-manager.io", "Certificate"):
			names, _, _ := unstructured.NestedStringSlice(u.Object, "spec", "dnsNames")
			for n := range names {
				names[n] = strings.Replace(names[n], "."+usual+".svc", "."+d.namespace+".svc", 1)
			}
			if len(names) > 0 {
				_ = unstructured.SetNestedStringSlice(u.Object, names, "spec", "dnsNames")
			}
		case u.GroupVersionKind().Group == "admissionregistration.k8s.io":
			eachWebhook(u, func(w map[string]any) { swapSelector(w, swap) })
		case u.GroupVersionKind().Group == "apps":
			eachContainer(u, func(c map[string]any) { swapEnvironment(c, swap) })
		}
	})
	return nil
}

// brokerDefaults is the key of ConfigMap config-br-defaults that refers to the ConfigMap of Brokers without a spec.config.
const brokerDefaults = "default-br-config"

// setsKey reports whether spec.config sets a key of a ConfigMap, whose name may lack the prefix.
func setsKey(config map[string]map[string]string, name, key string) bool {
	_, isSet := config[name][key]
	_, isSetLong := config["config-"+name][key]
	return isSet || isSetLong
}

const metadataName = "kubernetes.io/metadata.name"

func swapSelector(webhook map[string]any, swap func(string) string) {
	selector, _ := webhook["namespaceSelector"].(map[string]any)
	if labels, ok := selector["matchLabels"].(map[string]any); ok {
		if s, ok := labels[metadataName].(string); ok {
			labels[metadataName] = swap(s)
		}
	}
	expressions, _ := selector["matchExpressions"].([]any)
	for _, e := range expressions {
		m, _ := e.(map[string]any)
		values, _ := m["values"].([]any)
		for n := range values {
			if s, ok := values[n].(string); ok && m["key"] == metadataName {
				values[n] = swap(s)
			}
		}
	}
}

func swapEnvironment(container map[string]any, swap func(string) string) {
	env, _ := container["env"].([]any)
	for _, e := range env {
		m, _ := e.(map[string]any)
		name, _ := m["name"].(string)
		if s, ok := m["value"].(string); ok && strings.HasSuffix(name, "_NAMESPACE") {
			m["value"] = swap(s)
		}
	}
}

// eachWebhook calls f with every webhook of a webhook configuration.
func eachWebhook(u *unstructured.Unstructured, f func(map[string]any)) {
	webhooks, _ := u.Object["webhooks"].([]any)
	for _, w := range webhooks {
		if m, ok := w.(map[string]any); ok {
			f(m)
		}
	}
}

// eachContainer calls f with every container, init containers too, of an object with a pod template.
func eachContainer(u *unstructured.Unstructured, f func(map[string]any)) {
	pod, _, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "template", "spec")
	m, _ := pod.(map[string]any)
	for _, field := range []string{"initContainers", "containers"} {
		containers, _ := m[field].([]any)
		for _, c := range containers {
			if container, ok := c.(map[string]any); ok {
				f(container)
			}
		}
	}
}

// describeObject returns the kind and name of an object for a message.
func describeObject(u *unstructured.Unstructured) string {
	return fmt.Sprintf("%s %q", u.GetKind(), objectName(u.GetNamespace(), cmp.Or(u.GetName(), u.GetGenerateName())))
}
