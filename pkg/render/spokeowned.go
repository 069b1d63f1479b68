// Copyright Contributors to the Open Cluster Management project

package render

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// dropServerFields drops the fields that an API server writes, and owner references, which name objects of another cluster.
func dropServerFields(d *draft) error {
	d.forEachObject(func(u *unstructured.Unstructured) {
		delete(u.Object, "status")
		metadata, _ := u.Object["metadata"].(map[string]any)
		for _, field := range []string{
			"creationTimestamp", "resourceVersion", "uid", "generation", "selfLink", "managedFields", "ownerReferences",
		} {
			delete(metadata, field)
		}
		template, _, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "template", "metadata")
		if m, ok := template.(map[string]any); ok && m["creationTimestamp"] == nil {
			delete(m, "creationTimestamp")
		}
	})
	return nil
}

// scaler is the object or controller that decides the replicas of a workload on the cluster.
type scaler struct {
	by string
	// fromZero reports whether the scaler only starts the workload: a number that the user chose stays.
	fromZero bool
}

// controllerScaled returns the workloads that Knative's controllers scale, by name.
func controllerScaled() map[string]scaler {
	kafka := scaler{by: "kafka-controller"}
	return map[string]scaler{
		pingAdapter:                {by: "eventing-controller", fromZero: true},
		"kafka-broker-dispatcher":  kafka,
		"kafka-source-dispatcher":  kafka,
		"kafka-channel-dispatcher": kafka,
	}
}

type workloadKey struct{ kind, namespace, name string }

// findScalers returns the scaled workloads of the draft with their scalers.
func (d *draft) findScalers() map[workloadKey]scaler {
	out := map[workloadKey]scaler{}
	controllers := controllerScaled()
	d.forEachObject(func(u *unstructured.Unstructured) {
		if s, found := controllers[u.GetName()]; found && isWorkload(u) {
			out[workloadKeyOf(u)] = s
		}
	})
	d.forEachObject(func(u *unstructured.Unstructured) {
		if !isKind(u, "autoscaling", "HorizontalPodAutoscaler") && !isKind(u, "keda.sh", "ScaledObject") {
			return
		}
		name, _, _ := unstructured.NestedString(u.Object, "spec", "scaleTargetRef", "name")
		kind, _, _ := unstructured.NestedString(u.Object, "spec", "scaleTargetRef", "kind")
		key := workloadKey{cmp.Or(kind, "Deployment"), u.GetNamespace(), name}
		out[key] = scaler{by: u.GetKind() + "/" + u.GetName()}
	})
	return out
}

func isWorkload(u *unstructured.Unstructured) bool {
	return kindOf(u).Feedback == WorkloadFeedback
}

func workloadKeyOf(u *unstructured.Unstructured) workloadKey {
	return workloadKey{u.GetKind(), u.GetNamespace(), u.GetName()}
}

// dropScaledReplicas removes the number of replicas from workloads that the cluster scales.
func dropScaledReplicas(d *draft) error {
	scalers := d.findScalers()
	d.forEachObject(func(u *unstructured.Unstructured) {
		s, found := scalers[workloadKeyOf(u)]
		if !found || !isWorkload(u) {
			return
		}
		if n, _, _ := unstructured.NestedInt64(u.Object, "spec", "replicas"); s.fromZero && n > 0 {
			return
		}
		unstructured.RemoveNestedField(u.Object, "spec", "replicas")
	})
	return nil
}

// pingAdapter is the name of the Deployment for PingSources.
const pingAdapter = "pingsource-mt-adapter"

// dropAdapterEnvironment leaves the environment of the PingSource adapter to the eventing controller. The controller
// compares the environment by position, NAMESPACE and SYSTEM_NAMESPACE first, and replaces an environment that differs. The
// remaining variables must be a prefix of the controller's list, or both writers would roll the Deployment for ever.
func dropAdapterEnvironment(d *draft) error {
	leading := []string{"NAMESPACE", "SYSTEM_NAMESPACE"}
	d.forEachObject(func(u *unstructured.Unstructured) {
		if !isKind(u, "apps", "Deployment") || u.GetName() != pingAdapter {
			return
		}
		eachContainer(u, func(c map[string]any) {
			env, ok := c["env"].([]any)
			if !ok || c["name"] != "dispatcher" {
				return
			}
			env = slices.DeleteFunc(env, func(e any) bool { return strings.HasPrefix(variableName(e), "K_") })
			slices.SortStableFunc(env, func(a, b any) int { return positionIn(leading, variableName(a)) - positionIn(leading, variableName(b)) })
			c["env"] = env
		})
	})
	return nil
}

