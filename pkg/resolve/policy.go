// Copyright Contributors to the Open Cluster Management project

package resolve

import "slices"

// AnyNamespace stands for every namespace in a ReferencePolicy.
const AnyNamespace = "*"

// ReferencePolicy says which ClusterProfiles may be referred to from where. A resource may always refer to ClusterProfiles
// of its own namespace; the hub's administrator allows every other namespace, the add-on's included: a profile in the
// add-on's namespace leads to a cluster of a set that is bound for Placements, and not for every author of a resource.
type ReferencePolicy struct {
	// Allowed lists, by the namespace of the resource, further namespaces of ClusterProfiles. AnyNamespace may stand on
	// both sides.
	Allowed map[string][]string
}

// Permits reports whether a resource in namespace from may refer to a ClusterProfile in namespace to.
func (p ReferencePolicy) Permits(from, to string) bool {
	allowed := p.allowedNamespaces(from)
	return to != "" && (to == from || slices.Contains(allowed, to) || slices.Contains(allowed, AnyNamespace))
}

// allowedNamespaces returns the namespaces that the administrator lists for a resource in namespace from.
func (p ReferencePolicy) allowedNamespaces(from string) []string {
	return slices.Concat(p.Allowed[from], p.Allowed[AnyNamespace])
}

// permittedNamespaces returns all namespaces that a resource in namespace from may refer to.
func (p ReferencePolicy) permittedNamespaces(from string) []string {
	return slices.DeleteFunc(append([]string{from}, p.allowedNamespaces(from)...), func(namespace string) bool { return namespace == "" })
}
