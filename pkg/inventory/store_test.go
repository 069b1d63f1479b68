// Copyright Contributors to the Open Cluster Management project

package inventory

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/clustercache"
	"open-cluster-management.io/knative-addon/pkg/render"
)

const namespace = "knative-serving"

func ownerNamed(name string) Owner {
	return Owner{Component: api.Serving, Hub: "hub-1", Name: types.NamespacedName{Namespace: "team", Name: name}}
}

func itemsOf(names ...string) Items {
	out := Items{}
	for _, name := range names {
		e := Item{Version: "v1", Resource: "secrets", Kind: "Secret", Namespace: namespace, Name: name, Digest: "digest"}
		out[e.ID()] = e
	}
	return out
}

// anchorOf returns the anchor of an owner as the cluster has it.
func anchorOf(t *testing.T, owner Owner, version string, items Items, changes ...func(*corev1.ConfigMap)) *corev1.ConfigMap {
	t.Helper()
	text, err := items.Encode()
	if err != nil {
		t.Fatal(err)
	}
	m := NewAnchor(namespace).ConfigMap
	if err := describeAnchor(m, owner, render.Installed{Delivered: "1.23.0"}); err != nil {
		t.Fatal(err)
	}
	m.UID, m.ResourceVersion, m.Data = types.UID("uid-"+version), version, map[string]string{itemsKey: text}
	for _, change := range changes {
		change(m)
	}
	return m
}

// clusterOf returns a client of a cluster that has ConfigMaps, and the verbs of the requests that write.
func clusterOf(anchors ...*corev1.ConfigMap) (client *fake.Clientset, writes *[]string) {
	objects := make([]runtime.Object, 0, len(anchors))
	for _, m := range anchors {
		objects = append(objects, m)
	}
	client, writes = fake.NewClientset(objects...), new([]string)
	client.PrependReactor("*", "configmaps", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if verb := a.GetVerb(); verb != "get" && verb != "list" {
			*writes = append(*writes, verb)
		}
		return false, nil, nil
	})
	return client, writes
}

func inNamespace(name string) func(*corev1.ConfigMap) {
	return func(m *corev1.ConfigMap) { m.Namespace = name }
}

// TestRead holds which anchors the store accepts, and how the store names the owner of another anchor.
func TestRead(t *testing.T) {
	self, items := ownerNamed("self"), itemsOf("a", "b")
	otherHub, otherNamespace := self, self
	otherHub.Hub, otherNamespace.Name.Namespace = "hub-2", "other-team"
	garbage := func(m *corev1.ConfigMap) { m.Data[itemsKey] = "{" }
	for name, tc := range map[string]struct {
		anchor *corev1.ConfigMap
		found  bool
		check  func(error) bool
	}{
		"no anchor":        {nil, false, func(err error) bool { return err == nil }},
		"the own anchor":   {anchorOf(t, self, "5", items), true, func(err error) bool { return err == nil }},
		"without an owner": {anchorOf(t, self, "5", items, func(m *corev1.ConfigMap) { m.Annotations = nil }), false, IsAdoptable},
		"of a resource of another namespace": {anchorOf(t, otherNamespace, "5", items), false, func(err error) bool {
			var ownership *OwnershipError
			return errors.As(err, &ownership) && ownership.Owner == "other-team/self" && ownership.SameHub && !IsAdoptable(err) && FormerAnchor(err) == nil
		}},
		"of another hub": {anchorOf(t, otherHub, "5", items), false, func(err error) bool {
			var ownership *OwnershipError
			return errors.As(err, &ownership) && !ownership.SameHub && IsAdoptable(err) && cmp.Equal(FormerAnchor(err).Items, items)
		}},
		"of another hub, and not readable": {anchorOf(t, otherHub, "5", items, garbage), false, func(err error) bool {
			var ownership *OwnershipError
			return errors.As(err, &ownership) && !IsAdoptable(err)
		}},
		"not readable": {anchorOf(t, self, "5", items, garbage), false, func(err error) bool {
			var blocked *clustercache.BlockedError
			return errors.As(err, &blocked)
		}},
		"too large": {anchorOf(t, self, "5", items, func(m *corev1.ConfigMap) { m.Data["a"] = strings.Repeat("z", maxAnchorBytes) }), false, clustercache.IsBoundError},
	} {
		t.Run(name, func(t *testing.T) {
			client, writes := clusterOf()
			if tc.anchor != nil {
				client, writes = clusterOf(tc.anchor)
			}
			a, err := NewStore(client.CoreV1(), self).Read(t.Context(), namespace)
			if !tc.check(err) || (a != nil) != tc.found {
				t.Errorf("got %v, %v", a, err)
			}
			if a != nil && (!cmp.Equal(a.Items, items) || a.Installed().Delivered != "1.23.0") {
				t.Errorf("got version %s and items %v", a.Installed(), a.Items)
			}
			if len(*writes) > 0 {
				t.Errorf("the store writes: %q", *writes)
			}
		})
	}
}

