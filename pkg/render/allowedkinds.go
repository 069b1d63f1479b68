// Copyright Contributors to the Open Cluster Management project

package render

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// allowedKinds are the kinds that a bundle may contain, as "Kind.group".
type allowedKinds map[string]bool

// newAllowedKinds allows the kinds of Knative's releases and those that the administrator names.
func newAllowedKinds(configured []string) allowedKinds {
	out := allowedKinds{}
	for _, k := range kindTable {
		if k.origin == fromRelease {
			out[k.String()] = true
		}
	}
	for _, name := range configured {
		out[strings.TrimSuffix(name, ".")] = true
	}
	return out
}

// checkKind refuses an object of a kind that is not allowed.
func (a allowedKinds) checkKind(u *unstructured.Unstructured) error {
	kind := u.GroupVersionKind().GroupKind().String()
	if a["*"] || a[kind] {
		return nil
	}
	return newError(ReasonKindNotAllowed, "%s is of kind %s, which the add-on may not deliver: remove it from the "+
		"manifests, or let an administrator allow the kind", describeObject(u), kind)
}
