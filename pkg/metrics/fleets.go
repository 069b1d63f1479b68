// Copyright Contributors to the Open Cluster Management project

package metrics

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fleetv1alpha1 "open-cluster-management.io/knative-addon/pkg/api/fleet/v1alpha1"
)

// MaxFleets is the number of KnativeFleets that have series: tenants create KnativeFleets.
const MaxFleets = 1000

// fleetStates lists the counts of status.rollout, by the value of label state. A cluster counts in several states.
func fleetStates() map[string]string {
	return map[string]string{
		"Selected": "total", "Updated": "updated", "Ready": "ready", "Failed": "failed", "Unresolved": "unresolved", "Held": "held",
	}
}

// sendFleets sends the series of the first MaxFleets KnativeFleets by namespace and name, from the status that the manager has written.
func (c *Collector) sendFleets(out chan<- prometheus.Metric) {
	names := c.sources.Fleets.ListKeys()
	slices.Sort(names)
	kept := names[:min(len(names), MaxFleets)]
	for _, name := range kept {
		o, _, err := c.sources.Fleets.GetByKey(name)
		if fleet, found := o.(*unstructured.Unstructured); found && err == nil {
			c.sendFleet(out, name, fleet)
		}
	}
	out <- prometheus.MustNewConstMetric(c.omittedFleets, prometheus.GaugeValue, float64(len(names)-len(kept)))
}

// sendFleet sends the counts of the clusters of a KnativeFleet, and condition Ready.
func (c *Collector) sendFleet(out chan<- prometheus.Metric, name string, fleet *unstructured.Unstructured) {
	for state, field := range fleetStates() {
		count, _, _ := unstructured.NestedInt64(fleet.Object, "status", "rollout", field)
		out <- prometheus.MustNewConstMetric(c.fleetClusters, prometheus.GaugeValue, float64(count), name, state)
	}
	ready := findCondition(fleet, fleetv1alpha1.Ready)
	is := c.reasons.boundLabels(fleetv1alpha1.Ready, ready.status, ready.reason)
	out <- prometheus.MustNewConstMetric(c.fleetReady, prometheus.GaugeValue, is.value(), name, is.reason)
}
