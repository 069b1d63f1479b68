// Copyright Contributors to the Open Cluster Management project

package work

import (
	workv1 "open-cluster-management.io/api/work/v1"
)

// The work agent's default, Update, breaks Knative: it resets replicas that an autoscaler set, empties the Secrets that
// hold Knative's certificates, and takes back the rules and CA bundles that Knative writes into its webhooks.

// serverSideApplied are the resources that the agent applies server-side: what their manifests do not say belongs to the
// cluster. Roles, bindings and ServiceAccounts stay with Update, which leaves the rules of aggregated roles alone.
func serverSideApplied() []workv1.ResourceIdentifier {
	const all = "*"
	resources := []workv1.ResourceIdentifier{
		{Resource: "namespaces"},
		{Resource: "configmaps"},
		{Resource: "services"},
		{Resource: "secrets"},
		{Group: "autoscaling", Resource: "horizontalpodautoscalers"},
		{Group: "policy", Resource: "poddisruptionbudgets"},
		{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"},
		{Group: "admissionregistration.k8s.io", Resource: "mutatingwebhookconfigurations"},
		{Group: "admissionregistration.k8s.io", Resource: "validatingwebhookconfigurations"},
		{Group: "caching.internal.knative.dev", Resource: "images"},
		{Group: "networking.internal.knative.dev", Resource: "certificates"},
		{Group: "cert-manager.io", Resource: "certificates"},
		{Group: "networking.istio.io", Resource: "gateways"},
		{Group: "security.istio.io", Resource: "peerauthentications"},
		{Group: "projectcontour.io", Resource: "tlscertificatedelegations"},
		{Group: "cluster.open-cluster-management.io", Resource: "clusterclaims"},
	}
	for i := range resources {
		resources[i].Namespace, resources[i].Name = all, all
	}
	return resources
}

// createdOnce are the Secrets of Knative's releases, which Knative or users fill on the cluster: what render calls
// CreateOnly. addon-framework has one list for all clusters, so they are named here, and a test holds the names against
// every release.
func createdOnce() []workv1.ResourceIdentifier {
	var out []workv1.ResourceIdentifier
	for _, name := range []string{"*-certs", "request-reply-keys", "rabbitmq-source-key", "tls-secret"} {
		out = append(out, workv1.ResourceIdentifier{Resource: "secrets", Namespace: "*", Name: name})
	}
	return out
}

// openWork is a ConfigMap of every release. Its condition rule says that it is never complete: the agent calls a work
// complete, and no longer applies any of it, when all manifests that have such a rule are, and the Jobs have one.
const openWork = "config-leader-election"

// PayloadConfigs say how the agent keeps and watches the objects of a payload. All defaults are written out, because
// addon-framework compares the work that it wants with the one that the API server has defaulted.
func PayloadConfigs() []workv1.ManifestConfigOption {
	configs := []workv1.ManifestConfigOption{
		// The agent takes rules and strategy from the first entry that has any, and the way to watch from the last.
		{
			ResourceIdentifier: identifier("apps", "deployments", "*"), UpdateStrategy: forced(),
			FeedbackScrapeType: workv1.FeedbackWatchType, FeedbackRules: workloadFeedback(".status.availableReplicas"),
			ConditionRules: []workv1.ConditionRule{deploymentAvailable()},
		},
		{
			ResourceIdentifier: identifier("apps", "statefulsets", "*"), UpdateStrategy: forced(),
			FeedbackScrapeType: workv1.FeedbackWatchType, FeedbackRules: workloadFeedback(".status.readyReplicas"),
			ConditionRules: []workv1.ConditionRule{statefulSetAvailable()},
		},
		{
			ResourceIdentifier: identifier("batch", "jobs", "*"), UpdateStrategy: createOnly(),
			FeedbackScrapeType: workv1.FeedbackWatchType, ConditionRules: []workv1.ConditionRule{jobComplete(), jobFailed()},
		},
		{
			ResourceIdentifier: workv1.ResourceIdentifier{Resource: "configmaps", Namespace: "*", Name: openWork},
			FeedbackScrapeType: workv1.FeedbackPollType, ConditionRules: []workv1.ConditionRule{neverComplete()},
		},
	}
	for _, id := range createdOnce() {
		configs = append(configs, workv1.ManifestConfigOption{
			ResourceIdentifier: id, UpdateStrategy: createOnly(), FeedbackScrapeType: workv1.FeedbackPollType,
		})
	}
	for _, id := range serverSideApplied() {
		configs = append(configs, workv1.ManifestConfigOption{
			ResourceIdentifier: id, UpdateStrategy: forced(), FeedbackScrapeType: scrapeType(id),
		})
	}
	return configs
}

// scrapeType is how the agent notices that an object of the resource has changed. It does not watch for deletions, but the
// status of a PodDisruptionBudget changes at once when the Deployment that it protects is deleted, and has the agent look.
func scrapeType(id workv1.ResourceIdentifier) workv1.FeedbackScrapeType {
	if id.Resource == "poddisruptionbudgets" {
		return workv1.FeedbackWatchType
	}
	return workv1.FeedbackPollType
}

func foundationConfigs() []workv1.ManifestConfigOption {
	return []workv1.ManifestConfigOption{
		{ResourceIdentifier: identifier("", "namespaces", "*"), UpdateStrategy: forced(), FeedbackScrapeType: workv1.FeedbackPollType},
		{
			ResourceIdentifier: identifier("apiextensions.k8s.io", "customresourcedefinitions", "*"), UpdateStrategy: forced(),
			FeedbackScrapeType: workv1.FeedbackPollType,
		},
	}
}

func identifier(group, resource, namespace string) workv1.ResourceIdentifier {
	return workv1.ResourceIdentifier{Group: group, Resource: resource, Namespace: namespace, Name: "*"}
}

func forced() *workv1.UpdateStrategy {
	return &workv1.UpdateStrategy{
		Type:            workv1.UpdateStrategyTypeServerSideApply,
		ServerSideApply: &workv1.ServerSideApplyConfig{Force: true, FieldManager: workv1.DefaultFieldManager},
	}
}

func createOnly() *workv1.UpdateStrategy {
	return &workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeCreateOnly}
}

