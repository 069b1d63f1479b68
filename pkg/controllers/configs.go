// Copyright Contributors to the Open Cluster Management project

package controllers

import (
	"slices"

	"k8s.io/client-go/tools/cache"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	addoninformers "open-cluster-management.io/api/client/addon/informers/externalversions/addon/v1beta1"
)

// namingConfigs hides ManagedClusterAddOns without spec.configs from the controller of addon-framework that writes the hash and
// the generation of a configuration into add-ons. An edit of a configuration concerns add-ons with spec.configs at once. OCM gives
// the edited configuration to the other add-ons by its rollout, and the controller follows OCM. A controller that wrote to a whole
// fleet before OCM would conflict with OCM, and OCM goes through all clusters again after each conflict.
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
