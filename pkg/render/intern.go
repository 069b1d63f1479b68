// Copyright Contributors to the Open Cluster Management project

package render

import (
	"crypto/sha256"
	"runtime"
	"sync"
	"weak"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// objectStore lets bundles share equal objects: CRs that differ in one ConfigMap would otherwise cost a megabyte or two
// each. It holds nothing alive: an object goes with the last bundle that has it.
type objectStore struct {
	mu     sync.Mutex
	byHash map[[sha256.Size]byte]stored
}

// stored is an object and its JSON.
type stored struct {
	object weak.Pointer[unstructured.Unstructured]
	json   []byte
}

func newObjectStore() *objectStore {
	return &objectStore{byHash: map[[sha256.Size]byte]stored{}}
}

// share returns an object and JSON that are equal to the given ones.
func (s *objectStore) share(u *unstructured.Unstructured, data []byte) (*unstructured.Unstructured, []byte) {
	hash := sha256.Sum256(data)
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, found := s.byHash[hash]; found {
		if object := known.object.Value(); object != nil {
			return object, known.json
		}
	}
	// The object gets a place of its own: it comes out of a list whose other members it would keep alive.
	own := &unstructured.Unstructured{Object: u.Object}
	entry := stored{object: weak.Make(own), json: data}
	s.byHash[hash] = entry
	runtime.AddCleanup(own, func(object weak.Pointer[unstructured.Unstructured]) { s.forget(hash, object) }, entry.object)
	return own, data
}

// forget removes an object that nobody has any more, unless an equal one took its place.
func (s *objectStore) forget(hash [sha256.Size]byte, object weak.Pointer[unstructured.Unstructured]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byHash[hash].object == object {
		delete(s.byHash, hash)
	}
}

func (s *objectStore) size() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byHash)
}
