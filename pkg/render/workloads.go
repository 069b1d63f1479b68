// Copyright Contributors to the Open Cluster Management project

package render

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"open-cluster-management.io/knative-addon/pkg/workload"
)

// WorkloadsOf returns the workloads among objects that any version of this package has rendered, so that an installation
// can be removed without another rendering.
func WorkloadsOf(objects []*unstructured.Unstructured) []workload.Expected {
	return (&draft{objects: objects}).listWorkloads()
}

// listWorkloads returns the Deployments and StatefulSets of the draft.
func (d *draft) listWorkloads() []workload.Expected {
	scalers, services := d.findScalers(), d.webhookServices()
	var out []workload.Expected
	d.forEachObject(func(u *unstructured.Unstructured) {
		if !isWorkload(u) {
			return
		}
		w := workload.Expected{Kind: u.GetKind(), Namespace: u.GetNamespace(), Name: u.GetName(), Webhook: d.servesWebhook(services, u)}
		n, found, _ := unstructured.NestedInt64(u.Object, "spec", "replicas")
		s, scaled := scalers[workloadKeyOf(u)]
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
	slices.SortFunc(out, func(a, b workload.Expected) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// webhookServices returns the Services that webhook configurations and converting CRDs call.
func (d *draft) webhookServices() map[ObjectID]bool {
	out := map[ObjectID]bool{}
	add := func(config any) {
		m, _ := config.(map[string]any)
		service, _ := m["service"].(map[string]any)
		if name := stringOf(service["name"]); name != "" {
			out[ObjectID{Kind: "Service", Namespace: stringOf(service["namespace"]), Name: name}] = true
		}
	}
	d.forEachObject(func(u *unstructured.Unstructured) {
		eachWebhook(u, func(w map[string]any) { add(w["clientConfig"]) })
		if isCRD(u) {
			config, _, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "conversion", "webhook", "clientConfig")
			add(config)
		}
	})
	return out
}

// servesWebhook reports whether a Service selects the pods of a workload.
func (d *draft) servesWebhook(services map[ObjectID]bool, workload *unstructured.Unstructured) bool {
	pods, _, _ := unstructured.NestedStringMap(workload.Object, "spec", "template", "metadata", "labels")
	return slices.ContainsFunc(d.objects, func(u *unstructured.Unstructured) bool {
		if !services[objectIDOf(u)] || u.GetNamespace() != workload.GetNamespace() {
			return false
		}
		selector, _, _ := unstructured.NestedStringMap(u.Object, "spec", "selector")
		return len(selector) > 0 && labels.SelectorFromSet(selector).Matches(labels.Set(pods))
	})
}

func (d *draft) listJobs() []workload.JobRef {
	var out []workload.JobRef
	d.forEachObject(func(u *unstructured.Unstructured) {
		if isKind(u, "batch", "Job") {
			out = append(out, workload.JobRef{Namespace: u.GetNamespace(), Name: u.GetName()})
		}
	})
	slices.SortFunc(out, func(a, b workload.JobRef) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// resources maps kinds to their plural resources.
type resources map[schema.GroupKind]string

// resourcesOf maps the kinds whose CRDs are among the objects. The resource of any other kind is the regular plural.
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

func (r resources) resourceOf(gvk schema.GroupVersionKind) schema.GroupVersionResource {
	if plural, found := r[gvk.GroupKind()]; found {
		return gvk.GroupVersion().WithResource(plural)
	}
	return gvk.GroupVersion().WithResource(pluralOf(strings.ToLower(gvk.Kind)))
}

// pluralOf returns the plural of a lower-case kind by the rules of Kubernetes.
func pluralOf(kind string) string {
	switch {
	case strings.HasSuffix(kind, "y") && !strings.HasSuffix(kind, "ay") && !strings.HasSuffix(kind, "ey"):
		return strings.TrimSuffix(kind, "y") + "ies"
	case strings.HasSuffix(kind, "s"), strings.HasSuffix(kind, "x"), strings.HasSuffix(kind, "ch"):
		return kind + "es"
	default:
		return kind + "s"
	}
}
