// Copyright Contributors to the Open Cluster Management project

package controllers

import (
	"slices"

	"k8s.io/client-go/tools/cache"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	addoninformers "open-cluster-management.io/api/client/addon/informers/externalversions/addon/v1beta1"
)

// namingConfigs are the ManagedClusterAddOns for the controller of addon-framework that writes hash and generation of a
// configuration into them. An edit concerns at once only those that name the configuration in their spec. To the others OCM gives
// it in its own time, and the controller follows; were it first, for a whole fleet, it would conflict with OCM, which has to go
// through all clusters again for each of them.
type namingConfigs struct {
	addoninformers.ManagedClusterAddOnInformer
}

// Informer implements addoninformers.ManagedClusterAddOnInformer.
func (n namingConfigs) Informer() cache.SharedIndexInformer {
	return namingConfigsInformer{n.ManagedClusterAddOnInformer.Informer()}
}

type namingConfigsInformer struct{ cache.SharedIndexInformer }

// GetIndexer implements cache.SharedIndexInformer.
func (n namingConfigsInformer) GetIndexer() cache.Indexer {
	return namingConfigsIndexer{n.SharedIndexInformer.GetIndexer()}
}

type namingConfigsIndexer struct{ cache.Indexer }

// ByIndex implements cache.Indexer.
func (n namingConfigsIndexer) ByIndex(index, value string) ([]any, error) {
	all, err := n.Indexer.ByIndex(index, value)
	return slices.DeleteFunc(slices.Clone(all), func(o any) bool {
		a, ok := o.(*addonv1beta1.ManagedClusterAddOn)
		return ok && len(a.Spec.Configs) == 0
	}), err
}
