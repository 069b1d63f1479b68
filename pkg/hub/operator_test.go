// Copyright Contributors to the Open Cluster Management project

package hub

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
)

// TestOperatorPresent holds that only the Deployment of the configured namespace is the Knative Operator, whatever tenants
// run.
func TestOperatorPresent(t *testing.T) {
	deployment := func(namespace string, replicas *int32) *appsv1.Deployment {
		return &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: operatorName}, Spec: appsv1.DeploymentSpec{Replicas: replicas},
		}
	}
	for name, tc := range map[string]struct {
		namespace string
		there     []runtime.Object
		want      string
	}{
		"no Deployment":               {namespace: DefaultOperatorNamespace},
		"the Deployment of a tenant":  {namespace: DefaultOperatorNamespace, there: []runtime.Object{deployment("tenant", nil)}},
		"the release":                 {DefaultOperatorNamespace, []runtime.Object{deployment("knative-operator", nil)}, `Deployment "knative-operator/knative-operator"`},
		"another namespace is named":  {"operators", []runtime.Object{deployment("operators", nil)}, `Deployment "operators/knative-operator"`},
		"the default is not named":    {namespace: "operators", there: []runtime.Object{deployment("knative-operator", nil)}},
		"the release without its pod": {namespace: DefaultOperatorNamespace, there: []runtime.Object{deployment("knative-operator", new(int32))}},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset(tc.there...)
			o := newKnativeOperator(client, tc.namespace)
			synced := o.Informer().HasSynced
			o.factory.Start(t.Context().Done())
			if !cache.WaitForCacheSync(t.Context().Done(), synced) {
				t.Fatal("the cache is not full")
			}
			if got := o.Present(); got != tc.want {
				t.Errorf("present is %q, want %q", got, tc.want)
			}
			for _, action := range client.Actions() {
				if list, ok := action.(clienttesting.ListAction); ok && list.GetNamespace() != tc.namespace {
					t.Errorf("it lists namespace %q", list.GetNamespace())
				}
			}
		})
	}
}
