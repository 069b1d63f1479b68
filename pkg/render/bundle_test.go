// Copyright Contributors to the Open Cluster Management project

package render

import (
	"bytes"
	gocmp "cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/workload"
)

// TestEveryBundleIsDeliverable checks what a ManifestWork and Knative demand on every bundle of the oracle's matrix.
func TestEveryBundleIsDeliverable(t *testing.T) {
	for name, c := range oracleCases(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := gocmp.Or(c.namespace, c.component.InstallNamespace())
			b, err := shared.Render(context.Background(), installIn(t, namespace, c.component, c.spec), c.options)
			if err != nil {
				t.Fatal(err)
			}
			checkDeliverable(t, b)
		})
	}
}

func checkDeliverable(t *testing.T, b *Bundle) {
	t.Helper()
	seen := map[ObjectID]bool{}
	digest := sha256.New()
	size := 0
	for n, o := range b.Objects() {
		if seen[o.ID()] {
			t.Errorf("%s is there twice", o.ID())
		}
		seen[o.ID()] = true
		if o.GetName() == "" || o.GetGenerateName() != "" {
			t.Errorf("%s has no fixed name", o.ID())
		}
		data, err := json.Marshal(o.Object)
		if err != nil || !bytes.Equal(data, o.JSON) {
			t.Errorf("the JSON of %s is not that of the object: %v", o.ID(), err)
		}
		digest.Write(o.JSON)
		digest.Write([]byte("\n"))
		size += len(o.JSON)
		if isFoundation(o.Unstructured) != (n < len(b.Foundation)) || o.Orphan != (n < len(b.Foundation)) {
			t.Errorf("%s is in the wrong half, or orphaned and not of the foundation", o.ID())
		}
		checkSpokeFields(t, o)
		_ = o.DeepCopy() // panics on values that are not JSON's
	}
	if got := hex.EncodeToString(digest.Sum(nil)); got != b.Digest {
		t.Errorf("the digest is %s, want %s over the objects in order", b.Digest, got)
	}
	if size != b.Size || b.Size != b.FoundationSize+b.PayloadSize {
		t.Errorf("sizes are %d, %d and %d; want %d in all", b.Size, b.FoundationSize, b.PayloadSize, size)
	}
	if b.Foundation[0].GetKind() != "Namespace" || b.Foundation[0].GetName() != b.Namespace {
		t.Errorf("the first object is %s, want the Namespace %q", b.Foundation[0].ID(), b.Namespace)
	}
	checkOrder(t, b)
}

// checkSpokeFields: nothing that the spoke writes is in the object.
func checkSpokeFields(t *testing.T, o Object) {
	t.Helper()
	for _, absent := range []string{`"status":{`, `"caBundle"`, `"creationTimestamp"`, `"ownerReferences"`, `"generateName"`} {
		if !isCRD(o.Unstructured) && bytes.Contains(o.JSON, []byte(absent)) {
			t.Errorf("%s has %s", o.ID(), absent)
		}
	}
	switch {
	case isKind(o.Unstructured, "", "Secret") && o.Class != CreateOnly,
		isKind(o.Unstructured, "batch", "Job") && o.Class != OncePerVersion,
		o.GroupVersionKind().Group == "rbac.authorization.k8s.io" && o.Class != Update,
		o.GroupVersionKind().Group == "apps" && o.Class != Apply,
		o.GroupVersionKind().Group == "admissionregistration.k8s.io" && o.Class != Apply:
		t.Errorf("%s has class %s", o.ID(), o.Class)
	}
	if o.GroupVersionKind().Group == "admissionregistration.k8s.io" && bytes.Contains(o.JSON, []byte(`"rules"`)) {
		t.Errorf("%s has rules", o.ID())
	}
	if _, aggregated := o.Object["aggregationRule"]; aggregated && o.Object["rules"] != nil {
		t.Errorf("%s is aggregated and has rules", o.ID())
	}
}