// TestWrite holds that the store creates an anchor, updates an anchor whose content differs, and leaves any other anchor alone.
func TestWrite(t *testing.T) {
	client, writes := clusterOf()
	// The fake client sets no UID, by which the store recognizes an anchor that is on the cluster.
	client.PrependReactor("create", "configmaps", func(a clienttesting.Action) (bool, runtime.Object, error) {
		create, ok := a.(clienttesting.CreateAction)
		if m, isConfigMap := create.GetObject().(*corev1.ConfigMap); ok && isConfigMap {
			m.UID = "uid"
		}
		return false, nil, nil
	})
	s := NewStore(client.CoreV1(), ownerNamed("self"))
	a, err := s.Write(t.Context(), NewAnchor(namespace), render.Installed{Delivered: "1.22.0"}, Items{})
	if err != nil {
		t.Fatal(err)
	}
	if !isClaim(a.ConfigMap) {
		t.Error("an anchor without items is no claim")
	}
	for range 2 {
		if a, err = s.Write(t.Context(), a, render.Installed{Delivered: "1.23.0", Running: "1.22.0"}, itemsOf("a")); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"create", "update"}; !slices.Equal(*writes, want) {
		t.Errorf("the requests are %q, want %q", *writes, want)
	}
	got, err := s.Read(t.Context(), namespace)
	if err != nil || !cmp.Equal(got.Items, itemsOf("a")) || got.Installed() != (render.Installed{Delivered: "1.23.0", Running: "1.22.0"}) || isClaim(got.ConfigMap) {
		t.Errorf("got %v, %v", got, err)
	}
	if err := s.WriteRemaining(t.Context(), got, maps.Clone(got.Items)); err != nil || len(*writes) != 2 {
		t.Errorf("the same items need the requests %q: %v", *writes, err)
	}
	if err := s.WriteRemaining(t.Context(), got, Items{}); err != nil {
		t.Fatal(err)
	}
	if got, err = s.Read(t.Context(), namespace); err != nil || len(got.Items) > 0 {
		t.Errorf("got %v, %v", got, err)
	}
}

