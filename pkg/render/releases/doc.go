// Copyright Contributors to the Open Cluster Management project

// Package releases holds the Knative release manifests that the program was built with.
//
// The manifests come from the module zip of knative.dev/operator and travel with the binary as an archive, which the build
// makes from the pinned module (command generate, below this package) and which is never committed. The committed
// releases.sum has the module's version and the SHA-256 of the archive's uncompressed tar stream, so that a binary can
// verify that the manifests are the reviewed manifests. The archive is deterministic: the same module gives the same bytes
// on every machine.
//
// The package compiles without the archive. Unpack then returns ErrMissing, which names the remedy.
//
// A Directory of the administrator adds releases to the unpacked archive, after a check of every file against a list of sums. A Directory
// never replaces a release of the archive.
package releases
