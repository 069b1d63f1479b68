// Copyright Contributors to the Open Cluster Management project

package render

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"knative.dev/operator/pkg/apis/operator/v1beta1"
	"knative.dev/operator/pkg/reconciler/common"

	"open-cluster-management.io/knative-addon/pkg/api"
	"open-cluster-management.io/knative-addon/pkg/render/internal/remote"
	"open-cluster-management.io/knative-addon/pkg/render/releases"
	"open-cluster-management.io/knative-addon/pkg/trust"
)

// Renderer renders Installs and is safe for concurrent use.
type Renderer struct {
	config  Config
	catalog *catalog
	source  string
	allowed allowedKinds
	bundles *bundles
	fetcher *remote.Fetcher
	store   *objectStore
	waiters waiterLimit
	// private is a directory of the Renderer, which Close removes.
	private *privateDirectory
	// idle calls releaseMemory after a time without renderings.
	idle *time.Timer
}

// parsedLifetime is how long parsed release manifests stay in memory after the last use: two megabytes for a version and
// component, which take a tenth of a second to parse again.
const parsedLifetime = 5 * time.Second

// New opens the release manifests. The caller closes the Renderer.
func New(cfg Config) (*Renderer, error) {
	fetcher, err := remote.New(cfg.RemoteManifests, trust.IsPublic)
	if err != nil {
		return nil, err
	}
	private, err := makePrivateDirectory()
	if err != nil {
		return nil, newError(api.ReasonReleasesMissing, "cannot make a directory for the release manifests: %w", err)
	}
	r := &Renderer{
		config: cfg, allowed: newAllowedKinds(cfg.AllowedKinds), bundles: newBundles(cfg.CacheSize), fetcher: fetcher,
		store: newObjectStore(), private: private, idle: time.AfterFunc(parsedLifetime, releaseMemory),
	}
	if err := r.openReleases(); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// openReleases finds the release manifests, or unpacks the embedded manifests to the private directory.
func (r *Renderer) openReleases() error {
	dir := cmp.Or(r.config.ReleasesDir, os.Getenv(common.KoEnvKey))
	added := r.config.FurtherReleases.Path
	switch {
	case dir == "":
		var err error
		if dir, err = r.unpackReleases(); err != nil {
			return err
		}
	case added != "":
		return newError(api.ReasonReleasesMissing, "cannot add the releases of directory %q to those of %s=%q, which are not this program's: "+
			"unset %s, or copy the releases there", added, common.KoEnvKey, dir, common.KoEnvKey)
	default:
		r.source = "directory " + dir + ", unverified"
	}
	var err error
	r.catalog, err = readCatalog(dir)
	return err
}

// unpackReleases writes the embedded releases, and the releases of the administrator's directory, below the private directory, and returns
// their directory.
func (r *Renderer) unpackReleases() (string, error) {
	dir := filepath.Join(r.private.path, "releases")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", newError(api.ReasonReleasesMissing, "cannot make a directory for the release manifests: %w", err)
	}
	sum, err := releases.Unpack(dir)
	if err != nil {
		return "", newError(api.ReasonReleasesMissing, "%w", err)
	}
	r.source = fmt.Sprintf("%s %s, sha256:%s", releases.Module, sum.Version, sum.SHA256)
	return dir, r.addFurtherReleases(dir)
}

// Close removes the unpacked manifests. Bundles stay valid.
func (r *Renderer) Close() error {
	r.idle.Stop()
	return r.private.removeDirectory()
}

// Source describes the origin of the release manifests and whether they were verified.
func (r *Renderer) Source() string { return r.source }

// CacheStats counts the requests that the cache answered and the renderings.
func (r *Renderer) CacheStats() CacheStats { return r.bundles.readStats() }

// Render returns the bundle of the Install. Equal content, with equal values of clusters, has the same *Bundle, which the
// caller must not change. Installs wait in a queue that takes the namespaces of their resources in turn.
func (r *Renderer) Render(ctx context.Context, in *Install, opts Options) (*Bundle, error) {
	e, err := r.startRendering(ctx, in, opts)
	if err != nil {
		return nil, err
	}
	return e.awaitBundle(ctx)
}

// RenderPromptly is Render for workers of controllers. For an unknown bundle, the worker waits briefly, and not at all when
// other workers wait already; then IsPending reports the error, and the worker asks again later.
func (r *Renderer) RenderPromptly(ctx context.Context, in *Install, opts Options) (*Bundle, error) {
	if !in.fetchesDocuments() {
		e, err := r.startRendering(ctx, in, opts)
		if err != nil {
			return nil, err
		}
		if e.isSettled() {
			return e.bundle, e.err
		}
	}
	limit := time.Duration(0)
	if r.waiters.admitWaiter(in.namespace) {
		defer r.waiters.releaseWaiter(in.namespace)
		limit = promptWait
	}
	waiting, cancel := context.WithTimeoutCause(ctx, limit, newError(api.FaultRenderPending,
		"%s %q is being rendered, or others before it", in.component.Kind(), objectName(in.namespace, in.name)))
	defer cancel()
	return r.Render(waiting, in, opts)
}

