// Copyright Contributors to the Open Cluster Management project

package inventory

import "open-cluster-management.io/knative-addon/pkg/render"

// RemovalOrder returns the stages in the order of a removal. Webhook configurations are first: without the workloads that
// serve the webhooks, the configurations would block the cluster, and Knative's webhooks, which update the configurations,
// never recreate them. Permissions follow the workloads, because workloads that still run need permissions to end well. Policies
// are last: until the end, the policies refuse resources that no webhook judges. The foundation is not included: only some
// deletion policies remove the foundation.
func RemovalOrder() []render.Stage {
	return []render.Stage{
		render.StageWebhook, render.StageWorkload, render.StageJob, render.StageDependent, render.StageConfiguration,
		render.StagePermission, render.StagePolicy,
	}
}
