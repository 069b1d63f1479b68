// Copyright Contributors to the Open Cluster Management project

package render

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// draftOf is a draft of Knative Serving with objects in YAML.
func draftOf(t *testing.T, documents ...string) *draft {
	t.Helper()
	d := &draft{
		component: api.Serving, version: "1.23.0", namespace: "knative-serving", spec: install(t, api.Serving, "{}").componentSpec(),
		allowed: newAllowedKinds(nil), users: map[ObjectID]bool{}, additional: map[ObjectID]bool{},
	}
	for _, text := range documents {
		d.objects = append(d.objects, parse(t, text))
	}
	return d
}

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(data); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return u
}

// runStep runs one step on objects in YAML and compares what comes out with objects in YAML.
func runStep(t *testing.T, step func(*draft) error, d *draft, want ...string) {
	t.Helper()
	if err := step(d); err != nil {
		t.Fatal(err)
	}
	got := make([]map[string]any, 0, len(d.objects))
	for _, u := range d.objects {
		got = append(got, u.Object)
	}
	expected := make([]map[string]any, 0, len(want))
	for _, text := range want {
		expected = append(expected, parse(t, text).Object)
	}
	if diff := cmp.Diff(expected, got); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
}

func TestWebhookFields(t *testing.T) {
	header := func(name string) string {
		return "apiVersion: admissionregistration.k8s.io/v1\nkind: MutatingWebhookConfiguration\nmetadata: {name: " + name + "}\n"
	}
	cases := map[string]struct{ in, want string }{
		"a webhook that Knative keeps": {
			header("webhook.serving.knative.dev") + "webhooks: [{name: webhook.serving.knative.dev, rules: [{operations: ['*']}], clientConfig: {caBundle: Cg==, service: {name: webhook}}, timeoutSeconds: 10}]",
			header("webhook.serving.knative.dev") + "webhooks: [{name: webhook.serving.knative.dev, clientConfig: {service: {name: webhook}}, timeoutSeconds: 10}]",
		},
		"a webhook of a user keeps its rules and its certificate": {
			header("gate.example.com") + "webhooks: [{name: gate.example.com, rules: [{operations: ['*']}], namespaceSelector: {matchLabels: {a: b}}, clientConfig: {caBundle: Cg==}}]",
			header("gate.example.com") + "webhooks: [{name: gate.example.com, rules: [{operations: ['*']}], namespaceSelector: {matchLabels: {a: b}}, clientConfig: {caBundle: Cg==}}]",
		},
		"a certificate that cert-manager injects": {
			"apiVersion: admissionregistration.k8s.io/v1\nkind: MutatingWebhookConfiguration\nmetadata: {name: gate.example.com, annotations: {cert-manager.io/inject-ca-from: a/b}}\nwebhooks: [{name: gate.example.com, clientConfig: {caBundle: Cg==}}]",
			"apiVersion: admissionregistration.k8s.io/v1\nkind: MutatingWebhookConfiguration\nmetadata: {name: gate.example.com, annotations: {cert-manager.io/inject-ca-from: a/b}}\nwebhooks: [{name: gate.example.com, clientConfig: {}}]",
		},
		"an entry that Knative does not look for": {
			header("webhook.serving.knative.dev") + "webhooks: [{name: other.serving.knative.dev, rules: [{operations: ['*']}]}]",
			header("webhook.serving.knative.dev") + "webhooks: [{name: other.serving.knative.dev, rules: [{operations: ['*']}]}]",
		},
		"a selector of a user": {
			header("webhook.serving.knative.dev") + `
webhooks:
- name: webhook.serving.knative.dev
  namespaceSelector: {matchLabels: {a: b}, matchExpressions: [{key: tier, operator: Exists}, {key: old.knative.dev/x, operator: Exists}]}`,
			header("webhook.serving.knative.dev") + `
webhooks:
- name: webhook.serving.knative.dev
  namespaceSelector: {matchLabels: {a: b}, matchExpressions: [{key: webhooks.knative.dev/exclude, operator: DoesNotExist}, {key: tier, operator: Exists}]}`,
		},
		"an empty selector": {
			header("webhook.serving.knative.dev") + "webhooks: [{name: webhook.serving.knative.dev, namespaceSelector: {}}]",
			header("webhook.serving.knative.dev") + "webhooks: [{name: webhook.serving.knative.dev}]",
		},
		"a selector on a webhook for bindings": {
			header("sinkbindings.webhook.sources.knative.dev") + "webhooks: [{name: sinkbindings.webhook.sources.knative.dev, namespaceSelector: {matchLabels: {a: b}}, objectSelector: {}}]",
			header("sinkbindings.webhook.sources.knative.dev") + "webhooks: [{name: sinkbindings.webhook.sources.knative.dev}]",
		},
		"the selector of a webhook for ConfigMaps": {
			header("config.webhook.eventing.knative.dev") + "webhooks: [{name: config.webhook.eventing.knative.dev, namespaceSelector: {matchExpressions: [{key: a, operator: Exists}]}}]",
			header("config.webhook.eventing.knative.dev") + "webhooks: [{name: config.webhook.eventing.knative.dev, namespaceSelector: {matchExpressions: [{key: a, operator: Exists}]}}]",
		},
		"a CRD that Knative converts": {
			"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a.b}\nspec: {group: sources.knative.dev, conversion: {strategy: Webhook, webhook: {clientConfig: {caBundle: Cg==, service: {name: webhook}}}}}",
			"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a.b}\nspec: {group: sources.knative.dev, conversion: {strategy: Webhook, webhook: {clientConfig: {service: {name: webhook}}}}}",
		},
		"a CRD that a user's webhook converts": {
			"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a.b}\nspec: {group: example.com, conversion: {strategy: Webhook, webhook: {clientConfig: {caBundle: Cg==, service: {name: webhook}}}}}",
			"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a.b}\nspec: {group: example.com, conversion: {strategy: Webhook, webhook: {clientConfig: {caBundle: Cg==, service: {name: webhook}}}}}",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			runStep(t, dropWebhookFields, draftOf(t, tc.in), tc.want)
		})
	}
}

