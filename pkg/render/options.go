// Copyright Contributors to the Open Cluster Management project

package render

import (
	"open-cluster-management.io/knative-addon/pkg/render/internal/remote"
)

// Mode is how the bundle travels.
type Mode string

const (
	// Pull is delivery by ManifestWork: what the bundle weighs is stored on the hub once per cluster.
	Pull Mode = "pull"
	// Push is delivery straight to the cluster's API server.
	Push Mode = "push"
)

// Options are what a delivery decides. They are comparable: equal options share a bundle.
type Options struct {
	// Mode decides whether the limits of a ManifestWork hold. Empty means Pull.
	Mode Mode
	// KeepDescriptions keeps the descriptions in CRD schemas, which only kubectl explain reads and which are two thirds
	// of their bytes.
	KeepDescriptions bool
	// KeepExamples keeps the _example key of Knative's ConfigMaps, which nothing reads and which is half of the bytes
	// that are not CRDs.
	KeepExamples bool
}

// DefaultOptions are the options of a mode when nobody asked for others: examples are kept where they cost nothing.
func DefaultOptions(mode Mode) Options {
	return Options{Mode: mode, KeepExamples: mode == Push}
}

func (o Options) withDefaults() Options {
	if o.Mode == "" {
		o.Mode = Pull
	}
	return o
}

// Config is what the administrator decides, for all CRs.
type Config struct {
	// ReleasesDir holds the release manifests. Empty means $KO_DATA_PATH, and the embedded archive when that is empty.
	ReleasesDir string
	// KubernetesMinVersion is handed to Knative's workloads as KUBERNETES_MIN_VERSION when it is not empty.
	KubernetesMinVersion string
	// RemoteManifests allows spec.manifests and spec.additionalManifests. The zero value refuses every URL.
	RemoteManifests RemotePolicy
	// AllowedKinds are kinds, as "Kind.group" ("Kind" for the core group), that additional manifests and patches may
	// deliver besides the kinds that Knative's own releases have. "*" allows every kind.
	AllowedKinds []string
	// CacheSize is how many bundles are kept; 0 means 4096.
	CacheSize int
}

// RemotePolicy says which URLs may be fetched.
type RemotePolicy = remote.Policy
