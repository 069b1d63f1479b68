// Copyright Contributors to the Open Cluster Management project

package controllers

import (
	"testing"
	"testing/synctest"
	"time"

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