// checkOrder: what is needed comes before what needs it.
func checkOrder(t *testing.T, b *Bundle) {
	t.Helper()
	position := map[ObjectID]int{}
	for n, o := range b.Objects() {
		position[o.ID()] = n
	}
	before := func(first, second ObjectID) {
		if p, found := position[first]; found && p > position[second] {
			t.Errorf("%s comes after %s, which needs it", first, second)
		}
	}
	for _, o := range b.Objects() {
		id := o.ID()
		if role, found, _ := unstructured.NestedString(o.Object, "roleRef", "name"); found {
			kind, _, _ := unstructured.NestedString(o.Object, "roleRef", "kind")
			first := ObjectID{Group: id.Group, Kind: kind, Name: role}
			if kind == "Role" {
				first.Namespace = id.Namespace
			}
			before(first, id)
		}
		if account, found, _ := unstructured.NestedString(o.Object, "spec", "template", "spec", "serviceAccountName"); found {
			before(ObjectID{Kind: "ServiceAccount", Namespace: id.Namespace, Name: account}, id)
		}
		eachWebhook(o.Unstructured, func(w map[string]any) {
			service, _, _ := unstructured.NestedStringMap(w, "clientConfig", "service")
			before(ObjectID{Kind: "Service", Namespace: service["namespace"], Name: service["name"]}, id)
		})
		if isKind(o.Unstructured, "batch", "Job") {
			for _, w := range b.Workloads {
				before(ObjectID{Group: "apps", Kind: w.Kind, Namespace: w.Namespace, Name: w.Name}, id)
			}
		}
	}
	last := b.Payload[len(b.Payload)-1]
	if b.Component == api.Serving && slices.Contains([]string{"Deployment", "ConfigMap", "Job"}, last.GetKind()) {
		t.Errorf("the last object is %s, want what needs other products or Knative's own APIs", last.ID())
	}
}