// TestNewerAnchor holds that the store keeps what a newer manager has written to an anchor besides the items, and refuses items with
// unknown fields: the items decide which objects a removal deletes.
func TestNewerAnchor(t *testing.T) {
	self, items := ownerNamed("self"), itemsOf("a", "b")
	const unknown = api.Prefix + "of-a-newer-manager"
	newer := func(m *corev1.ConfigMap) {
		m.Annotations[unknown], m.Labels[unknown], m.Data["of-a-newer-manager"], m.Finalizers = "annotation", "label", "data", []string{unknown}
	}
	client, _ := clusterOf(anchorOf(t, self, "5", items, newer))
	s := NewStore(client.CoreV1(), self)
	read := func() *Anchor {
		t.Helper()
		a, err := s.Read(t.Context(), namespace)
		if err != nil {
			t.Fatal(err)
		}
		if a.Annotations[unknown] != "annotation" || a.Labels[unknown] != "label" || a.Data["of-a-newer-manager"] != "data" || !slices.Contains(a.Finalizers, unknown) {
			t.Errorf("the anchor has lost content of a newer manager: %v", a.ConfigMap)
		}
		return a
	}
	if _, err := s.Write(t.Context(), read(), render.Installed{Delivered: "1.22.0"}, itemsOf("c")); err != nil {
		t.Fatal(err)
	}
	if err := s.WriteRemaining(t.Context(), read(), Items{}); err != nil {
		t.Fatal(err)
	}
	if left := read(); len(left.Items) > 0 {
		t.Errorf("the anchor has items %v", left.Items)
	}

	client, writes := clusterOf(anchorOf(t, self, "5", items, func(m *corev1.ConfigMap) {
		m.Data[itemsKey] = strings.Replace(m.Data[itemsKey], `"digest":`, `"protected":true,"digest":`, 1)
	}))
	_, err := NewStore(client.CoreV1(), self).Read(t.Context(), namespace)
	if blocked := (*clustercache.BlockedError)(nil); !errors.As(err, &blocked) {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{`"protected"`, namespace, "newer version"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
	if len(*writes) > 0 {
		t.Errorf("the store writes: %q", *writes)
	}
}

// TestAdopt holds that the store gives an adopted anchor an owner, and that the hub of the anchor is the owner's then.
func TestAdopt(t *testing.T) {
	self := ownerNamed("self")
	client, _ := clusterOf(anchorOf(t, self, "5", itemsOf("old"), func(m *corev1.ConfigMap) { m.Annotations = nil }))
	s := NewStore(client.CoreV1(), self)
	a, err := s.Adopt(t.Context(), namespace)
	if err != nil || len(a.Items) > 0 || s.IsCurrentHub(a) {
		t.Fatalf("got %v, %v", a, err)
	}
	if _, err := s.Write(t.Context(), a, render.Installed{Delivered: "1.23.0", Running: "1.22.0"}, itemsOf("new")); err != nil {
		t.Fatal(err)
	}
	if a, err = s.Read(t.Context(), namespace); err != nil || !cmp.Equal(a.Items, itemsOf("new")) || !s.IsCurrentHub(a) {
		t.Errorf("got %v, %v", a, err)
	}
}

// TestFind holds that the store finds the anchor of its owner in any namespace, and reports any other owner.
func TestFind(t *testing.T) {
	self, other := ownerNamed("self"), ownerNamed("other")
	unmarked := func(m *corev1.ConfigMap) { delete(m.Annotations, anchorAnnotation) }
	many := make([]*corev1.ConfigMap, 0, maxAnchors+1)
	for n := range maxAnchors + 1 {
		many = append(many, anchorOf(t, other, "5", nil, inNamespace(fmt.Sprintf("n%d", n))))
	}
	eventing := self
	eventing.Component = api.Eventing
	for name, tc := range map[string]struct {
		anchors []*corev1.ConfigMap
		found   string
		check   func(error) bool
	}{
		"nothing":                       {nil, "", func(err error) bool { return err == nil }},
		"in another namespace":          {[]*corev1.ConfigMap{anchorOf(t, self, "5", itemsOf("a"), inNamespace("elsewhere"))}, "elsewhere", func(err error) bool { return err == nil }},
		"without the operator's mark":   {[]*corev1.ConfigMap{anchorOf(t, other, "5", nil, unmarked)}, "", func(err error) bool { return err == nil }},
		"of another component":          {[]*corev1.ConfigMap{anchorOf(t, eventing, "5", nil)}, "", func(err error) bool { return err == nil }},
		"of another owner, and the own": {[]*corev1.ConfigMap{anchorOf(t, other, "5", nil), anchorOf(t, self, "6", nil)}, "", func(err error) bool { return !IsAdoptable(err) && isOwnedBy(err, "team/other") }},
		"too many":                      {many, "", func(err error) bool { _, is := errors.AsType[*clustercache.BoundError](err); return is }},
	} {
		t.Run(name, func(t *testing.T) {
			client, _ := clusterOf(tc.anchors...)
			a, err := NewStore(client.CoreV1(), self).Find(t.Context())
			if !tc.check(err) || (a != nil) != (tc.found != "") || a != nil && a.Namespace != tc.found {
				t.Errorf("got %v, %v", a, err)
			}
		})
	}
}

func refuseDeletion(clienttesting.Action) (bool, runtime.Object, error) {
	return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "x", errors.New("no"))
}

func isOwnedBy(err error, owner string) bool {
	var ownership *OwnershipError
	return errors.As(err, &ownership) && ownership.Owner == owner
}

// TestConfirmClaim holds which of two claims stays.
func TestConfirmClaim(t *testing.T) {
	self, other := ownerNamed("self"), ownerNamed("other")
	for name, tc := range map[string]struct {
		items         Items
		other         *corev1.ConfigMap
		refuse, stays bool
	}{
		"alone":                       {nil, nil, false, true},
		"before another claim":        {nil, anchorOf(t, other, "101", nil), false, true},
		"after another claim":         {nil, anchorOf(t, other, "99", nil), false, false},
		"beside an installation":      {nil, anchorOf(t, other, "101", itemsOf("a")), false, false},
		"with items":                  {itemsOf("a"), anchorOf(t, other, "99", nil), false, true},
		"the deletion may be refused": {nil, anchorOf(t, other, "99", nil), true, false},
	} {
		t.Run(name, func(t *testing.T) {
			own := anchorOf(t, self, "100", tc.items)
			anchors := []*corev1.ConfigMap{own}
			if tc.other != nil {
				anchors = append(anchors, tc.other)
			}
			client, writes := clusterOf(anchors...)
			if tc.refuse {
				client.PrependReactor("delete", "configmaps", refuseDeletion)
			}
			err := NewStore(client.CoreV1(), self).ConfirmClaim(t.Context(), &Anchor{ConfigMap: own, Items: tc.items})
			if blocked := (*clustercache.BlockedError)(nil); errors.As(err, &blocked) != tc.refuse || !tc.refuse && (err == nil) != tc.stays {
				t.Errorf("got %v", err)
			}
			if !tc.stays && !tc.refuse && !isOwnedBy(err, "team/other") {
				t.Errorf("got %v, want the other owner", err)
			}
			if deleted := slices.Contains(*writes, "delete"); deleted != (!tc.stays && !tc.refuse) {
				t.Errorf("the requests are %q", *writes)
			}
		})
	}
}

// proxyNotFound is the error of a proxy that answers 404 in place of the API server.
func proxyNotFound() error {
	return apierrors.NewGenericServerResponse(http.StatusNotFound, "", schema.GroupResource{Resource: "configmaps"}, "knativeserving-self-root-owner", "404 page not found", 0, true)
}

// TestDelete holds that a refused deletion is no error of the cluster, and that an anchor that is gone is deleted.
func TestDelete(t *testing.T) {
	for name, tc := range map[string]struct {
		fault  error
		waits  bool
		failed bool
	}{
		"deleted":      {},
		"gone":         {apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, "knativeserving-self-root-owner"), false, false},
		"by a proxy":   {proxyNotFound(), false, true},
		"refused":      {apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "x", errors.New("no")), true, false},
		"busy":         {apierrors.NewTooManyRequests("later", 1), false, true},
		"not answered": {context.DeadlineExceeded, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			own := anchorOf(t, ownerNamed("self"), "100", nil)
			client, _ := clusterOf(own)
			client.PrependReactor("delete", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
				return tc.fault != nil, nil, tc.fault
			})
			waiting, err := NewStore(client.CoreV1(), ownerNamed("self")).Delete(t.Context(), &Anchor{ConfigMap: own})
			if (waiting != "") != tc.waits || (err != nil) != tc.failed {
				t.Errorf("got %q, %v", waiting, err)
			}
		})
	}
	if waiting, err := NewStore(nil, ownerNamed("self")).Delete(t.Context(), nil); waiting != "" || err != nil {
		t.Errorf("without an anchor: got %q, %v", waiting, err)
	}
}