func TestClusterScope(t *testing.T) {
	const crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: fleets.example.com}\nspec: {group: example.com, scope: Cluster, names: {kind: Fleet}}"
	runStep(t, restoreClusterScope, draftOf(t, crd,
		"apiVersion: example.com/v1\nkind: Fleet\nmetadata: {name: a, namespace: knative-serving}",
		"apiVersion: cert-manager.io/v1\nkind: ClusterIssuer\nmetadata: {name: a, namespace: knative-serving}",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: knative-serving}"),
		crd,
		"apiVersion: example.com/v1\nkind: Fleet\nmetadata: {name: a}",
		"apiVersion: cert-manager.io/v1\nkind: ClusterIssuer\nmetadata: {name: a}",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: knative-serving}")
}

func TestServerFields(t *testing.T) {
	runStep(t, dropServerFields, draftOf(t, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: a, uid: x, resourceVersion: "7", generation: 3, creationTimestamp: null, managedFields: [], ownerReferences: [], selfLink: y}
spec: {template: {metadata: {creationTimestamp: null, labels: {a: b}}}}
status: {replicas: 1}`),
		"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {template: {metadata: {labels: {a: b}}}}")
}

func TestDeduplicate(t *testing.T) {
	runStep(t, deduplicateObjects, draftOf(t,
		"apiVersion: v1\nkind: Namespace\nmetadata: {name: a, labels: {x: '1', y: '1'}}",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: a}\ndata: {k: first}",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: b}",
		"apiVersion: v1\nkind: Namespace\nmetadata: {name: a, labels: {y: '2', z: '2'}, annotations: {n: m}}",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: a}\ndata: {k: last}"),
		"apiVersion: v1\nkind: Namespace\nmetadata: {name: a, labels: {x: '1', y: '2', z: '2'}, annotations: {n: m}}",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: a}\ndata: {k: last}",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: b}")
}

// A property may have the name of what is trimmed.
func TestTrimDescriptions(t *testing.T) {
	const head = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a.b}\nspec:\n  versions:\n  - "
	runStep(t, trimDescriptions, draftOf(t, head+`schema:
      openAPIV3Schema:
        description: top
        type: object
        required: [description]
        properties:
          description: {type: string, description: a property that has this name}
          default: {type: object, default: {description: a value}, additionalProperties: {type: string, description: gone}}
          list: {type: array, items: {description: gone, type: object, properties: {description: {type: integer}}}}
          either: {oneOf: [{description: gone, type: string}], not: {description: gone, type: 'null'}}
          choice: {enum: [description]}
    additionalPrinterColumns: [{name: A, description: kept}]`),
		head+`schema:
      openAPIV3Schema:
        type: object
        required: [description]
        properties:
          description: {type: string}
          default: {type: object, default: {description: a value}, additionalProperties: {type: string}}
          list: {type: array, items: {type: object, properties: {description: {type: integer}}}}
          either: {oneOf: [{type: string}], not: {type: 'null'}}
          choice: {enum: [description]}
    additionalPrinterColumns: [{name: A, description: kept}]`)
}

func TestTrimExamples(t *testing.T) {
	d := draftOf(t,
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, annotations: {knative.dev/example-checksum: x}}\ndata: {_example: long}",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b, annotations: {knative.dev/example-checksum: x, n: m}}\ndata: {_example: long, key: value}",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: own}\ndata: {_example: the user's}")
	d.additional[ObjectID{Kind: "ConfigMap", Name: "own"}] = true
	runStep(t, trimExamples, d,
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b, annotations: {n: m}}\ndata: {key: value}",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: own}\ndata: {_example: the user's}")
}

func TestScaledReplicas(t *testing.T) {
	const (
		hpa    = "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: h, namespace: n}\nspec: {scaleTargetRef: {kind: Deployment, name: one}}"
		scaled = "apiVersion: keda.sh/v1alpha1\nkind: ScaledObject\nmetadata: {name: k, namespace: n}\nspec: {scaleTargetRef: {name: two}}"
	)
	deployment := func(kind, name, spec string) string {
		return "apiVersion: apps/v1\nkind: " + kind + "\nmetadata: {name: " + name + ", namespace: n}\nspec: {" + spec + "}"
	}
	runStep(t, dropScaledReplicas, draftOf(t, hpa, scaled,
		deployment("Deployment", "one", "replicas: 2"), deployment("StatefulSet", "one", "replicas: 2"),
		deployment("Deployment", "two", "replicas: 2"), deployment("Deployment", "three", "replicas: 2")),
		hpa, scaled,
		deployment("Deployment", "one", ""), deployment("StatefulSet", "one", "replicas: 2"),
		deployment("Deployment", "two", ""), deployment("Deployment", "three", "replicas: 2"))
}

// What is left of the adapter's environment is the beginning of what the eventing controller writes there.
func TestAdapterEnvironment(t *testing.T) {
	for _, version := range shared.Versions(api.Eventing) {
		b := bundle(t, api.Eventing, "version: "+version)
		adapter := object(t, b, "Deployment", "pingsource-mt-adapter")
		env := at(t, adapter.Object, "spec", "template", "spec", "containers", 0, "env")
		want := []any{
			map[string]any{"name": "NAMESPACE", "valueFrom": map[string]any{"fieldRef": map[string]any{"apiVersion": "v1", "fieldPath": "metadata.namespace"}}},
			map[string]any{"name": "SYSTEM_NAMESPACE", "valueFrom": map[string]any{"fieldRef": map[string]any{"apiVersion": "v1", "fieldPath": "metadata.namespace"}}},
			map[string]any{"name": "POD_NAME", "valueFrom": map[string]any{"fieldRef": map[string]any{"fieldPath": "metadata.name"}}},
		}
		if diff := cmp.Diff(want, env); diff != "" {
			t.Errorf("environment of the adapter of %s (-want +got):\n%s", version, diff)
		}
	}
}

func TestValidate(t *testing.T) {
	cases := map[string]struct{ object, want string }{
		"a name that is none":       {"apiVersion: v1\nkind: Service\nmetadata: {name: Not_A_Name}", `Service "Not_A_Name": a lowercase RFC 1123 subdomain`},
		"a role with a free name":   {"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: 'system:knative:X'}", ""},
		"a role with a slash":       {"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: a/b}", "may not contain '/'"},
		"a namespace that is none":  {"apiVersion: v1\nkind: Service\nmetadata: {name: a, namespace: A}", `namespace "A"`},
		"a label that is none":      {"apiVersion: v1\nkind: Service\nmetadata: {name: a, labels: {a b: c}}", "metadata.labels: Invalid value"},
		"the name of an anchor":     {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: knativeserving-default-root-owner}", "a record of the add-on"},
		"the name of a mark":        {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: knative-eventing-bundle-abc}", "a record of the add-on"},
		"a Service of that name":    {"apiVersion: v1\nkind: Service\nmetadata: {name: knative-eventing-bundle-abc}", ""},
		"labels that are numbers":   {"apiVersion: v1\nkind: Service\nmetadata: {name: a, labels: {a: 7}}", "metadata.labels is no map of strings"},
		"an annotation that is odd": {"apiVersion: v1\nkind: Service\nmetadata: {name: a, annotations: {a b: c}}", "metadata.annotations: Invalid value"},
		"a pod label that is none":  {"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {template: {metadata: {labels: {a: 'b c'}}}}", "spec.template.metadata.labels: Invalid value"},
		"a key that is none":        {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a b: c}", "data[a b]: Invalid value"},
		"a hook by label": {
			"apiVersion: batch/v1\nkind: Job\nmetadata: {name: a, labels: {addon.open-cluster-management.io/addon-pre-delete: ''}}",
			`Job "a": label or annotation "addon.open-cluster-management.io/addon-pre-delete"`,
		},
		"a hook by annotation": {
			"apiVersion: batch/v1\nkind: Job\nmetadata: {name: a, annotations: {addon.open-cluster-management.io/addon-pre-delete: ''}}",
			`label or annotation "addon.open-cluster-management.io/addon-pre-delete"`,
		},
		"an orphan": {
			"apiVersion: v1\nkind: Service\nmetadata: {name: a, annotations: {addon.open-cluster-management.io/deletion-orphan: ''}}",
			`label or annotation "addon.open-cluster-management.io/deletion-orphan"`,
		},
		"no name":        {"apiVersion: v1\nkind: Service\nmetadata: {namespace: a}", "it has no name"},
		"a plain object": {"apiVersion: v1\nkind: Service\nmetadata: {name: a, namespace: b, labels: {a: b}}", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := checkIdentity(draftOf(t, tc.object))
			if tc.want == "" {
				if err != nil {
					t.Errorf("unexpected: %v", err)
				}
				return
			}
			if ReasonOf(err) != api.ReasonInvalidSpec {
				t.Fatalf("%v, want %s", err, api.ReasonInvalidSpec)
			}
			if diff := cmp.Diff(true, containsText(err, tc.want)); diff != "" {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
}
