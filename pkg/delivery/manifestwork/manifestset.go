// Copyright Contributors to the Open Cluster Management project

package manifestwork

import (
	"bytes"
	"encoding/json"
	"hash/maphash"

	workv1 "open-cluster-management.io/api/work/v1"
)

// manifestSet is a set of manifests as canonical JSON. The set refers to the texts of a bundle and copies none: each pass over a cluster
// compares the payload several times.
type manifestSet struct {
	seed maphash.Seed
	// entries holds each manifest at the hash of the text, or at the next free number after the hash.
	entries map[uint64]manifestEntry
}

type manifestEntry struct {
	text    []byte
	isFound bool
}

func newManifestSet(size int) *manifestSet {
	return &manifestSet{seed: maphash.MakeSeed(), entries: make(map[uint64]manifestEntry, size)}
}

// add adds canonical JSON.
func (s *manifestSet) add(text []byte) {
	if at, ok := s.lookUp(text); !ok {
		s.entries[at] = manifestEntry{text: text}
	}
}

// lookUp returns the place of a text, or the place for a text that the set lacks.
func (s *manifestSet) lookUp(text []byte) (at uint64, ok bool) {
	for at = maphash.Bytes(s.seed, text); ; at++ {
		entry, taken := s.entries[at]
		if !taken || bytes.Equal(entry.text, text) {
			return at, taken
		}
	}
}

// find returns the place of a manifest, whatever the order of its keys.
func (s *manifestSet) find(raw []byte) (at uint64, ok bool) {
	if at, ok = s.lookUp(raw); ok { // the hub usually stores canonical JSON
		return at, true
	}
	text, ok := canonicalJSON(raw)
	if !ok {
		return 0, false
	}
	return s.lookUp(text)
}

// matches reports whether the payloads together have exactly the manifests of the set, each manifest once. A set serves one call.
func (s *manifestSet) matches(payloads []*workv1.ManifestWork) bool {
	found := 0
	for _, p := range payloads {
		for _, m := range p.Spec.Workload.Manifests {
			at, ok := s.find(m.Raw)
			if !ok || s.entries[at].isFound {
				return false
			}
			s.entries[at] = manifestEntry{text: s.entries[at].text, isFound: true}
			found++
		}
	}
	return found == len(s.entries)
}

// canonicalJSON returns the compact JSON with sorted keys; ok is false for a text that is no JSON.
func canonicalJSON(raw []byte) (text []byte, ok bool) {
	var value any
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber() // a float64 cannot hold every integer
	if decoder.Decode(&value) != nil {
		return nil, false
	}
	text, err := json.Marshal(value)
	return text, err == nil
}
