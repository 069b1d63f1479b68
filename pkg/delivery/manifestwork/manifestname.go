// Copyright Contributors to the Open Cluster Management project

package manifestwork

import (
	"crypto/sha256"
	"encoding/json"

	"k8s.io/utils/lru"
)

// Each pass over an add-on reads the names of all manifests of a foundation, and annotates the CRDs. All clusters of a fleet have equal
// manifests, and CRDs are large. Both results are therefore remembered by the digest of a manifest.
//
//nolint:gochecknoglobals // the results depend on the manifests alone, and all callers may share the results
var (
	manifestNames      = lru.New(maxRememberedManifests)
	annotatedManifests = lru.New(maxRememberedManifests)
)

// maxRememberedManifests is greater than the number of manifests that the foundations of both components have in two versions. The
// annotated manifests of one version take about 130 kB.
const maxRememberedManifests = 256

// maxRememberedSize is greater than the number of bytes of a CRD of Knative. A work agent may write works: larger manifests are decoded each
// time, so that their results take no memory.
const maxRememberedSize = 128 << 10

// namedManifest is the part of a manifest that names the object. Callers must not change the annotations, which all callers share.
type namedManifest struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name        string            `json:"name"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
}

func (m *namedManifest) String() string { return m.Kind + " " + m.Metadata.Name }

// readManifestName decodes the kind, the name and the annotations of a manifest.
func readManifestName(raw []byte) (*namedManifest, error) {
	digest := sha256.Sum256(raw)
	if known, ok := manifestNames.Get(digest); ok {
		return known.(*namedManifest), nil //nolint:forcetypeassert // every value of the cache is a *namedManifest
	}
	named := &namedManifest{}
	if err := json.Unmarshal(raw, named); err != nil {
		return nil, err
	}
	if len(raw) <= maxRememberedSize {
		manifestNames.Add(digest, named)
	}
	return named, nil
}

// annotation is an annotation of a manifest with a digest.
type annotation struct {
	manifest   [sha256.Size]byte
	key, value string
}

// annotateManifest returns a manifest with an annotation more. Callers must not change the bytes, which all callers share.
func annotateManifest(raw []byte, key, value string) ([]byte, error) {
	id := annotation{manifest: sha256.Sum256(raw), key: key, value: value}
	if known, ok := annotatedManifests.Get(id); ok {
		return known.([]byte), nil //nolint:forcetypeassert // the cache has one type
	}
	annotated, err := encodeAnnotation(raw, key, value)
	if err != nil {
		return nil, err
	}
	if len(annotated) <= maxRememberedSize {
		annotatedManifests.Add(id, annotated)
	}
	return annotated, nil
}

// encodeAnnotation adds an annotation to a manifest and decodes only the metadata.
func encodeAnnotation(raw []byte, key, value string) ([]byte, error) {
	var object, metadata map[string]json.RawMessage
	if err := json.Unmarshal(raw, &object); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(object["metadata"], &metadata); err != nil {
		return nil, err
	}
	if metadata == nil { // JSON null
		metadata = map[string]json.RawMessage{}
	}
	var annotations map[string]string
	if have := metadata["annotations"]; len(have) > 0 {
		if err := json.Unmarshal(have, &annotations); err != nil {
			return nil, err
		}
	}
	if annotations == nil { // no annotations, or JSON null
		annotations = map[string]string{}
	}
	annotations[key] = value
	var err error
	if metadata["annotations"], err = json.Marshal(annotations); err != nil {
		return nil, err
	}
	if object["metadata"], err = json.Marshal(metadata); err != nil {
		return nil, err
	}
	return json.Marshal(object)
}