// observed is the CEL test that the object's controller has seen its last change.
const observed = "has(object.status) && has(object.status.observedGeneration) && object.status.observedGeneration >= object.metadata.generation"

func deploymentAvailable() workv1.ConditionRule {
	return cel(workv1.ManifestAvailable, observed+
		" && has(object.status.conditions) && object.status.conditions.exists(c, c.type == 'Available' && c.status == 'True')",
		"result ? 'the Deployment is available' : 'the Deployment is not available'")
}

func statefulSetAvailable() workv1.ConditionRule {
	return cel(workv1.ManifestAvailable, observed+
		" && (object.spec.replicas == 0 || has(object.status.readyReplicas) && object.status.readyReplicas >= object.spec.replicas)",
		"result ? 'the StatefulSet is available' : 'the StatefulSet is not available'")
}

// jobComplete is stricter than the agent's own rule, which calls a failed Job complete too.
func jobComplete() workv1.ConditionRule {
	return cel(workv1.ManifestComplete,
		"has(object.status) && has(object.status.conditions) && object.status.conditions.exists(c, c.type == 'Complete' && c.status == 'True')",
		"result ? 'the Job has finished' : 'the Job has not finished'")
}

// jobFailedCondition is a condition of the manifest of a Job, besides those that OCM defines.
const jobFailedCondition = "Failed"

func jobFailed() workv1.ConditionRule {
	return cel(jobFailedCondition,
		"has(object.status) && has(object.status.conditions) && object.status.conditions.exists(c, c.type == 'Failed' && c.status == 'True')",
		"result ? 'the Job has failed' : 'the Job has not failed'")
}

func neverComplete() workv1.ConditionRule {
	return cel(workv1.ManifestComplete, "false", "'keeps the work open'")
}

func cel(condition, expression, message string) workv1.ConditionRule {
	return workv1.ConditionRule{
		Type: workv1.CelConditionExpressionsType, Condition: condition, CelExpressions: []string{expression}, MessageExpression: message,
	}
}
