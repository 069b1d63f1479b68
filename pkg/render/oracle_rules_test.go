// Copyright Contributors to the Open Cluster Management project

package render

import (
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
)

// oracleRule explains one kind of difference between the operator's objects and ours: where it is, and how the two
// values relate.
type oracleRule struct {
	name     string
	explains func(*comparison, difference) bool
	// elsewhere names the test that shows the rule at work, when the matrix of CRs cannot: it needs remote manifests or
	// patches.
	elsewhere string
}

func oracleRules() []oracleRule {
	return []oracleRule{
		{name: "deduplicated"}, // counted where objects are paired
		{name: "namespace-merged", explains: namespaceMerged},
		{name: "namespace-added", elsewhere: "TestOwnManifests"},
		{name: "job-named", explains: jobNamed},
		{name: "job-kept", explains: dropped("spec", "ttlSecondsAfterFinished")},
		{name: "owner-dropped", explains: dropped("metadata", "ownerReferences")},
		{name: "status-dropped", explains: dropped("status")},
		{name: "scaled-replicas-dropped", explains: scaledReplicasDropped},
		{name: "adapter-environment-dropped", explains: adapterEnvironmentDropped},
		{name: "webhook-rules-dropped", explains: webhookRulesDropped},
		{name: "webhook-selector-completed", explains: webhookSelectorCompleted},
		{name: "webhook-selector-dropped", elsewhere: "TestWebhookFields"},
		{name: "ca-bundle-dropped", elsewhere: "TestWebhookFields"},
		{name: "aggregated-rules-dropped", explains: aggregatedRulesDropped},
		{name: "trimmed-description", explains: trimmedDescription},
		{name: "trimmed-example", explains: trimmedExample},
		{name: "install-namespace-used", explains: installNamespaceUsed},
		{name: "queue-image-mirrored", explains: queueImageMirrored},
		{name: "cluster-scope-restored", elsewhere: "TestClusterScope"},
		{name: "patched", elsewhere: "TestPatches"},
		{name: "claim-added"},        // counted where objects are paired
		{name: "start-policy-added"}, // counted where objects are paired
	}
}

// dropped explains that a field at exactly this path is not there.
func dropped(elements ...string) func(*comparison, difference) bool {
	return func(_ *comparison, d difference) bool {
		return d.ours == nil && slices.Equal(d.path, elements)
	}
}

// namespaceMerged: labels and annotations of our Namespace come from one of the operator's.
func namespaceMerged(c *comparison, d difference) bool {
	if c.kind() != "Namespace" || len(c.all) < 2 || d.theirs != nil {
		return false
	}
	value := d.ours
	for _, other := range c.all {
		if cmp.Equal(valueAt(other, d.path), value) {
			return true
		}
	}
	return false
}

func valueAt(value any, p location) any {
	for _, key := range p {
		m, _ := value.(map[string]any)
		value = m[key]
	}
	return value
}

func jobNamed(c *comparison, d difference) bool {
	prefix, _ := d.theirs.(string)
	return c.kind() == "Job" && d.path.String() == "metadata.generateName" && d.ours == nil &&
		strings.HasPrefix(c.name(), prefix)
}

func scaledReplicasDropped(c *comparison, d difference) bool {
	return d.path.String() == "spec.replicas" && d.ours == nil && c.scaled[c.name()]
}

// adapterEnvironmentDropped: what is left is the operator's environment without K_ variables, in the order that the
// eventing controller writes.
func adapterEnvironmentDropped(c *comparison, d difference) bool {
	if c.name() != "pingsource-mt-adapter" || !slices.Contains(d.path, "env") {
		return false
	}
	at := d.path[:slices.Index(d.path, "env")+1]
	theirs, ours := variables(c.theirs, at), variables(c.ours, at)
	if len(ours) < 2 || ours[0] != "NAMESPACE" || ours[1] != "SYSTEM_NAMESPACE" {
		return false
	}
	var want []string
	for _, name := range theirs {
		if !strings.HasPrefix(name, "K_") {
			want = append(want, name)
		}
	}
	got := slices.Clone(ours)
	slices.Sort(want)
	slices.Sort(got)
	return slices.Equal(got, want)
}

