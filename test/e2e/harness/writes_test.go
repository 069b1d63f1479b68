// Copyright Contributors to the Open Cluster Management project

package harness

import (
	"context"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
)

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// fakeConfigMaps returns a client with ConfigMaps whose watch is the watcher, and the options of the watches.
func fakeConfigMaps(watcher watch.Interface, objects ...runtime.Object) (client *fake.FakeDynamicClient, watches *[]metav1.ListOptions) {
	client = fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{configMaps: "ConfigMapList"}, objects...)
	watches = &[]metav1.ListOptions{}
	client.PrependReactor("list", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMapList"}}
		list.SetResourceVersion("41")
		for _, o := range objects {
			list.Items = append(list.Items, *o.(*unstructured.Unstructured)) //nolint:forcetypeassert // the test passes nothing else
		}
		return true, list, nil
	})
	client.PrependWatchReactor("configmaps", func(action clienttesting.Action) (bool, watch.Interface, error) {
		if w, isWatch := action.(clienttesting.WatchActionImpl); isWatch {
			*watches = append(*watches, w.ListOptions)
		}
		return true, watcher, nil
	})
	return client, watches
}

// TestWatchWrites holds that creations, changes, deletions and the early end of a watch count, and that a watch of nothing is an error.
func TestWatchWrites(t *testing.T) {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion("v1")
	object.SetKind("ConfigMap")
	object.SetName("c")
	object.SetResourceVersion("7")
	for name, tc := range map[string]struct {
		send func(w *watch.FakeWatcher)
		want string
	}{
		"no write":     {send: func(*watch.FakeWatcher) {}},
		"a creation":   {send: func(w *watch.FakeWatcher) { w.Add(object) }, want: "ADDED ConfigMap c: no field manager"},
		"a change":     {send: func(w *watch.FakeWatcher) { w.Modify(object) }, want: "MODIFIED ConfigMap c"},
		"a deletion":   {send: func(w *watch.FakeWatcher) { w.Delete(object) }, want: "DELETED ConfigMap c"},
		"a bookmark":   {send: func(w *watch.FakeWatcher) { w.Action(watch.Bookmark, object) }},
		"an error":     {send: func(w *watch.FakeWatcher) { w.Error(&metav1.Status{Message: "gone"}) }, want: "ERROR"},
		"an early end": {send: func(w *watch.FakeWatcher) { w.Stop() }, want: "the watch has ended early"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			watcher := watch.NewFake() // does not buffer: an event that is sent has been received
			client, watches := fakeConfigMaps(watcher, object)
			w, err := WatchWrites(ctx, client.Resource(configMaps), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			tc.send(watcher)
			if tc.want != "the watch has ended early" {
				watcher.Action(watch.Bookmark, object) // the event before is recorded now
				cancel()
			}
			if got := strings.Join(w.Wait(), "\n"); !strings.Contains(got, tc.want) || tc.want == "" && got != "" {
				t.Errorf("the writes are %q, want %q", got, tc.want)
			}
			if len(*watches) != 1 || (*watches)[0].ResourceVersion != "41" {
				t.Errorf("the watches have options %+v, want the resource version of the list: other watches begin with the present objects", *watches)
			}
		})
	}
}

// TestWatchNothing holds that a watch of no object is an error: a wrong selector would hide every write.
func TestWatchNothing(t *testing.T) {
	client, _ := fakeConfigMaps(watch.NewFake())
	if _, err := WatchWrites(t.Context(), client.Resource(configMaps), metav1.ListOptions{}); err == nil {
		t.Error("a watch of no object has begun")
	}
}
