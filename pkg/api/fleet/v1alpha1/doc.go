// Copyright Contributors to the Open Cluster Management project

// Package v1alpha1 holds the types of KnativeFleet, which installs Knative on the clusters of selected ClusterProfiles.
//
// The CustomResourceDefinition of the chart is generated from these types (manifests/crds/generate).
//
// +kubebuilder:object:generate=true
// +groupName=knative.open-cluster-management.io
package v1alpha1
