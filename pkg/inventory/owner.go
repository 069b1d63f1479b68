// Copyright Contributors to the Open Cluster Management project

package inventory

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/clustercache"
	"open-cluster-management.io/knative-addon/pkg/message"
)

// Owner is the resource that an installation belongs to.
type Owner struct {
	Component api.Component
	// Hub is the UID of the hub's namespace kube-system: two hubs may have resources of the same name.
	Hub types.UID
	// Name is the namespace and name of the KnativeServing or KnativeEventing.
	Name types.NamespacedName
}

// String names the owner, unlike every other owner of the same hub.
func (o Owner) String() string { return fmt.Sprintf("%s %q", o.Component.Kind(), o.Name) }

// AnchorName returns the name that the Knative Operator gives the anchor of the installation. The error is a
// *clustercache.BlockedError for a name that is too long.
func (o Owner) AnchorName() (string, error) {
	name := strings.ToLower(o.Component.Kind()) + "-" + o.Name.Name + "-root-owner"
	if len(name) > validation.DNS1123SubdomainMaxLength {
		return "", &clustercache.BlockedError{Err: fmt.Errorf("cannot name ConfigMap %q: it would be longer than %d characters; give %s %q a shorter name",
			name, validation.DNS1123SubdomainMaxLength, o.Component.Kind(), o.Name)}
	}
	return name, nil
}

// isHubOf reports whether the owner's hub wrote an anchor.
func (o Owner) isHubOf(m *corev1.ConfigMap) bool {
	return m.Annotations[api.HubAnnotation] == string(o.Hub)
}

// ownershipError returns the error for an anchor of another owner.
func (o Owner) ownershipError(m *corev1.ConfigMap) error {
	return &OwnershipError{Owner: message.Shorten(m.Annotations[api.InstalledForAnnotation], message.MaxName), SameHub: o.isHubOf(m)}
}
