// Copyright Contributors to the Open Cluster Management project

package harness

// KourierClass is the ingress class of Kourier.
const KourierClass = "kourier.ingress.networking.knative.dev"

// SmallServing is a spec of Serving for a real node: the requests of CPU leave room for two replicas on two cores, Services scale to zero in
// seconds, and a busy machine restarts no pod: most probes of Knative wait one second for an answer.
func SmallServing(version string) map[string]any {
	var workloads []any
	for deployment, container := range map[string]string{
		"activator": "activator", "autoscaler": "autoscaler", "autoscaler-hpa": "autoscaler-hpa", "controller": "controller", "webhook": "webhook",
		"net-kourier-controller": "controller", "3scale-kourier-gateway": "kourier-gateway",
	} {
		probes := []any{map[string]any{"container": container, "timeoutSeconds": 15}}
		workloads = append(workloads, map[string]any{
			"name": deployment, "livenessProbes": probes, "readinessProbes": probes,
			"resources": []any{map[string]any{"container": container, "requests": map[string]any{"cpu": "20m"}}},
		})
	}
	return map[string]any{
		"version": version, "workloads": workloads, "ingress": map[string]any{"kourier": map[string]any{"enabled": true}},
		"config": map[string]any{
			"network":    map[string]any{"ingress-class": KourierClass},
			"domain":     map[string]any{"first.test": ""},
			"autoscaler": map[string]any{"stable-window": "6s", "scale-to-zero-grace-period": "3s"},
		},
	}
}
