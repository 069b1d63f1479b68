// Copyright Contributors to the Open Cluster Management project

package controllers

import (
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	addonfake "open-cluster-management.io/api/client/addon/clientset/versioned/fake"
	addoninformers "open-cluster-management.io/api/client/addon/informers/externalversions"
	"open-cluster-management.io/sdk-go/pkg/basecontroller/factory"

	"open-cluster-management.io/knative-addon/pkg/reconciler"
)

// TestFrameworkRetries holds that a key of addon-framework that fails for a long time is retried within a minute.
func TestFrameworkRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := &frameworkQueue{
			TypedRateLimitingInterface: factory.NewSyncContext("retries").Queue(), limiter: reconciler.NewRateLimiter[string](),
		}
		defer queue.ShutDown()
		for failures := 1; failures <= 30; failures++ {
			begin := time.Now()
			queue.AddRateLimited("cluster1/knative-serving")
			if queue.NumRequeues("cluster1/knative-serving") != failures {
				t.Errorf("%d failures count as %d", failures, queue.NumRequeues("cluster1/knative-serving"))
			}
			key, _ := queue.Get()
			queue.Done(key)
			if pause := time.Since(begin); pause > time.Minute {
				t.Fatalf("the pause after %d failures is %s", failures, pause)
			}
		}
		queue.Forget("cluster1/knative-serving")
		if n := queue.NumRequeues("cluster1/knative-serving"); n != 0 {
			t.Errorf("after a success %d failures are left", n)
		}
	})
}

// TestNamingAddOns holds that events and indexes have the ManagedClusterAddOns with spec.configs alone.
func TestNamingAddOns(t *testing.T) {
	naming := &addonv1beta1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: "naming", Name: "knative-serving"}}
	naming.Spec.Configs = []addonv1beta1.AddOnConfig{{ConfigReferent: addonv1beta1.ConfigReferent{Name: "edge"}}}
	other := &addonv1beta1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "knative-serving"}}
	informers := addoninformers.NewSharedInformerFactory(addonfake.NewSimpleClientset(naming, other), 0)
	informer := namingAddOns{informers.Addon().V1beta1().ManagedClusterAddOns()}.Informer()
	err := informer.AddIndexers(cache.Indexers{"all": func(any) ([]string, error) { return []string{""}, nil }})
	if err != nil {
		t.Fatal(err)
	}
	events := make(chan string, 2)
	handler, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(o any) {
		key, _ := cache.MetaNamespaceKeyFunc(o)
		events <- key
	}})
	if err != nil {
		t.Fatal(err)
	}
	informers.Start(t.Context().Done())
	if !cache.WaitForCacheSync(t.Context().Done(), handler.HasSynced) {
		t.Fatal("the informer has not synced")
	}
	if len(events) != 1 || <-events != "naming/knative-serving" {
		t.Error("the events are not those of the add-on with spec.configs")
	}
	indexed, err := informer.GetIndexer().ByIndex("all", "")
	if err != nil || len(indexed) != 1 {
		t.Errorf("the index has %d add-ons, want the add-on with spec.configs: %v", len(indexed), err)
	}
}
