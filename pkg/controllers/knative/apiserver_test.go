// Copyright Contributors to the Open Cluster Management project

package knative

import (
	"encoding/json"
	"slices"
	"strconv"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
)

// apiServer makes fake clients do what they do not by themselves: resource versions, UIDs and preconditions count,
// finalizers hold what is deleted, and a patch of the status changes nothing else. It notes what it is asked, and fails
// when it is told to.
type apiServer struct {
	t *testing.T
	// requests are what it was asked, as "verb resource/name".
	requests []string
	// fail is asked before each request whether it fails, after that whether the answer gets lost.
	fail, lose func(request string) error

	version int
}

// serve puts the API server between a fake clientset and its tracker. make returns an empty object.
func (s *apiServer) serve(fake *clienttesting.Fake, tracker clienttesting.ObjectTracker, make func() runtime.Object) {
	fake.PrependReactor("*", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		request := a.GetVerb() + " " + a.GetResource().Resource
		if a.GetSubresource() != "" {
			request += "/" + a.GetSubresource()
		}
		request += "/" + s.nameOf(a)
		s.requests = append(s.requests, request)
		if s.fail != nil {
			if err := s.fail(request); err != nil {
				return true, nil, err
			}
		}
		o, err := s.answer(a, tracker, make)
		if err == nil && s.lose != nil {
			err = s.lose(request)
		}
		if err != nil {
			return true, nil, err
		}
		return true, o, nil
	})
}

func (s *apiServer) nameOf(a clienttesting.Action) string {
	if c, ok := a.(clienttesting.CreateAction); ok && a.GetVerb() == "create" {
		return s.meta(c.GetObject()).GetName()
	}
	named, ok := a.(interface{ GetName() string })
	if !ok {
		s.t.Fatalf("%T has no name", a)
	}
	return named.GetName()
}

func (s *apiServer) meta(o runtime.Object) metav1.Object {
	m, err := apimeta.Accessor(o)
	if err != nil {
		s.t.Fatal(err)
	}
	return m
}

func (s *apiServer) answer(a clienttesting.Action, tracker clienttesting.ObjectTracker, make func() runtime.Object) (runtime.Object, error) {
	gvr, ns := a.GetResource(), a.GetNamespace()
	switch a := a.(type) {
	case clienttesting.CreateActionImpl:
		o := a.GetObject().DeepCopyObject()
		s.meta(o).SetUID(types.UID("uid-" + s.next()))
		s.meta(o).SetResourceVersion(s.next())
		return o, tracker.Create(gvr, o, ns)
	case clienttesting.GetActionImpl:
		return tracker.Get(gvr, ns, a.Name)
	case clienttesting.PatchActionImpl:
		return s.patch(a, tracker, make)
	case clienttesting.DeleteActionImpl:
		have, err := tracker.Get(gvr, ns, a.Name)
		if err != nil {
			return nil, err
		}
		p := a.GetDeleteOptions().Preconditions
		if p == nil || p.UID == nil {
			s.t.Errorf("%s %q is deleted whatever its UID is", gvr.Resource, a.Name)
		} else if *p.UID != s.meta(have).GetUID() {
			return nil, conflict(gvr, a.Name)
		}
		if len(s.meta(have).GetFinalizers()) == 0 {
			return have, tracker.Delete(gvr, ns, a.Name)
		}
		have = have.DeepCopyObject()
		if s.meta(have).GetDeletionTimestamp() == nil {
			s.meta(have).SetDeletionTimestamp(new(metav1.Unix(5000, 0)))
			s.meta(have).SetResourceVersion(s.next())
		}
		return have, tracker.Update(gvr, have, ns)
	}
	s.t.Fatalf("nobody expects %s %s", a.GetVerb(), gvr.Resource)
	return nil, nil
}

func (s *apiServer) patch(a clienttesting.PatchActionImpl, tracker clienttesting.ObjectTracker, make func() runtime.Object) (runtime.Object, error) {
	gvr, ns := a.GetResource(), a.GetNamespace()
	have, err := tracker.Get(gvr, ns, a.Name)
	if err != nil {
		return nil, err
	}
	var patch map[string]any
	if err := json.Unmarshal(a.GetPatch(), &patch); err != nil || a.GetPatchType() != types.MergePatchType {
		s.t.Fatalf("%s is no merge patch: %v", a.GetPatch(), err)
	}
	for _, field := range []string{"resourceVersion", "uid"} {
		asked, ok, _ := unstructured.NestedString(patch, "metadata", field)
		if is := map[string]string{"resourceVersion": s.meta(have).GetResourceVersion(), "uid": string(s.meta(have).GetUID())}[field]; ok && asked != is {
			return nil, conflict(gvr, a.Name)
		}
	}
	if _, versioned, _ := unstructured.NestedString(patch, "metadata", "resourceVersion"); !versioned {
		s.t.Errorf("%s is written whatever it has become", gvr.Resource)
	}
	if a.GetSubresource() == "status" {
		patch = map[string]any{"status": patch["status"]}
	} else {
		delete(patch, "status")
	}
	before, err := runtime.DefaultUnstructuredConverter.ToUnstructured(have)
	if err != nil {
		s.t.Fatal(err)
	}
	merged := merge(runtime.DeepCopyJSON(before), patch)
	o := make()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(merged, o); err != nil {
		s.t.Fatal(err)
	}
	if m := s.meta(o); m.GetDeletionTimestamp() != nil && len(m.GetFinalizers()) == 0 {
		return o, tracker.Delete(gvr, ns, a.Name)
	} else if m.GetDeletionTimestamp() != nil && len(m.GetFinalizers()) > len(s.meta(have).GetFinalizers()) {
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: gvr.Group, Kind: gvr.Resource}, a.Name, nil)
	}
	s.meta(o).SetResourceVersion(s.next())
	return o, tracker.Update(gvr, o, ns)
}

// merge is RFC 7386 for objects.
func merge(into, patch map[string]any) map[string]any {
	for k, v := range patch {
		p, isMap := v.(map[string]any)
		have, hasMap := into[k].(map[string]any)
		switch {
		case v == nil:
			delete(into, k)
		case isMap && hasMap:
			into[k] = merge(have, p)
		case isMap:
			into[k] = merge(map[string]any{}, p)
		default:
			into[k] = v
		}
	}
	return into
}

func (s *apiServer) next() string {
	s.version++
	return strconv.Itoa(s.version)
}

func conflict(gvr schema.GroupVersionResource, name string) error {
	return apierrors.NewConflict(gvr.GroupResource(), name, nil)
}

// asked returns what was asked since it was called last.
func (s *apiServer) asked() []string {
	out := slices.Clone(s.requests)
	s.requests = nil
	return out
}
