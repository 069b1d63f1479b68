// Copyright Contributors to the Open Cluster Management project

package configuration

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/revision"
)

// newPass returns a Reconciler that got the event of a new resource, and the list of the writes that follow.
func newPass(t *testing.T, config *unstructured.Unstructured, kube *kubefake.Clientset, client *dynamicfake.FakeDynamicClient) (*Reconciler, *[]string) {
	t.Helper()
	var writes []string
	log := func(action clienttesting.Action) (bool, runtime.Object, error) {
		if verb := action.GetVerb(); verb != "list" && verb != "get" {
			writes = append(writes, verb+" "+action.GetResource().Resource)
		}
		return false, nil, nil
	}
	kube.PrependReactor("*", "*", log)
	client.PrependReactor("*", "*", log)
	r := &Reconciler{
		Recorder: Recorder{
			Kind: api.Serving, Configs: cache.NewGenericLister(newIndexer(t, nil, config), api.Serving.Resource().GroupResource()),
			Revisions: newIndexer(t, revision.Indexers()), References: newReferences(t, "none"), RevisionClient: kube,
		},
		Component: api.Serving, Versions: newest{version: "1.23.0"}, ConfigClient: client, Events: events.NewFakeRecorder(10), Operator: func() string { return "" },
	}
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	t.Cleanup(queue.ShutDown)
	r.configHandler().Create(t.Context(), event.CreateEvent{Object: config}, queue)
	if queue.Len() != 1 {
		t.Errorf("the queue has %d requests", queue.Len())
	}
	return r, &writes
}

// TestStepsFollowEachOther holds that one pass records the spec, pins the version and then rolls back the pinned resource.
func TestStepsFollowEachOther(t *testing.T) {
	config := serving("", map[string]string{api.RollbackAnnotation: "1"})
	client := newConfigClient(config)
	r, writes := newPass(t, config, kubefake.NewClientset(), client)
	target, err := revision.New(api.Serving, serving("1.21", nil), 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Revisions.Add(target); err != nil {
		t.Fatal(err)
	}
	var updated *unstructured.Unstructured
	client.PrependReactor("update", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		updated, _ = action.(clienttesting.UpdateAction).GetObject().(*unstructured.Unstructured) //nolint:forcetypeassert // it is one
		return false, nil, nil
	})
	client.PrependReactor("patch", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		pinned := config.DeepCopy()
		pinned.SetResourceVersion("7")
		return true, pinned, nil
	})
	if result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: keyOf(config)}); err != nil || result.RequeueAfter != 0 {
		t.Errorf("result is %v, error %v", result, err)
	}
	if updated == nil || updated.GetResourceVersion() != "7" {
		t.Error("the rollback does not write the resource that the pin left")
	}
	if diff := cmp.Diff([]string{"create controllerrevisions", "update knativeservings"}, *writes); diff != "" {
		t.Errorf("writes, without the patch (-want +got):\n%s", diff)
	}
}

// TestFaultsOfAStep holds that a fault of one step is returned and does not stop the next step.
func TestFaultsOfAStep(t *testing.T) {
	config, errDown := serving("", nil), errors.New("the hub is down")
	kube, client := kubefake.NewClientset(), newConfigClient(config)
	r, writes := newPass(t, config, kube, client)
	kube.PrependReactor("create", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errDown })
	if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: keyOf(config)}); !errors.Is(err, errDown) {
		t.Errorf("error is %v", err)
	}
	if diff := cmp.Diff([]string{"patch knativeservings"}, *writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if left := r.observations.listSpecs(keyOf(config)); len(left) != 1 {
		t.Errorf("%d specs wait to be recorded", len(left))
	}
}

func keyOf(config *unstructured.Unstructured) types.NamespacedName {
	return types.NamespacedName{Namespace: config.GetNamespace(), Name: config.GetName()}
}
