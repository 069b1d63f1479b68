// Copyright Contributors to the Open Cluster Management project

package direct

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// Owner is the resource that an installation belongs to.
type Owner struct {
	Component api.Component
	// Hub is the UID of the hub's namespace kube-system: two hubs may have resources of the same name.
	Hub types.UID
	// Name is the KnativeServing's or KnativeEventing's.
	Name types.NamespacedName
}

// AnchorName is the name of the installation's anchor, as the Knative Operator has it.
func (o Owner) AnchorName() (string, error) {
	name := strings.ToLower(o.Component.Kind()) + "-" + o.Name.Name + "-root-owner"
	if len(name) > validation.DNS1123SubdomainMaxLength {
		return "", &BlockedError{Err: fmt.Errorf("cannot name ConfigMap %q: it would be longer than %d characters; give %s %q a shorter name",
			name, validation.DNS1123SubdomainMaxLength, o.Component.Kind(), o.Name)}
	}
	return name, nil
}

// ForeignError is returned where the cluster has the component already and nothing says that it is ours.
type ForeignError struct {
	// Objects name what was found, sorted.
	Objects []string
}

// Error implements error.
func (e *ForeignError) Error() string {
	return "the cluster has an installation that is not ours: " + strings.Join(e.Objects, ", ")
}

// RivalError is returned where the cluster has the component for another resource.
type RivalError struct {
	// Owner is the namespace/name of the other resource. SameHub tells whether it is on the same hub.
	Owner   string
	SameHub bool
	// WorkAgent tells that a work agent has applied what is there: Owner then is the AppliedManifestWork, and Objects name
	// what was found, sorted.
	WorkAgent bool
	Objects   []string

	// left is the anchor where another hub has a resource of the same name, as the one has that this hub was built anew after.
	left *anchor
}

// Error implements error.
func (e *RivalError) Error() string { return "the installation belongs to " + e.Owner }

// Adoptable tells that the installation may be taken over. One of another resource has to be removed by that.
func (e *RivalError) Adoptable() bool { return e.WorkAgent || e.left != nil }

// adoptable tells that an error is of an installation that may be taken over.
func adoptable(err error) bool {
	foreign, rival := (*ForeignError)(nil), (*RivalError)(nil)
	return errors.As(err, &foreign) || errors.As(err, &rival) && rival.Adoptable()
}

// leftBy is the anchor that an error says may be taken over, nil when there is none.
func leftBy(err error) *anchor {
	if rival := (*RivalError)(nil); errors.As(err, &rival) {
		return rival.left
	}
	return nil
}
