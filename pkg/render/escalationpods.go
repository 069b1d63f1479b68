// Copyright Contributors to the Open Cluster Management project

package render

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"open-cluster-management.io/knative-addon/pkg/message"
)

// tuningVariables returns the variables that an override may set.
func tuningVariables() []string {
	return []string{
		"ENABLE_SECRET_INFORMER_FILTERING_BY_CERT_UID", "GOGC", "GOMAXPROCS", "GOMEMLIMIT", "KUBE_API_BURST", "KUBE_API_QPS",
		"SINK_BINDING_SELECTION_MODE",
	}
}

// computeResources returns the resources of every node.
func computeResources() []string { return []string{"cpu", "ephemeral-storage", "memory"} }

// isPlainValue reports whether the value of a variable refers to no other variable.
func isPlainValue(value string) bool { return !strings.Contains(value, "$") }

// domainOf returns the domain of the key of a label or annotation; empty without a domain.
func domainOf(key string) string {
	domain, _, found := strings.Cut(key, "/")
	if !found {
		return ""
	}
	return domain
}

// isWithinDomain reports whether a domain equals one of the parents or ends in a parent.
func isWithinDomain(domain string, others ...string) bool {
	return slices.ContainsFunc(others, func(other string) bool { return domain == other || strings.HasSuffix(domain, "."+other) })
}

// isPlainLabel reports whether a label may be added to objects and pods. Kubernetes and Knative act on labels of their own
// domains, such as the label for bundles of CAs that Knative trusts.
func isPlainLabel(key string) bool {
	return domainOf(key) == "app.kubernetes.io" || !isWithinDomain(domainOf(key), "kubernetes.io", "k8s.io", "knative.dev")
}

// isPodAnnotation reports whether an annotation may be set on objects and pods. Sidecar injectors read annotations of their
// domains, among them images and volumes, so that only known annotations are permitted.
func isPodAnnotation(key string) bool {
	return domainOf(key) == "" || isWithinDomain(domainOf(key), "app.kubernetes.io", "prometheus.io") || slices.Contains([]string{
		"cluster-autoscaler.kubernetes.io/safe-to-evict", "karpenter.sh/do-not-disrupt", "kubectl.kubernetes.io/default-container",
		"kubectl.kubernetes.io/restartedAt", "linkerd.io/inject", "sidecar.istio.io/inject",
	}, key)
}

// isServiceAnnotation reports whether an annotation may be set on a Service, where annotations configure the load balancers
// of clouds.
func isServiceAnnotation(key string) bool {
	return isPodAnnotation(key) || isWithinDomain(domainOf(key), "service.beta.kubernetes.io", "service.kubernetes.io", "cloud.google.com",
		"networking.gke.io", "metallb.io", "metallb.universe.tf")
}

// fieldRule judges a field that differs from the baseline; base or got is nil when the field is absent. The result is empty
// where the difference is permitted.
type fieldRule func(c *contentScan, base, got any) string

// permitAny permits every value. The rule serves fields about places, numbers and sizes.
func permitAny(*contentScan, any, any) string { return "" }

// podFields returns the fields of an object with a template for pods. An entry of a list of containers stands below "[]".
func podFields(string) map[string]fieldRule {
	const pod = "spec.template.spec."
	out := map[string]fieldRule{
		"metadata.labels": labelRule, "metadata.annotations": annotationRule(isPodAnnotation),
		"spec.template.metadata.labels": labelRule, "spec.template.metadata.annotations": annotationRule(isPodAnnotation),
		pod + "priorityClassName": priorityRule,
	}
	for _, field := range []string{
		"spec.replicas", "spec.strategy", "spec.updateStrategy", "spec.minReadySeconds", "spec.progressDeadlineSeconds",
		"spec.revisionHistoryLimit", "spec.backoffLimit", "spec.activeDeadlineSeconds", pod + "nodeSelector", pod + "tolerations", pod + "affinity",
		pod + "topologySpreadConstraints", pod + "terminationGracePeriodSeconds", pod + "imagePullSecrets",
	} {
		out[field] = permitAny
	}
	for _, list := range []string{"containers", "initContainers"} {
		container := pod + list + "[]."
		out[container+"image"] = imageRule
		out[container+"imagePullPolicy"] = permitAny
		out[container+"resources.limits"] = resourceRule
		out[container+"resources.requests"] = resourceRule
		out[container+"env"] = environmentRule
		for _, probe := range []string{"livenessProbe", "readinessProbe", "startupProbe"} {
			out[container+probe] = probeRule
		}
	}
	return out
}

