// Copyright Contributors to the Open Cluster Management project

package target

import (
	"fmt"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/message"
	"open-cluster-management.io/knative-addon/pkg/resolve"
)

// RemoveOne ends the message about two installations of a component on one cluster.
const RemoveOne = "remove one of the two, and the remaining one continues automatically"

// maxNamed is the number of objects that a refusal names.
const maxNamed = 5

// RefuseUnmanaged refuses a cluster that has the component by another installer. The cluster is the text for a message, such as
// `cluster "c1"`; adopt ends the message with the way to adopt the installation.
func RefuseUnmanaged(cluster string, c api.Component, objects []string, adopt string) *resolve.Result {
	return &resolve.Result{Reason: api.ReasonExistingInstallation, Message: fmt.Sprintf(
		"%s already has %s of another installer, and the installation stays unchanged: %s; remove the installation, or %s",
		cluster, c, message.List(objects, maxNamed), adopt)}
}

// RefuseNamespace refuses the install namespace that an annotation names. The problem is what the cluster has in the way.
func RefuseNamespace(problem string, c api.Component) *resolve.Result {
	return &resolve.Result{Reason: api.ReasonEscalationNotPermitted, Message: fmt.Sprintf(
		"%s, and annotation %s may name such a namespace only in a trusted namespace of the hub; name a namespace that the cluster does not have, remove the annotation, or let the hub's administrator add the namespace of the %s to rendering.trustedNamespaces of the chart",
		problem, api.InstallNamespaceAnnotation, c.Kind())}
}
