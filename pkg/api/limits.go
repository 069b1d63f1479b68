// Copyright Contributors to the Open Cluster Management project

package api

// The bounds of the spec of a KnativeServing or KnativeEventing. A tenant writes the spec, and the hub's API server and the
// manager hold the spec in memory for all tenants. Each bound is many times larger than Knative needs. The
// CustomResourceDefinitions have the same bounds, for which the API server counts characters; package render counts bytes,
// and bounds the rendered objects.
const (
	// MaxSpecBytes bounds the JSON of a spec, and each text of spec.config.
	MaxSpecBytes = 1 << 20
	// MaxTextBytes bounds every other text, but for the content of a patch.
	MaxTextBytes = 16 << 10
	// MaxListItems and MaxMapKeys bound every list and every map.
	MaxListItems, MaxMapKeys = 256, 1024
	// MaxPatches bounds the entries of spec.patches, and MaxPatchBytes the content of an entry.
	MaxPatches, MaxPatchBytes = 100, 64 << 10
)
