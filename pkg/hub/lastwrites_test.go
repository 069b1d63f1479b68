// Copyright Contributors to the Open Cluster Management project

package hub

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	addonfake "open-cluster-management.io/api/client/addon/clientset/versioned/fake"
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
			writes := &workWrites{newLastWrites(workv1.Resource("manifestworks")), &syncedInformer{version: tc.cached}, nil}
			works := &rememberingWorks{client.WorkV1().ManifestWorks("c1"), "c1", writes}
			if err := create(works); err != nil {
				t.Fatal(err)
			}
			if tc.ended {
				writes.versions.Delete(works.key("w"))
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

// TestUncachedWork holds that the cache that gets a work decides whether a creation is sent again.
func TestUncachedWork(t *testing.T) {
	for label, want := range map[string]bool{addonv1beta1.AddonLabelKey: false, api.FoundationLabel: true} {
		writes := &workWrites{newLastWrites(workv1.Resource("manifestworks")), &syncedInformer{version: "5"}, &syncedInformer{version: "4"}}
		w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{
			Namespace: "c1", Name: "w", ResourceVersion: "5", Labels: map[string]string{label: api.Serving.AddOnName()},
		}}
		key := types.NamespacedName{Namespace: "c1", Name: "w"}
		if _, err := sendUnlessStale(writes.lastWrites, key, "", func() (*workv1.ManifestWork, error) { return w, nil }); err != nil {
			t.Fatal(err)
		}
		if got := writes.isUncached(key, w); got != want {
			t.Errorf("%s: the work is not in the cache: %v, want %v", label, got, want)
		}
	}
}

// TestRefusedVersion holds that the hub gets no further write of a version that the hub has refused, and gets writes of all other versions, also of an
// older one: the hub may have been restored from a backup.
func TestRefusedVersion(t *testing.T) {
	client := workfake.NewSimpleClientset()
	var sent []string
	client.PrependReactor("update", "manifestworks", func(action clienttesting.Action) (bool, runtime.Object, error) {
		w, _ := action.(clienttesting.UpdateAction).GetObject().(*workv1.ManifestWork)
		sent = append(sent, w.ResourceVersion)
		return true, nil, apierrors.NewConflict(workv1.Resource("manifestworks"), w.Name, nil)
	})
	writes := &workWrites{newLastWrites(workv1.Resource("manifestworks")), &syncedInformer{}, nil}
	works := &rememberingWorks{client.WorkV1().ManifestWorks("c1"), "c1", writes}
	for _, step := range []struct {
		name, version string
		isHeldBack    bool
	}{{"w", "7", false}, {"w", "7", true}, {"w", "7", true}, {"other", "7", false}, {"w", "8", false}, {"w", "3", false}, {"w", "", false}, {"w", "", false}} {
		_, err := works.Update(t.Context(), &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: step.name, ResourceVersion: step.version}}, metav1.UpdateOptions{})
		if !apierrors.IsConflict(err) || IsCacheBehind(err) != step.isHeldBack {
			t.Errorf("the write of version %q of %s: %v, want held back: %v", step.version, step.name, err, step.isHeldBack)
		}
	}
	if diff := cmp.Diff([]string{"7", "7", "8", "3", "", ""}, sent); diff != "" {
		t.Errorf("writes on the hub: %s", diff)
	}
}

// TestHubRemembersWrites holds that the clients of a hub remember writes, of works and of add-ons.
func TestHubRemembersWrites(t *testing.T) {
	clients := newFakeClients()
	client := addonfake.NewSimpleClientset()
	sent := 0
	client.PrependReactor("*", "managedclusteraddons", func(clienttesting.Action) (bool, runtime.Object, error) {
		sent++
		return true, &addonv1beta1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: "c1", Name: "a", ResourceVersion: "7"}}, nil
	})
	clients.AddOns = client
	h, err := NewForClients(clients, DefaultOperatorNamespace)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := h.Clients.Works.WorkV1().ManifestWorks("c1").(*rememberingWorks); !ok {
		t.Error("the client of works remembers no writes")
	}
	addOns := h.Clients.AddOns.AddonV1beta1().ManagedClusterAddOns("c1")
	patch := func(version string) error {
		data := fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q}}`, version)
		_, err := addOns.Patch(t.Context(), "a", types.MergePatchType, data, metav1.PatchOptions{}, "status")
		return err
	}
	update := func(version string) error {
		_, err := addOns.Update(t.Context(), &addonv1beta1.ManagedClusterAddOn{
			ObjectMeta: metav1.ObjectMeta{Namespace: "c1", Name: "a", ResourceVersion: version},
		}, metav1.UpdateOptions{})
		return err
	}
	for _, step := range []struct {
		write    func(version string) error
		version  string
		isStale  bool
		wantSent int
	}{
		{patch, "6", false, 1}, {patch, "6", true, 1}, {update, "6", true, 1}, {patch, "7", false, 2}, {update, "7", false, 3}, {update, "9", false, 4},
	} {
		err := step.write(step.version)
		if stale := apierrors.IsConflict(err) && IsCacheBehind(err); stale != step.isStale || (err != nil) != step.isStale || sent != step.wantSent {
			t.Errorf("a change of version %s: %v, and the hub got %d requests, want %d", step.version, err, sent, step.wantSent)
		}
	}
}