// TestLongName holds that an owner whose anchor has no valid name is refused before any request.
func TestLongName(t *testing.T) {
	s := NewStore(nil, ownerNamed(strings.Repeat("x", 250)))
	_, readErr := s.Read(t.Context(), namespace)
	_, adoptErr := s.Adopt(t.Context(), namespace)
	_, writeErr := s.Write(t.Context(), NewAnchor(namespace), render.Installed{Delivered: "1.23.0"}, nil)
	for _, err := range []error{readErr, adoptErr, writeErr} {
		if blocked := (*clustercache.BlockedError)(nil); !errors.As(err, &blocked) {
			t.Errorf("got %v", err)
		}
	}
}

// TestAnchorsAreBounded holds that an anchor cannot fill the memory, nor cause watches of thousands of resources.
func TestAnchorsAreBounded(t *testing.T) {
	large := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Data: map[string]string{"a": strings.Repeat("z", maxAnchorBytes)}}
	if err := checkAnchor(large); !clustercache.IsBoundError(err) {
		t.Errorf("a large one: got %v", err)
	}
	var places, objects strings.Builder
	for n := range maxPlaces + 1 {
		fmt.Fprintf(&places, `{"version":"v1","resource":"r%d","kind":"K","name":"a"}`, n)
	}
	for n := range clustercache.MaxObjects + 1 {
		fmt.Fprintf(&objects, `{"version":"v1","resource":"r","kind":"K","name":"n%d"}`, n)
	}
	for text, want := range map[string]string{places.String(): "resources and namespaces", objects.String(): "objects"} {
		if _, err := Decode(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v", err)
		}
	}
}

