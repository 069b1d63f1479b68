// Copyright Contributors to the Open Cluster Management project

package render

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// dropServerFields drops what an API server writes, and owners, which are somebody else's objects on another cluster.
func dropServerFields(d *draft) error {
	d.each(func(u *unstructured.Unstructured) {
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

// scaler is what decides about the replicas of a workload on the spoke.
type scaler struct {
	by string
	// fromZero says that it only starts the workload: a number that the user chose stays.
	fromZero bool
}

// controllerScaled are the workloads that Knative's controllers scale, by name.
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

// scalers are the scaled workloads of the draft.
func (d *draft) scalers() map[workloadKey]scaler {
	out := map[workloadKey]scaler{}
	controllers := controllerScaled()
	d.each(func(u *unstructured.Unstructured) {
		if s, found := controllers[u.GetName()]; found && isWorkload(u) {
			out[keyOf(u)] = s
		}
	})
	d.each(func(u *unstructured.Unstructured) {
		if !is(u, "autoscaling", "HorizontalPodAutoscaler") && !is(u, "keda.sh", "ScaledObject") {
			return
		}
		name, _, _ := unstructured.NestedString(u.Object, "spec", "scaleTargetRef", "name")
		kind, _, _ := unstructured.NestedString(u.Object, "spec", "scaleTargetRef", "kind")
		key := workloadKey{firstOf(kind, "Deployment"), u.GetNamespace(), name}
		out[key] = scaler{by: u.GetKind() + "/" + u.GetName()}
	})
	return out
}

func isWorkload(u *unstructured.Unstructured) bool {
	return is(u, "apps", "Deployment") || is(u, "apps", "StatefulSet")
}

func keyOf(u *unstructured.Unstructured) workloadKey {
	return workloadKey{u.GetKind(), u.GetNamespace(), u.GetName()}
}

// dropScaledReplicas leaves the number of replicas to what scales the workload on the spoke.
func dropScaledReplicas(d *draft) error {
	scalers := d.scalers()
	d.each(func(u *unstructured.Unstructured) {
		s, found := scalers[keyOf(u)]
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

// pingAdapter is the Deployment of PingSources.
const pingAdapter = "pingsource-mt-adapter"

// dropAdapterEnvironment leaves the environment of the PingSource adapter to the eventing controller. The controller
// compares it by position, NAMESPACE and SYSTEM_NAMESPACE first, and replaces it whenever it differs: what is left here
// must be the beginning of what it writes, or both would roll the Deployment for ever.
func dropAdapterEnvironment(d *draft) error {
	leading := []string{"NAMESPACE", "SYSTEM_NAMESPACE"}
	d.each(func(u *unstructured.Unstructured) {
		if !is(u, "apps", "Deployment") || u.GetName() != pingAdapter {
			return
		}
		eachContainer(u, func(c map[string]any) {
			env, ok := c["env"].([]any)
			if !ok || c["name"] != "dispatcher" {
				return
			}
			env = slices.DeleteFunc(env, func(e any) bool { return strings.HasPrefix(variable(e), "K_") })
			slices.SortStableFunc(env, func(a, b any) int { return place(leading, variable(a)) - place(leading, variable(b)) })
			c["env"] = env
		})
	})
	return nil
}

func variable(e any) string {
	m, _ := e.(map[string]any)
	name, _ := m["name"].(string)
	return name
}

// place is the index of s in list, and the length of list when it is not there.
func place(list []string, s string) int {
	if at := slices.Index(list, s); at >= 0 {
		return at
	}
	return len(list)
}

// dropWebhookFields drops what Knative's webhooks write into their own configurations and CRDs: rules and caBundle. A
// namespace selector that a release or a user set stays, completed to what Knative makes of it, so that both agree:
// the webhooks for ConfigMaps never write one, and without it they would answer for every namespace of the cluster.
func dropWebhookFields(d *draft) error {
	d.each(func(u *unstructured.Unstructured) {
		if isCRD(u) {
			unstructured.RemoveNestedField(u.Object, "spec", "conversion", "webhook", "clientConfig", "caBundle")
		}
		if u.GroupVersionKind().Group != "admissionregistration.k8s.io" {
			return
		}
		eachWebhook(u, func(w map[string]any) {
			if config, ok := w["clientConfig"].(map[string]any); ok {
				delete(config, "caBundle")
			}
			if !selfManaged(u, w) {
				return
			}
			delete(w, "rules")
			completeSelectors(u.GetName(), w)
		})
	})
	return nil
}

// selfManaged tells whether a webhook of Knative keeps this entry itself: it looks for the entry with the name of its
// configuration.
func selfManaged(u *unstructured.Unstructured, w map[string]any) bool {
	return w["name"] == u.GetName() && strings.HasSuffix(u.GetName(), ".knative.dev")
}

// completeSelectors writes the namespace selector as Knative's webhooks complete it: their own expressions, then the
// foreign ones. Bindings write both selectors from what the cluster's bindings are, so theirs are dropped.
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

// dropAggregatedRules leaves the rules of aggregated ClusterRoles to the cluster's aggregation controller.
func dropAggregatedRules(d *draft) error {
	d.each(func(u *unstructured.Unstructured) {
		if is(u, "rbac.authorization.k8s.io", "ClusterRole") && u.Object["aggregationRule"] != nil {
			delete(u.Object, "rules")
		}
	})
	return nil
}
