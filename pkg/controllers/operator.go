// Copyright Contributors to the Open Cluster Management project

package controllers

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// operatorName is the name of the Knative Operator's Deployment, as its release, its chart and OperatorHub have it.
const operatorName = "knative-operator"

// operator knows whether the Knative Operator runs on the hub: it would take every KnativeServing and KnativeEventing for
// its own.
type operator struct {
	factory kubeinformers.SharedInformerFactory
}

func newOperator(client kubernetes.Interface) *operator {
	return &operator{factory: kubeinformers.NewSharedInformerFactoryWithOptions(client, resync,
		kubeinformers.WithTransform(withoutManagedFields),
		kubeinformers.WithTweakListOptions(func(o *metav1.ListOptions) { o.FieldSelector = "metadata.name=" + operatorName }))}
}

func (o *operator) informer() cache.SharedIndexInformer {
	return o.factory.Apps().V1().Deployments().Informer()
}

// Present names the operator's Deployment; it is empty when there is none, or one without pods.
func (o *operator) Present() string {
	for _, object := range o.informer().GetStore().List() {
		d, ok := object.(*appsv1.Deployment)
		if ok && (d.Spec.Replicas == nil || *d.Spec.Replicas > 0) {
			return fmt.Sprintf("Deployment \"%s/%s\"", d.Namespace, d.Name)
		}
	}
	return ""
}
