// Copyright Contributors to the Open Cluster Management project

package removalguard

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// TestGauge holds that nothing is counted any more when nothing is held any more, whatever it was held for.
func TestGauge(t *testing.T) {
	registry := prometheus.NewRegistry()
	gauge, err := NewGauge(registry)
	if err != nil {
		t.Fatal(err)
	}
	held := func() int {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for _, family := range families {
			for _, m := range family.GetMetric() {
				sum += m.GetGauge().GetValue()
			}
		}
		return int(sum)
	}
	undecided := determineDecision(&input{availability: clusterAvailable, strategy: strategyPlacements, undecided: "pool/pool", settled: true})
	for _, d := range []decision{
		settlingDecision("more add-ons may follow"), replacementDecision(), massRemovalDecision(api.Serving), undecided,
		determineDecision(&input{availability: clusterUnavailable}),
	} {
		gauge.setCounts(&scope{component: api.Serving, pending: []*pendingRemoval{{decision: d}, {decision: allowedDecision("")}}})
		if got := held(); got != 1 {
			t.Errorf("%s: %d are held, want 1", d.reason, got)
		}
		gauge.setCounts(&scope{component: api.Serving})
		if got := held(); got != 0 {
			t.Errorf("%s: %d are held, want none", d.reason, got)
		}
	}
}
