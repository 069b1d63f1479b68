// Copyright Contributors to the Open Cluster Management project

package hub

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	workfake "open-cluster-management.io/api/client/work/clientset/versioned/fake"
	workv1client "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// syncedInformer is an informer whose cache has the hub up to a resource version.
type syncedInformer struct {
	cache.SharedIndexInformer

	version string
}

// LastSyncResourceVersion implements cache.SharedInformer.
func (i *syncedInformer) LastSyncResourceVersion() string { return i.version }

// versionedHub is a client of works that gives each write the next resource version, from 101 on, and records the writes.
func versionedHub() (client *workfake.Clientset, verbs *[]string) {
	client, verbs = workfake.NewSimpleClientset(), new([]string)
	client.PrependReactor("*", "manifestworks", func(action clienttesting.Action) (bool, runtime.Object, error) {
		*verbs = append(*verbs, action.GetVerb())
		stored := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{
			Namespace: "c1", Name: "w", ResourceVersion: strconv.Itoa(100 + len(*verbs)),
			Labels: map[string]string{addonv1beta1.AddonLabelKey: api.Serving.AddOnName()},
		}}
		return true, stored, nil
	})
	return client, verbs
}

// TestWorkWrites holds which writes of a work the hub gets after this manager has created the work as version 101.
func TestWorkWrites(t *testing.T) {
	labelled := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: "w"}}
	create := func(works workv1client.ManifestWorkInterface) error {
		_, err := works.Create(t.Context(), labelled, metav1.CreateOptions{})
		return err
	}
	update := func(version string) func(workv1client.ManifestWorkInterface) error {
		return func(works workv1client.ManifestWorkInterface) error {
			w := labelled.DeepCopy()
			w.ResourceVersion = version
			_, err := works.Update(t.Context(), w, metav1.UpdateOptions{})
			return err
		}
	}
	patch := func(data string) func(workv1client.ManifestWorkInterface) error {
		return func(works workv1client.ManifestWorkInterface) error {
			_, err := works.Patch(t.Context(), "w", types.MergePatchType, []byte(data), metav1.PatchOptions{})
			return err
		}
	}
	for name, tc := range map[string]struct {
		// cached is the version up to which the cache has the hub, and ended tells that the limit is over.
		cached string
		ended  bool
		write  func(workv1client.ManifestWorkInterface) error
		isErr  func(error) bool
		verbs  []string
	}{
		"a creation, and the cache is behind": {cached: "100", write: create, isErr: apierrors.IsAlreadyExists, verbs: []string{"create"}},
		"a creation, and the cache had the work": {
			cached: "101", write: create, verbs: []string{"create", "create"},
		},
		"a creation, and the cache is not filled": {write: create, verbs: []string{"create", "create"}},
		"a creation after the limit":              {cached: "7", ended: true, write: create, verbs: []string{"create", "create"}},
		"an update of an older version":           {write: update("99"), isErr: apierrors.IsConflict, verbs: []string{"create"}},
		"an update of the created version":        {write: update("101"), verbs: []string{"create", "update"}},
		"an update of a version of another":       {write: update("1000"), verbs: []string{"create", "update"}},
		"an update without a version":             {write: update(""), verbs: []string{"create", "update"}},
		"a patch of an older version":             {write: patch(`{"metadata":{"resourceVersion":"99"}}`), isErr: apierrors.IsConflict, verbs: []string{"create"}},
		"a patch of the created version":          {write: patch(`{"metadata":{"resourceVersion":"101"}}`), verbs: []string{"create", "patch"}},
		"a patch of any version":                  {cached: "100", write: patch(`{"metadata":{"labels":{}}}`), verbs: []string{"create", "patch"}},
		"a patch that cannot be read":             {write: patch(`[]`), verbs: []string{"create", "patch"}},
	} {
		t.Run(name, func(t *testing.T) {
			client, verbs := versionedHub()
			writes := &workWrites{payloads: &syncedInformer{version: tc.cached}, last: utilcache.NewExpiring()}
			works := &rememberingWorks{client.WorkV1().ManifestWorks("c1"), "c1", writes}
			if err := create(works); err != nil {
				t.Fatal(err)
			}
			if tc.ended {
				writes.last.Delete(works.key("w"))
			}
			switch err := tc.write(works); {
			case tc.isErr == nil && err != nil:
				t.Errorf("the write fails: %v", err)
			case tc.isErr != nil && !tc.isErr(err):
				t.Errorf("the error is %v", err)
			case tc.isErr != nil && !IsCacheBehind(err):
				t.Errorf("the error %v does not tell that the client has sent nothing", err)
			}
			if diff := cmp.Diff(tc.verbs, *verbs); diff != "" {
				t.Errorf("writes on the hub: %s", diff)
			}
		})
	}
}

// TestWrappedWorks holds that the clients of a hub remember a creation in the cache that gets the work, and do not send the creation again.
func TestWrappedWorks(t *testing.T) {
	for label, foundation := range map[string]bool{addonv1beta1.AddonLabelKey: false, api.FoundationLabel: true, "other": false} {
		clients := newFakeClients()
		client, verbs := versionedHub()
		client.PrependReactor("create", "manifestworks", func(action clienttesting.Action) (bool, runtime.Object, error) {
			*verbs = append(*verbs, "create")
			w := action.(clienttesting.CreateAction).GetObject().DeepCopyObject().(*workv1.ManifestWork) //nolint:forcetypeassert // fails the test
			w.ResourceVersion = "5"
			return true, w, nil
		})
		clients.Works = client
		h, err := NewForClients(clients, DefaultOperatorNamespace)
		if err != nil {
			t.Fatal(err)
		}
		remembering, ok := h.Clients.Works.WorkV1().ManifestWorks("c1").(*rememberingWorks)
		if !ok {
			t.Fatal("the clients do not remember writes")
		}
		w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "c1", Name: "w", Labels: map[string]string{label: api.Serving.AddOnName()}}}
		if _, err := remembering.Create(t.Context(), w, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		value, _ := remembering.writes.last.Get(remembering.key("w"))
		last, ok := value.(workWrite)
		switch {
		case label == "other":
			if ok {
				t.Error("a work that no cache gets is remembered")
			}
		case foundation && last.informer != h.Foundations().Informer(), !foundation && last.informer != h.Payloads().Informer():
			t.Errorf("%s: the creation is remembered for another cache", label)
		}
	}
}
