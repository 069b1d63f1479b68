// Copyright Contributors to the Open Cluster Management project

package render

import (
	"crypto/sha256"
	"runtime"
	"sync"
	"weak"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// objectStore shares equal objects between bundles: CRs that differ in one ConfigMap would otherwise cost one or two
// megabytes each. The store keeps no object alive: an object goes with the last bundle that contains the object.
type objectStore struct {
	mu     sync.Mutex
	byHash map[[sha256.Size]byte]stored
}

// stored is an object with the JSON.
type stored struct {
	object weak.Pointer[unstructured.Unstructured]
	json   []byte
}

func newObjectStore() *objectStore {
	return &objectStore{byHash: map[[sha256.Size]byte]stored{}}
}

// shareObject returns an object and JSON that equal the given ones, and whether another bundle has both.
func (s *objectStore) shareObject(u *unstructured.Unstructured, data []byte) (object *unstructured.Unstructured, encoded []byte, known bool) {
	hash := sha256.Sum256(data)
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, found := s.byHash[hash]; found {
		if object := known.object.Value(); object != nil {
			return object, known.json, true
		}
	}
	// A copy gets memory of its own: the original is part of a list and would keep the other members alive.
	own := &unstructured.Unstructured{Object: u.Object}
	entry := stored{object: weak.Make(own), json: data}
	s.byHash[hash] = entry
	runtime.AddCleanup(own, func(object weak.Pointer[unstructured.Unstructured]) { s.forgetObject(hash, object) }, entry.object)
	return own, data, false
}

// forgetObject removes an object that no bundle has, unless an equal object has the place.
func (s *objectStore) forgetObject(hash [sha256.Size]byte, object weak.Pointer[unstructured.Unstructured]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byHash[hash].object == object {
		delete(s.byHash, hash)
	}
}