// TestLargeInstallationIsRefused holds that an installation that an anchor cannot hold is refused before the first write.
func TestLargeInstallationIsRefused(t *testing.T) {
	long := Items{}
	for n := range 1300 {
		item := Item{Version: "v1", Resource: "configmaps", Kind: "ConfigMap", Namespace: namespace, Name: fmt.Sprintf("%d-%s", n, strings.Repeat("x", 190))}
		long[item.ID()] = item
	}
	many := Items{}
	for n := range clustercache.MaxObjects + 1 {
		item := Item{Version: "v1", Resource: "r", Kind: "K", Name: fmt.Sprint(n)}
		many[item.ID()] = item
	}
	for name, items := range map[string]Items{"long names": long, "many objects": many} {
		client, _ := clusterOf()
		_, err := NewStore(client.CoreV1(), ownerNamed("self")).Write(t.Context(), NewAnchor(namespace), render.Installed{Delivered: "1.23.0"}, items)
		if !clustercache.IsBoundError(err) || len(client.Actions()) > 0 {
			t.Errorf("%s: error %v, requests %v", name, err, client.Actions())
		}
	}
}

// TestAnchorsKeepItemsOnce holds that an anchor in memory has no encoded items beside the decoded items, that an equal record needs no
// request, and that a changed record has the items.
func TestAnchorsKeepItemsOnce(t *testing.T) {
	self, installed := ownerNamed("self"), render.Installed{Delivered: "1.23.0"}
	client, _ := clusterOf(anchorOf(t, self, "5", itemsOf("a")))
	s := NewStore(client.CoreV1(), self)
	a, err := s.Read(t.Context(), namespace)
	if err != nil {
		t.Fatal(err)
	}
	for _, names := range []string{"a", "b", "b"} {
		if a, err = s.Write(t.Context(), a, installed, itemsOf(names)); err != nil {
			t.Fatal(err)
		}
		if text, found := a.Data[itemsKey]; found {
			t.Errorf("the anchor has encoded items %q", text)
		}
		client.ClearActions()
		if _, err := s.Write(t.Context(), a, installed, itemsOf(names)); err != nil || len(client.Actions()) > 0 {
			t.Errorf("an equal record causes %v, error %v", client.Actions(), err)
		}
		if stored, err := s.Read(t.Context(), namespace); err != nil || !cmp.Equal(stored.Items, itemsOf(names)) {
			t.Errorf("the cluster has %v, error %v", stored, err)
		}
	}
}
