// Copyright Contributors to the Open Cluster Management project

package removalguard

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// Gauge counts the held removals.
type Gauge struct{ vec *prometheus.GaugeVec }

// NewGauge creates and registers the gauge.
func NewGauge(registry prometheus.Registerer) (*Gauge, error) {
	g := &Gauge{vec: prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "knative_addon_removals_held",
		Help: "ManagedClusterAddOns that are being deleted while nothing is removed from their clusters, by reason; MassRemoval waits for a confirmation.",
	}, []string{"addon", "reason"})}
	if err := registry.Register(g.vec); err != nil {
		return nil, fmt.Errorf("cannot register a metric: %w", err)
	}
	return g, nil
}

func (g *Gauge) setCounts(s *scope) {
	held := map[string]int{
		api.ReasonClusterUnavailable: 0, api.ReasonPlacementUndecided: 0, api.ReasonPlacementSettling: 0, api.ReasonAwaitingReplacement: 0,
		api.ReasonMassRemoval: 0,
	}
	for _, p := range s.pending {
		if p.decision.action == actionHold {
			held[p.decision.reason]++
		}
	}
	for reason, n := range held {
		g.vec.WithLabelValues(s.component.AddOnName(), reason).Set(float64(n))
	}
}