func variableName(e any) string {
	m, _ := e.(map[string]any)
	name, _ := m["name"].(string)
	return name
}

// positionIn returns the index of s in list, and the length of list when s is absent.
func positionIn(list []string, s string) int {
	if at := slices.Index(list, s); at >= 0 {
		return at
	}
	return len(list)
}

// dropWebhookFields drops the fields that Knative's webhooks write into their own configurations and CRDs: rules and
// caBundle. The configurations and CRDs of a user keep both. A namespace selector of a release or a user stays, completed to the form that Knative writes, so that both
// writers agree: the webhooks for ConfigMaps never write a selector, and without a selector would serve every namespace of
// the cluster.
func dropWebhookFields(d *draft) error {
	d.forEachObject(func(u *unstructured.Unstructured) {
		injected := isInjected(u)
		if isCRD(u) && (injected || isGroupOfKnative(u)) {
			unstructured.RemoveNestedField(u.Object, "spec", "conversion", "webhook", "clientConfig", "caBundle")
		}
		if u.GroupVersionKind().Group != "admissionregistration.k8s.io" {
			return
		}
		eachWebhook(u, func(w map[string]any) {
			if config, ok := w["clientConfig"].(map[string]any); ok && (injected || isSelfManaged(u, w)) {
				delete(config, "caBundle")
			}
			if !isSelfManaged(u, w) {
				return
			}
			delete(w, "rules")
			completeSelectors(u.GetName(), w)
		})
	})
	return nil
}

// isInjected reports whether cert-manager writes the certificate of a user's webhooks: a value of the manifest is a placeholder.
func isInjected(u *unstructured.Unstructured) bool {
	for key := range u.GetAnnotations() {
		if strings.HasPrefix(key, "cert-manager.io/inject-") {
			return true
		}
	}
	return false
}

// isGroupOfKnative reports whether a CRD defines a kind of Knative, whose webhooks write the certificate of the conversion.
func isGroupOfKnative(crd *unstructured.Unstructured) bool {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	return strings.HasSuffix(group, ".knative.dev")
}

// isSelfManaged reports whether a webhook of Knative maintains the entry: the webhook looks for an entry with the name of
// the configuration.
func isSelfManaged(u *unstructured.Unstructured, w map[string]any) bool {
	return w["name"] == u.GetName() && strings.HasSuffix(u.GetName(), ".knative.dev")
}

// completeSelectors writes the namespace selector as Knative's webhooks complete a selector: Knative's own expression
// first, then the foreign expressions. Webhooks for bindings compute both selectors from the bindings of the cluster, so
// that both are dropped.
func completeSelectors(configuration string, w map[string]any) {
	selector, found := w["namespaceSelector"].(map[string]any)
	switch {
	case strings.HasPrefix(configuration, "config."):
		return
	case strings.Contains(configuration, "bindings.webhook."):
		delete(w, "namespaceSelector")
		delete(w, "objectSelector")
		return
	case !found || len(selector) == 0:
		delete(w, "namespaceSelector")
		return
	}
	own := map[string]any{"key": "webhooks.knative.dev/exclude", "operator": "DoesNotExist"}
	completed := []any{own}
	expressions, _ := selector["matchExpressions"].([]any)
	for _, e := range expressions {
		if m, _ := e.(map[string]any); !strings.Contains(stringOf(m["key"]), "knative.dev") {
			completed = append(completed, e)
		}
	}
	selector["matchExpressions"] = completed
}

func stringOf(v any) string {
	s, _ := v.(string)
	return s
}

// dropAggregatedRules drops the rules of aggregated ClusterRoles, which the cluster's aggregation controller writes.
func dropAggregatedRules(d *draft) error {
	d.forEachObject(func(u *unstructured.Unstructured) {
		if isKind(u, "rbac.authorization.k8s.io", "ClusterRole") && u.Object["aggregationRule"] != nil {
			delete(u.Object, "rules")
		}
	})
	return nil
}