func TestWorkloads(t *testing.T) {
	one, three := int32(1), int32(3)
	hpa := func(name string) string { return "HorizontalPodAutoscaler/" + name }
	got := bundle(t, api.Serving, kourier+"high-availability: {replicas: 3}").Workloads
	const ns = "knative-serving"
	want := []workload.Expected{
		{Kind: "Deployment", Namespace: ns, Name: "3scale-kourier-gateway", ScaledBy: hpa("3scale-kourier-gateway")},
		{Kind: "Deployment", Namespace: ns, Name: "activator", ScaledBy: hpa("activator")},
		{Kind: "Deployment", Namespace: ns, Name: "autoscaler", Replicas: &three},
		{Kind: "Deployment", Namespace: ns, Name: "autoscaler-hpa", Replicas: &three},
		{Kind: "Deployment", Namespace: ns, Name: "controller", Replicas: &three},
		{Kind: "Deployment", Namespace: ns, Name: "net-kourier-controller", Replicas: &three},
		{Kind: "Deployment", Namespace: ns, Name: "webhook", ScaledBy: hpa("webhook"), Webhook: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("workloads of Serving (-want +got):\n%s", diff)
	}
	eventing := bundle(t, api.Eventing, "source: {kafka: {enabled: true}}")
	for _, w := range []workload.Expected{
		{Kind: "Deployment", Name: "pingsource-mt-adapter", ScaledBy: "eventing-controller"},
		{Kind: "Deployment", Name: "mt-broker-ingress", ScaledBy: hpa("broker-ingress-hpa")},
		{Kind: "StatefulSet", Name: "kafka-source-dispatcher", ScaledBy: "kafka-controller"},
		{Kind: "StatefulSet", Name: "request-reply", Replicas: &one},
		{Kind: "Deployment", Name: "imc-controller", Replicas: &one, Webhook: true},
		{Kind: "Deployment", Name: "imc-dispatcher", Replicas: &one},
		{Kind: "Deployment", Name: "kafka-webhook-eventing", Replicas: &one, Webhook: true},
	} {
		w.Namespace = "knative-eventing"
		if !slices.ContainsFunc(eventing.Workloads, func(g workload.Expected) bool { return cmp.Equal(w, g) }) {
			t.Errorf("workloads of Eventing lack %+v", w)
		}
	}
	jobs := []workload.JobRef{
		{Namespace: "knative-eventing", Name: "kafka-controller-post-install-eventing-1.23.0"},
		{Namespace: "knative-eventing", Name: "knative-kafka-storage-version-migrator-eventing-1.23.0"},
		{Namespace: "knative-eventing", Name: "storage-version-migration-eventing-eventing-1.23.0"},
	}
	if diff := cmp.Diff(jobs, eventing.Jobs); diff != "" {
		t.Errorf("jobs of Eventing (-want +got):\n%s", diff)
	}
}

// A number of replicas that the user chose for the adapter is no fight: the controller raises zero only.
func TestAdapterReplicas(t *testing.T) {
	b := bundle(t, api.Eventing, "workloads: [{name: pingsource-mt-adapter, replicas: 2}]")
	if n, found, _ := unstructured.NestedInt64(object(t, b, "Deployment", "pingsource-mt-adapter").Object, "spec", "replicas"); n != 2 || !found {
		t.Errorf("the adapter has %d replicas, want the two that the user wants", n)
	}
	b = bundle(t, api.Eventing, "workloads: [{name: pingsource-mt-adapter, replicas: 0}]")
	if _, found, _ := unstructured.NestedInt64(object(t, b, "Deployment", "pingsource-mt-adapter").Object, "spec", "replicas"); found {
		t.Error("the adapter has a number of replicas, want none: zero would stop it at every resync")
	}
}

func TestResources(t *testing.T) {
	b := bundle(t, api.Serving, "ingress: {istio: {enabled: true}, gateway-api: {enabled: true}}\nsecurity: {securityGuard: {enabled: true}}")
	want := map[string]schema.GroupVersionResource{
		"Namespace":                      {Version: "v1", Resource: "namespaces"},
		"CustomResourceDefinition":       {Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
		"ClusterRoleBinding":             {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"},
		"HorizontalPodAutoscaler":        {Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"},
		"PodDisruptionBudget":            {Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"},
		"MutatingWebhookConfiguration":   {Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"},
		"ValidatingWebhookConfiguration": {Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"},
		"Image":                          {Group: "caching.internal.knative.dev", Version: "v1alpha1", Resource: "images"},
		"Gateway":                        {Group: "networking.istio.io", Version: "v1beta1", Resource: "gateways"},
		"PeerAuthentication":             {Group: "security.istio.io", Version: "v1beta1", Resource: "peerauthentications"},
		"Job":                            {Group: "batch", Version: "v1", Resource: "jobs"},
	}
	for _, o := range b.Objects() {
		if w, found := want[o.GetKind()]; found && o.Resource != w {
			t.Errorf("%s has resource %v, want %v", o.ID(), o.Resource, w)
		}
		if o.Resource.Resource != strings.ToLower(o.Resource.Resource) || !strings.HasSuffix(o.Resource.Resource, "s") {
			t.Errorf("%s has resource %v, which is no plural", o.ID(), o.Resource)
		}
	}
}

// The sizes are what the design rests on: they decide how many clusters a hub can hold.
func TestSizes(t *testing.T) {
	cases := map[string]struct {
		component       api.Component
		spec            string
		payload, sum    int
		operatorAtLeast int
	}{
		"Serving with Kourier": {api.Serving, kourier, 50_000, 110_000, 550_000},
		"Eventing":             {api.Eventing, "{}", 95_000, 165_000, 490_000},
		"Eventing with all sources": {
			api.Eventing, "source: {ceph: {enabled: true}, github: {enabled: true}, gitlab: {enabled: true}, kafka: {enabled: true}, " +
				"rabbitmq: {enabled: true}, redis: {enabled: true}}", 175_000, 290_000, 700_000,
		},
	}
	for name, tc := range cases {
		b := bundle(t, tc.component, tc.spec)
		if b.PayloadSize > tc.payload || b.Size > tc.sum {
			t.Errorf("%s: payload %d, in all %d bytes; want at most %d and %d", name, b.PayloadSize, b.Size, tc.payload, tc.sum)
		}
		raw := 0
		u := resource(t, tc.component, tc.spec)
		for _, o := range operatorObjects(t, shared.catalog.dir, typed(t, u, b.Namespace)) {
			data, err := json.Marshal(o.Object)
			if err != nil {
				t.Fatal(err)
			}
			raw += len(data)
		}
		if raw < tc.operatorAtLeast {
			t.Errorf("%s: the operator emits %d bytes, want more than %d: is it all there?", name, raw, tc.operatorAtLeast)
		}
		t.Logf("%s: foundation %d, payload %d, the operator %d bytes", name, b.FoundationSize, b.PayloadSize, raw)
	}
}

// Every fragment of the matrix changes something, or the matrix would prove less than it seems to.
func TestFragmentsHaveAnEffect(t *testing.T) {
	without := []string{"nothing", "istio", "workload-without-effect", "tls-disabled"}
	for component, fragments := range map[api.Component][]fragment{
		api.Serving: servingFragments(), api.Eventing: eventingFragments(),
	} {
		plain := bundle(t, component, "{}").Digest
		for _, f := range fragments {
			changed := bundle(t, component, f.spec).Digest != plain
			if changed == slices.Contains(without, f.name) {
				t.Errorf("%s: fragment %q changes the bundle: %t", component, f.name, changed)
			}
		}
	}
}

// TestFoundationDigest: a configuration that only the payload has must not have every foundation of a fleet written.
func TestFoundationDigest(t *testing.T) {
	plain := bundle(t, api.Serving, "{version: '1.23'}")
	if edited := bundle(t, api.Serving, "{version: '1.23', config: {deployment: {progress-deadline: 5s}}}"); edited.Digest == plain.Digest ||
		edited.FoundationDigest != plain.FoundationDigest {
		t.Error("an edit of the payload changes the digest of the foundation, or no digest at all")
	}
	if other := bundle(t, api.Serving, "{version: '1.22'}"); other.FoundationDigest == plain.FoundationDigest {
		t.Error("another version has a foundation with the same digest")
	}
}

// TestInstallNamespace: in another namespace nothing refers to the usual one any more.
func TestInstallNamespace(t *testing.T) {
	for component, specs := range map[api.Component][]string{
		api.Serving: {kourier, "ingress: {istio: {enabled: true}, gateway-api: {enabled: true}, contour: {enabled: true}}\nsecurity: {securityGuard: {enabled: true}}"},
		api.Eventing: {
			"config: {features: {transport-encryption: strict}}\nsource: {kafka: {enabled: true}, ceph: {enabled: true}, github: {enabled: true}, " +
				"gitlab: {enabled: true}, rabbitmq: {enabled: true}, redis: {enabled: true}}",
		},
	} {
		for _, spec := range specs {
			for _, version := range []string{"1.20", "1.21", "1.22", "1.23"} {
				b, err := shared.Render(context.Background(), installIn(t, "edge", component, spec+"\nversion: '"+version+"'"), DefaultOptions(api.ModeManifestWork))
				if err != nil {
					t.Fatal(err)
				}
				for _, o := range b.Objects() {
					for _, place := range referencesTo(component.InstallNamespace(), o.Object, "") {
						t.Errorf("%s %s: %s refers to %s", component, version, o.ID(), place)
					}
				}
			}
		}
	}
}

// referencesTo are the places where a namespace is named: alone, or in a DNS name. As the value of the label that names
// the product it is no namespace.
func referencesTo(namespace string, value any, path string) []string {
	var out []string
	switch v := value.(type) {
	case map[string]any:
		for key, nested := range v {
			out = append(out, referencesTo(namespace, nested, path+"."+key)...)
		}
	case []any:
		for n, nested := range v {
			if m, ok := nested.(map[string]any); ok && m["key"] == nameLabel {
				continue
			}
			out = append(out, referencesTo(namespace, nested, fmt.Sprintf("%s[%d]", path, n))...)
		}
	case string:
		alone := v == namespace && !strings.HasSuffix(path, nameLabel)
		if alone || strings.Contains(v, "namespace: "+namespace) || strings.Contains(v, "."+namespace+".") || strings.Contains(v, "."+namespace+"\"") || strings.HasSuffix(v, "."+namespace) {
			out = append(out, path)
		}
	}
	return out
}

// An override that changes nothing is said, one that changes something is not.
func TestUnmatchedOverrides(t *testing.T) {
	b := bundle(t, api.Serving, kourier+`
config: {autoscaler: {a: b}, config-network: {c: d}, autoscalr: {e: f}, config-none: {g: h}}
workloads: [{name: controller}, {name: storage-version-migration-serving-}, {name: contoller, replicas: 3}]
deployments: [{name: old}]
services: [{name: webhook}, {name: webhok}]
podDisruptionBudgets: [{name: activator-pdb}, {name: activator}]`)
	of := func(field, name, kind string) string {
		return fmt.Sprintf("%s %q changes nothing: no %s of knative-serving 1.23.0 has this name", field, name, kind)
	}
	want := []string{
		of("spec.workloads", "old", "workload"), of("spec.workloads", "contoller", "workload"),
		of("spec.services", "webhok", "Service"), of("spec.podDisruptionBudgets", "activator", "PodDisruptionBudget"),
		of("spec.config", "autoscalr", "ConfigMap"), of("spec.config", "config-none", "ConfigMap"),
	}
	if diff := cmp.Diff(want, b.Warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

func TestSummary(t *testing.T) {
	var out bytes.Buffer
	b := bundle(t, api.Serving, kourier)
	if err := WriteSummary(&out, b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"knative-serving 1.23.0", "sha256:" + b.Digest, fmt.Sprintf("%d objects, %d bytes", len(b.Payload), b.PayloadSize),
		"12 CustomResourceDefinition", "2 OncePerVersion", "Deployment knative-serving/webhook, scaled by HorizontalPodAutoscaler/webhook, answers webhooks",
		"Deployment knative-serving/controller, 1 replicas", "Job knative-serving/cleanup-serving-serving-1.23.0",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the summary lacks %q:\n%s", want, out.String())
		}
	}
}
