// Copyright Contributors to the Open Cluster Management project

package render

import (
	"fmt"
	"strings"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// patchedSpec is a spec with one patch.
func patchedSpec(apiVersion, kind, name, patchType, content string) string {
	return fmt.Sprintf("%spatches:\n- target: {apiVersion: %s, kind: %s, name: %s}\n  patch: {type: %s, content: %q}\n",
		kourier, apiVersion, kind, name, patchType, content)
}

func mergePatchSpec(apiVersion, kind, name, content string) string {
	return patchedSpec(apiVersion, kind, name, "merge", content)
}

// podPatch merges fields into the pods of the controller.
func podPatch(content string) string {
	return patchedSpec("apps/v1", "Deployment", "controller", "strategic", `{"spec":{"template":{"spec":`+content+`}}}`)
}

// containerPatch merges fields into the container of the controller.
func containerPatch(content string) string {
	return podPatch(`{"containers":[{"name":"controller",` + content + `}]}`)
}

const rbacV1 = "rbac.authorization.k8s.io/v1"

// escalation is a spec that gives the author more than Knative. Each installs without a word where the namespace is trusted.
type escalation struct {
	component api.Component
	spec      string
	// want are parts of the refusal: the field, and what is wrong.
	want []string
	// breaks says that the spec renders in no namespace, for another reason.
	breaks bool
}

func patchEscalations() map[string]escalation {
	return map[string]escalation{
		"S1: the binding of Eventing's controller": {
			api.Eventing, "patches:\n- target: {apiVersion: " + rbacV1 + ", kind: ClusterRoleBinding, name: eventing-controller}\n" +
				`  patch: {type: merge, content: '{"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"},` +
				`"subjects":[{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"mallory"}]}'}`,
			[]string{"spec.patches[0]", `ClusterRoleBinding "eventing-controller"`, "rendering.trustedNamespaces"},
			false,
		},
		"S1: the binding of Serving's controller": {
			api.Serving, mergePatchSpec(rbacV1, "ClusterRoleBinding", "knative-serving-controller-admin", `{"subjects":[{"kind":"User","name":"mallory"}]}`),
			[]string{"spec.patches[0]", "ClusterRoleBinding"},
			false,
		},
		"a role": {
			api.Serving, patchedSpec(rbacV1, "ClusterRole", "knative-serving-core", "json", `[{"op":"add","path":"/rules/-","value":{"apiGroups":["*"],"resources":["*"],"verbs":["*"]}}]`),
			[]string{"spec.patches[0]", `ClusterRole "knative-serving-core"`},
			false,
		},
		"an aggregation rule": {
			api.Serving, mergePatchSpec(rbacV1, "ClusterRole", "knative-serving-core", `{"aggregationRule":{"clusterRoleSelectors":[{}]}}`),
			[]string{"spec.patches[0]"},
			false,
		},
		"a label that aggregates a role": {
			api.Serving, mergePatchSpec(rbacV1, "ClusterRole", "knative-serving-core", `{"metadata":{"labels":{"rbac.authorization.k8s.io/aggregate-to-view":"true"}}}`),
			[]string{"spec.patches[0]"},
			false,
		},
		"a deleted binding": {
			api.Serving, patchedSpec(rbacV1, "ClusterRoleBinding", "knative-serving-controller-admin", "strategic", "$patch: delete"),
			[]string{"spec.patches[0]"},
			false,
		},
		"a cloud role of a ServiceAccount": {
			api.Serving, mergePatchSpec("v1", "ServiceAccount", "controller", `{"metadata":{"annotations":{"eks.amazonaws.com/role-arn":"arn:aws:iam::1:role/admin"}}}`),
			[]string{"spec.patches[0]", `ServiceAccount "controller"`},
			false,
		},
		"the pod security of the namespace": {
			api.Serving, mergePatchSpec("v1", "Namespace", "knative-serving", `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"privileged"}}}`),
			[]string{"spec.patches[0]", `Namespace "knative-serving"`},
			false,
		},
		"a webhook": {
			api.Serving, mergePatchSpec("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", "webhook.serving.knative.dev", `{"webhooks":[]}`),
			[]string{"spec.patches[0]", "MutatingWebhookConfiguration"},
			false,
		},
		"a deleted webhook": {
			api.Serving, patchedSpec("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "validation.webhook.serving.knative.dev", "strategic", "$patch: delete"),
			[]string{"spec.patches[0]"},
			false,
		},
		"the conversion of a CRD": {
			api.Serving, mergePatchSpec("apiextensions.k8s.io/v1", "CustomResourceDefinition", "services.serving.knative.dev",
				`{"spec":{"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"url":"https://evil.example.com"}}}}}`),
			[]string{"spec.patches[0]", "CustomResourceDefinition"},
			false,
		},
		"a Secret": {
			api.Serving, mergePatchSpec("v1", "Secret", "webhook-certs", `{"stringData":{"ca-cert.pem":"mine"}}`), []string{"spec.patches[0]", "Secret"}, false,
		},
		"the second patch": {
			api.Serving, mergePatchSpec("v1", "ConfigMap", "config-gc", `{"data":{"max-non-active-revisions":"5"}}`) +
				"- target: {apiVersion: v1, kind: ServiceAccount, name: activator}\n  patch: {type: merge, content: '{}'}\n",
			[]string{"spec.patches[1]", "ServiceAccount"},
			false,
		},
	}
}

func podEscalations() map[string]escalation {
	out := map[string]escalation{}
	for name, content := range map[string]string{
		"hostNetwork": `"hostNetwork":true`, "hostPID": `"hostPID":true`, "hostIPC": `"hostIPC":true`, "hostUsers": `"hostUsers":true`,
		"serviceAccountName":           `"serviceAccountName":"webhook-admin"`,
		"serviceAccount":               `"serviceAccount":"other"`,
		"automountServiceAccountToken": `"automountServiceAccountToken":true`,
		"nodeName":                     `"nodeName":"control-plane"`,
		"runtimeClassName":             `"runtimeClassName":"other"`,
		"schedulerName":                `"schedulerName":"other"`,
		"dnsConfig":                    `"dnsConfig":{"nameservers":["192.0.2.1"]}`,
		"dnsPolicy":                    `"dnsPolicy":"None"`,
		"hostAliases":                  `"hostAliases":[{"ip":"192.0.2.1","hostnames":["kubernetes.default.svc"]}]`,
		"shareProcessNamespace":        `"shareProcessNamespace":true`,
		"securityContext":              `"securityContext":{"runAsUser":0}`,
		"securityContext.":             `"securityContext":{"sysctls":[{"name":"kernel.msgmax","value":"1"}]}`,
		"priorityClassName":            `"priorityClassName":"system-node-critical"`,
		"volumes":                      `"volumes":[{"name":"host","hostPath":{"path":"/"}}]`,
		"volumes: a Secret":            `"volumes":[{"name":"s","secret":{"secretName":"other"}}]`,
		"volumes: a token":             `"volumes":[{"name":"s","projected":{"sources":[{"serviceAccountToken":{"path":"t"}}]}}]`,
		"containers":                   `"containers":[{"name":"more","image":"gcr.io/knative-releases/x"}]`,
		"initContainers":               `"initContainers":[{"name":"more","image":"gcr.io/knative-releases/x"}]`,
		"ephemeralContainers":          `"ephemeralContainers":[{"name":"more","image":"gcr.io/knative-releases/x"}]`,
		"resourceClaims":               `"resourceClaims":[{"name":"gpu","resourceClaimName":"gpu"}]`,
		"os":                           `"os":{"name":"windows"}`,
	} {
		field, _, _ := strings.Cut(name, ":")
		out["pods: "+name] = escalation{api.Serving, podPatch("{" + content + "}"), []string{"spec.patches[0]", "spec.template.spec." + strings.TrimSuffix(field, "."), `Deployment "knative-serving/controller"`}, false}
	}
	for name, content := range map[string]string{
		"command":                    `"command":["/bin/sh"]`,
		"args":                       `"args":["--insecure"]`,
		"workingDir":                 `"workingDir":"/tmp"`,
		"envFrom":                    `"envFrom":[{"secretRef":{"name":"other"}}]`,
		"env":                        `"env":[{"name":"SYSTEM_NAMESPACE","value":"kube-system"}]`,
		"env: a loader":              `"env":[{"name":"LD_PRELOAD","value":"/x.so"}]`,
		"env: a Secret":              `"env":[{"name":"GOGC","valueFrom":{"secretKeyRef":{"name":"s","key":"k"}}}]`,
		"env: a reference":           `"env":[{"name":"GOGC","value":"$(POD_NAME)"}]`,
		"ports":                      `"ports":[{"containerPort":9090,"hostPort":9090,"name":"metrics"}]`,
		"volumeMounts":               `"volumeMounts":[{"name":"x","mountPath":"/ko-app"}]`,
		"volumeDevices":              `"volumeDevices":[{"name":"x","devicePath":"/dev/x"}]`,
		"lifecycle":                  `"lifecycle":{"postStart":{"exec":{"command":["/bin/sh"]}}}`,
		"livenessProbe":              `"livenessProbe":{"exec":{"command":["/bin/sh"]}}`,
		"startupProbe":               `"startupProbe":{"httpGet":{"host":"192.0.2.1","port":80}}`,
		"resources.limits":           `"resources":{"limits":{"example.com/device":"1"}}`,
		"resources.claims":           `"resources":{"claims":[{"name":"gpu"}]}`,
		"stdin":                      `"stdin":true`,
		"terminationMessagePath":     `"terminationMessagePath":"/etc/x"`,
		"restartPolicy":              `"restartPolicy":"Always"`,
		"securityContext.privileged": `"securityContext":{"privileged":true}`,
		"securityContext.allowPrivilegeEscalation": `"securityContext":{"allowPrivilegeEscalation":true}`,
		"securityContext.runAsNonRoot":             `"securityContext":{"runAsNonRoot":false}`,
		"securityContext.runAsUser":                `"securityContext":{"runAsUser":0}`,
		"securityContext.procMount":                `"securityContext":{"procMount":"Unmasked"}`,
		"securityContext.capabilities.add":         `"securityContext":{"capabilities":{"add":["SYS_ADMIN"]}}`,
		"securityContext.capabilities.drop":        `"securityContext":{"capabilities":{"drop":null}}`,
		"securityContext.seccompProfile.type":      `"securityContext":{"seccompProfile":{"type":"Unconfined"}}`,
		"securityContext.seLinuxOptions":           `"securityContext":{"seLinuxOptions":{"type":"spc_t"}}`,
		"securityContext.appArmorProfile":          `"securityContext":{"appArmorProfile":{"type":"Unconfined"}}`,
		"securityContext.readOnlyRootFilesystem":   `"securityContext":{"readOnlyRootFilesystem":false}`,
	} {
		field, _, _ := strings.Cut(name, ":")
		out["containers: "+name] = escalation{api.Serving, containerPatch(content), []string{"spec.patches[0]", "spec.template.spec.containers[controller]." + field}, false}
	}
	return out
}

func objectEscalations() map[string]escalation {
	const digest = "@sha256:0123456789012345678901234567890123456789012345678901234567890123"
	return map[string]escalation{
		"an image of a patch":        {api.Serving, containerPatch(`"image":"evil.example.com/x"`), []string{"spec.patches[0]", `image "evil.example.com/x"`, "rendering.allowedImageRegistries"}, false},
		"a short image":              {api.Serving, containerPatch(`"image":"mallory"`), []string{"spec.patches[0]", `"mallory"`}, false},
		"an image like an allowed":   {api.Serving, containerPatch(`"image":"gcr.io/knative-releases-evil/x"`), []string{"knative-releases-evil"}, false},
		"a port of an allowed host":  {api.Serving, containerPatch(`"image":"registry.example.com:5000/x"`), []string{"registry.example.com:5000"}, false},
		"a path that climbs":         {api.Serving, containerPatch(`"image":"gcr.io/knative-releases/../evil/x"`), []string{"gcr.io/knative-releases/../evil"}, false},
		"a pod label of the release": {api.Serving, mergePatchSpec("apps/v1", "Deployment", "controller", `{"spec":{"template":{"metadata":{"labels":{"app":"webhook"}}}}}`), []string{"spec.template.metadata.labels", `"app"`}, false},
		"an injector's annotation":   {api.Serving, mergePatchSpec("apps/v1", "Deployment", "controller", `{"spec":{"template":{"metadata":{"annotations":{"sidecar.istio.io/proxyImage":"evil.example.com/x"}}}}}`), []string{"sidecar.istio.io/proxyImage"}, false},
		"AppArmor by annotation":     {api.Serving, mergePatchSpec("apps/v1", "Deployment", "controller", `{"spec":{"template":{"metadata":{"annotations":{"container.apparmor.security.beta.kubernetes.io/controller":"unconfined"}}}}}`), []string{"spec.template.metadata.annotations"}, false},
		"the selector of a workload": {api.Serving, mergePatchSpec("apps/v1", "Deployment", "controller", `{"spec":{"selector":{"matchLabels":{"app":"x"}}}}`), []string{"spec.selector"}, false},
		"a finalizer":                {api.Serving, mergePatchSpec("apps/v1", "Deployment", "controller", `{"metadata":{"finalizers":["example.com/x"]}}`), []string{"metadata.finalizers"}, false},
		"the selector of a Service":  {api.Serving, mergePatchSpec("v1", "Service", "webhook", `{"spec":{"selector":{"app":"mine"}}}`), []string{"spec.patches[0]", "spec.selector"}, false},
		"external IPs":               {api.Serving, mergePatchSpec("v1", "Service", "kourier", `{"spec":{"externalIPs":["192.0.2.1"]}}`), []string{"spec.externalIPs"}, false},
		"an external name":           {api.Serving, mergePatchSpec("v1", "Service", "kourier", `{"spec":{"type":"ExternalName","externalName":"x.example.com"}}`), []string{"spec.externalName"}, false},
		"an exposed webhook":         {api.Serving, mergePatchSpec("v1", "Service", "webhook", `{"spec":{"type":"LoadBalancer"}}`), []string{"spec.type"}, false},
		"another target port":        {api.Serving, mergePatchSpec("v1", "Service", "autoscaler", `{"spec":{"ports":[{"port":8080,"targetPort":1}]}}`), []string{"spec.ports"}, false},
		"a name in the DNS":          {api.Serving, mergePatchSpec("v1", "Service", "kourier", `{"metadata":{"annotations":{"external-dns.alpha.kubernetes.io/hostname":"bank.example.com"}}}`), []string{"external-dns.alpha.kubernetes.io/hostname"}, false},
		"a deleted Service":          {api.Serving, patchedSpec("v1", "Service", "webhook", "strategic", "$patch: delete"), []string{"spec.patches[0] removes Service"}, false},
		"the scaled workload":        {api.Serving, mergePatchSpec("autoscaling/v2", "HorizontalPodAutoscaler", "activator", `{"spec":{"scaleTargetRef":{"name":"other"}}}`), []string{"spec.scaleTargetRef"}, false},
		"the pods of a budget":       {api.Serving, mergePatchSpec("policy/v1", "PodDisruptionBudget", "activator-pdb", `{"spec":{"selector":{"matchLabels":{"app":"x"}}}}`), []string{"spec.selector"}, false},
		"Envoy's bootstrap":          {api.Serving, mergePatchSpec("v1", "ConfigMap", "kourier-bootstrap", `{"data":{"envoy-bootstrap.yaml":"admin: {}"}}`), []string{"spec.patches[0]", "kourier-bootstrap"}, false},
		"an image of a ConfigMap":    {api.Serving, mergePatchSpec("v1", "ConfigMap", "config-deployment", `{"data":{"queue-sidecar-image":"evil.example.com/q"}}`), []string{"spec.patches[0]", "evil.example.com/q"}, false},
		"the former name of a key":   {api.Serving, mergePatchSpec("v1", "ConfigMap", "config-deployment", `{"data":{"queue-sidecar-image":null,"queueSidecarImage":"evil.example.com/q"}}`), []string{"spec.patches[0]", "removes key \"queue-sidecar-image\""}, false},
		"a gateway of kube-system":   {api.Serving, "ingress: {istio: {enabled: true}}\nconfig: {istio: {local-gateways: '- {name: knative-local-gateway, namespace: kube-system, service: knative-local-gateway.kube-system.svc.cluster.local}'}}\n", []string{"spec.config[istio]", "kube-system/knative-local-gateway"}, false},
		"a cached image":             {api.Serving, mergePatchSpec("caching.internal.knative.dev/v1alpha1", "Image", "queue-proxy", `{"spec":{"image":"evil.example.com/q"}}`), []string{"spec.patches[0]", "evil.example.com/q"}, false},
		"binary data":                {api.Serving, mergePatchSpec("v1", "ConfigMap", "config-gc", `{"binaryData":{"x":"eA=="}}`), []string{"binaryData"}, false},
		"an adapter's image": {
			api.Eventing, "patches:\n- target: {apiVersion: apps/v1, kind: Deployment, name: eventing-controller}\n  patch: {type: strategic, content: '" +
				`{"spec":{"template":{"spec":{"containers":[{"name":"eventing-controller","env":[{"name":"APISERVER_RA_IMAGE","value":"evil.example.com/a` + digest + `"}]}]}}}}'}` + "\n",
			[]string{"spec.patches[0]", "evil.example.com/a"},
			false,
		},
	}
}

func fieldEscalations() map[string]escalation {
	out := map[string]escalation{
		"own manifests":           {api.Serving, "version: 1.23.0\nmanifests: [{URL: https://example.com/a.yaml}]", []string{"spec.manifests replaces"}, true},
		"a registry":              {api.Serving, kourier + "registry: {default: 'evil.example.com/${NAME}'}", []string{"spec.registry.default", "evil.example.com", "rendering.allowedImageRegistries"}, false},
		"a registry's path":       {api.Serving, kourier + "registry: {default: 'gcr.io/knative-releases${NAME}'}", []string{"spec.registry.default"}, false},
		"an image":                {api.Serving, kourier + "registry: {override: {activator: evil.example.com/a}}", []string{"spec.registry.override[activator]", "evil.example.com/a"}, false},
		"an image of a variable":  {api.Eventing, "registry: {override: {APISERVER_RA_IMAGE: evil.example.com/a}}", []string{"spec.registry.override[APISERVER_RA_IMAGE]"}, false},
		"a variable by an image":  {api.Serving, kourier + "registry: {override: {SYSTEM_NAMESPACE: gcr.io/knative-releases}}", []string{"spec.registry changes", "SYSTEM_NAMESPACE"}, false},
		"the Java options":        {api.Eventing, "source: {kafka: {enabled: true}}\nregistry: {override: {JAVA_TOOL_OPTIONS: gcr.io/knative-releases/x}}", []string{"JAVA_TOOL_OPTIONS"}, false},
		"pod security":            {api.Serving, kourier + "namespace: {labels: {pod-security.kubernetes.io/enforce: privileged}}", []string{"spec.namespace.labels[pod-security.kubernetes.io/enforce]"}, false},
		"the other name":          {api.Serving, kourier + "namespaceConfiguration: {labels: {pod-security.kubernetes.io/enforce: privileged}}", []string{"spec.namespace.labels["}, false},
		"an exemption":            {api.Serving, kourier + "namespace: {labels: {admission.gatekeeper.sh/ignore: 'true'}}", []string{"spec.namespace.labels["}, false},
		"a namespace annotation":  {api.Serving, kourier + "namespace: {annotations: {scheduler.alpha.kubernetes.io/node-selector: a=b}}", []string{"spec.namespace.annotations["}, false},
		"a Service's pods":        {api.Serving, kourier + "services: [{name: webhook, selector: {app: mine}}]", []string{"spec.services[webhook].selector"}, false},
		"a Service's name":        {api.Serving, kourier + "services: [{name: kourier, annotations: {external-dns.alpha.kubernetes.io/hostname: a}}]", []string{"spec.services[kourier].annotations["}, false},
		"a limit":                 {api.Serving, kourier + "resources: [{container: controller, limits: {example.com/device: 1}}]", []string{"spec.resources[controller]", "example.com/device"}, false},
		"Istio's ingress gateway": {api.Serving, "ingress: {istio: {enabled: true, knative-ingress-gateway: {selector: {istio: theirs}}}}", []string{"spec.ingress.istio.knative-ingress-gateway"}, false},
		"Istio's local gateway":   {api.Serving, "ingress: {istio: {enabled: true, knative-local-gateway: {servers: [{hosts: ['*'], port: {number: 80, name: a, protocol: HTTP}}]}}}", []string{"spec.ingress.istio.knative-local-gateway"}, false},
		"another bootstrap":       {api.Serving, "ingress: {kourier: {enabled: true, bootstrap-configmap: mine}}", []string{"spec.ingress.kourier.bootstrap-configmap"}, false},
	}
	for _, field := range []string{"deployments", "workloads"} {
		for name, tc := range map[string]struct{ content, want string }{
			"the node's network": {"hostNetwork: true", "[controller].hostNetwork"},
			"a variable":         {"env: [{container: controller, envVars: [{name: SYSTEM_NAMESPACE, value: kube-system}]}]", "[controller].env[SYSTEM_NAMESPACE]"},
			"a new variable":     {"env: [{container: controller, envVars: [{name: KUBECONFIG, value: /x}]}]", "[controller].env[KUBECONFIG]"},
			"a Secret's value":   {"env: [{container: controller, envVars: [{name: GOGC, valueFrom: {secretKeyRef: {name: a, key: b}}}]}]", "[controller].env[GOGC]"},
			"a device":           {"resources: [{container: controller, requests: {example.com/device: 1}}]", "[controller].resources[controller]"},
			"an injector":        {"annotations: {vault.hashicorp.com/agent-image: evil.example.com/x}", "[controller].annotations[vault.hashicorp.com/agent-image]"},
			"a role of a cloud":  {"annotations: {iam.amazonaws.com/role: admin}", "[controller].annotations[iam.amazonaws.com/role]"},
			"a label":            {"labels: {networking.knative.dev/x: a}", "[controller].labels[networking.knative.dev/x]"},
		} {
			out[field+": "+name] = escalation{api.Serving, kourier + field + ": [{name: controller, " + tc.content + "}]", []string{"spec." + field + tc.want}, false}
		}
		out[field+": a label of the release"] = escalation{api.Serving, kourier + field + ": [{name: controller, labels: {app: webhook}}]", []string{"spec.workloads[controller]", "labels"}, false}
	}
	return out
}

func configEscalations() map[string]escalation {
	out := map[string]escalation{}
	for name, tc := range map[string]struct {
		component api.Component
		config    string
		want      string
	}{
		"the sidecar's image":           {api.Serving, "deployment: {queue-sidecar-image: evil.example.com/q}", "spec.config[deployment][queue-sidecar-image]"},
		"the sidecar's image, long":     {api.Serving, "config-deployment: {queue-sidecar-image: evil.example.com/q}", "spec.config[config-deployment][queue-sidecar-image]"},
		"the sidecar's image, former":   {api.Serving, "deployment: {queueSidecarImage: evil.example.com/q}", "spec.config[deployment][queueSidecarImage]"},
		"Envoy's bootstrap":             {api.Serving, "kourier-bootstrap: {envoy-bootstrap.yaml: a}", "spec.config[kourier-bootstrap][envoy-bootstrap.yaml]"},
		"Envoy's bootstrap by half":     {api.Serving, "'-bootstrap': {envoy-bootstrap.yaml: a}", "spec.config[-bootstrap][envoy-bootstrap.yaml]"},
		"images of sources":             {api.Eventing, "eventing-integrations-images: {timer-source: evil.example.com/t}", "spec.config[eventing-integrations-images][timer-source]"},
		"images of sources by half":     {api.Eventing, "g-integrations-images: {timer-source: evil.example.com/t}", "spec.config[g-integrations-images][timer-source]"},
		"objects of namespaced brokers": {api.Eventing, "config-namespaced-broker-resources: {resources: '[]'}", "spec.config[config-namespaced-broker-resources][resources]"},
		"pods as channels": {
			api.Eventing, "br-default-channel: {channel-template-spec: '{apiVersion: v1, kind: Pod, spec: {hostPID: true}}'}",
			"spec.config[br-default-channel][channel-template-spec]",
		},
		"pods as channels, former key": {
			api.Eventing, "config-br-default-channel: {channelTemplateSpec: '{apiVersion: v1, kind: Pod}'}", "spec.config[config-br-default-channel][channelTemplateSpec]",
		},
		"pods as channels, two versions": {
			api.Eventing, "config-br-default-channel: {channel-template-spec: '{apiVersion: messaging.knative.dev/v1, apiversion: v1, kind: Pod}'}",
			"spec.config[config-br-default-channel][channel-template-spec]",
		},
		"pods as default channels": {
			api.Eventing, "default-ch-webhook: {default-ch-config: '{clusterDefault: {apiVersion: apps/v1, kind: Deployment}}'}",
			"spec.config[default-ch-webhook][default-ch-config]",
		},
		"pods as default channels of a namespace": {
			api.Eventing, "default-ch-webhook: {default-ch-config: '{NamespaceDefaults: {kube-system: {apiVersion: v1, kind: Pod}}}'}",
			"spec.config[default-ch-webhook][default-ch-config]",
		},
		"a template of other users": {
			api.Eventing, "br-defaults: {default-br-config: '{clusterDefault: {brokerClass: MTChannelBasedBroker, apiVersion: v1, kind: ConfigMap, name: a, namespace: users}}'}",
			"spec.config[br-defaults][default-br-config]",
		},
		"a template of other users, by class": {
			api.Eventing, "br-defaults: {default-br-config: '{clusterDefault: {brokerClasses: {B: {kind: ConfigMap, name: a, Namespace: users}}}}'}",
			"spec.config[br-defaults][default-br-config]",
		},
		"a template of other users, in another case": {
			api.Eventing, "br-defaults: {default-br-config: '{clusterDefault: {kind: configmap, name: a, namespace: users}}'}", "spec.config[br-defaults][default-br-config]",
		},
		"a tap as a channel": {
			api.Eventing, "br-default-channel: {channel-template-spec: '{apiVersion: messaging.knative.dev/v1, kind: Subscription}'}",
			"spec.config[br-default-channel][channel-template-spec]",
		},
		"another channel's template": {
			api.Eventing, "br-default-channel: {channel-template-spec: '{apiVersion: messaging.knative.dev/v1, kind: Channel}'}",
			"spec.config[br-default-channel][channel-template-spec]",
		},
		"a Secret for Kafka's server": {
			api.Eventing, "kafka-broker-config: {bootstrap.servers: 'evil:9092', auth.secret.ref.name: admin}", "spec.config[kafka-broker-config][auth.secret.ref.name]",
		},
		"a Secret of a namespace for Kafka's server": {
			api.Eventing, "kafka-channel-config: {auth.secret.ref.namespace: victim}", "spec.config[kafka-channel-config][auth.secret.ref.namespace]",
		},
		"a key for Kourier's clients":        {api.Serving, "kourier: {certs-secret-namespace: cert-manager}", "spec.config[kourier][certs-secret-namespace]"},
		"a key of Knative's namespace":       {api.Serving, "config-kourier: {cluster-cert-secret: admin}", "spec.config[config-kourier][cluster-cert-secret]"},
		"a server that authorizes all users": {api.Serving, "kourier: {extauthz-host: 'evil:9000'}", "spec.config[kourier][extauthz-host]"},
		"properties of a Java client":        {api.Eventing, "config-kafka-source-data-plane: {config-kafka-source-consumer.properties: a=b}", "spec.config[config-kafka-source-data-plane]"},
		"a logging library's file":           {api.Eventing, "kafka-config-logging: {config.xml: <a/>}", "spec.config[kafka-config-logging][config.xml]"},
		"a logging library's, by half":       {api.Eventing, "onfig-logging: {config.xml: <a/>}", "spec.config[onfig-logging][config.xml]"},
		"the node's files for users":         {api.Serving, "features: {kubernetes.podspec-volumes-hostpath: Enabled}", "spec.config[features][kubernetes.podspec-volumes-hostpath]"},
		"the node's network for users":       {api.Serving, "features: {kubernetes.podspec-hostnetwork: allowed}", "spec.config[features][kubernetes.podspec-hostnetwork]"},
		"the node's processes for users":     {api.Serving, "config-features: {kubernetes.podspec-hostpid: enabled}", "spec.config[config-features][kubernetes.podspec-hostpid]"},
		"capabilities for users":             {api.Serving, "features: {kubernetes.containerspec-addcapabilities: enabled}", "spec.config[features][kubernetes.containerspec-addcapabilities]"},
	} {
		spec := kourier
		if tc.component == api.Eventing {
			spec = "source: {kafka: {enabled: true}}\n"
		}
		out["config: "+name] = escalation{tc.component, spec + "config: {" + tc.config + "}", []string{tc.want}, false}
	}
	return out
}
