// Copyright Contributors to the Open Cluster Management project

package render

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/trust"
	"open-cluster-management.io/knative-addon/pkg/values"
)

// TestHonestContent renders what tenants do with Knative: the result is that of a trusted namespace, byte for byte.
func TestHonestContent(t *testing.T) {
	skipLongTest(t)
	r := restrictedRenderer(t)
	for name, tc := range map[string]struct {
		component api.Component
		spec      string
	}{
		"nothing":       {api.Serving, kourier},
		"Istio":         {api.Serving, "{}"},
		"Eventing":      {api.Eventing, "{}"},
		"all sources":   {api.Eventing, "source: {ceph: {enabled: true}, github: {enabled: true}, gitlab: {enabled: true}, kafka: {enabled: true}, rabbitmq: {enabled: true}, redis: {enabled: true}}"},
		"modes":         {api.Eventing, "sinkBindingSelectionMode: inclusion\ndefaultBrokerClass: Kafka\nhigh-availability: {replicas: 2}"},
		"encryption":    {api.Eventing, "config: {features: {transport-encryption: strict}}\nworkloads: [{name: eventing-controller, replicas: 2}]"},
		"configuration": {api.Serving, kourier + "config: {autoscaler: {a: b}, network: {ingress-class: kourier.ingress.networking.knative.dev}, domain: {images.example.com: ''}, features: {kubernetes.podspec-volumes-image: enabled, kubernetes.podspec-hostpath: enabled, kubernetes.podspec-hostnetwork: disabled}}"},
		"channels": {api.Eventing, "config: {br-default-channel: {channel-template-spec: '{apiVersion: messaging.knative.dev/v1beta1, kind: KafkaChannel, spec: {numPartitions: 6}}'}, " +
			"default-ch-webhook: {default-ch-config: '{clusterDefault: {apiVersion: messaging.knative.dev/v1, kind: InMemoryChannel, spec: {delivery: {deadLetterSink: {ref: {apiVersion: v1, kind: Service, name: a}}}}}, namespaceDefaults: {a: {apiVersion: messaging.knative.dev/v1beta1, kind: KafkaChannel}}}'}, " +
			"br-defaults: {default-br-config: '{clusterDefault: {brokerClass: MTChannelBasedBroker, apiVersion: v1, kind: ConfigMap, name: config-br-default-channel, namespace: knative-eventing, delivery: {retry: 3}}}'}}"},
		"Kafka's hosts": {api.Eventing, "source: {kafka: {enabled: true}}\nconfig: {kafka-broker-config: {bootstrap.servers: 'kafka:9092'}}"},
		"certificates":  {api.Serving, kourier + "controller-custom-certs: {type: Secret, name: certs}\nresources: [{container: controller, limits: {memory: 2Gi}}]"},
		"Kourier":       {api.Serving, "ingress: {kourier: {enabled: true, service-type: NodePort, http-port: 31080, https-port: 31443}}\nresources: [{container: controller, limits: {cpu: 1}}]"},
		"a guard":       {api.Serving, kourier + "security: {securityGuard: {enabled: true}}\nregistry: {imagePullSecrets: [{name: mirror}]}"},
		"a mirror":      {api.Serving, kourier + "registry: {default: 'mirror.example.com/knative/${NAME}:v1', override: {activator: registry.example.com/a, queue-proxy: 'mirror.example.com/knative/q@sha256:x'}, imagePullSecrets: [{name: mirror}]}"},
		"a mirror of adapters": {
			api.Eventing, "registry: {default: 'mirror.example.com/knative/${NAME}', override: {APISERVER_RA_IMAGE: mirror.example.com/knative/a, DISPATCHER_IMAGE: registry.example.com/d}}",
		},
		"Envoy of another version": {api.Serving, kourier + "registry: {override: {kourier-gateway: 'docker.io/envoyproxy/envoy:v1.36-latest'}}"},
		"a mesh":                   {api.Serving, kourier + "namespace: {labels: {istio-injection: enabled}, annotations: {linkerd.io/inject: enabled}}"},
		"a load balancer":          {api.Serving, kourier + "services: [{name: kourier, labels: {team: edge}, annotations: {service.beta.kubernetes.io/aws-load-balancer-internal: 'true'}}]"},
		"budgets":                  {api.Serving, kourier + "podDisruptionBudgets: [{name: activator-pdb, minAvailable: 1}]\nhigh-availability: {replicas: 3}"},
		"workloads": {api.Serving, kourier + `workloads:
- name: controller
  replicas: 2
  labels: {team: edge}
  annotations: {prometheus.io/scrape: "true", sidecar.istio.io/inject: "false", note: mine}
  nodeSelector: {pool: system}
  tolerations: [{key: a, operator: Exists}]
  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}}}
  topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]
  resources: [{container: controller, limits: {memory: 2Gi}, requests: {cpu: 100m}}]
  readinessProbes: [{container: controller, periodSeconds: 20}]
  livenessProbes: [{container: controller, failureThreshold: 9}]
  env: [{container: controller, envVars: [{name: KUBE_API_QPS, value: "50"}]}]
  hostNetwork: false
`},
		"jobs":          {api.Serving, "version: 1.23.0\n" + kourier + "workloads: [{name: storage-version-migration-serving-, nodeSelector: {a: b}}]"},
		"pods":          {api.Serving, podPatch(`{"priorityClassName":"platform","terminationGracePeriodSeconds":30,"nodeSelector":{"a":"b"},"imagePullSecrets":[{"name":"m"}]}`)},
		"containers":    {api.Serving, containerPatch(`"image":"registry.example.com/controller:v1","imagePullPolicy":"Always","env":[{"name":"GOGC","value":"200"}],"livenessProbe":{"periodSeconds":60}`)},
		"a rollout":     {api.Serving, mergePatchSpec("apps/v1", "Deployment", "activator", `{"spec":{"replicas":3,"minReadySeconds":5,"strategy":{"type":"Recreate"}}}`)},
		"scaling":       {api.Serving, mergePatchSpec("autoscaling/v2", "HorizontalPodAutoscaler", "activator", `{"spec":{"maxReplicas":5}}`)},
		"no scaling":    {api.Serving, patchedSpec("autoscaling/v2", "HorizontalPodAutoscaler", "activator", "strategic", "$patch: delete")},
		"no workload":   {api.Serving, patchedSpec("apps/v1", "Deployment", "autoscaler-hpa", "strategic", "$patch: delete")},
		"a ConfigMap":   {api.Serving, mergePatchSpec("v1", "ConfigMap", "config-gc", `{"data":{"max-non-active-revisions":"5"}}`)},
		"a node port":   {api.Serving, mergePatchSpec("v1", "Service", "kourier", `{"spec":{"type":"NodePort","externalTrafficPolicy":"Local"}}`)},
		"a label":       {api.Serving, mergePatchSpec("apps/v1", "Deployment", "activator", `{"metadata":{"labels":{"example.com/team":"edge"}}}`)},
		"an old minor":  {api.Serving, "version: \"1.20\"\n" + kourier + "workloads: [{name: controller, replicas: 2}]"},
		"a JSON number": {api.Serving, patchedSpec("apps/v1", "Deployment", "activator", "json", `[{"op":"add","path":"/spec/replicas","value":5}]`)},
	} {
		t.Run(name, func(t *testing.T) {
			in := install(t, tc.component, tc.spec)
			got, err := r.Render(context.Background(), in, DefaultOptions(api.ModeManifestWork))
			if err != nil {
				t.Fatalf("refused: %v", err)
			}
			want, err := shared.Render(context.Background(), in, DefaultOptions(api.ModeManifestWork))
			if err != nil {
				t.Fatal(err)
			}
			if got.Digest != want.Digest {
				t.Error("the check changed the bundle")
			}
		})
	}
}

