// Copyright Contributors to the Open Cluster Management project

package direct

import "k8s.io/apimachinery/pkg/runtime/schema"

// stage is when an object is applied: what others need comes first. The objects of a stage are applied at once.
type stage int

const (
	foundationStage stage = iota // Namespaces and CRDs
	permissionStage              // who may do what
	configStage                  // what workloads read, and how they are reached
	workloadStage
	jobStage       // they take their time, and are not needed by what follows
	webhookStage   // after those who answer
	dependentStage // objects of kinds that Knative or others bring
	stages
)

func stageOf(gk schema.GroupKind) stage {
	switch gk.Group {
	case "":
		switch gk.Kind {
		case "Namespace":
			return foundationStage
		case "ServiceAccount":
			return permissionStage
		case "ConfigMap", "Secret", "Service":
			return configStage
		}
	case "apiextensions.k8s.io":
		return foundationStage
	case "rbac.authorization.k8s.io":
		return permissionStage
	case "apps", "autoscaling", "policy":
		return workloadStage
	case "batch":
		return jobStage
	case "admissionregistration.k8s.io":
		return webhookStage
	}
	return dependentStage
}

// removalOrder is the order of removal. Webhook configurations go first: without those who answer they would block the
// cluster, and Knative's webhooks, which keep them up to date, never make them anew. Permissions go last, so that what
// still runs can end well. The foundation is not among them: it stays, unless that is asked for.
func removalOrder() []stage {
	return []stage{webhookStage, workloadStage, jobStage, dependentStage, configStage, permissionStage}
}
