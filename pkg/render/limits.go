// Copyright Contributors to the Open Cluster Management project

package render

import "time"

// These are the bounds of a rendering; package api has the bounds of a spec. Tenants write the resources, and all tenants
// share the program that renders. docs/rendering.md lists the bounds for users.
const (
	// maxYAMLBytes bounds a value of spec.config that the operator reads as YAML.
	maxYAMLBytes = 64 << 10
	// maxPatchesBytes bounds the content of all patches.
	maxPatchesBytes = 256 << 10
	// maxPatchedBytes bounds the sum of the bytes that all patches read and write.
	maxPatchedBytes = 32 << 20

	// maxObjectBytes bounds the JSON of an object, also after every patch. An API server accepts little more.
	maxObjectBytes = 1 << 20
	// maxObjects and maxBundleBytes bound a bundle in both delivery modes; a ManifestWork has bounds of its own.
	maxObjects, maxBundleBytes = 2000, 4 << 20

	// maxRemoteBytes bounds all documents of spec.manifests and spec.additionalManifests, and maxDocumentValues the values of
	// a YAML document: a parser needs a hundred bytes for a value that has two.
	maxRemoteBytes, maxDocumentValues = 8 << 20, 200_000

	// maxMessageBytes bounds the message of an Error, which becomes that of a condition.
	maxMessageBytes = 4 << 10
	// maxQuotedBytes bounds a text of a resource that a message repeats.
	maxQuotedBytes = 256

	// maxRenderTime is the time after which the callers of a rendering get an error. A usual rendering takes 50
	// milliseconds, and a few seconds on a machine with twenty times the work that the machine can do.
	maxRenderTime = time.Minute
	// maxRenders is the number of concurrent renderings, and maxRendersOfNamespace the number for one namespace, so that
	// other namespaces always find a place.
	maxRenders, maxRendersOfNamespace = 3, 2
	// promptWait is how long RenderPromptly waits, maxWaiting the number of callers that may wait, and
	// maxWaitingForNamespace the number for resources of one namespace. The callers are workers of controllers, which serve
	// all namespaces.
	promptWait, maxWaiting, maxWaitingForNamespace = 5 * time.Second, 4, 2
	// maxQueuedInputs is the number of different specs of the resources of one namespace that may wait for a rendering. A spec has up to 1 MiB.
	maxQueuedInputs = 50

	// maxCacheBytes bounds the JSON of all bundles in the cache, where bundles share objects; an object takes about five
	// times as much memory.
	maxCacheBytes = 24 << 20
	// entryBytes is the charge of a cache entry besides the objects.
	entryBytes = 2 << 10
)
