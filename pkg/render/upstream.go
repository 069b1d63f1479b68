// Copyright Contributors to the Open Cluster Management project

package render

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync"

	mf "github.com/manifestival/manifestival"
	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"knative.dev/operator/pkg/apis/operator/base"
	"knative.dev/operator/pkg/reconciler/common"
	"knative.dev/pkg/logging"
	kversion "knative.dev/pkg/version"

	"open-cluster-management.io/knative-addon/pkg/api"
)

// operatorMu is held around every call into the Knative Operator's functions: they share a cache without a lock and
// read the environment.
//
//nolint:gochecknoglobals // it guards state that is process-wide
var operatorMu sync.Mutex

// operator calls the Knative Operator's functions on one directory of release manifests.
type operator struct {
	dir        string
	minVersion string
	deployment *Deployment // may be nil
}

// stage is a step of the operator's pipeline: it changes the manifest.
type stage func(context.Context, *mf.Manifest, base.KComponent) error

// pipeline is what differs between the components.
type pipeline struct {
	component       api.Component
	appendManifests []stage
	transformers    func(context.Context, *mf.Manifest) []mf.Transformer
}

// run appends and transforms the manifests of cr, which it may change, as the operator's reconcilers do up to the
// point at which they write to a cluster.
func (o operator) run(ctx context.Context, cr base.KComponent, p pipeline) ([]*unstructured.Unstructured, error) {
	operatorMu.Lock()
	defer operatorMu.Unlock()
	restore, err := o.setEnvironment()
	if err != nil {
		return nil, err
	}
	defer restore()

	ctx = logging.WithLogger(ctx, zap.NewNop().Sugar())
	manifest, err := mf.ManifestFrom(mf.Slice{}, mf.UseClient(emptyCluster{}))
	if err != nil {
		return nil, err
	}
	for _, s := range p.appendManifests {
		if err := guarded(func() error { return s(ctx, &manifest, cr) }, nil); err != nil {
			return nil, err
		}
	}
	objects := manifest.Resources() // copies
	for n := range objects {
		if err := o.deployment.apply(&objects[n]); err != nil {
			return nil, err
		}
	}
	long, short := splitByName(objects)
	seen := &progress{resources: long}
	err = guarded(func() error {
		m, err := mf.ManifestFrom(mf.Slice(long), mf.UseClient(emptyCluster{}))
		if err != nil {
			return err
		}
		return common.Transform(ctx, &m, cr, append(p.transformers(ctx, &m), seen.collect)...)
	}, seen)
	if err != nil {
		return nil, err
	}
	rest, err := transformShort(short, cr, p.component)
	return append(seen.done, rest...), err
}

// tidy gives memory back after a time of rendering: what was parsed, and the garbage, ten times as much as the bundles.
func tidy() {
	forgetParsed()
	debug.FreeOSMemory()
}

// forgetParsed has the Knative Operator's functions read release manifests again.
func forgetParsed() {
	operatorMu.Lock()
	defer operatorMu.Unlock()
	common.ClearCache()
}

// setEnvironment points the operator's functions to the release manifests. What they read from the environment else
// would make a bundle depend on where it was rendered.
func (o operator) setEnvironment() (func(), error) {
	restoreDir, err := setenv(common.KoEnvKey, o.dir)
	if err != nil {
		return nil, err
	}
	restoreVersion, err := setenv(kversion.KubernetesMinVersionKey, o.minVersion)
	if err != nil {
		restoreDir()
		return nil, err
	}
	return func() { restoreVersion(); restoreDir() }, nil
}

func setenv(key, value string) (restore func(), err error) {
	before, found := os.LookupEnv(key)
	if err := os.Setenv(key, value); err != nil {
		return nil, fmt.Errorf("cannot set %s: %w", key, err)
	}
	return func() {
		if found {
			_ = os.Setenv(key, before)
		} else {
			_ = os.Unsetenv(key)
		}
	}, nil
}

// progress follows the transformers, which run object by object: collect is the last of them.
type progress struct {
	resources []unstructured.Unstructured
	done      []*unstructured.Unstructured
}

func (p *progress) collect(u *unstructured.Unstructured) error {
	p.done = append(p.done, u)
	return nil
}

// current names the object that is being transformed.
func (p *progress) current() string {
	if p == nil || len(p.done) >= len(p.resources) {
		return "manifests"
	}
	u := p.resources[len(p.done)]
	return fmt.Sprintf("%s %q", u.GetKind(), firstOf(u.GetName(), u.GetGenerateName()))
}

func firstOf(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// guarded is the last resort: the operator's functions panic on input that they do not expect, and one bad CR must not
// stop a manager that serves a fleet.
func guarded(call func() error, p *progress) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = refuse(ReasonInternal, "cannot render %s: the Knative Operator's functions cannot handle it (%v): "+
				"check the part of the spec that changes it", p.current(), cause)
		}
	}()
	if err := call(); err != nil {
		if e := (*Error)(nil); errors.As(err, &e) {
			return err
		}
		return refuse(ReasonInvalidSpec, "cannot render %s: %w", p.current(), err)
	}
	return nil
}

// emptyCluster is what the operator's functions see instead of a cluster: nothing is installed. They would otherwise
// copy what they find there into the manifests.
type emptyCluster struct{}

func (emptyCluster) Get(u *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return nil, apierrors.NewNotFound(schema.GroupResource{Group: u.GroupVersionKind().Group, Resource: u.GetKind()}, u.GetName())
}

func (emptyCluster) Create(*unstructured.Unstructured, ...mf.ApplyOption) error  { return errNoCluster }
func (emptyCluster) Update(*unstructured.Unstructured, ...mf.ApplyOption) error  { return errNoCluster }
func (emptyCluster) Delete(*unstructured.Unstructured, ...mf.DeleteOption) error { return errNoCluster }

var errNoCluster = errors.New("rendering writes to no cluster")
