// Copyright Contributors to the Open Cluster Management project

package manifestwork

import (
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/render"
)

// The work agent's default strategy, Update, breaks Knative: the agent would reset replicas that an autoscaler set, empty
// the Secrets with Knative's certificates, and revert the rules and CA bundles that Knative writes into its webhook
// configurations.

// kindsWhere returns the matching kinds of the table of kinds that an installation may have, in the order of the table.
func kindsWhere(match func(render.Kind) bool) []render.Kind {
	var out []render.Kind
	for k := range render.DeliveredKinds() {
		if match(k) {
			out = append(out, k)
		}
	}
	return out
}

// isServerSideApplied reports whether the agent applies a kind server-side without reporting more than existence: fields
// that the manifests lack belong to the cluster. Secrets with data are among them. Roles, bindings and ServiceAccounts
// stay with Update, which leaves the rules of aggregated roles alone.
func isServerSideApplied(k render.Kind) bool {
	return k.Feedback == render.NoFeedback && (k.Class == render.Apply || k.Class == render.CreateOnly)
}

// createdOnce returns the Secrets of Knative's releases, which Knative or users fill on the cluster: class CreateOnly.
// addon-framework has one list for all clusters, so that the list needs names, and a test compares the names with every
// release.
func createdOnce() []workv1.ResourceIdentifier {
	var out []workv1.ResourceIdentifier
	for _, name := range render.ReleaseSecrets() {
		out = append(out, workv1.ResourceIdentifier{Resource: "secrets", Namespace: "*", Name: name})
	}
	return out
}

// PayloadConfigs returns how the agent keeps and observes the objects of a payload. The configuration states all defaults,
// because addon-framework compares the desired work with the work that the API server has defaulted.
func PayloadConfigs() []workv1.ManifestConfigOption {
	configs := []workv1.ManifestConfigOption{
		// The agent uses rules and strategy of the first matching entry that has any, and the scrape type of the last.
		{
			ResourceIdentifier: resourceIdentifier("apps", "deployments", "*"), UpdateStrategy: forcedApply(),
			FeedbackScrapeType: workv1.FeedbackWatchType, FeedbackRules: workloadFeedback(".status.availableReplicas"),
		},
		{
			ResourceIdentifier: resourceIdentifier("apps", "statefulsets", "*"), UpdateStrategy: forcedApply(),
			FeedbackScrapeType: workv1.FeedbackWatchType, FeedbackRules: workloadFeedback(".status.readyReplicas"),
		},
		{
			ResourceIdentifier: resourceIdentifier("batch", "jobs", "*"), UpdateStrategy: createOnly(),
			FeedbackScrapeType: workv1.FeedbackWatchType, ConditionRules: []workv1.ConditionRule{jobFinished(), jobFailed()},
		},
	}
	for _, id := range createdOnce() {
		configs = append(configs, workv1.ManifestConfigOption{
			ResourceIdentifier: id, UpdateStrategy: createOnly(), FeedbackScrapeType: workv1.FeedbackPollType,
		})
	}
	for _, k := range kindsWhere(isServerSideApplied) {
		id := resourceIdentifier(k.Group, k.Resource, "*")
		configs = append(configs, workv1.ManifestConfigOption{
			ResourceIdentifier: id, UpdateStrategy: forcedApply(), FeedbackScrapeType: scrapeType(id),
		})
	}
	return configs
}

// scrapeType returns how the agent notices changes of a resource. The agent does not watch for deletions, but the status of
// a PodDisruptionBudget changes at once when the protected Deployment is deleted, and makes the agent observe again.
func scrapeType(id workv1.ResourceIdentifier) workv1.FeedbackScrapeType {
	if id.Resource == "poddisruptionbudgets" {
		return workv1.FeedbackWatchType
	}
	return workv1.FeedbackPollType
}

func foundationConfigs() []workv1.ManifestConfigOption {
	var configs []workv1.ManifestConfigOption
	for _, k := range kindsWhere(func(k render.Kind) bool { return k.Orphan }) {
		configs = append(configs, workv1.ManifestConfigOption{
			ResourceIdentifier: resourceIdentifier(k.Group, k.Resource, "*"), UpdateStrategy: forcedApply(), FeedbackScrapeType: workv1.FeedbackPollType,
		})
	}
	return configs
}

func resourceIdentifier(group, resource, namespace string) workv1.ResourceIdentifier {
	return workv1.ResourceIdentifier{Group: group, Resource: resource, Namespace: namespace, Name: "*"}
}

func forcedApply() *workv1.UpdateStrategy {
	return &workv1.UpdateStrategy{
		Type:            workv1.UpdateStrategyTypeServerSideApply,
		ServerSideApply: &workv1.ServerSideApplyConfig{Force: true, FieldManager: workv1.DefaultFieldManager},
	}
}

func createOnly() *workv1.UpdateStrategy {
	return &workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeCreateOnly}
}

// Conditions of the manifest of a Job, besides the conditions that OCM defines. jobFinishedCondition must not be
// workv1.ManifestComplete: the agent never applies a work again that is Complete, even if other objects of the work are missing.
const (
	jobFinishedCondition = "Finished"
	jobFailedCondition   = "Failed"
)

func jobFinished() workv1.ConditionRule {
	return celRule(jobFinishedCondition,
		"has(object.status) && has(object.status.conditions) && object.status.conditions.exists(c, c.type == 'Complete' && c.status == 'True')",
		"result ? 'the Job has finished' : 'the Job has not finished'")
}

func jobFailed() workv1.ConditionRule {
	return celRule(jobFailedCondition,
		"has(object.status) && has(object.status.conditions) && object.status.conditions.exists(c, c.type == 'Failed' && c.status == 'True')",
		"result ? 'the Job has failed' : 'the Job has not failed'")
}

func celRule(condition, expression, message string) workv1.ConditionRule {
	return workv1.ConditionRule{
		Type: workv1.CelConditionExpressionsType, Condition: condition, CelExpressions: []string{expression}, MessageExpression: message,
	}
}