func variables(object map[string]any, at location) []string {
	var value any = object
	for _, key := range at {
		if l, ok := value.([]any); ok {
			value = l[int(key[1]-'0')]
			continue
		}
		m, _ := value.(map[string]any)
		value = m[key]
	}
	list, _ := value.([]any)
	var out []string
	for _, e := range list {
		out = append(out, variableName(e))
	}
	return out
}

func webhookRulesDropped(c *comparison, d difference) bool {
	return strings.HasSuffix(c.kind(), "WebhookConfiguration") && d.path.ends("rules") && d.ours == nil
}

// webhookSelectorCompleted: Knative's own expression was added in front.
func webhookSelectorCompleted(c *comparison, d difference) bool {
	if !strings.HasSuffix(c.kind(), "WebhookConfiguration") || !d.path.ends("namespaceSelector", "matchExpressions") {
		return false
	}
	own := []any{map[string]any{"key": "webhooks.knative.dev/exclude", "operator": "DoesNotExist"}}
	theirs, _ := d.theirs.([]any)
	return cmp.Equal(d.ours, append(own, theirs...))
}

func aggregatedRulesDropped(c *comparison, d difference) bool {
	return c.kind() == "ClusterRole" && c.theirs["aggregationRule"] != nil && d.path.String() == "rules" && d.ours == nil
}

// trimmedDescription: a text at a place where a schema has its description.
func trimmedDescription(c *comparison, d difference) bool {
	_, isText := d.theirs.(string)
	if c.kind() != "CustomResourceDefinition" || !d.path.ends("description") || d.ours != nil || !isText {
		return false
	}
	return d.path[len(d.path)-2] != "properties"
}

func trimmedExample(c *comparison, d difference) bool {
	if c.kind() != "ConfigMap" || d.ours != nil {
		return false
	}
	data, _ := c.theirs["data"].(map[string]any)
	if data["_example"] == nil {
		return false
	}
	switch d.path.String() {
	case "data._example", "metadata.annotations.knative.dev/example-checksum":
		return true
	case "data":
		return len(data) == 1
	case "metadata.annotations":
		m, _ := d.theirs.(map[string]any)
		return len(m) == 1 && m["knative.dev/example-checksum"] != nil
	}
	return false
}

// installNamespaceUsed: the only change is that one namespace stands where the other did.
func installNamespaceUsed(c *comparison, d difference) bool {
	theirs, ours := stringOf(d.theirs), stringOf(d.ours)
	if c.namespace == c.usual || ours != strings.ReplaceAll(theirs, c.usual, c.namespace) {
		return false
	}
	switch c.kind() {
	case "ConfigMap":
		return c.name() == "kourier-bootstrap" && d.path.ends("envoy-bootstrap.yaml") || c.name() == "config-br-defaults" && d.path.ends("default-br-config")
	case "Certificate":
		return slices.Contains(d.path, "dnsNames")
	case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
		return slices.Contains(d.path, "namespaceSelector")
	case "Deployment":
		return c.name() == "kafka-controller" && slices.Contains(d.path, "env") && d.path.ends("value")
	}
	return false
}

// queueImageMirrored: the operator leaves the release's image, and spec.registry names a mirror.
func queueImageMirrored(c *comparison, d difference) bool {
	return c.kind() == "ConfigMap" && c.name() == "config-deployment" && d.path.String() == "data.queue-sidecar-image" &&
		strings.HasPrefix(stringOf(d.theirs), "gcr.io/knative-releases/") &&
		strings.HasPrefix(stringOf(d.ours), "mirror.example.com/")
}
