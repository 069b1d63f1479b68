// Copyright Contributors to the Open Cluster Management project

package trust

import "slices"

// AnyNamespace in Policy.Namespaces trusts every namespace.
const AnyNamespace = "*"

// Policy is the administrator's decision. The zero value trusts no namespace.
type Policy struct {
	// Namespaces are the namespaces of the hub whose resources may escalate, by name; AnyNamespace trusts all of them.
	Namespaces []string
	// ImageRegistries are prefixes of images, such as "registry.example.com/mirror", that every namespace may use besides
	// the registries of Knative's releases.
	ImageRegistries []string
}

// Trusts reports whether resources in the namespace may escalate.
func (p Policy) Trusts(namespace string) bool {
	return namespace != "" && (slices.Contains(p.Namespaces, namespace) || slices.Contains(p.Namespaces, AnyNamespace))
}
