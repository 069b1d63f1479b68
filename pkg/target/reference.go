// Copyright Contributors to the Open Cluster Management project

package target

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// ReferenceOf returns spec.clusterProfileRef of a KnativeServing or KnativeEventing; ok is false without a reference.
func ReferenceOf(config *unstructured.Unstructured) (ref types.NamespacedName, ok bool) {
	namespace, _, _ := unstructured.NestedString(config.Object, "spec", "clusterProfileRef", "namespace")
	name, ok, _ := unstructured.NestedString(config.Object, "spec", "clusterProfileRef", "name")
	return types.NamespacedName{Namespace: namespace, Name: name}, ok
}

// Names of the indexes of Indexers.
const (
	byProfileName      = "profileName"
	byProfileNamespace = "profileNamespace"
)

// Indexers index KnativeServings and KnativeEventings by the ClusterProfile of the reference.
func Indexers() cache.Indexers {
	return cache.Indexers{
		byProfileName: func(o any) ([]string, error) {
			return indexReference(o, func(ref types.NamespacedName) string { return ref.Name })
		},
		byProfileNamespace: func(o any) ([]string, error) {
			return indexReference(o, func(ref types.NamespacedName) string { return ref.Namespace })
		},
	}
}

func indexReference(o any, key func(types.NamespacedName) string) ([]string, error) {
	config, ok := o.(*unstructured.Unstructured)
	if !ok {
		return nil, nil
	}
	ref, ok := ReferenceOf(config)
	if !ok {
		return nil, nil
	}
	return []string{key(ref)}, nil
}

// ReferringToName returns the resources that refer to a ClusterProfile of the name in any namespace: OCM names
// ClusterProfiles like their clusters. The indexer must have Indexers.
func ReferringToName(indexer cache.Indexer, name string) ([]*unstructured.Unstructured, error) {
	return byIndex(indexer, byProfileName, name)
}

// ReferringToNamespace returns the resources that refer to a ClusterProfile in the namespace. The indexer must have
// Indexers.
func ReferringToNamespace(indexer cache.Indexer, namespace string) ([]*unstructured.Unstructured, error) {
	return byIndex(indexer, byProfileNamespace, namespace)
}

func byIndex(indexer cache.Indexer, index, value string) ([]*unstructured.Unstructured, error) {
	objects, err := indexer.ByIndex(index, value)
	if err != nil {
		return nil, err
	}
	var out []*unstructured.Unstructured
	for _, o := range objects {
		if config, ok := o.(*unstructured.Unstructured); ok {
			out = append(out, config)
		}
	}
	return out, nil
}
