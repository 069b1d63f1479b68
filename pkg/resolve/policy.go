// Copyright Contributors to the Open Cluster Management project

package resolve

import "slices"

// AnyNamespace stands for every namespace in a ReferencePolicy.
const AnyNamespace = "*"

// ReferencePolicy says which ClusterProfiles may be referred to from where. A resource may always refer to those of its
// own namespace and of the add-on's; everything else is for the hub's administrator to allow.
type ReferencePolicy struct {
	// AddOnNamespace is the add-on's own.
	AddOnNamespace string
	// Allowed lists, by the namespace of the resource, the namespaces of the profiles besides. AnyNamespace may stand on
	// both sides.
	Allowed map[string][]string
}

// Permits tells whether a resource in namespace from may refer to a ClusterProfile in namespace to.
func (p ReferencePolicy) Permits(from, to string) bool {
	allowed := p.allowed(from)
	return to != "" && (to == from || to == p.AddOnNamespace || slices.Contains(allowed, to) || slices.Contains(allowed, AnyNamespace))
}

// allowed are the namespaces that the administrator lists for a resource in namespace from.
func (p ReferencePolicy) allowed(from string) []string {
	return slices.Concat(p.Allowed[from], p.Allowed[AnyNamespace])
}

// permitted are all namespaces that a resource in namespace from may refer to.
func (p ReferencePolicy) permitted(from string) []string {
	return slices.DeleteFunc(append([]string{from, p.AddOnNamespace}, p.allowed(from)...),
		func(namespace string) bool { return namespace == "" })
}
