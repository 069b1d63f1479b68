// Copyright Contributors to the Open Cluster Management project

package api

// Prefix starts every label, annotation and finalizer that is ours.
const Prefix = "knative.open-cluster-management.io/"

const (
	// InstallNamespaceAnnotation on a KnativeServing or KnativeEventing names the install namespace on the spoke.
	InstallNamespaceAnnotation = Prefix + "install-namespace"
)