// labelRule permits added labels. Labels of the release stay, since selectors and controllers read the labels.
func labelRule(_ *contentScan, base, got any) string {
	before, after := fieldsOf(base), fieldsOf(got)
	for _, key := range keysOf(before, after) {
		switch value, found := after[key]; {
		case before[key] == value && found:
		case hasKey(before, key) || !found:
			return fmt.Sprintf("label %q is the release's", key)
		case !isPlainLabel(key):
			return fmt.Sprintf("controllers of the cluster act on label %q", key)
		}
	}
	return ""
}

// annotationRule permits setting and removing the given annotations.
func annotationRule(permitted func(string) bool) fieldRule {
	return func(_ *contentScan, base, got any) string {
		before, after := fieldsOf(base), fieldsOf(got)
		for _, key := range keysOf(before, after) {
			if value, found := after[key]; (!found || before[key] != value || !hasKey(before, key)) && !permitted(key) {
				return fmt.Sprintf("controllers of the cluster may act on annotation %q", key)
			}
		}
		return ""
	}
}

func hasKey(m map[string]any, key string) bool {
	_, found := m[key]
	return found
}

func fieldsOf(value any) map[string]any {
	m, _ := value.(map[string]any)
	return m
}

func keysOf(sets ...map[string]any) []string {
	all := map[string]bool{}
	for _, m := range sets {
		for key := range m {
			all[key] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// priorityRule permits priority classes of the cluster, except classes that may evict the cluster's own components.
func priorityRule(_ *contentScan, _, got any) string {
	if strings.HasPrefix(stringOf(got), "system-") {
		return "the class is for the cluster's own components"
	}
	return ""
}

func imageRule(c *contentScan, _, got any) string {
	if image := stringOf(got); !c.images.allowsImage(image) {
		c.image = image
		return "the registry is not allowed"
	}
	return ""
}

// resourceRule permits other amounts of the resources of every node. Other resources are devices.
func resourceRule(_ *contentScan, base, got any) string {
	before, after := fieldsOf(base), fieldsOf(got)
	for _, key := range keysOf(before, after) {
		if !reflect.DeepEqual(before[key], after[key]) && !slices.Contains(computeResources(), key) {
			return fmt.Sprintf("resource %q may be a device", key)
		}
	}
	return ""
}

// probeRule permits other times of a probe and the removal of a probe. A probe can run commands and send requests.
func probeRule(_ *contentScan, base, got any) string {
	if got == nil {
		return ""
	}
	timeless := func(value any) map[string]any {
		m := maps.Clone(fieldsOf(value))
		for _, field := range []string{
			"initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold", "terminationGracePeriodSeconds",
		} {
			delete(m, field)
		}
		return m
	}
	if before, after := timeless(base), timeless(got); len(before)+len(after) > 0 && !reflect.DeepEqual(before, after) {
		return "a probe may run a command or send requests"
	}
	return ""
}

// environmentRule permits allowed images and other numbers for the runtime. Every other variable stays as in the release.
func environmentRule(c *contentScan, base, got any) string {
	before, problem := variablesOf(base)
	if problem != "" {
		return problem
	}
	after, problem := variablesOf(got)
	if problem != "" {
		return problem
	}
	for _, name := range keysOf(before, after) {
		if reflect.DeepEqual(before[name], after[name]) {
			continue
		}
		if problem := variableProblem(c, name, fieldsOf(before[name]), fieldsOf(after[name])); problem != "" {
			return problem
		}
	}
	return ""
}

func variableProblem(c *contentScan, name string, before, after map[string]any) string {
	value, isText := after["value"].(string)
	literal := isText && hasKey(after, "name") && len(after) == 2
	switch {
	case slices.Contains(tuningVariables(), name) && (after == nil || literal && isPlainValue(value)):
		return ""
	case before != nil && strings.HasSuffix(name, "_IMAGE") && literal:
		if c.images.allowsImage(value) {
			return ""
		}
		c.image = value
	}
	return fmt.Sprintf("variable %q changes what the process does", message.Shorten(name, maxQuotedBytes))
}

// variablesOf returns the variables of a container by their names.
func variablesOf(value any) (map[string]any, string) {
	list, ok := value.([]any)
	if value != nil && !ok {
		return nil, "env is no list"
	}
	out := make(map[string]any, len(list))
	for _, entry := range list {
		name := variableName(entry)
		if hasKey(out, name) || name == "" {
			return nil, fmt.Sprintf("variable %q has no single value", message.Shorten(name, maxQuotedBytes))
		}
		out[name] = entry
	}
	return out, ""
}

// decodedJSON returns an object in the types of decoded JSON, whatever types the producer used.
func decodedJSON(data []byte) (map[string]any, error) {
	var out map[string]any
	err := json.Unmarshal(data, &out)
	return out, err
}