// startRendering returns the cache entry of the Install and starts the rendering of a new entry.
func (r *Renderer) startRendering(ctx context.Context, in *Install, opts Options) (*entry, error) {
	if err := in.checkValues(); err != nil {
		return nil, err
	}
	exact, err := r.VersionOf(in)
	if err != nil {
		return nil, err
	}
	verification, err := in.verificationMode(opts)
	if err != nil {
		return nil, err
	}
	if err := r.CheckNamespace(in); err != nil {
		return nil, err
	}
	restricted := r.isRestricted(in)
	if restricted {
		if err := in.refuseOwnManifests(); err != nil {
			return nil, err
		}
	}
	src, err := r.fetchSources(ctx, in, exact)
	if err != nil {
		return nil, err
	}
	j := job{install: in, version: exact, sources: src, options: opts.withDefaults(), verification: verification, restricted: restricted}
	//nolint:contextcheck // other callers may wait for this bundle after the first caller has stopped waiting
	return r.bundles.startRendering(in.namespace, j.cacheKey(), func(ctx context.Context, begin func()) (*Bundle, error) {
		j.begin = begin
		return r.renderJob(ctx, j)
	}), nil
}

// job is the complete input of a rendering.
type job struct {
	install *Install
	version string
	sources sources
	options Options
	// verification is the mode of the verification; empty means api.VerificationNone.
	verification string
	// begin starts the time limit of the rendering; may be nil.
	begin func()
	// restricted reports whether the resource is of a namespace without trust.
	restricted bool
}

func (j *job) cacheKey() key {
	return key{
		content: j.install.content, cluster: j.install.cluster, remote: j.sources.contentHash(), version: j.version,
		namespace: j.install.target, options: j.options, verification: j.verification, restricted: j.restricted,
	}
}

// inputsHash returns Bundle.Inputs. Managers compare the hashes of other managers: another algorithm delivers every rendering at once.
func (j *job) inputsHash() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%x", j.install.SpecVersion(), j.install.target, j.install.cluster))
	return hex.EncodeToString(sum[:inputsBytes])
}

// inputsBytes is the length of Bundle.Inputs.
const inputsBytes = 6

func (r *Renderer) renderJob(ctx context.Context, j job) (*Bundle, error) {
	var err error
	inputs := j.inputsHash()
	if j.install, err = j.install.expandReferences(); err != nil {
		return nil, err
	}
	if j.restricted {
		if err := r.checkSpec(j.install); err != nil {
			return nil, err
		}
	}
	objects, err := r.operatorOutput(ctx, j)
	if err != nil {
		return nil, err
	}
	d := &draft{
		component: j.install.component, version: j.version, namespace: j.install.target, spec: j.install.componentSpec(),
		patches: j.install.patches, ingresses: j.install.enabledIngresses(), options: j.options, allowed: r.allowed,
		warnings: append(j.sources.listWarnings(), j.install.deployment.listWarnings()...),
		objects:  objects, store: r.store, users: map[ObjectID]bool{}, additional: map[ObjectID]bool{},
		stopped: func() error { return context.Cause(ctx) },
	}
	b, err := d.buildBundle()
	if err != nil {
		return nil, err
	}
	b.Inputs, b.Verification = inputs, newVerification(j.install, cmp.Or(j.verification, api.VerificationNone))
	if !j.restricted {
		return b, nil
	}
	if err := r.checkBundle(ctx, j, b); err != nil {
		return nil, err
	}
	return b, nil
}

// makeDocumentDirectory makes a directory for the documents of one rendering. The returned function removes the directory, and makes the
// Knative Operator's functions forget the documents: resources could otherwise fill the disk and the memory with ever new documents.
func (r *Renderer) makeDocumentDirectory(s sources) (path string, remove func(), err error) {
	if len(s.manifests)+len(s.additional) == 0 {
		return "", func() {}, nil
	}
	path, err = os.MkdirTemp(r.private.path, "documents-")
	if err != nil {
		return "", nil, newError(api.ReasonRenderFailed, "cannot make a directory for the documents of a resource: %w", err)
	}
	return path, func() {
		forgetParsed()
		_ = os.RemoveAll(path) // Close removes the parent
	}, nil
}

// operatorOutput returns the objects that the Knative Operator would install.
func (r *Renderer) operatorOutput(ctx context.Context, j job) ([]*unstructured.Unstructured, error) {
	defer r.idle.Reset(parsedLifetime)
	documents, removeDocuments, err := r.makeDocumentDirectory(j.sources)
	if err != nil {
		return nil, err
	}
	defer removeDocuments()
	op := operator{dir: r.catalog.dir, minVersion: r.config.KubernetesMinVersion, deployment: j.install.deployment, begin: j.begin}
	switch cr := j.install.newResource(j.version).(type) {
	case *v1beta1.KnativeServing:
		if err := r.catalog.checkServing(cr, j.version); err != nil {
			return nil, err
		}
		if err := j.sources.writeFiles(documents, &cr.Spec.CommonSpec, r.allowed); err != nil {
			return nil, err
		}
		return op.runPipeline(ctx, cr, servingPipeline(cr))
	case *v1beta1.KnativeEventing:
		if err := r.catalog.checkEventing(cr, j.version); err != nil {
			return nil, err
		}
		if err := j.sources.writeFiles(documents, &cr.Spec.CommonSpec, r.allowed); err != nil {
			return nil, err
		}
		objects, err := op.runPipeline(ctx, cr, eventingPipeline(cr))
		return withoutTLS(cr, objects), err
	default:
		return nil, newError(api.ReasonRenderFailed, "cannot render %T", cr)
	}
}
