// Copyright Contributors to the Open Cluster Management project

package render

import (
	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render/internal/remote"
	"open-cluster-management.io/knative-addon/pkg/render/releases"
	"open-cluster-management.io/knative-addon/pkg/trust"
)

// Options are the choices of a delivery. Options are comparable: equal options share a bundle.
type Options struct {
	// Mode decides whether the limits of a ManifestWork hold. Empty means api.ModeManifestWork.
	Mode api.DeliveryMode
	// KeepDescriptions keeps the descriptions in CRD schemas: two thirds of the schemas' bytes, which only kubectl explain
	// reads.
	KeepDescriptions bool
	// KeepExamples keeps the _example key of Knative's ConfigMaps: half of the bytes besides the CRDs, which no program
	// reads.
	KeepExamples bool
	// Verification is the value of api.VerificationAnnotation for resources without the annotation, on clusters whose
	// AddOnDeploymentConfig has no such value. Empty means api.VerificationNone.
	Verification string
}

// DefaultOptions returns the default options of a mode: Direct delivery keeps examples, since the hub does not store the
// bundle.
func DefaultOptions(mode api.DeliveryMode) Options {
	return Options{Mode: mode, KeepExamples: mode == api.ModeDirect}
}

func (o Options) withDefaults() Options {
	if o.Mode == "" {
		o.Mode = api.ModeManifestWork
	}
	return o
}

// Config holds the administrator's settings for all CRs.
type Config struct {
	// ReleasesDir holds the release manifests. Empty means $KO_DATA_PATH, and the embedded archive when that is empty.
	ReleasesDir string
	// FurtherReleases is a directory with releases besides the embedded releases. The zero value adds none.
	FurtherReleases ReleasesDirectory
	// KubernetesMinVersion is the value of KUBERNETES_MIN_VERSION for Knative's workloads; empty adds no variable.
	KubernetesMinVersion string
	// RemoteManifests allows spec.manifests and spec.additionalManifests. The zero value refuses every URL.
	RemoteManifests RemotePolicy
	// AllowedKinds are kinds, as "Kind.group" ("Kind" for the core group), that additional manifests and patches may
	// deliver besides the kinds that Knative's own releases have. "*" allows every kind.
	AllowedKinds []string
	// Trust names the namespaces whose resources may deliver more than Knative, and images that all resources may use. The
	// zero value trusts no namespace.
	Trust trust.Policy
	// CacheSize is the number of cached bundles; 0 means 4096.
	CacheSize int
}

// RemotePolicy says which URLs may be fetched.
type RemotePolicy = remote.Policy

// ReleasesDirectory is a directory with releases of Knative that an administrator adds to the embedded releases.
type ReleasesDirectory = releases.Directory
