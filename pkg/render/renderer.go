// Copyright Contributors to the Open Cluster Management project

package render

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"knative.dev/operator/pkg/apis/operator/v1beta1"
	"knative.dev/operator/pkg/reconciler/common"

	"open-cluster-management.io/knative-addon/pkg/render/internal/remote"
	"open-cluster-management.io/knative-addon/pkg/render/releases"
)

// Renderer renders Installs. It is safe for concurrent use.
type Renderer struct {
	config  Config
	catalog *catalog
	source  string
	allowed kinds
	bundles *bundles
	fetcher *remote.Fetcher
	store   *objectStore
	// private is a directory of the Renderer's own, removed by Close.
	private string
	// idle runs when nothing was rendered for a while.
	idle *time.Timer
}

// parsedFor is how long parsed release manifests are kept after they were used: two megabytes a version and component, which
// it takes a tenth of a second to parse anew.
const parsedFor = 5 * time.Second

// New opens the release manifests. The caller closes the Renderer.
func New(cfg Config) (*Renderer, error) {
	fetcher, err := remote.New(cfg.RemoteManifests)
	if err != nil {
		return nil, err
	}
	private, err := os.MkdirTemp("", "knative-releases-")
	if err != nil {
		return nil, refuse(ReasonReleasesMissing, "cannot make a directory for the release manifests: %w", err)
	}
	r := &Renderer{
		config: cfg, allowed: allowedKinds(cfg.AllowedKinds), bundles: newBundles(cfg.CacheSize), fetcher: fetcher,
		store: newObjectStore(), private: private, idle: time.AfterFunc(parsedFor, tidy),
	}
	if err := r.open(); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// open finds the release manifests, or unpacks them to the private directory.
func (r *Renderer) open() error {
	dir := firstOf(r.config.ReleasesDir, os.Getenv(common.KoEnvKey))
	if dir != "" {
		r.source = "directory " + dir + ", unverified"
	} else {
		dir = filepath.Join(r.private, "releases")
		if err := os.Mkdir(dir, 0o700); err != nil {
			return refuse(ReasonReleasesMissing, "cannot make a directory for the release manifests: %w", err)
		}
		sum, err := releases.Unpack(dir)
		if err != nil {
			return refuse(ReasonReleasesMissing, "%w", err)
		}
		r.source = fmt.Sprintf("%s %s, sha256:%s", releases.Module, sum.Version, sum.SHA256)
	}
	var err error
	r.catalog, err = readCatalog(dir)
	return err
}

// Close removes what New unpacked. Bundles stay valid.
func (r *Renderer) Close() error {
	r.idle.Stop()
	return os.RemoveAll(r.private)
}

// Source says where the release manifests come from and whether they were verified.
func (r *Renderer) Source() string { return r.source }

// CacheStats count what Render found and what it rendered.
func (r *Renderer) CacheStats() CacheStats { return r.bundles.stats() }

// Render is the bundle of the Install. Equal content, with equal values of clusters where it uses any, gives the same
// *Bundle, which the caller must not change.
func (r *Renderer) Render(ctx context.Context, in *Install, opts Options) (*Bundle, error) {
	if err := in.complete(); err != nil {
		return nil, err
	}
	exact, err := r.VersionOf(in)
	if err != nil {
		return nil, err
	}
	src, err := r.fetchSources(ctx, in, exact)
	if err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	k := key{content: in.content, cluster: in.cluster, remote: src.sum(), version: exact, namespace: in.target, options: opts}
	return r.bundles.get(ctx, k, func() (*Bundle, error) {
		j := job{install: in, version: exact, sources: src, options: opts}
		// Others may wait for this bundle: that the first one stops waiting is no reason to fail them.
		return r.render(context.WithoutCancel(ctx), j)
	})
}

// job is everything that a bundle is rendered from.
type job struct {
	install *Install
	version string
	sources sources
	options Options
}

func (r *Renderer) render(ctx context.Context, j job) (*Bundle, error) {
	var err error
	if j.install, err = j.install.expanded(); err != nil {
		return nil, err
	}
	objects, err := r.operatorOutput(ctx, j)
	if err != nil {
		return nil, err
	}
	d := &draft{
		component: j.install.component, version: j.version, namespace: j.install.target, spec: j.install.spec(),
		patches: j.install.patches, ingresses: j.install.ingresses(), options: j.options, allowed: r.allowed,
		warnings: append(j.sources.warnings(), j.install.deployment.warnings()...),
		objects:  objects, store: r.store, users: map[ObjectID]bool{}, additional: map[ObjectID]bool{},
	}
	return d.finish()
}

// operatorOutput is what the Knative Operator would install.
func (r *Renderer) operatorOutput(ctx context.Context, j job) ([]*unstructured.Unstructured, error) {
	defer r.idle.Reset(parsedFor)
	op := operator{dir: r.catalog.dir, minVersion: r.config.KubernetesMinVersion, deployment: j.install.deployment}
	switch cr := j.install.resource(j.version).(type) {
	case *v1beta1.KnativeServing:
		if err := r.catalog.checkServing(cr, j.version); err != nil {
			return nil, err
		}
		if err := j.sources.localize(r.private, &cr.Spec.CommonSpec, r.allowed); err != nil {
			return nil, err
		}
		return op.run(ctx, cr, servingPipeline(cr))
	case *v1beta1.KnativeEventing:
		if err := r.catalog.checkEventing(cr, j.version); err != nil {
			return nil, err
		}
		if err := j.sources.localize(r.private, &cr.Spec.CommonSpec, r.allowed); err != nil {
			return nil, err
		}
		objects, err := op.run(ctx, cr, eventingPipeline(cr))
		return withoutTLS(cr, objects), err
	default:
		return nil, refuse(ReasonInternal, "cannot render %T", cr)
	}
}
