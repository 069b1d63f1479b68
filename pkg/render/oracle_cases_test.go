// Copyright Contributors to the Open Cluster Management project

package render

import (
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// oracleCase is a CR that is rendered by this package and by the operator's functions.
type oracleCase struct {
	component api.Component
	namespace string // the install namespace, when it is not the usual one
	spec      string
	options   Options
}

// fragment is one field of a spec.
type fragment struct{ name, spec string }

// servingFragments have each field of a KnativeServing.
func servingFragments() []fragment {
	return append(commonFragments("activator", "controller", "autoscaler"), []fragment{
		{"nothing", "{}"},
		{"istio", "ingress: {istio: {enabled: true}}"},
		{"kourier", kourier},
		{"contour", "ingress: {contour: {enabled: true}}"},
		{"gateway-api", "ingress: {gateway-api: {enabled: true}}"},
		{"no-ingress", "ingress: {}"},
		{"all-ingresses", "ingress: {istio: {enabled: true}, kourier: {enabled: true}, contour: {enabled: true}, gateway-api: {enabled: true}}"},
		{"istio-gateway-selectors", `
ingress:
  istio:
    enabled: true
    knative-ingress-gateway: {selector: {istio: edge}}
    knative-local-gateway: {selector: {istio: local}}`},
		{"istio-gateway-servers", `
ingress:
  istio:
    enabled: true
    knative-ingress-gateway:
      servers:
      - {port: {number: 443, name: https, protocol: HTTPS}, hosts: ["*"], tls: {mode: SIMPLE, credentialName: edge-cert}}
    knative-local-gateway:
      servers:
      - {port: {number: 8081, name: http, protocol: HTTP, target_port: 18081}, hosts: ["*.local"]}`},
		{"istio-config-gateways", `
ingress: {istio: {enabled: true}}
config:
  istio:
    local-gateways: |
      - name: knative-local-gateway
        namespace: mesh
        service: knative-local-gateway.mesh.svc.cluster.local`},
		{"istio-config-legacy-gateway", `
ingress: {istio: {enabled: true}}
config:
  config-istio: {local-gateway.knative-serving.knative-local-gateway: knative-local-gateway.mesh.svc.cluster.local}`},
		{"kourier-node-port", "ingress: {kourier: {enabled: true, service-type: NodePort, http-port: 31080, https-port: 31443}}"},
		{"kourier-cluster-ip", "ingress: {kourier: {enabled: true, service-type: ClusterIP}}"},
		{"kourier-address", "ingress: {kourier: {enabled: true, service-type: LoadBalancer, service-load-balancer-ip: 192.0.2.7}}"},
		{"kourier-bootstrap", "ingress: {kourier: {enabled: true, bootstrap-configmap: my-bootstrap}}"},
		{"security-guard", kourier + "security: {securityGuard: {enabled: true}}"},
		{"custom-certs-config-map", kourier + "controller-custom-certs: {type: ConfigMap, name: roots}"},
		{"custom-certs-secret", kourier + "controller-custom-certs: {type: Secret, name: roots}"},
		{"queue-image-override", kourier + `registry: {override: {queue-proxy: "mirror.example.com/queue:v1"}}`},
		{"queue-image-configured", kourier + `
registry: {default: "mirror.example.com/${NAME}:v1"}
config: {deployment: {queue-sidecar-image: "mirror.example.com/own-queue:v2"}}`},
	}...)
}

// eventingFragments have each field of a KnativeEventing.
func eventingFragments() []fragment {
	return append(commonFragments("eventing-controller", "eventing-webhook", "pingsource-mt-adapter"), []fragment{
		{"nothing", "{}"},
		{"ceph", "source: {ceph: {enabled: true}}"},
		{"github", "source: {github: {enabled: true}}"},
		{"gitlab", "source: {gitlab: {enabled: true}}"},
		{"kafka", "source: {kafka: {enabled: true}}"},
		{"rabbitmq", "source: {rabbitmq: {enabled: true}}"},
		{"redis", "source: {redis: {enabled: true}}"},
		{"two-sources", "source: {kafka: {enabled: true}, rabbitmq: {enabled: true}}"},
		{"broker-class", "defaultBrokerClass: Kafka"},
		{"broker-replicas", "workloads: [{name: mt-broker-ingress, replicas: 12}, {name: mt-broker-filter, replicas: 3}]"},
		{"broker-class-configured", `
config:
  br-defaults:
    default-br-config: |
      clusterDefault: {brokerClass: Kafka, apiVersion: v1, kind: ConfigMap, name: own, namespace: own}`},
		{"broker-defaults-configured", `
config:
  br-defaults:
    default-br-config: |
      clusterDefault: {apiVersion: v1, kind: ConfigMap, name: own, namespace: own}`},
		{"sink-binding-inclusion", "sinkBindingSelectionMode: inclusion"},
		{"sink-binding-environment", `
workloads:
- name: eventing-webhook
  env: [{container: eventing-webhook, envVars: [{name: SINK_BINDING_SELECTION_MODE, value: inclusion}]}]`},
		{"tls-permissive", "config: {features: {transport-encryption: Permissive}}"},
		{"tls-strict", "config: {config-features: {transport-encryption: strict}}"},
		{"tls-disabled", "config: {features: {transport-encryption: disabled}}"},
		{"environment-image", `registry: {override: {APISERVER_RA_IMAGE: "mirror.example.com/ra:v1"}}`},
	}...)
}

// commonFragments have each field that both kinds have. The names are two Deployments of the component, the first scaled
// by an HPA in one of the kinds, and a third.
func commonFragments(first, second, third string) []fragment {
	out := []fragment{
		{"config", "config: {logging: {zap-logger-config: '{}'}, config-observability: {metrics-protocol: grpc}}"},
		{"registry-default", `registry: {default: "mirror.example.com/knative/${NAME}:v1"}`},
		{"registry-override", fmt.Sprintf(`registry: {override: {%[1]s: "mirror.example.com/a:v1", %[2]s/%[2]s: "mirror.example.com/c:v1"}}`, first, second)},
		{"pull-secrets", "registry: {imagePullSecrets: [{name: one}, {name: two}]}"},
		{"resources", fmt.Sprintf("resources: [{container: %s, limits: {cpu: 3}, requests: {memory: 90Mi}}]", second)},
		{"deployments", fmt.Sprintf("deployments: [{name: %s, replicas: 3, labels: {team: one}}]", second)},
		{"high-availability", "high-availability: {replicas: 3}"},
		{"high-availability-and-replicas", fmt.Sprintf("high-availability: {replicas: 3}\nworkloads: [{name: %s, replicas: 7}]", second)},
		{"namespace", "namespace: {labels: {team: one}, annotations: {cost: low}}"},
		{"budget-minimum", "podDisruptionBudgets: [{name: activator-pdb, minAvailable: 1}, {name: eventing-webhook, minAvailable: 50%}]"},
		{"budget-maximum", "podDisruptionBudgets: [{name: webhook-pdb, maxUnavailable: 2}, {name: eventing-webhook, maxUnavailable: 2}]"},
		{"services", "services: [{name: webhook, labels: {a: b}, annotations: {c: d}, selector: {e: f}}, {name: eventing-webhook, labels: {a: b}}]"},
	}
	for _, w := range []fragment{
		{"labels", "labels: {team: one}"},
		{"annotations", "annotations: {cost: low}"},
		{"replicas", "replicas: 4"},
		{"node-selector", "nodeSelector: {pool: knative}"},
		{"spread", "topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]"},
		{"tolerations", "tolerations: [{key: pool, operator: Exists, effect: NoSchedule}]"},
		{"affinity", "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}}}"},
		{"resources", "resources: [{container: %[1]s, limits: {cpu: 2}, requests: {cpu: 100m}}]"},
		{"env", "env: [{container: %[1]s, envVars: [{name: FLEET, value: one}, {name: METRICS_DOMAIN, value: two}]}]"},
		{"probes", "readinessProbes: [{container: %[1]s, periodSeconds: 33}]\n  livenessProbes: [{container: %[1]s, failureThreshold: 9}]"},
		{"no-probe", "readinessProbes: [{container: %[1]s}]"},
		{"host-network", "hostNetwork: true"},
		{"without-effect", `version: "9"` + "\n  volumeMounts: [{name: a, mountPath: /a}]"},
	} {
		var spec strings.Builder
		spec.WriteString("workloads:")
		for _, name := range []string{first, second, third} {
			override := w.spec
			if strings.Contains(override, "%[1]s") {
				override = fmt.Sprintf(override, name)
			}
			fmt.Fprintf(&spec, "\n- name: %s\n  %s", name, override)
		}
		out = append(out, fragment{"workload-" + w.name, spec.String()})
	}
	return out
}

// oracleCases are every field alone, every version, other install namespaces, and combinations that a seed chose.
func oracleCases(t *testing.T) map[string]oracleCase {
	t.Helper()
	cases := map[string]oracleCase{}
	fragments := map[api.Component][]fragment{api.Serving: servingFragments(), api.Eventing: eventingFragments()}
	for component, list := range fragments {
		for _, f := range list {
			cases[fmt.Sprintf("%s %s", component, f.name)] = oracleCase{component: component, spec: f.spec}
		}
		for _, v := range shared.Versions(component) {
			spec := fmt.Sprintf("version: %q\n", v)
			if component == api.Serving {
				spec += kourier
			}
			cases[fmt.Sprintf("%s version %s", component, v)] = oracleCase{component: component, spec: spec}
		}
		for _, v := range []string{"1.20", "1.21", "1.22", "1.23", "latest"} {
			cases[fmt.Sprintf("%s version %s", component, v)] = oracleCase{component: component, spec: fmt.Sprintf("version: %q", v)}
		}
	}
	cases["serving kourier elsewhere"] = oracleCase{component: api.Serving, namespace: "edge", spec: kourier}
	cases["serving istio elsewhere"] = oracleCase{component: api.Serving, namespace: "edge", spec: `
ingress: {istio: {enabled: true}}
config: {config-istio: {local-gateway.edge.knative-local-gateway: knative-local-gateway.mesh.svc.cluster.local}}`}
	cases["eventing elsewhere"] = oracleCase{component: api.Eventing, namespace: "edge", spec: `
source: {kafka: {enabled: true}, ceph: {enabled: true}}
config: {features: {transport-encryption: strict}}`}
	cases["serving kept whole"] = oracleCase{
		component: api.Serving, spec: kourier, options: Options{Mode: api.ModeDirect, KeepDescriptions: true, KeepExamples: true},
	}
	cases["eventing kept whole"] = oracleCase{
		component: api.Eventing, spec: "{}", options: Options{Mode: api.ModeDirect, KeepDescriptions: true, KeepExamples: true},
	}
	addRandomCases(t, cases, fragments)
	return cases
}

const randomSeed, randomCases = 20260821, 24

// addRandomCases adds combinations of fragments. The same seed makes the same cases.
func addRandomCases(t *testing.T, cases map[string]oracleCase, fragments map[api.Component][]fragment) {
	t.Helper()
	source := rand.New(rand.NewSource(randomSeed)) //nolint:gosec // the same cases in every run
	for n := range randomCases {
		component := api.Components()[n%2]
		versions := shared.Versions(component)
		fields := map[string]any{"version": versions[source.Intn(len(versions))]}
		var names []string
		for range 4 {
			f := fragments[component][source.Intn(len(fragments[component]))]
			var more map[string]any
			if err := yaml.Unmarshal([]byte(f.spec), &more); err != nil {
				t.Fatalf("cannot read fragment %q: %v", f.name, err)
			}
			maps.Copy(fields, more)
			names = append(names, f.name)
		}
		spec, err := yaml.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(names)
		name := fmt.Sprintf("%s random %02d %s", component, n, strings.Join(slices.Compact(names), "+"))
		cases[name] = oracleCase{component: component, spec: string(spec)}
	}
}
