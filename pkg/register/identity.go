// Copyright Contributors to the Open Cluster Management project

package register

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// identity identifies a registration on the hub and on the registered cluster.
type identity struct {
	// hub is the UID of the hub's namespace kube-system.
	hub types.UID
	// profile is the ClusterProfile.
	profile types.NamespacedName
}

// mark labels and annotates an object as an object of the registration.
func (i identity) mark(o *unstructured.Unstructured) {
	o.SetLabels(labels.Merge(o.GetLabels(), labels.Set{api.RegisteredLabel: "true"}))
	o.SetAnnotations(labels.Merge(o.GetAnnotations(), labels.Set{
		api.RegisteredAsAnnotation: i.profile.String(), api.HubAnnotation: string(i.hub),
	}))
}

// owns reports whether the registration has created an object.
func (i identity) owns(o *unstructured.Unstructured) bool {
	annotations := o.GetAnnotations()
	return o.GetLabels()[api.RegisteredLabel] == "true" && annotations[api.RegisteredAsAnnotation] == i.profile.String() &&
		annotations[api.HubAnnotation] == string(i.hub)
}

// refuse returns the error for an object that the registration has not created, and nil for an object of the registration.
func (i identity) refuse(c *Cluster, o *unstructured.Unstructured, next string) error {
	switch {
	case i.owns(o):
		return nil
	case o.GetLabels()[api.RegisteredLabel] != "true":
		return fmt.Errorf("%s on %s was not created by `knative-addon register`, and stays unchanged: %s", describe(o), c.Name, next)
	}
	return fmt.Errorf("%s on %s belongs to the registration as ClusterProfile %q of the hub with UID %q, and stays unchanged: unregister that ClusterProfile first, or %s",
		describe(o), c.Name, o.GetAnnotations()[api.RegisteredAsAnnotation], o.GetAnnotations()[api.HubAnnotation], next)
}
