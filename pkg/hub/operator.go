// Copyright Contributors to the Open Cluster Management project

package hub

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

const (
	// operatorName is the name of the Knative Operator's Deployment in the release, in the chart and on OperatorHub.
	operatorName = "knative-operator"
	// DefaultOperatorNamespace is the namespace of the Knative Operator in the release and in the chart.
	DefaultOperatorNamespace = "knative-operator"
)

// KnativeOperator reports whether the Knative Operator runs on the hub: the Knative Operator serves every KnativeServing and
// KnativeEventing of the hub. Only the administrator's namespace counts, because a tenant may run a Deployment of any name.
type KnativeOperator struct {
	factory kubeinformers.SharedInformerFactory
}

func newKnativeOperator(client kubernetes.Interface, namespace string) *KnativeOperator {
	o := &KnativeOperator{factory: kubeinformers.NewSharedInformerFactoryWithOptions(client, resync,
		kubeinformers.WithTransform(stripManagedFields), kubeinformers.WithNamespace(namespace),
		kubeinformers.WithTweakListOptions(func(o *metav1.ListOptions) { o.FieldSelector = "metadata.name=" + operatorName }))}
	o.Informer() // the factory starts only informers that were requested before
	return o
}

// Informer returns the informer of the Knative Operator's Deployment.
func (o *KnativeOperator) Informer() cache.SharedIndexInformer {
	return o.factory.Apps().V1().Deployments().Informer()
}

// Present names the Knative Operator's Deployment. The name is empty without a Deployment, or with a Deployment without pods.
func (o *KnativeOperator) Present() string {
	for _, object := range o.Informer().GetStore().List() {
		d, ok := object.(*appsv1.Deployment)
		if ok && (d.Spec.Replicas == nil || *d.Spec.Replicas > 0) {
			return fmt.Sprintf("Deployment \"%s/%s\"", d.Namespace, d.Name)
		}
	}
	return ""
}

func (o *KnativeOperator) start(ctx context.Context) { o.factory.Start(ctx.Done()) }
