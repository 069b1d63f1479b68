// Copyright Contributors to the Open Cluster Management project

package render

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Class is the strategy that keeps an object on a cluster. Any other strategy breaks Knative; docs/rendering.md has the
// reasons.
type Class string

const (
	// Apply is server-side apply with force, after every change and to repair drift. Fields that the object lacks belong to
	// the cluster.
	Apply Class = "Apply"
	// Update replaces the object when the cluster's object differs. The cluster writes none of these objects except the
	// rules of aggregated ClusterRoles, which must survive an update. No bundled version changes the roleRef of a binding;
	// an update could not.
	Update Class = "Update"
	// CreateOnly creates an absent object and never writes the object again: the cluster fills the fields.
	CreateOnly Class = "CreateOnly"
	// OncePerVersion creates a Job once: not again after the Job has finished and was removed, and never as an update,
	// since a Job is immutable. The name of the Job contains the version.
	OncePerVersion Class = "OncePerVersion"
)

// classOf returns the class of an object, which differs from that of its kind where a user fills a Secret.
func (d *draft) classOf(u *unstructured.Unstructured) Class {
	class := kindOf(u).Class
	if class == CreateOnly && d.users[objectIDOf(u)] && hasSecretData(u) {
		return Apply
	}
	return class
}

// hasSecretData reports whether a Secret has a value. Knative's releases ship Secrets that are empty or hold placeholders;
// Knative or a user of the cluster fills these Secrets.
func hasSecretData(u *unstructured.Unstructured) bool {
	for _, field := range []string{"data", "stringData"} {
		data, _, _ := unstructured.NestedMap(u.Object, field)
		for _, v := range data {
			if v != "" && v != nil {
				return true
			}
		}
	}
	return false
}

// ReleaseSecrets returns the names of the Secrets of Knative's releases, as patterns of package path. Knative, or a user of the cluster, fills
// these Secrets, and their class is CreateOnly. The work agent takes the names before the manager renders any release.
func ReleaseSecrets() []string {
	return []string{"*-certs", "request-reply-keys", "rabbitmq-source-key", "tls-secret"}
}

// isFoundation reports whether an object outlives an installation.
func isFoundation(u *unstructured.Unstructured) bool { return kindOf(u).Orphan }
