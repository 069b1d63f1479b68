// Copyright Contributors to the Open Cluster Management project

package render

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// warnUnmatched adds a warning for every override whose name no object has. The operator ignores such overrides silently,
// and a typing error looks like a setting without effect.
func warnUnmatched(d *draft) error {
	names := map[string]map[string]bool{"workload": {}, "Service": {}, "PodDisruptionBudget": {}, "ConfigMap": {}}
	var jobs []string
	d.forEachObject(func(u *unstructured.Unstructured) {
		switch {
		case isWorkload(u):
			names["workload"][u.GetName()] = true
		case isKind(u, "batch", "Job"):
			jobs = append(jobs, u.GetName())
		default:
			if known, found := names[u.GetKind()]; found {
				known[u.GetName()] = true
			}
		}
	})
	warn := func(field, kind, name string) {
		d.warnings = append(d.warnings, fmt.Sprintf("%s %q changes nothing: no %s of %s %s has this name",
			field, name, kind, d.component, d.version))
	}
	for _, o := range d.spec.GetWorkloadOverrides() {
		isJob := o.Name != "" && slices.ContainsFunc(jobs, func(name string) bool { return strings.HasPrefix(name, o.Name) })
		if !names["workload"][o.Name] && !isJob {
			warn("spec.workloads", "workload", o.Name)
		}
	}
	for _, o := range d.spec.GetServiceOverride() {
		if !names["Service"][o.Name] {
			warn("spec.services", "Service", o.Name)
		}
	}
	for _, o := range d.spec.GetPodDisruptionBudgetOverride() {
		if !names["PodDisruptionBudget"][o.Name] {
			warn("spec.podDisruptionBudgets", "PodDisruptionBudget", o.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.spec.GetConfig())) {
		if !names["ConfigMap"][name] && !names["ConfigMap"]["config-"+name] {
			warn("spec.config", "ConfigMap", name)
		}
	}
	return nil
}
