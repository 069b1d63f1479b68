// Copyright Contributors to the Open Cluster Management project

package memoryspoke

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json" // reads integers as integers
)

// store holds the objects of a Spoke. Objects in the store and in the history never change: a write replaces the object.
type store struct {
	mu      sync.Mutex
	version int
	objects map[objectPath]*unstructured.Unstructured
	// history has every change, in the order of the versions.
	history []change
	// changed has a channel for each watch, which gets a value after a change.
	changed map[chan struct{}]struct{}
}

// change is one version of an object.
type change struct {
	version   int
	eventType string
	path      objectPath
	object    *unstructured.Unstructured
}

// request is a request for one object.
type request struct {
	verb         string
	path         objectPath
	body         []byte
	fieldManager string
}

func newStore() *store {
	s := &store{version: 1, objects: map[objectPath]*unstructured.Unstructured{}, changed: map[chan struct{}]struct{}{}}
	for _, name := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem} {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
		o.SetName(name)
		s.put(namespacePath(name), o)
	}
	return s
}

func namespacePath(name string) objectPath {
	return objectPath{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, name: name}
}

// answer answers a request for one object. An error is an API status.
func (s *store) answer(r *request) (*unstructured.Unstructured, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := &unstructured.Unstructured{}
	if r.verb == verbCreate || r.verb == verbUpdate || r.verb == verbApply {
		if err := json.Unmarshal(r.body, &in.Object); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		if r.verb == verbCreate {
			r.path.name = in.GetName()
		}
		if err := s.checkNamespace(r.path); err != nil {
			return nil, err
		}
	}
	have := s.objects[r.path]
	resource := r.path.GroupResource()
	switch {
	case r.verb == verbCreate && have != nil:
		return nil, apierrors.NewAlreadyExists(resource, r.path.name)
	case have == nil && r.verb != verbCreate && r.verb != verbApply:
		return nil, apierrors.NewNotFound(resource, r.path.name)
	case r.verb == verbGet:
		return have, nil
	case r.verb == verbDelete:
		return s.delete(r, have)
	case r.verb == verbUpdate && in.GetResourceVersion() != "" && in.GetResourceVersion() != have.GetResourceVersion():
		return nil, apierrors.NewConflict(resource, r.path.name, errors.New("the object has been modified"))
	}
	operation := metav1.ManagedFieldsOperationUpdate
	if r.verb == verbApply {
		operation = metav1.ManagedFieldsOperationApply
	}
	in.SetManagedFields([]metav1.ManagedFieldsEntry{{
		Manager: r.fieldManager, Operation: operation, APIVersion: in.GetAPIVersion(), FieldsType: "FieldsV1",
		FieldsV1: &metav1.FieldsV1{Raw: fmt.Appendf(nil, `{"f:%x":{}}`, sha256.Sum256(r.body))},
	}})
	return s.write(r.path, have, in), nil
}

// checkNamespace returns the error of an API server for an object in a namespace that does not exist.
func (s *store) checkNamespace(path objectPath) error {
	if path.namespace == "" || s.objects[namespacePath(path.namespace)] != nil {
		return nil
	}
	return apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, path.namespace)
}

// write stores an object with the fields that an API server and controllers set. An object that does not change gets no new version.
func (s *store) write(path objectPath, have, in *unstructured.Unstructured) *unstructured.Unstructured {
	delete(in.Object, "status") // a subresource
	in.SetNamespace(path.namespace)
	in.SetGeneration(1)
	if have != nil {
		in.SetUID(have.GetUID())
		in.SetCreationTimestamp(have.GetCreationTimestamp())
		in.SetResourceVersion(have.GetResourceVersion())
		in.SetGeneration(have.GetGeneration())
		if !equality.Semantic.DeepEqual(have.Object["spec"], in.Object["spec"]) {
			in.SetGeneration(have.GetGeneration() + 1)
		}
		if status, ok := have.Object["status"]; ok {
			in.Object["status"] = status
		}
	}
	setRolledOut(in)
	if have != nil && equality.Semantic.DeepEqual(have.Object, in.Object) {
		return have
	}
	s.put(path, in)
	return in
}

// put adds a version. The caller holds the lock, or is the only user of the store.
func (s *store) put(path objectPath, o *unstructured.Unstructured) {
	eventType := "MODIFIED"
	if s.objects[path] == nil {
		eventType = "ADDED"
		o.SetUID(types.UID(newUID()))
		o.SetCreationTimestamp(metav1.Now())
	}
	s.version++
	o.SetResourceVersion(strconv.Itoa(s.version))
	s.objects[path] = o
	s.record(change{s.version, eventType, path, o})
}

// record adds a change to the history, and wakes the watches.
func (s *store) record(c change) {
	s.history = append(s.history, c)
	for changed := range s.changed {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
}

// delete removes an object, and with a Namespace all objects of the Namespace.
func (s *store) delete(r *request, have *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	var options metav1.DeleteOptions
	if len(r.body) > 0 {
		if err := json.Unmarshal(r.body, &options); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	if p := options.Preconditions; p != nil && p.UID != nil && *p.UID != have.GetUID() {
		return nil, apierrors.NewConflict(r.path.GroupResource(), r.path.name, fmt.Errorf("the UID is %s", have.GetUID()))
	}
	s.drop(r.path, have)
	if r.path == namespacePath(r.path.name) {
		for path, o := range s.objects {
			if path.namespace == r.path.name {
				s.drop(path, o)
			}
		}
	}
	return have, nil
}

func (s *store) drop(path objectPath, have *unstructured.Unstructured) {
	delete(s.objects, path)
	s.version++
	deleted := have.DeepCopy()
	deleted.SetResourceVersion(strconv.Itoa(s.version))
	s.record(change{s.version, "DELETED", path, deleted})
}
