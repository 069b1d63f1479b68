// Copyright Contributors to the Open Cluster Management project

package invariants

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/test/lab"
)

// AddOnAgent begins the User-Agent of the programs of the add-on.
const AddOnAgent = "knative-addon/"

// namespaceController empties a Namespace that another client has deleted.
const namespaceController = "system:serviceaccount:kube-system:namespace-controller"

// userAgents begin the User-Agents of stories and of the programs with which stories play users. Every other client serves the
// add-on: its manager, OCM's agents, and the garbage collector, which follows owner references.
func userAgents() []string { return []string{"e2e.test/", "kubectl/", "clusteradm/", "Helm/", "helm/"} }

// RemovalRequest declares that a story requests the removal of CRDs, Namespaces and resources of users from a cluster.
type RemovalRequest struct {
	Cluster string
	Since   time.Time
}

// KeepUserData is invariant I1 for one cluster: neither the add-on nor a controller in its service deletes a CRD, a Namespace or
// a resource of a user, unless the story has requested that before. A request that removes nothing is a violation too: the record of
// deletions would be incomplete.
func KeepUserData(cluster string, isHub bool, changes []lab.Change, requests []RemovalRequest) []string {
	requested := slices.DeleteFunc(slices.Clone(requests), func(r RemovalRequest) bool { return r.Cluster != cluster })
	var out []string
	used := false
	for i := range changes {
		c := &changes[i]
		if !deletesUserData(c) || !isOfAddOn(c, isHub) {
			continue
		}
		if slices.ContainsFunc(requested, func(r RemovalRequest) bool { return !c.Time.Before(r.Since) }) {
			used = true
			continue
		}
		out = append(out, fmt.Sprintf("%s: %s of %s has deleted %s, and nobody requested the removal", cluster, c.User, c.Agent, describeChange(c)))
	}
	if len(requested) > 0 && !used {
		out = append(out, fmt.Sprintf("%s: the story requests the removal of CRDs and Namespaces, and the record has no such deletion", cluster))
	}
	return out
}

func deletesUserData(c *lab.Change) bool {
	if !strings.HasPrefix(c.Verb, "delete") {
		return false
	}
	switch {
	case c.Group == "" && c.Resource == "namespaces", c.Group == "apiextensions.k8s.io" && c.Resource == "customresourcedefinitions":
		return true
	case c.Group == "networking.internal.knative.dev":
		return c.Resource == "clusterdomainclaims"
	case c.Group == "serving.knative.dev" && c.Namespace == api.Serving.InstallNamespace():
		return !strings.HasPrefix(c.Name, api.VerificationServiceName) // the Service of a verification, and its resources
	}
	// The add-on owns the resources of internal groups, and resources of group operator configure the add-on.
	return strings.HasSuffix(c.Group, ".knative.dev") && !strings.Contains(c.Group, ".internal.") && c.Group != "operator.knative.dev"
}

// isOfAddOn reports whether the change is one of the add-on or of a client that serves the add-on. On the hub, OCM and Kubernetes
// delete the Namespaces of detached clusters.
func isOfAddOn(c *lab.Change, isHub bool) bool {
	if isHub {
		return strings.HasPrefix(c.Agent, AddOnAgent)
	}
	byUser := func(agent string) bool { return strings.HasPrefix(c.Agent, agent) }
	return c.User != namespaceController && !slices.ContainsFunc(userAgents(), byUser)
}

func describeChange(c *lab.Change) string {
	name := c.Name
	if c.Namespace != "" && c.Resource != "namespaces" {
		name = c.Namespace + "/" + name
	}
	return strings.TrimSuffix(c.Resource+"."+c.Group, ".") + " " + name
}
