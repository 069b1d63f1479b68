// Copyright Contributors to the Open Cluster Management project

package render

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// workloads are the Deployments and StatefulSets of the draft.
func (d *draft) workloads() []Workload {
	scalers, services := d.scalers(), d.webhookServices()
	var out []Workload
	d.each(func(u *unstructured.Unstructured) {
		if !isWorkload(u) {
			return
		}
		w := Workload{Kind: u.GetKind(), Namespace: u.GetNamespace(), Name: u.GetName(), Webhook: d.serves(services, u)}
		n, found, _ := unstructured.NestedInt64(u.Object, "spec", "replicas")
		s, scaled := scalers[keyOf(u)]
		switch {
		case scaled && !found:
			w.ScaledBy = s.by
		case found:
			replicas := int32(min(max(n, 0), 1<<31-1)) //nolint:gosec // bounded
			w.Replicas = &replicas
		default:
			one := int32(1)
			w.Replicas = &one
		}
		out = append(out, w)
	})
	slices.SortFunc(out, func(a, b Workload) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// webhookServices are the Services that webhook configurations and converting CRDs call.
func (d *draft) webhookServices() map[ObjectID]bool {
	out := map[ObjectID]bool{}
	add := func(config any) {
		m, _ := config.(map[string]any)
		service, _ := m["service"].(map[string]any)
		if name := stringOf(service["name"]); name != "" {
			out[ObjectID{Kind: "Service", Namespace: stringOf(service["namespace"]), Name: name}] = true
		}
	}
	d.each(func(u *unstructured.Unstructured) {
		eachWebhook(u, func(w map[string]any) { add(w["clientConfig"]) })
		if isCRD(u) {
			config, _, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "conversion", "webhook", "clientConfig")
			add(config)
		}
	})
	return out
}

// serves tells whether the pods of a workload are behind one of the Services.
func (d *draft) serves(services map[ObjectID]bool, workload *unstructured.Unstructured) bool {
	pods, _, _ := unstructured.NestedStringMap(workload.Object, "spec", "template", "metadata", "labels")
	return slices.ContainsFunc(d.objects, func(u *unstructured.Unstructured) bool {
		if !services[idOf(u)] || u.GetNamespace() != workload.GetNamespace() {
			return false
		}
		selector, _, _ := unstructured.NestedStringMap(u.Object, "spec", "selector")
		return len(selector) > 0 && labels.SelectorFromSet(selector).Matches(labels.Set(pods))
	})
}

func (d *draft) jobs() []JobRef {
	var out []JobRef
	d.each(func(u *unstructured.Unstructured) {
		if is(u, "batch", "Job") {
			out = append(out, JobRef{Namespace: u.GetNamespace(), Name: u.GetName()})
		}
	})
	slices.SortFunc(out, func(a, b JobRef) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// resources maps kinds to their plural resources.
type resources map[schema.GroupKind]string

// resourcesOf knows the kinds whose CRDs are among the objects; of others it makes the plural that Kubernetes' own
// kinds have.
func resourcesOf(objects []*unstructured.Unstructured) resources {
	out := resources{}
	for _, u := range objects {
		if !isCRD(u) {
			continue
		}
		group, _, _ := unstructured.NestedString(u.Object, "spec", "group")
		kind, _, _ := unstructured.NestedString(u.Object, "spec", "names", "kind")
		plural, _, _ := unstructured.NestedString(u.Object, "spec", "names", "plural")
		out[schema.GroupKind{Group: group, Kind: kind}] = plural
	}
	return out
}

func (r resources) of(gvk schema.GroupVersionKind) schema.GroupVersionResource {
	if plural, found := r[gvk.GroupKind()]; found {
		return gvk.GroupVersion().WithResource(plural)
	}
	return gvk.GroupVersion().WithResource(plural(strings.ToLower(gvk.Kind)))
}

// plural is how Kubernetes' own kinds and those of well-behaved CRDs make their plural.
func plural(kind string) string {
	switch {
	case strings.HasSuffix(kind, "y") && !strings.HasSuffix(kind, "ay") && !strings.HasSuffix(kind, "ey"):
		return strings.TrimSuffix(kind, "y") + "ies"
	case strings.HasSuffix(kind, "s"), strings.HasSuffix(kind, "x"), strings.HasSuffix(kind, "ch"):
		return kind + "es"
	default:
		return kind + "s"
	}
}