// TestInstallNamespaceIsChecked renders into other namespaces: the baseline moves there too.
func TestInstallNamespaceIsChecked(t *testing.T) {
	r := restrictedRenderer(t)
	honest := installIn(t, "payroll", api.Serving, containerPatch(`"imagePullPolicy":"Always"`))
	if _, err := r.Render(context.Background(), honest, DefaultOptions(api.ModeDirect)); err != nil {
		t.Errorf("refused: %v", err)
	}
	hostile := installIn(t, "payroll", api.Serving, podPatch(`{"hostPID":true}`))
	_, err := r.Render(context.Background(), hostile, DefaultOptions(api.ModeDirect))
	checkEscalation(t, err, "hostPID", `"payroll/controller"`)
}

// TestImagesOfClusters renders with what differs between clusters: values of a cluster are checked where they stand, and
// the mirrors of an AddOnDeploymentConfig are the administrator's.
func TestImagesOfClusters(t *testing.T) {
	r := restrictedRenderer(t)
	in := install(t, api.Serving, kourier+"registry: {default: '$(cluster.labels.registry)/${NAME}'}")
	for registry, permitted := range map[string]bool{"registry.example.com": true, "evil.example.com": false} {
		on, err := in.On(values.OfManagedCluster(&clusterv1.ManagedCluster{
			ObjectMeta: metav1.ObjectMeta{Name: "c1", Labels: map[string]string{"registry": registry}},
		}, nil), nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = r.Render(context.Background(), on, DefaultOptions(api.ModeManifestWork))
		if permitted && err != nil {
			t.Errorf("%s: %v", registry, err)
		}
		if !permitted {
			checkEscalation(t, err, "evil.example.com")
		}
	}
	mirrors := NewDeployment(DeploymentSpec{Mirrors: []Mirror{{Source: "gcr.io", Mirror: "hub.example.com/gcr"}, {Source: "docker.io", Mirror: "hub.example.com/docker"}}})
	for _, spec := range []string{kourier, containerPatch(`"imagePullPolicy":"Always"`)} {
		on, err := install(t, api.Serving, spec).On(values.None("c1"), mirrors)
		if err != nil {
			t.Fatal(err)
		}
		b, err := r.Render(context.Background(), on, DefaultOptions(api.ModeManifestWork))
		if err != nil {
			t.Fatalf("%s: %v", spec, err)
		}
		if image := at(t, object(t, b, "Deployment", "controller").Object, "spec", "template", "spec", "containers", 0, "image"); !strings.HasPrefix(image.(string), "hub.example.com/gcr/") {
			t.Errorf("image is %v", image)
		}
	}
}

// TestTrustIsPartOfTheKey renders one content for a trusted and for another namespace with one Renderer.
func TestTrustIsPartOfTheKey(t *testing.T) {
	r := restrictedRenderer(t)
	u := resource(t, api.Serving, podPatch(`{"hostIPC":true}`))
	for range 2 {
		for namespace, permitted := range map[string]bool{"knative-addon": true, "fleet": false, "": false} {
			u.SetNamespace(namespace)
			in, err := Decode(u)
			if err != nil {
				t.Fatal(err)
			}
			_, err = r.Render(context.Background(), in, DefaultOptions(api.ModeManifestWork))
			if permitted != (err == nil) {
				t.Errorf("namespace %q: error %v", namespace, err)
			}
		}
	}
}

// TestAdditionalManifests adds objects beside the release.
func TestAdditionalManifestsNeedTrust(t *testing.T) {
	skipLongTest(t)
	const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: mine}\ndata: {a: b}\n"
	documents := map[string]string{
		"/permitted.yaml": configMap + "---\napiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: mine}\nspec: {minAvailable: 1, selector: {matchLabels: {app: a}}}\n" +
			"---\napiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: mine}\nspec: {maxReplicas: 2, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: controller}}\n",
	}
	refused := map[string]string{}
	for name, document := range map[string]string{
		"ClusterRoleBinding": "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: mallory}\nroleRef: {kind: ClusterRole, name: cluster-admin, apiGroup: rbac.authorization.k8s.io}\nsubjects: []",
		"ClusterRole":        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: mallory}\naggregationRule: {clusterRoleSelectors: [{}]}",
		"Role":               "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: mallory}\nrules: []",
		"RoleBinding":        "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: mallory, namespace: kube-system}\nroleRef: {kind: Role, name: a, apiGroup: rbac.authorization.k8s.io}\nsubjects: []",
		"beta":               "apiVersion: rbac.authorization.k8s.io/v1beta1\nkind: ClusterRoleBinding\nmetadata: {name: mallory}\nroleRef: {kind: ClusterRole, name: cluster-admin, apiGroup: rbac.authorization.k8s.io}\nsubjects: []",
		"list":               "apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: ServiceAccount, metadata: {name: mallory}}]",
		"ServiceAccount":     "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: mallory}",
		"token":              "apiVersion: v1\nkind: Secret\nmetadata: {name: mallory, annotations: {kubernetes.io/service-account.name: controller}}\ntype: kubernetes.io/service-account-token",
		"Secret":             "apiVersion: v1\nkind: Secret\nmetadata: {name: mallory}",
		"Namespace":          "apiVersion: v1\nkind: Namespace\nmetadata: {name: mallory, labels: {pod-security.kubernetes.io/enforce: privileged}}",
		"Service":            "apiVersion: v1\nkind: Service\nmetadata: {name: kubernetes}\nspec: {ports: [{port: 443}]}",
		"Deployment":         "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: mallory}\nspec: {template: {spec: {containers: []}}}",
		"Job":                "apiVersion: batch/v1\nkind: Job\nmetadata: {name: mallory}\nspec: {template: {spec: {containers: []}}}",
		"webhook":            "apiVersion: admissionregistration.k8s.io/v1\nkind: MutatingWebhookConfiguration\nmetadata: {name: mallory}\nwebhooks: []",
		"CRD":                "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: as.example.com}\nspec: {group: example.com, scope: Cluster, names: {kind: A, plural: as}, versions: []}",
		"trust bundle":       "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: mine, labels: {networking.knative.dev/trust-bundle: 'true'}}",
		"root CA":            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kube-root-ca.crt}\ndata: {ca.crt: mine}",
		"finalizer":          "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: mine, finalizers: [example.com/never]}",
		"mesh CA":            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: istio-ca-root-cert}\ndata: {root-cert.pem: mine}",
		"pod":                "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: controller-0}\ndata: {data: mine}",
		"binary data":        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: mine}\nbinaryData: {x: eA==}",
		"template":           "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: mine}\ndata: {channel-template-spec: '{apiVersion: v1, kind: Pod}'}",
		"bootstrap":          "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: config-namespaced-broker-resources}\ndata: {resources: '[]'}",
		"replaced image":     "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: config-deployment}\ndata: {queue-sidecar-image: evil.example.com/q}",
		"replaced SA":        "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: controller, annotations: {eks.amazonaws.com/role-arn: a}}",
		"Certificate":        "apiVersion: cert-manager.io/v1\nkind: Certificate\nmetadata: {name: mallory}\nspec: {secretName: a}",
		"Gateway":            "apiVersion: networking.istio.io/v1beta1\nkind: Gateway\nmetadata: {name: mallory}\nspec: {}",
		"StatefulSet":        "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: mallory}\nspec: {template: {spec: {containers: []}}}",
	} {
		path := "/" + strings.ReplaceAll(name, " ", "-") + ".yaml"
		documents[path], refused[path] = document, document
	}
	server := serveManifests(t, documents)
	r := server.rendererWith(t, trust.Policy{}, "*")
	trusting := server.renderer(t, "*")
	render := func(r *Renderer, path string) error {
		spec := fmt.Sprintf("%sadditionalManifests: [{URL: '%s/permitted.yaml#sha256=%x'}, {URL: '%s%s#sha256=%x'}]", kourier,
			server.URL, sha256.Sum256([]byte(documents["/permitted.yaml"])), server.URL, path, sha256.Sum256([]byte(documents[path])))
		_, err := r.Render(context.Background(), install(t, api.Serving, spec), DefaultOptions(api.ModeManifestWork))
		return err
	}
	for path := range refused {
		t.Run(path, func(t *testing.T) {
			checkEscalation(t, render(r, path), "spec.additionalManifests[1]")
			if err := render(trusting, path); err != nil {
				t.Errorf("a trusted namespace is refused: %v", err)
			}
		})
	}
	if err := render(r, "/permitted.yaml"); err != nil {
		t.Errorf("refused: %v", err)
	}
}
